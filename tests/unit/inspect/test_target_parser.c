/* SPDX-License-Identifier: Apache-2.0
 *
 * test_target_parser.c - what a parser can do, which is to look at what it was handed, and what it gave up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/confine.h"
#include "inspect/reader/proc_files.h"
#include "inspect/reader/reader.h"
#include "inspect/reader/reader_wire.h"

static int setup(void **state)
{
	return reader_open((struct reader **)state);
}

static int teardown(void **state)
{
	reader_free(*state);
	return 0;
}

static int job_pid(struct reader_job *job)
{
	pid_t pid = getpid();

	memcpy(job->out, &pid, sizeof(pid));
	job->out_len = sizeof(pid);
	return 0;
}

static pid_t parser_pid(struct reader *r)
{
	pid_t pid = 0;
	size_t len = 0;

	assert_int_equal(parser_run(r, 0, job_pid, NULL, 0, NULL, 0, 1000, &pid, sizeof(pid), &len), 0);
	return pid;
}

/* ---- what it gave up ---- */

static unsigned long long field(const char *text, const char *name, int base)
{
	const char *at = strstr(text, name);

	assert_non_null(at);
	return strtoull(at + strlen(name), NULL, base);
}

static void gives_everything_up(void **state)
{
	char text[8192];

	assert_true(proc_read(text, sizeof(text), "/proc/%d/status", parser_pid(*state)) > 0);
	assert_int_equal(field(text, "\nCapEff:", 16) | field(text, "\nCapPrm:", 16) | field(text, "\nCapInh:", 16), 0);
	assert_int_equal(field(text, "\nCapAmb:", 16), 0);
	assert_int_equal(field(text, "\nNoNewPrivs:", 10), 1);
#if !CONFINE_SANITIZED
	assert_int_equal(field(text, "\nSeccomp:", 10), 2);
#endif
	if (getuid())
		return;
	assert_int_equal(field(text, "\nCapBnd:", 16), 0);
	assert_non_null(strstr(text, "\nUid:\t65534\t65534\t65534\t65534\n"));
	assert_non_null(strstr(text, "\nGid:\t65534\t65534\t65534\t65534\n"));
	assert_non_null(strstr(text, "\nGroups:\t \n"));
}

static int uid_of_a_parser_without_kill(void)
{
	cap_value_t kill_cap = CAP_KILL;
	cap_t caps = cap_get_proc();
	struct reader *r = NULL;
	char text[8192];

	if (cap_set_flag(caps, CAP_PERMITTED, 1, &kill_cap, CAP_CLEAR) ||
	    cap_set_flag(caps, CAP_EFFECTIVE, 1, &kill_cap, CAP_CLEAR) || cap_set_proc(caps) || reader_open(&r) ||
	    proc_read(text, sizeof(text), "/proc/%d/status", parser_pid(r)) < 0)
		return 2;
	int uid = field(text, "\nUid:", 10) != 0, caps_left = field(text, "\nCapEff:", 16) != 0;

	reader_free(r);
	cap_free(caps);
	return uid || caps_left;
}

