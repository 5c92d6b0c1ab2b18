/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_comm_init.c - communicators being created: who called, who waits, and what ends a wait; in groups, without
 * blocking, from a parent, and with callers that die.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

static struct model *m;
static uint64_t now;

static void give(struct event e)
{
	e.ts_ns = now += MSEC;
	assert_int_equal(model_apply(m, &e), 0);
}

static void tick(uint64_t later_ns)
{
	now += later_ns;
	give((struct event){ .kind = EV_TICK });
}

static struct event init_event(enum event_kind kind, int rank, uint64_t id, uint64_t parent)
{
	struct event e = job_event(kind, rank, 0);

	e.comm_init.kind = parent ? COMM_INIT_SPLIT : COMM_INIT_RANK;
	e.comm_init.id_hash = id;
	e.comm_init.parent_addr = parent;
	e.comm_init.rank = parent ? -1 : rank;
	e.comm_init.nranks = parent ? -1 : 4;
	return e;
}

static void init(int rank, uint64_t id)
{
	give(init_event(EV_COMM_INIT, rank, id, 0));
}

static void ready(int rank, uint64_t addr, uint64_t id, int result)
{
	struct event e = init_event(EV_COMM_READY, rank, id, 0);

	e.comm_init.addr = addr;
	e.comm_init.result = result;
	give(e);
}

static void seen(int rank, uint64_t addr, uint64_t hash)
{
	give(job_seen_event(rank, 4, addr, hash));
}

static void group(int rank, enum event_kind kind)
{
	struct event e = job_event(kind, rank, 0);

	e.group.depth_before = kind == EV_GROUP_END;
	give(e);
}

static int inside(const struct comm_init *b)
{
	int n = 0;

	for (const struct comm_init_member *mb = b->members; mb; mb = mb->next)
		n += mb->since_ns && !mb->done_ns && !mb->proc->dead;
	return n;
}

static int fresh(void **state)
{
	(void)state;
	now = JOB_T0;
	m = model_new();
	return 0;
}

static int done(void **state)
{
	(void)state;
	model_free(m);
	return 0;
}

static void test_one_is_missing(void **state)
{
	(void)state;
	for (int r = 0; r < 3; r++)
		init(r, 99);
	tick(60 * SEC);
	assert_non_null(m->comm_inits);
	assert_null(m->comm_inits->next);
	assert_int_equal(m->comm_inits->nranks, 4);
	assert_int_equal(m->comm_inits->n_called, 3);
	assert_int_equal(inside(m->comm_inits), 3);
	assert_true(m->comm_inits->first_ns == JOB_T0 + MSEC && m->comm_inits->last_ns == JOB_T0 + 3 * MSEC);
	assert_int_equal(m->comm_inits->members->rank, 2);
	init(3, 99);
	for (int r = 0; r < 4; r++) {
		tick(0);
		assert_int_equal(inside(m->comm_inits), 4 - r);
		ready(r, 7, 99, 0);
	}
	tick(0);
	assert_null(m->comm_inits);
	assert_true(model_proc(m, job_pid(0))->members->from_init);
}

static void test_two_at_once_are_distinguished(void **state)
{
	struct event all = init_event(EV_COMM_INIT, 3, 0, 0);

	(void)state;
	init(0, 99);
	init(1, 100);
	init(2, 99);
	all.comm_init.kind = COMM_INIT_ALL; /* one process makes all ranks: nobody to wait for */
	give(all);
	assert_int_equal(m->comm_inits->n_called, 2);
	assert_int_equal(m->comm_inits->next->n_called, 1);
	assert_null(m->comm_inits->next->next);
	ready(2, 0, 99, 5); /* an error is a return too */
	assert_int_equal(inside(m->comm_inits), 1);
}

/* One process, four ranks, one group: it waits for no rank before the group's end, and for no longer than its next
 * call.
 */
