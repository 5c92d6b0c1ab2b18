/* SPDX-License-Identifier: Apache-2.0
 *
 * test_slow_step_rules.c - when a job's iterations take longer: how many windows of before and of now, how much longer,
 * when it is over, and what does not count. One rank, two operations an iteration, its steps written by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/straggler/hand_steps.h"

/* Twenty windows of before, ten of now. */
static void how_much_past(void **state)
{
	static const int past[] = { 19, 20, 60 }, after[] = { 11, 10, 10 };

	for (int i = 0; i < 3; i++) {
		again(state);
		many(past[i], 1);
		assert_int_equal(until_slow(1.5), after[i]);
		assert_int_equal(only()->since_ns, call_ns - 10 * 1500 * MSEC);
	}
}

static void what_is_said(void **state)
{
	const struct finding *f;

	(void)state;
	many(40, 1);
	assert_int_equal(until_slow(1.5), 10);
	ops[n_ops - 1].end_ns = ops[n_ops - 2].end_ns = ops[n_ops - 4].end_ns = 1;
	ops[n_ops - 1].end_error_ns = 3 * MSEC;
	ops[n_ops - 2].end_error_ns = 5 * MSEC;
	ops[n_ops - 3].end_error_ns = 700 * MSEC; /* it is not over */
	ops[n_ops - 4].end_error_ns = 1 * MSEC;
	tick();
	f = only();
	assert_int_equal(f->kind, FINDING_SLOW_STEP);
	assert_true(f->key);
	assert_int_equal(f->n_ranks, 0);
	assert_int_equal(f->cause, CAUSE_GPU_OR_UNKNOWN);
	assert_int_equal(f->caused_by_key, 0);
	assert_ptr_equal(f->job, job.shown);
	assert_true(f->confidence == 0.9f || f->confidence == 0.9);
	assert_true(number_named(f, "step_s", 0) == 1.5 && number_named(f, "step_before_s", 0) == 1);
	assert_true(number_named(f, "slower_percent", 0) == 50);
	assert_true(number_named(f, "end_error_s", 0) == 3 * 1e-3);
	for (int i = 0; i < n_ops; i++)
		ops[i].end_ns = 0;
	tick();
	assert_true(number_named(only(), "end_error_s", 0) == -1);
	for (int i = 0; i < 70; i++) { /* 64 of them are enough: the older ones are less well known */
		ops[n_ops - 1 - i % n_ops].end_ns = 1;
		ops[n_ops - 1 - i % n_ops].end_error_ns = i < 32 ? MSEC : 2 * MSEC;
	}
	tick();
	assert_true(number_named(only(), "end_error_s", 0) == 2 * 1e-3);
	ops[n_ops - 1 - 32].end_error_ns = MSEC;
	tick();
	assert_true(number_named(only(), "end_error_s", 0) == 1e-3);
}

/* Ten per cent longer, at the median. */
static void how_much_longer(void **state)
{
	static const struct {
		double s;
		int after;
	} cases[] = { { 1.1, 10 }, { 1.099, -1 }, { 0.9, -1 }, { 1, -1 } };

	for (size_t i = 0; i < 4; i++) {
		again(state);
		many(40, 1);
		assert_int_equal(until_slow(cases[i].s), cases[i].after);
	}
	for (int slow = 5; slow >= 4; slow--) {
		again(state);
		many(40, 1);
		many(10 - slow, 1.05);
		many(slow, 1.2);
		assert_int_equal(!!only(), slow == 5);
	}
}

/* Each of the ten is longer than nine tenths of those before. */
static void every_one_is_long(void **state)
{
	static const struct {
		int odd;
		double odd_s, least_s;
		bool slow;
	} cases[] = { { 0, 1, 1, false },      { 0, 1, 1.01, true },   { 2, 1.3, 1.3, false },
		      { 2, 1.3, 1.29, false }, { 2, 1.3, 1.31, true }, { 1, 1.3, 1.2, true } };

	for (size_t i = 0; i < 6; i++) {
		again(state);
		many(cases[i].odd, cases[i].odd_s);
		many(20 - cases[i].odd, 1);
		many(3, 1.5);
		step(cases[i].least_s);
		many(6, 1.5);
		assert_int_equal(!!only(), cases[i].slow);
	}
}

/* Forty windows: 20 of them at the old pace are its lower half. */
static void what_is_old_is_forgotten(void **state)
{
	static const struct {
		int later;
		double before_s;
	} cases[] = { { 20, 1 }, { 19, 0.95 }, { 40, 1 } };

	for (size_t i = 0; i < 3; i++) {
		again(state);
		many(30, 0.95);
		many(cases[i].later, 1);
		many(10, 1.5);
		assert_non_null(only());
		assert_true((number_named(only(), "step_before_s", 0) > 0.975) == (cases[i].before_s > 0.975));
	}
}

