/* SPDX-License-Identifier: Apache-2.0
 *
 * retell.c - the order of a retelling, and the session's own numbers.
 */
#include "model/snapshot/snapshot.h"

#include <errno.h>
#include <stdlib.h>

#include "model/snapshot/snapshot_private.h"

void retell_event(struct retelling *r, const struct event *e)
{
	if (!r->err)
		r->err = r->each(r->to, e);
}

void retell(struct retelling *r, const struct proc *p, uint32_t tid, enum retold_what what, const void *body,
	    size_t bytes, const char *const *texts, int n)
{
	struct event e = { .kind = EV_RETOLD, .tgid = p ? p->tgid : 0, .tid = tid, .ts_ns = r->m->now_ns };

	e.retold.what = what;
	e.retold.body = body;
	e.retold.bytes = bytes;
	for (int i = 0; i < RETOLD_TEXTS; i++)
		e.retold.text[i] = i < n && texts[i] ? texts[i] : "";
	retell_event(r, &e);
}

static void session_retell(struct retelling *r)
{
	const struct model *m = r->m;
	struct event e = { .kind = EV_START, .ts_ns = m->start_ns };
	struct retold_session s = {
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
	retell_event(r, &e);
	retell(r, NULL, 0, RETOLD_SESSION, &s, sizeof(s), NULL, 0);
}

static int session_take(struct model *m, const struct event *e)
{
	const struct retold_session *s = e->retold.body;

	m->resumed_ns = e->ts_ns;
	m->state->next_op_id = s->next_op_id;
	m->state->next_group = s->next_group;
	m->state->next_capture = s->next_capture;
	if (s->ops_kept >= MODEL_OPS_MIN && s->ops_kept <= 2 * MODEL_OPS_KEPT)
		m->state->ops_kept = s->ops_kept;
	m->lost = s->lost;
	m->last_loss_ns = s->last_loss_ns;
	m->n_ops = s->n_ops;
	m->n_ops_ended = s->n_ops_ended < s->n_ops ? s->n_ops_ended : s->n_ops;
	m->state->swept_ns = s->swept_ns;
	m->realtime_offset_ns = s->realtime_offset_ns;
	return 0;
}

int model_retell(struct model *m, int (*each)(void *to, const struct event *e), void *to)
{
	struct retelling r = { .m = m, .each = each, .to = to };

	session_retell(&r);
	retell_procs(&r);
	retell_comms(&r);
	retell_births(&r);
	for (struct proc *p = m->procs; p; p = p->next) {
		if (!proc_own(p)->hashed)
			continue;
		retell_graphs(&r, proc_own(p));
		retell_streams(&r, proc_own(p));
	}
	retell_ops(&r);
	for (struct proc *p = m->procs; p; p = p->next)
		if (proc_own(p)->hashed)
			retell_items(&r, proc_own(p));
	retell_gpus(&r);
	retell_qps(&r);
	retell(&r, NULL, 0, RETOLD_END, NULL, 0, NULL, 0);
	return r.err;
}

void retold_free(struct model_state *st)
{
	for (size_t i = 0; i < st->n_retold; i++)
		work_unref(st->retold[i]);
	free(st->retold);
	st->retold = NULL;
	st->n_retold = 0;
}

static int end_take(struct model *m, const struct event *e)
{
	(void)e;
	retold_free(m->state);
	return 0;
}

static const struct {
	int (*take)(struct model *m, const struct event *e);
	size_t bytes;
} table[RETOLD_WHAT_MAX] = {
	[RETOLD_SESSION] = { session_take, sizeof(struct retold_session) },
	[RETOLD_PROC] = { retold_proc, sizeof(struct retold_proc) },
	[RETOLD_TASK] = { retold_task, sizeof(struct retold_task) },
	[RETOLD_MEMBER] = { retold_member, offsetof(struct retold_member, stood) },
	[RETOLD_P2P] = { retold_p2p, sizeof(struct retold_p2p) },
	[RETOLD_COMM] = { retold_comm, sizeof(struct retold_comm) },
	[RETOLD_BIRTH] = { retold_birth, sizeof(struct retold_birth) },
	[RETOLD_CALLER] = { retold_caller, sizeof(struct retold_caller) },
	[RETOLD_WORK] = { retold_work, sizeof(struct retold_work) },
	[RETOLD_CAPTURED] = { retold_captured, sizeof(struct retold_captured_list) },
	[RETOLD_GRAPH] = { retold_graph, sizeof(struct retold_graph) },
	[RETOLD_CAPTURE] = { retold_capture, sizeof(struct retold_capture) },
	[RETOLD_STREAM] = { retold_stream, sizeof(struct retold_stream) },
	[RETOLD_OP] = { retold_op, sizeof(struct retold_op) },
	[RETOLD_ITEM] = { retold_item, sizeof(struct retold_item) },
	[RETOLD_MARK] = { retold_mark, sizeof(struct retold_mark) },
	[RETOLD_CALL] = { retold_call, sizeof(struct retold_call) },
	[RETOLD_END] = { end_take, 0 },
	[RETOLD_GPU] = { retold_gpu, sizeof(struct retold_gpu) },
	[RETOLD_QP] = { retold_qp, sizeof(struct retold_qp) },
};

int retold_apply(struct model *m, const struct event *e)
{
	unsigned int what = e->retold.what;

	if (what >= RETOLD_WHAT_MAX || !table[what].take || e->retold.bytes < table[what].bytes)
		return -EINVAL;
	return table[what].take(m, e);
}
