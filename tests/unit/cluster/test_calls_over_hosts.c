/* SPDX-License-Identifier: Apache-2.0
 *
 * test_calls_over_hosts.c - what only calls show, over hosts, by the reports of agents that see them: an order of two
 * communicators (entered is not reached), a Send that never came, arguments that differ; and that healthy ranks whose
 * reports are of different moments are none of that.
 */
#include "tests/unit/cluster/two_hosts.h"

#define KIND_ALLREDUCE 4
#define KIND_SEND 8
#define KIND_RECV 9

static void all_seen(uint64_t other)
{
	for (int r = 0; r < RANKS; r++) {
		rank_calls[r].seen = true;
		rank_calls[r].other = other;
	}
}

/* The rank enqueues one more. `behind`: the id that it lies behind on its stream, 0 none. */
static Cluster__Call *calls(int rank, uint64_t id, uint64_t hash, uint64_t seq, uint64_t behind)
{
	struct rank_calls *c = &rank_calls[rank];
	Cluster__Call *one = &c->open[c->n_open++];

	*one = (Cluster__Call)CLUSTER__CALL__INIT;
	one->has_id = one->has_comm = one->has_kind = one->has_count = one->has_seq = one->has_tid = 1;
	one->id = id;
	one->comm = 0x1000 + hash;
	one->kind = KIND_ALLREDUCE;
	one->count = 1024;
	one->seq = seq;
	one->behind = behind;
	one->has_behind = behind != 0;
	one->tid = 100 + (uint32_t)rank;
	return one;
}

static void transfers(int rank, uint32_t peer, uint64_t sends, uint64_t recvs)
{
	Cluster__Peer *p = &rank_calls[rank].peer;

	*p = (Cluster__Peer)CLUSTER__PEER__INIT;
	p->has_rank = p->has_sends = p->has_recvs = 1;
	p->rank = peer;
	p->sends = sends;
	p->recvs = recvs;
	rank_calls[rank].has_peer = true;
}

static void all_stop(void)
{
	for (int r = 0; r < RANKS; r++)
		since[r] = now;
}

static cJSON *first_hang(void)
{
	cJSON *o = incident_nth(0);

	assert_non_null(o);
	assert_string_equal(text_of(o, "kind"), "hang");
	return o;
}

static int first_rank(const cJSON *o)
{
	return cJSON_GetArrayItem(cJSON_GetObjectItem(o, "ranks"), 0)->valueint;
}

/* --- cases --- */

/* Rank 3 has called WORLD and waits in it; all others stand at OTHER, with WORLD behind it. By their counters rank 3
 * alone lacks a call, and would be taken for one that does not come. */
static void an_order_of_two_communicators_is_a_deadlock(void **state)
{
	uint64_t n;
	cJSON *o;

	(void)state;
	all_seen(50);
	seconds(30, RANKS);
	all_stop();
	n = entered[0];
	for (int r = 0; r < RANKS; r++) {
		entered[r] = n + 1;
		rank_calls[r].other += r != 3;
		if (r != 3)
			calls(r, 7, OTHER, 50, 0);
		calls(r, 8, WORLD, n, r != 3 ? 7 : 0);
		rank_calls[r].waits_for = r != 3 ? 7 : 8;
	}
	seconds(8, 0);
	o = first_hang();
	assert_string_equal(text_of(o, "class"), "deadlock");
	assert_string_equal(text_of(o, "cause"), "order");
	assert_string_equal(text_of(cJSON_GetObjectItem(o, "evidence"), "other_order_ranks"), "3");
	assert_string_equal(text_of(cJSON_GetObjectItem(o, "evidence"), "comms"),
			    "0x00000000000000a0,0x00000000000000b0");
	cJSON_Delete(o);
	assert_no_more(1);
}

