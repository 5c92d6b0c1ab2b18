/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs_private.h - what jobs.c and jobs_show.c share: names, their jobs, scopes. Included by user/job/ and nothing
 * else.
 */
#ifndef RANKTRACE_JOB_JOBS_PRIVATE_H
#define RANKTRACE_JOB_JOBS_PRIVATE_H

#include "job/jobs.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define NAMELESS_LEN 40

struct job_own {
	struct job_id j;
	struct job_place place;      /* of a scope that lives, for the shown name; good where `claimed` is now */
	char *text;                  /* `shown`, where it is not the name */
	char nameless[NAMELESS_LEN]; /* its name, where there was no room for that one; else "" */
	bool settled;                /* some scope was settled to be it */
	uint64_t claimed;            /* in that round */
	struct job_own *next;        /* of the name */
};

struct name_row { /* a name as one user's processes say it */
	char *name;
	char *key;
	uint32_t user; /* 0: unknown, or in a container */
	uint64_t serial;
	bool placed; /* of some process of it the place is known */
	struct job_own *jobs, *newest;
	size_t n_jobs;
	struct name_row *next_living; /* in names_show() */
	UT_hash_handle hh;
};

struct scope {
	struct job_scope s;
	struct name_row *row;
	uint64_t serial;      /* in order of appearance, from 1 */
	uint64_t tie;         /* equal and not 0: communicators tied them, and no rank of theirs collided since */
	bool rival;           /* a rank of its name lived twice: nothing but a communicator joins it any more */
	bool settled;         /* s.job is no guess */
	struct scope *joined; /* towards the scope that stands for the group */
	bool living, ranked;
	struct job_own *group_job; /* of the group it stands for */
	struct scope *next;        /* in order of appearance */
	char *key;
	UT_hash_handle hh;
};

struct living { /* one process */
	struct scope *s;
	int rank, world;
};

struct jobs {
	struct name_row *names;
	struct scope *scopes, *first, **tail;
	struct living *living;
	size_t n_living, cap_living;
	uint64_t n_names, n_scopes, round;
};

void names_show(struct jobs *j); /* behind a round: what distinguishes living jobs of one name */

#endif
