/* SPDX-License-Identifier: Apache-2.0
 *
 * heat.h - what each rank took for each of its steps, and by how much it was late in them: the rows of the heat map.
 * A step is the model's (its iteration clock); lateness is the lag behind the first rank that entered a collective.
 *
 * Bounded: a row that gets too long is folded, two steps to one, and keeps the worst of both.
 */
#ifndef RANKTRACE_REPORT_HEAT_H
#define RANKTRACE_REPORT_HEAT_H

#include "model/model.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define HEAT_STEPS_MIN 4 /* with fewer a rank's clock is not believed */

struct heat_step {
	uint64_t begin_ns;
	float s, late_s; /* 0 not known; late_s < 0: it never entered what others waited in */
};

struct heat_point { /* lateness while no step is known */
	uint64_t ns;
	float late_s;
};

struct heat_key {
	uint64_t proc;
	int64_t rank;
};

struct heat_row { /* one rank */
	struct heat_key key;
	uint32_t pid;
	int gpu;         /* -1 not known */
	const char *job; /* lives as long as the model */
	char *host;
	struct heat_step *steps;
	size_t n, cap, clock_from;  /* steps of the present clock begin there */
	unsigned int fold, in_last; /* each of them stands for 1 << fold; the newest for in_last so far */
	uint64_t period_ops, last_nth, last_ns;
	struct heat_point *points;
	size_t n_points;
	uint64_t n_steps, n_last; /* steps begun; collectives in which all others waited for it */
	double late_s;            /* that time */
	float missing_s;          /* > 0: what others wait in at the end it has not entered, for so long */
	UT_hash_handle hh;
};

struct heat {
	struct heat_row *rows;
	size_t n_rows;
};

/* The rank's row; made if need be. NULL: no memory. */
struct heat_row *heat_row(struct heat *h, const struct member *mb);
/* An operation of it, in the order of calls, or a little out of it. */
void heat_op(struct heat *h, struct heat_row *row, const struct op *op);
/* It entered a collective at ns, late_s after the first. */
void heat_late(struct heat_row *row, uint64_t ns, double late_s);
void heat_free(struct heat *h);

#endif
