/* SPDX-License-Identifier: Apache-2.0
 *
 * test_shared_halted.c - a process of several ranks that is stopped, or dead, as a whole: one event, one finding;
 * and what is not guessed of its threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/hang/wait_roots.h"
#include "tests/unit/job/shared_pair.h"

static void stop_second_process(void)
{
	struct event e = { .kind = EV_TASK, .tgid = tgid_of(2), .tid = tgid_of(2), .ts_ns = now };

	states[2] = states[3] = e.task.state = TASK_STOPPED;
	assert_int_equal(model_apply(m, &e), 0);
}

static void kill_second_process(void)
{
	struct event e = job_event(EV_EXIT, 2, 0);

	e.exit.last = true;
	e.exit.signal = 9;
	give(2, e);
}

/* One event: named once, with all of its ranks, whichever others came to wait for so far; though its threads were in a
 * wait, whose end they do not see. */
static void halts(void (*halt)(void), enum hang_class class)
{
	uint64_t key = 0;

	for (int r = 0; r < RANKS; r++) {
		call(r, WORLD);
		wait_for(r, WORLD, r < 2);
	}
	halt();
	for (int i = 0; i < 24; i++) {
		if (i == 2 || i == 5) {
			call(i == 5, WORLD);
			wait_for(i == 5, WORLD, false);
		}
		tick();
		assert_int_equal(list.n, i >= 7);
		if (!list.n)
			continue;
		assert_int_equal(list.items[0].class, class);
		assert_int_equal(list.items[0].n_ranks, 2);
		assert_int_equal(list.items[0].ranks[0] + list.items[0].ranks[1], 5);
		assert_null(finding_evidence(&list.items[0], EVIDENCE_TID));
		assert_true(!key || list.items[0].key == key);
		key = list.items[0].key;
	}
	assert_non_null(
		strstr(finding_text(&list.items[0], EVIDENCE_MEMBER), "pid 1100, GPUs 2,3, ranks 2,3 of 4 in 0x"));
}

static void is_stopped_as_a_whole(void **state)
{
	(void)state;
	halts(stop_second_process, HANG_STOPPED);
}

static void is_dead_as_a_whole(void **state)
{
	(void)state;
	halts(kill_second_process, HANG_PROCESS_DEAD);
}

/* Its first rank entered what both take part in, then it was stopped; the world lacks both only later. The stop is
 * known by what was lacking first. */
static void what_was_lacking_first(void **state)
{
	struct event e = { .kind = EV_TASK, .tgid = tgid_of(0), .tid = tgid_of(0) };
	uint64_t lacking_ns;

	(void)state;
	call(0, PAIR);
	lacking_ns = now;
	states[0] = states[1] = e.task.state = TASK_STOPPED;
	e.ts_ns = now;
	assert_int_equal(model_apply(m, &e), 0);
	ticks(2);
	for (int r = 2; r < RANKS; r++) {
		call(r, WORLD);
		wait_for(r, WORLD, false);
	}
	ticks(20);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].class, HANG_STOPPED);
	assert_int_equal(list.items[0].n_ranks, 2);
	assert_int_equal(list.items[0].since_ns, lacking_ns);
}

/* Each thread is ahead of the other in one communicator, and in what each is now is not seen: of ranks that are
 * processes of their own one would be guessed, of these none is. */
static void nothing_is_guessed_of_threads(void **state)
{
	struct wait_roots found = { 0 };

	(void)state;
	call(0, PAIR);
	for (int r = 1; r < RANKS; r++)
		call(r, WORLD);
	for (int r = 2; r < RANKS; r++)
		wait_for(r, WORLD, false);
	now += 60 * SEC;
	give(0, (struct event){ .kind = EV_TICK });
	assert_int_equal(wait_roots_find(m, &found), 0);
	assert_int_equal(found.n_roots, 0);
	assert_int_equal(found.n_cycles, 0);
	wait_for(0, PAIR, false); /* now it is */
	wait_for(1, WORLD, false);
	assert_int_equal(wait_roots_find(m, &found), 0);
	assert_int_equal(found.n_roots, 0);
	assert_int_equal(found.n_cycles, 1);
	assert_int_equal(found.cycles[0].n_comms, 2);
	wait_roots_free(&found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(is_stopped_as_a_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(is_dead_as_a_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_lacking_first, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_is_guessed_of_threads, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
