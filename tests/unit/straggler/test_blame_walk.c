/* SPDX-License-Identifier: Apache-2.0
 *
 * test_blame_walk.c - the blame of one iteration, operation by operation: four ranks call X, then their pair's P, then
 * X, which ends the iteration; times are written by hand, in ms. Who is charged, with whom, and how much.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/straggler/blame.h"
#include "tests/unit/job/hand_model.h"

enum { RANKS = 4, MANY = 260, OPS = 4, BEGIN = 0, FIRST, PAIR, END, LATE = 2, X = 7, P = 8 };

static int n_ranks = RANKS;
static struct op *ops[MANY][OPS];
static struct proc *procs[MANY];
static struct blames blames;
static double step_s;

static struct op **newest(int r)
{
	return &procs[r]->last_op;
}

static void time_of(struct op *op, double enqueue_ms, double end_ms)
{
	op->call_ns = op->enqueue_ns = (uint64_t)(enqueue_ms * MSEC);
	op->end_ns = (uint64_t)(end_ms * MSEC);
	op->end_error_ns = 0;
}

static void made(int r, uint64_t addr, uint64_t hash, int rank, int nranks)
{
	struct event e = job_ready_event(r, nranks, addr, hash);

	e.comm_init.rank = rank;
	give(e);
}

static void call(int r, enum op_kind kind, uint64_t addr, int peer)
{
	struct event e = job_call_event(r, kind, addr, 100, 10);

	e.op.peer = peer;
	give(e);
	ops[r][procs[r]->last_op->nth] = *newest(r);
}

/* A step of 100 ms: X at 1000, X at 1020, P at 1040, X at 1060, each over 5 ms later. */
static void begin_with(enum op_kind pair)
{
	static const double at[] = { 1000, 1020, 1040, 1060 };

	fresh(NULL);
	step_s = 0.1;
	for (int r = 0; r < n_ranks; r++) {
		give(job_proc_event(r, n_ranks, 0));
		made(r, X, 97, r, n_ranks);
		made(r, P, 98 + r / 2, r % 2, 2);
		procs[r] = (struct proc *)model_proc(m, job_pid(r));
	}
	for (int k = 0; k < OPS; k++)
		for (int r = 0; r < n_ranks; r++)
			call(r,
			     k != PAIR            ? OP_ALLREDUCE
			     : !op_kind_p2p(pair) ? pair
			     : r % 2              ? OP_RECV
						  : OP_SEND,
			     k == PAIR ? P : X, k == PAIR && op_kind_p2p(pair) ? 1 - r % 2 : -1);
	for (int r = 0; r < n_ranks; r++) {
		*procs[r]->steps = (struct steps){ .period_ops = 3, .role = 5 };
		procs[r]->last_sync_ns = 1;
		for (int k = 0; k < OPS; k++)
			time_of(ops[r][k], at[k], at[k] + 5);
	}
}

static int begin(void **state)
{
	(void)state;
	begin_with(OP_ALLREDUCE);
	return 0;
}

static int end(void **state)
{
	blames_free(&blames);
	n_ranks = RANKS;
	return done(state);
}

static void again(void)
{
	end(NULL);
	begin(NULL);
}

/* It comes `ms` later to operation `k`, which then ends for all. */
static void late(int rank, int k, double ms)
{
	double at = ops[rank][k]->enqueue_ns / 1e6 + ms;

	time_of(ops[rank][k], at, at + 5);
	for (int r = 0; r < n_ranks; r++)
		ops[r][k]->end_ns = ops[rank][k]->end_ns;
}

static void walk(void)
{
	assert_int_equal(blame_walk(m, ops[0][BEGIN], ops[0][END], step_s, &blames), 0);
}

static void nobody(void)
{
	walk();
	assert_int_equal(blames.n, 0);
}

