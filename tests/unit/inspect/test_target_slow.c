/* SPDX-License-Identifier: Apache-2.0
 *
 * test_target_slow.c - files that take longer to read than the loop waits: they are read late, not never, nobody waits
 * for them, others are read meanwhile, and what costs too much is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "inspect/reader/reader.h"
#include "inspect/reader/reader_slow.h"

#define TRIES_MAX 3000 /* of 10 ms: a busy machine */
#define SLOW_MS 400    /* of CPU time: more than is waited for */

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* As many ms of CPU time as the argument says; answers with it. */
static int job_burn(struct reader_job *job)
{
	uint64_t begin = cpu_ns();
	unsigned ms;

	memcpy(&ms, job->arg, sizeof(ms));
	while (cpu_ns() - begin < ms * 1000000ull)
		;
	memcpy(job->out, &ms, sizeof(ms));
	job->out_len = sizeof(ms);
	return 0;
}

static int burn(struct reader *r, int fd, unsigned ms)
{
	unsigned got = 0;
	size_t len = 0;
	int rc = parser_run(r, 0, job_burn, &ms, sizeof(ms), &fd, 1, 1000, &got, sizeof(got), &len);

	if (!rc) {
		assert_int_equal(len, sizeof(got));
		assert_int_equal(got, ms);
	}
	return rc;
}

/* Until it is no longer late. How often it was. */
static int burn_until(struct reader *r, int fd, unsigned ms, unsigned *ret_late)
{
	int rc = -EAGAIN;

	for (*ret_late = 0; rc == -EAGAIN && *ret_late < TRIES_MAX; ++*ret_late) {
		rc = burn(r, fd, ms);
		usleep(10000);
	}
	--*ret_late;
	return rc;
}

static int a_file(void)
{
	int fd = memfd_create("slow", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void is_read_late(void **state)
{
	int fd = a_file();
	unsigned late;

	assert_int_equal(burn_until(*state, fd, SLOW_MS, &late), 0);
	assert_in_range(late, 2, TRIES_MAX);
	/* Who asked begins anew where another answer was late: nothing is read twice for that. */
	assert_int_equal(burn(*state, fd, SLOW_MS), 0);
	assert_int_equal(burn_until(*state, fd, 1, &late), 0);
	close(fd);
}

static void others_are_read_meanwhile(void **state)
{
	int slow = a_file(), fast = a_file(), rc, n = 0;
	unsigned late;

	assert_int_equal(burn(*state, slow, SLOW_MS), -EAGAIN);
	assert_int_equal(burn_until(*state, fast, 1, &late), 0);
	for (int i = 0; i < TRIES_MAX && (rc = burn(*state, slow, SLOW_MS)) == -EAGAIN; i++, n++) {
		uint64_t begin = cpu_ns();

		burn(*state, fast, 1);
		assert_true(cpu_ns() - begin < 100000000); /* of this process: nothing is waited for in a loop */
		usleep(10000);
	}
	assert_int_equal(rc, 0);
	close(slow);
	close(fast);
}

static void each_has_its_turn(void **state)
{
	int fds[3], rc[3] = { -EAGAIN, -EAGAIN, -EAGAIN }, left = 3;

	for (int i = 0; i < 3; i++)
		fds[i] = a_file();
	for (int try = 0; left && try < TRIES_MAX; try++) {
		for (int i = 0; i < 3; i++)
			if (rc[i] == -EAGAIN && (rc[i] = burn(*state, fds[i], SLOW_MS)) != -EAGAIN)
				left--;
		usleep(10000);
	}
	for (int i = 0; i < 3; i++) {
		assert_int_equal(rc[i], 0);
		close(fds[i]);
	}
}

static uint64_t *burnt_ns; /* shared with the parsers */

static int job_endless(struct reader_job *job)
{
	for (uint64_t begin = cpu_ns();;)
		*burnt_ns = cpu_ns() - begin;
	return job->out_len;
}

static int endless(struct reader *r, int fd)
{
	return parser_run(r, 0, job_endless, NULL, 0, &fd, 1, 1000, NULL, 0, NULL);
}

static void slow_files_of_others_are_in_nobodys_way(void **state)
{
	int others = a_file(), first = a_file();
	unsigned late;

	reader_queue_use(*state, READER_OTHERS);
	assert_int_equal(endless(*state, others), -EAGAIN);
	reader_queue_use(*state, READER_FIRST);
	assert_false(reader_queue_is_full(*state, READER_FIRST));
	assert_int_equal(burn_until(*state, first, SLOW_MS, &late), 0);
	assert_in_range(late, 2, TRIES_MAX);
	assert_true(*burnt_ns < slow_cpu_ns / 2); /* nobody waited for its end */
	assert_false(reader_queue_is_done(*state, READER_OTHERS));
	close(others);
	close(first);
}

static void what_costs_too_much_is_refused(void **state)
{
	uint64_t usual = slow_cpu_ns;
	int fd = a_file();
	unsigned late;

	slow_cpu_ns = 300000000;
	assert_int_equal(burn_until(*state, fd, 1000000, &late), -EFBIG);
	slow_cpu_ns = usual;
	close(fd);
}

static int job_wait(struct reader_job *job)
{
	char c;

	return read(job->fds[0], &c, 1) < 0 ? -errno : 0;
}

static void one_that_sleeps_is_no_slow_file(void **state)
{
	int ends[2], rc = -EAGAIN;

	assert_int_equal(pipe(ends), 0);
	for (int i = 0; i < TRIES_MAX && rc == -EAGAIN; i++) {
		rc = parser_run(*state, 0, job_wait, NULL, 0, ends, 1, 50, NULL, 0, NULL);
		usleep(10000);
	}
	assert_int_equal(rc, -ETIMEDOUT);
	close(ends[0]);
	close(ends[1]);
}

static int job_burn_and_die(struct reader_job *job)
{
	job_burn(job);
	raise(SIGSEGV);
	return 0;
}

static void one_that_kills_its_parser_is_refused(void **state)
{
	int fd = a_file(), rc = -EAGAIN;
	unsigned ms = SLOW_MS;

	for (int i = 0; i < TRIES_MAX && rc == -EAGAIN; i++) {
		rc = parser_run(*state, 0, job_burn_and_die, &ms, sizeof(ms), &fd, 1, 1000, NULL, 0, NULL);
		usleep(10000);
	}
	assert_int_equal(rc, -EBADMSG);
	close(fd);
}

static int begin(void **state)
{
	int rc;

	burnt_ns = mmap(NULL, sizeof(*burnt_ns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(burnt_ns != MAP_FAILED);
	rc = reader_open((struct reader **)state);

	if (!rc)
		reader_set_timeout(*state, READER_TIMEOUT_MS);
	return rc;
}

static int end(void **state)
{
	reader_free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_files_of_others_are_in_nobodys_way), /* no queue rests yet */
		cmocka_unit_test(is_read_late),
		cmocka_unit_test(others_are_read_meanwhile),
		cmocka_unit_test(each_has_its_turn),
		cmocka_unit_test(what_costs_too_much_is_refused),
		cmocka_unit_test(one_that_sleeps_is_no_slow_file),
		cmocka_unit_test(one_that_kills_its_parser_is_refused),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
