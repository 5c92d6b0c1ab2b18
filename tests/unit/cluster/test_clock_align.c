/* SPDX-License-Identifier: Apache-2.0
 *
 * test_clock_align.c - clocks of hosts by the collectives in common: right to within the error that is said, whatever
 * the clocks say; over a host between; and nothing is said where nothing is in common.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autopsy/clock_align.h"

#define MSEC 1000000ll
#define BEGIN (1000ll * 1000 * MSEC)

enum { HOSTS = 3 };

static struct clock_spans hosts[HOSTS];
static struct clock_offset found[HOSTS];

static int end(void **state)
{
	(void)state;
	for (int i = 0; i < HOSTS; i++)
		clock_spans_free(&hosts[i]);
	return 0;
}

/* Of one rank; its times are true ones, its clock is `wrong_ns` ahead. */
static void span(int host, uint64_t comm, uint64_t seq, int64_t enter_ns, int64_t leave_ns, int64_t wrong_ns)
{
	const struct clock_span s = { .comm = comm,
				      .seq = seq,
				      .kind = OP_ALLREDUCE,
				      .enter_ns = (uint64_t)(BEGIN + enter_ns + wrong_ns),
				      .leave_ns = (uint64_t)(BEGIN + leave_ns + wrong_ns) };

	assert_int_equal(clock_span_add(&hosts[host], &s), 0);
}

/* The n-th, every 100 ms: each comes at its time, all leave 1 ms behind the last. */
static void collective(int a, int b, int n, int64_t a_late, int64_t b_late, int64_t b_wrong)
{
	int64_t at = n * 100 * MSEC, through = at + (a_late > b_late ? a_late : b_late) + MSEC;

	span(a, 1, (uint64_t)n, at + a_late, through, 0);
	span(b, 1, (uint64_t)n, at + b_late, through, b_wrong);
}

static void assert_known(int host, int64_t offset_ns, int64_t error_most_ns)
{
	assert_true(found[host].error_ns <= (uint64_t)error_most_ns);
	assert_true(llabs(found[host].offset_ns - offset_ns) <= (int64_t)found[host].error_ns);
}

/* Each is the last one once: that bounds it from both sides to what a collective itself takes. */
static void who_is_late_in_turn_bounds_it_closely(void **state)
{
	(void)state;
	for (int n = 0; n < 20; n++)
		collective(0, 1, n, n % 2 ? 40 * MSEC : 0, n % 2 ? 0 : 30 * MSEC, 200 * MSEC);
	assert_int_equal(clocks_align(hosts, 2, found), 0);
	assert_known(1, -200 * MSEC, MSEC);
	assert_int_equal(found[1].n_spans, 20);
	assert_int_equal(found[0].error_ns, 0);
}

/* It is always the same that is late: by how much is not known, and the error says so. */
static void one_that_is_always_late_leaves_it_open(void **state)
{
	(void)state;
	for (int n = 0; n < 20; n++)
		collective(0, 1, n, 0, 60 * MSEC, -5000 * MSEC);
	assert_int_equal(clocks_align(hosts, 2, found), 0);
	assert_known(1, 5000 * MSEC, 31 * MSEC);
	assert_true(found[1].error_ns >= 30 * (uint64_t)MSEC);
}

/* Host 2 has nothing in common with host 0, but with host 1: the errors of both ways add up. */
static void over_a_host_between(void **state)
{
	(void)state;
	for (int n = 0; n < 10; n++) {
		collective(0, 1, n, n % 2 ? 10 * MSEC : 0, n % 2 ? 0 : 10 * MSEC, 70 * MSEC);
		span(1, 2, (uint64_t)n, n * 100 * MSEC, n * 100 * MSEC + 2 * MSEC, 70 * MSEC);
		span(2, 2, (uint64_t)n, n * 100 * MSEC, n * 100 * MSEC + 2 * MSEC, -9 * MSEC);
	}
	assert_int_equal(clocks_align(hosts, 3, found), 0);
	assert_known(1, -70 * MSEC, MSEC);
	assert_known(2, 9 * MSEC, 3 * MSEC);
	assert_true(found[2].error_ns > found[1].error_ns);
}

/* The last of a host's ranks to come, the first to leave: between these nothing is known. */
static void ranks_of_a_host_count_as_one(void **state)
{
	(void)state;
	span(0, 1, 7, 0, 50 * MSEC, 0);
	span(0, 1, 7, 20 * MSEC, 30 * MSEC, 0);
	span(1, 1, 7, 10 * MSEC, 30 * MSEC, 0);
	assert_int_equal(clocks_align(hosts, 2, found), 0);
	assert_int_equal(found[1].n_spans, 1);
	assert_known(1, 0, 15 * MSEC);
}

static void other_collectives_say_nothing(void **state)
{
	(void)state;
	span(0, 1, 7, 0, MSEC, 0);
	span(1, 1, 8, 0, MSEC, 0);
	span(1, 2, 7, 0, MSEC, 0);
	assert_int_equal(clocks_align(hosts, 2, found), 0);
	assert_true(found[1].error_ns == CLOCK_ERROR_UNKNOWN && !found[1].n_spans && !found[1].offset_ns);
	assert_int_equal(clocks_align(hosts, 0, found), 0);
}

/* Clocks that run apart: no one difference holds for all, and the error covers what is left. */
static void clocks_that_drift(void **state)
{
	(void)state;
	for (int n = 0; n < 100; n++)
		collective(0, 1, n, n % 2 ? MSEC : 0, n % 2 ? 0 : MSEC, n * MSEC / 10);
	assert_int_equal(clocks_align(hosts, 2, found), 0);
	assert_true(llabs(found[1].offset_ns + 5 * MSEC) < MSEC);
	assert_true(found[1].error_ns > 3 * (uint64_t)MSEC && found[1].error_ns < 6 * (uint64_t)MSEC);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_teardown(f, end)
	const struct CMUnitTest tests[] = {
		CASE(who_is_late_in_turn_bounds_it_closely),
		CASE(one_that_is_always_late_leaves_it_open),
		CASE(over_a_host_between),
		CASE(ranks_of_a_host_count_as_one),
		CASE(other_collectives_say_nothing),
		CASE(clocks_that_drift),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
