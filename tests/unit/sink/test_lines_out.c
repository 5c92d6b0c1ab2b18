/* SPDX-License-Identifier: Apache-2.0
 *
 * test_lines_out.c - a reader that does not read: nothing waits for it, what it missed is kept to a limit, in order
 * and whole, and a descriptor that blocks is written as ever.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sink/lines_out.h"

enum { LINE = 1000 };

static int ends[2]; /* read here, written there */
static struct lines_out out;

static int a_pipe(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	return pipe2(ends, O_NONBLOCK);
}

static void line_make(char *line, int n)
{
	memset(line, 'x', LINE);
	line[LINE - 1] = '\n';
	snprintf(line, 8, "%06d", n);
	line[6] = ' ';
}

static int line_put(int n)
{
	char line[LINE];

	line_make(line, n);
	return lines_out_put(&out, line, LINE);
}

/* How many lines are put until they are not taken any more. */
static int puts_until_full(void)
{
	int n = 0;

	while (!line_put(n))
		assert_true(++n < 10000);
	return n;
}

/* Reads all that comes, and lets the rest go; each line is the next one. */
static int lines_read(int first)
{
	char line[LINE], want[LINE];
	size_t have = 0;
	int n = 0;

	for (;;) {
		ssize_t got = read(ends[0], line + have, LINE - have);

		if (got <= 0) {
			if (!out.n_held)
				return n;
			assert_int_equal(lines_out_flush(&out), 0);
			continue;
		}
		have += (size_t)got;
		if (have < LINE)
			continue;
		line_make(want, first + n++);
		assert_memory_equal(line, want, LINE);
		have = 0;
	}
}

static void what_is_not_read_is_held(void **state)
{
	int n;

	(void)state;
	lines_out_begin(&out, ends[1]);
	n = puts_until_full();
	assert_true(out.n_held <= LINES_HELD_MOST && out.n_held > LINES_HELD_MOST - LINE);
	assert_int_equal(line_put(n), -EAGAIN);
	assert_int_equal(lines_read(0), n); /* whole lines, in order, and none of those not taken */
	assert_int_equal(line_put(n), 0);
	assert_int_equal(lines_read(n), 1);
	assert_int_equal(lines_out_close(&out), 0);
	assert_int_equal(write(ends[1], "", 1), -1); /* it is closed */
	close(ends[0]);
}

static void a_reader_that_never_reads_is_given_up(void **state)
{
	(void)state;
	lines_out_begin(&out, ends[1]);
	puts_until_full();
	assert_int_equal(lines_out_close(&out), -EAGAIN);
	close(ends[0]);
}

static void a_reader_that_is_gone(void **state)
{
	(void)state;
	lines_out_begin(&out, ends[1]);
	puts_until_full();
	close(ends[0]);
	assert_int_equal(line_put(0), -EPIPE);
	assert_int_equal(lines_out_close(&out), -EPIPE);
}

/* Standard output of a service is the journal's socket, which cannot be opened anew. */
static void a_socket_does_not_block(void **state)
{
	(void)state;
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	lines_out_begin(&out, ends[1]);
	assert_true(puts_until_full() > (int)LINES_HELD_MOST / LINE);
	assert_int_equal(line_put(0), -EAGAIN);
	close(ends[0]);
	lines_out_close(&out);
}

static void a_file_holds_nothing(void **state)
{
	char path[] = "/tmp/ranktrace-lines-XXXXXX";

	(void)state;
	close(ends[0]);
	close(ends[1]);
	ends[0] = mkstemp(path);
	assert_int_equal(lines_out_open(&out, path), 0);
	unlink(path);
	for (int i = 0; i < 2000; i++)
		assert_int_equal(line_put(i), 0);
	assert_int_equal(out.n_held, 0);
	assert_int_equal(lines_read(0), 2000);
	assert_int_equal(lines_out_close(&out), 0);
	close(ends[0]);
}

/* Its flags are those of all who have it open: a program that shares the terminal or pipe must not see them change. */
static void standard_output_is_opened_anew(void **state)
{
	int kept = dup(STDOUT_FILENO), n;

	(void)state;
	fcntl(ends[1], F_SETFL, 0);
	dup2(ends[1], STDOUT_FILENO);
	n = lines_out_open(&out, "/dev/stdout");
	dup2(kept, STDOUT_FILENO);
	close(kept);
	assert_int_equal(n, 0);
	assert_true(out.fd > STDERR_FILENO);
	assert_false(fcntl(ends[1], F_GETFL) & O_NONBLOCK);
	n = puts_until_full();
	assert_int_equal(lines_read(0), n);
	assert_int_equal(lines_out_close(&out), 0);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, a_pipe)
	const struct CMUnitTest tests[] = {
		TEST(what_is_not_read_is_held), TEST(a_reader_that_never_reads_is_given_up),
		TEST(a_reader_that_is_gone),    TEST(a_socket_does_not_block),
		TEST(a_file_holds_nothing),     TEST(standard_output_is_opened_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