/* The median less than five per cent above what it was. */
static void when_it_is_over(void **state)
{
	static const struct {
		double s;
		int after;
	} cases[] = { { 1.04, 6 }, { 1.05, -1 }, { 1.06, -1 }, { 1, 6 } };

	for (size_t i = 0; i < 4; i++) {
		again(state);
		many(30, 1);
		assert_int_equal(until_slow(1.5), 10);
		assert_int_equal(until_over(cases[i].s), cases[i].after);
	}
}

/* Short ones are summed up to 0.2 s: what is compared is their mean. */
static void short_iterations(void **state)
{
	(void)state;
	many(1, 0.125); /* setup's own step of 1 s is no window */
	many(39, 0.125);
	assert_int_equal(until_slow(0.1875), 20);
	assert_true(number_named(only(), "step_s", 0) == 0.1875);
	assert_true(number_named(only(), "step_before_s", 0) == 0.125);
	assert_int_equal(only()->since_ns, call_ns - 20 * 187500000ull);
	again(state);
	many(20, 0.2);
	assert_int_equal(until_slow(0.4), 10);
	again(state);
	many(40, 0.199);
	assert_int_equal(until_slow(0.4), 10);
}

static void several_iterations_a_tick(void **state)
{
	(void)state;
	per_tick = 7;
	many(40, 1);
	assert_int_equal(until_slow(1.5) / 7, (10 + 6) / 7);
	assert_true(number_named(only(), "step_s", 0) == 1.5);
}

/* Two iterations at one time are none. */
static void one_that_takes_no_time(void **state)
{
	(void)state;
	many(20, 1);
	for (int i = 0; i < 10; i++) {
		step(0);
		step(1.5);
	}
	assert_non_null(only());
	assert_true(number_named(only(), "step_s", 0) == 1.5);
}

/* What hangs, is blocked, stopped or long at work; and nothing else. */
static void what_disturbs(void **state)
{
	static const struct {
		enum finding_kind kind;
		bool disturbs;
	} cases[] = { { FINDING_HANG, true },
		      { FINDING_D_STATE, true },
		      { FINDING_STOPPED, true },
		      { FINDING_OBSERVATION, true },
		      { FINDING_STRAGGLER, false } };

	for (size_t i = 0; i < 5; i++) {
		again(state);
		many(30, 1);
		many(5, 1.5);
		list.n = 0;
		finding_list_add(&list)->kind = cases[i].kind;
		finding_list_add(&list)->kind = FINDING_XID;
		m.now_ns = call_ns;
		assert_int_equal(detector_slow_step.tick(detector, &m, &list), 0);
		assert_int_equal(until_slow(1.5), cases[i].disturbs ? 6 : 5);
	}
}

static void another_anchor_begins_anew(void **state)
{
	(void)state;
	many(30, 1);
	steps.period_ops = 1; /* each operation is one iteration, of half the time */
	steps.phase = 0;
	tick();
	many(30, 1);
	assert_null(only());
	assert_int_equal(until_slow(2), 5);
	again(state);
	many(30, 1);
	known[0]->key++;
	tick();
	step(1.5);
	assert_int_equal(until_slow(1.5), -1);
}

/* An open one is over with it, too. */
static void an_open_one_ends_with_its_anchor(void **state)
{
	(void)state;
	many(30, 1);
	assert_int_equal(until_slow(1.5), 10);
	known[0]->key++;
	tick();
	assert_null(only());
	known[0]->key--;
	tick();
	known[0]->dead = true;
	tick();
	assert_null(only());
}

/* Who is to blame is said as long as it lasts; the next one has its own reason. */
static void what_explains_it(void **state)
{
	uint64_t key;

	(void)state;
	many(30, 1);
	assert_int_equal(until_slow(1.5), 10);
	for (int i = 0; i < 3; i++) {
		struct finding *f;

		list.n = 0;
		f = i == 1 ? NULL : finding_list_add(&list);
		if (f) {
			f->kind = FINDING_STRAGGLER;
			finding_add_rank(f, 0, known[0]->key);
			f->subject = subject_rank(i, known[0]->key);
			finding_identify(f, "straggler", 0, i);
			key = f->key;
		}
		assert_int_equal(detector_slow_step.tick(detector, &m, &list), 0);
		assert_int_equal(list.items[list.n - 1].caused_by_key, key);
		list.n = 0;
	}
	assert_int_equal(until_over(1), 6);
	many(60, 1);
	assert_int_equal(until_slow(1.5), 10);
	assert_int_equal(only()->caused_by_key, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(how_much_past),
		TEST(what_is_said),
		TEST(how_much_longer),
		TEST(every_one_is_long),
		TEST(what_is_old_is_forgotten),
		TEST(when_it_is_over),
		TEST(short_iterations),
		TEST(several_iterations_a_tick),
		TEST(one_that_takes_no_time),
		TEST(what_disturbs),
		TEST(another_anchor_begins_anew),
		TEST(an_open_one_ends_with_its_anchor),
		TEST(what_explains_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
