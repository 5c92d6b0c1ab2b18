/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_graph.c - graphs: what is captured, who joins, what a launch runs and in which order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/graph_job.h"

static void cuda_event(enum event_kind kind, uint64_t handle, uint64_t stream)
{
	struct event e = job_event(kind, rank_now, 0);

	e.cuda_event.handle = handle;
	e.cuda_event.stream = stream;
	give(e);
}

static void group(enum event_kind kind)
{
	struct event e = job_event(kind, rank_now, 0);

	e.group.depth_before = kind == EV_GROUP_END;
	give(e);
}

static void test_a_launch_runs_what_was_captured(void **state)
{
	const struct op *op;
	int n = 0;

	(void)state;
	begin(100);
	call(COMM_X, 100);
	call(COMM_Y, 100);
	finish(100);
	while ((op = model_next_ended(m))) {
		assert_true(op->captured && !op->end_ns);
		n++;
	}
	assert_int_equal(n, 2);
	assert_int_equal(proc()->n_ops, 0);
	call(COMM_X, 100); /* eager: its own numbers */
	for (int i = 0; i < 3; i++)
		launch(300);
	assert_int_equal(member(COMM_X)->entered_seq[SEQ_COLL], 1);
	assert_int_equal(member(COMM_X)->entered_seq[SEQ_GRAPH], 3);
	assert_int_equal(member(COMM_Y)->entered_seq[SEQ_GRAPH], 3);
	op = newest(0);
	assert_true(op->member == member(COMM_Y) && op->seq == 2 && op->graph_exec == EXEC && op->stream == 300);
	assert_true(op->enqueue_ns == now && op->call_ns == now && op->tid == job_pid(0) && !op->seq_from_attach);
	assert_true(member_op(member(COMM_X), SEQ_GRAPH, 1) == newest(3));
	assert_true(member_op(member(COMM_X), SEQ_COLL, 0) == newest(6));
	assert_null(model_next_ended(m));
	stream_synced(300);
	while ((op = model_next_ended(m)))
		n += op->graph_exec == EXEC && op->end_ns == now && op->end_error_ns <= now - op->enqueue_ns;
	assert_int_equal(n, 2 + 6);
}

/* PyTorch's communication stream joins by waiting for an event of the capturing one. */
static void test_streams_join_by_waiting_and_leave_at_the_end(void **state)
{
	(void)state;
	cuda_event(EV_CUDA_EVENT, 9, 100);
	begin(100);
	cuda_event(EV_CUDA_EVENT_WAIT, 9, 400); /* of before: not captured */
	cuda_event(EV_CUDA_EVENT, 1, 100);
	cuda_event(EV_CUDA_EVENT_WAIT, 1, 200);
	call(COMM_X, 200);
	call(COMM_Y, 400);
	assert_int_equal(proc()->n_ops, 1);
	cuda_event(EV_CUDA_EVENT, 2, 200);
	cuda_event(EV_CUDA_EVENT_WAIT, 2, 100);
	finish(100);
	cuda_event(EV_CUDA_EVENT_WAIT, 2, 500); /* the capture is over: nobody joins it any more */
	call(COMM_Y, 500);
	call(COMM_X, 200);
	assert_int_equal(proc()->n_ops, 3);
	launch(100);
	assert_int_equal(proc()->n_ops, 4);
	assert_true(newest(0)->member == member(COMM_X) && newest(0)->graph_exec);
}

static void test_branches_keep_their_order(void **state)
{
	const struct op *before, *left, *right, *joined, *after;

	(void)state;
	begin(100);
	cuda_event(EV_CUDA_EVENT, 1, 100);
	cuda_event(EV_CUDA_EVENT_WAIT, 1, 200);
	call(COMM_X, 100); /* left */
	call(COMM_Y, 200); /* right, beside it */
	cuda_event(EV_CUDA_EVENT, 2, 200);
	cuda_event(EV_CUDA_EVENT_WAIT, 2, 100);
	call(COMM_X, 100); /* behind both */
	finish(100);
	call(COMM_Y, 100);
	before = newest(0);
	launch(100);
	left = newest(2);
	right = newest(1);
	joined = newest(0);
	call(COMM_Y, 100);
	after = newest(0);
	assert_true(op_reached(before) && op_blocked_by(left) == before && op_blocked_by(right) == before);
	cuda_event(EV_CUDA_EVENT, 3, 600); /* nothing known is over by that */
	cuda_event(EV_CUDA_EVENT_QUERY, 3, 0);
	assert_false(op_reached(left));
	stream_synced(100); /* everything on the stream: branches too */
	assert_true(before->end_ns && left->end_ns && right->end_ns && joined->end_ns && after->end_ns);
	launch(100);
	left = newest(2);
	right = newest(1);
	joined = newest(0);
	assert_true(op_reached(left) && op_reached(right));
	assert_true(op_blocked_by(joined) == left);
	call(COMM_Y, 100);
	assert_true(op_blocked_by(newest(0)) == left);
	cuda_event(EV_CUDA_EVENT, 4, 100);
	cuda_event(EV_CUDA_EVENT_QUERY, 4, 0);
	assert_true(right->end_ns && newest(0)->end_ns);
}

