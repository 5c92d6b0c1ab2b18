/* SPDX-License-Identifier: Apache-2.0
 *
 * init_missing.h - which ranks a creation of a communicator that is pending lacks, as far as that can be known.
 */
#ifndef RANKTRACE_INIT_MISSING_H
#define RANKTRACE_INIT_MISSING_H

#include "detect/rank/seats.h"

#define INIT_MISSING_MAX 64

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
/* Some rank of the job is in a creation that is pending. */
bool job_creates(const struct model *m, const struct job_id *job);
/* When the first of those that wait in it came; UINT64_MAX: none waits. */
uint64_t comm_init_since_ns(const struct comm_init *b);
uint64_t comm_init_limit_ns(const struct model *m, const struct proc *p);
/* Ranks of the job seen here that did not call, up to INIT_MISSING_MAX; their number. exact: these are the missing
 * ones; else those are among them, or on other nodes: the id was given to a part of the job, and nothing says to which.
 */
int comm_init_missing(const struct model *m, const struct comm_init *b, struct rank_ref *list, bool *ret_exact);

#endif
