/* SPDX-License-Identifier: Apache-2.0
 *
 * test_pace_rules.c - whose counters show a job's pace, what disturbs it, and what is said of a drop. Three ranks read
 * once a second: a hundred operations each.
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
#define HAND_RANKS 3
#include "tests/unit/job/hand_known.h"

static const struct job_id job = { .name = "train", .shown = "train", .nth = 1 },
			   other_job = { .name = "other", .shown = "other", .nth = 1 };
static struct comm other_comm;
static struct member other; /* rank 0's, of another communicator */
static struct steps steps;
static struct op op;
static struct finding_list list;
static void *detector;

static int begin(void **state)
{
	hand_setup(state);
	hand_find();
	steps = (struct steps){ 0 };
	for (int r = 0; r < HAND_RANKS; r++) {
		known[r]->steps = &steps;
		known[r]->job = &job;
		members[r].samples.counted = true;
	}
	other_comm = (struct comm){ .hash = 0xb0, .nranks = 1, .members = &other };
	other = (struct member){ .comm = &other_comm, .proc = known[0], .samples.counted = true };
	list = (struct finding_list){ 0 };
	detector = calloc(1, detector_pace.state_bytes);
	return 0;
}

static int end(void **state)
{
	(void)state;
	detector_pace.release(detector);
	free(detector);
	finding_list_free(&list);
	hand_lose();
	return 0;
}

static void again(void **state)
{
	end(state);
	begin(state);
}

static void enter(struct member *mb, uint64_t n)
{
	mb->samples.n++;
	mb->samples.seen_ns = m.now_ns;
	mb->samples.counters[OP_ALLREDUCE] += n / 2;
	mb->samples.counters[OP_BROADCAST] += n - n / 2;
}

static void tick(void)
{
	assert_int_equal(detector_pace.tick(detector, &m, &list), 0);
}

/* A second in which every rank entered so many. */
static void second(uint64_t n)
{
	m.now_ns += SEC;
	for (int r = 0; r < HAND_RANKS; r++)
		enter(&members[r], n);
	list.n = 0;
	tick();
}

static void seconds(int times, uint64_t n)
{
	while (times-- > 0)
		second(n);
}

static const struct finding *only(void)
{
	assert_true(list.n <= 1);
	return list.n ? &list.items[0] : NULL;
}

static void what_is_said(void **state)
{
	uint64_t since;

	(void)state;
	seconds(21, 100);
	since = m.now_ns;
	seconds(4, 50);
	assert_null(only());
	second(50);
	assert_non_null(only());
	assert_int_equal(only()->kind, FINDING_SLOW_STEP);
	assert_int_equal(only()->cause, CAUSE_UNKNOWN);
	assert_int_equal(only()->n_ranks, 0);
	assert_int_equal(only()->since_ns, since);
	assert_int_equal(only()->caused_by_key, 0);
	assert_ptr_equal(only()->job, job.shown);
	assert_true(fabs(only()->confidence - 0.8) < 1e-6 && only()->key);
	assert_true(number_named(only(), "ops_per_s", 0) == 50);
	assert_true(number_named(only(), "ops_per_s_before", 0) == 100);
	assert_true(number_named(only(), "slower_percent", 0) == 100);
	assert_string_equal(text_named(only(), "known_from", ""), "counters");
}

static bool drops(void)
{
	seconds(21, 100);
	seconds(6, 50);
	return only();
}

/* Living ranks of the job, that are no children, and of which counters are read. */
static void whose_counters(void **state)
{
	for (int i = 0; i < 7; i++) {
		again(state);
		for (int r = 0; r < HAND_RANKS; r++) {
			known[r]->dead = i == 1;
			known[r]->is_child = i == 2;
			members[r].gone = i == 3;
			members[r].samples.counted = i != 4;
			known[r]->members = i == 5 ? NULL : &members[r];
		}
		assert_int_equal(drops(), i == 0 || i == 6);
	}
	again(state);
	for (int k = 0; k < 30; k++) { /* the lowest rank's: the others' go on as before */
		m.now_ns += SEC;
		enter(&members[0], k < 21 ? 100 : 50);
		enter(&members[1], 100);
		list.n = 0;
		tick();
	}
	assert_non_null(only());
	known[0]->dead = true;
	seconds(1, 100);
	assert_null(only());
}

