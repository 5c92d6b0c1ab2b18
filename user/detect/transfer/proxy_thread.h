/* SPDX-License-Identifier: Apache-2.0
 *
 * proxy_thread.h - what NCCL's progress thread of a member does while its operations are active: it spins, as it
 * should, or something keeps it from that.
 */
#ifndef RANKTRACE_PROXY_THREAD_H
#define RANKTRACE_PROXY_THREAD_H

#include "finding.h"
#include "model/ahead.h"

enum proxy_thread {                  /* the worse the higher */
		    PROXY_UNSEEN,    /* which thread it is, or what it does, is not known */
		    PROXY_UNSETTLED, /* it waits for a CPU, as others do */
		    PROXY_STARVED, /* it waits for a CPU as none of its peers does, by the last scan: chance, unless it
				      lasts */
		    PROXY_POLLS_LATE, /* it looked between the last two scans, and waited for a CPU much of that time */
		    PROXY_POLLS,      /* it had the CPU, and looked */
		    PROXY_ASLEEP,     /* with operations active it never is */
		    PROXY_BLOCKED,    /* D state */
		    PROXY_STOPPED,    /* its process is */
		    PROXY_DEAD,
};

/* The task; NULL not known. */
const struct task *proxy_task(const struct member *mb);
enum proxy_thread proxy_thread_judge(const struct member *mb);
/* Asleep without a break. Of such a one nothing new is reported until it wakes: what was seen last holds. */
bool proxy_at_rest(const struct task *t);
/* Share of the time between the last two scans for which the peers' threads waited for a CPU, on average; -1 not known.
 */
double proxy_peers_wait(const struct member *mb);
/* The thread, as evidence. */
void proxy_thread_note(struct finding *f, const struct member *mb);

#endif
