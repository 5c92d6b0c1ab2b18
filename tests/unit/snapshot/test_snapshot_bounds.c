/* SPDX-License-Identifier: Apache-2.0
 *
 * test_snapshot_bounds.c - how much of a model a snapshot has: the newest operations, what is open, the newest CUDA
 * events, what is queued, and graphs until it is too much.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/snapshot/snapshot.h"
#include "schemas/snapshot.h"
#include "tests/unit/job/graph_job.h"
#include "tests/unit/job/model_copy.h"

static int count(void *to, const struct event *e)
{
	size_t *n = to;

	n[e->kind == EV_SNAPSHOT ? e->snapshot.what : 0]++;
	return 0;
}

static size_t written(int what)
{
	size_t n[SNAPSHOT_WHAT_MAX] = { 0 };

	while (model_next_ended(m))
		;
	assert_int_equal(model_snapshot(m, count, n), 0);
	return n[what];
}

static void calls(uint64_t comm, int n, int period)
{
	for (int i = 0; i < n; i++) {
		struct event e = job_call_event(0, OP_ALLREDUCE, comm, 100, 1 + i % period);

		give(e);
	}
}

static void recorded(uint64_t first, int n)
{
	struct event e = job_event(EV_CUDA_EVENT, 0, 0);

	for (int i = 0; i < n; i++) {
		e.cuda_event.handle = first + i;
		e.cuda_event.stream = 100;
		give(e);
	}
}

static void test_operations_that_are_over(void **state)
{
	(void)state;
	calls(COMM_X, 1, 1);
	for (int i = 0; i < 3; i++) {
		calls(COMM_Y, 100, 100);
		stream_synced(100);
	}
	assert_int_equal(written(SNAPSHOT_OP), 256 + 1); /* the newest, and the last of the other communicator */
	assert_int_equal(written(SNAPSHOT_ITEM), 0);
	give((struct event){ .kind = EV_TICK });
	assert_int_equal(proc()->steps->period_ops, 100);
	calls(COMM_Y, 300, 100);
	stream_synced(100);
	assert_int_equal(written(SNAPSHOT_OP), 400 + 1); /* four iterations */
}

static void test_long_iterations(void **state)
{
	(void)state;
	calls(COMM_Y, 2400, 600);
	stream_synced(100);
	give((struct event){ .kind = EV_TICK });
	assert_int_equal(proc()->steps->period_ops, 600);
	assert_int_equal(written(SNAPSHOT_OP), 2048);
}

/* Of what is open detectors look at 256 of each communicator; the queue has more. */
static void test_operations_that_are_open(void **state)
{
	(void)state;
	calls(COMM_X, 255, 1000);
	calls(COMM_Y, 300, 1000);
	assert_int_equal(written(SNAPSHOT_OP), 256 + 255);
	calls(COMM_X, 10, 1000);
	calls(COMM_Y, 260, 1000);
	assert_int_equal(written(SNAPSHOT_OP), 256 + 256);
	assert_int_equal(written(SNAPSHOT_ITEM), 825);
	calls(COMM_X, 4096 - 825, 1000);
	assert_int_equal(written(SNAPSHOT_ITEM), 4096);
	calls(COMM_X, 2, 1000);
	assert_int_equal(written(SNAPSHOT_ITEM), 4096);
}

/* What is over is left out, but for the last one: what was reported of it is known. */
static void test_open_behind_what_is_over(void **state)
{
	struct event e = job_event(EV_CUDA_EVENT_QUERY, 0, 0);

	(void)state;
	calls(COMM_X, 5, 10);
	recorded(1, 1);
	calls(COMM_X, 3, 10);
	calls(COMM_Y, 300, 1000);
	e.cuda_event.handle = 1;
	give(e);
	assert_int_equal(written(SNAPSHOT_OP), 3 + 256); /* three open ones of X; of Y the newest */
	e = job_event(EV_COMM_GONE, 0, 0);
	e.comm_gone.addr = COMM_X;
	give(e);
	assert_int_equal(written(SNAPSHOT_OP), 256);
	e.comm_gone.addr = COMM_Y;
	give(e);
	assert_int_equal(written(SNAPSHOT_OP), 0);
	assert_int_equal(written(SNAPSHOT_MEMBER), 2); /* the other rank's */
}

