/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stalled_transfer.c - the transfer that stalls: which operation, since when, and which rank delays it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/transfer/stalled_ring.h"

static void what_is_of_the_network(void **state)
{
	struct proxy_part p = sending(1, 1, 1);

	(void)state;
	assert_true(proxy_part_is_network(&p));
	p.state = 0;
	assert_false(proxy_part_is_network(&p));
	p.state = 1;
	p.transport = 1;
	assert_false(proxy_part_is_network(&p));
	p.transport = 3;
	assert_false(proxy_part_is_network(&p));
	p.transport = 2;
	p.op_count = 41; /* Send and Recv */
	assert_false(proxy_part_is_network(&p));
}

static void who_is_in_a_transfer(void **state)
{
	(void)state;
	assert_true(member_in_transfer(&members[0], OP));
	assert_false(member_in_transfer(&members[0], OP + 2));
	assert_true(member_transfers(&members[0]));
	parts[0][SEND].op_count = parts[0][RECV].op_count = OP + 1;
	assert_false(member_in_transfer(&members[0], OP + 1));
	assert_false(member_transfers(&members[0]));
	parts[0][RECV].op_count = OP + 2;
	assert_true(member_in_transfer(&members[0], OP + 2));
	no_operation(0);
	assert_false(member_transfers(&members[0]));
	assert_false(member_in_transfer(&members[0], OP + 2));
}

/* Samples are fresh for three seconds. */
static void a_sample_grows_old(void **state)
{
	(void)state;
	assert_true(member_transfers_now(&m, &members[0]));
	members[0].proxies.seen_ns = NOW - 3 * SEC + 1;
	assert_true(member_transfers_now(&m, &members[0]) && found() && transfers_known(&m, &comm));
	members[0].proxies.seen_ns--;
	assert_false(member_transfers_now(&m, &members[0]) || found() || transfers_known(&m, &comm));
	procs[0].dead = true; /* nothing newer will come */
	assert_true(found() && transfers_known(&m, &comm));
	members[0].samples.counted = false;
	assert_false(found() || transfers_known(&m, &comm));
	members[0].gone = true;
	assert_true(found() && transfers_known(&m, &comm));
	assert_false(member_transfers_now(&m, &members[0]));
}

static void what_makes_a_sample(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		setup(state);
		members[2].samples.counted = i != 1;
		members[2].proxies.n_samples = i == 2 ? 0 : 1;
		members[2].gone = i == 3;
		assert_int_equal(member_transfers_now(&m, &members[2]), i == 0);
		assert_int_equal(transfers_known(&m, &comm), i == 0 || i == 3);
		assert_int_equal(found(), i == 0 || i == 3);
	}
	setup(state);
	no_operation(2);
	assert_false(member_transfers_now(&m, &members[2]));
	assert_true(transfers_known(&m, &comm) && found());
}

/* Every rank of it has to be seen. */
static void what_communicator_is_known(void **state)
{
	(void)state;
	comm.n_seen = RANKS - 1;
	assert_false(found() || transfers_known(&m, &comm));
	comm.n_seen = RANKS;
	comm.by_rank = NULL;
	assert_false(found() || transfers_known(&m, &comm));
	comm.by_rank = by_rank;
	members[0].next_in_comm = NULL;
	comm.nranks = comm.n_seen = 2;
	assert_true(found());
	comm.nranks = comm.n_seen = 1;
	assert_false(found());
	assert_true(transfers_known(&m, &comm));
}

static void the_oldest_operation_counts(void **state)
{
	(void)state;
	assert_true(found());
	assert_ptr_equal(got.comm, &comm);
	assert_int_equal(got.op_count, OP);
	assert_int_equal(got.coll, OP_ALLREDUCE);
	parts[2][MORE] = placed(sending(1, 1, 1), 3, 1);
	parts[2][MORE].op_count = OP - 2;
	parts[2][MORE].coll = OP_BROADCAST;
	assert_true(found());
	assert_int_equal(got.op_count, OP); /* it is beyond what was read */
	members[2].proxies.n = 3;
	assert_true(found());
	assert_int_equal(got.op_count, OP - 2);
	assert_int_equal(got.coll, OP_BROADCAST);
	procs[2].dead = true; /* it is in nothing any more */
	assert_true(found());
	assert_int_equal(got.op_count, OP);
	procs[2].dead = false;
	members[2].gone = true;
	assert_true(found());
	assert_int_equal(got.op_count, OP);
	members[2].gone = false;
	parts[2][MORE].transport = 1;
	assert_true(found());
	assert_int_equal(got.op_count, OP);
	for (int r = 0; r < RANKS; r++)
		no_operation(r);
	assert_false(found());
}

