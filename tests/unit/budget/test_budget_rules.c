/* SPDX-License-Identifier: Apache-2.0
 *
 * test_budget_rules.c - two ranks, and probes that the budget took: each rule of the model and of the detectors by
 * itself, with and without the probes. Whole jobs: test_detect_budget.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/hang/p2p.h"
#include "detect/hang/pending.h"
#include "detect/hang/stalled_op.h"
#include "tests/unit/job/job_script.h"
#include "tests/unit/job/model_copy.h"

#define ALL ((1u << PROBE_GROUPS) - 1)
enum { COMM = 7, STREAM = 100, SIDE = 200, EVENT = 0xe0, EXEC = 60, GRAPH = 50 };

static struct model *m;
static uint64_t now;

static void give(struct event e)
{
	e.ts_ns = now += MSEC / 10;
	assert_int_equal(model_apply(m, &e), 0);
}

static void wait_s(double s)
{
	struct event e = { .kind = EV_TICK };

	now += (uint64_t)(s * SEC);
	give(e);
}

static void call(int r, enum op_kind kind, uint64_t stream)
{
	struct event e = job_call_event(r, kind, COMM, stream, 100000);

	e.op.peer = op_kind_p2p(kind) ? 1 - r : -1;
	give(e);
}

static void cuda_event(int r, enum event_kind kind, int result)
{
	struct event e = job_event(kind, r, 0);

	e.cuda_event.handle = EVENT;
	e.cuda_event.stream = STREAM;
	e.cuda_event.result = result;
	give(e);
}

static void capture(enum capture_kind kind)
{
	struct event e = job_event(EV_CAPTURE, 0, 0);

	e.capture.kind = kind;
	e.capture.stream = STREAM;
	e.capture.graph = GRAPH;
	give(e);
}

static void sync_begin(int r)
{
	give(job_wait_event(r, STREAM));
}

static void shed(int r, enum budget_what what, uint32_t groups)
{
	struct event e = job_event(EV_BUDGET, r, 0);

	e.budget.what = what;
	e.budget.shed = groups;
	give(e);
}

static const struct member *member(int r)
{
	const struct member *mb = model_proc(m, job_pid(r))->members;

	while (mb && mb->gone)
		mb = mb->next_in_proc;
	return mb;
}

/* The counters of one that entered `n`. */
static void sample(int r, uint64_t hash, uint64_t n)
{
	struct event e = job_event(EV_COMM_SAMPLE, r, 0);

	e.comm_sample.comm = COMM;
	e.comm_sample.hash = hash;
	e.comm_sample.rank = r;
	e.comm_sample.nranks = 2;
	e.comm_sample.n_counters = OP_KINDS_COUNTED;
	e.comm_sample.counters[OP_ALLREDUCE] = n;
	give(e);
}

static void count(void *arg, const struct proc *p)
{
	(void)p;
	++*(int *)arg;
}

static int n_lagging(void)
{
	int n = 0;

	ranks_lagging_each(m, 0, count, &n);
	return n;
}

static void start(void)
{
	now = JOB_T0;
	m = model_new();
	for (int r = 0; r < 2; r++) {
		give(job_proc_event(r, 2, now));
		give(job_ready_event(r, 2, COMM, 97));
	}
}

/* The event was recorded again since, behind something else: "not ready" is not said of the operation. */
static void stale_event(void **state)
{
	(void)state;
	for (int without = 0; without < 2; without++) {
		start();
		call(0, OP_ALLREDUCE, STREAM);
		cuda_event(0, EV_CUDA_EVENT, 0);
		if (without)
			shed(0, BUDGET_SHED, 1u << PROBES_EVENTS);
		cuda_event(0, EV_CUDA_EVENT_QUERY, CUDA_NOT_READY);
		assert_int_equal(model_proc(m, job_pid(0))->last_op->not_done_ns == 0, without);
		model_free(m);
	}
}

