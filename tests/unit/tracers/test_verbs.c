/* SPDX-License-Identifier: Apache-2.0
 *
 * test_verbs.c - source verbs: which processes it still knows when another one comes. What it says of a process that
 * posts past any function, it says when it does not know that process; so it shows without BPF whom it forgot.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/loader_internal.h"
#include "source.h"

#define ENDED 5000000u /* above what the kernel gives: no process has this number */

static struct tracer_handle handle;

static int setup(void **state)
{
	(void)state;
	handle = (struct tracer_handle){ .tracer = source_verbs.tracer };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	handle.tracer->end(&handle);
	free(handle.state);
	return 0;
}

/* A process with libibverbs and UCX was found. Was something said of it? */
static bool is_new(uint32_t pid, uint64_t start_ns)
{
	struct target_lib ucx = { .path = "/usr/lib/libuct_ib.so.0" };
	struct target_proc p = { .tgid = pid, .start_time_ns = start_ns, .libs = &ucx, .n_libs = 1, .n_files = 1 };
	int err = dup(2);
	FILE *f = tmpfile();
	bool said = false, has_layout;
	char line[512];

	assert_true(f && err >= 0);
	fflush(stderr);
	dup2(fileno(f), 2);
	assert_int_equal(handle.tracer->on_lib(&handle, &p, &ucx, -1, 0, &has_layout), 0);
	fflush(stderr);
	dup2(err, 2);
	close(err);
	rewind(f);
	while (fgets(line, sizeof(line), f))
		said |= strstr(line, "UCX posts") != NULL;
	fclose(f);
	return said;
}

/* Its library may be found again and again; the number may be another process's later. */
static void a_process_is_known_by_its_number_and_start(void **state)
{
	(void)state;
	assert_true(is_new(getpid(), 1));
	assert_false(is_new(getpid(), 1));
	assert_true(is_new(getpid(), 2));
	assert_false(is_new(getpid(), 2));
}

/* A daemon sees processes come and go for weeks. */
static void those_that_ended_are_forgotten_when_one_comes(void **state)
{
	(void)state;
	assert_true(is_new(ENDED, 1));
	assert_true(is_new(ENDED + 1, 1)); /* ENDED is forgotten */
	assert_true(is_new(getpid(), 1));
	assert_true(is_new(ENDED, 1));
	assert_false(is_new(ENDED, 1)); /* until another comes */
	assert_true(is_new(getppid(), 1));
	assert_true(is_new(ENDED, 1));
	assert_false(is_new(getpid(), 1)); /* those that live are not */
	assert_false(is_new(getppid(), 1));
}

static void at_its_end_nobody_is_known(void **state)
{
	(void)state;
	assert_true(is_new(getpid(), 1));
	assert_true(is_new(ENDED, 1));
	handle.tracer->end(&handle);
	assert_true(is_new(getpid(), 1));
	assert_true(is_new(ENDED, 1));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_process_is_known_by_its_number_and_start),
		TEST(those_that_ended_are_forgotten_when_one_comes),
		TEST(at_its_end_nobody_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
