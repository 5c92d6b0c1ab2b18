/* SPDX-License-Identifier: Apache-2.0
 *
 * test_queue_bounds.c - streams, CUDA events, host waits, groups and captures at their bounds: how close is close
 * behind, how much of a measured time is certain, whose wait covers what, how much is kept, how many captures.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/graph_job.h"

/* At that time. */
static void at(uint64_t ts_ns, struct event e)
{
	e.ts_ns = ts_ns;
	assert_int_equal(model_apply(m, &e), 0);
	now = ts_ns > now ? ts_ns : now;
}

static struct event cuda_event(enum event_kind kind, uint64_t handle, uint64_t stream, int result)
{
	struct event e = job_event(kind, 0, 0);

	e.cuda_event.handle = handle;
	e.cuda_event.stream = stream;
	e.cuda_event.result = result;
	return e;
}

static struct event call_on(uint64_t stream)
{
	return job_call_event(0, OP_ALLREDUCE, COMM_X, stream, 10);
}

static struct event waited(enum sync_kind kind, uint64_t handle, uint64_t begin_ns, int result)
{
	struct event e = job_event(EV_SYNC_END, 0, 0);

	e.sync.kind = kind;
	e.sync.handle = handle;
	e.sync.begin_ns = begin_ns;
	e.sync.result = result;
	return e;
}

/* --- CUDA events and polls --- */

/* A millisecond behind the operation, on its thread: no kernel lies in between, so "not ready" is said of it. */
static void close_behind(void **state)
{
	static const struct {
		uint64_t behind_ns;
		uint32_t thread;
		bool poll, close;
	} cases[] = { { 999999, 0, false, true }, { 1000000, 0, false, false }, { 10, 1, false, false },
		      { 999999, 0, true, true },  { 1000000, 0, true, false },  { 10, 1, true, false } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t t = now + SEC, asked = t + cases[i].behind_ns;
		struct event e = cuda_event(cases[i].poll ? EV_STREAM_QUERY : EV_CUDA_EVENT, cases[i].poll ? 0 : 9, 100,
					    cases[i].poll ? CUDA_NOT_READY : 0);

		at(t, call_on(100));
		e.tid += cases[i].thread;
		at(asked, e);
		if (!cases[i].poll)
			at(++asked, cuda_event(EV_CUDA_EVENT_QUERY, 9, 0, CUDA_NOT_READY));
		if (newest(0)->not_done_ns != (cases[i].close ? asked : 0))
			fail_msg("case %zu", i);
	}
}

static void polls_one_after_the_other(void **state)
{
	uint64_t t = now;

	(void)state;
	at(t, call_on(100));
	for (int i = 0; i < 5; i++)
		at(t += 999999, cuda_event(EV_STREAM_QUERY, 0, 100, CUDA_NOT_READY));
	assert_true(newest(0)->not_done_ns == t);
	at(t + 1000000, cuda_event(EV_STREAM_QUERY, 0, 100, CUDA_NOT_READY));
	assert_true(newest(0)->not_done_ns == t);
	at(t + 1000001, cuda_event(EV_STREAM_QUERY, 0, 100, CUDA_NOT_READY)); /* too late for ever */
	assert_true(newest(0)->not_done_ns == t);
	at(t + 1000002, call_on(100)); /* another one: anew */
	at(t + 1000003, cuda_event(EV_STREAM_QUERY, 0, 100, CUDA_NOT_READY));
	assert_true(newest(0)->not_done_ns == t + 1000003 && newest(1)->not_done_ns == t);
}

/* Measured from the first event on, which is not before it was recorded: a float of milliseconds, and half a
 * microsecond. */
static void measured(uint64_t start, uint64_t end, uint64_t gpu_ns)
{
	struct event e = job_event(EV_ELAPSED, 0, 0);

	e.elapsed.start = start;
	e.elapsed.end = end;
	e.elapsed.gpu_ns = gpu_ns;
	at(now + 1, e);
}

