/* SPDX-License-Identifier: Apache-2.0
 *
 * test_gpu_time_rules.c - when a GPU takes longer for its own work: which results are one reading, whose readings
 * compare, how many of them, and how far beyond what chance does. Up to eight ranks, steps of 2.5 s; the last rank is
 * slow: of the others all is known by then.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/detect.h"
#include "tests/unit/job/evidence.h"
#define HAND_RANKS 8
#include "tests/unit/job/hand_known.h"

#define STEP_S 2.5
#define SLOW (HAND_RANKS - 1)
#define LATER_NS (100 * MSEC + 1) /* then no more of a reading can come */

static struct steps steps, other_steps;
static struct finding_list list;
static void *detector;
static uint64_t now;

static int begin(void **state)
{
	hand_setup(state);
	hand_find();
	now = NOW;
	steps = other_steps = (struct steps){ .period_ops = 3, .role = 7, .median_s = STEP_S };
	for (int r = 0; r < HAND_RANKS; r++)
		known[r]->steps = &steps;
	detector = calloc(1, detector_gpu_time.state_bytes);
	return 0;
}

static int end(void **state)
{
	(void)state;
	detector_gpu_time.release(detector);
	free(detector);
	finding_list_free(&list);
	list = (struct finding_list){ 0 };
	hand_lose();
	return 0;
}

static void ranks(void **state, int n)
{
	end(state);
	begin(state);
	for (int r = 0; r < HAND_RANKS - n; r++)
		known[r]->dead = true;
}

static void span(int r, uint64_t ts_ns, double s)
{
	struct proc *p = known[r];

	p->gpu_spans[p->n_gpu_spans++ % GPU_SPANS_KEPT] = (struct gpu_span){ ts_ns, (uint64_t)(s * 1e9 + 0.5) };
}

static void tick_at(uint64_t ns)
{
	list.n = 0;
	m.now_ns = ns;
	assert_int_equal(detector_gpu_time.tick(detector, &m, &list), 0);
}

/* A reading of every rank: the slow one so long, the others half a second. */
static void reading(double slow_s)
{
	now += 10 * SEC;
	for (int r = 0; r < HAND_RANKS; r++)
		span(r, now, r == SLOW ? slow_s : 0.5);
	tick_at(now + LATER_NS);
}

static void readings(int n, double slow_s)
{
	while (n-- > 0)
		reading(slow_s);
}

static const struct finding *only(void)
{
	assert_true(list.n <= 1);
	return list.n ? &list.items[0] : NULL;
}

/* Readings until it is named; -1: not in 30. */
static int until_named(double slow_s)
{
	for (int i = 1; i <= 30; i++) {
		reading(slow_s);
		if (only())
			return i;
	}
	return -1;
}

/* Nine values of its peers at least: the fewer they are, the more readings. */
static void how_many_readings(void **state)
{
	static const int n[] = { 8, 6, 5, 4, 3, 2, 1 }, after[] = { 3, 3, 4, 4, 6, 10, -1 };

	for (int i = 0; i < 7; i++) {
		ranks(state, n[i]);
		assert_int_equal(until_named(0.75), after[i]);
	}
}

static void what_is_said(void **state)
{
	const struct finding *f;

	(void)state;
	reading(0.625);
	reading(0.75);
	reading(0.75);
	f = only();
	assert_non_null(f);
	assert_int_equal(f->kind, FINDING_STRAGGLER);
	assert_true(f->key);
	assert_int_equal(f->cause, CAUSE_GPU);
	assert_int_equal(f->n_ranks, 1);
	assert_int_equal(f->ranks[0], SLOW);
	assert_int_equal(f->since_ns, NOW + 10 * SEC);
	assert_true(fabs(number_named(f, "blame_percent", 0) - 100 * 0.625 / 3 / STEP_S) < 1e-9);
	assert_true(number_named(f, "step_s", 0) == STEP_S);
	assert_true(fabs(number_named(f, "gpu_s", 0) - 2.125 / 3) < 1e-9);
	assert_true(fabs(number_named(f, "gpu_s_over_peers", 0) - 0.625 / 3) < 1e-9);
	assert_true(number_named(f, "gpu_readings", 0) == 3);
	readings(9, 0.75);
	assert_true(number_named(only(), "gpu_readings", 0) == 12);
	reading(0.75);
	assert_true(number_named(only(), "gpu_readings", 0) == 12); /* the newest twelve */
	assert_true(fabs(number_named(only(), "gpu_s", 0) - 0.75) < 1e-9);
	assert_true(fabs(number_named(only(), "gpu_s_over_peers", 0) - 0.25) < 1e-9);
}

