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

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		TEST(one_phase_that_is_longer), TEST(four_fifths_are_enough), TEST(of_two_phases),
		TEST(blocked_in_storage),       TEST(what_is_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
