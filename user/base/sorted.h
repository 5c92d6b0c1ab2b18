/* SPDX-License-Identifier: Apache-2.0
 *
 * sorted.h - numbers in order, for medians and quantiles. A NaN counts as larger than every number.
 */
#ifndef RANKTRACE_SORTED_H
#define RANKTRACE_SORTED_H

#include <stddef.h>

void doubles_sort(double *v, size_t n); /* ascending */

/* Without a whole sort, in O(n) on average. Each of these leaves `v` in another order. */
double doubles_nth(double *v, size_t n, size_t k); /* the one that stands at `k` < n when sorted */
double doubles_lower_median(double *v, size_t n);  /* of two in the middle the lower; 0 of none */
double doubles_median(double *v, size_t n);        /* of two in the middle their mean; 0 of none */

/* Of a group: the median of all its members but one, for each of them, from one look at the group. */
struct middle {
	double v[3]; /* sorted: where the median of all but one can lie */
	size_t n;
};

struct middle middle_of(double *v, size_t n); /* leaves `v` in another order */
/* doubles_median() of the others, where `own` is one of the group; 0 where there is no other. */
double middle_without(const struct middle *m, double own);

#endif
