/* SPDX-License-Identifier: Apache-2.0
 *
 * test_escalation.c - who is probed when: trace at once, burst for seconds, back by itself, then left alone for a
 * while.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "session/rules/escalation.h"

#define S 1000000000ull

static const struct escalation_cfg cfg = {
	.raise_ns = 60 * S, .burst_after_ns = 2 * S, .burst_ns = 5 * S, .pause_ns = 240 * S
};

static void expect(struct escalation *e, uint64_t at_s, uint32_t tgid, enum tier before, enum tier tier)
{
	struct tier_change c;

	assert_true(escalation_next(e, at_s * S, &c));
	assert_int_equal(c.tgid, tgid);
	assert_int_equal(c.before, before);
	assert_int_equal(c.tier, tier);
	assert_int_equal(c.incident, 9);
}

static void expect_none(struct escalation *e, uint64_t at_s)
{
	struct tier_change c;

	assert_false(escalation_next(e, at_s * S, &c));
}

static void up_and_down_by_itself(void **state)
{
	struct escalation *e = escalation_new(&cfg);

	(void)state;
	expect_none(e, 99);
	assert_int_equal(escalation_note(e, 5, 9, 100 * S), 0);
	expect(e, 100, 5, TIER_WATCH, TIER_TRACE);
	assert_int_equal(escalation_raised(e), 1);
	expect_none(e, 101);
	expect(e, 102, 5, TIER_TRACE, TIER_BURST);
	expect_none(e, 106);
	expect(e, 107, 5, TIER_BURST, TIER_TRACE);
	expect_none(e, 159);
	expect(e, 160, 5, TIER_TRACE, TIER_WATCH);
	assert_int_equal(escalation_raised(e), 0);
	escalation_free(e);
}

/* As long as it is held, through what a finding raises and its pause; then it goes. */
static void held(void **state)
{
	struct escalation *e = escalation_new(&cfg);
	struct tier_change c;

	(void)state;
	assert_int_equal(escalation_hold(e, 5, 400 * S, 100 * S), 0);
	assert_true(escalation_next(e, 100 * S, &c) && c.tier == TIER_TRACE && !c.incident);
	expect_none(e, 300);
	assert_int_equal(escalation_note(e, 5, 9, 310 * S), 0);
	expect(e, 312, 5, TIER_TRACE, TIER_BURST);
	expect(e, 317, 5, TIER_BURST, TIER_TRACE);
	expect_none(e, 399);
	expect(e, 400, 5, TIER_TRACE, TIER_WATCH);
	assert_int_equal(escalation_raised(e), 0);
	escalation_free(e);
}

/* Somebody who asks need not wait for the end of the pause; twice at once is once. */
static void asked_for(void **state)
{
	struct escalation *e = escalation_new(&cfg);
	struct tier_change c;

	(void)state;
	assert_int_equal(escalation_note(e, 5, 9, 100 * S), 0);
	assert_false(escalation_ask(e, 5, 101 * S));
	expect(e, 101, 5, TIER_WATCH, TIER_TRACE);
	expect(e, 160, 5, TIER_TRACE, TIER_WATCH);
	assert_int_equal(escalation_note(e, 5, 9, 170 * S), 0);
	expect_none(e, 171); /* a finding waits */
	assert_true(escalation_ask(e, 5, 172 * S));
	assert_true(escalation_next(e, 172 * S, &c));
	assert_int_equal(c.tier, TIER_TRACE);
	assert_int_equal(c.incident, 0);
	escalation_free(e);
}

static void left_alone_afterwards(void **state)
{
	struct escalation *e = escalation_new(&cfg);

	(void)state;
	escalation_note(e, 5, 9, 100 * S);
	expect(e, 100, 5, TIER_WATCH, TIER_TRACE);
	escalation_note(e, 5, 10, 130 * S); /* raised: not for longer */
	expect(e, 200, 5, TIER_TRACE, TIER_WATCH);
	escalation_note(e, 5, 11, 250 * S); /* in its pause */
	expect_none(e, 250);
	expect_none(e, 400);
	escalation_note(e, 5, 9, 401 * S);
	expect(e, 401, 5, TIER_WATCH, TIER_TRACE);
	escalation_free(e);
}

/* A looker that was late skips what is over by then, and never leaves probes on. */
static void late_samples(void **state)
{
	struct escalation *e = escalation_new(&cfg);

	(void)state;
	escalation_note(e, 5, 9, 100 * S);
	expect_none(e, 170);
	escalation_note(e, 6, 9, 171 * S);
	expect(e, 174, 6, TIER_WATCH, TIER_BURST);
	expect(e, 500, 6, TIER_BURST, TIER_WATCH);
	escalation_free(e);
}

static void bounded(void **state)
{
	struct escalation *e = escalation_new(&cfg);
	struct tier_change c;
	int n = 0;

	(void)state;
	for (uint32_t tgid = 1; tgid <= 2 * ESCALATION_PROCS_MAX; tgid++)
		escalation_note(e, tgid, 9, 100 * S);
	while (escalation_next(e, 100 * S, &c))
		n++;
	assert_int_equal(n, ESCALATION_PROCS_MAX);
	escalation_forget(e, 1);
	assert_int_equal(escalation_raised(e), ESCALATION_PROCS_MAX - 1);
	escalation_free(e);
	escalation_free(NULL);
}

static void never(void **state)
{
	struct escalation_cfg off = cfg;
	struct escalation *e;

	(void)state;
	off.raise_ns = 0;
	e = escalation_new(&off);
	escalation_note(e, 5, 9, 100 * S);
	expect_none(e, 100);
	escalation_free(e);
}

/* A new configuration holds for those that are probed already, too. */
static void settings_change(void **state)
{
	struct escalation *e = escalation_new(&cfg);
	struct escalation_cfg shorter = cfg;

	(void)state;
	escalation_note(e, 5, 9, 100 * S);
	expect(e, 100, 5, TIER_WATCH, TIER_TRACE);
	shorter.raise_ns = 1 * S;
	escalation_set(e, &shorter);
	expect(e, 101, 5, TIER_TRACE, TIER_WATCH);
	shorter.raise_ns = 0;
	escalation_set(e, &shorter);
	escalation_note(e, 6, 9, 102 * S);
	expect_none(e, 102);
	escalation_free(e);
}

/* Forgetting one that was never raised changes nothing; one in the middle goes alone. */
static void forgotten(void **state)
{
	struct escalation *e = escalation_new(&cfg);

	(void)state;
	escalation_forget(e, 5);
	for (uint32_t tgid = 5; tgid < 8; tgid++)
		escalation_note(e, tgid, 9, 100 * S);
	for (uint32_t tgid = 5; tgid < 8; tgid++)
		expect(e, 100, tgid, TIER_WATCH, TIER_TRACE);
	escalation_forget(e, 6);
	assert_int_equal(escalation_raised(e), 2);
	expect(e, 102, 5, TIER_TRACE, TIER_BURST);
	expect(e, 102, 7, TIER_TRACE, TIER_BURST);
	expect_none(e, 102);
	escalation_free(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(up_and_down_by_itself),
		cmocka_unit_test(held),
		cmocka_unit_test(asked_for),
		cmocka_unit_test(left_alone_afterwards),
		cmocka_unit_test(late_samples),
		cmocka_unit_test(bounded),
		cmocka_unit_test(never),
		cmocka_unit_test(settings_change),
		cmocka_unit_test(forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
