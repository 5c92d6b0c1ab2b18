/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot.c - the order of a snapshot, and the session's own numbers.
 */
#include "model/snapshot/snapshot.h"

#include <errno.h>
#include <stdlib.h>

#include "base/larger.h"
#include "model/snapshot/snapshot_private.h"

void emit_event(struct snapshot_writer *r, const struct event *e)
{
	if (!r->err)
		r->err = r->each(r->to, e);
}

void emit_body(struct snapshot_writer *r, const struct proc *p, uint32_t tid, enum snapshot_what what, const void *body,
	       size_t bytes, const char *const *texts, int n)
{
	struct event e = { .kind = EV_SNAPSHOT, .tgid = p ? p->tgid : 0, .tid = tid, .ts_ns = r->m->now_ns };

	e.snapshot.what = what;
	e.snapshot.body = body;
	e.snapshot.bytes = bytes;
	for (int i = 0; i < SNAPSHOT_TEXTS; i++)
		e.snapshot.text[i] = i < n && texts[i] ? texts[i] : "";
	emit_event(r, &e);
}

static void session_emit(struct snapshot_writer *r)
{
	const struct model *m = r->m;
	struct event e = { .kind = EV_START, .ts_ns = m->start_ns };
	struct snapshot_session s = {
		.next_op_id = m->state->next_op_id,
		.next_group = m->state->next_group,
		.next_capture = m->state->next_capture,
		.ops_kept = m->state->ops_kept,
		.lost = m->lost,
		.last_loss_ns = m->last_loss_ns,
		.n_ops = m->n_ops,
		.n_ops_ended = m->n_ops_ended,
		.swept_ns = m->state->swept_ns,
		.realtime_offset_ns = m->realtime_offset_ns,
	};

	e.start.realtime_offset_ns = m->start_realtime_ns - m->start_ns;
	e.start.dstate_limit_ns = m->dstate_limit_ns;
	e.start.hang_floor_ns = m->hang_floor_ns;
	e.start.busy_limit_ns = m->busy_limit_ns;
	e.start.host = m->host;
	e.start.by_autopsy = m->by_autopsy;
	e.start.by_session = m->by_session;
	emit_event(r, &e);
	if (m->n_nodes && m->nodes[0] && m->nodes[0]->partial)
		emit_event(r, &(struct event){ .kind = EV_PARTIAL, .ts_ns = m->now_ns });
	emit_body(r, NULL, 0, SNAPSHOT_SESSION, &s, sizeof(s), NULL, 0);
}

static int session_take(struct model *m, const struct event *e)
{
	const struct snapshot_session *s = e->snapshot.body;

	m->resumed_ns = e->ts_ns;
	m->state->next_op_id = s->next_op_id;
	m->state->next_group = s->next_group;
	m->state->next_capture = s->next_capture;
	if (s->ops_kept >= MODEL_OPS_MIN && s->ops_kept <= 2 * MODEL_OPS_KEPT)
		m->state->ops_kept = s->ops_kept;
	m->lost = s->lost;
	m->last_loss_ns = s->last_loss_ns;
	m->n_ops = s->n_ops;
	m->n_ops_ended = smaller(s->n_ops_ended, s->n_ops);
	m->state->swept_ns = s->swept_ns;
	m->realtime_offset_ns = s->realtime_offset_ns;
	return 0;
}

int model_snapshot(struct model *m, int (*each)(void *to, const struct event *e), void *to)
{
	struct snapshot_writer r = { .m = m, .each = each, .to = to };

	session_emit(&r);
	emit_procs(&r);
	emit_comms(&r);
	emit_comm_inits(&r);
	for (struct proc *p = m->procs; p; p = proc_next(p)) {
		if (!proc_own(p)->hashed)
			continue;
		emit_graphs(&r, proc_own(p));
		emit_streams(&r, proc_own(p));
	}
	emit_ops(&r);
	for (struct proc *p = m->procs; p; p = proc_next(p)) {
		if (!proc_own(p)->hashed)
			continue;
		emit_items(&r, proc_own(p));
		emit_rank_clocks(&r, p);
	}
	emit_gpus(&r);
	emit_qps(&r);
	emit_body(&r, NULL, 0, SNAPSHOT_END, NULL, 0, NULL, 0);
	return r.err;
}

void snapshot_free(struct model_state *st)
{
	for (size_t i = 0; i < st->n_taken; i++)
		work_unref(st->taken[i]);
	free(st->taken);
	st->taken = NULL;
	st->n_taken = 0;
}

static int end_take(struct model *m, const struct event *e)
{
	(void)e;
	snapshot_free(m->state);
	return 0;
}

static const struct {
	int (*take)(struct model *m, const struct event *e);
	size_t bytes;
} table[SNAPSHOT_WHAT_MAX] = {
	[SNAPSHOT_SESSION] = { session_take, sizeof(struct snapshot_session) },
	[SNAPSHOT_PROC] = { take_proc, offsetof(struct snapshot_proc, disk) },
	[SNAPSHOT_TASK] = { take_task, sizeof(struct snapshot_task) },
	[SNAPSHOT_MEMBER] = { take_member, offsetof(struct snapshot_member, stood) },
	[SNAPSHOT_P2P] = { take_p2p, sizeof(struct snapshot_p2p) },
	[SNAPSHOT_COMM] = { take_comm, sizeof(struct snapshot_comm) },
	[SNAPSHOT_COMM_INIT] = { take_comm_init, sizeof(struct snapshot_comm_init) },
	[SNAPSHOT_CALLER] = { take_caller, sizeof(struct snapshot_caller) },
	[SNAPSHOT_WORK] = { take_work, sizeof(struct snapshot_work) },
	[SNAPSHOT_CAPTURED] = { take_captured, sizeof(struct snapshot_captured_list) },
	[SNAPSHOT_GRAPH] = { take_graph, sizeof(struct snapshot_graph) },
	[SNAPSHOT_CAPTURE] = { take_capture, sizeof(struct snapshot_capture) },
	[SNAPSHOT_STREAM] = { take_stream, sizeof(struct snapshot_stream) },
	[SNAPSHOT_OP] = { take_op, offsetof(struct snapshot_op, process_group_seq) },
	[SNAPSHOT_ITEM] = { take_item, sizeof(struct snapshot_item) },
	[SNAPSHOT_CUDA_EVENT] = { take_cuda_event, sizeof(struct snapshot_cuda_event) },
	[SNAPSHOT_CALL] = { take_call, sizeof(struct snapshot_call) },
	[SNAPSHOT_END] = { end_take, 0 },
	[SNAPSHOT_GPU] = { take_gpu, sizeof(struct snapshot_gpu) },
	[SNAPSHOT_QP] = { take_qp, sizeof(struct snapshot_qp) },
	[SNAPSHOT_RANK_CLOCK] = { take_rank_clock, sizeof(struct snapshot_rank_clock) },
};

int snapshot_apply(struct model *m, const struct event *e)
{
	unsigned int what = e->snapshot.what;

	if (what >= SNAPSHOT_WHAT_MAX || !table[what].take || e->snapshot.bytes < table[what].bytes)
		return -EINVAL;
	return table[what].take(m, e);
}
