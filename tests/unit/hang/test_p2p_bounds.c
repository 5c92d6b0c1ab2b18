/* SPDX-License-Identifier: Apache-2.0
 *
 * test_p2p_bounds.c - Sends and Recvs by hand: both sides of one, groups, since when a rank is free of its peer, which
 * side waits, and whether a rank left its side out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/hang/p2p.h"

#define SEC 1000000000ull
#define MIB 1048576ull
#define RANKS 2
#define NOW (100 * SEC)
#define BYTE 0 /* a dtype */

static struct model m;
static struct comm comm;
static struct steps steps;
static struct node node;
static struct member members[RANKS], *by_rank[RANKS];
static struct proc procs[RANKS];
static struct p2p_seq pairs[RANKS][RANKS];
static struct op send, recv;

static struct op transfer(int rank, enum op_kind kind, uint64_t seq)
{
	struct op op = { .member = &members[rank], .kind = kind, .peer = !rank, .seq = seq, .dtype = BYTE, .tid = 7 };

	op.count = 17 * MIB;
	op.call_ns = op.enqueue_ns = NOW - 10 * SEC;
	return op;
}

/* Rank 0 sent #3, and rank 1 called no Recv #3. */
static int fresh(void **state)
{
	(void)state;
	memset(pairs, 0, sizeof(pairs));
	m = (struct model){ .now_ns = NOW };
	comm = (struct comm){ .nranks = RANKS, .n_seen = RANKS, .by_rank = by_rank };
	for (int r = 0; r < RANKS; r++) {
		procs[r] = (struct proc){ .node = &node, .rank = r, .steps = &steps, .members = &members[r] };
		members[r] = (struct member){ .comm = &comm, .proc = &procs[r], .rank = r, .from_init = true };
		members[r].p2p = pairs[r];
		members[r].n_p2p = RANKS;
		by_rank[r] = &members[r];
	}
	send = transfer(0, OP_SEND, 3);
	recv = transfer(1, OP_RECV, 3);
	members[0].ops = members[0].ops_tail = members[0].first_open = &send;
	pairs[0][1].entered[0] = 4;
	pairs[1][0].entered[1] = 3;
	return 0;
}

static void who_is_a_peer(void **state)
{
	(void)state;
	assert_ptr_equal(member_peer(&members[0], 1), &members[1]);
	assert_ptr_equal(member_peer(&members[1], 0), &members[0]);
	assert_null(member_peer(&members[0], -1));
	assert_null(member_peer(&members[0], RANKS));
	comm.by_rank = NULL;
	assert_null(member_peer(&members[0], 1));
	assert_int_equal(p2p_entered(&members[0], 1, 0), 4);
	assert_int_equal(p2p_entered(&members[0], -1, 0), 0);
	members[0].n_p2p = 1;
	assert_int_equal(p2p_entered(&members[0], 1, 0), 0);
}

static void whose_numbers_mean_the_same(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++) {
		fresh(NULL);
		send.seq_from_attach = i == 1;
		members[0].rank = i == 2 ? -1 : 0;
		members[0].from_init = i != 3;
		members[1].from_init = i != 4;
		assert_int_equal(p2p_numbered(&send), i == 0);
	}
}

static void what_runs_as_one(void **state)
{
	static struct op ops[3];

	(void)state;
	for (int i = 0; i < 7; i++) {
		for (int k = 0; k < 3; k++) {
			ops[k] = (struct op){ .grouped = true, .tid = 7, .enqueue_ns = 5 };
			ops[k].next_in_proc = k < 2 ? &ops[k + 1] : NULL;
			ops[k].prev_in_proc = k ? &ops[k - 1] : NULL;
		}
		ops[1].grouped = i != 1;
		ops[1].tid = i == 2 ? 8 : 7;
		ops[1].enqueue_ns = i == 3 ? 6 : 5;
		for (int k = 0; k < 3 && i == 4; k++)
			ops[k].enqueue_ns = 0;
		ops[2].grouped = i != 5;
		ops[2].tid = i == 6 ? 8 : 7;
		assert_ptr_equal(group_first(&ops[2]), i == 0 ? &ops[0] : &ops[2]);
		assert_ptr_equal(group_next(&ops[1]), i == 0 ? &ops[2] : NULL);
		assert_null(group_next(&ops[2]));
	}
}

