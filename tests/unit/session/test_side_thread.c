/* SPDX-License-Identifier: Apache-2.0
 *
 * test_side_thread.c - a thread whose work does not return in time is named, and named again when it does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/side_thread.h"

static int pipe_fds[2], taken;

static void work(void *of)
{
	char byte;

	(void)of;
	assert_int_equal(read(pipe_fds[0], &byte, 1), 1);
}

static int take(void *of, uint64_t now_ns)
{
	(void)of;
	(void)now_ns;
	taken++;
	return 0;
}

static void test_late_work_is_said(void **state)
{
	struct side_thread t = { .limit_ns = 50000000 };

	(void)state;
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(side_thread_start(&t, "ranktrace-test", work, NULL), 0);
	assert_int_equal(side_thread_take(&t, take, 0), 0);
	side_thread_set(&t, SIDE_ASKED);
	assert_int_equal(side_thread_take(&t, take, 0), 1);
	assert_false(t.late);
	usleep(100000);
	assert_int_equal(side_thread_take(&t, take, 0), 1);
	assert_true(t.late);
	assert_int_equal(write(pipe_fds[1], "", 1), 1);
	while (side_thread_take(&t, take, 0))
		usleep(1000);
	assert_false(t.late);
	assert_int_equal(taken, 1);
	assert_true(side_thread_end(&t));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_late_work_is_said) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
