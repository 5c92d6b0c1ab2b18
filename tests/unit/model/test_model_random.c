/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_random.c - random programs of streams, waits, groups and graphs, run by a small GPU beside the model: what
 * the model says of ends, and of what is in front of what, must hold on that GPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"
#include "tests/unit/job/model_copy.h"

enum { STREAMS = 4, EVENTS = 6, EXECS = 3, THINGS_MAX = 40, OPS_MAX = 40000, STEPS = 15000 };

struct thing {
	int lane, dep_lane, dep_n;
	bool is_op;
	uint64_t dur_ns;
};
struct recipe {
	uint64_t tail_ns; /* a kernel of the job behind them */
	int n, n_lanes, lane_n[STREAMS];
	struct thing things[THINGS_MAX];
};
struct gpu_event {
	bool recorded;
	uint64_t done_ns;
};
struct run {
	uint64_t begin_ns, end_ns;
};

static struct model *m;
static uint64_t now, rng, free_ns[STREAMS];
static struct gpu_event cuda_events[EVENTS];
static struct recipe execs[EXECS];
static struct run *runs; /* by operation id */
static size_t n_checked, n_ended, n_blocked;

static uint64_t draw(uint64_t below)
{
	return random_next(&rng) % below;
}

static uint64_t step_ns; /* the next event comes that much later */

static void give(struct event e)
{
	e.ts_ns = now += step_ns;
	step_ns = 1 + draw(200000);
	assert_int_equal(model_apply(m, &e), 0);
}

/* As the event that comes next will see it. */
static int result_of(uint64_t done_ns)
{
	return done_ns <= now + step_ns ? 0 : CUDA_NOT_READY;
}

static void cuda_event(enum event_kind kind, int handle, int stream, int result)
{
	struct event e = job_event(kind, 0, 0);

	e.cuda_event.handle = 1 + handle;
	e.cuda_event.stream = 100 + stream;
	e.cuda_event.result = result;
	give(e);
}

static void op_event(int stream)
{
	give(job_call_event(0, OP_ALLREDUCE, 7, 100 + stream, 1 + draw(3)));
}

