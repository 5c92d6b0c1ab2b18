/* SPDX-License-Identifier: Apache-2.0
 *
 * test_report_large.c - a page of 10,240 ranks by 1,000 steps: at most 8 MB, with a straggler, a host that is slow for
 * a while, slow steps of all, and noise, as a job of that size has it. REPORT_OUT=FILE.html keeps the page: that is
 * what the browser's frame rate is measured on (tests/report/frames.py). RANKS and STEPS ask for another size.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/report/large_job.h"

#define PAGE_MAX 8000000

static const char *path;
static struct large_job job;

static int number(const char *name, int usual)
{
	const char *text = getenv(name);

	return text ? atoi(text) : usual;
}

/* Most ranks within a few ms, as an exponential tail; a straggler; a host in steps 300 to 420. */
static double late_of(int rank, uint64_t step)
{
	double late = -log(1 - 0.999 * drawn(&job)) * 0.0015;

	if (rank == job.n_ranks / 3 && step > 500)
		late += 0.030;
	if (rank / 8 == job.n_hosts / 2 && step >= 300 && step < 420)
		late += 0.012 + 0.01 * drawn(&job);
	return late;
}

static uint64_t length_of(uint64_t step)
{
	uint64_t ns = STEP_NS + (uint64_t)(drawn(&job) * 0.02 * STEP_NS);

	return step % 100 == 50 ? 3 * ns : step > 500 ? ns + 30000000 : ns;
}

static void play(struct sink *s, uint64_t n_steps)
{
	struct event start = { .kind = EV_START, .ts_ns = job.m.now_ns }, stop = { .kind = EV_STOP };
	uint64_t ns = job.m.now_ns;

	assert_int_equal(s->class->event(s, &start, &job.m), 0);
	for (uint64_t step = 0; step < n_steps; step++) {
		for (int r = 0; r < job.n_ranks; r++)
			assert_int_equal(
				large_job_step(&job, s, r, step, ns + (uint64_t)(drawn(&job) * 2e5), late_of(r, step)),
				0);
		ns += length_of(step);
		job.m.now_ns = ns;
	}
	stop.ts_ns = ns;
	assert_int_equal(s->class->event(s, &stop, &job.m), 0);
}

static void test_size(void **state)
{
	int n_ranks = number("RANKS", 10240);
	uint64_t n_steps = (uint64_t)number("STEPS", 1000);
	struct sink *s;
	struct stat is;

	(void)state;
	large_job_init(&job, n_ranks / 8, 8);
	assert_int_equal(sink_report.open(path, &s), 0);
	play(s, n_steps);
	assert_int_equal(sink_report.close(s, &job.m), 0);
	assert_int_equal(stat(path, &is), 0);
	printf("  %d ranks x %llu steps: %.2f MB\n", n_ranks, (unsigned long long)n_steps, (double)is.st_size / 1e6);
	assert_true(is.st_size > 100000 && is.st_size <= PAGE_MAX);
	large_job_free(&job);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_size) };
	char own[] = "/tmp/test_report.XXXXXX";
	int fd = -1, failed;

	path = getenv("REPORT_OUT");
	if (!path) {
		fd = mkstemp(own);
		path = own;
	}
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (fd >= 0) {
		close(fd);
		unlink(own);
	}
	return failed;
}