static void test_callers_in_a_group(void **state)
{
	(void)state;
	group(0, EV_GROUP_START);
	for (int r = 0; r < 3; r++) {
		init(0, 99);
		ready(0, 0, 99, 0); /* returns at once: nothing is there yet */
	}
	tick(60 * SEC);
	assert_int_equal(m->comm_inits->n_called, 3);
	assert_int_equal(inside(m->comm_inits), 0);
	group(0, EV_GROUP_END);
	assert_int_equal(inside(m->comm_inits), 3);
	assert_true(m->comm_inits->members->since_ns == now);
	tick(60 * SEC);
	assert_non_null(m->comm_inits);
	init(1, 99);
	assert_int_equal(m->comm_inits->n_called, 4);
	ready(1, 7, 99, 0);
	assert_int_equal(inside(m->comm_inits), 3);
	group(0, EV_GROUP_START);
	assert_int_equal(inside(m->comm_inits), 0);
	seen(0, 8, 99);
	assert_true(model_proc(m, job_pid(0))->members->from_init);
	tick(0);
	assert_null(m->comm_inits);
}

static void test_without_blocking(void **state)
{
	struct event op = job_event(EV_OP, 1, 0);

	(void)state;
	for (int r = 0; r < 2; r++) {
		init(r, 99);
		ready(r, 70 + r, 99, 7); /* ncclInProgress */
	}
	assert_true(model_proc(m, job_pid(0))->members->from_init);
	assert_int_equal(inside(m->comm_inits), 2);
	tick(60 * SEC); /* two are missing: still pending */
	assert_int_equal(inside(m->comm_inits), 2);
	seen(0, 70, 99);
	op.op.addr = 71;
	op.op.count = 1;
	op.op.peer = -1;
	give(op);
	assert_int_equal(inside(m->comm_inits), 0);
	init(2, 99);
	init(3, 99);
	ready(2, 72, 99, 7);
	ready(3, 73, 99, 7);
	tick(4 * SEC);
	assert_non_null(m->comm_inits);
	tick(4 * SEC); /* all called, nobody is blocked: over, used or not */
	assert_null(m->comm_inits);
}

static void test_split(void **state)
{
	(void)state;
	for (int r = 0; r < 4; r++)
		ready(r, 7, 99, 0);
	tick(0);
	for (int nth = 0; nth < 2; nth++)
		for (int r = 0; r < 3; r++) {
			give(init_event(EV_COMM_INIT, r, 0, 7));
			give(init_event(EV_COMM_READY, r, 0, 7));
		}
	give(init_event(EV_COMM_INIT, 3, 0, 7)); /* is one call behind */
	assert_true(m->comm_inits->parent == model_proc(m, job_pid(0))->members->comm);
	assert_int_equal(m->comm_inits->nth, 1);
	assert_int_equal(m->comm_inits->n_called, 4);
	assert_int_equal(m->comm_inits->nranks, 4);
	assert_int_equal(m->comm_inits->members->rank, 3);
	assert_int_equal(m->comm_inits->next->nth, 2);
	assert_int_equal(m->comm_inits->next->n_called, 3);
	assert_null(m->comm_inits->next->next);
}

/* Calls on a parent met late may have been missed on one rank and not on another: nobody can be said to be missing. */
static void test_split_of_a_parent_met_late(void **state)
{
	(void)state;
	for (int r = 0; r < 4; r++)
		seen(r, 7, 99);
	give(init_event(EV_COMM_INIT, 0, 0, 7));
	assert_int_equal(m->comm_inits->nranks, -1);
	give(init_event(EV_COMM_INIT, 1, 0, 8)); /* of something unknown */
	assert_null(m->comm_inits->next);
}

static void test_callers_that_die(void **state)
{
	struct event e = job_event(EV_EXIT, 0, 0);

	(void)state;
	init(0, 99);
	init(1, 99);
	e.exit.last = true;
	give(e);
	tick(60 * SEC);
	assert_int_equal(inside(m->comm_inits), 1); /* the other still waits */
	give(job_event(EV_EXEC, 1, 0));
	tick(60 * SEC);
	assert_null(m->comm_inits);
}

static void test_bounded(void **state)
{
	int n = 0;

	(void)state;
	for (uint64_t i = 0; i < 5000; i++)
		init(i % 4, 1000 + i); /* none ever returns: records are lost */
	for (const struct comm_init *b = m->comm_inits; b; b = b->next)
		n++;
	assert_in_range(n, 1, 1024);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(test_one_is_missing),
		TEST(test_two_at_once_are_distinguished),
		TEST(test_callers_in_a_group),
		TEST(test_without_blocking),
		TEST(test_split),
		TEST(test_split_of_a_parent_met_late),
		TEST(test_callers_that_die),
		TEST(test_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