static void the_other_side(void **state)
{
	(void)state;
	assert_null(p2p_other_side(&send));
	members[1].ops_tail = members[1].first_open = &recv;
	assert_ptr_equal(p2p_other_side(&send), &recv);
	assert_ptr_equal(p2p_other_side(&recv), &send);
	recv.seq = 2;
	assert_null(p2p_other_side(&send));
	members[1].from_init = false; /* numbers say nothing: what is open */
	assert_ptr_equal(p2p_other_side(&send), &recv);
	recv.end_ns = NOW;
	assert_null(p2p_other_side(&send));
	recv.end_ns = 0;
	recv.enqueue_ns = 0;
	assert_null(p2p_other_side(&send));
	recv.enqueue_ns = 1;
	recv.kind = OP_SEND;
	assert_null(p2p_other_side(&send));
	recv.kind = OP_RECV;
	recv.peer = 1;
	assert_null(p2p_other_side(&send));
	by_rank[1] = NULL;
	assert_null(p2p_other_side(&send));
}

/* Met late, by how much the sender's numbers are ahead says which it is, though one before it is open still: a group
 * ends as one. */
static void the_other_side_by_learnt_numbers(void **state)
{
	struct op before = transfer(1, OP_RECV, 4);

	(void)state;
	recv.seq = 5;
	recv.prev = &before;
	members[1].first_open = &before;
	members[1].ops_tail = &recv;
	members[1].from_init = false;
	assert_ptr_equal(p2p_other_side(&send), &before); /* not known: the first that is open */
	pairs[1][0].ahead_known = true;
	pairs[1][0].ahead = -2;
	assert_ptr_equal(p2p_other_side(&send), &recv);
	assert_ptr_equal(p2p_other_side(&recv), &send);
	assert_null(p2p_other_side(&before));
	for (int r = 0; r < RANKS; r++) {
		members[r].blind = true;
		assert_ptr_equal(p2p_other_side(&send), &before);
		members[r].blind = false;
	}
	members[1].n_p2p = 0;
	assert_ptr_equal(p2p_other_side(&send), &before);
}

/* When the peer called its side of the newest that both called. */
static void since_when_it_is_free(void **state)
{
	struct op before;

	(void)state;
	before = transfer(0, OP_SEND, 2);
	before.enqueue_ns = 55;
	send.prev = &before;
	assert_int_equal(p2p_free_ns(&members[1], 0, 1), 55); /* of #2: #3 it did not call */
	pairs[1][0].entered[1] = 4;
	assert_int_equal(p2p_free_ns(&members[1], 0, 1), NOW - 10 * SEC);
	pairs[1][0].entered[1] = 5;
	assert_int_equal(p2p_free_ns(&members[1], 0, 1), NOW - 10 * SEC);
	assert_int_equal(p2p_free_ns(&members[1], 0, 0), 0);
	pairs[1][0].entered[1] = 0;
	assert_int_equal(p2p_free_ns(&members[1], 0, 1), 0);
	pairs[1][0].entered[1] = 4;
	pairs[0][1].entered[0] = 0;
	assert_int_equal(p2p_free_ns(&members[1], 0, 1), 0);
	pairs[0][1].entered[0] = 2;
	assert_int_equal(p2p_free_ns(&members[1], 0, 1), 0); /* #1 is not kept */
	by_rank[0] = NULL;
	assert_int_equal(p2p_free_ns(&members[1], 0, 1), 0);
}

static void who_waits(void **state)
{
	(void)state;
	for (int i = 0; i < 9; i++) {
		fresh(NULL);
		pairs[1][0].entered[1] = i == 1 ? 4 : 3;
		members[1].gone = i == 2;
		procs[1].shed = i == 3 ? 1u << PROBES_NEEDED : ~(1u << PROBES_NEEDED);
		send.end_ns = i == 4;
		send.enqueue_ns = i == 5 ? 0 : SEC;
		send.peer = i == 6 ? 0 : 1;
		by_rank[1] = i == 7 ? NULL : &members[1];
		send.count = i == 8 ? 16 * MIB : 16 * MIB + 1;
		assert_int_equal(p2p_unanswered(&m, &send), i == 0);
	}
}

/* A small one may be in a buffer: it waits where a query said so, lately, and nothing else of its group explains that.
 */
static void a_small_send(void **state)
{
	struct op back;

	(void)state;
	send.count = 1;
	assert_false(p2p_unanswered(&m, &send));
	send.not_done_ns = NOW - 2 * SEC;
	assert_false(p2p_unanswered(&m, &send));
	send.not_done_ns++;
	assert_true(p2p_unanswered(&m, &send));
	back = transfer(0, OP_RECV, 9);
	send.grouped = back.grouped = true;
	send.next_in_proc = &back;
	back.prev_in_proc = &send;
	pairs[1][0].entered[0] = 9;
	assert_false(p2p_unanswered(&m, &send)); /* the peer's Send is missing as well */
	pairs[1][0].entered[0] = 10;
	assert_true(p2p_unanswered(&m, &send));
	pairs[1][0].entered[0] = 9;
	back.end_ns = NOW;
	assert_true(p2p_unanswered(&m, &send));
	back.end_ns = 0;
	back.grouped = false;
	assert_true(p2p_unanswered(&m, &send));
	send.not_done_ns = 0;
	back.grouped = true;
	pairs[1][0].entered[0] = 10;
	back.not_done_ns = NOW;
	assert_true(p2p_unanswered(&m, &send));
}

