/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sorted.c - selection against a whole sort: every place of groups of 1 to 300 numbers, with few and with many
 * that are equal, in order and not, with NaN among them; and the median of all but one.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/sorted.h"

#define MOST 300

static uint64_t drawn = 1;

static unsigned int draw(unsigned int below)
{
	drawn = drawn * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned int)(drawn >> 33) % below;
}

enum order { DRAWN, RISING, FALLING, WITH_NAN, ORDERS };

static void fill(double *v, size_t n, enum order order, unsigned int values)
{
	for (size_t i = 0; i < n; i++) {
		v[i] = (double)draw(values) - values / 2.0;
		if (order == WITH_NAN && !draw(4))
			v[i] = NAN;
	}
	if (order != RISING && order != FALLING)
		return;
	doubles_sort(v, n);
	for (size_t i = 0; order == FALLING && i < n / 2; i++) {
		double one = v[i];

		v[i] = v[n - 1 - i];
		v[n - 1 - i] = one;
	}
}

static void assert_same(double a, double b)
{
	assert_true(a == b || (isnan(a) && isnan(b)));
}

/* By counting, not by the code that is tested. */
static void is_nth(const double *v, size_t n, size_t k, double is)
{
	size_t less = 0, equal = 0;

	for (size_t i = 0; i < n; i++) {
		less += isnan(is) ? !isnan(v[i]) : v[i] < is;
		equal += v[i] == is || (isnan(is) && isnan(v[i]));
	}
	assert_true(less <= k && k < less + equal);
}

static void each_place(const double *v, size_t n)
{
	double room[MOST];

	for (size_t k = 0; k < n; k += n < 40 ? 1 : 7) {
		memcpy(room, v, n * sizeof(*v));
		is_nth(v, n, k, doubles_nth(room, n, k));
		doubles_sort(room, n); /* the same numbers still */
		is_nth(v, n, k, room[k]);
	}
}

static double median_by_sort(const double *v, size_t n, size_t without)
{
	double room[MOST];
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		if (i != without)
			room[k++] = v[i];
	doubles_sort(room, k);
	return !k ? 0 : k % 2 ? room[k / 2] : (room[k / 2 - 1] + room[k / 2]) / 2;
}

static void medians(const double *v, size_t n)
{
	double room[MOST];
	struct middle middle;

	memcpy(room, v, n * sizeof(*v));
	assert_same(doubles_median(room, n), median_by_sort(v, n, n));
	memcpy(room, v, n * sizeof(*v));
	is_nth(v, n, (n - 1) / 2, doubles_lower_median(room, n));
	memcpy(room, v, n * sizeof(*v));
	middle = middle_of(room, n);
	for (size_t i = 0; i < n; i++)
		assert_same(middle_without(&middle, v[i]), median_by_sort(v, n, i));
}

static void for_all(void (*what)(const double *v, size_t n))
{
	static const unsigned int values[] = { 1, 3, 1000000 };
	double v[MOST];

	for (size_t n = 1; n <= MOST; n += n < 40 ? 1 : 13)
		for (int order = 0; order < ORDERS; order++)
			for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
				fill(v, n, order, values[i]);
				what(v, n);
			}
}

static void test_every_place(void **state)
{
	(void)state;
	for_all(each_place);
}

static void test_medians(void **state)
{
	(void)state;
	for_all(medians);
}

static void test_known_ones(void **state)
{
	double one[] = { 7 }, two[] = { 4, 1 }, odd[] = { 5, 1, 3 }, even[] = { 4, 1, 3, 10 }, same[] = { 2, 2, 2, 2 };
	struct middle m;

	(void)state;
	assert_true(doubles_median(NULL, 0) == 0 && doubles_lower_median(NULL, 0) == 0);
	assert_true(doubles_median(one, 1) == 7 && doubles_lower_median(one, 1) == 7);
	assert_true(doubles_median(two, 2) == 2.5 && doubles_lower_median(two, 2) == 1);
	assert_true(doubles_median(odd, 3) == 3 && doubles_median(even, 4) == 3.5);
	assert_true(doubles_median(same, 4) == 2);
	m = middle_of(one, 1); /* it has no others */
	assert_true(middle_without(&m, 7) == 0);
	m = middle_of(two, 2);
	assert_true(middle_without(&m, 4) == 1 && middle_without(&m, 1) == 4);
	m = middle_of(odd, 3);
	assert_true(middle_without(&m, 1) == 4 && middle_without(&m, 3) == 3 && middle_without(&m, 5) == 2);
	m = middle_of(even, 4);
	assert_true(middle_without(&m, 10) == 3 && middle_without(&m, 1) == 4);
}

static void test_nan_is_largest(void **state)
{
	double v[] = { NAN, 1, NAN, 2, 3 };

	(void)state;
	assert_true(doubles_nth(v, 5, 0) == 1 && doubles_nth(v, 5, 2) == 3);
	assert_true(isnan(doubles_nth(v, 5, 3)) && isnan(doubles_nth(v, 5, 4)));
	assert_true(doubles_median(v, 5) == 3);
	doubles_sort(v, 5);
	assert_true(v[0] == 1 && v[2] == 3 && isnan(v[3]) && isnan(v[4]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_place),
		cmocka_unit_test(test_medians),
		cmocka_unit_test(test_known_ones),
		cmocka_unit_test(test_nan_is_largest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
