/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_ends.c - inferred ends of operations: the true end lies within [end - error, end], by waits of the host,
 * by CUDA events and chains of them, and by the watchdog's polls.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

struct check {
	const struct job *j;
	size_t n, n_ended, n_tight;
};

static const struct truth *truth_of(const struct job *j, const struct op *op)
{
	for (size_t i = 0; i < j->n_truths; i++) {
		const struct truth *t = &j->truths[i];

		if (t->comm == op->member->comm->hash && t->rank == op->member->proc->rank && t->kind == op->kind &&
		    t->seq == op->seq && (t->space >= 0 || t->peer == op->peer))
			return t;
	}
	return NULL;
}

static void op_check(void *arg, const struct op *op)
{
	struct check *c = arg;
	const struct truth *t = truth_of(c->j, op);

	assert_non_null(t);
	c->n++;
	assert_true(op->enqueue_ns == t->enqueue_ns);
	if (!op->end_ns)
		return;
	c->n_ended++;
	c->n_tight += op->end_error_ns <= 130 * MSEC;
	assert_true(t->end_ns <= op->end_ns);
	assert_true(t->end_ns >= op->end_ns - op->end_error_ns);
	assert_true(op->start_bound_ns >= op->enqueue_ns);
}

static struct check play(struct job_opts o)
{
	struct job *j = job_new(&o);
	struct check c = { .j = j };
	struct verdicts v;

	job_play(j, &v, op_check, &c);
	assert_int_equal(c.n, j->n_truths);
	verdicts_free(&v);
	job_free(j);
	return c;
}

static void test_truth_is_within_the_bounds(void **state)
{
	static const int layouts[][3] = { { 1, 2, 1 }, { 1, 4, 1 }, { 2, 2, 2 }, { 4, 2, 1 }, { 1, 2, 4 } };
	uint64_t seed = test_seed();

	(void)state;
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
		for (int mode = 0; mode < 8; mode++) {
			struct job_opts o = job_usual(layouts[i][0], layouts[i][1], layouts[i][2], seed + mode);
			struct check c;

			o.steps = 6;
			o.run_ahead = mode & 1;
			o.grouped = mode & 2;
			o.no_sync_probe = mode & 4;
			c = play(o);
			assert_int_equal(c.n_ended, c.n); /* every step ends in a wait, the watchdog sees the rest */
			if ((mode & 6) ==
			    4) /* the poll's period, where an event follows at once; in a group only the last has one */
				assert_true(c.n_tight > 9 * c.n / 10);
		}
}

/* --- by hand: one process, two streams --- */

struct hand {
	struct model *m;
	uint64_t t;
};

static void give(struct hand *h, struct event e)
{
	e.ts_ns = h->t += MSEC;
	assert_int_equal(model_apply(h->m, &e), 0);
}

static void op(struct hand *h, uint64_t stream, int depth)
{
	struct event e = job_call_event(0, OP_ALLREDUCE, 7, stream, 10);

	e.op.group_depth = depth;
	give(h, e);
}

static void cuda_event(struct hand *h, enum event_kind kind, uint64_t handle, uint64_t stream, int result)
{
	struct event e = job_event(kind, 0, 0);

	e.cuda_event.handle = handle;
	e.cuda_event.stream = stream;
	e.cuda_event.result = result;
	give(h, e);
}

static void sync_whole(struct hand *h, enum sync_kind kind, uint64_t handle)
{
	struct event e = job_event(EV_SYNC_BEGIN, 0, 0);
	uint64_t begin = h->t + MSEC;

	e.sync.kind = kind;
	e.sync.handle = handle;
	give(h, e);
	e.kind = EV_SYNC_END;
	e.sync.begin_ns = begin;
	give(h, e);
}

static int ended(struct hand *h)
{
	int n = 0;

	while (model_next_ended(h->m))
		n++;
	return n;
}

static struct hand hand_new(void)
{
	struct hand h = { model_new(), JOB_T0 };

	give(&h, job_ready_event(0, 2, 7, 99));
	return h;
}

