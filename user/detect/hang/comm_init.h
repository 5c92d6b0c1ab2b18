/* SPDX-License-Identifier: Apache-2.0
 *
 * comm_init.h - stages 1 and 4: communicators whose init (ncclCommInitRank, Split, Shrink, ...) is pending: who waits
 * in the call, and which ranks of the job are missing, as far as that can be known. Takes the model; gives the missing
 * ranks to the wait-for graph, and the findings about them.
 */
#ifndef RANKTRACE_COMM_INIT_H
#define RANKTRACE_COMM_INIT_H

#include "detect/detect.h"

#define INIT_MISSING_MAX 64

struct pending;

/* --- who is missing --- */

/* It waits in the call. */
static inline bool comm_init_waits(const struct comm_init_member *bm)
{
	return bm->since_ns && !bm->done_ns && !bm->proc->dead;
}

/* Some rank has not called yet, or it is not known how many must. */
static inline bool comm_init_incomplete(const struct comm_init *b)
{
	return b->nranks < 0 || b->n_called < b->nranks;
}

uint64_t comm_init_key(const struct comm_init *b); /* the same from tick to tick */
/* When the first of those that wait in it came; UINT64_MAX: none waits. */
uint64_t comm_init_since_ns(const struct comm_init *b);
uint64_t comm_init_limit_ns(const struct model *m, const struct proc *p);
/* Ranks of the job seen here that did not call, up to INIT_MISSING_MAX; their number. exact: these are the missing
 * ones; else those are among them, or on other nodes: the id was given to a part of the job, and nothing says to which.
 */
int comm_init_missing(const struct model *m, const struct comm_init *b, const struct proc **list, bool *ret_exact);

/* --- findings; 0 or -ENOMEM --- */

/* A rank that is missing: hang, observation or nothing yet; several of one init share the finding. */
int comm_init_report_rank(const struct model *m, const struct proc *p, const struct pending *pend,
			  uint64_t busy_limit_ns, struct finding_list *found);
/* Inits whose missing ranks no graph has: they cannot be named, or the init is known from memory alone. */
int comm_init_report_rest(const struct model *m, uint64_t busy_limit_ns, struct finding_list *found);

#endif