static void how_much_of_a_time_is_certain(void **state)
{
	const uint64_t gpu_ns = 10ull << 23; /* ten float steps of it are 10 ns */
	uint64_t t = now;
	const struct op *op;

	(void)state;
	at(t, cuda_event(EV_CUDA_EVENT, 1, 100, 0));
	at(t + 100, call_on(100));
	at(t + 200, cuda_event(EV_CUDA_EVENT, 2, 100, 0));
	at(t + SEC, cuda_event(EV_CUDA_EVENT_QUERY, 2, 0, 0));
	op = newest(0);
	assert_true(op->end_ns == t + SEC && op->end_error_ns == SEC - 100);
	measured(1, 2, gpu_ns);
	assert_int_equal(op->end_ns - op->end_error_ns, t + gpu_ns - 10 - 1000);
	measured(1, 2, gpu_ns / 2); /* what was more certain stays */
	assert_int_equal(op->end_ns - op->end_error_ns, t + gpu_ns - 10 - 1000);
	measured(1, 2, SEC + 1200); /* longer than it took: of no use */
	assert_int_equal(op->end_ns - op->end_error_ns, t + gpu_ns - 10 - 1000);
	assert_int_equal(op->gpu_ns, SEC + 1200);
	assert_int_equal(proc()->n_gpu_spans, 0);
}

/* Behind another operation: not before that one was over. */
static void behind_another(void **state)
{
	uint64_t t = now;
	const struct op *op;

	(void)state;
	at(t, call_on(100));
	at(t + 10, cuda_event(EV_CUDA_EVENT, 1, 100, 0));
	at(t + 20, call_on(100));
	at(t + 30, cuda_event(EV_CUDA_EVENT, 2, 100, 0));
	at(t + 40, cuda_event(EV_CUDA_EVENT_QUERY, 1, 0, CUDA_NOT_READY));
	at(t + 500 * MSEC, cuda_event(EV_CUDA_EVENT_QUERY, 1, 0, 0));
	at(t + SEC, cuda_event(EV_CUDA_EVENT_QUERY, 2, 0, 0));
	op = newest(0);
	assert_int_equal(op->arrive_bound_ns, t + 40);
	measured(1, 2, 8 * MSEC);
	assert_int_equal(op->end_ns - op->end_error_ns, t + 40 + 8 * MSEC - 1000);
}

static void time_of_its_own(void **state)
{
	(void)state;
	at(now + 10, cuda_event(EV_CUDA_EVENT, 1, 100, 0));
	at(now + 10, cuda_event(EV_CUDA_EVENT, 2, 100, 0));
	measured(1, 2, 77);
	assert_int_equal(proc()->n_gpu_spans, 1);
	assert_true(proc()->gpu_spans[0].gpu_ns == 77 && proc()->gpu_spans[0].ts_ns == now);
	at(now + 10, call_on(200)); /* beside it: it takes processors from what is measured */
	at(now + 10, cuda_event(EV_CUDA_EVENT, 3, 100, 0));
	measured(2, 3, 77);
	assert_int_equal(proc()->n_gpu_spans, 1);
	measured(1, 9, 77); /* never recorded */
	measured(9, 2, 77);
	at(now + 10, cuda_event(EV_CUDA_EVENT, 4, 300, 0)); /* of another stream */
	measured(3, 4, 77);
	assert_int_equal(proc()->n_gpu_spans, 1);
	assert_int_equal(newest(0)->gpu_ns, 0);
}

/* --- waits --- */

/* Another thread's wait that begins within a millisecond of the call may be too early for it. */
static void whose_wait_covers_it(void **state)
{
	static const struct {
		uint64_t after_ns;
		uint32_t thread;
		int result;
		bool over;
	} cases[] = { { 0, 0, 0, true },       { 999999, 1, 0, false }, { 1000000, 1, 0, true },
		      { 0, 0, 1, false },      { 0, 0, -1, true }, /* its return was not seen */
		      { 1000000, 1, 1, false } };
	static const enum sync_kind kinds[] = { SYNC_STREAM, SYNC_COPY, SYNC_CONTEXT };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int k = 0; k < 3; k++) {
			uint64_t t = now + SEC;
			struct event e = waited(kinds[k], 100, t + cases[i].after_ns, cases[i].result);

			at(t, call_on(100));
			e.tid += cases[i].thread;
			at(t + SEC, e);
			if ((newest(0)->end_ns != 0) != cases[i].over)
				fail_msg("case %zu, wait %d", i, k);
			assert_int_equal(proc()->last_sync_ns, t + SEC);
			stream_synced(100);
		}
}