/* Five per cent of the step. */
static void how_much_longer(void **state)
{
	(void)state;
	assert_int_equal(until_named(0.6251), 3);
	ranks(state, 8);
	assert_int_equal(until_named(0.6249), -1);
	ranks(state, 8);
	assert_int_equal(until_named(0.5), -1);
}

/* The mean of its newest three is enough, whatever was before. */
static void since_it_is_slow(void **state)
{
	(void)state;
	readings(5, 0.5);
	assert_int_equal(until_named(0.75), 2);
}

/* Less than half of that in one reading: it is over, and begins anew. */
static void when_it_is_over(void **state)
{
	(void)state;
	assert_int_equal(until_named(0.75), 3);
	reading(0.563);
	assert_non_null(only());
	reading(0.562);
	assert_null(only());
	assert_int_equal(until_named(0.75), 3);
	assert_int_equal(only()->since_ns, now - 20 * SEC);
}

/* Two ranks: ten standard errors of what they differ by. */
static void beyond_chance(void **state)
{
	static const double spread[] = { 0.149, 0.151 };

	for (int i = 0; i < 2; i++) {
		ranks(state, 2);
		for (int k = 0; k < 10; k++) {
			assert_null(only());
			reading(1 + (k % 2 ? spread[i] : -spread[i]));
		}
		assert_int_equal(!!only(), i == 0);
	}
}

/* --- which readings compare --- */

static void only_its_own_role_counts(void **state)
{
	static const struct job_id *const another = (const struct job_id *)(hand_names + 1);
	struct steps no_role = { .period_ops = 3, .median_s = STEP_S };

	for (int i = 0; i < 6; i++) {
		ranks(state, 3);
		other_steps.role = i == 1 ? 8 : 7;
		for (int r = SLOW - 2; r < SLOW; r++) {
			known[r]->steps = &other_steps;
			known[r]->job = i == 2 ? another : hand_job;
			known[r]->dead = i == 3;
			known[r]->is_child = i == 4;
		}
		for (int r = 0; r < HAND_RANKS && i == 5; r++)
			known[r]->steps = &no_role;
		assert_int_equal(until_named(0.75), i ? -1 : 6);
	}
}

/* The middle one of the peers; of two the lower. */
static void the_peers_median(void **state)
{
	static const double second[] = { 0.55, 9 };

	for (int i = 0; i < 2; i++) {
		ranks(state, 3);
		for (int k = 0; k < 6; k++) {
			now += 10 * SEC;
			span(SLOW, now, 0.75);
			span(SLOW - 1, now, second[i]);
			span(SLOW - 2, now, 0.5);
			tick_at(now + LATER_NS);
		}
		for (size_t f = 0; f < list.n; f++)
			if (list.items[f].ranks[0] == SLOW)
				assert_true(fabs(number_named(&list.items[f], "gpu_s_over_peers", 0) - 0.25) < 1e-9);
		assert_true(list.n >= 1);
	}
}

/* Results within 100 ms are one reading; it waits until no more can come. */
static void what_is_one_reading(void **state)
{
	(void)state;
	for (int k = 0; k < 3; k++) {
		now += 10 * SEC;
		for (int r = 0; r < HAND_RANKS; r++) {
			span(r, now - 101 * MSEC, 5); /* of another one */
			span(r, now - 100 * MSEC, 0.25);
			span(r, now, r == SLOW ? 0.5 : 0.25);
		}
		tick_at(now + LATER_NS - 1);
		assert_null(only());
		tick_at(now + LATER_NS);
		tick_at(now + LATER_NS); /* it counts once */
	}
	assert_non_null(only());
	assert_true(fabs(number_named(only(), "gpu_s", 0) - 0.75) < 1e-9);
	assert_true(number_named(only(), "gpu_readings", 0) == 3);
	reading(0.75); /* of one result, not of two: it begins anew */
	assert_true(number_named(only(), "gpu_readings", 0) == 1);
}

static void more_results_than_are_kept(void **state)
{
	(void)state;
	for (int k = 0; k < 3; k++) {
		now += 10 * SEC;
		for (int r = 0; r < HAND_RANKS; r++)
			for (int i = 0; i < 40; i++)
				span(r, now, r == SLOW ? 2 / 32.0 : 1 / 32.0);
		tick_at(now + LATER_NS);
	}
	assert_true(fabs(number_named(only(), "gpu_s", 0) - 2) < 1e-9);
}

