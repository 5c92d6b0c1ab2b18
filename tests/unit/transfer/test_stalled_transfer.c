/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stalled_transfer.c - the transfer that stalls, and which rank or side of a link delays it: four ranks on a ring,
 * channel 0, in operation OP since five seconds, all proxies polling. Of one stalled link: 1 to 2.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "detect/transfer/stalled_transfer.h"
#include "tests/unit/job/evidence.h"
#include "tests/unit/job/hand_job.h"
#include "tests/unit/job/proxy_parts.h"

enum { RANKS = HAND_RANKS, SEND = 0, RECV = 1, MORE = 2 };
#define SEEN_NS (NOW - 500 * MSEC)
#define SINCE_NS (NOW - 5 * SEC)

static struct proxy_part parts[RANKS][4];
static struct more {
	struct comm comm;
	struct member members[RANKS], *by_rank[RANKS];
} more[2];
static struct stalled_transfer got;

static struct proxy_part placed(struct proxy_part p, int peer, int channel)
{
	p.peer = peer;
	p.channel = channel;
	return p;
}

static void poll_all(struct task *t)
{
	t->state = TASK_ON_CPU;
	t->since_ns = SEEN_NS - SEC;
	t->prev_seen_ns = SEEN_NS - SEC;
	t->seen_ns = SEEN_NS;
	t->run_ns = 900 * MSEC;
}

static int setup(void **state)
{
	hand_setup(state);
	for (int r = 0; r < RANKS; r++) {
		members[r].samples =
			(struct samples){ .n = 9, .counted = true, .seen_ns = SEEN_NS, .since_ns = SINCE_NS };
		members[r].proxies = (struct proxies){
			.n_samples = 9, .n = 2, .parts = parts[r], .seen_ns = SEEN_NS, .since_ns = SINCE_NS
		};
		members[r].entered_seq[SEQ_COLL] = 21;
		memset(parts[r], 0, sizeof(parts[r]));
		parts[r][SEND] = placed(sending(32, 24, 24), (r + 1) % RANKS, 0);
		parts[r][RECV] = placed(receiving(32, 24, 24, 24), (r + RANKS - 1) % RANKS, 0);
		poll_all(&proxies[r]);
		mains[r].seen_ns = SEEN_NS;
	}
	parts[1][SEND] = placed(sending(32, 32, 24), 2, 0); /* on its way, and does not come */
	memset(&got, 0xff, sizeof(got));
	return 0;
}

static bool found(void)
{
	return stalled_transfer_find(&m, &comm, &got);
}

static bool proven(void)
{
	return stalled_transfer_proven(&m, &got);
}

static void no_operation(int r)
{
	members[r].proxies.n = 0;
}

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

