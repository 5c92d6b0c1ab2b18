/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stress_bisect.c - the plan of a bisection: who is bad is found, in how many tests and rounds, over many draws of
 * the bad; no member twice in a round; tests of one size; what comes once only, and what has no good partner.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/stress/bisect/bisect.h"

#define MEMBERS_MAX 512

static uint64_t state;

static int draw(int below)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (state >> 33) % below;
}

struct outcome {
	int tests, rounds, named, open;
	int in_one_group; /* most bad ones in a group of the first round */
};

static void round_check(const struct bisect_test *tests, int n_tests, int n)
{
	bool seen[MEMBERS_MAX] = { false };

	for (int i = 0; i < n_tests; i++) {
		assert_true(tests[i].n >= 2 && tests[i].n_suspects >= 1);
		for (int j = 0; j < tests[i].n; j++) {
			assert_in_range(tests[i].members[j], 0, n - 1);
			assert_false(seen[tests[i].members[j]]);
			seen[tests[i].members[j]] = true;
		}
	}
}

static int bad_in(const struct bisect_test *t, const bool *bad)
{
	int found = 0;

	for (int i = 0; i < t->n; i++)
		found += bad[t->members[i]];
	return found;
}

static struct outcome search(int n, const bool *bad)
{
	struct bisect *b = bisect_new(n);
	struct outcome o = { 0 };
	const struct bisect_test *tests;
	int n_tests;

	while ((n_tests = bisect_round(b, &tests))) {
		round_check(tests, n_tests, n);
		for (int i = 0; i < n_tests; i++) {
			int found = bad_in(&tests[i], bad);

			if (bisect_rounds(b) == 1 && found > o.in_one_group)
				o.in_one_group = found;
			bisect_result(b, i, found > 0);
		}
	}
	for (int i = 0; i < n; i++) {
		if (bisect_member(b, i) == BISECT_BAD)
			assert_true(bad[i]);
		if (bisect_member(b, i) == BISECT_GOOD)
			assert_false(bad[i]);
		o.named += bisect_member(b, i) == BISECT_BAD;
		o.open += bisect_member(b, i) == BISECT_OPEN;
	}
	o.tests = bisect_tests(b);
	o.rounds = bisect_rounds(b);
	bisect_free(b);
	return o;
}

static void bad_draw(bool *bad, int n, int n_bad)
{
	memset(bad, 0, n * sizeof(*bad));
	while (n_bad) {
		int i = draw(n);

		n_bad -= !bad[i];
		bad[i] = true;
	}
}

/* The bar: 232 hosts, 5 bad, at most 55 tests and 7 rounds. */
static void test_bar(void **unused)
{
	bool bad[MEMBERS_MAX];
	int of_tests[200] = { 0 }, of_rounds[50] = { 0 }, most_tests = 0, most_rounds = 0, all = 0;
	const int draws = 20000;

	(void)unused;
	for (int i = 0; i < draws; i++) {
		struct outcome o;

		bad_draw(bad, 232, 5);
		o = search(232, bad);
		assert_int_equal(o.named, 5);
		assert_int_equal(o.open, 0);
		of_tests[o.tests]++;
		of_rounds[o.rounds]++;
		all += o.tests;
		most_tests = o.tests > most_tests ? o.tests : most_tests;
		most_rounds = o.rounds > most_rounds ? o.rounds : most_rounds;
	}
	printf("232 members, 5 bad, %d draws: %.1f tests on average, %d at most, %d rounds at most\n", draws,
	       (double)all / draws, most_tests, most_rounds);
	for (int i = 0; i < 200; i++)
		if (of_tests[i])
			printf("  %d tests: %.2f %%\n", i, 100.0 * of_tests[i] / draws);
	for (int i = 0; i < 50; i++)
		if (of_rounds[i])
			printf("  %d rounds: %.2f %%\n", i, 100.0 * of_rounds[i] / draws);
	assert_true(most_tests <= 55);
	assert_true(most_rounds <= 7);
}

/* Any number of members and of bad ones, as long as some group is good. */
static void test_any(void **unused)
{
	bool bad[MEMBERS_MAX];

	(void)unused;
	for (int i = 0; i < 20000; i++) {
		int n = 2 + draw(300), n_bad = draw(n < 8 ? 2 : 6);
		struct outcome o;

		bad_draw(bad, n, n_bad < n ? n_bad : n - 1);
		o = search(n, bad);
		assert_true(o.named + o.open >= (n_bad < n ? n_bad : n - 1));
		if (n >= 64)
			assert_int_equal(o.open, 0);
	}
}