/* Rank 2 of node-b waits for a Send of rank 1 of node-a, which has gone on into an operation of all. */
static void a_recv_without_its_send(void **state)
{
	Cluster__Call *recv;
	uint64_t n;
	cJSON *o;

	(void)state;
	all_seen(0);
	transfers(1, 2, 5, 0);
	transfers(2, 1, 0, 5);
	seconds(30, RANKS);
	all_stop();
	n = entered[0];
	transfers(2, 1, 0, 6);
	rank_calls[1].peer.has_sends_passed = rank_calls[1].peer.sends_passed = 1;
	recv = calls(2, 7, WORLD, 5, 0);
	recv->kind = KIND_RECV;
	recv->has_peer = 1;
	recv->peer = 1;
	rank_calls[2].waits_for = 7;
	for (int r = 0; r < RANKS; r++) {
		if (r == 2)
			continue;
		entered[r] = n + 1;
		calls(r, 8, WORLD, n, 0);
		rank_calls[r].waits_for = 8;
	}
	seconds(8, 0);
	o = first_hang();
	assert_string_equal(text_of(o, "class"), "p2p_unmatched");
	assert_int_equal(first_rank(o), 1);
	assert_string_equal(text_of(o, "host"), "node-a");
	cJSON_Delete(o);
	assert_no_more(1);
}

/* Its Recv stands since the host ran ahead; the report of the other host that has the Send is not there yet. */
static void a_transfer_that_is_called_between_two_reports_is_none(void **state)
{
	(void)state;
	all_seen(0);
	transfers(1, 2, 5, 0);
	transfers(2, 1, 0, 5);
	seconds(30, RANKS);
	for (uint64_t i = 0; i < 60; i++) {
		Cluster__Call *recv;

		transfers(1, 2, 5 + i, 0);
		transfers(2, 1, 0, 6 + i);
		rank_calls[2].n_open = 0;
		recv = calls(2, 7 + i, WORLD, 5 + i, 0);
		recv->kind = KIND_RECV;
		recv->has_peer = 1;
		recv->peer = 1;
		rank_calls[2].waits_for = 7 + i;
		seconds(1, RANKS);
		assert_no_more(0);
	}
}

/* Counters name it, too; calls say in which operation, and that it is reached. */
static void who_does_not_come_is_named_by_calls(void **state)
{
	cJSON *o;

	(void)state;
	all_seen(50);
	seconds(30, RANKS);
	all_stop();
	rank_3_sleeps();
	for (int r = 0; r < 3; r++) {
		calls(r, 7, WORLD, entered[3], 0);
		rank_calls[r].waits_for = 7;
	}
	seconds(5, 0);
	o = first_hang();
	assert_string_equal(text_of(o, "class"), "missing_enter");
	assert_string_equal(text_of(o, "op"), "AllReduce");
	assert_int_equal(first_rank(o), 3);
	assert_int_equal(cJSON_GetObjectItem(cJSON_GetObjectItem(o, "evidence"), "n_waiting")->valueint, 3);
	cJSON_Delete(o);
	assert_no_more(1);
}

static void arguments_that_differ_over_hosts(void **state)
{
	uint64_t n;
	cJSON *o;

	(void)state;
	all_seen(0);
	seconds(30, RANKS);
	all_stop();
	n = entered[0];
	for (int r = 0; r < RANKS; r++) {
		entered[r] = n + 1;
		calls(r, 8, WORLD, n, 0)->count = r == 2 ? 4096 : 1024;
		rank_calls[r].waits_for = 8;
	}
	seconds(2, 0);
	o = incident_nth(0);
	assert_non_null(o);
	assert_string_equal(text_of(o, "kind"), "mismatch");
	assert_string_equal(text_of(o, "cause"), "count");
	assert_int_equal(first_rank(o), 2);
	assert_string_equal(text_of(o, "host"), "node-b");
	assert_int_equal(cJSON_GetObjectItem(o, "seq")->valueint, n);
	cJSON_Delete(o);
}

static const struct member *world_of(int rank)
{
	const struct member *mb = NULL;

	for (const struct proc *p = pipeline_model(hubs[0].job->pipeline)->procs; p; p = p->next)
		for (const struct member *o = p->members; o && p->tgid == 100 + (uint32_t)rank; o = o->next_in_proc)
			mb = o->comm->hash == WORLD ? o : mb;
	assert_non_null(mb);
	return mb;
}

static const struct op *open_of(int rank)
{
	const struct op *op = world_of(rank)->first_open;

	while (op && op->end_ns)
		op = op->next;
	return op;
}