static void test_wait_chain_carries_completion(void **state)
{
	struct hand h = hand_new();

	(void)state;
	op(&h, 100, 0); /* a: stream 100 */
	cuda_event(&h, EV_CUDA_EVENT, 1, 100, 0);
	cuda_event(&h, EV_CUDA_EVENT_WAIT, 1, 200, 0); /* 200 waits for a */
	op(&h, 200, 0);                                /* b: stream 200, behind a */
	cuda_event(&h, EV_CUDA_EVENT, 2, 200, 0);
	cuda_event(&h, EV_CUDA_EVENT_WAIT, 2, 300, 0); /* 300 waits for b, has no operation of its own */
	op(&h, 100, 0);                                /* c: after the event on 100, no rank waits for it */
	assert_int_equal(ended(&h), 0);
	sync_whole(&h, SYNC_STREAM, 300);
	assert_int_equal(ended(&h), 2); /* b and, through it, a; not c */
	sync_whole(&h, SYNC_CONTEXT, 0);
	assert_int_equal(ended(&h), 1);
	model_free(h.m);
}

static void test_wait_covers_what_was_queued_before_it(void **state)
{
	struct hand h = hand_new();
	struct event e = job_event(EV_SYNC_BEGIN, 0, 0);

	(void)state;
	op(&h, 100, 0);
	e.sync.handle = 100;
	e.tid++;
	give(&h, e);
	e.sync.begin_ns = h.t;
	op(&h, 100, 0); /* another thread enqueues while the first waits */
	e.kind = EV_SYNC_END;
	give(&h, e);
	assert_int_equal(ended(&h), 1);
	e.sync.result = 700; /* a wait that failed proves nothing */
	e.sync.begin_ns = h.t;
	give(&h, e);
	assert_int_equal(ended(&h), 0);
	model_free(h.m);
}

/* A call's record is its entry: another thread's wait right behind it may not cover it. */
static void test_another_threads_wait_needs_distance(void **state)
{
	struct hand h = hand_new();
	struct event e = job_event(EV_SYNC_END, 0, 0);

	(void)state;
	for (int far = 0; far < 2; far++) {
		op(&h, 100, 0);
		e.tid = job_pid(0) + 1;
		e.sync.handle = 100;
		e.sync.begin_ns = h.t + (far ? 2 * MSEC : MSEC / 5);
		h.t += 5 * MSEC;
		give(&h, e);
		assert_int_equal(ended(&h), far ? 2 : 0);
	}
	model_free(h.m);
}

static void test_event_wait_takes_the_event_as_it_was(void **state)
{
	struct hand h = hand_new();
	struct event e = job_event(EV_SYNC_BEGIN, 0, 0);

	(void)state;
	op(&h, 100, 0);
	cuda_event(&h, EV_CUDA_EVENT, 1, 100, 0);
	op(&h, 100, 0);
	e.sync.kind = SYNC_EVENT;
	e.sync.handle = 1;
	e.tid++;
	give(&h, e);
	e.sync.begin_ns = h.t;
	cuda_event(&h, EV_CUDA_EVENT, 1, 100, 0); /* recorded again meanwhile */
	e.kind = EV_SYNC_END;
	give(&h, e);
	assert_int_equal(ended(&h), 1);
	cuda_event(&h, EV_CUDA_EVENT_QUERY, 1, 0, CUDA_NOT_READY);
	assert_int_equal(ended(&h), 0);
	cuda_event(&h, EV_CUDA_EVENT_QUERY, 1, 0, 0);
	assert_int_equal(ended(&h), 1);
	model_free(h.m);
}

/* "Not ready" bounds an operation only when nothing unseen can lie between it and the event. */
static void test_not_ready_bounds_only_behind_a_tight_cuda_event(void **state)
{
	struct hand h = hand_new();
	const struct op *o;
	uint64_t asked;

	(void)state;
	op(&h, 100, 0);
	h.t -= MSEC / 2;
	cuda_event(&h, EV_CUDA_EVENT, 1, 100, 0); /* 0.5 ms behind: the framework's own */
	op(&h, 200, 0);
	h.t += 5 * MSEC;
	cuda_event(&h, EV_CUDA_EVENT, 2, 200, 0); /* kernels may lie in between */
	cuda_event(&h, EV_CUDA_EVENT_QUERY, 1, 0, CUDA_NOT_READY);
	asked = h.t;
	cuda_event(&h, EV_CUDA_EVENT_QUERY, 2, 0, CUDA_NOT_READY);
	sync_whole(&h, SYNC_CONTEXT, 0);
	while ((o = model_next_ended(h.m))) {
		if (o->stream == 100)
			assert_true(o->end_ns - o->end_error_ns == asked);
		else
			assert_true(o->end_ns - o->end_error_ns == o->enqueue_ns);
	}
	model_free(h.m);
}

