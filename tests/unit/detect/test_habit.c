/* SPDX-License-Identifier: Apache-2.0
 *
 * test_habit.c - how long a rank may keep its peers waiting before that is a warning, and critical: by what it does, by
 * where it pauses, as far as that was read, and by what ended by itself there before.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/hang/habit.h"
#include "detect/severity.h"

#define SEC 1000000000ull
#define SINCE (1000 * SEC)
#define WORKS_NS (90 * SEC)
#define LINE "/job/real.py:31 ckpt"

static struct job_id job = { .name = "job", .shown = "job" };
static struct task thread, other;
static struct steps steps;
static struct proc rank;
static struct model m;
static struct pauses pauses;
static struct pause_place at;
static struct pending pend;

static int setup(void **state)
{
	(void)state;
	other = (struct task){
		.proc = &rank, .tid = 8, .tgid = 7, .syscall = "futex", .at_ns = SINCE + 1, .next = &thread
	};
	thread = (struct task){ .proc = &rank, .tid = 7, .tgid = 7, .syscall = "" };
	thread.stack = (struct task_stack){ .wait = "", .file = "", .frames = "", .python = "", .native = "" };
	other.stack = thread.stack;
	steps = (struct steps){ .n = 50 };
	rank = (struct proc){ .tgid = 7, .job = &job, .tasks = &other, .steps = &steps };
	m = (struct model){ .now_ns = SINCE + SEC };
	pend = (struct pending){ .since_ns = SINCE, .limit_ns = 2 * SEC };
	at = (struct pause_place){ 0 };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	pauses_free(&pauses);
	return 0;
}

static void sleeps_in(const char *call)
{
	thread.syscall = call;
	thread.at_ns = m.now_ns;
}

static void stack_is(const char *python, const char *wait)
{
	thread.stack.ns = m.now_ns;
	thread.stack.python = thread.stack.frames = python;
	thread.stack.native = "recv (libc.so.6)";
	thread.stack.wait = wait;
}

static struct habit now(enum activity what)
{
	pause_place_read(&at, &m, &rank, 0, SINCE);
	return habit_of(&pauses, &m, &rank, 0, &at, what, &pend, WORKS_NS);
}

/* It ended by itself there so often, each time after so long. */
static void ended_before(const char *site, const char *wait, int times, uint64_t ns)
{
	for (int i = 0; i < times; i++) {
		struct pause p = { .job = "job", .site = site, .wait = wait, .begin_ns = 100 * SEC * (i + 1) };

		p.end_ns = p.begin_ns + ns;
		pauses_learn(&pauses, &m, &p);
	}
}

/* --- where it pauses --- */

static void the_kernel_wait_comes_first_and_then_the_line(void **state)
{
	(void)state;
	sleeps_in("recvfrom");
	now(ACTIVITY_ASLEEP);
	assert_string_equal(at.site, "");
	assert_string_equal(at.wait, "recvfrom"); /* of the main thread */
	assert_int_equal(at.first_ns, SINCE + SEC);
	assert_int_equal(at.steps, 50);
	m.now_ns += SEC;
	steps.n = 60;
	stack_is("ckpt (/job/real.py:31)", "poll");
	now(ACTIVITY_ASLEEP);
	assert_string_equal(at.site, LINE);
	assert_string_equal(at.wait, "poll");
	assert_int_equal(at.first_ns, SINCE + SEC); /* of the begin */
	assert_int_equal(at.steps, 50);
	sleeps_in("select"); /* the stack says more */
	now(ACTIVITY_ASLEEP);
	assert_string_equal(at.wait, "poll");
}

static void what_was_read_before_the_pause_is_of_another(void **state)
{
	(void)state;
	m.now_ns = SINCE;
	sleeps_in("recvfrom");
	stack_is("ckpt (/job/real.py:31)", "recvfrom");
	now(ACTIVITY_ASLEEP);
	assert_string_equal(at.site, "");
	assert_string_equal(at.wait, "");
}

/* --- how long --- */

static void a_sleeper_is_critical_after_30_s(void **state)
{
	struct habit h;

	(void)state;
	h = now(ACTIVITY_ASLEEP);
	assert_null(h.phase);
	assert_int_equal(h.warning_after_ns, 0);
	assert_int_equal(h.critical_after_ns, STALL_CRITICAL_NS);
	pend.limit_ns = 40 * SEC; /* a communicator that is used to long lags */
	assert_int_equal(now(ACTIVITY_ASLEEP).critical_after_ns, 80 * SEC);
}

static void one_that_works_is_critical_after_ten_minutes(void **state)
{
	(void)state;
	assert_int_equal(now(ACTIVITY_BUSY).critical_after_ns, 600 * SEC);
	pauses_free(&pauses);
	setup(state);
	assert_int_equal(habit_of(&pauses, &m, &rank, 0, &at, ACTIVITY_BUSY, &pend, 400 * SEC).critical_after_ns,
			 800 * SEC);
}

/* Its sleep counts from the last sign of life. */
static void one_that_moved_has_its_time_from_then_on(void **state)
{
	(void)state;
	m.now_ns = SINCE + 25 * SEC;
	now(ACTIVITY_BUSY);
	m.now_ns = SINCE + 28 * SEC;
	assert_int_equal(now(ACTIVITY_ASLEEP).critical_after_ns, 55 * SEC);
}

