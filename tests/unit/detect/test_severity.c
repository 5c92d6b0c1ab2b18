/* SPDX-License-Identifier: Apache-2.0
 *
 * test_severity.c - how bad a finding is: by evidence, by time, by kind, by its cause; and what people read of a hang.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "detect/severity.h"
#include "tests/unit/job/job_script.h"

#define SINCE JOB_T0

static enum severity judged(struct finding f, uint64_t lasted_ns)
{
	struct finding_list list = { .items = &f, .n = 1 };

	f.since_ns = SINCE;
	severities_judge(&list, SINCE + lasted_ns);
	return f.severity;
}

static struct finding hang(enum hang_class class, enum finding_cause cause)
{
	return (struct finding){ .kind = FINDING_HANG, .class = class, .cause = cause, .key = 1 };
}

static void what_cannot_end_is_critical_at_once(void **state)
{
	const struct finding permanent[] = {
		hang(HANG_DEADLOCK, CAUSE_ORDER),
		hang(HANG_STOPPED, CAUSE_STOPPED),
		hang(HANG_PROCESS_DEAD, CAUSE_DEAD),
		hang(HANG_HOST_BLOCKED, CAUSE_D_STATE),
		hang(HANG_P2P_UNMATCHED, CAUSE_WENT_ON),
		hang(HANG_INIT, CAUSE_DEAD),
		hang(HANG_INIT, CAUSE_STOPPED),
		hang(HANG_INIT, CAUSE_D_STATE),
		{ .kind = FINDING_MISMATCH },
		{ .kind = FINDING_D_STATE },
		{ .kind = FINDING_STOPPED },
		{ .kind = FINDING_LINK, .cause = CAUSE_QUEUE_PAIR_ERROR },
		{ .kind = FINDING_GPU_HEALTH, .cause = CAUSE_GPU_LOST },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(permanent) / sizeof(permanent[0]); i++)
		assert_int_equal(judged(permanent[i], 0), SEVERITY_CRITICAL);
}

static void what_may_end_is_critical_after_30_s(void **state)
{
	const struct finding stalls[] = {
		hang(HANG_MISSING_ENTER, CAUSE_ASLEEP),
		hang(HANG_INIT, CAUSE_ASLEEP),
		hang(HANG_UNKNOWN, CAUSE_ALL_ENTERED),
		hang(HANG_INSIDE_NETWORK, CAUSE_SENDER),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(stalls) / sizeof(stalls[0]); i++) {
		assert_int_equal(judged(stalls[i], 1500 * MSEC), SEVERITY_WARNING);
		assert_int_equal(judged(stalls[i], 30 * SEC - 1), SEVERITY_WARNING);
		assert_int_equal(judged(stalls[i], 30 * SEC), SEVERITY_CRITICAL);
	}
}

static void what_is_usual_here_comes_first(void **state)
{
	struct finding f = hang(HANG_MISSING_ENTER, CAUSE_ASLEEP);

	(void)state;
	f.warning_after_ns = 24 * SEC;
	f.critical_after_ns = 60 * SEC;
	assert_int_equal(judged(f, 8 * SEC), SEVERITY_INFO);
	assert_int_equal(judged(f, 24 * SEC), SEVERITY_WARNING);
	assert_int_equal(judged(f, 60 * SEC - 1), SEVERITY_WARNING);
	assert_int_equal(judged(f, 60 * SEC), SEVERITY_CRITICAL);
	f.class = HANG_STOPPED; /* habit excuses no stopped rank */
	assert_int_equal(judged(f, SEC), SEVERITY_CRITICAL);
}

static void other_kinds_do_not_age(void **state)
{
	static const enum finding_kind warnings[] = { FINDING_STRAGGLER, FINDING_CPU_STARVED, FINDING_GPU_HEALTH,
						      FINDING_LINK };
	static const enum finding_kind infos[] = { FINDING_SLOW_STEP, FINDING_OBSERVATION, FINDING_LOST_EVENTS,
						   FINDING_UNOBSERVED };

	(void)state;
	for (size_t i = 0; i < sizeof(warnings) / sizeof(warnings[0]); i++)
		assert_int_equal(judged((struct finding){ .kind = warnings[i] }, 3600 * SEC), SEVERITY_WARNING);
	for (size_t i = 0; i < sizeof(infos) / sizeof(infos[0]); i++)
		assert_int_equal(judged((struct finding){ .kind = infos[i] }, 3600 * SEC), SEVERITY_INFO);
}

static enum severity xid(enum finding_cause points_at, int number)
{
	struct finding f = { .kind = FINDING_XID, .cause = points_at };

	finding_note(&f, EVIDENCE_XID, number);
	return judged(f, 0);
}

