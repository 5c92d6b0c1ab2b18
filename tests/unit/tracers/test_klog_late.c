/* SPDX-License-Identifier: Apache-2.0
 *
 * test_klog_late.c - klog_sampler beside a parser that is late, dies or answers nonsense: lines stay until they are
 * parsed, and what is dropped is said. The parser is a stand-in whose answers are written here.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "inspect/reader/reader.h"
#include "source.h"
#include "tracers/gpu/klog.h"

#define SEC 1000000000ull
#define HALF 500000000ull
#define NONSENSE 1

static int answer, n_asked; /* of the parser: -errno, 0, NONSENSE */
static int read_error;      /* of the next read of the log */
static char said[4096], path[64];
static uint64_t now_ns;
static void *klog;
static struct {
	int n;
	uint32_t xid[1024];
} got;

int parser_run(struct reader *r, pid_t pid, reader_fn *fn, const void *arg, size_t arg_len, const int *fds,
	       size_t n_fds, unsigned deadline_ms, void *out, size_t out_max, size_t *ret_len)
{
	struct reader_job job = { .arg = arg, .arg_len = arg_len, .out = out, .out_max = out_max };

	(void)r, (void)pid, (void)fds, (void)n_fds, (void)deadline_ms;
	n_asked++;
	if (answer < 0)
		return answer;
	assert_int_equal(fn(&job), 0);
	*ret_len = job.out_len - 8 * (answer == NONSENSE);
	return 0;
}

ssize_t read(int fd, void *to, size_t size)
{
	int err = read_error;

	read_error = 0;
	errno = err;
	return err ? -1 : syscall(SYS_read, fd, to, size);
}

void log_warn(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(said + strlen(said), sizeof(said) - strlen(said), format, args);
	va_end(args);
}

static int take(void *to, const struct wire_hdr *h)
{
	(void)to;
	got.xid[got.n++ % 1024] = ((const struct record_kernel_log *)h)->xid;
	return 0;
}

static int begin(void **state)
{
	static struct sampler_ctx ctx = { .emit = take };
	int fd;

	(void)state;
	strcpy(path, "/tmp/ranktrace-kmsg-XXXXXX");
	fd = mkstemp(path);
	setenv("RANKTRACE_KMSG", path, 1);
	now_ns = SEC;
	answer = n_asked = 0;
	*said = 0;
	memset(&got, 0, sizeof(got));
	return close(fd) || source_klog.sampler->open(&ctx, &klog);
}

static int end(void **state)
{
	(void)state;
	source_klog.sampler->close(klog);
	return unlink(path);
}

static void log_xids(int first, int n)
{
	FILE *f = fopen(path, "a");

	for (int i = 0; i < n; i++)
		fprintf(f, "4,1,2,-;NVRM: Xid (PCI:0000:3b:00): %d, pid=1, name=python, of a test\n", first + i);
	fclose(f);
}

/* So many times, half a second apart. */
static void sample(int n, int with)
{
	answer = with;
	for (int i = 0; i < n; i++, now_ns += HALF)
		assert_int_equal(source_klog.sampler->sample(klog, now_ns), 0);
}

static void check_xids(int first, int n)
{
	assert_int_equal(got.n, n);
	for (int i = 0; i < n; i++)
		assert_int_equal(got.xid[i], first + i);
}

/* As long as it takes: more than the sampler can hold, and nothing is lost. */
static void lines_stay_while_the_parser_is_late(void **state)
{
	static const int late[] = { -EAGAIN, -ETIMEDOUT, -EINPROGRESS, -EBUSY };

	(void)state;
	log_xids(1, 300);
	for (size_t i = 0; i < sizeof(late) / sizeof(late[0]); i++)
		sample(2, late[i]);
	assert_int_equal(got.n, 0);
	assert_int_equal(n_asked, 8); /* once a sample */
	assert_string_equal(said, "");
	log_xids(301, 500);
	sample(200, -EAGAIN);
	sample(1, 0);
	check_xids(1, 800);
}

static void a_long_wait_is_said_once_with_its_cause(void **state)
{
	(void)state;
	log_xids(79, 1);
	sample(20, -EAGAIN);
	assert_string_equal(said, "");
	sample(100, -EAGAIN);
	assert_non_null(strstr(said, "wait for 10 s for a parser"));
	assert_non_null(strstr(said, "give ranktrace CPU time"));
	assert_null(strstr(strstr(said, "wait for") + 1, "wait for"));
	sample(1, 0);
	assert_non_null(strstr(said, "are read again, after 60 s"));
	check_xids(79, 1);
	*said = 0;
	log_xids(80, 1);
	sample(2, -EAGAIN);
	sample(2, 0);
	assert_string_equal(said, "");
	check_xids(79, 2);
}

/* Somebody may have killed it; but lines that kill each one must not be the end of the log. */
static void of_lines_that_kill_parsers_four_tries_are_made(void **state)
{
	(void)state;
	log_xids(79, 1);
	sample(3, -EIO);
	sample(1, 0);
	check_xids(79, 1);
	log_xids(90, 7);
	sample(4, -EIO);
	assert_non_null(strstr(said, "7 lines were dropped so far, as their parsers died again and again"));
	*said = 0;
	log_xids(80, 1);
	sample(1, 0);
	check_xids(79, 2);
	log_xids(90, 2);
	sample(4, -EIO);
	assert_string_equal(said, ""); /* not more often than once a minute */
	sample(120, 0);
	assert_non_null(strstr(said, "9 lines were dropped so far"));
}

static void nonsense_is_dropped_and_said(void **state)
{
	(void)state;
	log_xids(79, 2);
	sample(1, NONSENSE);
	assert_non_null(strstr(said, "2 lines were dropped so far, as Protocol error"));
	log_xids(79, 1);
	sample(1, 0);
	check_xids(79, 1);
}

/* The kernel overwrote lines before we came; a line does not fit. What was read before stays. */
static void what_cannot_be_read_is_said(void **state)
{
	(void)state;
	log_xids(79, 1);
	read_error = EPIPE;
	sample(1, 0);
	assert_non_null(strstr(said, "it was overwritten before it was read, 1 times so far"));
	log_xids(80, 1);
	sample(1, -EAGAIN);
	read_error = EINVAL;
	sample(1, 0);
	assert_non_null(strstr(said, "1 lines were dropped so far, as they are too long"));
	check_xids(79, 2);
}

static void what_is_not_read_until_the_end_is_said(void **state)
{
	log_xids(79, 3);
	sample(1, -EAGAIN);
	end(state);
	assert_non_null(strstr(said, "3 lines were not read until the end"));
	begin(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(lines_stay_while_the_parser_is_late, begin, end),
		cmocka_unit_test_setup_teardown(a_long_wait_is_said_once_with_its_cause, begin, end),
		cmocka_unit_test_setup_teardown(of_lines_that_kill_parsers_four_tries_are_made, begin, end),
		cmocka_unit_test_setup_teardown(nonsense_is_dropped_and_said, begin, end),
		cmocka_unit_test_setup_teardown(what_cannot_be_read_is_said, begin, end),
		cmocka_unit_test_setup_teardown(what_is_not_read_until_the_end_is_said, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
