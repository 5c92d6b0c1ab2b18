/* SPDX-License-Identifier: Apache-2.0
 *
 * test_places.c - which main threads sit in one place, by stack, system call and state, and how many. Five of them, in
 * select(), by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "detect/rank/places.h"
#define HAND_RANKS 5
#include "tests/unit/job/hand_job.h"

static struct places places;

static int setup(void **state)
{
	hand_setup(state);
	memset(&places, 0, sizeof(places));
	for (int r = 0; r < HAND_RANKS; r++) {
		mains[r].state = TASK_SLEEP;
		mains[r].at_ns = 1;
		mains[r].syscall = "select";
		mains[r].wchan = "do_select";
		mains[r].stack = (struct task_stack){ .frames = "", .python = "", .native = "" };
	}
	return 0;
}

static void stack(int r, const char *native, const char *python)
{
	mains[r].stack.ns = 5;
	mains[r].stack.native = mains[r].stack.frames = native;
	mains[r].stack.python = python;
}

static void add_all(void)
{
	memset(&places, 0, sizeof(places));
	for (int r = 0; r < HAND_RANKS; r++)
		places_add(&places, &mains[r]);
}

static int alike(int r)
{
	add_all();
	return places_alike(&places, &mains[r], false);
}

static void how_many_are_alike(void **state)
{
	(void)state;
	assert_int_equal(alike(0), 4);
	assert_int_equal(places.n, 1);
	assert_int_equal(places.at[0].n, 5);
	assert_int_equal(places_alike(&places, &mains[0], true), 5);
	mains[0].syscall = "futex";
	assert_int_equal(alike(1), 3);
	assert_int_equal(alike(0), 0);
	assert_int_equal(places_alike(&places, &mains[0], true), 1);
	mains[0].syscall = "select";
	mains[0].wchan = "x";
	assert_int_equal(alike(1), 3);
}

/* Of one of which nothing is known, or that is blocked, no place is. */
static void what_has_no_place(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		setup(state);
		mains[0].blocked = i == 1;
		mains[0].at_ns = i == 2 ? 0 : 1;
		mains[0].state = i == 3 ? TASK_STOPPED : TASK_SLEEP;
		assert_int_equal(alike(1), i ? 3 : 4);
		assert_int_equal(alike(0), i ? 0 : 4);
		assert_int_equal(places_alike(&places, &mains[0], true), i ? 0 : 5);
	}
	assert_int_equal(places_alike(&places, NULL, true), 0);
}

/* Those that run are in one place, whatever they called last. */
static void those_that_run(void **state)
{
	(void)state;
	mains[0].state = TASK_RUNNABLE;
	mains[1].state = TASK_ON_CPU;
	mains[1].syscall = "";
	assert_true(places_runs(&mains[0]) && places_runs(&mains[1]) && !places_runs(&mains[2]));
	assert_int_equal(alike(0), 1);
	assert_int_equal(alike(2), 2);
}

/* Stacks decide where both are known; one that was not read is no other place, and stands for none of these. */
static void stacks_decide(void **state)
{
	(void)state;
	stack(0, "read (libc.so.6)", "");
	stack(1, "read (libc.so.6)", "");
	stack(2, "write (libc.so.6)", "");
	assert_int_equal(alike(0), 3); /* 1, and two of which nothing is known */
	assert_int_equal(alike(2), 2);
	assert_int_equal(alike(3), 4);
	assert_int_equal(places.n, 3);
	assert_int_equal(places.at[0].n, 2);
	procs[0].last_call_ns = 6; /* it went on since its stack was read */
	assert_int_equal(alike(0), 4);
	assert_int_equal(places.at[0].n, 3);
}

static void no_more_places_than_fit(void **state)
{
	static struct task many[PLACES_MAX + 1];
	static char calls[PLACES_MAX + 1][8];

	(void)state;
	for (int i = 0; i < PLACES_MAX + 1; i++) {
		memcpy(calls[i], "call000", 8);
		calls[i][4] += i / 100;
		calls[i][5] += i / 10 % 10;
		calls[i][6] += i % 10;
		many[i] = mains[0];
		many[i].syscall = calls[i];
		places_add(&places, &many[i]);
	}
	assert_int_equal(places.n, PLACES_MAX);
	places_add(&places, &many[PLACES_MAX - 1]);
	assert_int_equal(places.at[PLACES_MAX - 1].n, 2);
	assert_int_equal(places_alike(&places, &many[PLACES_MAX], true), 0);
}

static void which_thread_is_the_main_one(void **state)
{
	(void)state;
	assert_ptr_equal(places_main_task(&procs[0]), &mains[0]);
	procs[0].tasks = &proxies[0];
	assert_null(places_main_task(&procs[0]));
	proxies[0].next = &mains[0];
	mains[0].next = NULL;
	assert_ptr_equal(places_main_task(&procs[0]), &mains[0]);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		TEST(how_many_are_alike), TEST(what_has_no_place),       TEST(those_that_run),
		TEST(stacks_decide),      TEST(no_more_places_than_fit), TEST(which_thread_is_the_main_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
