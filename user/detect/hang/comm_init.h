/* SPDX-License-Identifier: Apache-2.0
 *
 * comm_init.h - communicators that are being created: who is inside, and which ranks of the job are missing, as far as
 * that can be known.
 */
#ifndef RANKTRACE_COMM_INIT_H
#define RANKTRACE_COMM_INIT_H

#include "detect/detect.h"
#include "detect/hang/pending.h"

#define INIT_MISSING_MAX 64

/* It waits in the call. */
static inline bool comm_init_waits(const struct birth_member *bm)
{
	return bm->since_ns && !bm->done_ns && !bm->proc->dead;
}

/* Somebody has not called yet, or it is not known how many must. */
static inline bool comm_init_incomplete(const struct birth *b)
{
	return b->nranks < 0 || b->n_called < b->nranks;
}

uint64_t comm_init_key(const struct birth *b); /* the same from tick to tick */
uint64_t comm_init_since_ns(
	const struct birth *b); /* the first of those still inside came; UINT64_MAX: nobody is inside */
uint64_t comm_init_limit_ns(const struct model *m, const struct proc *p);
/* Ranks of the job seen here that did not call, up to INIT_MISSING_MAX; their number. exact: these are the missing
 * ones; else those are among them, or on other nodes: the id was given to a part of the job, and nothing says to which.
 */
int comm_init_missing(const struct model *m, const struct birth *b, const struct proc **list, bool *ret_exact);
/* Does this rank, and surely this, keep the creation waiting? */
bool comm_init_pending(const struct model *m, const struct birth *b, const struct proc *p, struct pending *l);

/* comm_init_report.c. A rank that is missing: hang, observation or nothing yet; several of one creation share the
 * finding. */
int comm_init_report_rank(const struct model *m, const struct proc *p, const struct pending *l, uint64_t busy_limit_ns,
			  struct finding_list *found);
/* Creations that wait for ranks which cannot be named. */
int comm_init_report_unnamed(const struct model *m, uint64_t busy_limit_ns, struct finding_list *found);

#endif
