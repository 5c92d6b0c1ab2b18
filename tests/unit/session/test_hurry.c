// SPDX-License-Identifier: Apache-2.0
/* hurry.c: a loop whose turn is late goes before other work, and not before it is late; afterwards it is as it was.
 * That this is soon enough beside a flood: tests/hostile/test_flood.py. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "inspect/reader/hurried.h"
#include "session/parts/hurry.h"

#define PERIOD_NS 20000000ull
#define BEAT_NS 200000000ull /* the last turn is so far ahead: a busy machine delays this test, and no verdict */
#define LATE_NS 100000000ull
#define WAIT_NS 10000000000ull

static int policy(void)
{
	return sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
}

static void who_is_late_goes_first(void **state)
{
	struct hurry h = { 0 };
	uint64_t begin_ns;
	bool ahead = false;

	(void)state;
	if (hurried_set(0, true)) {
		print_message("without CAP_SYS_NICE\n");
		skip();
	}
	hurried_set(0, false);
	hurry_open(&h, PERIOD_NS);
	begin_ns = clock_monotonic_ns();
	hurry_beat(&h, begin_ns + BEAT_NS);
	while (!ahead && clock_monotonic_ns() - begin_ns < WAIT_NS) {
		hurry_changed(&h, &ahead);
		usleep(1000);
	}
	assert_true(ahead);
	assert_in_range(clock_monotonic_ns() - begin_ns, BEAT_NS + PERIOD_NS + LATE_NS, WAIT_NS);
	assert_int_equal(policy(), SCHED_RR);
	hurry_close(&h);
	assert_int_equal(policy(), SCHED_OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(who_is_late_goes_first) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
