/* SPDX-License-Identifier: Apache-2.0
 *
 * test_activity.c - what a late rank does, by two scans of its threads: how little work is none, what is a sign of life
 * beside it, and what says nothing yet. It is late since second 1000; scans are a second apart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/rank/activity.h"

#define SEC 1000000000ull
#define MSEC 1000000ull
#define SINCE (1000 * SEC)

static struct node node;
static struct comm comm;
static struct member member;
static struct task main_thread, watchdog;
static struct proc rank;
static struct model m;

/* The rank sleeps since long, its watchdog polls a little. */
static int setup(void **state)
{
	(void)state;
	watchdog = (struct task){ .tid = 8, .tgid = 7, .state = TASK_RUNNABLE };
	main_thread = (struct task){ .tid = 7, .tgid = 7, .state = TASK_SLEEP, .since_ns = SINCE - SEC };
	for (struct task *t = &watchdog; t; t = t == &watchdog ? &main_thread : NULL) {
		t->proc = &rank;
		t->prev_seen_ns = SINCE + SEC;
		t->seen_ns = SINCE + 2 * SEC;
	}
	watchdog.next = &main_thread;
	watchdog.run_ns = 50 * MSEC;
	member = (struct member){ .comm = &comm, .proc = &rank };
	rank = (struct proc){ .tgid = 7, .node = &node, .tasks = &watchdog, .members = &member, .leader = &rank };
	m = (struct model){ .now_ns = SINCE + 3 * SEC, .procs = &rank };
	return 0;
}

static enum activity now(void)
{
	return rank_activity(&m, &rank, SINCE).what;
}

static void one_that_sleeps_since_long_is_asleep(void **state)
{
	struct rank_activity a = rank_activity(&m, &rank, SINCE);

	(void)state;
	assert_int_equal(a.what, ACTIVITY_ASLEEP);
	assert_ptr_equal(a.task, &main_thread);
	assert_true(a.cpu_share > 0.04 && a.cpu_share < 0.06);
}

static void a_fifth_of_a_core_is_work(void **state)
{
	(void)state;
	watchdog.run_ns = 190 * MSEC;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	watchdog.run_ns = 200 * MSEC;
	assert_int_equal(now(), ACTIVITY_BUSY);
}

/* Of time from before it was late nothing follows. */
static void work_from_before_says_nothing(void **state)
{
	(void)state;
	watchdog.run_ns = 900 * MSEC;
	watchdog.prev_seen_ns = SINCE - 1;
	assert_int_equal(now(), ACTIVITY_UNSETTLED);
	watchdog.prev_seen_ns = SINCE;
	assert_int_equal(now(), ACTIVITY_BUSY);
}

static void bytes_are_work(void **state)
{
	(void)state;
	rank.prev_io_seen_ns = SINCE + SEC;
	rank.io_seen_ns = SINCE + 2 * SEC;
	rank.io_bytes = 99000;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	rank.io_bytes = 100000;
	assert_int_equal(now(), ACTIVITY_BUSY);
	rank.prev_io_seen_ns = SINCE - 1;
	rank.io_bytes = 300000;
	assert_int_equal(now(), ACTIVITY_UNSETTLED);
}

/* On a crowded machine: half of the time it ran or stood in line. */
static void one_that_wants_a_cpu_works(void **state)
{
	(void)state;
	main_thread.state = TASK_RUNNABLE;
	main_thread.since_ns = SINCE + 2 * SEC;
	main_thread.run_ns = 100 * MSEC;
	main_thread.wait_ns = 390 * MSEC;
	assert_int_equal(now(), ACTIVITY_UNSETTLED); /* it does not sleep either */
	main_thread.wait_ns = 400 * MSEC;
	assert_int_equal(now(), ACTIVITY_BUSY);
	main_thread.wait_ns = 0;
	watchdog.wait_ns = 900 * MSEC; /* a watchdog that stands in line is none */
	assert_int_equal(now(), ACTIVITY_UNSETTLED);
}

static void one_that_was_not_scanned_is_unseen(void **state)
{
	(void)state;
	main_thread.seen_ns = watchdog.seen_ns = main_thread.prev_seen_ns = watchdog.prev_seen_ns = 0;
	assert_int_equal(now(), ACTIVITY_UNSEEN);
}