/* A wait for an event that was seen from its end only: it began behind what the event stands for. */
static void a_wait_for_an_event(void **state)
{
	for (int early = 0; early < 2; early++) {
		uint64_t t = now + SEC;

		at(t, call_on(100));
		at(t + 10, cuda_event(EV_CUDA_EVENT, 1, 100, 0));
		at(t + 20, call_on(100));
		at(t + SEC, waited(SYNC_EVENT, 1, early ? t - 1 : t + 15, 0));
		assert_int_equal(newest(1)->end_ns != 0, !early);
		assert_int_equal(newest(0)->end_ns, 0);
		at(t + SEC, waited(SYNC_STREAM, 100, t + SEC, 0));
	}
	(void)state;
}

/* What a stream waits for is over when it is; an event that is done already is no edge. */
static void waits_between_streams(void **state)
{
	uint64_t t = now;

	(void)state;
	at(t, call_on(100));
	at(t + 1, cuda_event(EV_CUDA_EVENT, 1, 100, 0));
	at(t + 2, cuda_event(EV_CUDA_EVENT_WAIT, 1, 100, 0)); /* for itself */
	at(t + 3, cuda_event(EV_CUDA_EVENT_WAIT, 7, 200, 0)); /* for none */
	at(t + 4, call_on(200));
	assert_null(op_blocked_by(newest(0)));
	at(t + 5, cuda_event(EV_CUDA_EVENT_WAIT, 1, 300, 0));
	at(t + 6, call_on(300));
	assert_true(op_blocked_by(newest(0)) == newest(2));
	at(t + SEC, waited(SYNC_STREAM, 100, t + 10, 0));
	at(t + SEC, cuda_event(EV_CUDA_EVENT_WAIT, 1, 400, 0));
	at(t + SEC, call_on(400));
	assert_true(op_reached(newest(0)) && op_reached(newest(1)));
}

/* --- operations --- */

/* Of a member met late in a communicator of one nobody else counts: what it is at is not known. */
static void numbers_of_one_alone(void **state)
{
	static const struct {
		int nranks;
		bool from_init, from_attach;
	} cases[] = { { 1, false, true }, { 1, true, false }, { 2, false, false }, { 2, true, false } };

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct event e = cases[i].from_init ? job_ready_event(0, cases[i].nranks, 70 + i, 700 + i)
						    : job_seen_event(0, cases[i].nranks, 70 + i, 700 + i);

		if (!cases[i].from_init)
			e.comm_seen.counters_valid = true;
		give(e);
		give(job_call_event(0, OP_ALLREDUCE, 70 + i, 100, 10));
		assert_int_equal(newest(0)->seq_from_attach, cases[i].from_attach);
	}
}

static void transfers_with_each_peer(void **state)
{
	enum { COMM_OF_SIX = 60 };
	static const int peers[] = { 0, 1, 5, -1 };

	(void)state;
	give(job_ready_event(0, 6, COMM_OF_SIX, 606));
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 2 + i; k++)
			call_kind(COMM_OF_SIX, 100, 0, i % 2 ? OP_RECV : OP_SEND, peers[i]);
	assert_int_equal(member(COMM_OF_SIX)->n_p2p, 6);
	assert_true(member(COMM_OF_SIX)->p2p[0].entered[0] == 2 && member(COMM_OF_SIX)->p2p[0].entered[1] == 0);
	assert_true(member(COMM_OF_SIX)->p2p[1].entered[1] == 3 && member(COMM_OF_SIX)->p2p[1].entered[0] == 0);
	assert_true(member(COMM_OF_SIX)->p2p[5].entered[0] == 4 && member(COMM_OF_SIX)->p2p[2].next[0] == 0);
	assert_true(member_p2p_op(member(COMM_OF_SIX), OP_SEND, 5, 3) == newest(5));
	assert_null(member_p2p_op(member(COMM_OF_SIX), OP_SEND, 5, 4));
	assert_null(member_p2p_op(member(COMM_OF_SIX), OP_RECV, 5, 0));
	call_kind(COMM_OF_SIX, 100, 0, OP_SEND, 6); /* no such rank */
	assert_int_equal(member(COMM_OF_SIX)->n_p2p, 6);
}