static void charged(int i, int n, const int *ranks, double ms)
{
	const struct blame *b = &blames.items[i];
	bool has[MANY] = { false };

	assert_true(i < blames.n);
	assert_int_equal(b->n, n);
	for (int k = 0; k < n; k++)
		for (int r = 0; r < n_ranks; r++)
			has[r] |= blames.procs[b->at + k] == procs[r]->key;
	for (int k = 0; k < n; k++)
		assert_true(has[ranks[k]]);
	if (fabs(b->gap_s - ms / 1e3) > 1e-9)
		fail_msg("%g ms, not %g", b->gap_s * 1e3, ms);
}

static void only(int rank, double ms)
{
	walk();
	assert_int_equal(blames.n, 1);
	charged(0, 1, &rank, ms);
}

static void only_pair(double ms)
{
	walk();
	assert_int_equal(blames.n, 1);
	charged(0, 2, (const int[]){ LATE, LATE + 1 }, ms);
}

/* --- who is late --- */

static void all_in_time(void **state)
{
	(void)state;
	nobody();
}

/* At the first operation, in between, and at the end. */
static void late_at_any_place(void **state)
{
	(void)state;
	late(LATE, FIRST, 10);
	only(LATE, 10);
	again();
	late(LATE, END, 30);
	only(LATE, 30); /* its own gap, more than the others' */
	late(LATE, FIRST, 10);
	only(LATE, 40);
	again();
	late(LATE, BEGIN, 10); /* that was the iteration before */
	nobody();
}

static void two_are_late(void **state)
{
	(void)state;
	late(LATE, FIRST, 10);
	late(1, END, 20);
	walk();
	assert_int_equal(blames.n, 2);
	charged(0, 1, (const int[]){ 1 }, 20);
	charged(1, 1, (const int[]){ LATE }, 10);
}

/* Against the median of its role: of three the middle one. */
static void against_the_median(void **state)
{
	(void)state;
	late(LATE, FIRST, 12);
	ops[0][FIRST]->enqueue_ns += 2 * MSEC;
	ops[1][FIRST]->enqueue_ns += 9 * MSEC;
	only(LATE, 10);
	ops[1][FIRST]->member->proc->dead = true;
	only(LATE, 10); /* of two the better one */
	procs[0]->steps->role = 6;
	only(LATE, 12);
	procs[3]->steps->role = 0;
	nobody(); /* none is of its role */
	procs[LATE]->steps->role = 0;
	nobody();
	again();
	late(LATE, FIRST, 12);
	((struct member *)ops[3][FIRST]->member)->gone = true;
	ops[0][FIRST]->enqueue_ns += 2 * MSEC;
	ops[1][FIRST]->enqueue_ns += 9 * MSEC;
	only(LATE, 3);
}

/* --- its own GPU --- */

/* What it lasts past a fifth of the step is its GPU's work: no host would have been faster. */
static void hidden_by_its_gpu(void **state)
{
	(void)state;
	late(LATE, FIRST, 10);
	step_s = 0.02; /* a fifth is 4 ms, it lasts 5 */
	only(LATE, 9);
	step_s = 0.025;
	only(LATE, 10);
	again();
	late(LATE, FIRST, 10);
	ops[LATE][FIRST]->end_ns = 0; /* not over: for as long as the step */
	step_s = 0.01;
	only(LATE, 2);
	step_s = 0.02;
	nobody();
	again();
	late(LATE, END, 30);
	ops[LATE][END]->end_ns += 19 * MSEC;
	only(LATE, 26);
	again();
	late(LATE, FIRST, 10);
	step_s = 0.02;
	ops[LATE][FIRST]->sync_ns = ops[LATE][BEGIN]->call_ns + 1; /* it waited for its GPU before */
	only(LATE, 10);
	ops[LATE][FIRST]->sync_ns = ops[LATE][BEGIN]->call_ns;
	only(LATE, 9);
}

/* --- an operation in between --- */