static void keeps_its_user_where_another_could_not_be_killed(void **state)
{
	int status = 0;
	pid_t pid;

	(void)state;
	if (getuid())
		return;
	pid = fork();
	if (!pid)
		_exit(uid_of_a_parser_without_kill());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void has_limits(void **state)
{
	static const char *const zero[] = { "Max file size", "Max processes", "Max core file size",
					    "Max locked memory" };
	char text[8192];

	assert_true(proc_read(text, sizeof(text), "/proc/%d/limits", parser_pid(*state)) > 0);
	for (size_t i = 0; i < sizeof(zero) / sizeof(zero[0]); i++)
		assert_int_equal(field(text, zero[i], 10), 0);
	assert_in_range(field(text, "Max cpu time", 10), 1, 600);
	assert_in_range(field(text, "Max open files", 10), READER_FDS_MAX, 1024);
#if !CONFINE_SANITIZED
	assert_in_range(field(text, "Max address space", 10), 1 << 30, 1ull << 40);
#endif
}

/* ---- what it can do ---- */

static int job_sum(struct reader_job *job)
{
	uint64_t sum = 0;
	unsigned char c;

	for (size_t i = 0; i < job->n_fds; i++)
		while (read(job->fds[i], &c, 1) == 1)
			sum += c;
	memcpy(job->out, &sum, sizeof(sum));
	job->out_len = sizeof(sum);
	return 0;
}

static void looks_at_the_files_it_was_handed(void **state)
{
	int fds[READER_FDS_MAX], before = dup(0), after;
	uint64_t sum = 0;
	size_t len = 0;

	close(before);
	for (int i = 0; i < READER_FDS_MAX; i++) {
		char c = i;

		fds[i] = memfd_create("one", MFD_CLOEXEC);
		assert_int_equal(pwrite(fds[i], &c, 1, 0), 1);
	}
	for (int i = 0; i < 20; i++) { /* more files in all than it may hold */
		for (int k = 0; k < READER_FDS_MAX; k++)
			lseek(fds[k], 0, SEEK_SET);
		assert_int_equal(
			parser_run(*state, 0, job_sum, NULL, 0, fds, READER_FDS_MAX, 1000, &sum, sizeof(sum), &len), 0);
		assert_int_equal(sum, READER_FDS_MAX * (READER_FDS_MAX - 1) / 2);
	}
	assert_int_equal(
		parser_run(*state, 0, job_sum, NULL, 0, fds, READER_FDS_MAX + 1, 1000, &sum, sizeof(sum), &len),
		-E2BIG);
	for (int i = 0; i < READER_FDS_MAX; i++)
		close(fds[i]);
	after = dup(0);
	close(after);
	assert_int_equal(before, after);
}

/* Access was checked when the file was opened: the parser has no right of its own to another's memory. */
static int job_peek(struct reader_job *job)
{
	uint64_t addr;

	memcpy(&addr, job->arg, sizeof(addr));
	job->out_len = 8;
	return pread(job->fds[0], job->out, 8, addr) == 8 ? 0 : -EFAULT;
}

static void reads_memory_by_a_file_that_a_reader_opened(void **state)
{
	uint64_t secret = 0x1122334455667788, addr = (uintptr_t)&secret, got = 0;
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	size_t len = 0;

	assert_int_equal(
		parser_run(*state, getpid(), job_peek, &addr, sizeof(addr), &fd, 1, 1000, &got, sizeof(got), &len), 0);
	assert_int_equal(got, secret);
	close(fd);
}

/* ---- what it cannot: test_target_crimes.c has the rest ---- */

static int job_eat(struct reader_job *job)
{
	size_t n = 0;

	while (n < 64 && malloc(64u << 20))
		n++;
	memcpy(job->out, &n, sizeof(n));
	job->out_len = sizeof(n);
	return n < 64 ? 0 : -EFBIG;
}

static void gets_no_memory_without_end(void **state)
{
#if !CONFINE_SANITIZED
	size_t n = 0, len = 0;

	assert_int_equal(parser_run(*state, 0, job_eat, NULL, 0, NULL, 0, 5000, &n, sizeof(n), &len), 0);
	assert_in_range(n, 1, 16);
#else
	(void)state;
	(void)job_eat;
#endif
}

/* ---- when it is late, and when it has worked long ---- */

static int job_wait(struct reader_job *job)
{
	char c;

	return read(job->fds[0], &c, 1) < 0 ? -errno : 0;
}

static void is_killed_at_the_deadline(void **state)
{
	int ends[2];
	pid_t before = parser_pid(*state);

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(parser_run(*state, 1, job_wait, NULL, 0, ends, 1, 50, NULL, 0, NULL), -ETIMEDOUT);
	assert_int_equal(parser_run(*state, 1, job_wait, NULL, 0, ends, 1, 50, NULL, 0, NULL), -EBUSY);
	assert_int_not_equal(parser_pid(*state), before);
	close(ends[0]);
	close(ends[1]);
}

static void is_replaced_when_it_has_worked_long(void **state)
{
	struct reader *r = NULL;
	unsigned usual = worker_cpu_used_s;
	pid_t first;

	(void)state;
	worker_cpu_used_s = 0;
	assert_int_equal(reader_open(&r), 0);
	first = parser_pid(r);
	assert_int_not_equal(parser_pid(r), first);
	reader_free(r);
	worker_cpu_used_s = usual;
	first = parser_pid(*state);
	assert_int_equal(parser_pid(*state), first);
}

/* What was taken over by one user's file answers for no other's. */
static void is_of_one_user(void **state)
{
	static const uid_t owners[] = { 0, 0, 1000, 1000, 1001, 0, 1000 };
	pid_t before = 0, pid;
	size_t len = 0;
	int fd;

	for (size_t i = 0; i < sizeof(owners) / sizeof(owners[0]) && !getuid(); i++) {
		fd = memfd_create("of one", MFD_CLOEXEC);
		assert_int_equal(fchown(fd, owners[i], 0), 0);
		assert_int_equal(fchmod(fd, 0644), 0);
		assert_int_equal(parser_run(*state, 0, job_pid, NULL, 0, &fd, 1, 1000, &pid, sizeof(pid), &len), 0);
		assert_true(i && owners[i] == owners[i - 1] ? pid == before : pid != before);
		before = pid;
		close(fd);
	}
	/* What everybody may write is nobody's; what has no owner is another's. */
	fd = memfd_create("of all", MFD_CLOEXEC);
	assert_int_equal(fchmod(fd, 0666), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(parser_run(*state, 0, job_pid, NULL, 0, &fd, 1, 1000, &pid, sizeof(pid), &len), 0);
		assert_int_not_equal(pid, before);
		before = pid;
	}
	close(fd);
	pid = parser_pid(*state);
	assert_int_not_equal(pid, before);
	assert_int_equal(parser_pid(*state), pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_everything_up),
		cmocka_unit_test(keeps_its_user_where_another_could_not_be_killed),
		cmocka_unit_test(has_limits),
		cmocka_unit_test(looks_at_the_files_it_was_handed),
		cmocka_unit_test(reads_memory_by_a_file_that_a_reader_opened),
		cmocka_unit_test(gets_no_memory_without_end),
		cmocka_unit_test(is_killed_at_the_deadline),
		cmocka_unit_test(is_replaced_when_it_has_worked_long),
		cmocka_unit_test(is_of_one_user),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