static void kept_by_all_its_communicators(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		give(job_call_event(0, OP_ALLREDUCE, 90, 100, 10));
	for (int i = 0; i < 2 * MODEL_OPS_KEPT - 2; i++)
		give(job_call_event(0, OP_ALLREDUCE, 91 + i % 3, 100, 10));
	give((struct event){ .kind = EV_TICK });
	assert_int_equal(member(90)->n_ops, 2);
	give(job_call_event(0, OP_ALLREDUCE, 91, 100, 10));
	give((struct event){ .kind = EV_TICK });
	assert_int_equal(member(90)->n_ops, 1);
	for (int i = 0; i < MODEL_OPS_KEPT; i++)
		give(job_call_event(0, OP_ALLREDUCE, 91, 100, 10));
	give((struct event){ .kind = EV_TICK });
	assert_int_equal(member(90)->n_ops, 1); /* the last one, whatever its age */
	assert_int_equal(member(91)->n_ops, MODEL_OPS_KEPT);
}

/* Handed out once, in the order in which they ended, and as they were called where they never do. */
static void handed_out(void **state)
{
	const struct op *op;
	uint64_t id = 0;
	int n = 0;

	(void)state;
	at(now + 1, call_on(100));
	at(now + 1, call_on(200));
	at(now + SEC, waited(SYNC_STREAM, 200, now + SEC, 0));
	op = model_next_ended(m);
	assert_true(op == newest(0) && op->handed_out && !newest(1)->handed_out);
	assert_null(model_next_ended(m));
	for (int i = 0; i < 3; i++)
		at(now + 1, call_on(300 - i));
	give((struct event){ .kind = EV_STOP });
	while ((op = model_next_ended(m))) {
		assert_true(op->id > id && !op->end_ns);
		id = op->id;
		n++;
	}
	assert_int_equal(n, 4);
	assert_true(m->stopped && m->n_ops == 5 && m->n_ops_ended == 1);
}

/* --- captures --- */

static bool is_captured(uint64_t stream)
{
	uint64_t n = proc()->n_ops;

	call(COMM_X, stream);
	return proc()->n_ops == n;
}

/* Of 64 that go on the oldest has lost its end. */
static void so_many_captures(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 64; i++)
		begin(1000 + i);
	assert_true(is_captured(1000) && is_captured(1063));
	begin(2000);
	assert_false(is_captured(1000));
	assert_true(is_captured(1001) && is_captured(2000));
}

static void so_many_branches(void **state)
{
	(void)state;
	begin(100);
	give(cuda_event(EV_CUDA_EVENT, 1, 100, 0));
	for (uint64_t i = 1; i < 257; i++)
		give(cuda_event(EV_CUDA_EVENT_WAIT, 1, 1000 + i, 0));
	assert_true(is_captured(1255));
	assert_false(is_captured(1256));
	finish(100);
	launch(100);
	assert_false(member_comparable(member(COMM_X), SEQ_GRAPH)); /* what joined then is not known */
}

static void joins(uint64_t handle, uint64_t from, uint64_t to)
{
	give(cuda_event(EV_CUDA_EVENT, handle, from, 0));
	give(cuda_event(EV_CUDA_EVENT_WAIT, handle, to, 0));
}

/* A graph as a part of another, first in it or behind something: each branch waits for what it waited for, and for what
 * was in front of all. What is not launched any more blocks nobody. */