/* Its end is known well: the gap behind it, less what it may have ended earlier. */
static void an_end_that_is_known(void **state)
{
	(void)state;
	late(LATE, END, 30);
	for (int r = LATE; r < RANKS; r++)
		ops[r][PAIR]->end_error_ns = MSEC / 2;
	only(LATE, 29);
	ops[LATE][PAIR]->end_error_ns = MSEC; /* a hundredth of the step */
	only(LATE, 28);
	ops[LATE][PAIR]->end_error_ns = MSEC + 1;
	only_pair(30);
	again();
	late(LATE, END, 30);
	ops[0][PAIR]->end_ns -= 5 * MSEC; /* gaps of others: 20, 15 and 15 */
	only(LATE, 30);
	ops[1][PAIR]->end_ns -= 5 * MSEC;
	only(LATE, 25);
	ops[3][PAIR]->end_ns = 0;
	only(LATE, 25);
	procs[0]->steps->period_ops = procs[1]->steps->period_ops = 4; /* compared no more; to X, 35 ms */
	only(LATE, 10);
}

/* In a large job the gap is compared with those of 256 ranks: with others behind these it stays what it is. */
static void of_many_the_first_256_are_compared(void **state)
{
	int n = 0;

	(void)state;
	end(NULL);
	n_ranks = MANY;
	begin(NULL);
	late(LATE, END, 30);
	for (const struct proc *p = m->procs; p; p = p->next)
		for (int r = 0; r < n_ranks; r++)
			if (p == procs[r] && r != LATE && n++ >= 128) /* gaps of 128 ranks are 15 ms, then 20 */
				ops[r][PAIR]->end_ns -= 5 * MSEC;
	only(LATE, 30);
}

/* With whom it did what lies in between is not known apart from it. */
static void an_end_that_is_not_known(void **state)
{
	(void)state;
	late(LATE, END, 30);
	for (int r = 0; r < RANKS; r++)
		ops[r][PAIR]->end_error_ns = 5 * MSEC;
	only_pair(30);
	ops[LATE][PAIR]->end_ns = 0; /* not over then: nothing waited for it */
	only(LATE, 30);
	procs[LATE]->last_sync_ns = 0; /* unless waits are not seen */
	only_pair(30);
	again();
	late(LATE, END, 30);
	for (int r = 0; r < RANKS; r++)
		ops[r][PAIR]->end_error_ns = 5 * MSEC;
	ops[LATE][PAIR]->end_ns = ops[LATE][END]->enqueue_ns + 1; /* over later */
	only(LATE, 30);
	ops[LATE][PAIR]->end_ns--;
	only_pair(30);
	procs[LATE + 1]->dead = true;
	only(LATE, 30);
	procs[LATE + 1]->dead = false;
	((struct member *)ops[LATE + 1][PAIR]->member)->gone = true;
	only(LATE, 30);
}

/* The partner's own partners since then are in it, too: not what it did later. */
static void the_set_is_closed(void **state)
{
	(void)state;
	for (int before = 0; before < 2; before++) {
		made(3, 9, 200, 0, 2);
		made(1, 9, 200, 1, 2);
		late(LATE, END, 30);
		for (int r = 0; r < RANKS; r++)
			ops[r][PAIR]->end_error_ns = 5 * MSEC;
		for (int r = 1; r < RANKS; r += 2) {
			struct op *more, *next = ops[r][before ? PAIR : END];

			give(job_call_event(r, OP_ALLREDUCE, 9, 100, 10));
			more = *newest(r);
			time_of(more, before ? 1030 : 1050, before ? 1032 : 1052);
			more->prev_in_proc = next->prev_in_proc;
			next->prev_in_proc = more;
			procs[r]->last_op = ops[r][END];
		}
		if (!before) {
			only_pair(30);
			again();
			continue;
		}
		walk();
		assert_int_equal(blames.n, 1);
		charged(0, 3, (const int[]){ 1, 2, 3 }, 30);
	}
}

/* --- transfers --- */