static const struct op *newest(void)
{
	return model_proc(m, job_pid(0))->last_op;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void ran(const struct op *op, uint64_t begin_ns, uint64_t end_ns)
{
	assert_true(op->id < OPS_MAX);
	runs[op->id] = (struct run){ begin_ns, end_ns };
}

static void call(void)
{
	int s = draw(STREAMS);
	uint64_t begin;

	op_event(s);
	begin = later(now, free_ns[s]);
	free_ns[s] = begin + draw(3 * MSEC);
	ran(newest(), begin, free_ns[s]);
}

/* What the capture holds is decided here; the model learns it from events only. */
static void capture(void)
{
	struct event e = job_event(EV_CAPTURE, 0, 0);
	int which = draw(EXECS), todo = 3 + draw(THINGS_MAX / 2);
	struct recipe *r = &execs[which];
	int lane_of[STREAMS] = { 0 }, event_lane[EVENTS], event_n[EVENTS];

	*r = (struct recipe){ .n_lanes = 1, .tail_ns = draw(MSEC) };
	memset(event_lane, -1, sizeof(event_lane));
	for (int s = 1; s < STREAMS; s++)
		lane_of[s] = -1;
	e.capture.kind = CAPTURE_BEGIN;
	e.capture.stream = 100;
	give(e);
	while (todo-- && r->n < THINGS_MAX) {
		int s = draw(STREAMS), k = draw(EVENTS), what = draw(3);

		if (what == 2 && event_lane[k] >= 0) {
			cuda_event(EV_CUDA_EVENT_WAIT, k, s, 0);
			if (lane_of[s] < 0)
				lane_of[s] = r->n_lanes++;
			if (lane_of[s] == event_lane[k] || !event_n[k])
				continue;
			r->things[r->n++] = (struct thing){ lane_of[s], event_lane[k], event_n[k], false, 0 };
			r->lane_n[lane_of[s]]++;
		} else if (lane_of[s] >= 0 && what == 1) {
			cuda_event(EV_CUDA_EVENT, k, s, 0);
			cuda_events[k].recorded = false;
			event_lane[k] = lane_of[s];
			event_n[k] = r->lane_n[lane_of[s]];
		} else if (lane_of[s] >= 0 && what == 0) {
			op_event(s);
			r->things[r->n++] = (struct thing){ lane_of[s], 0, 0, true, draw(2 * MSEC) };
			r->lane_n[lane_of[s]]++;
		}
	}
	e.capture.kind = CAPTURE_END;
	e.capture.graph = 50;
	give(e);
	e.capture.kind = CAPTURE_INSTANTIATE;
	e.capture.exec = 60 + which;
	give(e);
}

static void launch(void)
{
	struct event e = job_event(EV_CAPTURE, 0, 0);
	int which = draw(EXECS), s = draw(STREAMS), n_ops = 0, count[STREAMS] = { 0 };
	const struct recipe *r = &execs[which];
	uint64_t at[STREAMS], done[STREAMS][THINGS_MAX + 1], begin[THINGS_MAX], end[THINGS_MAX], last = 0;
	const struct op *op;

	e.capture.kind = CAPTURE_LAUNCH;
	e.capture.exec = 60 + which;
	e.capture.stream = 100 + s;
	give(e);
	for (int i = 0; i < STREAMS; i++)
		at[i] = later(now, free_ns[s]);
	for (int i = 0; i < r->n; i++) {
		const struct thing *t = &r->things[i];

		if (t->is_op) {
			begin[n_ops] = at[t->lane];
			at[t->lane] = end[n_ops++] = at[t->lane] + t->dur_ns;
		} else {
			at[t->lane] = later(at[t->lane], done[t->dep_lane][t->dep_n]);
		}
		done[t->lane][++count[t->lane]] = at[t->lane];
	}
	for (op = newest(); n_ops--; op = op->prev_in_proc) {
		assert_true(op->graph_exec == (uint64_t)(60 + which) && (int)op->graph_i == n_ops);
		ran(op, begin[n_ops], end[n_ops]);
	}
	for (int i = 0; i < r->n_lanes; i++)
		last = later(last, at[i]);
	free_ns[s] = later(last + r->tail_ns, free_ns[s]);
}

static void record_or_wait(void)
{
	int k = draw(EVENTS), s = draw(STREAMS);

	if (draw(2)) {
		cuda_event(EV_CUDA_EVENT, k, s, 0);
		cuda_events[k] = (struct gpu_event){ true, free_ns[s] };
	} else if (cuda_events[k].recorded) {
		cuda_event(EV_CUDA_EVENT_WAIT, k, s, 0);
		free_ns[s] = later(free_ns[s], cuda_events[k].done_ns);
	}
}

static void poll(void)
{
	int k = draw(EVENTS), s = draw(STREAMS);

	if (draw(2))
		cuda_event(EV_STREAM_QUERY, 0, s, result_of(free_ns[s]));
	else if (cuda_events[k].recorded)
		cuda_event(EV_CUDA_EVENT_QUERY, k, 0, result_of(cuda_events[k].done_ns));
}

static void host_waits(void)
{
	struct event e = job_event(EV_SYNC_BEGIN, 0, 0);
	int s = draw(STREAMS);

	e.sync.handle = 100 + s;
	give(e);
	e.kind = EV_SYNC_END;
	e.sync.begin_ns = now;
	now = later(now, free_ns[s]);
	give(e);
}

static void look_in_front(void)
{
	const struct op *op = newest(), *front;

	for (int i = draw(30); op && i--;)
		op = op->prev_in_proc;
	if (!op || op->end_ns)
		return;
	front = op_blocked_by(op);
	assert_true(!front == op_reached(op));
	if (front)
		assert_true(!front->end_ns && runs[front->id].end_ns <= runs[op->id].begin_ns);
	n_blocked += front != NULL;
}

static void ends_check(void)
{
	const struct op *op;

	while ((op = model_next_ended(m))) {
		const struct run *r = &runs[op->id];

		n_checked++;
		if (op->captured)
			continue;
		n_ended += op->end_ns != 0;
		if (!op->end_ns)
			continue;
		assert_true(r->end_ns <= op->end_ns);
		assert_true(r->end_ns >= op->end_ns - op->end_error_ns);
	}
}

static struct model_copy kept;

static void swap_for_a_copy(void)
{
	struct model_copy copy;

	model_copy(m, &copy);
	model_free(m);
	model_copy_free(&kept);
	kept = copy;
	m = copy.m;
}

static void gpu_agrees(bool snapshot)
{
	static void (*const acts[])(void) = { call,           call,           call, launch, record_or_wait,
					      record_or_wait, record_or_wait, poll, poll,   host_waits };

	rng = test_seed();
	now = JOB_T0;
	n_checked = n_ended = n_blocked = step_ns = 0;
	memset(cuda_events, 0, sizeof(cuda_events));
	memset(execs, 0, sizeof(execs));
	memset(free_ns, 0, sizeof(free_ns));
	m = model_new();
	runs = calloc(OPS_MAX, sizeof(*runs));
	assert_true(m && runs);
	give(job_ready_event(0, 2, 7, 99));
	for (int i = 0; i < STEPS; i++) {
		if (draw(60) == 0)
			capture();
		else
			acts[draw(sizeof(acts) / sizeof(acts[0]))]();
		if (newest())
			look_in_front();
		ends_check();
		if (snapshot && draw(100) == 0)
			swap_for_a_copy();
	}
	for (int s = 0; s < STREAMS; s++)
		free_ns[s] = 0;
	now += 1000 * SEC;
	for (int s = 0; s < STREAMS; s++)
		cuda_event(EV_STREAM_QUERY, 0, s, 0);
	ends_check();
	assert_null(model_proc(m, job_pid(0))->members->first_open); /* all is over */
	print_message("%zu ended, %zu handed out, %zu seen behind another\n", n_ended, n_checked, n_blocked);
	assert_true(n_ended > 4000 && n_checked > n_ended && n_blocked > 200);
	free(runs);
	model_free(m);
	model_copy_free(&kept);
	kept = (struct model_copy){ 0 };
}

static void test_the_gpu_agrees(void **state)
{
	(void)state;
	gpu_agrees(false);
}

static void test_the_gpu_agrees_with_one_snapshot(void **state)
{
	(void)state;
	gpu_agrees(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_the_gpu_agrees),
					    cmocka_unit_test(test_the_gpu_agrees_with_one_snapshot) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
