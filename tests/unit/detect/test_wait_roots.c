/* SPDX-License-Identifier: Apache-2.0
 *
 * test_wait_roots.c - who is at fault where two ranks wait for each other and it is not seen in what: two
 * communicators, each rank ahead in one of them and behind in the other, met late.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/hang/wait_roots.h"
#include "tests/unit/job/job_script.h"

enum { RANKS = 2, A = 0xa0, B = 0xb0, KNOWN = 10 };

static struct model *m;
static struct wait_roots found;
static uint64_t now;

static void give(struct event e)
{
	e.ts_ns = now += MSEC;
	assert_int_equal(model_apply(m, &e), 0);
}

static void enters(int rank, uint64_t comm)
{
	give(job_call_event(rank, OP_ALLREDUCE, comm, 1, 64));
}

/* In a wait for a stream of which nothing is known. */
static void sits_in_a_wait(int rank)
{
	give(job_wait_event(rank, 0x77));
}

static void begin(int world_size)
{
	for (int r = 0; r < RANKS; r++) {
		give(job_proc_event(r, world_size, now));
		for (int c = 0; c < 2; c++) {
			struct event e = job_seen_event(r, RANKS, c ? B : A, c ? B : A);

			e.comm_seen.counters_sum = KNOWN;
			e.comm_seen.counters_valid = true;
			give(e);
		}
	}
	enters(1, B);
	enters(0, A);
}

static int setup(void **state)
{
	(void)state;
	m = model_new();
	found = (struct wait_roots){ 0 };
	now = JOB_T0;
	begin(RANKS);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	wait_roots_free(&found);
	model_free(m);
	return 0;
}

static void find(void)
{
	now += COMM_WARMUP_NS;
	give((struct event){ .kind = EV_TICK });
	assert_int_equal(wait_roots_find(m, &found), 0);
}

static void only_root(int rank, double confidence)
{
	assert_int_equal(found.n_roots, 1);
	assert_int_equal(found.roots[0].proc->rank, rank);
	assert_true(found.roots[0].confidence == confidence);
}

/* No host is in a wait: the one that fell silent first, and that is a guess. */
static void nobody_waits(void **state)
{
	(void)state;
	find();
	assert_int_equal(found.n_cycles, 0); /* what each waits in is not seen */
	only_root(1, 0.6);
}

static void both_wait(void **state)
{
	(void)state;
	sits_in_a_wait(0);
	sits_in_a_wait(1);
	find();
	only_root(0, 0.45); /* it called last before the other */
}

/* A host in no wait, where the other is in one, is what holds both. */
static void one_waits(void **state)
{
	(void)state;
	sits_in_a_wait(1);
	find();
	only_root(0, 0.9);
}

static void the_other_one_waits(void **state)
{
	(void)state;
	sits_in_a_wait(0);
	find();
	only_root(1, 0.9);
}

/* Of two that called at the same time the first that is known: a replay says the same. */
static void both_called_at_the_same_time(void **state)
{
	struct event e = job_call_event(1, OP_ALLREDUCE, B, 1, 64);

	(void)state;
	e.ts_ns = now; /* rank 0's newest */
	assert_int_equal(model_apply(m, &e), 0);
	find();
	only_root(0, 0.6);
}

static void nobody_is_late_yet(void **state)
{
	(void)state;
	give((struct event){ .kind = EV_TICK });
	assert_int_equal(wait_roots_find(m, &found), 0);
	assert_int_equal(found.n_roots + found.n_cycles, 0);
}

/* One more rank, known before the two, has nothing to do with them. */
static void beside_one_that_does_not_wait(void **state)
{
	(void)state;
	model_free(m);
	m = model_new();
	now = JOB_T0;
	give(job_proc_event(2, RANKS + 1, now));
	begin(RANKS + 1);
	find();
	only_root(1, 0.6);
}

/* On one stream: each GPU is at what the other's is to come to later. */
static void a_cycle_has_no_root(void **state)
{
	(void)state;
	enters(0, B);
	enters(1, A);
	find();
	assert_int_equal(found.n_roots, 0);
	assert_int_equal(found.n_cycles, 1);
	assert_int_equal(found.cycles[0].n_ranks, RANKS);
	assert_int_equal(found.cycles[0].n_comms, 0); /* those are noted of threads that share a process */
	assert_null(found.cycles[0].skipped.proc);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(nobody_waits),        TEST(both_wait),
		TEST(one_waits),           TEST(the_other_one_waits),
		TEST(a_cycle_has_no_root), TEST(both_called_at_the_same_time),
		TEST(nobody_is_late_yet),  TEST(beside_one_that_does_not_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
