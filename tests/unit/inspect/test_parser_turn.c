// SPDX-License-Identifier: Apache-2.0
/* parser_turn.c: what reads a file goes before other work for an ordinary file's time, of any user, and all of
 * them for a quarter of a second of CPU time in a second. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "inspect/reader/hurried.h"
#include "inspect/reader/parser_turn.h"

#define WAIT_NS 20000000000ull
#define MOST 5 /* files that take all of their time, in a second */

static struct parser_turn turn;
static struct worker w;

static int begin(void **state)
{
	(void)state;
	turn = (struct parser_turn){ 0 };
	w = (struct worker){ .pid = fork() };
	if (!w.pid)
		for (;;)
			if (sched_getscheduler(0) == SCHED_OTHER) /* with its turn it takes all that it gets */
				usleep(1000);
	assert_true(w.pid > 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	kill(w.pid, SIGKILL);
	waitpid(w.pid, NULL, 0);
	return 0;
}

static bool has_turn(void)
{
	return (sched_getscheduler(w.pid) & ~SCHED_RESET_ON_FORK) == SCHED_RR;
}

static void needs_right(void)
{
	if (hurried_set(0, true)) {
		print_message("without CAP_SYS_NICE\n");
		skip();
	}
	hurried_set(0, false);
}

/* CPU time that it takes, ns. */
static uint64_t used_up(void)
{
	uint64_t cpu_ns = worker_cpu_ns(&w), end_ns = clock_monotonic_ns() + WAIT_NS;

	parser_turn_begin(&turn, &w);
	while (has_turn() && clock_monotonic_ns() < end_ns) {
		parser_turn_look(&turn, &w);
		usleep(1000);
	}
	assert_false(has_turn());
	return worker_cpu_ns(&w) - cpu_ns;
}

static void a_file_that_takes_long(void **state)
{
	(void)state;
	needs_right();
	assert_false(has_turn());
	assert_true(used_up() >= 60000000);
}

static void the_next_question(void **state)
{
	(void)state;
	needs_right();
	parser_turn_begin(&turn, &w);
	assert_true(has_turn());
	parser_turn_look(&turn, &w);
	parser_turn_end(&turn, &w);
	assert_false(has_turn());
}

/* Of many such files in a row the last ones wait as all other work does; where a parser was ended in its turn, the next
 * one begins with less. */
static void many_files(void **state)
{
	uint64_t begin_ns = clock_monotonic_ns();
	int n = 0;

	(void)state;
	needs_right();
	for (int i = 0; i < 2 * MOST; i++) {
		struct worker ended = w;

		parser_turn_begin(&turn, &ended);
		n += has_turn();
		hurried_set(w.pid, false);
		ended.pid = 0;
		parser_turn_end(&turn, &ended);
	}
	int while_it_ran = (clock_monotonic_ns() - begin_ns) * MOST / 1000000000;

	assert_in_range(n, MOST - 1, MOST + while_it_ran);
	if (!while_it_ran)
		assert_true(n < 2 * MOST);
	sleep(1);
	parser_turn_begin(&turn, &w);
	assert_true(has_turn());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_file_that_takes_long, begin, end),
		cmocka_unit_test_setup_teardown(the_next_question, begin, end),
		cmocka_unit_test_setup_teardown(many_files, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
