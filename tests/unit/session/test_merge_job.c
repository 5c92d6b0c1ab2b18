/* SPDX-License-Identifier: Apache-2.0
 *
 * test_merge_job.c - recordings that are merged are of different hosts and of one job, from file to file; also of many
 * thousand hosts.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "autopsy/merge_job.h"

#define LONGEST_S 10.0

static char *job_a[] = { "a" }, *job_b[] = { "b" }, *jobs_ab[] = { "b", "a" };
static uint64_t comm_1[] = { 1 }, comms_12[] = { 7, 2, 1 }, comm_3[] = { 3 };

static struct merge_file file(const char *host, char **jobs, size_t n_jobs, uint64_t *hashes, size_t n_hashes)
{
	struct merge_file f = {
		.jobs = jobs, .n_jobs = n_jobs, .hashes = hashes, .n_hashes = n_hashes, .n_procs = n_jobs + n_hashes
	};

	snprintf(f.host, sizeof(f.host), "%s", host);
	return f;
}

static void test_hosts(void **state)
{
	struct merge_file files[] = { file("n1", NULL, 0, NULL, 0), file("n2", NULL, 0, NULL, 0),
				      file("n10", NULL, 0, NULL, 0), file("n2", NULL, 0, NULL, 0) };
	size_t a, b;

	(void)state;
	assert_int_equal(merge_hosts_differ(files, 3, &a, &b), 0);
	assert_int_equal(merge_hosts_differ(files, 4, &a, &b), -EEXIST);
	assert_true(a == 1 && b == 3);
}

static void test_jobs(void **state)
{
	struct merge_file idle = file("i", NULL, 0, NULL, 0), a = file("a", job_a, 1, comm_1, 1),
			  b = file("b", job_b, 1, comm_3, 1), ab = file("ab", jobs_ab, 2, NULL, 0),
			  by_comm = file("c", NULL, 0, comms_12, 3);
	struct {
		struct merge_file files[4];
		size_t n, a, b;
		int err;
	} cases[] = {
		{ { a }, 1, 0, 0, 0 },
		{ { idle, idle }, 2, 0, 0, 0 },
		{ { idle, a, idle }, 3, 0, 0, 0 },
		{ { a, b }, 2, 0, 1, -EINVAL },
		{ { idle, a, idle, b }, 4, 1, 3, -EINVAL },
		{ { a, by_comm }, 2, 0, 0, 0 },
		{ { a, b, ab }, 3, 0, 0, 0 }, /* by what comes later */
		{ { b, a, by_comm }, 3, 0, 1, -EINVAL },
	};
	size_t x, y;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(merge_one_job(cases[i].files, cases[i].n, &x, &y), cases[i].err);
		if (cases[i].err)
			assert_true(x == cases[i].a && y == cases[i].b);
	}
}

/* A chain of files each of which shares a communicator with the next one only, the end first: the worst order. */
static void test_many(void **state)
{
	enum { N = 50000 };
	struct merge_file *files = calloc(N, sizeof(*files));
	uint64_t(*hashes)[2] = calloc(N, sizeof(*hashes));
	clock_t begin = clock();
	size_t a, b;

	(void)state;
	for (uint64_t i = 0; i < N; i++) {
		hashes[i][0] = N - i;
		hashes[i][1] = N - i + 1;
		files[i] = file("", NULL, 0, hashes[i], 2);
		snprintf(files[i].host, sizeof(files[i].host), "host-with-a-long-name-%zu", (size_t)i);
	}
	assert_int_equal(merge_hosts_differ(files, N, &a, &b), 0);
	assert_int_equal(merge_one_job(files, N, &a, &b), 0);
	hashes[N / 2][0] = 1000000;
	assert_int_equal(merge_one_job(files, N, &a, &b), -EINVAL);
	assert_true(a == 0 && b == N / 2 + 1);
	assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < LONGEST_S);
	free(hashes);
	free(files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_jobs),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
