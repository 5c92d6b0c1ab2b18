/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_reach.c - what is in front of an operation: order on its stream, waits between streams, groups whose
 * operations run together, and what is not known.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

enum { COMM_X = 7, COMM_Y = 8 };

static struct model *m;
static uint64_t now;

static void give(struct event e)
{
	e.ts_ns = now += MSEC;
	assert_int_equal(model_apply(m, &e), 0);
}

static const struct op *call(uint64_t comm, uint64_t stream, int depth)
{
	struct event e = job_call_event(0, OP_ALLREDUCE, comm, stream, 10);

	e.op.group_depth = depth;
	give(e);
	return model_proc(m, job_pid(0))->last_op;
}

static void cuda_event(enum event_kind kind, uint64_t handle, uint64_t stream)
{
	struct event e = job_event(kind, 0, 0);

	e.cuda_event.handle = handle;
	e.cuda_event.stream = stream;
	give(e);
}

static void group(enum event_kind kind)
{
	struct event e = job_event(kind, 0, 0);

	e.group.depth_before = kind == EV_GROUP_END;
	give(e);
}

static void stream_synced(uint64_t stream)
{
	struct event e = job_event(EV_SYNC_END, 0, 0);

	e.sync.handle = stream;
	e.sync.begin_ns = now;
	give(e);
}

static int fresh(void **state)
{
	(void)state;
	now = JOB_T0;
	m = model_new();
	for (uint64_t comm = COMM_X; comm <= COMM_Y; comm++)
		give(job_ready_event(0, 2, comm, 90 + comm));
	return 0;
}

static int done(void **state)
{
	(void)state;
	model_free(m);
	return 0;
}

struct heads {
	const struct op *ops[8];
	int n;
};

static void head_take(void *arg, const struct op *op)
{
	struct heads *h = arg;

	assert_true(h->n < 8);
	h->ops[h->n++] = op;
}

static struct heads heads(void)
{
	struct heads h = { .n = 0 };

	proc_heads_each(model_proc(m, job_pid(0)), head_take, &h);
	return h;
}

static void test_order_on_a_stream(void **state)
{
	const struct op *x = call(COMM_X, 100, 0), *y = call(COMM_Y, 100, 0), *z = call(COMM_X, 100, 0);

	(void)state;
	assert_true(op_reached(x) && !op_reached(y) && !op_reached(z));
	assert_true(op_blocked_by(y) == x && op_blocked_by(z) == x);
	assert_null(op_blocked_by(x));
	assert_int_equal(heads().n, 1);
	assert_true(heads().ops[0] == x);
	stream_synced(100);
	assert_true(op_reached(z)); /* it is over: it was reached */
	assert_int_equal(heads().n, 0);
}

static void test_two_streams_run_side_by_side(void **state)
{
	const struct op *x = call(COMM_X, 100, 0), *y = call(COMM_Y, 200, 0);

	(void)state;
	assert_true(op_reached(x) && op_reached(y));
	assert_int_equal(heads().n, 2);
}

static void test_waits_between_streams(void **state)
{
	const struct op *x = call(COMM_X, 100, 0), *y, *after;

	(void)state;
	cuda_event(EV_CUDA_EVENT, 1, 100);
	after = call(COMM_X, 100, 0); /* behind the event: no rank waits for it */
	cuda_event(EV_CUDA_EVENT_WAIT, 1, 200);
	cuda_event(EV_CUDA_EVENT, 2, 200);
	cuda_event(EV_CUDA_EVENT_WAIT, 2, 300); /* over a stream without operations */
	y = call(COMM_Y, 300, 0);
	assert_true(op_blocked_by(y) == x && !op_reached(y));
	assert_true(op_blocked_by(after) == x);
	assert_int_equal(heads().n, 1);
	cuda_event(EV_CUDA_EVENT_QUERY, 1, 0); /* x is over */
	assert_true(op_reached(y) && op_reached(after));
	assert_int_equal(heads().n, 2);
}

/* Each stream waits for the other in turn, as compute and communication do: the walk back sees all, once. */
static void test_ping_pong_is_walked_once(void **state)
{
	const struct op *first = call(COMM_X, 100, 0), *last = NULL;

	(void)state;
	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t a = 100 + 100 * (i % 2), b = 300 - a;

		cuda_event(EV_CUDA_EVENT, 10 + i, a);
		cuda_event(EV_CUDA_EVENT_WAIT, 10 + i, b);
		last = call(COMM_Y, b, 0);
	}
	assert_true(op_blocked_by(last) == first);
	assert_true(op_blocked_by(last) == first); /* nothing is left behind by the first walk */
	assert_int_equal(heads().n, 1);
}

static void test_a_group_runs_together(void **state)
{
	const struct op *x, *y, *z;

	(void)state;
	group(EV_GROUP_START);
	x = call(COMM_X, 100, 1);
	y = call(COMM_Y, 100, 1);
	assert_false(op_reached(x)); /* not enqueued yet */
	group(EV_GROUP_END);
	group(EV_GROUP_START);
	z = call(COMM_X, 100, 1);
	call(COMM_Y, 100, 1);
	group(EV_GROUP_END);
	assert_true(op_reached(x) && op_reached(y) && !op_reached(z));
	assert_null(op_blocked_by(y));
	assert_true(op_blocked_by(z) == x);
	assert_int_equal(heads().n, 2);
}

static void test_only_waits_for_the_gpu_are_waits(void **state)
{
	struct event e = job_event(EV_SYNC_BEGIN, 0, 0);

	(void)state;
	call(COMM_X, 100, 0);
	assert_false(proc_waits(model_proc(m, job_pid(0))));
	give(e);
	assert_true(proc_waits(model_proc(m, job_pid(0))));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_order_on_a_stream, fresh, done),
		cmocka_unit_test_setup_teardown(test_two_streams_run_side_by_side, fresh, done),
		cmocka_unit_test_setup_teardown(test_waits_between_streams, fresh, done),
		cmocka_unit_test_setup_teardown(test_ping_pong_is_walked_once, fresh, done),
		cmocka_unit_test_setup_teardown(test_a_group_runs_together, fresh, done),
		cmocka_unit_test_setup_teardown(test_only_waits_for_the_gpu_are_waits, fresh, done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
