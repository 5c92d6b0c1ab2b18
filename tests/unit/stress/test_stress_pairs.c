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

/* Pairs hang between these and good ones in the first rounds; what is not run yet is without a rate. */
static void rounds_hang(int n, unsigned int bad, int rounds, bool both)
{
	int pairs[PAIRS_MEMBERS_MAX / 2][2];

	memset(&p, 0, sizeof(p));
	p.n = n;
	for (int round = 0; round < rounds; round++)
		for (int found = pairs_round(n, round, pairs), i = 0; i < found; i++) {
			bool a = bad >> pairs[i][0] & 1, b = bad >> pairs[i][1] & 1;

			if (both ? a || b : a != b)
				pairs_fail(&p, pairs[i][0], pairs[i][1], false);
			else
				pairs_pass(&p, pairs[i][0], pairs[i][1], 50);
		}
}

static int popcount(unsigned int set)
{
	return __builtin_popcount(set);
}

/* Who hangs is known by two good partners, and is never another; and not by what is between two groups of members. */
static void test_hung(void **state)
{
	(void)state;
	for (int n = 3; n <= 8; n++)
		for (unsigned int bad = 1; bad < 1u << n; bad++)
			for (int rounds = 1; rounds <= pairs_rounds(n); rounds++) {
				unsigned int hung;

				rounds_hang(n, bad, rounds, true);
				hung = pairs_hung(&p);
				assert_int_equal(hung & ~bad, 0);
				if (popcount(bad) == 1 && n >= 4 && rounds >= 3)
					assert_int_equal(hung, bad);
				if (popcount(bad) < 2 || popcount(bad) > n - 2)
					continue;
				rounds_hang(n, bad, rounds, false); /* two leaves of the network */
				hung = pairs_hung(&p);
				assert_true(hung == 0 || rounds < pairs_rounds(n));
				for (int i = 0; i < n && hung; i++) /* what is said too early is taken back: */
					for (int j = 0; j < i; j++)
						if ((hung >> i & hung >> j) & 1) /* these try each other */
							pairs_pass(&p, i, j, 50);
				if (popcount(hung) > 1)
					assert_int_equal(pairs_hung(&p), 0);
			}
}

/* Three pairs of a member are known to hang, the others are left out: it alone is named. */
static void test_left_out(void **state)
{
	(void)state;
	rounds_hang(8, 1u << 3, 2, true);
	assert_int_equal(pairs_hung(&p), 1u << 3);
	for (int i = 0; i < 8; i++)
		for (int j = 0; j < i; j++) {
			if (p.rates[i][j] > 0 || p.failed[i][j])
				continue;
			if (i == 3 || j == 3)
				pairs_leave(&p, i, j);
			else
				pairs_pass(&p, i, j, 50);
		}
	assert_true(pairs_compare(&p, SHARE));
	for (int i = 0; i < 8; i++)
		assert_int_equal(pairs_member(&p, i), i == 3 ? BISECT_BAD : BISECT_GOOD);
	for (int i = 0; i < 8; i++)
		assert_int_equal(pairs_is_open(&p, i == 3 ? 0 : 3, i), i != (i == 3 ? 0 : 3));
	for (int i = 0; i < 8; i++)
		if (i != 3 && p.untried[3][i])
			pairs_pass(&p, 3, i, 50); /* it is well with another: it does not hang */
	assert_int_equal(pairs_hung(&p), 0);
	assert_int_equal(pairs_member(&p, 3), BISECT_GOOD);
}

/* A member that is bad from some round on has pairs that passed: they are tried again. */
static void test_doubt(void **state)
{
	(void)state;
	pairs_make(5);
	pair_fail(2, 3);
	pairs_doubt_mixed(&p); /* with one only: it may be what is between them */
	assert_false(p.untried[2][0] || p.untried[3][0]);
	pair_fail(2, 4);
	pairs_doubt_mixed(&p);
	assert_true(p.untried[2][0] && p.untried[1][2] && !p.untried[2][3] && !p.untried[3][0] && !p.untried[0][1]);
	assert_true(pairs_is_open(&p, 0, 2));
	pairs_doubt_end(&p);
	assert_true(p.untried[2][0]); /* it hangs with all that count */
	pairs_pass(&p, 2, 1, 50);
	pairs_doubt_end(&p);
	assert_false(p.untried[2][0]);
	pairs_doubt(&p, 0, 1);
	assert_true(p.untried[0][3] && p.untried[4][1] && p.untried[0][1] && !p.untried[3][4]);
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
		cmocka_unit_test(test_hung),   cmocka_unit_test(test_left_out), cmocka_unit_test(test_doubt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
