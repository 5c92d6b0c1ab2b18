/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot_private.h - between the files of the snapshot. Each topic has one file, which emits it and takes it, so that
 * both sides of a body stand together.
 */
#ifndef RANKTRACE_MODEL_SNAPSHOT_PRIVATE_H
#define RANKTRACE_MODEL_SNAPSHOT_PRIVATE_H

#include "model/state.h"
#include "schemas/snapshot.h"

struct snapshot_writer {
	struct model *m;
	int (*each)(void *to, const struct event *e);
	void *to;
	int err; /* first; nothing more is written */
	uint64_t n_works, n_captured;
};

/* One event: `n` texts (NULL is ""). */
void emit_body(struct snapshot_writer *r, const struct proc *p, uint32_t tid, enum snapshot_what what, const void *body,
	       size_t bytes, const char *const *texts, int n);
void emit_event(struct snapshot_writer *r, const struct event *e);

void emit_procs(struct snapshot_writer *r);
int take_proc(struct model *m, const struct event *e);
int take_task(struct model *m, const struct event *e);
void emit_rank_clocks(struct snapshot_writer *r, const struct proc *p); /* behind its operations */
int take_rank_clock(struct model *m, const struct event *e);

void emit_comms(struct snapshot_writer *r);
int take_member(struct model *m, const struct event *e);
int take_p2p(struct model *m, const struct event *e);
int take_comm(struct model *m, const struct event *e);
void emit_comm_inits(struct snapshot_writer *r);
int take_comm_init(struct model *m, const struct event *e);
int take_caller(struct model *m, const struct event *e);

void emit_graphs(struct snapshot_writer *r, struct proc_own *p);
int take_work(struct model *m, const struct event *e);
int take_captured(struct model *m, const struct event *e);
int take_graph(struct model *m, const struct event *e);
int take_capture(struct model *m, const struct event *e);

void emit_streams(struct snapshot_writer *r, const struct proc_own *p); /* before the operations */
void emit_items(struct snapshot_writer *r, const struct proc_own *p);   /* behind them */
int take_stream(struct model *m, const struct event *e);
int take_item(struct model *m, const struct event *e);
int take_cuda_event(struct model *m, const struct event *e);
int take_call(struct model *m, const struct event *e);
/* The stream (handle, lane) of the process; NULL none. */
struct stream *snapshot_stream_of(struct proc_own *p, uint64_t handle, int lane);

void emit_gpus(struct snapshot_writer *r);
int take_gpu(struct model *m, const struct event *e);

void emit_qps(struct snapshot_writer *r);
int take_qp(struct model *m, const struct event *e);

void emit_ops(struct snapshot_writer *r);
int take_op(struct model *m, const struct event *e);

#endif