/* Who is not in it entered as many as one of those that are: it is through, or not begun. */
static void all_have_entered_it(void **state)
{
	(void)state;
	no_operation(3);
	assert_true(found());
	members[3].entered_seq[SEQ_COLL] = 20;
	assert_false(found());
	members[1].entered_seq[SEQ_COLL] = 20;
	assert_true(found());
	members[1].entered_seq[SEQ_COLL] = 21;
	members[3].gone = true;
	assert_true(found());
}

static void its_number(void **state)
{
	(void)state;
	assert_true(found());
	assert_int_equal(stalled_transfer_seq(&got), 20);
	parts[0][SEND].queued = 2;
	parts[0][RECV].queued = 3;
	assert_int_equal(stalled_transfer_seq(&got), 17);
	parts[0][SEND].queued = 4;
	assert_int_equal(stalled_transfer_seq(&got), 16);
	parts[0][SEND].op_count = OP + 2; /* it is not this one's */
	assert_int_equal(stalled_transfer_seq(&got), 17);
	members[2].entered_seq[SEQ_COLL] = 15;
	assert_int_equal(stalled_transfer_seq(&got), 14);
	no_operation(2);
	assert_int_equal(stalled_transfer_seq(&got), 17);
	members[3].entered_seq[SEQ_COLL] = 16;
	assert_int_equal(stalled_transfer_seq(&got), 15);
	members[3].entered_seq[SEQ_COLL] = 21;
	members[0].entered_seq[SEQ_COLL] = 3; /* as many behind it as it entered: it tells nothing */
	assert_int_equal(stalled_transfer_seq(&got), 20);
	for (int r = 1; r < RANKS; r++)
		no_operation(r);
	assert_int_equal(stalled_transfer_seq(&got), 0);
	members[0].entered_seq[SEQ_COLL] = 4;
	assert_int_equal(stalled_transfer_seq(&got), 0);
}

/* The last change of any rank, and each seen once more since. */
static void since_when_nothing_moves(void **state)
{
	(void)state;
	assert_int_equal(transfers_unchanged_since(&comm, true), SINCE_NS);
	members[1].samples.since_ns = SINCE_NS + 1;
	assert_int_equal(transfers_unchanged_since(&comm, true), SINCE_NS + 1);
	members[2].proxies.since_ns = SINCE_NS + 2;
	assert_int_equal(transfers_unchanged_since(&comm, true), SINCE_NS + 2);
	assert_int_equal(transfers_unchanged_since(&comm, false), SINCE_NS + 1);
	members[0].last_call_ns = SINCE_NS + 3;
	assert_int_equal(transfers_unchanged_since(&comm, true), SINCE_NS + 3);
	assert_int_equal(transfers_unchanged_since(&comm, false), SINCE_NS + 1);
	members[0].last_call_ns = SEEN_NS - 1;
	assert_int_equal(transfers_unchanged_since(&comm, true), SEEN_NS - 1);
	members[0].last_call_ns = SEEN_NS; /* its proxy may have moved since */
	assert_int_equal(transfers_unchanged_since(&comm, true), 0);
	assert_int_equal(transfers_unchanged_since(&comm, false), SINCE_NS + 1);
	members[0].last_call_ns = 0;
	members[0].samples.since_ns = SEEN_NS;
	assert_int_equal(transfers_unchanged_since(&comm, true), 0);
	assert_int_equal(transfers_unchanged_since(&comm, false), 0);
	members[0].gone = true;
	assert_int_equal(transfers_unchanged_since(&comm, true), SINCE_NS + 2);
	members[0].gone = false;
	procs[0].dead = true;
	procs[0].exit_ns = SINCE_NS - 1;
	assert_int_equal(transfers_unchanged_since(&comm, true), SINCE_NS + 2);
	procs[0].exit_ns = NOW - 1;
	assert_int_equal(transfers_unchanged_since(&comm, true), NOW - 1);
}

