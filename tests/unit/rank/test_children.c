/* SPDX-License-Identifier: Apache-2.0
 *
 * test_children.c - what children of a rank did that are too young, or too dead, for two scans. It is late since ten
 * seconds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "detect/rank/children.h"
#define HAND_RANKS 1
#include "tests/unit/job/hand_job.h"

#define SINCE_NS (NOW - 10 * SEC)

static struct task thread, second;
static struct proc child;

/* It began 1.5 s ago, and was scanned half a second ago. */
static int setup(void **state)
{
	hand_setup(state);
	second = (struct task){ 0 };
	thread = (struct task){ .seen_ns = NOW - 500 * MSEC, .run_ns = 250 * MSEC, .next = &second };
	child = (struct proc){ .leader = &procs[0], .first_ns = NOW - 1500 * MSEC, .tasks = &thread, .is_child = true };
	procs[0].next = &child;
	return 0;
}

static struct children children(void)
{
	return children_read(&m, &procs[0], SINCE_NS);
}

static void what_a_first_scan_shows(void **state)
{
	(void)state;
	assert_true(children().cpu_share == 0.25);
	assert_false(children().unknown);
	second.seen_ns = NOW - SEC;
	second.run_ns = 250 * MSEC;
	assert_true(children().cpu_share == 0.75);
	second.prev_seen_ns = 1; /* its totals say more */
	assert_true(children().cpu_share == 0.25);
	thread.seen_ns = child.first_ns;
	assert_true(children().cpu_share == 0);
	thread.seen_ns++;
	assert_true(children().cpu_share > 0);
}

/* For two seconds: by then there is a second one. */
static void a_first_scan_grows_old(void **state)
{
	(void)state;
	m.now_ns = thread.seen_ns + 2 * SEC - 1;
	assert_true(children().cpu_share == 0.25);
	m.now_ns++;
	assert_true(children().cpu_share == 0);
}

static void whose_child_it_is(void **state)
{
	static struct proc other;

	(void)state;
	child.leader = &other;
	assert_true(children().cpu_share == 0);
	child.leader = &procs[0];
	child.first_ns = SINCE_NS + 1;
	assert_true(children().cpu_share > 0);
	child.first_ns = SINCE_NS;
	assert_true(children().cpu_share == 0);
	procs[0].first_ns = SINCE_NS + 1; /* the rank itself is none */
	mains[0].seen_ns = NOW - SEC;
	mains[0].run_ns = SEC;
	assert_true(children().cpu_share == 0);
}

/* Two seconds long. */
static void one_that_was_not_scanned_yet(void **state)
{
	(void)state;
	thread.seen_ns = 0;
	assert_true(children().unknown);
	assert_true(children().cpu_share == 0);
	m.now_ns = child.first_ns + 2 * SEC - 1;
	assert_true(children().unknown);
	m.now_ns++;
	assert_false(children().unknown);
	m.now_ns = NOW;
	second.seen_ns = NOW;
	assert_false(children().unknown);
	second.seen_ns = 0;
	child.dead = true;
	assert_false(children().unknown);
}

static void what_it_read(void **state)
{
	(void)state;
	child.io_bytes = 1 << 20; /* the program's own start */
	child.io_seen_ns = NOW - SEC;
	assert_true(children().io_bytes_s == 0);
	child.io_bytes *= 2;
	assert_true(children().io_bytes_s == 4 << 20);
	m.now_ns = child.io_seen_ns + 2 * SEC - 1;
	assert_true(children().io_bytes_s > 0);
	m.now_ns++;
	assert_true(children().io_bytes_s == 0);
	m.now_ns = NOW;
	child.prev_io_seen_ns = 1;
	assert_true(children().io_bytes_s == 0);
	child.prev_io_seen_ns = 0;
	child.io_seen_ns = child.first_ns;
	assert_true(children().io_bytes_s == 0);
	child.io_bytes = (1 << 20) + 1;
	child.io_seen_ns++;
	assert_true(children().io_bytes_s > 0);
}

/* Its CPU time after its last scan, spread over two seconds. */
static void one_that_ended(void **state)
{
	(void)state;
	child.dead = true;
	child.exit_ns = NOW - SEC;
	child.end_run_known = true;
	child.end_run_ns = 500 * MSEC;
	assert_true(children().cpu_share == 0.25);
	child.exit_ns = NOW - 2 * SEC + 1;
	assert_true(children().cpu_share == 0.25);
	child.exit_ns--;
	assert_true(children().cpu_share == 0);
	m.now_ns = SINCE_NS + SEC;
	child.exit_ns = SINCE_NS + 1;
	assert_true(children().cpu_share == 0.25);
	child.exit_ns--;
	assert_true(children().cpu_share == 0);
}

/* All of its life since then, at most two seconds of it. */
static void one_of_which_the_end_is_not_known(void **state)
{
	(void)state;
	child.dead = true;
	child.exit_ns = NOW - SEC;
	assert_true(children().cpu_share == 0.25); /* of the half second that it lived */
	child.first_ns = NOW - 3 * SEC;
	assert_true(children().cpu_share == 1);
	child.first_ns--;
	assert_true(children().cpu_share == 1);
	child.first_ns = NOW - 100 * SEC;
	m.now_ns = SINCE_NS + SEC;
	child.exit_ns = SINCE_NS + 500 * MSEC;
	assert_true(children().cpu_share == 0.25);
}

static void several_add_up(void **state)
{
	static struct proc next;

	(void)state;
	next = child;
	child.next = &next;
	assert_true(children().cpu_share == 0.5);
	next.dead = next.end_run_known = true;
	next.exit_ns = NOW - SEC;
	next.end_run_ns = SEC;
	assert_true(children().cpu_share == 0.75);
	child.io_bytes = next.io_bytes = 2 << 20;
	child.io_seen_ns = next.io_seen_ns = NOW - SEC;
	next.dead = false;
	assert_true(children().io_bytes_s == 8 << 20);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		TEST(what_a_first_scan_shows),           TEST(a_first_scan_grows_old), TEST(whose_child_it_is),
		TEST(one_that_was_not_scanned_yet),      TEST(what_it_read),           TEST(one_that_ended),
		TEST(one_of_which_the_end_is_not_known), TEST(several_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