static void asleep(int r)
{
	proxies[r].state = TASK_SLEEP;
	proxies[r].since_ns = SEEN_NS - SEC;
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

/* --- which link is shown --- */

/* Its links: to 1 on channel 0, from 3 on channel 0. */
static void of_a_culprit_its_own_link(void **state)
{
	(void)state;
	asleep(0);
	assert_true(proven());
	assert_ptr_equal(got.link.from, &members[0]); /* none is delayed: the one that it sends on */
	assert_int_equal(got.link.side, LINK_QUIET);
	assert_int_equal(got.n_delayed, 1);
	assert_int_equal(stalled_transfer_side(&got), LINK_SENDER);
	parts[0][RECV] = placed(receiving(24, 24, 24, 24), 3, 0); /* it could post, and does not */
	assert_true(proven());
	assert_ptr_equal(got.link.to, &members[0]);
	assert_int_equal(got.link.side, LINK_RECEIVER);
	assert_int_equal(got.n_delayed, 2);
	assert_int_equal(stalled_transfer_side(&got), LINK_RECEIVER);
	parts[0][RECV] = placed(receiving(32, 24, 24, 24), 3, 0);
	parts[0][SEND] = placed(sending(24, 24, 24), 1, 0);
	assert_true(proven());
	assert_ptr_equal(got.link.from, &members[0]);
	assert_int_equal(got.link.side, LINK_SENDER);
	parts[3][SEND] = placed(sending(24, 24, 24), 0, 0); /* not its own end's delay: less worth */
	assert_true(proven());
	assert_ptr_equal(got.link.from, &members[0]);
	parts[0][SEND] = placed(sending(32, 24, 24), 1, 0);
	assert_true(proven());
	assert_ptr_equal(got.link.to, &members[0]);
	assert_int_equal(got.link.side, LINK_SENDER);
	assert_int_equal(stalled_transfer_side(&got), LINK_RECEIVER);
}

/* It does not send in this operation: where it receives. */
static void a_culprit_that_only_receives(void **state)
{
	(void)state;
	asleep(0);
	parts[0][SEND] = parts[0][RECV];
	members[0].proxies.n = 1;
	members[1].proxies.n = 1;
	assert_true(proven());
	assert_ptr_equal(got.link.from, &members[3]);
	assert_ptr_equal(got.link.to, &members[0]);
	assert_int_equal(stalled_transfer_side(&got), LINK_RECEIVER);
}

/* Its own sending end is through: seen from the receiver's. */
static void a_sender_that_is_through(void **state)
{
	(void)state;
	asleep(0);
	no_operation(0);
	no_operation(3);
	proxies[0].state = TASK_DISK;
	parts[1][RECV] = placed(receiving(64, 64, 64, 64), 0, 0);
	assert_true(proven());
	assert_ptr_equal(got.link.from, &members[0]);
	assert_ptr_equal(got.link.to, &members[1]);
	assert_null(got.link.send);
	assert_ptr_equal(got.link.recv, &parts[1][RECV]);
	assert_int_equal(got.link.side, LINK_QUIET);
}

/* A delayed link elsewhere shows nothing of it. */
static void a_culprit_without_a_link(void **state)
{
	(void)state;
	procs[3].dead = true;
	procs[3].exit_ns = SINCE_NS;
	no_operation(3);
	parts[0][RECV].op_count = parts[2][SEND].op_count = OP + 2;
	assert_true(proven());
	assert_ptr_equal(got.culprit, &members[3]);
	assert_null(got.link.from);
	assert_int_equal(stalled_transfer_side(&got), LINK_QUIET);
	assert_int_equal(got.n_delayed, 1);
}

static void the_first_of_several_delayed(void **state)
{
	(void)state;
	parts[2][SEND] = placed(sending(32, 32, 24), 3, 0);
	assert_true(proven());
	assert_int_equal(got.n_delayed, 2);
	assert_ptr_equal(got.link.from, &members[1]);
	members[1].gone = true;
	assert_true(proven());
	assert_int_equal(got.n_delayed, 1);
	assert_ptr_equal(got.link.from, &members[2]);
}

/* Channels, directions and operations are told apart. */
static void the_two_ends_of_a_link(void **state)
{
	(void)state;
	members[2].proxies.n = 3;
	parts[2][MORE] = parts[2][RECV]; /* what fits comes last */
	parts[2][RECV].channel = 1;
	parts[2][RECV].peer = 0;
	assert_true(proven());
	assert_ptr_equal(got.link.recv, &parts[2][MORE]);
	parts[2][RECV].peer = 1;
	assert_true(proven());
	assert_ptr_equal(got.link.recv, &parts[2][MORE]);
	parts[2][RECV] = parts[2][MORE];
	parts[2][RECV].op_count = OP + 2;
	assert_true(proven());
	assert_ptr_equal(got.link.recv, &parts[2][MORE]);
	parts[2][RECV].op_count = OP;
	parts[2][RECV].transport = 1;
	assert_true(proven());
	assert_ptr_equal(got.link.recv, &parts[2][MORE]);
	parts[2][RECV].transport = 2;
	parts[2][RECV].flags = PROXY_SEND;
	assert_true(proven());
	assert_ptr_equal(got.link.recv, &parts[2][MORE]);
}

/* Peers that are none: nobody has that rank, or it is itself. */
static void a_peer_that_is_none(void **state)
{
	static const int peers[] = { RANKS, 1, 1000 };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		setup(state);
		parts[1][SEND].peer = peers[i];
		parts[2][RECV] = placed(receiving(64, 64, 64, 64), 1, 0);
		assert_false(proven());
		assert_true(found());
	}
}