/* The scan was too soon after it became late. */
static void one_scan_too_early_says_nothing(void **state)
{
	(void)state;
	main_thread.seen_ns = watchdog.seen_ns = SINCE + 400 * MSEC;
	main_thread.prev_seen_ns = watchdog.prev_seen_ns = SINCE - 600 * MSEC;
	assert_int_equal(now(), ACTIVITY_UNSETTLED);
	main_thread.seen_ns++;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
}

static void a_call_is_a_sign_of_life_for_a_second(void **state)
{
	(void)state;
	rank.last_call_ns = m.now_ns - SEC + 1;
	assert_int_equal(now(), ACTIVITY_BUSY);
	rank.last_call_ns--;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	m.now_ns = SINCE + SEC / 2;
	rank.last_call_ns = SINCE; /* what it entered last before it was late */
	assert_int_equal(now(), ACTIVITY_ASLEEP);
}

static void counters_that_move_are_a_sign_of_life(void **state)
{
	(void)state;
	member.samples = (struct samples){ .moved = true, .after_ns = SINCE, .since_ns = m.now_ns - 2500 * MSEC + 1 };
	assert_int_equal(now(), ACTIVITY_BUSY);
	member.samples.since_ns--; /* they stood since then */
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	member.samples.since_ns++;
	member.samples.after_ns--; /* they may have moved before it was late */
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	member.samples.after_ns++;
	member.samples.moved = false;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	member.samples.moved = member.gone = true;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
}

static void what_keeps_a_thread_is_named_first(void **state)
{
	(void)state;
	main_thread.state = TASK_STOPPED;
	assert_int_equal(now(), ACTIVITY_STOPPED);
	main_thread.state = TASK_DISK;
	assert_int_equal(now(), ACTIVITY_DISK);
	assert_ptr_equal(rank_activity(&m, &rank, SINCE).task, &main_thread);
	watchdog.blocked = true;
	assert_int_equal(now(), ACTIVITY_BLOCKED);
	assert_ptr_equal(rank_activity(&m, &rank, SINCE).task, &watchdog);
	rank.dead = true;
	assert_int_equal(now(), ACTIVITY_DEAD);
}

/* Asleep without a break for 400 ms at the scan: a poll wakes more often. */
static void at_rest_is_asleep_for_long(void **state)
{
	(void)state;
	assert_true(rank_at_rest(&rank));
	main_thread.since_ns = main_thread.seen_ns - 400 * MSEC;
	assert_false(rank_at_rest(&rank));
	main_thread.since_ns--;
	assert_true(rank_at_rest(&rank));
	main_thread.state = TASK_STOPPED;
	assert_false(rank_at_rest(&rank));
	rank.tasks = NULL;
	assert_false(rank_at_rest(&rank));
}

static void who_counts_as_a_rank(void **state)
{
	struct proc p = { .rank = 3 };

	(void)state;
	assert_true(rank_counts(&p));
	p.is_child = true;
	assert_false(rank_counts(&p));
	p.members = &member; /* a worker that communicates itself */
	assert_true(rank_counts(&p));
	p = (struct proc){ .rank = -1 };
	assert_false(rank_counts(&p));
}

static void who_is_gone_or_stopped(void **state)
{
	(void)state;
	assert_false(proc_gone_or_stopped(&rank));
	watchdog.state = TASK_STOPPED; /* one thread alone: a debugger's */
	assert_false(proc_gone_or_stopped(&rank));
	main_thread.state = TASK_STOPPED;
	assert_true(proc_gone_or_stopped(&rank));
	main_thread.state = TASK_SLEEP;
	rank.dead = true;
	assert_true(proc_gone_or_stopped(&rank));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		TEST(one_that_sleeps_since_long_is_asleep),
		TEST(a_fifth_of_a_core_is_work),
		TEST(work_from_before_says_nothing),
		TEST(bytes_are_work),
		TEST(one_that_wants_a_cpu_works),
		TEST(one_that_was_not_scanned_is_unseen),
		TEST(one_scan_too_early_says_nothing),
		TEST(a_call_is_a_sign_of_life_for_a_second),
		TEST(counters_that_move_are_a_sign_of_life),
		TEST(what_keeps_a_thread_is_named_first),
		TEST(at_rest_is_asleep_for_long),
		TEST(who_counts_as_a_rank),
		TEST(who_is_gone_or_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