/* In an upgrade one host's agent says handles, of which each rank has another, and the other's the one number. */
static void reductions_of_their_own_as_older_agents_say_them_are_none(void **state)
{
	const int said[RANKS] = { 0x1234abcd, 0x7fff0001, 5, 5 };
	uint64_t n;

	(void)state;
	all_seen(0);
	seconds(30, RANKS);
	n = entered[0];
	for (int r = 0; r < RANKS; r++) {
		Cluster__Call *one = calls(r, 8, WORLD, n, 0);

		entered[r] = n + 1;
		one->has_redop = 1;
		one->redop = said[r];
		rank_calls[r].waits_for = 8;
	}
	seconds(3, 0);
	assert_no_more(0);
	for (int r = 0; r < RANKS; r++)
		assert_int_equal(open_of(r)->redop, REDOP_OWN);
}

/* Each report shows other calls, of other moments: most began and ended unseen. */
static void calls_of_a_healthy_job_are_none(void **state)
{
	(void)state;
	all_seen(50);
	for (uint64_t i = 0; i < 120; i++) {
		for (int r = 0; r < RANKS; r++) {
			rank_calls[r].n_open = 0;
			rank_calls[r].other += 2;
			if ((r + i) % 3)
				calls(r, 10 * i + 1, OTHER, rank_calls[r].other - 1, 0);
			calls(r, 10 * i + 2, WORLD, entered[r] + 9, (r + i) % 3 ? 10 * i + 1 : 0);
			rank_calls[r].waits_for = 10 * i + 2;
		}
		seconds(1, RANKS);
		assert_no_more(0);
	}
}

/* Probes are for a minute: what they showed last is no hang after that. */
static void probes_that_go_leave_nothing_open(void **state)
{
	(void)state;
	all_seen(0);
	seconds(30, RANKS);
	calls(3, 7, WORLD, entered[3] + 9, 0);
	rank_calls[3].waits_for = 7;
	seconds(1, RANKS);
	memset(rank_calls, 0, sizeof(rank_calls));
	seconds(90, RANKS);
	assert_no_more(0);
}

static int n_open(int rank)
{
	int n = 0;

	for (const struct op *op = world_of(rank)->first_open; op; op = op->next)
		n += !op->end_ns;
	return n;
}

/* Both directions of a peer, each as it was said; and what is not said again is over, also where nothing is any more.
 */
static void what_a_report_says_holds_until_the_next(void **state)
{
	(void)state;
	all_seen(0);
	transfers(1, 2, 5, 3);
	for (int recvs = 0; recvs < 2; recvs++) {
		rank_calls[1].peer.sends_passed = !recvs;
		rank_calls[1].peer.recvs_passed = recvs;
		rank_calls[1].peer.has_sends_passed = rank_calls[1].peer.has_recvs_passed = 1;
		seconds(2, RANKS);
		assert_true(world_of(1)->n_p2p > 2);
		assert_int_equal(world_of(1)->p2p[2].entered[0], 5);
		assert_int_equal(world_of(1)->p2p[2].entered[1], 3);
		assert_int_equal(world_of(1)->p2p[2].passed[0], !recvs);
		assert_int_equal(world_of(1)->p2p[2].passed[1], recvs);
	}
	for (int gone = 0; gone < 2; gone++) {
		calls(1, 7 + gone, WORLD, entered[1] + 9, 0);
		seconds(2, RANKS);
		assert_int_equal(n_open(1), 1);
		rank_calls[1].n_open = 0;
		rank_calls[1].seen = !gone;
		seconds(2, RANKS);
		assert_int_equal(n_open(1), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(an_order_of_two_communicators_is_a_deadlock),
		CASE(who_does_not_come_is_named_by_calls),
		CASE(a_recv_without_its_send),
		CASE(a_transfer_that_is_called_between_two_reports_is_none),
		CASE(arguments_that_differ_over_hosts),
		CASE(reductions_of_their_own_as_older_agents_say_them_are_none),
		CASE(calls_of_a_healthy_job_are_none),
		CASE(probes_that_go_leave_nothing_open),
		CASE(what_a_report_says_holds_until_the_next),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