/* --- is it proven? --- */

/* Both ends polled since nothing moves: by both of the last scans. */
static void both_ends_were_seen_since(void **state)
{
	for (int end = 1; end <= 2; end++) {
		setup(state);
		members[0].samples.since_ns = proxies[end].prev_seen_ns;
		assert_true(proven());
		members[0].samples.since_ns++;
		assert_false(proven());
		setup(state);
		members[0].samples.since_ns = proxies[end].seen_ns = proxies[end].prev_seen_ns = SEEN_NS - MSEC;
		assert_false(proven());
		setup(state);
		proxies[end].seen_ns = SINCE_NS;
		proxies[end].prev_seen_ns = SINCE_NS - SEC;
		assert_false(proven());
		mains[end].next = NULL;
		assert_false(proven());
		setup(state);
		no_operation(end); /* asleep with nothing active: what was seen last holds */
		proxies[end].state = TASK_SLEEP;
		proxies[end].seen_ns = SINCE_NS - SEC;
		proxies[end].since_ns = proxies[end].prev_seen_ns = SINCE_NS - 2 * SEC;
		assert_true(proven());
		assert_null(got.culprit);
	}
}

/* One that polls late is given four floors. */
static void one_that_polls_late(void **state)
{
	for (int end = 1; end <= 2; end++) {
		setup(state);
		for (int r = 0; r < RANKS; r++) /* as all do */
			proxies[r].wait_ns = 290 * MSEC;
		proxies[end].wait_ns = 400 * MSEC;
		proxies[end].run_ns = 500 * MSEC;
		assert_int_equal(proxy_thread_judge(&members[end]), PROXY_POLLS_LATE);
		m.hang_floor_ns = 1250 * MSEC;
		assert_true(proven());
		m.hang_floor_ns++;
		assert_false(proven());
		m.hang_floor_ns = 250 * MSEC;
		proxies[end].run_ns = 0;
		proxies[end].wait_ns = 0;
		assert_int_equal(proxy_thread_judge(&members[end]), PROXY_UNSETTLED);
		assert_false(proven());
	}
}

/* --- of several communicators --- */

/* The same processes once more, with what the first knows. */
static void more_begin(struct more *o, uint64_t since_ns)
{
	o->comm = comm;
	o->comm.members = o->members;
	o->comm.by_rank = o->by_rank;
	for (int r = 0; r < RANKS; r++) {
		o->members[r] = members[r];
		o->members[r].comm = &o->comm;
		o->members[r].next_in_comm = r + 1 < RANKS ? &o->members[r + 1] : NULL;
		o->members[r].samples.since_ns = o->members[r].proxies.since_ns = since_ns;
		o->by_rank[r] = &o->members[r];
	}
}

static void second_begins(uint64_t since_ns)
{
	more_begin(&more[0], since_ns);
	comm.next = &more[0].comm;
}

static void the_oldest_of_several(void **state)
{
	static const int64_t later[] = { 1, 0, -1 };

	for (int i = 0; i < 6; i++) {
		setup(state);
		if (i >= 3)
			asleep(0);
		second_begins(SINCE_NS + later[i % 3]);
		assert_true(proven());
		assert_ptr_equal(got.comm, i % 3 == 2 ? &more[0].comm : &comm);
		assert_int_equal(!!got.culprit, i >= 3);
	}
}

/* The rank that sleeps has nothing active in one of them: there only the link is named. */
static void one_with_a_culprit_first(void **state)
{
	for (int i = 0; i < 4; i++) {
		setup(state);
		asleep(0);
		second_begins(i < 2 ? SINCE_NS - 1 : SINCE_NS + 1);
		(i % 2 ? more[0].members : members)[0].proxies.n = 0;
		assert_true(proven());
		assert_ptr_equal(got.culprit, i % 2 ? &members[0] : &more[0].members[0]);
	}
}

