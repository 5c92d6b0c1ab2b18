/* SPDX-License-Identifier: Apache-2.0
 *
 * test_counter_cycles.c - ranks that wait for each other in a ring, by their counters alone: rank r is ahead in the
 * communicator that it shares with the next one, and behind in the one before. What their main threads sit in says
 * whether that is a deadlock, whose fault it is, or that nothing is known.
 */
#include "detect/hang/wait_roots.h"
#include "tests/unit/job/outside_samples.h"

#define RING(i) (0x700 + 16 * (uint64_t)(i))

static struct wait_roots found;
static int n_ring;
static bool keeps_up[RANKS]; /* it is not behind */

static int fresh(void **state)
{
	memset(keeps_up, 0, sizeof(keeps_up));
	return start(state);
}

static int done(void **state)
{
	wait_roots_free(&found);
	found = (struct wait_roots){ 0 };
	return end(state);
}

static void look(void)
{
	for (int i = 0; i < n_ring; i++) {
		int next = (i + 1) % n_ring;

		sample(i, RING(i), 0, 2, REDUCED(21));
		sample(next, RING(i), 1, 2, REDUCED(keeps_up[next] ? 21 : 20));
	}
	tick();
}

static void ring_of(int n)
{
	n_ring = n;
	who();
	for (int i = 0; i < 3; i++)
		look();
	assert_int_equal(wait_roots_find(m, &found), 0);
}

static void assert_root(int i, int rank, double confidence)
{
	assert_int_equal(found.roots[i].proc->rank, rank);
	assert_true(found.roots[i].confidence == confidence);
}

/* Each waits for the next, in one place, and none of them moves. */
static void all_wait(void **state)
{
	for (int n = 2; n <= RANKS; n++) {
		const struct wait_cycle *c = &found.cycles[0];

		ring_of(n);
		assert_int_equal(found.n_roots, 0);
		assert_int_equal(found.n_cycles, 1);
		assert_int_equal(c->n_ranks, n);
		assert_int_equal(c->n_hops, n);
		assert_int_equal(c->n_fingerprints, n);
		assert_int_equal(c->stood_ns, JOB_T0);
		assert_int_equal(c->since_ns, JOB_T0);
		assert_int_equal(c->n_comms, 0);
		assert_null(c->skipped.proc);
		for (int i = 0; i < n; i++) {
			const struct awaited *in = &c->hops[i].in;

			assert_int_equal(in->seq, 21);
			assert_int_equal(in->space, SEQ_COLL);
			assert_true(in->comm->hash == RING(c->hops[i].rank.proc->rank));
			assert_true(c->hops[(i + 1) % n].rank.proc->rank == (c->hops[i].rank.proc->rank + 1) % n);
			assert_true(!i || c->fingerprints[i] > c->fingerprints[i - 1]);
		}
		done(state);
		fresh(state);
	}
}

/* The newest of what stood still: only since then do all of them. */
static void since_when_they_stand(void **state)
{
	uint64_t moved_ns;

	(void)state;
	n_ring = 3;
	who();
	look();
	sample(1, RING(3), 0, 1, REDUCED(5));
	look();
	sample(1, RING(3), 0, 1, REDUCED(6));
	moved_ns = now;
	look();
	sample(1, RING(3), 0, 1, REDUCED(6));
	look();
	assert_int_equal(wait_roots_find(m, &found), 0);
	assert_int_equal(found.n_cycles, 1);
	assert_int_equal(found.cycles[0].stood_ns, moved_ns);
	assert_int_equal(found.cycles[0].since_ns, JOB_T0);
}

/* --- who sits elsewhere --- */

static void one_is_elsewhere(void **state)
{
	(void)state;
	at[1].syscall = "openat";
	ring_of(3);
	assert_int_equal(found.n_cycles, 0);
	assert_int_equal(found.n_roots, 1);
	assert_root(0, 1, 0.9);
}

static void of_two_nobody_can_say(void **state)
{
	(void)state;
	at[1].syscall = "openat";
	ring_of(2);
	assert_int_equal(found.n_cycles, 0);
	assert_int_equal(found.n_roots, 2);
	assert_root(0, 0, 0.4);
	assert_root(1, 1, 0.4);
}

static void two_are_elsewhere(void **state)
{
	(void)state;
	at[1].syscall = "openat";
	at[2].syscall = "read";
	ring_of(4);
	assert_int_equal(found.n_cycles, 0);
	assert_int_equal(found.n_roots, 4);
	for (int r = 0; r < 4; r++)
		assert_root(r, r, 0.4);
}

/* Two and two: none is alone. */
static void two_places(void **state)
{
	(void)state;
	at[1].syscall = at[2].syscall = "openat";
	ring_of(4);
	assert_int_equal(found.n_cycles, 0);
	assert_int_equal(found.n_roots, 4);
}

static void all_run(void **state)
{
	(void)state;
	for (int r = 0; r < RANKS; r++)
		at[r].state = TASK_RUNNABLE;
	ring_of(3);
	assert_int_equal(found.n_cycles, 0);
	assert_int_equal(found.n_roots, 3);
	assert_root(2, 2, 0.4);
}

/* --- before its limit --- */

static void soon(void **state)
{
	(void)state;
	at[1].syscall = "openat";
	n_ring = 3;
	who();
	for (int i = 0; i < 3; i++)
		look();
	m->hang_floor_ns = 60 * SEC;
	assert_int_equal(wait_roots_find(m, &found), 0);
	assert_int_equal(found.n_roots, 0);
	assert_int_equal(wait_roots_soon(m, SEC, &found), 0);
	assert_int_equal(found.n_roots, 0);
	m->hang_floor_ns = m->now_ns - JOB_T0 + SEC / 2;
	assert_int_equal(wait_roots_find(m, &found), 0);
	assert_int_equal(found.n_roots, 0);
	assert_int_equal(wait_roots_soon(m, SEC / 4, &found), 0);
	assert_int_equal(found.n_roots, 0);
	assert_int_equal(wait_roots_soon(m, SEC, &found), 0);
	assert_int_equal(found.n_roots, 1);
	assert_root(0, 1, 0.9);
}

#undef TEST
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_wait),   TEST(since_when_they_stand), TEST(one_is_elsewhere), TEST(of_two_nobody_can_say),
		TEST(two_places), TEST(two_are_elsewhere),     TEST(all_run),          TEST(soon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
