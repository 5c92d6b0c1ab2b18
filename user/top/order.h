/* SPDX-License-Identifier: Apache-2.0
 *
 * order.h - which rows of a table are shown, in which order, and what many of them sum up to: a host's, a job's. Pure.
 */
#ifndef RANKTRACE_TOP_ORDER_H
#define RANKTRACE_TOP_ORDER_H

#include "top/table.h"

/* clang-format off */
#define TOP_SORTS(X) \
	X(TROUBLE, "trouble") /* findings, then states, the worst first */ \
	X(RANK, "rank") \
	X(LAG, "lag") \
	X(WAIT, "wait") \
	X(STEP, "step") \
	X(CPU, "CPU") \
	X(GPU, "GPU")
#define TOP_GROUPINGS(X) X(NONE, "ranks") X(HOST, "hosts") X(JOB, "jobs")
/* clang-format on */

enum top_sort {
#define X(id, name) TOP_BY_##id,
	TOP_SORTS(X)
#undef X
		TOP_SORT_MAX
};
enum top_grouping {
#define X(id, name) TOP_OF_##id,
	TOP_GROUPINGS(X)
#undef X
		TOP_GROUPING_MAX
};

struct top_choice {
	enum top_sort sort;
	bool reversed;
	const char *filter;     /* in job, host, state, operation or finding; a number: that rank. "": all */
	const char *job, *host; /* of these alone; NULL: any */
};

struct top_group {
	const char *name; /* host or job; "" where it has none */
	const struct top_row *first;
	unsigned int n, n_bad, n_state[TOP_STATE_MAX], n_findings;
	uint64_t lag, wait_ns; /* the most */
	double step_s;         /* the longest; 0 none known */
	const struct incident *worst;
};

const char *top_sort_name(enum top_sort s);
const char *top_grouping_name(enum top_grouping g);
/* Those that are chosen come first in t->order, in order; their number. */
size_t top_choose(struct top_table *t, const struct top_choice *c);
/* Sums of the first `n` of t->order, the worst first: an array to be freed, *ret_n long. NULL: no memory, or n is 0. */
struct top_group *top_groups(const struct top_table *t, size_t n, enum top_grouping by, size_t *ret_n);

#endif
