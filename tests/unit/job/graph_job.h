/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_job.h - processes that capture CUDA graphs and launch them, call by call. Of one test program.
 */
#ifndef RANKTRACE_GRAPH_JOB_H
#define RANKTRACE_GRAPH_JOB_H

#include "tests/unit/job/job_script.h"

enum { COMM_X = 7, COMM_Y = 8, EXEC = 60, GRAPH = 50 };

static struct model *m;
static uint64_t now;
static int rank_now; /* whose events are given */

static void give(struct event e)
{
	e.ts_ns = now += MSEC;
	assert_int_equal(model_apply(m, &e), 0);
}

static const struct proc *proc(void)
{
	return model_proc(m, job_pid(rank_now));
}

static const struct member *member(uint64_t addr)
{
	const struct member *mb = proc()->members;

	while (mb && (mb->addr != addr || mb->gone))
		mb = mb->next_in_proc;
	return mb;
}

static void call_kind(uint64_t comm, uint64_t stream, int depth, enum op_kind kind, int peer)
{
	struct event e = job_call_event(rank_now, kind, comm, stream, 10);

	e.op.peer = peer;
	e.op.group_depth = depth;
	give(e);
}

static void call(uint64_t comm, uint64_t stream)
{
	call_kind(comm, stream, 0, OP_ALLREDUCE, -1);
}

static void capture(enum capture_kind kind, uint64_t stream, uint64_t graph, uint64_t exec)
{
	struct event e = job_event(EV_CAPTURE, rank_now, 0);

	e.capture.kind = kind;
	e.capture.stream = stream;
	e.capture.graph = graph;
	e.capture.exec = exec;
	give(e);
}

static void begin(uint64_t stream)
{
	capture(CAPTURE_BEGIN, stream, 0, 0);
}

static void launch(uint64_t stream)
{
	capture(CAPTURE_LAUNCH, stream, 0, EXEC);
}

/* What begin() opened becomes EXEC; the graph itself is given back, as frameworks do. */
static void finish(uint64_t stream)
{
	capture(CAPTURE_END, stream, GRAPH, 0);
	capture(CAPTURE_INSTANTIATE, 0, GRAPH, EXEC);
	capture(CAPTURE_DESTROY, 0, GRAPH, 0);
}

static void stream_synced(uint64_t stream)
{
	struct event e = job_event(EV_SYNC_END, rank_now, 0);

	e.sync.handle = stream;
	e.sync.begin_ns = now;
	give(e);
}

static void born(uint64_t addr)
{
	give(job_ready_event(rank_now, 2, addr, 90 + addr));
}

static int fresh(void **state)
{
	(void)state;
	now = JOB_T0;
	m = model_new();
	for (rank_now = 1; rank_now >= 0; rank_now--) {
		born(COMM_X);
		born(COMM_Y);
		if (!rank_now)
			return 0;
	}
	return 0;
}

static int done(void **state)
{
	(void)state;
	model_free(m);
	return 0;
}

/* The i-th newest operation of the process. */
static const struct op *newest(int i)
{
	const struct op *op = proc()->last_op;

	while (op && i--)
		op = op->prev_in_proc;
	return op;
}

#endif