static void test_an_event_of_a_capture_shows_nothing_of_what_runs(void **state)
{
	(void)state;
	call(COMM_X, 100);
	begin(100);
	cuda_event(EV_CUDA_EVENT, 1, 100);
	cuda_event(EV_CUDA_EVENT_QUERY, 1, 0);
	assert_int_equal(newest(0)->end_ns, 0);
	finish(100);
	cuda_event(EV_CUDA_EVENT, 1, 100); /* recorded again, for real */
	cuda_event(EV_CUDA_EVENT_QUERY, 1, 0);
	assert_true(newest(0)->end_ns == now);
}

/* What waits for an event of outside is an edge of no graph: it is no place on the stream either, neither of the
 * capturing one nor of one that joined. */
static void test_a_capture_waits_for_nothing_outside(void **state)
{
	(void)state;
	call(COMM_X, 200);
	cuda_event(EV_CUDA_EVENT, 9, 200);
	begin(100);
	cuda_event(EV_CUDA_EVENT_WAIT, 9, 100);
	call(COMM_Y, 100);
	finish(100);
	call(COMM_Y, 100);
	assert_null(op_blocked_by(newest(0)));
	launch(100);
	assert_true(op_blocked_by(newest(0)) == newest(1));
}

/* A wait between branches covers what was in front of its event, no more and no less. */
static void test_a_wait_covers_exactly_what_was_before(void **state)
{
	struct event e = job_event(EV_COMM_GONE, 0, 0);

	(void)state;
	for (int first_gone = 0; first_gone < 2; first_gone++) {
		begin(100);
		cuda_event(EV_CUDA_EVENT, 1, 100);
		cuda_event(EV_CUDA_EVENT_WAIT, 1, 200);
		call(first_gone ? COMM_X : COMM_Y, 200);
		cuda_event(EV_CUDA_EVENT, 2, 200);
		call(COMM_Y, 200); /* behind the event */
		cuda_event(EV_CUDA_EVENT_WAIT, 2, 100);
		call(COMM_Y, 100);
		finish(100);
		e.comm_gone.addr = COMM_X;
		if (first_gone)
			give(e);
		stream_synced(100);
		launch(100);
		assert_true(newest(0)->stream == 100 && newest(0)->graph_i == (first_gone ? 1 : 2));
		assert_true(op_blocked_by(newest(0)) == (first_gone ? NULL : newest(2)));
		stream_synced(100);
	}
}

static void test_groups_and_numbers_of_their_own(void **state)
{
	(void)state;
	call_kind(COMM_X, 100, 0, OP_SEND, 1);
	begin(100);
	group(EV_GROUP_START);
	call_kind(COMM_X, 100, 1, OP_SEND, 1);
	call_kind(COMM_X, 100, 1, OP_RECV, 1);
	group(EV_GROUP_END);
	call_kind(COMM_X, 100, 0, OP_ALLTOALL, -1);
	finish(100);
	stream_synced(100);
	for (int i = 0; i < 2; i++)
		launch(100);
	assert_true(newest(5)->grouped && newest(4)->grouped && !newest(3)->grouped);
	assert_true(op_reached(newest(5)) && op_reached(newest(4))); /* together */
	assert_true(op_blocked_by(newest(3)) == newest(5) && op_blocked_by(newest(2)) == newest(5));
	assert_int_equal(newest(2)->seq, 2); /* Send: one eager, then one a launch */
	assert_int_equal(newest(1)->seq, 1);
	assert_int_equal(member(COMM_X)->p2p[1].entered[0], 3);
	assert_int_equal(member(COMM_X)->entered_seq[SEQ_ALLTOALL], 2);
	assert_int_equal(member(COMM_X)->entered_seq[SEQ_GRAPH], 0);
}