static void what_bytes_come_for_is_no_sleep(void **state)
{
	(void)state;
	thread.wait = (struct waits_for){ .kind = WAITS_SOCKET, .flags = WAITS_MOVES, .ns = SINCE + 1 };
	assert_true(now(ACTIVITY_ASLEEP).critical_after_ns >= 600 * SEC);
	thread.wait.flags = 0;
	assert_true(now(ACTIVITY_ASLEEP).critical_after_ns < 60 * SEC);
}

static void what_ended_by_itself_there_moves_both_limits(void **state)
{
	struct habit h;

	(void)state;
	ended_before(LINE, "recvfrom", 3, 20 * SEC);
	stack_is("ckpt (/job/real.py:31)", "recvfrom");
	h = now(ACTIVITY_ASLEEP);
	assert_non_null(h.phase);
	assert_int_equal(h.warning_after_ns, 60 * SEC);
	assert_int_equal(h.critical_after_ns, 60 * SEC);
	setup(state);
	stack_is("load (/job/real.py:12)", "recvfrom"); /* another line: no excuse */
	assert_null(now(ACTIVITY_ASLEEP).phase);
}

/* A call site warns once, but somebody may have ended the long pause: the next is a warning from 30 s on. */
static void what_happened_once_and_long_is_trusted_for_30_s(void **state)
{
	struct habit h;

	(void)state;
	ended_before(LINE, "recvfrom", 1, 40 * SEC);
	stack_is("ckpt (/job/real.py:31)", "recvfrom");
	h = now(ACTIVITY_ASLEEP);
	assert_non_null(h.phase);
	assert_int_equal(h.warning_after_ns, PHASE_TWICE_NS);
	assert_int_equal(h.critical_after_ns, 120 * SEC);
}

/* The line is not read yet: it may be any that the job waits in like that. After ten seconds it is not read any more,
 * and the kernel wait is all that is known of the place. */
static void until_the_line_is_read_it_may_be_a_known_phase(void **state)
{
	(void)state;
	ended_before(LINE, "recvfrom", 3, 20 * SEC);
	sleeps_in("recvfrom");
	assert_non_null(now(ACTIVITY_ASLEEP).phase);
	m.now_ns += 10 * SEC - 1;
	assert_non_null(now(ACTIVITY_ASLEEP).phase);
	m.now_ns++;
	assert_null(now(ACTIVITY_ASLEEP).phase);
	ended_before("recvfrom", "recvfrom", 3, 15 * SEC);
	assert_int_equal(now(ACTIVITY_ASLEEP).warning_after_ns, 45 * SEC);
	setup(state);
	sleeps_in("select");
	assert_null(now(ACTIVITY_ASLEEP).phase);
}

static void what_was_critical_stays_so(void **state)
{
	(void)state;
	m.now_ns = SINCE + 30 * SEC - 1;
	now(ACTIVITY_ASLEEP);
	assert_int_equal(at.outlasted, 0);
	m.now_ns++;
	now(ACTIVITY_ASLEEP);
	assert_int_equal(at.outlasted, 30 * SEC);
	assert_int_equal(now(ACTIVITY_BUSY).critical_after_ns, 30 * SEC);
}

/* --- what it teaches --- */

static void a_pause_that_ended_is_learnt_by_its_line(void **state)
{
	const struct known_phase *p;

	(void)state;
	stack_is("ckpt (/job/real.py:31)", "recvfrom");
	now(ACTIVITY_ASLEEP);
	m.now_ns = SINCE + 9 * SEC;
	habit_learn(&pauses, &m, &rank, &at, SINCE);
	p = pauses_at(&pauses, &m, "job", LINE);
	assert_non_null(p);
	assert_int_equal(p->longest_ns, 9 * SEC);
	assert_int_equal(p->begin_steps, 50);
	assert_string_equal(p->wait, "recvfrom");
}

static void a_pause_of_which_nothing_was_read_teaches_nothing(void **state)
{
	(void)state;
	now(ACTIVITY_ASLEEP);
	habit_learn(&pauses, &m, &rank, &at, SINCE);
	assert_int_equal(pauses.n_learnt, 0);
	sleeps_in("recvfrom");
	now(ACTIVITY_ASLEEP);
	habit_learn(&pauses, &m, &rank, &at, SINCE);
	assert_non_null(pauses_at(&pauses, &m, "job", "recvfrom"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_kernel_wait_comes_first_and_then_the_line),
		TEST(what_was_read_before_the_pause_is_of_another),
		TEST(a_sleeper_is_critical_after_30_s),
		TEST(one_that_works_is_critical_after_ten_minutes),
		TEST(one_that_moved_has_its_time_from_then_on),
		TEST(what_bytes_come_for_is_no_sleep),
		TEST(what_ended_by_itself_there_moves_both_limits),
		TEST(what_happened_once_and_long_is_trusted_for_30_s),
		TEST(until_the_line_is_read_it_may_be_a_known_phase),
		TEST(what_was_critical_stays_so),
		TEST(a_pause_that_ended_is_learnt_by_its_line),
		TEST(a_pause_of_which_nothing_was_read_teaches_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