static void what_a_peer_waits_in(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		fresh(NULL);
		members[0].gone = i == 1;
		procs[0].dead = i == 2;
		members[0].first_open = i == 3 ? NULL : &send;
		members[1].rank = i == 4 ? -1 : 1;
		pairs[1][0].entered[1] = i == 5 ? 4 : 3;
		assert_ptr_equal(p2p_waiting_op(&m, &members[1], &members[0], 1), i ? NULL : &send);
		assert_null(p2p_waiting_op(&m, &members[1], &members[0], 0));
	}
	assert_null(p2p_waiting_op(&m, &members[0], &members[0], 1));
}

/* --- did the rank leave it out? --- */

#define CALLS 40
static struct op calls[CALLS];
static int n_calls;

static void called(uint64_t signature)
{
	struct op *op = &calls[n_calls];

	*op = (struct op){ .member = &members[1], .kind = OP_ALLREDUCE, .peer = -1, .signature = signature };
	if (signature == 99) { /* the Recv */
		op->kind = OP_RECV;
		op->peer = 0;
	}
	op->prev_in_proc = n_calls ? &calls[n_calls - 1] : NULL;
	procs[1].last_op = op;
	procs[1].last_call_ns = 1;
	n_calls++;
}

/* `n` calls, the Recv, `after` calls; once more without it. */
static bool left_out(int n, int after, enum op_kind kind, int peer)
{
	n_calls = 0;
	for (int times = 0; times < 2; times++) {
		for (int i = 0; i < n; i++)
			called(i + 1);
		if (!times)
			called(99);
		for (int i = 0; i < after; i++)
			called(i + 50);
	}
	return p2p_passed(&procs[1], &members[1], kind, peer);
}

static void one_that_went_on(void **state)
{
	(void)state;
	procs[1].last_op = NULL;
	assert_false(p2p_passed(&procs[1], &members[1], OP_RECV, 0));
	assert_true(left_out(8, 1, OP_RECV, 0));
	assert_true(left_out(9, 5, OP_RECV, 0));
	assert_false(left_out(7, 1, OP_RECV, 0)); /* too little to know the place by */
	assert_false(left_out(8, 0, OP_RECV, 0)); /* it is at the place */
	assert_false(left_out(8, 1, OP_SEND, 0));
	assert_false(left_out(8, 1, OP_RECV, 1));
	left_out(8, 1, OP_RECV, 0);
	assert_false(p2p_passed(&procs[1], &members[0], OP_RECV, 0));
	calls[3].member = &members[0]; /* before the place it was another communicator's */
	assert_false(p2p_passed(&procs[1], &members[1], OP_RECV, 0));
	left_out(8, 1, OP_RECV, 0);
	calls[3].peer = 1;
	assert_false(p2p_passed(&procs[1], &members[1], OP_RECV, 0));
}

/* Of a rank of another host that one says so: its past is not here. */
static void one_that_its_host_says_went_on(void **state)
{
	(void)state;
	assert_true(left_out(8, 1, OP_RECV, 0));
	assert_false(left_out(8, 0, OP_RECV, 0));
	pairs[1][0].passed[1] = true;
	procs[1].last_call_ns = 0;
	assert_false(p2p_passed(&procs[1], &members[1], OP_RECV, 0)); /* no call was seen, and nobody says so */
	procs[1].reported_ns = 1;
	assert_true(p2p_passed(&procs[1], &members[1], OP_RECV, 0));
	assert_false(p2p_passed(&procs[1], &members[1], OP_SEND, 0));
	assert_false(p2p_passed(&procs[1], &members[1], OP_RECV, 1000));
	pairs[1][0].passed[1] = false;
	assert_false(left_out(8, 1, OP_RECV, 0)); /* what its host says counts */
	procs[1].reported_ns = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(who_is_a_peer, fresh),
		cmocka_unit_test_setup(whose_numbers_mean_the_same, fresh),
		cmocka_unit_test_setup(what_runs_as_one, fresh),
		cmocka_unit_test_setup(the_other_side, fresh),
		cmocka_unit_test_setup(the_other_side_by_learnt_numbers, fresh),
		cmocka_unit_test_setup(since_when_it_is_free, fresh),
		cmocka_unit_test_setup(who_waits, fresh),
		cmocka_unit_test_setup(a_small_send, fresh),
		cmocka_unit_test_setup(what_a_peer_waits_in, fresh),
		cmocka_unit_test_setup(one_that_went_on, fresh),
		cmocka_unit_test_setup(one_that_its_host_says_went_on, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
