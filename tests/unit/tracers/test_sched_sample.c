/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sched_sample.c - what tier watch concludes from two samples of a thread: a wait's begin, how long it lasted, and
 * that one switch in between makes all of it unknown.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tracers/sched/sched_sample.h"

#define MS 1000000ull

static struct sched_entry look(struct sched_sampled *k, uint32_t state, uint64_t switches, uint64_t at_ms)
{
	struct sched_sample l = {
		.tid = 7, .tgid = 5, .state = state, .switches = switches, .run_ns = at_ms, .wait_ns = 3
	};
	struct sched_entry e;

	sched_sample_take(k, &l, at_ms * MS, &e);
	assert_int_equal(e.tgid, 5);
	assert_int_equal(e.state, state);
	assert_int_equal(e.run_ns, at_ms);
	assert_int_equal(e.wait_ns, 3);
	return e;
}

static void a_wait_that_lasts(void **state)
{
	struct sched_sampled k = {};
	struct sched_entry e;

	(void)state;
	look(&k, SCHED_ON_CPU, 10, 1000);
	e = look(&k, SCHED_DISK, 11, 1500);
	assert_int_equal(e.since_ns, 1500 * MS);
	assert_int_equal(e.disk_ns, 0);
	for (uint64_t at = 2000; at <= 6500; at += 500)
		e = look(&k, SCHED_DISK, 11, at);
	assert_int_equal(e.since_ns, 1500 * MS);
	assert_int_equal(e.disk_ns, 5000 * MS);
	assert_int_equal(e.sleep_ns, 0);
}

static void one_switch_begins_anew(void **state)
{
	struct sched_sampled k = {};
	struct sched_entry e;

	(void)state;
	look(&k, SCHED_DISK, 11, 1000);
	look(&k, SCHED_DISK, 11, 1500);
	e = look(&k, SCHED_DISK, 12, 2000); /* it ran, and waits again */
	assert_int_equal(e.since_ns, 2000 * MS);
	assert_int_equal(e.disk_ns, 500 * MS);
}

static void a_stop_is_a_sleep_too(void **state)
{
	struct sched_sampled k = {};
	struct sched_entry e;

	(void)state;
	look(&k, SCHED_SLEEP, 4, 1000);
	look(&k, SCHED_STOPPED, 4, 1500); /* stopped in its sleep: no switch needed */
	e = look(&k, SCHED_STOPPED, 4, 2500);
	assert_int_equal(e.since_ns, 1500 * MS);
	assert_int_equal(e.stopped_ns, 1000 * MS);
	assert_int_equal(e.sleep_ns, 1000 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wait_that_lasts),
		cmocka_unit_test(one_switch_begins_anew),
		cmocka_unit_test(a_stop_is_a_sleep_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
