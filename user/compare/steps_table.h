/* SPDX-License-Identifier: Apache-2.0
 *
 * steps_table.h - ranks by phases: the medians of each rank's steps, and which rank is the slowest of a column. Pure.
 */
#ifndef RANKTRACE_COMPARE_STEPS_TABLE_H
#define RANKTRACE_COMPARE_STEPS_TABLE_H

#include <stdbool.h>

#include "compare/measures.h"

#define STEPS_COLUMNS 10
#define STEPS_NO_MARK (-1)

struct steps_row {
	int rank;
	size_t n_steps;                 /* 0: none ended meanwhile */
	double median_s[STEPS_COLUMNS]; /* -1: not known */
};

struct steps_table {            /* zeroed at first */
	struct steps_row *rows; /* by rank, ascending */
	size_t n, cap;
	/* Row of the slowest rank of each column, where it stands out from the others: by 10 % of their median, by more
	 * than they differ (two pipeline stages of ranks do), and by 1 % of a step. STEPS_NO_MARK: none does, or
	 * waiting is no slowness. */
	int slowest[STEPS_COLUMNS];
	bool phases; /* some row has one */
};

/* "step", "backward", "late" */
const char *steps_column_name(int column);
bool steps_column_is_phase(int column); /* known from PyTorch's marks alone */

/* What `m` has replaces what was there; ranks that it has not stay, with no step. 0 or -ENOMEM. */
int steps_table_set(struct steps_table *t, const struct measures *m);
void steps_table_free(struct steps_table *t);

#endif