/* A copy that returns when it is done had its turn behind all that its stream held. */
static void test_a_blocking_copy_is_a_wait_for_its_stream(void **state)
{
	struct hand h = hand_new();

	(void)state;
	op(&h, 100, 0);
	op(&h, 200, 0);
	sync_whole(&h, SYNC_COPY, 100);
	assert_int_equal(ended(&h), 1);
	sync_whole(&h, SYNC_COPY, 200);
	assert_int_equal(ended(&h), 1);
	model_free(h.m);
}

/* A poll proves that all before it is over; "not ready" bounds an operation only while nothing unseen fits in between.
 */
static void test_polls_of_a_stream(void **state)
{
	struct hand h = hand_new();
	const struct op *o;
	uint64_t last;

	(void)state;
	op(&h, 100, 0);
	for (int i = 0; i < 5; i++) { /* at once, and one after the other */
		h.t -= MSEC / 2;
		cuda_event(&h, EV_STREAM_QUERY, 0, 100, CUDA_NOT_READY);
	}
	last = h.t;
	h.t += 5 * MSEC;
	cuda_event(&h, EV_STREAM_QUERY, 0, 100, CUDA_NOT_READY); /* kernels may have been queued meanwhile */
	assert_int_equal(ended(&h), 0);
	cuda_event(&h, EV_STREAM_QUERY, 0, 200, 0); /* another stream */
	assert_int_equal(ended(&h), 0);
	cuda_event(&h, EV_STREAM_QUERY, 0, 100, 700); /* an error says nothing */
	assert_int_equal(ended(&h), 0);
	cuda_event(&h, EV_STREAM_QUERY, 0, 100, 0);
	o = model_next_ended(h.m);
	assert_non_null(o);
	assert_true(o->end_ns == h.t && o->end_ns - o->end_error_ns == last);
	assert_true(model_proc(h.m, job_pid(0))->last_call_ns == o->call_ns); /* polls are no progress */
	model_free(h.m);
}

static void test_each_thread_has_its_default_stream(void **state)
{
	struct hand h = hand_new();
	struct event e = job_event(EV_SYNC_END, 0, 0);

	(void)state;
	op(&h, 2, 0); /* CU_STREAM_PER_THREAD */
	h.t += 10 * MSEC;
	e.tid++;
	e.sync.handle = 2;
	e.sync.begin_ns = h.t;
	give(&h, e);
	assert_int_equal(ended(&h), 0);
	e.tid--;
	give(&h, e);
	assert_int_equal(ended(&h), 1);
	op(&h, 1, 0); /* CU_STREAM_LEGACY is 0 */
	sync_whole(&h, SYNC_STREAM, 0);
	assert_int_equal(ended(&h), 1);
	model_free(h.m);
}

static void elapsed(struct hand *h, uint64_t start, uint64_t end, uint64_t gpu_ns)
{
	struct event e = job_event(EV_ELAPSED, 0, 0);

	e.elapsed.start = start;
	e.elapsed.end = end;
	e.elapsed.gpu_ns = gpu_ns;
	give(h, e);
}

static void test_measured_gpu_time(void **state)
{
	struct hand h = hand_new();
	const struct op *o;
	uint64_t start;

	(void)state;
	cuda_event(&h, EV_CUDA_EVENT, 1, 100, 0);
	start = h.t;
	op(&h, 100, 0);
	h.t -= MSEC / 2;
	cuda_event(&h, EV_CUDA_EVENT, 2, 100, 0);
	h.t += 20 * MSEC;
	cuda_event(&h, EV_CUDA_EVENT_QUERY, 2, 0, 0);
	o = model_next_ended(h.m);
	assert_true(o->end_error_ns > 20 * MSEC);
	elapsed(&h, 1, 2, 15 * MSEC);
	assert_int_equal(o->gpu_ns, 15 * MSEC);
	assert_in_range(o->end_ns - o->end_error_ns, start + 15 * MSEC - 1100, start + 15 * MSEC);
	elapsed(&h, 1, 2, 90 * MSEC); /* more than can be: no bound */
	assert_in_range(o->end_ns - o->end_error_ns, start + 15 * MSEC - 1100, start + 15 * MSEC);
	op(&h, 100, 0);
	op(&h, 100, 0);
	cuda_event(&h, EV_CUDA_EVENT, 3, 100, 0); /* two in between */
	cuda_event(&h, EV_CUDA_EVENT, 4, 200, 0); /* another stream */
	elapsed(&h, 2, 3, 5 * MSEC);
	assert_int_equal(ended(&h), 2); /* both events are done all the same */
	elapsed(&h, 2, 4, 5 * MSEC);
	op(&h, 100, 0);
	h.t += 5 * MSEC;
	cuda_event(&h, EV_CUDA_EVENT, 5, 100, 0); /* kernels may lie in between: the time is known, the end is not */
	elapsed(&h, 3, 5, 4 * MSEC);
	o = model_next_ended(h.m);
	assert_true(o->gpu_ns == 4 * MSEC && o->end_ns - o->end_error_ns == o->enqueue_ns);
	assert_true(o->prev->gpu_ns == 0 && o->prev->prev->gpu_ns == 0);
	model_free(h.m);
}

