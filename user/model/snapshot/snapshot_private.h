/* SPDX-License-Identifier: Apache-2.0
 *
 * retell_private.h - between the files of the retelling. Each topic has one file, which tells it and takes it, so that
 * both sides of a body stand together.
 */
#ifndef RANKTRACE_RETELL_PRIVATE_H
#define RANKTRACE_RETELL_PRIVATE_H

#include "model/state.h"
#include "schemas/retold.h"

struct retelling {
	struct model *m;
	int (*each)(void *to, const struct event *e);
	void *to;
	int err; /* first; nothing more is told */
	uint64_t n_works, n_captured;
};

/* One event: `n` texts (NULL is ""). */
void retell(struct retelling *r, const struct proc *p, uint32_t tid, enum retold_what what, const void *body,
	    size_t bytes, const char *const *texts, int n);
void retell_event(struct retelling *r, const struct event *e);

void retell_procs(struct retelling *r);
int retold_proc(struct model *m, const struct event *e);
int retold_task(struct model *m, const struct event *e);

void retell_comms(struct retelling *r);
int retold_member(struct model *m, const struct event *e);
int retold_p2p(struct model *m, const struct event *e);
int retold_comm(struct model *m, const struct event *e);
void retell_births(struct retelling *r);
int retold_birth(struct model *m, const struct event *e);
int retold_caller(struct model *m, const struct event *e);

void retell_graphs(struct retelling *r, struct proc_own *p);
int retold_work(struct model *m, const struct event *e);
int retold_captured(struct model *m, const struct event *e);
int retold_graph(struct model *m, const struct event *e);
int retold_capture(struct model *m, const struct event *e);

void retell_streams(struct retelling *r, const struct proc_own *p); /* before the operations */
void retell_items(struct retelling *r, const struct proc_own *p);   /* behind them */
int retold_stream(struct model *m, const struct event *e);
int retold_item(struct model *m, const struct event *e);
int retold_mark(struct model *m, const struct event *e);
int retold_call(struct model *m, const struct event *e);
/* The stream (handle, lane) of the process; NULL none. */
struct stream *retold_stream_of(struct proc_own *p, uint64_t handle, int lane);

void retell_gpus(struct retelling *r);
int retold_gpu(struct model *m, const struct event *e);

void retell_qps(struct retelling *r);
int retold_qp(struct model *m, const struct event *e);

void retell_ops(struct retelling *r);
int retold_op(struct model *m, const struct event *e);

#endif