/* Two steps and 200 ms apart at most, and of as many results. */
static void of_the_same_iterations(void **state)
{
	static const struct {
		int64_t apart_ns;
		bool named;
	} cases[] = { { 5199 * (int64_t)MSEC, true },
		      { 5201 * (int64_t)MSEC, false },
		      { -5199 * (int64_t)MSEC, true },
		      { -5201 * (int64_t)MSEC, false } };

	for (size_t i = 0; i < 4; i++) {
		ranks(state, 6);
		for (int k = 0; k < 4; k++) {
			now += 30 * SEC;
			for (int r = 0; r < HAND_RANKS; r++)
				span(r, now + (r == 4 ? cases[i].apart_ns : 0), r == SLOW ? 0.75 : 0.5);
			tick_at(now + 10 * SEC);
		}
		assert_int_equal(!!only(), cases[i].named);
	}
	ranks(state, 6);
	for (int k = 0; k < 4; k++) {
		now += 30 * SEC;
		for (int r = 0; r < HAND_RANKS; r++)
			span(r, now, r == SLOW ? 0.75 : 0.5);
		span(4, now, 0.1);
		tick_at(now + 10 * SEC);
	}
	assert_null(only());
}

/* One that is still to come is waited for. */
static void one_that_is_late(void **state)
{
	(void)state;
	known[0]->dead = true;
	for (int k = 0; k < 3; k++) {
		now += 10 * SEC;
		for (int r = 2; r < HAND_RANKS; r++)
			span(r, now, r == SLOW ? 0.75 : 0.5);
		tick_at(now + LATER_NS);
		assert_null(only());
		span(1, now + SEC, 0.5);
		tick_at(now + SEC + LATER_NS);
	}
	assert_non_null(only());
	assert_true(number_named(only(), "gpu_readings", 0) == 3);
}

static void without_a_step_nothing_is_read(void **state)
{
	(void)state;
	steps.median_s = 0;
	readings(5, 0.75);
	assert_null(only());
	steps.median_s = STEP_S;
	assert_int_equal(until_named(0.75), 3);
}

/* --- whose they are --- */

static void a_process_that_is_gone_is_forgotten(void **state)
{
	for (int i = 0; i < 2; i++) {
		ranks(state, 8);
		assert_int_equal(until_named(0.75), 3);
		if (i)
			known[SLOW]->start_ns++; /* another one of its number */
		else
			known[SLOW]->dead = true;
		tick_at(now + SEC);
		assert_null(only());
		known[SLOW]->dead = false;
		assert_int_equal(until_named(0.75), i ? 2 : 3); /* the same results were read at once */
	}
}

/* A finding of the blame walk about it gets the cause; no other one. */
static void one_that_is_named_already(void **state)
{
	static const struct {
		enum finding_kind kind;
		int n;
		bool is_it;
	} cases[] = { { FINDING_STRAGGLER, 1, true }, { FINDING_STRAGGLER, 2, false }, { FINDING_HANG, 1, false } };

	for (size_t i = 0; i < 4; i++) {
		struct finding *f;

		ranks(state, 8);
		assert_int_equal(until_named(0.75), 3);
		list.n = 0;
		finding_list_add(&list)->kind = FINDING_XID;
		f = finding_list_add(&list);
		f->kind = i < 3 ? cases[i].kind : FINDING_STRAGGLER;
		finding_add_rank(f, 0, known[i == 3 ? 1 : SLOW]->key);
		if (i == 1)
			finding_add_rank(f, 1, known[1]->key);
		assert_int_equal(detector_gpu_time.tick(detector, &m, &list), 0);
		assert_int_equal(list.n, i ? 3 : 2);
		f = &list.items[list.n - 1];
		assert_int_equal(f->cause, CAUSE_GPU);
		assert_int_equal(f->n_evidence, i ? 5 : 3);
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(how_many_readings),
		TEST(what_is_said),
		TEST(how_much_longer),
		TEST(since_it_is_slow),
		TEST(when_it_is_over),
		TEST(beyond_chance),
		TEST(only_its_own_role_counts),
		TEST(the_peers_median),
		TEST(what_is_one_reading),
		TEST(more_results_than_are_kept),
		TEST(of_the_same_iterations),
		TEST(one_that_is_late),
		TEST(without_a_step_nothing_is_read),
		TEST(a_process_that_is_gone_is_forgotten),
		TEST(one_that_is_named_already),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
