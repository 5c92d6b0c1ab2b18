/* SPDX-License-Identifier: Apache-2.0
 *
 * comm_init.h - stages 1 and 4: communicators whose init (ncclCommInitRank, Split, Shrink, ...) is pending: who waits
 * in the call, and which ranks of the job are missing, as far as that can be known. Takes the model; gives the missing
 * ranks to the wait-for graph, and the findings about them.
 */
#ifndef RANKTRACE_COMM_INIT_H
#define RANKTRACE_COMM_INIT_H

#include "detect/detect.h"
#include "detect/rank/init_missing.h"

struct pending;
struct suspects; /* classify.h: how long a rank may work */

/* --- findings; 0 or -ENOMEM --- */

/* A rank that is missing: hang, observation or nothing yet; several of one init share the finding. */
int comm_init_report_rank(const struct model *m, const struct rank_ref *r, const struct pending *pend,
			  uint64_t busy_limit_ns, struct finding_list *found);
/* The same of the ranks that share a process with others and wait in nothing themselves: no root of the graph. */
int comm_init_report_seats(const struct model *m, const struct suspects *all, struct finding_list *found);
/* That thread of the process waits in a creation which is not complete. */
bool comm_init_thread_waits(const struct model *m, const struct proc *p, uint32_t tid);
/* Inits whose missing ranks no graph has: they cannot be named, or the init is known from memory alone. */
int comm_init_report_rest(const struct model *m, const struct suspects *all, struct finding_list *found);

#endif
