/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stalled_link.c - of a transfer that stalls, which link is shown, whether it is proven, which of several it is,
 * and what is said of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/evidence.h"
#include "tests/unit/transfer/stalled_ring.h"

static struct more {
	struct comm comm;
	struct member members[RANKS], *by_rank[RANKS];
} more[2];

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

/* Channels, directions and operations are distinguished. */
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
		TEST(of_a_culprit_its_own_link), TEST(a_culprit_that_only_receives), TEST(a_sender_that_is_through),
		TEST(a_culprit_without_a_link),  TEST(the_first_of_several_delayed), TEST(the_two_ends_of_a_link),
		TEST(a_peer_that_is_none),       TEST(both_ends_were_seen_since),    TEST(one_that_polls_late),
		TEST(the_oldest_of_several),     TEST(one_with_a_culprit_first),     TEST(the_oldest_comes_last),
		TEST(what_is_said_of_the_link),  TEST(what_is_said_of_a_rank),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
