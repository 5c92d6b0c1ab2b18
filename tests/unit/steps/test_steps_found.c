/* SPDX-License-Identifier: Apache-2.0
 *
 * test_steps_found.c - what the iteration clock finds, against a search that tries everything: periods of drawn
 * sequences, where an iteration begins, how long one takes; and when a clock that broke is looked for anew.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

static struct model *m;
static uint64_t now;

static int fresh(void **state)
{
	(void)state;
	now = JOB_T0;
	m = model_new();
	return 0;
}

static int done(void **state)
{
	(void)state;
	model_free(m);
	return 0;
}

static void call(int rank, int size, uint64_t later_ns)
{
	struct event e = job_call_event(rank, OP_ALLREDUCE, 7, 5, size);

	e.ts_ns = now += later_ns;
	assert_int_equal(model_apply(m, &e), 0);
}

static void word(int rank, const char *ops, int times)
{
	for (int i = 0; i < times; i++)
		for (const char *c = ops; *c; c++)
			call(rank, *c, MSEC);
}

static const struct steps *looked(int rank)
{
	struct event e = { .kind = EV_TICK, .ts_ns = now += MSEC };

	assert_int_equal(model_apply(m, &e), 0);
	return model_proc(m, job_pid(rank))->steps;
}

/* The smallest p that the newest operations repeat three times, and that reaches back over half of them. */
static size_t period_tried(const char *s, size_t n)
{
	for (size_t p = 1; 3 * p <= n; p++) {
		size_t same = 0;

		while (same + p < n && s[n - 1 - same] == s[n - 1 - same - p])
			same++;
		if (same >= 2 * p && same + p >= n / 2)
			return p > 1 || n >= 16 ? p : 0;
	}
	return 0;
}

static void periods_of_drawn_sequences(void **state)
{
	uint64_t rng = test_seed();
	int n_found = 0;

	(void)state;
	for (int i = 0; i < 600; i++) {
		size_t n = 3 + random_next(&rng) % 60, before = random_next(&rng) % 3 ? 0 : random_next(&rng) % (n / 2);
		size_t p = 1 + random_next(&rng) % (n / 3), expected;
		char s[64] = "";

		for (size_t k = 0; k < n; k++)
			s[k] = k < before + p ? "ab"[random_next(&rng) % 2] : s[k - p];
		expected = period_tried(s, n);
		word(i, s, 1);
		looked(i);
		if (expected == 1) /* all alike: by their pauses, and here is none */
			assert_int_equal(model_proc(m, job_pid(i))->steps->period_ops, 1);
		else if (model_proc(m, job_pid(i))->steps->period_ops != expected)
			fail_msg("%s: %zu, and not %zu", s, model_proc(m, job_pid(i))->steps->period_ops, expected);
		n_found += expected > 1;
	}
	assert_true(n_found > 200);
}

/* Wherever it was found, an iteration begins at the same operation, and is the same role. */
static void iterations_begin_at_one_place(void **state)
{
	static const char *const words[] = {
		"ab", "aab", "abb", "baca", "aabab", "abcabd", "bbbba", "zyxzyw", "abaac"
	};

	(void)state;
	for (int i = 0; i < (int)(sizeof(words) / sizeof(words[0])); i++) {
		size_t p = strlen(words[i]);
		const struct steps *first = NULL;
		char begin[16] = "";

		for (size_t turn = 0; turn < p; turn++) {
			int rank = 100 * i + turn;
			char s[16] = "", from[16] = "";
			const struct steps *now_found;

			for (size_t k = 0; k < p; k++)
				s[k] = words[i][(turn + k) % p];
			word(rank, s, 4);
			now_found = looked(rank);
			assert_int_equal(now_found->period_ops, p);
			assert_in_range(now_found->phase, 0, p - 1);
			for (size_t k = 0; k < p; k++)
				from[k] = s[(now_found->phase + k) % p];
			if (!first) {
				first = now_found;
				memcpy(begin, from, sizeof(begin));
			}
			assert_true(first->role == now_found->role && first->role);
			if (strcmp(begin, from))
				fail_msg("%s: %s, then %s", words[i], begin, from);
		}
		for (int k = 0; k < i; k++)
			assert_true(model_proc(m, job_pid(100 * k))->steps->role != first->role);
	}
}

/* Of the last nine iterations, or of as many as there were. */
static void the_usual_length_of_an_iteration(void **state)
{
	(void)state;
	word(0, "abc", 3);
	looked(0);
	for (int i = 1; i <= 30; i++) { /* each takes 10 ms longer */
		const struct steps *s;
		int n = i < 9 ? i : 9;

		call(0, 'a', MSEC);
		call(0, 'b', MSEC);
		call(0, 'c', (10 * i - 2) * MSEC);
		s = looked(0);
		assert_int_equal(s->n, i);
		if (fabs(s->median_s - 0.01 * (i - n + 1 + n / 2)) > 0.0015)
			fail_msg("%d: %.3f s", i, s->median_s);
	}
}

