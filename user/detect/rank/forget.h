/* SPDX-License-Identifier: Apache-2.0
 *
 * forget.h - what a detector keeps of jobs and processes that come and go by the thousand: it goes once the model has
 * forgotten them, once a minute.
 */
#ifndef RANKTRACE_FORGET_H
#define RANKTRACE_FORGET_H

#include "base/keyed.h"
#include "model/ahead.h"

struct forgetting {
	uint64_t read_ns; /* zeroed at first */
};

/* Entries keyed by the address of a struct job_id; `release` frees what an entry owns, NULL: nothing. */
void jobs_forget(struct forgetting *f, struct keyed_table *jobs, const struct model *m, void (*release)(void *entry));
/* Entries of two tables keyed by a process' key; they own nothing. */
void procs_forget(struct forgetting *f, struct keyed_table *a, struct keyed_table *b, const struct model *m);

#endif
