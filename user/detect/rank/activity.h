/* SPDX-License-Identifier: Apache-2.0
 *
 * activity.h - what a late rank does instead: stopped, dead, blocked, asleep, or at work.
 */
#ifndef RANKTRACE_ACTIVITY_H
#define RANKTRACE_ACTIVITY_H

#include "finding.h"
#include "model/ahead.h"

enum activity {
	ACTIVITY_UNSEEN,    /* no scheduler data of this rank */
	ACTIVITY_UNSETTLED, /* the last scan still reaches back before `since` */
	ACTIVITY_DEAD,
	ACTIVITY_STOPPED,
	ACTIVITY_BLOCKED, /* a task in D state past the limit */
	ACTIVITY_DISK,    /* in D state, not that long: an ordinary storage wait */
	ACTIVITY_ASLEEP,  /* no CPU, no bytes, no calls, no counter that moves, no work of its GPU */
	ACTIVITY_BUSY,
	ACTIVITY_GPU, /* asleep, but its GPU works; or it waits for that, and nothing is known of the GPU */
};

struct rank_activity {
	enum activity what;
	double cpu_share; /* cores, over the last scan; -1 unknown */
	double io_bytes_s;
	const struct task *task; /* the one that shows it: blocked, stopped, or the one that calls NCCL */
};

/* A rank, or what may be one, on a host that reports: not its children. */
bool rank_counts(const struct proc *p);
/* Dead, or its main thread is stopped. */
bool proc_gone_or_stopped(const struct proc *p);
/* Of one that is stopped: by a signal, or frozen. */
enum finding_cause proc_stop_cause(const struct proc *p);
/* The thread that would make the next call. */
uint32_t rank_calling_tid(const struct proc *p);
/* That thread sleeps since long, without a break. */
bool rank_at_rest(const struct proc *p);
/* What the rank did one period before its present place: what it would call next, from the same thread. NULL: no
 * period is known. */
const struct op *rank_next_op(const struct proc *p);
/* What else than its threads says since then: busy, its children work, or bytes come that are no peer's; unsettled, a
 * child is too young to say; else asleep. A thread of it may sleep for these. */
enum activity rank_helpers_activity(const struct model *m, const struct proc *p, uint64_t since_ns);
/* Of the rank and its children since it is late (`since_ns`). */
struct rank_activity rank_activity(const struct model *m, const struct proc *p, uint64_t since_ns);

#endif
