/* SPDX-License-Identifier: Apache-2.0
 *
 * birth.h - communicators that are being created: who is inside, and which ranks of the job are missing, as far as
 * that can be known.
 */
#ifndef RANKTRACE_BIRTH_H
#define RANKTRACE_BIRTH_H

#include "detect/detect.h"
#include "detect/hang/wait.h"

#define BIRTH_MISSING_MAX 64

/* It waits in the call. */
static inline bool birth_inside(const struct birth_member *bm)
{
	return bm->since_ns && !bm->done_ns && !bm->proc->dead;
}

/* Somebody has not called yet, or it is not known how many must. */
static inline bool birth_incomplete(const struct birth *b)
{
	return b->nranks < 0 || b->n_called < b->nranks;
}

uint64_t birth_key(const struct birth *b);      /* the same from tick to tick */
uint64_t birth_since_ns(const struct birth *b); /* the first of those still inside came; UINT64_MAX: nobody is inside */
uint64_t birth_limit_ns(const struct model *m, const struct proc *p);
/* Ranks of the job seen here that did not call, up to BIRTH_MISSING_MAX; their number. exact: these are the missing
 * ones; else those are among them, or on other nodes: the id was given to a part of the job, and nothing says to which.
 */
int birth_missing(const struct model *m, const struct birth *b, const struct proc **list, bool *ret_exact);
/* Does this rank, and surely this, keep the creation waiting? */
bool birth_lack(const struct model *m, const struct birth *b, const struct proc *p, struct lack *l);

/* init.c. A rank that is missing: hang, observation or nothing yet; several of one creation share the finding. */
int init_judge(const struct model *m, const struct proc *p, const struct lack *l, uint64_t busy_limit_ns,
	       struct finding_list *found);
/* Creations that wait for ranks which cannot be named. */
int init_report_unnamed(const struct model *m, uint64_t busy_limit_ns, struct finding_list *found);

#endif
