/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_late_rank.c - which operation a late rank is held to, what counts as being asleep, who does not wait, and
 * two faults at once. Three ranks by hand: X joins 0 and 1, Y joins 1 and 2; each calls X, then Y.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

enum { RANKS = 3, X = 0xa, Y = 0xb };

static struct model *m;
static struct detectors *d;
static struct finding_list list;
static uint64_t now;
static enum task_state state_of[RANKS];

static void give(struct event e)
{
	e.ts_ns = now += MSEC / 10;
	assert_int_equal(model_apply(m, &e), 0);
}

static void join(int r, uint64_t comm, int rank)
{
	struct event e = job_event(EV_COMM_READY, r, 0);

	e.comm_init.addr = e.comm_init.id_hash = comm;
	e.comm_init.rank = rank;
	e.comm_init.nranks = 2;
	give(e);
}

static void call(int r, uint64_t comm)
{
	give(job_call_event(r, OP_ALLREDUCE, comm, 5, comm));
}

static void sync(int r, bool returns)
{
	struct event e = job_wait_event(r, 5);

	give(e);
	e.kind = EV_SYNC_END;
	e.sync.begin_ns = now;
	if (returns)
		give(e);
}

static void tick(void)
{
	struct event e = { .kind = EV_TICK };

	for (int r = 0; r < RANKS; r++) {
		struct event t = job_event(EV_TASK, r, 0);

		t.task.state = state_of[r];
		t.task.since_ns = state_of[r] == TASK_SLEEP ? JOB_T0 : now;
		t.task.run_ns = state_of[r] == TASK_SLEEP ? 0 : (now - JOB_T0) / 10;
		give(t);
	}
	now += 250 * MSEC;
	give(e);
	assert_int_equal(detectors_tick(d, m, &list), 0);
}

static void ticks(double seconds)
{
	for (int i = 0; i < seconds * 4; i++)
		tick();
}

static void steps(int n)
{
	for (int i = 0; i < n; i++) {
		for (int r = 0; r < 2; r++)
			call(r, X);
		for (int r = 1; r < 3; r++)
			call(r, Y);
		for (int r = 0; r < RANKS; r++)
			sync(r, true);
		tick();
	}
	assert_int_equal(list.n, 0);
}

static int fresh(void **state)
{
	(void)state;
	now = JOB_T0;
	m = model_new();
	d = detectors_new();
	for (int r = 0; r < RANKS; r++) {
		state_of[r] = TASK_SLEEP;
		give(job_proc_event(r, RANKS, 0));
	}
	join(0, X, 0);
	join(1, X, 1);
	join(1, Y, 0);
	join(2, Y, 1);
	steps(20);
	return 0;
}

static int done(void **state)
{
	(void)state;
	finding_list_free(&list);
	detectors_free(d);
	model_free(m);
	return 0;
}

/* Its peer in Y waits longer, but X is what it would call. */
static void test_its_habit_shows_the_operation(void **state)
{
	(void)state;
	call(2, Y);
	sync(2, false);
	ticks(0.5);
	call(0, X);
	sync(0, false);
	ticks(5);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].ranks[0], 1);
	assert_true(list.items[0].comm == X && list.items[0].seq == 20);
	assert_true(list.items[0].since_ns > JOB_T0);
}

/* A thread that could run any moment is not asleep, however little it ran. */
static void test_a_thread_that_runs_is_not_asleep(void **state)
{
	(void)state;
	state_of[1] = TASK_RUNNABLE;
	call(0, X);
	sync(0, false);
	ticks(10);
	assert_int_equal(list.n, 0);
	state_of[1] = TASK_SLEEP;
	ticks(2);
	assert_int_equal(list.n, 1);
	assert_string_equal(cause_name(list.items[0].cause), "asleep");
}

/* Operation 20 is over, so rank 1 was there: its record is lost. */
static void test_who_is_through_does_not_wait(void **state)
{
	(void)state;
	call(0, X);
	sync(0, true);
	ticks(10);
	assert_int_equal(list.n, 0);
}

/* Neither waits for the other: both are reported, each with its own operation. */
static void test_two_sleepers_are_two_faults(void **state)
{
	(void)state;
	call(1, X);
	call(1, Y);
	sync(1, false);
	ticks(5);
	assert_int_equal(list.n, 2);
	assert_true(list.items[0].comm != list.items[1].comm && list.items[0].ranks[0] != list.items[1].ranks[0]);
	for (int i = 0; i < 2; i++)
		assert_true(list.items[i].class == HANG_MISSING_ENTER && !list.items[i].caused_by_key);
}

/* Rank 1 called X, which 0 does not come to, and then fell asleep itself: it waits for no rank, and 2 waits for it. */
static void test_a_sleeper_is_no_victim(void **state)
{
	struct event record = job_event(EV_CUDA_EVENT, 1, 0);

	(void)state;
	call(1, X);
	record.cuda_event.handle = 77;
	record.cuda_event.stream = 5;
	give(record);
	call(2, Y);
	sync(2, false);
	ticks(5);
	assert_int_equal(list.n, 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(list.items[i].ranks[0], list.items[i].comm == X ? 0 : 1);
}

/* Its GPU is at its own work: that may take its time, and is reported as work. */
static void test_a_gpu_at_work_is_work(void **state)
{
	(void)state;
	sync(1, false);
	call(0, X);
	sync(0, false);
	ticks(5);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].kind, FINDING_OBSERVATION);
	assert_string_equal(cause_name(list.items[0].cause), "gpu");
	assert_int_equal(list.items[0].ranks[0], 1);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(test_its_habit_shows_the_operation), TEST(test_a_thread_that_runs_is_not_asleep),
		TEST(test_who_is_through_does_not_wait),  TEST(test_two_sleepers_are_two_faults),
		TEST(test_a_sleeper_is_no_victim),        TEST(test_a_gpu_at_work_is_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