static void test_none_bad(void **unused)
{
	bool bad[MEMBERS_MAX] = { false };
	struct outcome o = search(232, bad);

	(void)unused;
	assert_int_equal(o.rounds, 1);
	assert_int_equal(o.tests, 16);
	assert_int_equal(o.named + o.open, 0);
}

/* With nobody known to be good, nobody is named, and nobody is said to be good. */
static void test_all_bad(void **unused)
{
	bool bad[MEMBERS_MAX];
	struct outcome o;

	(void)unused;
	memset(bad, 1, sizeof(bad));
	o = search(30, bad);
	assert_int_equal(o.named, 0);
	assert_int_equal(o.open, 30);
}

/* From the second round on all tests have the size of the first groups, while there are enough good ones. */
static void test_equal_sizes(void **unused)
{
	bool bad[MEMBERS_MAX];
	const struct bisect_test *tests;
	struct bisect *b = bisect_new(232);
	int n_tests;

	(void)unused;
	bad_draw(bad, 232, 5);
	while ((n_tests = bisect_round(b, &tests)))
		for (int i = 0; i < n_tests; i++) {
			if (bisect_rounds(b) > 1)
				assert_int_equal(tests[i].n, 15);
			bisect_result(b, i, bad_in(&tests[i], bad) > 0);
		}
	bisect_free(b);
}

/* A fault that came once: the group failed, its parts pass. It ends, nobody is named. */
static void test_passing_fault(void **unused)
{
	const struct bisect_test *tests;
	struct bisect *b = bisect_new(64);
	int n_tests;

	(void)unused;
	while ((n_tests = bisect_round(b, &tests)))
		for (int i = 0; i < n_tests; i++)
			bisect_result(b, i, bisect_rounds(b) == 1 && i == 3);
	for (int i = 0; i < 64; i++)
		assert_true(bisect_member(b, i) != BISECT_BAD);
	assert_true(bisect_rounds(b) <= 4);
	bisect_free(b);
}

/* Rounds until it is over. */
static void rounds_run(struct bisect *b, int n, const bool *bad)
{
	const struct bisect_test *tests;
	int n_tests;

	while ((n_tests = bisect_round(b, &tests))) {
		round_check(tests, n_tests, n);
		for (int i = 0; i < n_tests; i++)
			bisect_result(b, i, bad_in(&tests[i], bad) > 0);
	}
}

/* One that was good in the first round is bad in the others, where it names good ones: in doubt it is found, and who is
 * recalled is good. */
static void test_doubt(void **unused)
{
	for (int late = 3; late < 9; late++) {
		bool bad[9] = { true }, wrong[9] = { false };
		const struct bisect_test *tests;
		struct bisect *b = bisect_new(9);
		int n_tests = bisect_round(b, &tests), group[3] = { late / 3 * 3, late / 3 * 3 + 1, late / 3 * 3 + 2 };

		(void)unused;
		for (int i = 0; i < n_tests; i++)
			bisect_result(b, i, bad_in(&tests[i], bad) > 0);
		bad[late] = true;
		rounds_run(b, 9, bad);
		assert_int_equal(bisect_member(b, late), BISECT_GOOD);
		for (int i = 0; i < 9; i++)
			wrong[i] = bisect_member(b, i) == BISECT_BAD;
		bisect_doubt(b, group, 3);
		for (int i = 0; i < 9; i++)
			if (wrong[i])
				bisect_recall(b, i);
		assert_int_equal(bisect_member(b, late), BISECT_OPEN);
		rounds_run(b, 9, bad);
		for (int i = 0; i < 9; i++)
			assert_int_equal(bisect_member(b, i), bad[i] ? BISECT_BAD : BISECT_GOOD);
		bisect_free(b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bar),         cmocka_unit_test(test_any),
		cmocka_unit_test(test_none_bad),    cmocka_unit_test(test_all_bad),
		cmocka_unit_test(test_equal_sizes), cmocka_unit_test(test_passing_fault),
		cmocka_unit_test(test_doubt),
	};
	const char *seed = getenv("SEED");

	state = seed ? strtoull(seed, NULL, 0) : 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