/* A group that outlives the capture: what its stream was when it was called counts, as in NCCL. */
static void test_a_group_across_the_end_of_a_capture(void **state)
{
	(void)state;
	begin(100);
	group(EV_GROUP_START);
	call_kind(COMM_X, 100, 1, OP_ALLREDUCE, -1);
	finish(100);
	group(EV_GROUP_END);
	assert_int_equal(member(COMM_X)->entered_seq[SEQ_COLL], 0);
	assert_int_equal(member(COMM_X)->n_pending, 0);
	launch(100);
	assert_int_equal(member(COMM_X)->entered_seq[SEQ_GRAPH], 1);
}

static void test_clone_update_destroy(void **state)
{
	struct event e = job_event(EV_CAPTURE, 0, 0);

	(void)state;
	begin(100);
	call(COMM_X, 100);
	capture(CAPTURE_END, 100, GRAPH, 0);
	e.capture.kind = CAPTURE_CLONE;
	e.capture.parent = GRAPH;
	e.capture.graph = GRAPH + 1;
	give(e);
	capture(CAPTURE_DESTROY, 0, GRAPH, 0);
	capture(CAPTURE_INSTANTIATE, 0, GRAPH + 1, EXEC);
	launch(100);
	assert_int_equal(proc()->n_ops, 1);
	begin(100);
	call(COMM_Y, 100);
	call(COMM_Y, 100);
	capture(CAPTURE_END, 100, GRAPH, 0);
	capture(CAPTURE_UPDATE, 0, GRAPH, EXEC);
	launch(100);
	assert_int_equal(proc()->n_ops, 3);
	assert_int_equal(member(COMM_Y)->entered_seq[SEQ_GRAPH], 2);
	capture(CAPTURE_DESTROY, 0, 0, EXEC);
	launch(100);
	assert_int_equal(proc()->n_ops, 3);
}

static void test_a_graph_in_a_graph(void **state)
{
	(void)state;
	begin(100); /* the child: a branch beside its origin */
	cuda_event(EV_CUDA_EVENT, 1, 100);
	cuda_event(EV_CUDA_EVENT_WAIT, 1, 200);
	call(COMM_X, 100);
	cuda_event(EV_CUDA_EVENT, 3, 100);
	cuda_event(EV_CUDA_EVENT_WAIT, 3, 200);
	call(COMM_Y, 200);
	finish(100);
	begin(300);
	call(COMM_Y, 300);
	launch(300); /* captured */
	call(COMM_Y, 300);
	capture(CAPTURE_END, 300, GRAPH, 0);
	capture(CAPTURE_INSTANTIATE, 0, GRAPH, EXEC + 1);
	assert_int_equal(proc()->n_ops, 0);
	capture(CAPTURE_LAUNCH, 300, 0, EXEC + 1);
	assert_int_equal(proc()->n_ops, 4);
	for (int i = 0; i < 3; i++)
		assert_true(op_blocked_by(newest(i)) == newest(3));
	assert_true(newest(1)->member == member(COMM_Y) && newest(2)->member == member(COMM_X));
	cuda_event(EV_CUDA_EVENT, 4, 300);
	cuda_event(EV_CUDA_EVENT_QUERY, 4, 0);
	assert_true(newest(0)->end_ns && newest(1)->end_ns && newest(2)->end_ns);
}

/* A graph of two streams, launched on a parent's second stream, behind an operation whose communicator is gone. */
static void child_launched_on_a_branch(bool on_origin)
{
	struct event gone = job_event(EV_COMM_GONE, 0, 0);

	gone.comm_gone.addr = COMM_X;
	begin(100); /* the child */
	if (on_origin)
		call(COMM_Y, 100);
	cuda_event(EV_CUDA_EVENT, 1, 100);
	cuda_event(EV_CUDA_EVENT_WAIT, 1, 200);
	if (!on_origin) { /* an event with nothing in front is none to wait for: the stream joined by it */
		cuda_event(EV_CUDA_EVENT, 3, 200);
		cuda_event(EV_CUDA_EVENT_WAIT, 3, 100);
	}
	call(COMM_Y, 200);
	finish(100);
	begin(300);
	cuda_event(EV_CUDA_EVENT, 2, 300);
	cuda_event(EV_CUDA_EVENT_WAIT, 2, 500);
	cuda_event(EV_CUDA_EVENT_WAIT, 2, 600);
	call(COMM_X, 500);
	launch(500);
	call(COMM_Y, 500);
	call(COMM_Y, 600);
	capture(CAPTURE_END, 300, GRAPH, 0);
	capture(CAPTURE_INSTANTIATE, 0, GRAPH, EXEC + 1);
	give(gone);
	capture(CAPTURE_LAUNCH, 300, 0, EXEC + 1);
}