static void test_stop_hands_out_what_never_ended(void **state)
{
	struct hand h = hand_new();
	const struct op *o;
	uint64_t id = 0;

	(void)state;
	for (int i = 0; i < 5; i++)
		op(&h, 100 + i % 2, 0);
	give(&h, job_event(EV_STOP, 0, 0));
	for (int i = 0; i < 5; i++) {
		o = model_next_ended(h.m);
		assert_non_null(o);
		assert_true(o->end_ns == 0 && o->id > id);
		id = o->id;
	}
	assert_null(model_next_ended(h.m));
	model_free(h.m);
}

static void test_memory_is_bounded(void **state)
{
	struct hand h = hand_new();
	size_t out = 0, more = 3 * MODEL_OPS_KEPT;
	const struct proc *p;

	(void)state;
	for (size_t i = 0; i < more; i++) {
		op(&h, 100, 0);
		out += ended(&h);
	}
	p = model_proc(h.m, job_pid(0));
	assert_int_equal(p->members->n_ops, MODEL_OPS_KEPT);
	assert_int_equal(out, more - MODEL_OPS_KEPT); /* none vanished unseen */
	assert_true(p->members->ops->seq == more - MODEL_OPS_KEPT);
	model_free(h.m);
}

/* One process calls on `addr`. */
static void call_on(struct hand *h, int rank, uint64_t addr)
{
	give(h, job_call_event(rank, OP_ALLREDUCE, addr, 100, 10));
	ended(h);
}

static size_t ops_of(const struct proc *p)
{
	size_t n = 0;

	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
		n += mb->n_ops;
	return n;
}

/* Many processes share the room: each keeps its newest operations, and of every communicator the last one. */
static void test_processes_share_the_memory(void **state)
{
	enum { RANKS = 200, OPS = 3000 };
	struct hand h = hand_new();
	const struct proc *p;
	size_t all = 0, newest = 0;

	(void)state;
	for (int r = 0; r < RANKS; r++) {
		call_on(&h, r, 5);
		for (int i = 0; i < OPS; i++)
			call_on(&h, r, 6);
	}
	give(&h, job_event(EV_TICK, 0, 0));
	for (int r = 0; r < RANKS; r++)
		all += ops_of(model_proc(h.m, job_pid(r)));
	assert_in_range(all, RANKS * 1000, RANKS * 1100);
	p = model_proc(h.m, job_pid(RANKS - 1));
	for (const struct op *o = p->last_op; o && o->member->addr == 6; o = o->prev_in_proc, newest++)
		assert_true(o->nth == p->n_ops - 1 - newest);
	assert_true(newest >= 1000);
	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
		assert_true(mb->n_ops >= 1 && mb->ops_tail->seq == (mb->addr == 5 ? 0 : OPS - 1));
	model_free(h.m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_truth_is_within_the_bounds),
		cmocka_unit_test(test_wait_chain_carries_completion),
		cmocka_unit_test(test_wait_covers_what_was_queued_before_it),
		cmocka_unit_test(test_another_threads_wait_needs_distance),
		cmocka_unit_test(test_event_wait_takes_the_event_as_it_was),
		cmocka_unit_test(test_not_ready_bounds_only_behind_a_tight_cuda_event),
		cmocka_unit_test(test_a_blocking_copy_is_a_wait_for_its_stream),
		cmocka_unit_test(test_polls_of_a_stream),
		cmocka_unit_test(test_each_thread_has_its_default_stream),
		cmocka_unit_test(test_measured_gpu_time),
		cmocka_unit_test(test_stop_hands_out_what_never_ended),
		cmocka_unit_test(test_memory_is_bounded),
		cmocka_unit_test(test_processes_share_the_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
