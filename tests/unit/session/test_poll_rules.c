/* SPDX-License-Identifier: Apache-2.0
 *
 * test_poll_rules.c - when queries are probed: not while waits show all ends, again when something stays open.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "session/rules/poll_rules.h"

#define S 1000000000ull
#define TICK (S / 4)

struct life { /* of a process, tick by tick */
	struct poll_state s;
	struct poll_sample x;
	uint64_t ended, polled; /* in each tick */
};

static bool turn(struct life *l)
{
	l->x.now_ns += TICK;
	l->x.n_ended += l->ended;
	l->x.n_polled += l->polled;
	return polls_wanted(&l->s, &l->x);
}

/* Ticks until that is the answer, `most` at most. */
static int ticks_until(struct life *l, bool wanted, int most)
{
	int n = 1;

	while (turn(l) != wanted && n < most)
		n++;
	return n;
}

static struct life begun(uint64_t ended, uint64_t polled)
{
	return (struct life){ .x = { .now_ns = 100 * S, .probed = true }, .ended = ended, .polled = polled };
}

static void waits_show_all_ends(void **state)
{
	struct life l = begun(60, 3);

	(void)state;
	assert_int_equal(ticks_until(&l, false, 100), 9); /* the first only begins the window of two seconds */
	assert_int_equal(ticks_until(&l, true, 5000), 4 * POLLS_AGAIN_NS / S);
	assert_int_equal(ticks_until(&l, false, 100), 8);
}

static void one_end_in_nineteen_is_worth_it(void **state)
{
	struct life l = begun(57, 3);

	(void)state;
	assert_int_equal(ticks_until(&l, false, 1000), 1000);
}

static void too_few_ends_prove_nothing(void **state)
{
	struct life l = begun(2, 0); /* 16 in the window */

	(void)state;
	assert_int_equal(ticks_until(&l, false, 1000), 1000);
	l.ended = 3;
	assert_int_equal(ticks_until(&l, false, 20) <= 16, 1);
}

static void what_stays_open_is_asked_about(void **state)
{
	struct life l = begun(60, 0);

	(void)state;
	ticks_until(&l, false, 100);
	l.x.open_since_ns = l.x.now_ns;
	l.ended = 0;
	assert_int_equal(ticks_until(&l, true, 100), 5); /* the first beyond a second */
	l.x.open_since_ns = 0;
	l.ended = 60;
	assert_int_equal(ticks_until(&l, false, 200), 4 * POLLS_STAY_NS / S);
}

static void what_is_open_at_the_decision_keeps_them(void **state)
{
	struct life l = begun(60, 0);

	(void)state;
	l.x.open_since_ns = l.x.now_ns;
	assert_int_equal(ticks_until(&l, false, 100), 100);
}

static void taken_or_held_for_another_reason(void **state)
{
	struct life l = begun(60, 0);

	(void)state;
	ticks_until(&l, false, 100);
	l.x.probed = false;
	assert_true(turn(&l));
	l.x.probed = true;
	assert_int_equal(ticks_until(&l, false, 100), 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits_show_all_ends),
		cmocka_unit_test(one_end_in_nineteen_is_worth_it),
		cmocka_unit_test(too_few_ends_prove_nothing),
		cmocka_unit_test(what_stays_open_is_asked_about),
		cmocka_unit_test(what_is_open_at_the_decision_keeps_them),
		cmocka_unit_test(taken_or_held_for_another_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