/* Its branch is behind its first stream, not behind what the parent's holds; the parent's other stream is beside it. */
static void test_a_branch_of_a_graph_in_a_graph(void **state)
{
	(void)state;
	child_launched_on_a_branch(true);
	assert_int_equal(proc()->n_ops, 4);
	assert_true(op_reached(newest(3)));
	assert_true(op_blocked_by(newest(2)) == newest(3) && op_blocked_by(newest(1)) == newest(3));
	assert_true(op_reached(newest(0)));
}

/* What follows it on the parent's stream is behind its branch. */
static void test_behind_a_branch_of_a_graph_in_a_graph(void **state)
{
	(void)state;
	child_launched_on_a_branch(false);
	assert_int_equal(proc()->n_ops, 3);
	assert_true(op_reached(newest(2)));
	assert_true(op_blocked_by(newest(1)) == newest(2));
	assert_true(op_reached(newest(0)));
}

/* A job that does nothing but launch: it has a clock, lags, ends with errors, and a late rank is seen late. */
static void test_a_job_of_launches_only(void **state)
{
	const struct comm *c;
	uint64_t step, synced;
	const struct op *op;

	(void)state;
	for (rank_now = 0; rank_now < 2; rank_now++) {
		begin(100);
		for (int i = 0; i < 3; i++)
			call_kind(i % 2 ? COMM_Y : COMM_X, 100, 0, i == 2 ? OP_BROADCAST : OP_ALLREDUCE, -1);
		finish(100);
	}
	for (int i = 0; i < 60; i++) {
		for (rank_now = 0; rank_now < 2; rank_now++)
			launch(100); /* 1 ms apart */
		for (rank_now = 0; rank_now < 2; rank_now++)
			stream_synced(100);
		synced = now;
		now += 100 * MSEC;
		give((struct event){ .kind = EV_TICK });
	}
	rank_now = 0;
	c = member(COMM_X)->comm;
	assert_int_equal(proc()->steps->period_ops, 3);
	assert_true(proc()->steps->n > 10);
	step = 105 * MSEC;
	assert_true(proc()->steps->median_s > 0.9e-9 * step && proc()->steps->median_s < 1.1e-9 * step);
	assert_int_equal(c->highest_seq[SEQ_GRAPH], 120);
	assert_int_equal(c->n_complete, 120);
	assert_true(c->lag_p999_s > 0.0009 && c->lag_p999_s < 0.0015);
	assert_true(comm_lag_limit_ns(m, c) == m->hang_floor_ns); /* warm */
	op = member_op(member(COMM_X), SEQ_GRAPH, 119);
	assert_true(comm_entry_ns(c, SEQ_GRAPH, 118) == op->enqueue_ns + MSEC);
	assert_true(op->end_ns == synced - MSEC);
	assert_true(op->end_ns - op->end_error_ns ==
		    op->enqueue_ns + MSEC); /* behind an all-reduce: not before the last launch */
}

static void test_bounds(void **state)
{
	(void)state;
	for (int i = 0; i < 40000; i++) {
		begin(100);
		capture(CAPTURE_END, 100, 1000 + i, 0);
		capture(CAPTURE_INSTANTIATE, 0, 1000 + i, 100000 + i);
		begin(2000 + i % 900); /* never ends */
	}
	rank_now = 1;
	begin(100);
	for (int i = 0; i < 70000; i++)
		call(COMM_X, 100);
	finish(100);
	launch(100);
	assert_int_equal(proc()->n_ops, 65536);
	assert_false(member_comparable(member(COMM_X), SEQ_GRAPH)); /* not all of it is known */
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(test_a_launch_runs_what_was_captured),
		TEST(test_streams_join_by_waiting_and_leave_at_the_end),
		TEST(test_branches_keep_their_order),
		TEST(test_an_event_of_a_capture_shows_nothing_of_what_runs),
		TEST(test_a_capture_waits_for_nothing_outside),
		TEST(test_a_wait_covers_exactly_what_was_before),
		TEST(test_groups_and_numbers_of_their_own),
		TEST(test_a_group_across_the_end_of_a_capture),
		TEST(test_clone_update_destroy),
		TEST(test_a_graph_in_a_graph),
		TEST(test_a_branch_of_a_graph_in_a_graph),
		TEST(test_behind_a_branch_of_a_graph_in_a_graph),
		TEST(test_a_job_of_launches_only),
		TEST(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
