/* SPDX-License-Identifier: Apache-2.0
 *
 * test_member_bounds.c - communicators at their bounds: what one is for by its calls, until when a creation is kept,
 * what samples from outside show of who was late, and when what they show no more is gone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/hand_model.h"

enum { COMM = 7, HASH = 97 };

/* --- what it is for --- */

static void ranks_come(int n, int nodes)
{
	for (int r = 0; r < n; r++) {
		struct event e = job_proc_event(r, n, 0);

		e.node = r * nodes / n;
		give(e);
	}
}

/* A communicator of these ranks, in this order. */
static void made(uint64_t addr, const int *ranks, int n, int nodes, int world)
{
	for (int i = 0; i < n; i++) {
		struct event e = job_ready_event(ranks[i], n, addr, 1000 + addr + 16 * ranks[0]);

		e.node = ranks[i] * nodes / world;
		e.comm_init.rank = i;
		give(e);
	}
}

static void calls(int r, uint64_t addr, enum op_kind kind, int peer, int n, uint32_t node)
{
	struct event e = job_call_event(r, kind, addr, 5, 10);

	e.op.peer = peer;
	e.node = node;
	for (int i = 0; i < n; i++) {
		now += MSEC;
		give(e);
	}
}

static const struct comm *comm_of(int r, uint64_t addr)
{
	const struct member *mb = model_proc(m, job_pid(r))->members;

	while (mb && mb->addr != addr)
		mb = mb->next_in_proc;
	assert_non_null(mb);
	return mb->comm;
}

/* Stages of a pipeline send to both neighbours, and to nobody else. */
static void who_sends_to_whom(void **state)
{
	static const struct {
		int rank, to[3]; /* -1 none */
		bool pipeline;
	} cases[] = { { 1, { 0, 2, -1 }, true },   { 2, { 1, 3, -1 }, true },  { 1, { 2, -1, -1 }, false },
		      { 1, { 0, -1, -1 }, false }, { 1, { 0, 2, 3 }, false },  { 2, { 0, 1, 3 }, false },
		      { 0, { 1, 2, -1 }, false },  { 3, { 2, 1, -1 }, false }, { 0, { 1, -1, -1 }, false } };
	static const int all[] = { 0, 1, 2, 3 };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		model_free(m);
		fresh(NULL);
		ranks_come(4, 1);
		made(COMM, all, 4, 1, 4);
		for (int k = 0; k < 3; k++)
			if (cases[i].to[k] >= 0)
				calls(cases[i].rank, COMM, OP_SEND, cases[i].to[k], 6, 0);
		calls(0, COMM, OP_RECV, 1, 6, 0);
		tick();
		if ((comm_of(0, COMM)->parallelism == PARALLEL_PIPELINE) != cases[i].pipeline)
			fail_msg("case %zu", i);
	}
}

/* Two by two, on one host or on several: what lies on two hosts may be sharding; and ranks that go down are no grid. */
static void by_strides_and_hosts(void **state)
{
	static const int tensor[2][2] = { { 0, 1 }, { 2, 3 } }, data[2][2] = { { 0, 2 }, { 1, 3 } },
			 down[2][2] = { { 2, 0 }, { 3, 1 } };

	(void)state;
	for (int nodes = 1; nodes <= 4; nodes *= 2)
		for (int turned = 0; turned < 2; turned++) {
			model_free(m);
			fresh(NULL);
			ranks_come(4, nodes);
			for (int i = 0; i < 2; i++) {
				made(COMM, tensor[i], 2, nodes, 4);
				made(COMM + 1, turned ? down[i] : data[i], 2, nodes, 4);
			}
			for (int r = 0; r < 4; r++)
				for (int k = 0; k < 2; k++)
					calls(r, COMM + k, OP_ALLREDUCE, -1, 20, r * nodes / 4);
			tick();
			assert_int_equal(comm_of(0, COMM)->parallelism, !turned && nodes < 4 ? PARALLEL_TENSOR : 0);
			assert_int_equal(comm_of(0, COMM + 1)->parallelism, turned ? 0 : PARALLEL_DATA);
		}
}

/* Of so many communicators of a process nothing is said. */
static void so_many_communicators(void **state)
{
	static const int all[] = { 0, 1, 2, 3 };

	(void)state;
	for (int n = 16; n <= 17; n++) {
		model_free(m);
		fresh(NULL);
		ranks_come(4, 1);
		made(COMM, all, 4, 1, 4);
		for (int i = 1; i < n; i++) {
			made(COMM + i, all, 4, 1, 4);
			calls(0, COMM + i, OP_ALLREDUCE, -1, 1, 0);
		}
		made(500, all, 1, 1, 4); /* of one rank, or never used: these do not count */
		calls(0, 500, OP_ALLREDUCE, -1, 1, 0);
		made(501, all, 4, 1, 4);
		calls(1, COMM, OP_SEND, 0, 6, 0);
		calls(1, COMM, OP_SEND, 2, 6, 0);
		tick();
		assert_int_equal(comm_of(0, COMM)->parallelism, n == 16 ? PARALLEL_PIPELINE : PARALLEL_UNKNOWN);
	}
}

