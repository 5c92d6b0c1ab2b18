/* SPDX-License-Identifier: Apache-2.0
 *
 * test_side_write.c - a file that a child writes: whole, the newest of what waits; a disk that stands delays who asks
 * by nothing, and is said once; what fails leaves the old file. A pipe without a reader is a disk that stands.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "session/parts/side_write.h"

#define SEC 1000000000ull

bool log_verbose, log_debugging, log_quiet;
static char dir[] = "/tmp/test_side_write.XXXXXX", path[64], beside[80], said[4096];
static struct side_write file;

static int killed; /* by SIGKILL, since the test began */

/* In the place of libc's. */
int kill(pid_t pid, int number)
{
	killed += number == SIGKILL;
	return (int)syscall(SYS_kill, pid, number);
}

static bool fork_fails;
static int forks; /* tried since the test began */

pid_t fork(void)
{
	forks++;
	errno = EAGAIN;
	return fork_fails ? -1 : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void keep(const char *format, va_list args)
{
	vsnprintf(said + strlen(said), sizeof(said) - strlen(said), format, args);
}

#define LOG(name) \
	void log_##name(const char *format, ...) \
	{ \
		va_list args; \
\
		va_start(args, format); \
		keep(format, args); \
		va_end(args); \
	}
LOG(error)
LOG(warn)
LOG(info)
LOG(detail)
LOG(debug)

static int start(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(strcpy(dir, "/tmp/test_side_write.XXXXXX")));
	snprintf(path, sizeof(path), "%s/file", dir);
	snprintf(beside, sizeof(beside), "%s.part", path);
	*said = 0;
	killed = forks = 0;
	fork_fails = false;
	alarm(60);
	return side_write_open(&file, path, "nothing is kept");
}

static int end(void **state)
{
	(void)state;
	alarm(0);
	side_write_close(&file, 0);
	unlink(path);
	unlink(beside);
	return rmdir(dir);
}

static void put(const char *text)
{
	side_write_put(&file, strdup(text));
}

/* Until nothing is under way. */
static int turns(uint64_t now_ns)
{
	int err = side_write_turn(&file, now_ns);

	while (!err && (file.child || file.next)) {
		usleep(1000);
		err = side_write_turn(&file, now_ns);
	}
	return err;
}

static const char *content(void)
{
	static char text[64];
	FILE *f = fopen(path, "r");

	memset(text, 0, sizeof(text));
	if (!f)
		return "none";
	assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
	fclose(f);
	return text;
}

static void it_is_written_and_replaced(void **state)
{
	(void)state;
	put("one");
	assert_int_equal(turns(1), 0);
	assert_string_equal(content(), "one");
	put("two");
	put("three");
	assert_int_equal(turns(1), 0);
	assert_string_equal(content(), "three");
	assert_int_equal(access(beside, F_OK), -1);
	assert_string_equal(said, "");
}

static void a_disk_that_stands_delays_no_turn(void **state)
{
	uint64_t begin_ns;
	pid_t child;

	(void)state;
	put("old");
	turns(SEC);
	assert_int_equal(mkfifo(beside, 0600), 0);
	put("one");
	side_write_turn(&file, SEC);
	child = file.child;
	put("two");
	begin_ns = clock_monotonic_ns();
	for (int i = 0; i < 1000; i++)
		assert_int_equal(side_write_turn(&file, SEC + i * SEC / 10), 0);
	assert_true(clock_monotonic_ns() - begin_ns < 5 * SEC);
	assert_int_equal(file.child, child); /* one at a time */
	assert_non_null(strstr(said, "not written after 10 s, as its disk does not answer"));
	assert_null(strstr(strstr(said, "not written") + 1, "not written"));
	assert_string_equal(content(), "old");
	unlink(beside);
	kill(child, SIGKILL); /* nothing else ends it */
	while (file.child == child)
		side_write_turn(&file, 200 * SEC);
	assert_non_null(strstr(said, "its disk answers again, after 199 s"));
	turns(200 * SEC);
	assert_string_equal(content(), "two");
}

