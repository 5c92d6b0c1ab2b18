/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_reap.c - what is forgotten and what is not: churn of processes and of communicators does not grow the
 * model, survivors of a dead rank are still seen to wait for it, and a pid used again inherits nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

static struct model *m;
static uint64_t now;

static void give(struct event e)
{
	e.ts_ns = now += MSEC;
	assert_int_equal(model_apply(m, &e), 0);
}

static void drain(void)
{
	while (model_next_ended(m))
		;
}

/* A tick each quarter of a second, as in life. */
static void pass(uint64_t ns)
{
	for (uint64_t end = now + ns; now < end;) {
		now += 250 * MSEC;
		give((struct event){ .kind = EV_TICK });
		drain();
	}
}

static void given(uint32_t tgid, int rank, bool child, uint32_t parent)
{
	struct event e = { .kind = EV_PROC, .tgid = tgid, .tid = tgid };

	e.proc.start_ns = now;
	e.proc.rank = e.proc.local_rank = rank;
	e.proc.is_child = child;
	e.proc.parent_tgid = parent;
	e.proc.job = "job";
	give(e);
}

static void forked(uint32_t tgid, uint32_t child)
{
	struct event e = { .kind = EV_FORK, .tgid = tgid, .tid = tgid };

	e.fork.child_tgid = e.fork.child_tid = child;
	give(e);
}

static void exited(uint32_t tgid)
{
	struct event e = { .kind = EV_EXIT, .tgid = tgid, .tid = tgid };

	e.exit.last = true;
	e.exit.signal = 9;
	give(e);
}

static void born(int rank, uint64_t addr, uint64_t hash)
{
	give(job_ready_event(rank, 2, addr, hash));
}

static void gone(int rank, uint64_t addr)
{
	struct event e = job_event(EV_COMM_GONE, rank, 0);

	e.comm_gone.addr = addr;
	give(e);
}

static void call(int rank, uint64_t addr)
{
	give(job_call_event(rank, OP_ALLREDUCE, addr, 100, 10));
}

static int fresh(void **state)
{
	(void)state;
	now = JOB_T0;
	m = model_new();
	for (int r = 0; r < 2; r++)
		given(job_pid(r), r, false, 1);
	return 0;
}

static int done(void **state)
{
	(void)state;
	model_free(m);
	return 0;
}

/* A hundred thousand short-lived children, with events of their own, some of them without a tick in between. */
static void test_churn_of_processes(void **state)
{
	size_t most = 0;

	(void)state;
	for (uint32_t i = 0; i < 100000; i++) {
		uint32_t child = 100000 + i;

		forked(job_pid(0), child);
		if (i % 3 == 0)
			given(child, 0, true, job_pid(0));
		exited(child);
		if (i % 5000 < 1000 && i % 50 == 0)
			pass(250 * MSEC);
		most = m->n_procs > most ? m->n_procs : most;
	}
	assert_true(most < 4100);
	assert_non_null(model_proc(m, job_pid(0)));
	assert_non_null(model_proc(m, 199999)); /* the newest is still known */
	pass(62 * SEC);
	assert_int_equal(m->n_procs, 2);
	assert_null(model_proc(m, 199999));
}

static void test_restarts_of_whole_ranks(void **state)
{
	uint32_t tgid[2] = { job_pid(0), job_pid(1) };

	(void)state;
	for (uint64_t i = 0; i < 300; i++) {
		for (int r = 0; r < 2; r++) {
			struct event e = { .kind = EV_COMM_READY, .tgid = tgid[r], .tid = tgid[r] };

			e.comm_init.addr = 7;
			e.comm_init.id_hash = 1000 + i;
			e.comm_init.rank = r;
			e.comm_init.nranks = 2;
			give(e);
			e.kind = EV_OP;
			e.op = (typeof(e.op)){
				.addr = 7, .stream = 1, .count = 3, .op = OP_ALLREDUCE, .root = -1, .peer = -1
			};
			for (int k = 0; k < 10; k++)
				give(e);
		}
		for (int r = 0; r < 2; r++) {
			exited(tgid[r]);
			tgid[r] = 200000 + 2 * i + r;
			given(tgid[r], r, false, 1);
		}
		pass(2 * SEC);
		assert_true(m->n_comms <= 33 && m->n_members <= 66);
	}
	assert_true(m->n_procs <= 2 + 256 + 66);
	assert_true(model_rank(m, NULL, 1) == model_proc(m, tgid[1]));
}