/* Judged when it is first used, and again when it was used twice as often. */
static void judged_again(void **state)
{
	static const int all[] = { 0, 1, 2, 3 };

	(void)state;
	ranks_come(4, 1);
	made(COMM, all, 4, 1, 4);
	calls(1, COMM, OP_SEND, 2, 20, 0);
	tick();
	assert_int_equal(comm_of(0, COMM)->parallelism, PARALLEL_UNKNOWN);
	calls(1, COMM, OP_SEND, 0, 19, 0);
	tick();
	assert_int_equal(comm_of(0, COMM)->parallelism, PARALLEL_UNKNOWN);
	calls(1, COMM, OP_SEND, 0, 1, 0);
	tick();
	assert_int_equal(comm_of(0, COMM)->parallelism, PARALLEL_PIPELINE);
}

/* --- creations --- */

static void creates(int r, uint64_t id)
{
	struct event e = job_event(EV_COMM_INIT, r, 0);

	e.comm_init.kind = COMM_INIT_RANK;
	e.comm_init.id_hash = id;
	e.comm_init.rank = r;
	e.comm_init.nranks = 4;
	give(e);
}

static int n_creations(void)
{
	int n = 0;

	for (const struct comm_init *b = m->comm_inits; b; b = b->next)
		n++;
	return n;
}

/* Its probes were taken away: what one of them still tells is of before. */
static void told_by_probes_that_went(void **state)
{
	struct event e = job_event(EV_BUDGET, 0, 0);

	(void)state;
	give(job_proc_event(0, 4, 0));
	e.budget.what = BUDGET_WATCH;
	e.budget.shed = (1u << PROBE_GROUPS) - 1;
	give(e);
	creates(0, HASH);
	give(job_ready_event(0, 4, COMM, HASH));
	give(job_call_event(0, OP_ALLREDUCE, COMM, 5, 1));
	assert_int_equal(n_creations(), 0);
	assert_null(model_proc(m, job_pid(0))->members);
	creates(1, HASH); /* another's are there */
	assert_int_equal(n_creations(), 1);
}

/* Five seconds after the last one called, where nobody is inside. */
static void a_creation_lingers(void **state)
{
	struct event e = job_event(EV_COMM_READY, 0, 0);

	(void)state;
	creates(0, HASH);
	e.comm_init.result = 5; /* it failed */
	give(e);
	now += 5 * SEC;
	tick();
	assert_int_equal(n_creations(), 1);
	creates(1, HASH); /* one that comes later */
	assert_int_equal(m->comm_inits->n_called, 2);
	now += 50 * SEC;
	tick();
	assert_int_equal(n_creations(), 1); /* it is inside */
	e = job_event(EV_COMM_READY, 1, 0);
	e.comm_init.result = 5;
	give(e);
	tick();
	assert_int_equal(n_creations(), 0);
	creates(0, HASH);
	e = job_event(EV_COMM_READY, 0, 0);
	e.comm_init.result = 5;
	give(e);
	now += 5 * SEC + 1;
	tick();
	assert_int_equal(n_creations(), 0);
}

static void so_many_creations(void **state)
{
	(void)state;
	for (int i = 0; i < 1024; i++)
		creates(i, 5000 + i);
	assert_int_equal(n_creations(), 1024);
	assert_int_equal(m->comm_inits->id_hash, 5000);
	creates(2000, 9000);
	assert_int_equal(n_creations(), 1024);
	assert_int_equal(m->comm_inits->id_hash, 5001);
}

/* --- by samples --- */

static void sampled_of(int r, uint64_t addr, uint64_t n)
{
	struct event e = job_event(EV_COMM_SAMPLE, r, 0);

	e.comm_sample.comm = addr;
	e.comm_sample.hash = addr;
	e.comm_sample.rank = r;
	e.comm_sample.nranks = 4;
	e.comm_sample.n_counters = OP_KINDS_COUNTED;
	e.comm_sample.counters[OP_ALLREDUCE] = n;
	give(e);
}

static void sampled(int r, uint64_t n)
{
	sampled_of(r, COMM, n);
}

static bool is_about(double s, double expected)
{
	return s >= expected - 1e-9 && s <= expected * 1.126 + 1e-6;
}