/* Equal operations, `n` a step. */
static size_t found_of_alike(int rank, int n, int times)
{
	for (int i = 0; i < times; i++)
		for (int k = 0; k < n; k++)
			call(rank, 'a', k ? MSEC : 200 * MSEC);
	return looked(rank)->period_ops;
}

static void alike_by_their_pauses(void **state)
{
	static const int found[] = { 2, 3, 5, 8, 31, 64 };
	const struct steps *s;
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 6; i++)
		assert_int_equal(found_of_alike(i, found[i], 12), found[i]);
	assert_int_equal(found_of_alike(20, 65, 12), 1); /* too many */
	for (int i = 0; i < 300; i++)                    /* pauses without a pattern */
		call(21, 'a', MSEC + random_next(&rng) % (100 * MSEC));
	assert_int_equal(looked(21)->period_ops, 1);
	for (int before = 0; before < 8; before++) { /* it begins behind the pause, wherever that was */
		for (int i = 0; i < before; i++)
			call(30 + before, 'a', MSEC);
		found_of_alike(30 + before, 4, 30);
		s = looked(30 + before);
		assert_int_equal(s->period_ops, 4);
		assert_int_equal(s->phase, before % 4);
	}
}

/* Fifteen alike may be the layers of one step. */
static void few_alike_are_no_clock(void **state)
{
	(void)state;
	word(0, "aaaaaaaaaaaaaaa", 1);
	assert_int_equal(looked(0)->period_ops, 0);
	word(0, "a", 1);
	assert_int_equal(looked(0)->period_ops, 1);
}

/* One that held for 64 operations and eight periods: what was before its end says nothing of what comes. Else it was a
 * mistake, and all that came counts. */
static void a_clock_that_broke(void **state)
{
	(void)state;
	word(0, "abcd", 3);
	assert_int_equal(looked(0)->period_ops, 4);
	word(0, "abcd", 16); /* 64 */
	assert_int_equal(looked(0)->n, 16);
	word(0, "xyz", 3);
	assert_int_equal(looked(0)->period_ops, 3); /* of these nine alone */

	word(1, "abcd", 3);
	assert_int_equal(looked(1)->period_ops, 4);
	word(1, "abcd", 15);
	assert_int_equal(looked(1)->n, 15);
	word(1, "xyz", 3);
	assert_int_equal(looked(1)->period_ops, 0); /* most of what counts is something else */

	word(2, "abcdefghij", 3); /* 70 operations, and seven periods */
	assert_int_equal(looked(2)->period_ops, 10);
	word(2, "abcdefghij", 7);
	assert_int_equal(looked(2)->n, 7);
	word(2, "xyz", 3);
	assert_int_equal(looked(2)->period_ops, 0);

	word(3, "abcdefghij", 3);
	assert_int_equal(looked(3)->period_ops, 10);
	word(3, "abcdefghij", 8);
	assert_int_equal(looked(3)->n, 8);
	word(3, "xyz", 3);
	assert_int_equal(looked(3)->period_ops, 3);
}

/* Found on a short history, it is looked for again when that has doubled: a part of a step may repeat. */
static void looked_for_again(void **state)
{
	uint64_t step = 0;

	(void)state;
	word(0, "ab", 3);
	assert_int_equal(looked(0)->period_ops, 2);
	assert_false(rank_step(model_proc(m, job_pid(0)), 0, &step)); /* not three whole ones yet */
	word(0, "ab", 2);
	looked(0);
	assert_false(rank_step(model_proc(m, job_pid(0)), 0, &step));
	word(0, "ab", 1);
	looked(0);
	assert_true(rank_step(model_proc(m, job_pid(0)), 0, &step));
	assert_int_equal(step, (12 - model_proc(m, job_pid(0))->steps->phase) / 2);
	call(0, 'a', MSEC);
	assert_true(rank_step(model_proc(m, job_pid(0)), 0, &step));
	assert_int_equal(step, (13 - model_proc(m, job_pid(0))->steps->phase) / 2);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(periods_of_drawn_sequences),
		TEST(iterations_begin_at_one_place),
		TEST(the_usual_length_of_an_iteration),
		TEST(alike_by_their_pauses),
		TEST(few_alike_are_no_clock),
		TEST(a_clock_that_broke),
		TEST(looked_for_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