static void what_fails_is_said_once_and_leaves_the_old(void **state)
{
	(void)state;
	put("old");
	turns(1);
	assert_int_equal(mkdir(beside, 0700), 0);
	for (int i = 0; i < 3; i++) {
		put("new");
		assert_int_equal(turns(1), -EISDIR);
	}
	assert_string_equal(content(), "old");
	assert_non_null(strstr(said, "Is a directory: nothing is kept"));
	assert_null(strstr(strstr(said, "nothing is kept") + 1, "nothing is kept"));
	assert_int_equal(rmdir(beside), 0);
	put("new");
	assert_int_equal(turns(1), 0);
	assert_string_equal(content(), "new");
	assert_non_null(strstr(said, "it is written again"));
}

static void an_end_waits_for_so_long_at_most(void **state)
{
	uint64_t begin_ns;

	(void)state;
	put("one");
	side_write_close(&file, 30000);
	assert_string_equal(content(), "one");
	assert_string_equal(said, "");
	assert_int_equal(mkfifo(beside, 0600), 0);
	put("two");
	begin_ns = clock_monotonic_ns();
	side_write_close(&file, 1000);
	assert_in_range(clock_monotonic_ns() - begin_ns, SEC, 20 * SEC);
	assert_non_null(strstr(said, "could not be written within 1 s, as its disk does not answer: nothing is kept"));
	assert_string_equal(content(), "one");
}

/* A limit on tasks is reached: said once, tried now and then, and no disk is blamed. */
static void without_a_process_it_waits(void **state)
{
	(void)state;
	fork_fails = true;
	put("one");
	for (int i = 0; i < 100; i++) /* ten seconds */
		assert_int_equal(side_write_turn(&file, SEC + i * SEC / 10), 0);
	assert_int_equal(forks, 2);
	assert_non_null(strstr(said, "no process could be started for it: Resource temporarily unavailable"));
	assert_non_null(strstr(said, "TasksMax"));
	assert_null(strstr(strstr(said, "no process") + 1, "no process"));
	fork_fails = false;
	while (strcmp(content(), "one"))
		turns(20 * SEC);
	assert_non_null(strstr(said, "a process could be started for it again"));
}

static void an_end_without_a_process_says_so(void **state)
{
	(void)state;
	fork_fails = true;
	put("one");
	side_write_close(&file, 100);
	assert_non_null(strstr(said, "could not be written, as no process could be started for it: Resource"));
	assert_non_null(strstr(said, ": nothing is kept"));
	assert_null(strstr(said, "disk"));
	assert_in_range(forks, 1, 2);
}

/* SIGCHLD is ignored, as inherited over exec: the kernel reaps each child, and its pid may be another's at once. */
static void a_child_that_the_kernel_reaps_is_over(void **state)
{
	pid_t child;

	(void)state;
	signal(SIGCHLD, SIG_IGN);
	put("one");
	assert_int_equal(turns(1), -ECHILD);
	assert_string_equal(content(), "one");
	put("two");
	assert_int_equal(turns(1), -ECHILD);
	assert_string_equal(content(), "two");
	assert_non_null(strstr(said, "how its writer ended is not known, as SIGCHLD is ignored: nothing is kept"));
	assert_null(strstr(strstr(said, "nothing is kept") + 1, "nothing is kept"));
	put("three");
	side_write_turn(&file, 1);
	child = file.child;
	while (!kill(child, 0))
		usleep(1000);
	side_write_close(&file, 0);
	assert_int_equal(killed, 0);
	signal(SIGCHLD, SIG_DFL);
}

static void a_name_may_be_too_long(void **state)
{
	char name[5000];
	struct side_write w;

	(void)state;
	memset(name, 'x', sizeof(name));
	name[4096 - sizeof(".part")] = 0;
	assert_int_equal(side_write_open(&w, name, ""), 0);
	name[4096 - sizeof(".part")] = 'x';
	name[4097 - sizeof(".part")] = 0;
	assert_int_equal(side_write_open(&w, name, ""), -ENAMETOOLONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_is_written_and_replaced, start, end),
		cmocka_unit_test_setup_teardown(a_disk_that_stands_delays_no_turn, start, end),
		cmocka_unit_test_setup_teardown(what_fails_is_said_once_and_leaves_the_old, start, end),
		cmocka_unit_test_setup_teardown(an_end_waits_for_so_long_at_most, start, end),
		cmocka_unit_test_setup_teardown(without_a_process_it_waits, start, end),
		cmocka_unit_test_setup_teardown(an_end_without_a_process_says_so, start, end),
		cmocka_unit_test_setup_teardown(a_child_that_the_kernel_reaps_is_over, start, end),
		cmocka_unit_test_setup_teardown(a_name_may_be_too_long, start, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