static void test_churn_of_communicators(void **state)
{
	uint64_t handed = 0;

	(void)state;
	for (uint64_t i = 0; i < 2000; i++) {
		for (int r = 0; r < 2; r++) {
			born(r, 7 + i % 3, 1000 + i);
			call(r, 7 + i % 3);
		}
		for (int r = 0; r < 2; r++)
			gone(r, 7 + i % 3);
		now += 100 * MSEC;
		give((struct event){ .kind = EV_TICK });
		while (model_next_ended(m))
			handed++;
		assert_true(m->n_comms < 700 && m->n_members < 1400);
	}
	pass(65 * SEC);
	assert_int_equal(m->n_comms, 0);
	assert_int_equal(m->n_members, 0);
	assert_null(model_proc(m, job_pid(0))->members);
	assert_null(model_proc(m, job_pid(0))->last_op);
	assert_int_equal(m->n_procs, 2);
	assert_true(handed + 4 >= 4000 - 2 * 700); /* each was given before it went */
}

/* One process calls with another address each time: it is a member of so many communicators, and no more. */
static void test_communicators_of_a_process_are_bounded(void **state)
{
	const struct proc *p = model_proc(m, job_pid(0));

	(void)state;
	born(1, 7, 99);
	for (uint64_t i = 0; i < 5000; i++)
		call(0, 1000 + i * i);
	assert_int_equal(p->n_members, MODEL_MEMBERS_MAX);
	assert_int_equal(p->n_refused, 5000 - MODEL_MEMBERS_MAX);
	assert_int_equal(m->n_refused, p->n_refused);
	assert_true(m->n_comms == m->n_members && m->n_members == MODEL_MEMBERS_MAX + 1);
	call(0, 1000); /* one that is known goes on */
	assert_int_equal(p->n_refused, 5000 - MODEL_MEMBERS_MAX);
	call(1, 7); /* and the others */
	born(1, 8, 100);
	assert_int_equal(model_proc(m, job_pid(1))->n_members, 2);
	assert_int_equal(model_proc(m, job_pid(1))->n_refused, 0);
	exited(job_pid(0));
	pass(65 * SEC);
	assert_int_equal(m->n_members, 2);
}

/* One that ends what it made is never refused, however many there were. */
static void test_ended_communicators_make_room(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 3000; i++) {
		born(0, 7 + i % 3, 1000 + i);
		call(0, 7 + i % 3);
		gone(0, 7 + i % 3);
		if (i % 100 == 0)
			pass(SEC + 250 * MSEC);
	}
	assert_int_equal(m->n_refused, 0);
}

static void test_survivors_are_seen_to_wait(void **state)
{
	const struct comm *c;

	(void)state;
	for (int r = 0; r < 2; r++)
		born(r, 7, 99);
	call(0, 7);
	call(1, 7);
	call(0, 7);
	exited(job_pid(1));
	pass(300 * SEC);
	c = model_proc(m, job_pid(0))->members->comm;
	assert_int_equal(c->n_seen, 2);
	assert_true(c->by_rank[1]->proc->dead && c->by_rank[1]->proc->tgid == job_pid(1));
	assert_int_equal(c->by_rank[1]->entered_seq[SEQ_COLL], 1);
	assert_int_equal(c->by_rank[0]->entered_seq[SEQ_COLL], 2);
	assert_true(member_comparable(c->by_rank[1], SEQ_COLL));
	assert_non_null(member_op(c->by_rank[0], SEQ_COLL, 1));
	gone(0, 7); /* no rank waits any more */
	pass(50 * SEC);
	assert_int_equal(m->n_comms, 1);
	pass(15 * SEC);
	assert_int_equal(m->n_comms, 0);
}