static void a_part_of_another_graph(void **state)
{
	(void)state;
	for (int before = 0; before < 3; before++) {
		struct event gone = job_event(EV_COMM_GONE, 0, 0);
		const struct op *w, *z, *last, *first;

		done(NULL);
		fresh(NULL);
		begin(100);
		joins(1, 100, 200);
		joins(2, 100, 400);
		call(COMM_X, 200);
		joins(3, 200, 400);
		call(COMM_Y, 200); /* z */
		call(COMM_Y, 400); /* w: behind the first of 200 */
		joins(4, 200, 100);
		joins(5, 400, 100);
		finish(100);
		begin(300);
		for (int i = 0; i < before; i++)
			call(COMM_Y, 300);
		launch(300);
		call(COMM_Y, 300);
		capture(CAPTURE_END, 300, GRAPH, 0);
		capture(CAPTURE_INSTANTIATE, 0, GRAPH, EXEC + 1);
		gone.comm_gone.addr = COMM_X;
		give(gone);
		capture(CAPTURE_LAUNCH, 300, 0, EXEC + 1);
		assert_int_equal(proc()->n_ops, before + 3);
		last = newest(0);
		w = newest(1);
		z = newest(2);
		first = before ? newest(2 + before) : NULL;
		assert_true(w->graph_n == (uint32_t)before + 4 && w->stream == 300);
		assert_true(op_blocked_by(z) == first && op_blocked_by(w) == first);
		assert_true(op_blocked_by(last) == (first ? first : z));
		stream_synced(300);
		assert_true(last->end_ns && w->end_ns && z->end_ns);
	}
}

/* A loss while it was captured, or told of within a second: not all of it may be known. */
static void captured_while_records_were_lost(void **state)
{
	static const struct {
		int64_t begin_ns; /* of the loss, to the capture's begin; else to its end */
		int64_t end_ns;
		bool doubt;
	} cases[] = { { -1, 0, false }, { 0, 0, true },         { 5, 0, true },
		      { 0, 5, true },   { 0, 999999999, true }, { 0, 1000000000, false } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct event e = { .kind = EV_LOSS };
		uint64_t t;

		done(NULL);
		fresh(NULL);
		t = now + SEC;
		e.loss.lost = 1;
		e.loss.class = LOSS_NORMAL;
		if (cases[i].begin_ns < 0)
			at(t + cases[i].begin_ns, e);
		now = t - MSEC;
		begin(100);
		if (cases[i].begin_ns >= 0 && !cases[i].end_ns)
			at(t + cases[i].begin_ns, e);
		call(COMM_X, 100);
		capture(CAPTURE_END, 100, GRAPH, 0);
		t = now;
		if (cases[i].end_ns)
			at(t + cases[i].end_ns, e);
		capture(CAPTURE_INSTANTIATE, 0, GRAPH, EXEC);
		launch(100);
		if (member_comparable(member(COMM_X), SEQ_GRAPH) == cases[i].doubt)
			fail_msg("case %zu", i);
	}
}

/* What was not seen to be captured may have run anything, of communicators that were there before a loss. */
static void launched_and_not_known(void **state)
{
	struct event e = { .kind = EV_LOSS };

	(void)state;
	launch(100); /* nothing was ever lost: it has no collective of theirs */
	assert_true(member_comparable(member(COMM_X), SEQ_GRAPH));
	e.loss.lost = 1;
	e.loss.class = LOSS_BULK;
	give(e);
	launch(100);
	assert_true(member_comparable(member(COMM_X), SEQ_GRAPH));
	e.loss.class = LOSS_CRITICAL;
	give(e);
	born(90);
	launch(100);
	assert_false(member_comparable(member(COMM_X), SEQ_GRAPH));
	assert_true(member_comparable(member(90), SEQ_GRAPH));
	assert_int_equal(m->lost, 2);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(close_behind),
		TEST(polls_one_after_the_other),
		TEST(how_much_of_a_time_is_certain),
		TEST(behind_another),
		TEST(time_of_its_own),
		TEST(whose_wait_covers_it),
		TEST(a_wait_for_an_event),
		TEST(waits_between_streams),
		TEST(numbers_of_one_alone),
		TEST(transfers_with_each_peer),
		TEST(kept_by_all_its_communicators),
		TEST(handed_out),
		TEST(so_many_captures),
		TEST(so_many_branches),
		TEST(a_part_of_another_graph),
		TEST(captured_while_records_were_lost),
		TEST(launched_and_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