/* A capture goes on: without events, what its thread calls is taken for a part of it. */
static void captured_unseen(void **state)
{
	(void)state;
	for (int without = 0; without < 2; without++) {
		start();
		if (without)
			shed(0, BUDGET_SHED, 1u << PROBES_EVENTS);
		capture(CAPTURE_BEGIN);
		call(0, OP_ALLREDUCE, SIDE);
		assert_int_equal(model_proc(m, job_pid(0))->last_op == NULL, without);
		capture(CAPTURE_END);
		call(0, OP_ALLREDUCE, SIDE);
		assert_non_null(model_proc(m, job_pid(0))->last_op);
		model_free(m);
	}
}

/* A Recv waits for a peer none of whose calls is seen. */
static void peer_unseen(void **state)
{
	uint64_t hash;

	(void)state;
	start();
	call(0, OP_RECV, STREAM);
	assert_true(p2p_unanswered(m, model_proc(m, job_pid(0))->last_op));
	hash = member(1)->comm->hash;
	shed(1, BUDGET_WATCH, ALL);
	sample(1, hash, 0);
	assert_non_null(member(1));
	assert_false(p2p_unanswered(m, model_proc(m, job_pid(0))->last_op));
	model_free(m);
}

/* How far the rank is was read before its peer came: it is late only if the next sample shows the same. */
static void late_by_its_sample(void **state)
{
	uint64_t hash;

	(void)state;
	start();
	for (int i = 0; i < 3; i++)
		for (int r = 0; r < 2; r++)
			call(r, OP_ALLREDUCE, STREAM);
	hash = member(1)->comm->hash;
	shed(1, BUDGET_WATCH, ALL);
	sample(1, hash, 3);
	call(0, OP_ALLREDUCE, STREAM);
	call(1, OP_ALLREDUCE, STREAM); /* of a probe that was slow to go: not taken */
	wait_s(40);
	assert_int_equal(n_lagging(), 0);
	sample(1, hash, 3);
	assert_int_equal(n_lagging(), 1);
	sample(1, hash, 4);
	assert_int_equal(n_lagging(), 0);
	model_free(m);
}

/* An operation that all entered; the host waits for something since long. Its end was not seen, or cannot be. */
static void end_unseen(void **state)
{
	(void)state;
	for (int without = 0; without < 2; without++) {
		struct finding_list found = { 0 };
		struct stalled_ops known = { 0 };

		start();
		for (int r = 0; r < 2; r++)
			call(r, OP_ALLREDUCE, SIDE);
		for (int r = 0; r < 2; r++) {
			if (without)
				shed(r, BUDGET_SHED, 1u << PROBES_EVENTS);
			sync_begin(r);
		}
		wait_s(100);
		assert_int_equal(stalled_ops_refresh(&known, m), 0);
		assert_int_equal(stalled_op_report(&known, m, &(struct wait_roots){ 0 }, &found), 0);
		stalled_ops_free(&known);
		assert_int_equal(found.n, !without);
		finding_list_free(&found);
		model_free(m);
	}
}

/* A recording that begins here knows that what is still reported of its calls is of before. */
static void snapshot_knows(void **state)
{
	struct event e = job_event(EV_OP, 0, 0);
	struct model_copy c;

	(void)state;
	start();
	shed(0, BUDGET_WATCH, ALL);
	model_copy(m, &c);
	e.op.addr = COMM;
	e.op.count = 1;
	e.ts_ns = now + MSEC;
	assert_int_equal(model_apply(c.m, &e), 0);
	assert_null(model_proc(c.m, job_pid(0))->last_op);
	e = job_event(EV_BUDGET, 0, now + 2 * MSEC); /* what is needed is back */
	e.budget.what = BUDGET_BACK;
	e.budget.shed = ALL & ~(1u << PROBES_NEEDED);
	assert_int_equal(model_apply(c.m, &e), 0);
	e = job_event(EV_OP, 0, now + 3 * MSEC);
	e.op.addr = COMM;
	e.op.count = 1;
	assert_int_equal(model_apply(c.m, &e), 0);
	assert_non_null(model_proc(c.m, job_pid(0))->last_op);
	model_free(c.m);
	model_copy_free(&c);
	model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stale_event), cmocka_unit_test(captured_unseen),
		cmocka_unit_test(peer_unseen), cmocka_unit_test(late_by_its_sample),
		cmocka_unit_test(end_unseen),  cmocka_unit_test(snapshot_knows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
