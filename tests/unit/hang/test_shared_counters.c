/* SPDX-License-Identifier: Apache-2.0
 *
 * test_shared_counters.c - two processes of two ranks each, of which no call is seen: who lags by its counters and
 * waits for nobody is named, those that lack one operation together; who is ahead elsewhere waits.
 */
#include "tests/unit/job/outside_samples.h"

#include "detect/hang/report.h"

enum { PAIR = 0xe0 };

static struct suspects all;
static struct finding_list named;
static struct wait_roots roots;
static const struct job_id another;

static int fresh(void **state)
{
	start(state);
	for (int p = 0; p < 2; p++) {
		struct event e = job_proc_event(p, 2, 0);

		e.proc.job = "";
		give(e);
		give(job_event(EV_COMM_SCAN, p, 0));
	}
	return 0;
}

static int done(void **state)
{
	suspects_free(&all);
	all = (struct suspects){ 0 };
	wait_roots_free(&roots);
	roots = (struct wait_roots){ 0 };
	finding_list_free(&named);
	named = (struct finding_list){ 0 };
	return end(state);
}

/* Rank r of WORLD is GPU r % 2 of process r / 2. */
static void seat(int r, uint64_t hash, int rank, int nranks, uint64_t n)
{
	struct event e = job_event(EV_COMM_SAMPLE, r / 2, 0);

	e.comm_sample.comm = hash + 0x1000 * (r + 1);
	e.comm_sample.hash = hash;
	e.comm_sample.rank = rank;
	e.comm_sample.nranks = nranks;
	e.comm_sample.device = r % 2;
	e.comm_sample.n_counters = OP_KINDS_COUNTED;
	e.comm_sample.counters[OP_ALLREDUCE] = n;
	give(e);
}

static const uint64_t even[2] = { 5, 5 };

/* Looked at for so long; in PAIR are ranks 2 and 3. Returns how many are named. */
static size_t stand(const uint64_t n[RANKS], const uint64_t pair[2], int looks)
{
	for (int i = 0; i < looks; i++) {
		for (int r = 0; r < RANKS; r++)
			seat(r, WORLD, r, RANKS, n[r]);
		for (int k = 0; k < 2; k++)
			seat(2 + k, PAIR, k, 2, pair[k]);
		for (int p = 0; p < 2; p++) {
			struct event t = job_event(EV_TASK, p, 0);

			t.tid = t.tgid;
			t.task.state = TASK_SLEEP;
			t.task.since_ns = JOB_T0;
			give(t);
		}
		now += 500 * MSEC;
		give((struct event){ .kind = EV_TICK });
	}
	named.n = 0;
	roots.n_named = 0;
	assert_int_equal(shared_report(&all, m, &roots, &named), 0);
	assert_int_equal(wait_roots_explain(&roots, m->procs->job), named.n > 0);
	assert_false(wait_roots_explain(&roots, &another));
	return named.n;
}

static void names(size_t i, int n, const int *ranks, uint64_t seq)
{
	const struct finding *f = &named.items[i];

	assert_true(i < named.n);
	assert_int_equal(f->kind, FINDING_HANG);
	assert_int_equal(f->class, HANG_MISSING_ENTER);
	assert_int_equal(f->n_ranks, n);
	for (int k = 0; k < n; k++)
		assert_int_equal(f->ranks[k], ranks[k]);
	assert_int_equal(f->seq, seq);
	assert_null(finding_evidence(f, EVIDENCE_TID));
}

static void one_lags(void **state)
{
	const uint64_t n[RANKS] = { 8, 8, 8, 7 };

	(void)state;
	assert_int_equal(stand(n, even, 1), 0); /* it may be on its way */
	assert_int_equal(stand(n, even, 3), 1);
	names(0, 1, (const int[]){ 3 }, 7);
	assert_string_equal(finding_text(&named.items[0], EVIDENCE_WAITING_RANKS), "0,1,2");
}

static void all_are_even(void **state)
{
	const uint64_t n[RANKS] = { 8, 8, 8, 8 };

	(void)state;
	assert_int_equal(stand(n, even, 10), 0);
}

/* Of one process, at one operation: late together. At different ones, or of two processes: each for itself. */
static void two_lag(void **state)
{
	const uint64_t same[RANKS] = { 8, 8, 7, 7 }, apart[RANKS] = { 8, 8, 7, 6 }, of_two[RANKS] = { 8, 7, 8, 7 };

	(void)state;
	assert_int_equal(stand(same, even, 4), 1);
	names(0, 2, (const int[]){ 2, 3 }, 7);
	done(NULL);
	fresh(NULL);
	assert_int_equal(stand(apart, even, 4), 1);
	names(0, 1, (const int[]){ 3 }, 6); /* the one further behind; who is ahead of it waits */
	done(NULL);
	fresh(NULL);
	assert_int_equal(stand(of_two, even, 4), 2);
	names(0, 1, (const int[]){ 1 }, 7);
	names(1, 1, (const int[]){ 3 }, 7);
}

/* Behind in WORLD, and ahead in the pair: it waits for the other there, who lags in both. */
static void ahead_elsewhere(void **state)
{
	const uint64_t n[RANKS] = { 8, 8, 7, 7 }, pair[2] = { 6, 5 };

	(void)state;
	assert_int_equal(stand(n, pair, 4), 1);
	assert_int_equal(named.items[0].n_ranks, 1);
	assert_int_equal(named.items[0].ranks[0], 3);
}

/* Where both lag in communicators of their own it is not one operation that they lack. */
static void in_two_communicators(void **state)
{
	const uint64_t n[RANKS] = { 8, 8, 7, 8 }, pair[2] = { 6, 5 };

	(void)state;
	assert_int_equal(stand(n, pair, 4), 0); /* each waits for the other: a cycle, and no root */
}

#undef TEST
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_lags), TEST(all_are_even), TEST(two_lag), TEST(ahead_elsewhere), TEST(in_two_communicators),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
