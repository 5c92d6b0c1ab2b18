/* SPDX-License-Identifier: Apache-2.0
 *
 * test_phase_cost.c - which phase of a step explains a wait, and when none does.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "detect/straggler/phase_cost.h"

static struct phase_mean own, usual;

static int setup(void **state)
{
	(void)state;
	own = (struct phase_mean){ .known = true };
	usual = (struct phase_mean){ .known = true };
	for (int i = 0; i < PHASES_AND_OTHER; i++)
		own.host_s[i] = usual.host_s[i] = 0.25 * i;
	return 0;
}

static void is(int phase, double part, double wait_s)
{
	struct phase_reason r = phase_reason(&own, &usual, wait_s);

	assert_int_equal(r.phase, phase);
	assert_true(fabs(r.part - part) < 1e-9);
	assert_true(phase < 0 || (r.own_s == own.host_s[phase] && r.usual_s == usual.host_s[phase]));
}

static void one_phase_that_is_longer(void **state)
{
	(void)state;
	is(-1, 0, 1);
	own.host_s[1] += 1;
	is(1, 1, 1);
	is(1, 1, 0.5); /* all of it, and more */
	own.host_s[1] = usual.host_s[1] - 1;
	is(-1, 0, 1); /* shorter */
}

static void four_fifths_are_enough(void **state)
{
	(void)state;
	usual.host_s[0] = 0;
	own.host_s[0] = PHASE_EXPLAINS * 2;
	is(0, 0.8, 2);
	own.host_s[0] = nextafter(PHASE_EXPLAINS * 2, 0);
	is(-1, 0, 2);
}

/* Of two that both explain it the longer one; of equal ones the later. */
static void of_two_phases(void **state)
{
	(void)state;
	usual.host_s[0] = usual.host_s[2] = 0;
	own.host_s[0] = 2;
	own.host_s[2] = 1;
	is(0, 1, 1);
	own.host_s[2] = 2;
	is(2, 1, 1);
}

/* Storage is said where its waits are as much longer as the phase is, by four fifths. */
static void blocked_in_storage(void **state)
{
	struct phase_reason r;

	(void)state;
	own.host_s[PHASE_OTHER] += 1;
	own.storage_at = STORAGE_AT(52, STORAGE_FLUSH);
	own.storage_s[PHASE_OTHER] = 1.3;
	usual.storage_s[PHASE_OTHER] = 0.5;
	r = phase_reason(&own, &usual, 1);
	assert_true(r.phase == PHASE_OTHER && r.storage_s == 1.3);
	assert_int_equal(r.storage_at, STORAGE_AT(52, STORAGE_FLUSH));
	usual.storage_s[PHASE_OTHER] = 0.51;
	r = phase_reason(&own, &usual, 1);
	assert_true(r.phase == PHASE_OTHER && !(r.storage_s > 0) && !r.storage_at);
	usual.storage_s[PHASE_OTHER] = 0;
	own.storage_s[PHASE_OTHER] = 0;
	own.storage_s[PHASE_FORWARD] = 2; /* another phase's */
	assert_false(phase_reason(&own, &usual, 1).storage_s > 0);
}

static void what_is_not_known(void **state)
{
	(void)state;
	own.host_s[1] += 1;
	is(-1, 0, 0);
	is(-1, 0, -1);
	own.known = false;
	is(-1, 0, 1);
	own.known = true;
	usual.known = false;
	is(-1, 0, 1);
}

/* Of each figure its own median, of those that are known and have their steps by the same. */
static void what_is_usual(void **state)
{
	struct phase_mean all[5], m;

	(void)state;
	for (int i = 0; i < 5; i++) { /* the middle one is not the first, nor the mean */
		int off = i == 0 ? 5 : i == 1 ? -1 : 0;

		all[i] = (struct phase_mean){ .known = i != 3, .by = i == 4 ? STEPS_BY_OPERATORS : STEPS_BY_RANGES };
		for (int k = 0; k < PHASES_AND_OTHER; k++) {
			all[i].host_s[k] = 100 + 10 * k + off;
			all[i].storage_s[k] = 500 + 10 * k + off;
		}
		all[i].step_s = 1000 + off;
		all[i].gpu_wait_s = 2000 + off;
		all[i].exposed_most_s = 3000 + off;
	}
	all[3].gpu_wait_s = all[4].gpu_wait_s = all[3].step_s = all[4].step_s = 9000;
	m = phase_median(all, 5, STEPS_BY_RANGES);
	assert_true(m.known && m.by == STEPS_BY_RANGES);
	for (int k = 0; k < PHASES_AND_OTHER; k++) {
		assert_true(m.host_s[k] == 100 + 10 * k);
		assert_true(m.storage_s[k] == 500 + 10 * k);
	}
	assert_true(m.step_s == 1000);
	assert_true(m.gpu_wait_s == 2000);
	assert_true(m.exposed_most_s == 3000);
	assert_true(phase_median(all, 5, STEPS_BY_OPERATORS).gpu_wait_s == 9000);
	assert_false(phase_median(all, 4, STEPS_BY_OPERATORS).known);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		TEST(one_phase_that_is_longer), TEST(four_fifths_are_enough), TEST(of_two_phases),
		TEST(blocked_in_storage),       TEST(what_is_not_known),      TEST(what_is_usual),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