static void test_a_dead_rank_stays_while_it_has_children(void **state)
{
	const struct proc *child;

	(void)state;
	forked(job_pid(0), 5000);
	for (uint32_t i = 0; i < 300; i++) { /* more dead ranks than are kept for the record */
		given(9000 + i, 5, false, 1);
		exited(9000 + i);
	}
	exited(job_pid(0));
	pass(70 * SEC);
	assert_true(model_proc(m, 5000)->leader == model_proc(m, job_pid(0)));
	assert_non_null(model_proc(m, job_pid(0)));
	assert_null(model_proc(m, 9000));
	assert_non_null(model_proc(m, 9299));
	child = model_proc(m, 5000);
	given(9999, 5, false, 1); /* one more than are kept */
	exited(9999);
	exited(5000);
	pass(5 * SEC);
	assert_null(model_proc(m, job_pid(0)));
	assert_true(model_proc(m, 5000) == child && !child->leader);
}

static void test_a_pid_used_again_inherits_nothing(void **state)
{
	const struct proc *old;

	(void)state;
	forked(job_pid(0), 5000);
	old = model_proc(m, 5000);
	forked(job_pid(1), 5000); /* at once: the same fork, given twice */
	assert_true(model_proc(m, 5000) == old && old->rank == 0);
	pass(2 * SEC);
	forked(job_pid(1), 5000); /* its exit was lost */
	assert_true(model_proc(m, 5000) != old && old->dead);
	assert_int_equal(model_proc(m, 5000)->rank, 1);
	born(0, 7, 99);
	call(0, 7);
	exited(job_pid(0));
	given(job_pid(0), 3, false, 1);
	assert_null(model_proc(m, job_pid(0))->members);
	assert_int_equal(model_proc(m, job_pid(0))->n_ops, 0);
	assert_int_equal(model_proc(m, job_pid(0))->exit_signal, 0);
	pass(70 * SEC);
	assert_true(model_proc(m, job_pid(0))->rank == 3);
}

/* Without the two that each test begins with. */
static void list_is(const char *expected)
{
	char text[64] = "";

	for (const struct proc *p = m->procs; p; p = p->next)
		if (p->tgid < job_pid(0))
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u ", p == m->past ? "| " : "",
				 p->tgid);
	assert_string_equal(text, expected);
	assert_int_equal(m->past != NULL, strchr(expected, '|') != NULL);
}

/* Ranks that ended long ago; what comes anew comes before them. */
static void test_the_past_comes_last(void **state)
{
	(void)state;
	for (uint32_t i = 1; i <= 5; i++)
		given(i, i, false, 0);
	exited(4);
	pass(30 * SEC);
	exited(2);
	pass(29 * SEC);
	list_is("1 2 3 4 5 ");
	pass(3 * SEC);
	list_is("1 2 3 5 | 4 ");
	given(6, 6, false, 0);
	list_is("1 2 3 5 6 | 4 ");
	pass(30 * SEC);
	list_is("1 3 5 6 | 2 4 ");
	for (uint32_t i = 1; i <= 6; i++)
		if (i != 2 && i != 4)
			exited(i);
	pass(62 * SEC);
	list_is("| 1 2 3 4 5 6 ");
	given(7, 7, false, 0);
	list_is("7 | 1 2 3 4 5 6 ");
}

static void test_the_past_is_bounded(void **state)
{
	(void)state;
	for (uint32_t i = 1; i <= 300; i++) {
		given(i, i, false, 0);
		exited(i);
		pass(SEC);
	}
	pass(62 * SEC);
	assert_int_equal(m->n_procs, 2 + 256);
	assert_ptr_equal(m->procs->next->next, m->past);
	assert_int_equal(m->past->tgid, 300 - 256 + 1);
}

static void test_who_leads_is_no_past(void **state)
{
	(void)state;
	given(1, 1, false, 0);
	given(2, 1, true, 1);
	given(3, 3, false, 0);
	exited(1);
	pass(62 * SEC);
	list_is("1 2 3 ");
	exited(2);
	pass(62 * SEC); /* the child is forgotten, its rank is not */
	list_is("3 | 1 ");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(test_churn_of_processes),
		TEST(test_restarts_of_whole_ranks),
		TEST(test_churn_of_communicators),
		TEST(test_communicators_of_a_process_are_bounded),
		TEST(test_ended_communicators_make_room),
		TEST(test_survivors_are_seen_to_wait),
		TEST(test_a_dead_rank_stays_while_it_has_children),
		TEST(test_a_pid_used_again_inherits_nothing),
		TEST(test_the_past_comes_last),
		TEST(test_the_past_is_bounded),
		TEST(test_who_leads_is_no_past),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