static void test_cuda_events(void **state)
{
	(void)state;
	recorded(1, 512);
	assert_int_equal(written(SNAPSHOT_CUDA_EVENT), 512);
	recorded(1000, 100); /* nothing in front of any: all are done */
	assert_int_equal(written(SNAPSHOT_CUDA_EVENT), 512);
	calls(COMM_X, 1, 1);
	recorded(2000, 600); /* behind an operation that is open */
	assert_int_equal(written(SNAPSHOT_CUDA_EVENT), 600);
	recorded(3000, 10);
	assert_int_equal(written(SNAPSHOT_CUDA_EVENT), 610);
	stream_synced(100);
	assert_int_equal(written(SNAPSHOT_CUDA_EVENT), 512);
}

static void test_events_of_a_capture(void **state)
{
	(void)state;
	recorded(1, 100);
	begin(100);
	recorded(1000, 5);
	capture(CAPTURE_END, 100, GRAPH, 0);
	recorded(2000, 600);
	assert_int_equal(written(SNAPSHOT_CUDA_EVENT), 512 + 5); /* they may be waited for yet */
}

static void captured(uint64_t exec, int n)
{
	begin(100);
	for (int i = 0; i < n; i++)
		call(COMM_X, 100);
	capture(CAPTURE_END, 100, GRAPH, 0);
	capture(CAPTURE_INSTANTIATE, 0, GRAPH, exec);
	capture(CAPTURE_DESTROY, 0, GRAPH, 0);
}

/* A copy knows how far it knows them: numbers of what it does not are not compared. */
static bool comparable_after_launch(uint64_t exec)
{
	struct event e = job_event(EV_CAPTURE, 0, now + MSEC);
	const struct member *mb;
	struct model_copy c;
	bool is;

	model_copy(m, &c);
	e.capture.kind = CAPTURE_LAUNCH;
	e.capture.stream = 100;
	e.capture.exec = exec;
	assert_int_equal(model_apply(c.m, &e), 0);
	for (mb = model_proc(c.m, job_pid(0))->members; mb->addr != COMM_X; mb = mb->next_in_proc)
		;
	is = member_comparable(mb, SEQ_GRAPH);
	model_free(c.m);
	model_copy_free(&c);
	return is;
}

static void test_graphs(void **state)
{
	(void)state;
	captured(1, 64);
	assert_int_equal(written(SNAPSHOT_CAPTURED), 1);
	captured(2, 65);
	assert_int_equal(written(SNAPSHOT_CAPTURED), 1 + 2);
	assert_int_equal(written(SNAPSHOT_WORK), 2);
	captured(3, 32768 - 64 - 65);
	assert_int_equal(written(SNAPSHOT_WORK), 3);
	assert_true(comparable_after_launch(3)); /* all of it fits */
	captured(4, 1);
	assert_int_equal(written(SNAPSHOT_WORK), 4);
	assert_int_equal(written(SNAPSHOT_CAPTURED), 1 + 2 + (32768 - 64 - 65 + 63) / 64);
	assert_true(comparable_after_launch(1));
	assert_false(comparable_after_launch(4));
}

/* What ran in a launch is an operation as any other, also where the graph is not written any more. */
static void test_launched(void **state)
{
	(void)state;
	begin(100);
	call(COMM_X, 100);
	call(COMM_Y, 100);
	finish(100);
	launch(100);
	launch(100);
	assert_int_equal(written(SNAPSHOT_OP), 4);
	assert_int_equal(written(SNAPSHOT_ITEM), 4);
	assert_int_equal(member(COMM_X)->entered_seq[SEQ_GRAPH], 2);
	assert_true(newest(0)->graph_exec == EXEC && newest(0)->graph_i == 1 && newest(0)->graph_n == 2);
	capture(CAPTURE_DESTROY, 0, 0, EXEC);
	assert_int_equal(written(SNAPSHOT_WORK), 0);
	assert_int_equal(written(SNAPSHOT_OP), 4);
}

/* A graph and what was made of it share what was captured. */
static void test_shared_work_is_written_once(void **state)
{
	(void)state;
	begin(100);
	call(COMM_X, 100);
	capture(CAPTURE_END, 100, GRAPH, 0);
	capture(CAPTURE_INSTANTIATE, 0, GRAPH, 1);
	capture(CAPTURE_INSTANTIATE, 0, GRAPH, 2);
	assert_int_equal(written(SNAPSHOT_WORK), 1);
	assert_int_equal(written(SNAPSHOT_GRAPH), 3);
	assert_int_equal(written(SNAPSHOT_WORK), 1); /* and again the next time */
	assert_true(comparable_after_launch(2));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(test_operations_that_are_over),
		TEST(test_long_iterations),
		TEST(test_operations_that_are_open),
		TEST(test_open_behind_what_is_over),
		TEST(test_cuda_events),
		TEST(test_events_of_a_capture),
		TEST(test_graphs),
		TEST(test_shared_work_is_written_once),
		TEST(test_launched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