/* From the sample that first showed a peer to stand ahead, to the one that showed the late rank to have come. */
static void how_late_one_was(void **state)
{
	(void)state;
	sampled(0, 10);
	sampled(1, 10);
	now += SEC;
	sampled(0, 11);
	sampled(1, 10);
	now += SEC;
	sampled(0, 11);
	sampled(1, 10);
	assert_true(comm_of(0, COMM)->lag_habit_s < 1e-5);
	now += 2 * SEC;
	sampled(0, 11);
	sampled(1, 11);
	assert_true(is_about(comm_of(0, COMM)->lag_habit_s, 3));
}

/* The peer may have gone on already when the late one is seen to have come, within two samples. */
static void the_peer_went_on(void **state)
{
	(void)state;
	for (int late = 0; late < 2; late++) {
		model_free(m);
		fresh(NULL);
		sampled(0, 11);
		sampled(1, 10);
		now += SEC;
		sampled(0, 11);
		now += 2 * SEC;
		sampled(0, 12);
		now += late ? 2 * SEC : 2 * SEC - 1;
		sampled(1, 12);
		if (late)
			assert_true(comm_of(0, COMM)->lag_habit_s < 1e-5);
		else
			assert_true(is_about(comm_of(0, COMM)->lag_habit_s, 5));
	}
}

/* Several are late for one operation: it counts once, for as long as the last took. */
static void several_are_late(void **state)
{
	(void)state;
	for (int r = 0; r < 4; r++)
		sampled(r, 10);
	now += SEC;
	sampled(0, 11);
	now += SEC;
	sampled(0, 11);
	sampled(1, 11);
	assert_true(is_about(comm_of(0, COMM)->lag_habit_s, 1));
	now += SEC;
	sampled(2, 11);
	assert_true(is_about(comm_of(0, COMM)->lag_habit_s, 2));
	now += 2 * SEC;
	sampled(3, 11);
	assert_true(is_about(comm_of(0, COMM)->lag_habit_s, 4));
	for (int i = 12; i <= 59; i++)
		for (int r = 0; r < 4; r++)
			sampled(r, i);
	/* 50 operations, of which two per cent may take longer: one did, and no second */
	assert_true(comm_of(0, COMM)->lag_habit_s < 1e-5);
}

/* Of peers that say nothing: gone, dead, or whose calls are seen. */
static void who_is_no_peer(void **state)
{
	(void)state;
	for (int what = 0; what < 4; what++) {
		struct event e = job_event(EV_COMM_GONE, 0, 0);

		model_free(m);
		fresh(NULL);
		for (int i = 0; i < 2; i++) {
			sampled(0, 11);
			sampled(1, 10);
			now += SEC;
		}
		e.comm_gone.addr = COMM;
		if (what == 1)
			give(e);
		e = job_event(EV_EXIT, 0, 0);
		e.exit.last = true;
		if (what == 2)
			give(e);
		if (what == 3)
			give(job_call_event(0, OP_ALLREDUCE, COMM, 5, 1));
		now += SEC;
		sampled(1, 11);
		if (what ? comm_of(1, COMM)->lag_habit_s > 1e-5 : !is_about(comm_of(1, COMM)->lag_habit_s, 3))
			fail_msg("case %d: %f s", what, comm_of(1, COMM)->lag_habit_s);
	}
}

/* A sample of a process reads all its communicators: after four without one it is no more. */
static void shown_no_more(void **state)
{
	const struct proc *p;
	const struct member *mb;

	(void)state;
	sampled_of(0, 1, 5);
	sampled_of(0, 2, 5);
	sampled_of(0, 3, 5);
	give(job_call_event(0, OP_ALLREDUCE, 3, 5, 1)); /* its calls are seen */
	p = model_proc(m, job_pid(0));
	for (int i = 0; i < 5; i++) {
		now += SEC;
		sampled_of(0, 1, 5);
		sampled_of(0, 1, 5); /* of one round */
		for (mb = p->members; mb; mb = mb->next_in_proc)
			assert_int_equal(mb->gone, mb->addr == 2 && i == 4);
	}
	sampled_of(0, 2, 9); /* met anew */
	for (mb = p->members; mb->addr != 2; mb = mb->next_in_proc)
		;
	assert_true(!mb->gone && mb->samples.n == 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(who_sends_to_whom), TEST(by_strides_and_hosts),     TEST(so_many_communicators),
		TEST(judged_again),      TEST(told_by_probes_that_went), TEST(a_creation_lingers),
		TEST(so_many_creations), TEST(how_late_one_was),         TEST(the_peer_went_on),
		TEST(several_are_late),  TEST(who_is_no_peer),           TEST(shown_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
