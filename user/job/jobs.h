/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.h - which processes are one job. A launcher's name alone does not say it: torchrun's default is one name in
 * every pod, and anybody can write any name into an environment: outside of containers, whose borders the kernel
 * keeps, processes of two users are never one job. Processes of one name and one place are a scope, and jobs_settle()
 * says which scopes of a name are one job. The rules: docs/decisions/processes.md, 160. Pure. Texts of
 * places are borrowed: jobs_hold_texts().
 */
#ifndef RANKTRACE_JOB_JOBS_H
#define RANKTRACE_JOB_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/intern.h"
#include "job/job_place.h"

struct job_id {            /* never freed before its struct jobs */
	const char *name;  /* the launcher's; "" it said none */
	const char *shown; /* the name; and once two jobs of it live, what distinguishes them. The text stays good */
	uint32_t nth;      /* of the jobs of that name, from 1 */
};

struct job_scope {
	struct job_id *job; /* never NULL; a guess by the name until the next jobs_settle() */
	const char *name;
	struct job_place place;
	uint32_t n_procs; /* the caller's count: jobs_settle() frees a scope that has none */
};

extern const struct job_id job_none; /* of a process of which nothing is known */

struct jobs;
struct jobs *jobs_new(void); /* NULL: no memory */
void jobs_free(struct jobs *j);

/* The scope of that name and place, made if need be. NULL: no memory. */
struct job_scope *jobs_scope(struct jobs *j, const char *name, const struct job_place *at);

/*
 * A round reports all that lives anew. jobs_rank(): a living process of the scope that is no child; rank and world size
 * -1 unknown. jobs_tie(): living members of one communicator are in both scopes. Then jobs_settle() sets the jobs of
 * scopes that live; others keep theirs. 0 or -ENOMEM: some keep what they had.
 */
void jobs_begin(struct jobs *j);
int jobs_rank(struct jobs *j, struct job_scope *s, int rank, int world);
void jobs_tie(struct job_scope *a, struct job_scope *b);
int jobs_settle(struct jobs *j);

/* intern_hold() for each text that was given by jobs_scope() and is still pointed to. */
void jobs_hold_texts(const struct jobs *j, struct intern *t);

#endif