/* One that is younger does not end the search. */
static void the_oldest_comes_last(void **state)
{
	(void)state;
	more_begin(&more[0], SINCE_NS + 1);
	more_begin(&more[1], SINCE_NS - 1);
	comm.next = &more[0].comm;
	more[0].comm.next = &more[1].comm;
	assert_true(proven());
	assert_ptr_equal(got.comm, &more[1].comm);
}

/* --- what is said --- */

static void what_is_said_of_the_link(void **state)
{
	struct finding_list list = { 0 };
	struct finding f = { 0 };

	(void)state;
	parts[1][SEND].channel = parts[2][RECV].channel = 3;
	procs[1].rank = 71;
	assert_true(proven());
	stalled_transfer_note_link(&f, &list, &got);
	assert_string_equal(text_named(&f, "side", ""), "network");
	assert_true(number_named(&f, "sender", -1) == 71);
	assert_true(number_named(&f, "receiver", -1) == 2);
	assert_true(number_named(&f, "channel", -1) == 3);
	assert_string_equal(text_named(&f, "sent", ""), "posted 32, transmitted 32, done 24 of 64");
	assert_string_equal(text_named(&f, "received", ""), "posted 32, received 24, transmitted 24, done 24 of 64");
	got.link.recv = NULL;
	f.n_evidence = 0;
	stalled_transfer_note_link(&f, &list, &got);
	assert_string_equal(text_named(&f, "received", ""), "no such operation active");
	got.link.from = NULL;
	f.n_evidence = 0;
	stalled_transfer_note_link(&f, &list, &got);
	assert_int_equal(f.n_evidence, 0);
	finding_list_free(&list);
}

/* Of a rank that is named for another reason: the communicator in which it stands in a transfer. */
static void what_is_said_of_a_rank(void **state)
{
	struct member *second = more[0].members;
	struct finding_list list = { 0 };
	struct finding f = { 0 };

	(void)state;
	second_begins(SINCE_NS);
	members[2].next_in_proc = &second[2];
	stalled_transfer_note(&f, &list, &m, &procs[2]);
	assert_string_equal(text_named(&f, "side", ""), "receiver");
	assert_true(number_named(&f, "sender", -1) == 1);
	assert_int_equal(f.n_evidence, 6); /* once */
	for (int i = 0; i < 3; i++) {
		f.n_evidence = 0;
		members[2].gone = i == 1;
		members[2].proxies.n = i == 2 ? 0 : 2;
		second[2].entered_seq[SEQ_COLL] = 22; /* in the other it goes on */
		second[2].proxies.n = 0;
		stalled_transfer_note(&f, &list, &m, &procs[2]);
		assert_int_equal(f.n_evidence, i ? 0 : 6);
	}
	second[2].proxies.n = 2;
	stalled_transfer_note(&f, &list, &m, &procs[2]);
	assert_int_equal(f.n_evidence, 6);
	members[2].proxies.n = 2;
	members[2].gone = false;
	members[0].proxies.seen_ns = 0; /* not known */
	second[0].proxies.seen_ns = 0;
	f.n_evidence = 0;
	stalled_transfer_note(&f, &list, &m, &procs[2]);
	assert_int_equal(f.n_evidence, 0);
	finding_list_free(&list);
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
		TEST(of_a_culprit_its_own_link),
		TEST(a_culprit_that_only_receives),
		TEST(a_sender_that_is_through),
		TEST(a_culprit_without_a_link),
		TEST(the_first_of_several_delayed),
		TEST(the_two_ends_of_a_link),
		TEST(a_peer_that_is_none),
		TEST(both_ends_were_seen_since),
		TEST(one_that_polls_late),
		TEST(the_oldest_of_several),
		TEST(one_with_a_culprit_first),
		TEST(the_oldest_comes_last),
		TEST(what_is_said_of_the_link),
		TEST(what_is_said_of_a_rank),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
