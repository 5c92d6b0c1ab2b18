/* SPDX-License-Identifier: Apache-2.0
 *
 * sorted.c - see sorted.h. Most groups are small, and a call of qsort() for them is most of their cost.
 */
#include "base/sorted.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define SMALL 16 /* so many are inserted in order */

static bool is_less(double x, double y)
{
	return x < y || (isnan(y) && !isnan(x));
}

static int double_cmp(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return is_less(x, y) ? -1 : is_less(y, x);
}

static void small_sort(double *v, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		double one = v[i];
		size_t at = i;

		for (; at && is_less(one, v[at - 1]); at--)
			v[at] = v[at - 1];
		v[at] = one;
	}
}

void doubles_sort(double *v, size_t n)
{
	if (n <= SMALL)
		small_sort(v, n);
	else
		qsort(v, n, sizeof(*v), double_cmp);
}

static double middle_of_three(double a, double b, double c)
{
	double v[] = { a, b, c };

	small_sort(v, 3);
	return v[1];
}

/* Hoare's: what is less than `pivot`, which is one of them, before what is larger. Those from 0 to *ret_left are not
 * above it, those from *ret_right on not below, and what lies between equals it. */
static void part(double *v, ptrdiff_t n, double pivot, ptrdiff_t *ret_left, ptrdiff_t *ret_right)
{
	ptrdiff_t i = 0, j = n - 1;

	while (i <= j) {
		double at_i, at_j;

		while (is_less(v[i], pivot))
			i++;
		while (is_less(pivot, v[j]))
			j--;
		if (i > j)
			break;
		at_i = v[i];
		at_j = v[j];
		v[i++] = at_j;
		v[j--] = at_i;
	}
	*ret_left = j;
	*ret_right = i;
}

double doubles_nth(double *v, size_t n, size_t k)
{
	while (n > SMALL) {
		double pivot = middle_of_three(v[0], v[n / 2], v[n - 1]);
		ptrdiff_t left, right;

		part(v, (ptrdiff_t)n, pivot, &left, &right);
		if ((ptrdiff_t)k <= left) {
			n = (size_t)left + 1;
		} else if ((ptrdiff_t)k < right) {
			return pivot;
		} else {
			v += right;
			n -= (size_t)right;
			k -= (size_t)right;
		}
	}
	small_sort(v, n);
	return v[k];
}

double doubles_lower_median(double *v, size_t n)
{
	return n ? doubles_nth(v, n, (n - 1) / 2) : 0;
}

/* What stands behind the nth is not below it: the next one is the least of that. */
static double next_of(double *v, size_t n, size_t k)
{
	return doubles_nth(v + k + 1, n - k - 1, 0);
}

double doubles_median(double *v, size_t n)
{
	double lower = doubles_lower_median(v, n);

	return n % 2 || !n ? lower : (lower + next_of(v, n, n / 2 - 1)) / 2;
}

struct middle middle_of(double *v, size_t n)
{
	struct middle m = { .n = n };

	if (n < 2)
		return m;
	m.v[0] = doubles_nth(v, n, n / 2 - 1);
	m.v[1] = next_of(v, n, n / 2 - 1);
	m.v[2] = n % 2 ? next_of(v, n, n / 2) : m.v[1];
	return m;
}

double middle_without(const struct middle *m, double own)
{
	if (m->n % 2 == 0)
		return is_less(m->v[0], own) ? m->v[0] : m->v[1];
	if (is_less(own, m->v[1]))
		return (m->v[1] + m->v[2]) / 2;
	return (m->v[0] + m->v[is_less(m->v[1], own) ? 1 : 2]) / 2;
}