/* The one that it entered twice as many of, but not while there is a drop. */
static void in_which_communicator(void **state)
{
	for (int i = 0; i < 3; i++) {
		again(state);
		members[0].next_in_proc = &other;
		for (int k = 0; k < 60; k++) {
			m.now_ns += SEC;
			enter(&members[0], k < 50 ? 100 : 50);
			/* 2: from the middle on, and by then it has become the busier */
			enter(&other, !k ? 90 : i == 0 ? 150 : i == 1 ? 250 : k < 56 ? 100 : 100000);
			list.n = 0;
			tick();
		}
		assert_int_equal(!!only(), i != 1);
	}
}

/* Where iterations are seen slow_step knows better, for ten seconds after the last call. */
static void where_calls_are_seen(void **state)
{
	for (int i = 0; i < 2; i++) {
		again(state);
		steps.period_ops = 1;
		known[0]->last_op = &op;
		seconds(21, 100);
		for (int k = 0; k < 6; k++) {
			op.call_ns = m.now_ns + SEC - 10 * SEC + (i ? 0 : 1);
			second(50);
		}
		assert_int_equal(!!only(), i);
	}
}

/* While something holds this job up. */
static void what_disturbs(void **state)
{
	static const struct {
		enum finding_kind kind;
		int rank; /* -1 none */
		bool disturbs;
	} cases[] = { { FINDING_HANG, 0, true },          { FINDING_D_STATE, 0, true },    { FINDING_STOPPED, 0, true },
		      { FINDING_OBSERVATION, 0, true },   { FINDING_STRAGGLER, 0, false }, { FINDING_HANG, -1, true },
		      { FINDING_OBSERVATION, -1, false }, { FINDING_HANG, 2, false } };

	for (int i = 0; i < 8; i++) {
		again(state);
		known[2]->job = &other_job;
		members[2].samples.counted = false;
		seconds(21, 100);
		for (int k = 0; k < 6; k++) {
			struct finding *f;

			m.now_ns += SEC;
			enter(&members[0], 50);
			enter(&members[1], 50);
			list.n = 0;
			f = finding_list_add(&list);
			f->kind = cases[i].kind;
			if (cases[i].rank >= 0)
				finding_add_rank(f, cases[i].rank, known[cases[i].rank]->key);
			tick();
		}
		assert_int_equal(list.n, cases[i].disturbs ? 1 : 2);
		if (list.n < 2)
			continue;
		list.n = 0;
		finding_list_add(&list)->kind = FINDING_HANG; /* one that is open stays */
		m.now_ns += SEC;
		enter(&members[0], 50);
		tick();
		assert_int_equal(list.n, 2);
	}
}

static void what_explains_it(void **state)
{
	uint64_t key = 0;

	(void)state;
	assert_true(drops());
	for (int i = 0; i < 2; i++) {
		list.n = 0;
		if (!i) {
			struct finding *f = finding_list_add(&list);

			f->kind = FINDING_STRAGGLER;
			finding_add_rank(f, 0, known[0]->key);
			f->subject = subject_rank(0, known[0]->key);
			finding_identify(f, "straggler", 0, 0);
			key = f->key;
		}
		m.now_ns += SEC;
		enter(&members[0], 50);
		tick();
		assert_int_equal(list.items[list.n - 1].caused_by_key, key); /* also when it is over */
		assert_true(key);
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(what_is_said),         TEST(whose_counters), TEST(in_which_communicator),
		TEST(where_calls_are_seen), TEST(what_disturbs),  TEST(what_explains_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
