/* SPDX-License-Identifier: Apache-2.0
 *
 * test_guesses.c - ranks that are late at nearly one time, by their counters alone, and sit where the waiting ranks
 * sit: when one of them is named, when they are one finding, and when that is warned of.
 */
#include "tests/unit/job/outside_samples.h"

#include "sink/incident_text.h"

/* One look of a session: each of two communicators has one behind, from its number on. */
static void look_at_both(int i, int left_from, int right_from)
{
	for (int r = 0; r < RANKS; r++) {
		int from = r < 2 ? left_from : right_from, n = i < from ? i : from;

		sample(r, r < 2 ? LEFT : RIGHT, r % 2, 2, REDUCED(21 + n - (r % 2 && i >= from)));
	}
	tick();
}

static int session(void **state)
{
	start(state);
	who();
	m->hang_floor_ns = 1500 * MSEC;
	return 0;
}

/* Past its limit half a second before the other: of those two either may wait for the other. */
static void the_first_of_several_is_not_sure(void **state)
{
	int n = 0;

	(void)state;
	for (int i = 0; i < 8; i++) {
		look_at_both(i, 0, 1);
		for (size_t k = 0; k < list.n; k++, n++) {
			assert_int_equal(list.items[k].class, HANG_UNKNOWN);
			assert_int_equal(list.items[k].severity, SEVERITY_INFO);
		}
		assert_true(i != 2 || (list.n == 1 && list.items[0].ranks[0] == 1));
	}
	assert_true(n > 4);
}

/* The other group goes on: then it is this one. So it is where it sits elsewhere than who waits. */
static void the_only_one_is_sure(void **state)
{
	for (int i = 0; i < 4; i++)
		look_at_both(i, 0, 100);
	assert_int_equal(only()->ranks[0], 1);
	assert_int_equal(only()->class, HANG_MISSING_ENTER);
	end(state);
	session(state);
	at[1].syscall = "clock_nanosleep";
	for (int i = 0; i < 3; i++)
		look_at_both(i, 0, 1);
	assert_int_equal(only()->ranks[0], 1);
	assert_int_equal(only()->class, HANG_MISSING_ENTER);
}

/* Rank 1 is late, and waits for rank 2, which is late half a second after: that one is it. */
static void who_waits_for_the_next_one_is_not_sure(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++) {
		for (int r = 0; r < 2; r++)
			sample(r, LEFT, r, 2, REDUCED(21 - r));
		for (int r = 1; r < 3; r++)
			sample(r, RIGHT, r - 1, 2, REDUCED(i < 1 ? 30 : 31 - (r == 2)));
		tick();
		for (size_t k = 0; k < list.n; k++)
			assert_true(list.items[k].class == HANG_UNKNOWN || list.items[k].ranks[0] == 2);
	}
	assert_int_equal(only()->ranks[0], 2);
	assert_int_equal(only()->class, HANG_MISSING_ENTER);
}

/* Of two that may be it that of the longer wait counts, whichever rank that is, and its limits. */
static void the_longest_wait_is_said(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++)
		look_at_both(i, 1, 0);
	assert_int_equal(only()->n_ranks, 2);
	assert_int_equal(only()->ranks[0], 1);
	assert_int_equal(only()->comm, RIGHT);
	assert_int_equal(only()->since_ns, JOB_T0);
	assert_int_equal(only()->critical_after_ns, 30 * SEC);
	assert_int_equal(only()->warning_after_ns, 10 * SEC);
}

/* Hosts that spin while they wait: a note of the job, not one of each rank. */
static void who_is_busy_is_said_together(void **state)
{
	struct incident i = { .phase = PHASE_OPEN };
	struct text t = { 0 };

	(void)state;
	for (int r = 0; r < RANKS; r++)
		at[r].state = TASK_RUNNABLE;
	for (int k = 0; k < 8; k++)
		look_at_both(k, 0, 0);
	assert_int_equal(only()->kind, FINDING_OBSERVATION);
	assert_int_equal(only()->n_ranks, 2);
	assert_int_equal(only()->severity, SEVERITY_INFO);
	i.f = *only();
	incident_text_sentence(&t, &i);
	assert_string_equal(t.data, "ranks 1 and 3 are late for AllReduce #21: they compute on the CPU; 1 peer has "
				    "waited at least 0.0 s");
	free(t.data);
}

/* The GPU of one of them reports an error: that one has a cause, and is not among those that may be it. */
static void who_has_a_cause_is_apart(void **state)
{
	struct event e = { .kind = EV_XID };
	int n_hangs = 0;

	(void)state;
	e.kernel_log.xid = 79;
	e.kernel_log.pid = job_pid(3);
	e.kernel_log.class = "xid";
	e.kernel_log.text = "NVRM: Xid (PCI:0000:11:00): 79";
	give(e);
	for (int i = 0; i < 8; i++)
		look_at_both(i, 0, 0);
	for (size_t i = 0; i < list.n; i++) {
		const struct finding *f = &list.items[i];

		if (f->kind != FINDING_HANG)
			continue;
		n_hangs++;
		assert_int_equal(f->n_ranks, 1);
		assert_int_equal(!f->caused_by_key, f->ranks[0] == 1);
	}
	assert_int_equal(n_hangs, 2);
}

/* Micro-batches of its own, in another communicator: who is unsure waits from the last of them on. */
static void what_moves_is_warned_of_later(void **state)
{
	bool warned = false;

	(void)state;
	for (int i = 0; now < JOB_T0 + 20 * SEC; i++) {
		for (int r = 0; r < RANKS; r++)
			sample(r, WORLD + r + 1, 0, 1, REDUCED(i < 10 ? i : 10)); /* until 5 s */
		look_at_both(i, 0, 0);
		for (size_t k = 0; k < list.n; k++) {
			warned |= list.items[k].severity == SEVERITY_WARNING;
			assert_true(!warned || now > JOB_T0 + 15 * SEC);
		}
	}
	assert_true(warned);
}

/* What its communicators are used to is not known: a wait is reported late, and warned of after twice that. */
static void a_long_limit_counts_twice(void **state)
{
	uint64_t first_ns = 0, warned_ns = 0;

	start(state);
	ranks_appear();
	m->hang_floor_ns = 1500 * MSEC;
	for (int i = 0; now < JOB_T0 + 60 * SEC && !warned_ns; i++) {
		look_at_both(i, 0, 0);
		for (size_t k = 0; k < list.n; k++) {
			first_ns = first_ns ? first_ns : now;
			warned_ns = list.items[k].severity >= SEVERITY_WARNING ? now : 0;
		}
	}
	assert_true(first_ns >= JOB_T0 + 10 * SEC);
	assert_true(warned_ns >= JOB_T0 + 20 * SEC);
}

int main(void)
{
#define OF_SESSION(f) cmocka_unit_test_setup_teardown(f, session, end)
	const struct CMUnitTest tests[] = {
		OF_SESSION(the_first_of_several_is_not_sure),
		OF_SESSION(the_only_one_is_sure),
		OF_SESSION(who_waits_for_the_next_one_is_not_sure),
		OF_SESSION(the_longest_wait_is_said),
		OF_SESSION(who_is_busy_is_said_together),
		OF_SESSION(who_has_a_cause_is_apart),
		OF_SESSION(what_moves_is_warned_of_later),
		cmocka_unit_test_teardown(a_long_limit_counts_twice, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
