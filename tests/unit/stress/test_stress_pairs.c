/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stress_pairs.c - all pairs of a few members: each pair once, none twice in a round; who is bad by what failed
 * and by rates; what is between two; what cannot be said.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/stress/bisect/pairs.h"

#define SHARE 0.92

static struct pairs p;

static void pairs_make(int n)
{
	memset(&p, 0, sizeof(p));
	p.n = n;
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			p.rates[i][j] = i == j ? 0 : 50;
}

static void rate_set(int i, int j, double rate)
{
	p.rates[i][j] = p.rates[j][i] = rate;
}

static void pair_fail(int i, int j)
{
	p.failed[i][j] = p.failed[j][i] = true;
	rate_set(i, j, 0);
}

static void member_slow(int member)
{
	for (int i = 0; i < p.n; i++)
		if (i != member)
			rate_set(i, member, 25);
}

static void test_rounds(void **state)
{
	(void)state;
	for (int n = 2; n <= PAIRS_MEMBERS_MAX; n++) {
		int seen[PAIRS_MEMBERS_MAX][PAIRS_MEMBERS_MAX] = { 0 };

		for (int round = 0; round < pairs_rounds(n); round++) {
			int pairs[PAIRS_MEMBERS_MAX / 2][2], in_round[PAIRS_MEMBERS_MAX] = { 0 };
			int found = pairs_round(n, round, pairs);

			for (int i = 0; i < found; i++) {
				seen[pairs[i][0]][pairs[i][1]]++;
				seen[pairs[i][1]][pairs[i][0]]++;
				assert_int_equal(in_round[pairs[i][0]]++ + in_round[pairs[i][1]]++, 0);
			}
		}
		for (int i = 0; i < n * n; i++)
			assert_int_equal(seen[i / n][i % n], i / n != i % n);
	}
}

static void test_one_slow(void **state)
{
	(void)state;
	for (int n = 3; n <= 6; n++)
		for (int bad = 0; bad < n; bad++) {
			pairs_make(n);
			member_slow(bad);
			assert_true(pairs_compare(&p, SHARE));
			assert_true(p.usual == 50 && p.n_rates == n * (n - 1) / 2);
			for (int i = 0; i < n; i++)
				assert_int_equal(pairs_member(&p, i), i == bad ? BISECT_BAD : BISECT_GOOD);
		}
	pairs_make(5);
	member_slow(1);
	member_slow(3);
	assert_true(pairs_compare(&p, SHARE));
	for (int i = 0; i < 5; i++)
		assert_int_equal(pairs_member(&p, i), i == 1 || i == 3 ? BISECT_BAD : BISECT_GOOD);
}

static void test_none_bad(void **state)
{
	(void)state;
	for (int n = 3; n <= 5; n++) {
		pairs_make(n);
		rate_set(0, 1, 48); /* 4 % less */
		assert_true(pairs_compare(&p, SHARE));
		for (int i = 0; i < n; i++)
			assert_int_equal(pairs_member(&p, i), BISECT_GOOD);
	}
	pairs_make(4); /* two switches: 0 and 1, 2 and 3 */
	for (int i = 0; i < 4; i++)
		rate_set(i / 2, 2 + i % 2, 30);
	assert_true(pairs_compare(&p, SHARE));
	assert_true(p.slow[0][2] && p.slow[2][0] && !p.slow[0][1]);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pairs_member(&p, i), BISECT_GOOD);
}

static void test_failed(void **state)
{
	(void)state;
	pairs_make(4); /* one fails with all, another is slow with all that are well */
	for (int i = 0; i < 3; i++)
		pair_fail(3, i);
	rate_set(0, 1, 25);
	rate_set(0, 2, 25);
	assert_true(pairs_compare(&p, SHARE));
	assert_int_equal(pairs_member(&p, 3), BISECT_BAD);
	assert_int_equal(pairs_member(&p, 0), BISECT_BAD);
	assert_int_equal(pairs_member(&p, 1), BISECT_GOOD);
	pairs_make(3);
	for (int i = 0; i < 3; i++)
		pair_fail(i, (i + 1) % 3);
	assert_false(pairs_compare(&p, SHARE));
	assert_int_equal(pairs_member(&p, 0), BISECT_OPEN);
	pairs_make(4);
	pair_fail(1, 2); /* what is between them */
	assert_true(pairs_compare(&p, SHARE));
	assert_int_equal(pairs_member(&p, 1), BISECT_GOOD);
}

/* What may pass is tried again: what hung, and what is slow of one who would be named by it. Wrong data stay. */
static void test_open(void **state)
{
	(void)state;
	pairs_make(3);
	member_slow(2);
	assert_true(pairs_compare(&p, SHARE));
	assert_true(pairs_is_open(&p, 0, 2) && pairs_is_open(&p, 2, 1) && !pairs_is_open(&p, 0, 1));
	pairs_pass(&p, 2, 1, 20);
	assert_true(p.rates[1][2] == 25);
	pairs_pass(&p, 2, 1, 49);
	assert_true(p.rates[1][2] == 49 && p.rates[2][1] == 49);
	assert_true(pairs_compare(&p, SHARE));
	assert_int_equal(pairs_member(&p, 2), BISECT_GOOD);
	assert_true(p.slow[0][2] && !pairs_is_open(&p, 0, 2)); /* it names none of them */
	pairs_fail(&p, 2, 0, false);
	assert_true(p.failed[0][2] && pairs_is_open(&p, 0, 2));
	pairs_pass(&p, 0, 2, 50);
	assert_true(!p.failed[2][0] && !pairs_is_open(&p, 0, 2));
	pairs_fail(&p, 0, 2, true);
	pairs_fail(&p, 0, 2, false);
	assert_false(pairs_is_open(&p, 0, 2));
	pairs_pass(&p, 0, 2, 50);
	assert_true(p.failed[0][2] && p.failed[2][0]);
	p.failed[0][2] = p.failed[2][0] = true;
	pairs_fail(&p, 0, 1, false);
	assert_false(pairs_compare(&p, SHARE)); /* what was slow by more rates is not by these */
	assert_false(p.slow[0][2] || p.slow[1][2]);
}

static void test_two(void **state)
{
	(void)state;
	pairs_make(2);
	assert_false(pairs_compare(&p, SHARE));
	assert_int_equal(pairs_member(&p, 0), BISECT_GOOD);
	pair_fail(0, 1);
	assert_int_equal(pairs_member(&p, 0), BISECT_OPEN);
	assert_int_equal(pairs_member(&p, 1), BISECT_OPEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rounds), cmocka_unit_test(test_one_slow), cmocka_unit_test(test_none_bad),
		cmocka_unit_test(test_failed), cmocka_unit_test(test_open),     cmocka_unit_test(test_two),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