static void an_xid_by_what_it_points_at(void **state)
{
	(void)state;
	assert_int_equal(xid(CAUSE_HARDWARE, 79), SEVERITY_CRITICAL);
	assert_int_equal(xid(CAUSE_DRIVER, 119), SEVERITY_CRITICAL);
	assert_int_equal(xid(CAUSE_HARDWARE, 92), SEVERITY_WARNING); /* corrected */
	assert_int_equal(xid(CAUSE_APPLICATION, 31), SEVERITY_WARNING);
	assert_int_equal(xid(CAUSE_INFORMATION, 63), SEVERITY_INFO);
}

static void a_consequence_is_as_bad_as_its_cause(void **state)
{
	struct finding both[] = { hang(HANG_MISSING_ENTER, CAUSE_ASLEEP), { .kind = FINDING_MISMATCH, .key = 2 } };
	struct finding_list list = { .items = both, .n = 2 };

	(void)state;
	both[0].since_ns = both[1].since_ns = SINCE;
	both[0].caused_by_key = 2;
	severities_judge(&list, SINCE + SEC);
	assert_int_equal(both[0].severity, SEVERITY_CRITICAL);
	both[1].kind = FINDING_LINK;
	severities_judge(&list, SINCE + SEC);
	assert_int_equal(both[0].severity, SEVERITY_WARNING);
}

/* Who is paged by what is no consequence learns how bad it is. */
static void a_cause_is_as_bad_as_what_follows(void **state)
{
	struct finding all[] = { { .kind = FINDING_LINK, .cause = CAUSE_PORT_DOWN, .key = 1, .since_ns = SINCE },
				 { .kind = FINDING_OBSERVATION, .key = 2, .caused_by_key = 1, .since_ns = SINCE },
				 hang(HANG_INSIDE_NETWORK, CAUSE_NETWORK),
				 { .kind = FINDING_LINK, .cause = CAUSE_PORT_DOWN, .key = 4, .since_ns = SINCE } };
	struct finding_list list = { .items = all, .n = 4 };

	(void)state;
	all[2].since_ns = SINCE;
	all[2].caused_by_key = 2;
	severities_judge(&list, SINCE + 30 * SEC - 1);
	for (int i = 0; i < 4; i++)
		assert_int_equal(all[i].severity, SEVERITY_WARNING);
	severities_judge(&list, SINCE + 30 * SEC);
	for (int i = 0; i < 4; i++) /* a port that is down, and nobody waits behind it, may come up again */
		assert_int_equal(all[i].severity, i < 3 ? SEVERITY_CRITICAL : SEVERITY_WARNING);
	all[0].caused_by_key = 2; /* a circle ends, too */
	severities_judge(&list, SINCE + 30 * SEC);
	assert_int_equal(all[0].severity, SEVERITY_CRITICAL);
}

/* A chain of four causes, found from the root on. */
static void a_root_is_as_bad_as_the_end_of_its_chain(void **state)
{
	struct finding all[5];
	struct finding_list list = { .items = all, .n = 5 };

	(void)state;
	for (int i = 0; i < 4; i++)
		all[i] = (struct finding){ .kind = FINDING_OBSERVATION };
	all[4] = hang(HANG_DEADLOCK, CAUSE_ORDER);
	for (int i = 0; i < 5; i++) {
		all[i].since_ns = SINCE;
		all[i].key = 1 + i;
		all[i].caused_by_key = i;
	}
	severities_judge(&list, SINCE);
	for (int i = 0; i < 5; i++)
		assert_int_equal(all[i].severity, SEVERITY_CRITICAL);
}

static void people_read_stall_before_hang(void **state)
{
	struct finding f = hang(HANG_MISSING_ENTER, CAUSE_ASLEEP);

	(void)state;
	assert_string_equal(finding_kind_shown(&f), "possible stall");
	finding_note_text(&f, EVIDENCE_KNOWN_PHASE, "train.py:31 save: 8.6 s, once before");
	assert_string_equal(finding_kind_shown(&f), "known phase");
	f.severity = SEVERITY_WARNING;
	assert_string_equal(finding_kind_shown(&f), "stall");
	f.severity = SEVERITY_CRITICAL;
	assert_string_equal(finding_kind_shown(&f), "hang");
	assert_string_equal(finding_kind_name(f.kind), "hang");
	f.kind = FINDING_STRAGGLER;
	assert_string_equal(finding_kind_shown(&f), "straggler");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_cannot_end_is_critical_at_once),
		cmocka_unit_test(what_may_end_is_critical_after_30_s),
		cmocka_unit_test(what_is_usual_here_comes_first),
		cmocka_unit_test(other_kinds_do_not_age),
		cmocka_unit_test(an_xid_by_what_it_points_at),
		cmocka_unit_test(a_consequence_is_as_bad_as_its_cause),
		cmocka_unit_test(a_cause_is_as_bad_as_what_follows),
		cmocka_unit_test(a_root_is_as_bad_as_the_end_of_its_chain),
		cmocka_unit_test(people_read_stall_before_hang),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
