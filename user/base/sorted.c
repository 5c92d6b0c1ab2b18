/* SPDX-License-Identifier: Apache-2.0
 *
 * sorted.c - see sorted.h.
 */
#include "base/sorted.h"

#include <stdlib.h>

static int double_cmp(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

void doubles_sort(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), double_cmp);
}

double doubles_median(double *v, size_t n)
{
	doubles_sort(v, n);
	return !n ? 0 : n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}
