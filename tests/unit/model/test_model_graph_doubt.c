/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_graph_doubt.c - graphs of which not all was seen, or that failed: when numbers of launched operations may
 * not be compared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/graph_job.h"

static void lose(void)
{
	struct event e = job_event(EV_LOSS, rank_now, 0);

	e.loss.lost = 1;
	give(e);
}
static void test_an_unseen_capture(void **state)
{
	(void)state;
	launch(100);
	assert_int_equal(proc()->n_ops, 0);
	assert_true(proc()->last_call_ns == now);
	assert_true(member_comparable(member(COMM_X),
				      SEQ_GRAPH)); /* born under our eyes, nothing lost: not in that graph */
	lose();
	assert_true(member_comparable(member(COMM_X), SEQ_GRAPH));
	launch(100); /* now it may be in it */
	assert_false(member_comparable(member(COMM_X), SEQ_GRAPH));
	assert_false(member_comparable(member(COMM_X), -1));
	assert_true(member_comparable(member(COMM_X), SEQ_COLL));
}

static void test_met_late_is_not_compared(void **state)
{
	struct event e = job_event(EV_COMM_SEEN, 0, 0);

	(void)state;
	e.comm_seen.addr = 11;
	e.comm_seen.hash = 1;
	e.comm_seen.nranks = 2;
	e.comm_seen.counters_valid = true;
	e.comm_seen.counters_sum = 40;
	give(e);
	begin(100);
	call(11, 100);
	finish(100);
	launch(100);
	assert_int_equal(member(11)->entered_seq[SEQ_GRAPH], 1);
	assert_int_equal(member(11)->entered_seq[SEQ_COLL], 40);
	assert_true(newest(0)->seq_from_attach);
	assert_false(member_comparable(member(11), SEQ_GRAPH));
	assert_true(comm_entry_ns(member(11)->comm, SEQ_GRAPH, 0) == 0);
}

static void test_a_loss_while_capturing_leaves_doubt(void **state)
{
	(void)state;
	begin(100);
	call(COMM_X, 100);
	lose();
	finish(100);
	launch(100);
	assert_int_equal(proc()->n_ops, 1); /* shown */
	assert_false(member_comparable(member(COMM_X), SEQ_GRAPH) || member_comparable(member(COMM_Y), SEQ_GRAPH));
}

/* Nobody leaves an all-reduce before all entered: who lags by our count was miscounted, and is not judged by it. */
static void test_an_end_contradicts_a_lost_launch(void **state)
{
	(void)state;
	for (rank_now = 0; rank_now < 2; rank_now++) {
		begin(100);
		call(COMM_X, 100);
		finish(100);
		launch(100);
	}
	for (rank_now = 0; rank_now < 2; rank_now++)
		stream_synced(100);
	rank_now = 1;
	assert_true(member_comparable(member(COMM_X), SEQ_GRAPH));
	rank_now = 0;
	launch(100); /* the other's is lost */
	assert_true(member_comparable(member(COMM_X), SEQ_GRAPH));
	stream_synced(100);
	assert_true(member_comparable(member(COMM_X), SEQ_GRAPH));
	rank_now = 1;
	assert_false(member_comparable(member(COMM_X), SEQ_GRAPH));
}

static void test_a_capture_that_failed(void **state)
{
	struct event e;

	(void)state;
	begin(100);
	call(COMM_X, 100);
	stream_synced(100); /* cannot succeed on a stream that is being captured */
	call(COMM_X, 100);
	assert_int_equal(proc()->n_ops, 1);
	begin(100);
	call(COMM_X, 100);
	begin(100); /* again */
	call(COMM_X, 100);
	finish(100);
	launch(100);
	assert_int_equal(proc()->n_ops, 2); /* one: of the second */
	begin(100);
	e = job_event(EV_CUDA_ERROR, 0, 0);
	e.cuda_error.call = "cuStreamEndCapture";
	e.cuda_error.error = "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
	e.cuda_error.result = 901;
	give(e);
	call(COMM_X, 100);
	assert_int_equal(proc()->n_ops, 3);
	assert_int_equal(proc()->cuda_error, 901);
}

/* Without the probes on CUDA events a stream is taken for one of the capture that its thread has begun, once. */
static void test_streams_are_guessed_by_thread(void **state)
{
	struct event e = job_event(EV_BUDGET, 0, 0);

	(void)state;
	e.budget.what = BUDGET_SHED;
	e.budget.group = PROBES_EVENTS;
	e.budget.shed = 1 << PROBES_EVENTS;
	give(e);
	e = job_event(EV_CAPTURE, 0, 0); /* another thread's, begun before */
	e.tid++;
	e.capture.kind = CAPTURE_BEGIN;
	e.capture.stream = 900;
	give(e);
	begin(100);
	for (int i = 0; i < 2; i++) {
		call(COMM_X, 200);
		call(COMM_Y, 100);
	}
	finish(100);
	assert_int_equal(proc()->n_ops, 0);
	call(COMM_X, 200);
	assert_int_equal(proc()->n_ops, 1);
	stream_synced(200);
	launch(100);
	assert_int_equal(proc()->n_ops, 5);
	assert_true(op_blocked_by(newest(0)) == newest(2) && op_blocked_by(newest(1)) == newest(3));
}

static void test_a_communicator_that_is_gone_is_not_launched(void **state)
{
	struct event e = job_event(EV_COMM_GONE, 0, 0);

	(void)state;
	begin(100);
	call(COMM_X, 100);
	call(COMM_Y, 100);
	finish(100);
	e.comm_gone.addr = COMM_X;
	give(e);
	launch(100);
	assert_int_equal(proc()->n_ops, 1);
	born(COMM_X); /* the address again: another communicator */
	launch(100);
	assert_int_equal(proc()->n_ops, 2);
	assert_int_equal(member(COMM_X)->entered_seq[SEQ_GRAPH], 0);
	give(job_event(EV_EXEC, 0, 0));
	launch(100);
	assert_int_equal(proc()->n_ops, 2);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(test_an_unseen_capture),
		TEST(test_met_late_is_not_compared),
		TEST(test_a_loss_while_capturing_leaves_doubt),
		TEST(test_an_end_contradicts_a_lost_launch),
		TEST(test_a_capture_that_failed),
		TEST(test_streams_are_guessed_by_thread),
		TEST(test_a_communicator_that_is_gone_is_not_launched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