static void transfers(void **state)
{
	(void)state;
	end(NULL);
	begin_with(OP_SEND);
	late(LATE, END, 30);
	only(LATE, 30);
	for (int r = 0; r < RANKS; r++)
		ops[r][PAIR]->end_error_ns = 5 * MSEC;
	only_pair(30);
	ops[LATE][PAIR]->seq_from_attach = true; /* with whom is not known */
	nobody();
	ops[LATE][PAIR]->seq_from_attach = false;
	((struct member *)ops[LATE + 1][PAIR]->member)->gone = true;
	nobody();
	((struct member *)ops[LATE + 1][PAIR]->member)->gone = false;
	ops[LATE][PAIR]->peer = 2; /* no such rank */
	nobody();
	ops[LATE][PAIR]->peer = -1;
	nobody();
}

/* --- who began before the iteration --- */

static void by_its_own_order(void **state)
{
	(void)state;
	late(LATE, FIRST, 3);
	ops[0][BEGIN]->enqueue_ns = ops[0][FIRST]->enqueue_ns + 4 * MSEC; /* its own order counts, no clock */
	ops[LATE][BEGIN]->enqueue_ns = ops[0][BEGIN]->enqueue_ns;
	for (int r = 0; r < RANKS; r++)
		ops[r][BEGIN]->end_ns = ops[r][FIRST]->enqueue_ns;
	only(LATE, 3);
}

/* One left X at 1020 before another came to it, by their numbers: so these do not belong together, it releases
 * nobody, and no lateness is read from it. */
static void what_cannot_be_is_passed_over(void **state)
{
	(void)state;
	late(LATE, FIRST, 12);
	ops[1][FIRST]->end_ns = ops[LATE][FIRST]->enqueue_ns - 6 * MSEC;
	nobody();
	ops[1][FIRST]->end_ns = ops[LATE][FIRST]->enqueue_ns - 4 * MSEC; /* clocks of two hosts may differ by that */
	only(LATE, 12);
	late(LATE, END, 30);
	ops[1][END]->end_ns = ops[LATE][END]->enqueue_ns - 6 * MSEC;
	nobody();
}

static void steps_that_begin_with_a_pair(void **state)
{
	(void)state;
	late(LATE, PAIR, 4); /* the iteration before has that */
	late(LATE, END, 30);
	for (int r = 0; r < RANKS; r++)
		ops[r][PAIR]->end_ns = 0;
	assert_int_equal(blame_walk(m, ops[LATE][PAIR], ops[0][END], step_s, &blames), 0);
	assert_int_equal(blames.n, 1);
	charged(0, 1, (const int[]){ LATE }, 26);
	ops[LATE][END]->sync_ns = ops[LATE][PAIR]->call_ns + 1; /* it waited for its GPU: that hides nothing now */
	assert_int_equal(blame_walk(m, ops[LATE][PAIR], ops[0][END], 0.02, &blames), 0);
	charged(0, 1, (const int[]){ LATE }, 26);
	ops[LATE][END]->sync_ns = 0;
	assert_int_equal(blame_walk(m, ops[LATE][PAIR], ops[0][END], 0.02, &blames), 0);
	charged(0, 1, (const int[]){ LATE }, 25);
	ops[LATE][PAIR]->enqueue_ns = ops[LATE][PAIR]->call_ns = ops[3][PAIR]->enqueue_ns;
	assert_int_equal(blame_walk(m, ops[LATE][PAIR], ops[0][END], step_s, &blames), 0);
	charged(0, 1, (const int[]){ LATE }, 30);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(all_in_time),
		TEST(late_at_any_place),
		TEST(two_are_late),
		TEST(against_the_median),
		TEST(hidden_by_its_gpu),
		TEST(an_end_that_is_known),
		TEST(of_many_the_first_256_are_compared),
		TEST(an_end_that_is_not_known),
		TEST(the_set_is_closed),
		TEST(transfers),
		TEST(by_its_own_order),
		TEST(what_cannot_be_is_passed_over),
		TEST(steps_that_begin_with_a_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