static void a_link_is_named(void **state)
{
	(void)state;
	assert_true(proven());
	assert_null(got.culprit);
	assert_int_equal(got.why, PROXY_UNSEEN);
	parts[0][SEND].op_count = parts[1][RECV].op_count = OP + 2; /* others are passed over */
	assert_true(proven());
	parts[0][SEND].op_count = parts[1][RECV].op_count = OP;
	parts[0][SEND].peer = 0;
	parts[1][RECV].peer = 1;
	assert_true(proven());
	assert_int_equal(got.since_ns, SINCE_NS);
	assert_int_equal(got.n_delayed, 1);
	assert_int_equal(got.link.side, LINK_NETWORK);
	assert_ptr_equal(got.link.from, &members[1]);
	assert_ptr_equal(got.link.to, &members[2]);
	assert_ptr_equal(got.link.send, &parts[1][SEND]);
	assert_ptr_equal(got.link.recv, &parts[2][RECV]);
	assert_int_equal(got.link.channel, 0);
	assert_int_equal(stalled_transfer_side(&got), LINK_NETWORK);
	m.comms = NULL;
	assert_false(proven());
	assert_null(got.comm);
}

static void not_before_the_floor(void **state)
{
	(void)state;
	m.hang_floor_ns = 5 * SEC;
	assert_true(proven());
	m.hang_floor_ns++;
	assert_false(proven());
	m.hang_floor_ns = 250 * MSEC;
	members[3].samples.since_ns = SEEN_NS; /* it moves */
	assert_false(proven());
}

static void nothing_is_delayed(void **state)
{
	(void)state;
	parts[1][SEND] = placed(sending(32, 24, 24), 2, 0);
	assert_false(proven());
}

/* The worst off; of two that are alike none. */
static void a_rank_is_named(void **state)
{
	(void)state;
	asleep(0);
	assert_true(proven());
	assert_ptr_equal(got.culprit, &members[0]);
	assert_int_equal(got.why, PROXY_ASLEEP);
	asleep(3);
	assert_false(proven());
	proxies[3].state = TASK_DISK;
	assert_true(proven());
	assert_ptr_equal(got.culprit, &members[3]);
	assert_int_equal(got.why, PROXY_BLOCKED);
	members[3].gone = true;
	assert_true(proven());
	assert_ptr_equal(got.culprit, &members[0]);
	asleep(1);
	asleep(2); /* of three neither */
	assert_false(proven());
}

/* Not by itself: that its peers do not wait is no fault. */
static void one_that_is_starved_is_no_culprit(void **state)
{
	(void)state;
	proxies[0].run_ns = 0;
	proxies[0].wait_ns = SEC;
	assert_int_equal(proxy_thread_judge(&members[0]), PROXY_STARVED);
	assert_true(proven());
	assert_null(got.culprit);
}

static void a_death_of_a_job_that_ends(void **state)
{
	(void)state;
	procs[1].dead = true;
	procs[1].exit_ns = SINCE_NS;
	assert_true(proven());
	assert_ptr_equal(got.culprit, &members[1]);
	assert_int_equal(got.why, PROXY_DEAD);
	procs[1].exit_signal = 15; /* it was asked to go: the others may follow */
	assert_false(proven());
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		TEST(what_is_of_the_network),
		TEST(who_is_in_a_transfer),
		TEST(a_sample_grows_old),
		TEST(what_makes_a_sample),
		TEST(what_communicator_is_known),
		TEST(the_oldest_operation_counts),
		TEST(all_have_entered_it),
		TEST(its_number),
		TEST(since_when_nothing_moves),
		TEST(a_link_is_named),
		TEST(not_before_the_floor),
		TEST(nothing_is_delayed),
		TEST(a_rank_is_named),
		TEST(one_that_is_starved_is_no_culprit),
		TEST(a_death_of_a_job_that_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
