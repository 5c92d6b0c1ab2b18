/* SPDX-License-Identifier: Apache-2.0
 *
 * qp.c - what is reported of queue pairs, joined by process, number and, as far as known, context and device.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/larger.h"
#include "model/state.h"

#define KEEP_NS 60000000000ull /* as reap.c: for findings and their evidence */
#define SWEEP_EVERY_NS 1000000000ull
#define CONTEXTS_MAX 4096

enum { ASYNC_QP_FATAL = 1, ASYNC_QP_ACCESS_ERR = 3 }; /* enum ibv_event_type; 2: request error */

struct qp_number {
	uint64_t proc;
	uint64_t qpn; /* no gap: it is hashed */
};

struct qp_chain { /* queue pairs of one process and number: several devices, or a number used again */
	struct qp_number key;
	struct qp *newest;
	UT_hash_handle hh;
};

struct qp_context { /* which device a context of a process is of */
	uint64_t proc, addr;
	const char *device;
	struct qp_context *next;
};

static struct qp_chain *chain_find(const struct model *m, uint64_t proc, uint32_t qpn)
{
	struct qp_number key = { proc, qpn };
	struct qp_chain *c;

	HASH_FIND(hh, m->state->qp.by_number, &key, sizeof(key), c);
	return c;
}

static struct qp_chain *chain_get(struct model *m, uint64_t proc, uint32_t qpn)
{
	struct qp_chain *c = chain_find(m, proc, qpn);

	if (c)
		return c;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->key = (struct qp_number){ proc, qpn };
	HASH_ADD(hh, m->state->qp.by_number, key, sizeof(c->key), c);
	if (c->hh.tbl)
		return c;
	free(c);
	return NULL;
}

bool qp_alive(const struct qp *q)
{
	return !q->gone && !q->proc->dead;
}

bool port_carries(const struct model *m, const struct port *port, const struct proc *p)
{
	bool elsewhere = false;

	if (!port_has_proc(port, p))
		return false;
	for (const struct qp *q = m->qps.newest; q; q = q->next) {
		if (q->proc != p || !q->dest_qpn)
			continue;
		if (!*q->device || (q->device == port->device && (!q->port || q->port == port->id.number)))
			return true;
		elsewhere |= qp_alive(q);
	}
	return !elsewhere || m->qps.cut;
}

const struct qp *qp_find(const struct model *m, const struct proc *p, uint64_t context, uint32_t qpn)
{
	const struct qp_chain *c = chain_find(m, p->key, qpn);
	const struct qp *q = c ? c->newest : NULL;

	while (q && (q->proc != p || (context && q->context != context)))
		q = q->next_same;
	return q;
}

/* --- contexts --- */

static const char *context_device(const struct model *m, uint64_t proc, uint64_t addr)
{
	for (const struct qp_context *c = m->state->qp.contexts; c; c = c->next)
		if (c->proc == proc && c->addr == addr)
			return c->device;
	return "";
}

static int context_note(struct model *m, uint64_t proc, uint64_t addr, const char *device)
{
	struct qp_context *c;
	uint32_t n = 0;

	if (!addr || !*device)
		return 0;
	for (c = m->state->qp.contexts; c; c = c->next, n++)
		if (c->proc == proc && c->addr == addr) {
			c->device = device;
			return 0;
		}
	c = n < CONTEXTS_MAX ? calloc(1, sizeof(*c)) : NULL;
	if (!c)
		return n < CONTEXTS_MAX ? -ENOMEM : 0;
	*c = (struct qp_context){ .proc = proc, .addr = addr, .device = device, .next = m->state->qp.contexts };
	m->state->qp.contexts = c;
	return 0;
}

/* --- one queue pair --- */

static bool fits(const struct qp *q, uint64_t context, const char *device)
{
	return (!context || !q->context || q->context == context) &&
	       (!*device || !*q->device || !strcmp(q->device, device));
}

static struct qp *find_fitting(const struct model *m, uint64_t proc, uint32_t qpn, uint64_t context, const char *device,
			       bool gone)
{
	const struct qp_chain *c = chain_find(m, proc, qpn);
	const struct proc *p = model_proc(m, proc);
	struct qp *q = c ? c->newest : NULL;

	while (q && (q->proc != p || qp_alive(q) == gone || !fits(q, context, device)))
		q = q->next_same;
	return q;
}

static void chain_leave(struct model *m, struct qp *q)
{
	struct qp_chain *c = chain_find(m, q->proc->key, q->qpn);
	struct qp **link = c ? &c->newest : NULL;

	while (link && *link && *link != q)
		link = &(*link)->next_same;
	if (link && *link)
		*link = q->next_same;
	if (c && !c->newest) {
		HASH_DEL(m->state->qp.by_number, c);
		free(c);
	}
}

/* What has it as a peer has none until the next tick. */
static void qp_free(struct model *m, struct qp **link)
{
	struct qp *q = *link;

	*link = q->next;
	m->qps.n--;
	m->state->qp.changed = true;
	chain_leave(m, q);
	for (struct qp *o = m->qps.newest; q->is_peer && o; o = o->next)
		if (o->peer == q) {
			o->peer = NULL;
			o->peer_how = QP_PEER_NONE;
		}
	free(q);
}

static bool room_make(struct model *m)
{
	struct qp **gone = NULL;

	if (m->qps.n < QPS_KEPT)
		return true;
	for (struct qp **link = &m->qps.newest; *link; link = &(*link)->next)
		if (!qp_alive(*link))
			gone = link; /* the oldest stands last */
	if (gone)
		qp_free(m, gone);
	else
		m->qps.cut++;
	return gone;
}

static struct qp *qp_new(struct model *m, const struct event *e, const char *device)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct qp_chain *c = p ? chain_get(m, p->p.key, e->qp.qpn) : NULL;
	struct qp *q = c ? calloc(1, sizeof(*q)) : NULL;

	if (!q)
		return NULL;
	*q = (struct qp){ .proc = &p->p,
			  .context = e->qp.context,
			  .device = device,
			  .qpn = e->qp.qpn,
			  .state = QP_STATE_UNKNOWN,
			  .first_ns = e->ts_ns,
			  .next = m->qps.newest,
			  .next_same = c->newest };
	m->qps.newest = c->newest = q;
	m->qps.n++;
	m->state->qp.changed = true;
	return q;
}

/* 0 and NULL: there is no room for it. A creation is another one than what had its number before. */
static int qp_get(struct model *m, const struct event *e, bool made, bool may_be_gone, struct qp **ret)
{
	const char *device = *e->qp.device ? e->qp.device : context_device(m, event_proc(e), e->qp.context);
	struct qp *q = find_fitting(m, event_proc(e), e->qp.qpn, e->qp.context, device, false);

	*ret = NULL;
	if (q && made && q->context) { /* its destruction was not seen */
		q->gone = true;
		q->gone_ns = e->ts_ns;
		q = NULL;
	}
	if (!q && may_be_gone)
		q = find_fitting(m, event_proc(e), e->qp.qpn, e->qp.context, device, true);
	if (!q && !room_make(m))
		return 0;
	if (!q)
		q = qp_new(m, e, device);
	if (!q)
		return -ENOMEM;
	q->context = e->qp.context ? e->qp.context : q->context;
	if (*device && !*q->device) {
		q->device = device;
		m->state->qp.changed = true;
	}
	*ret = q;
	return 0;
}

/* Libraries answer a failure by the same call that they close one with, to flush what is posted. */
static void state_take(struct qp *q, uint8_t state, bool by_program, uint64_t ts_ns)
{
	if (state == QP_STATE_UNKNOWN || state == q->state)
		return;
	q->state = state;
	q->state_ns = ts_ns;
	q->failed = q->failed && (state == QP_ERR || state == QP_SQE);
	q->closing = state == QP_ERR && by_program && !q->failed;
}

static int now_take(struct model *m, const struct event *e)
{
	enum qp_change change = e->qp.now.change;
	struct qp *q;
	int err = context_note(m, event_proc(e), e->qp.context, e->qp.device);

	if (!err && change == QP_GONE && !find_fitting(m, event_proc(e), e->qp.qpn, e->qp.context, e->qp.device, false))
		return 0;
	if (!err)
		err = qp_get(m, e, change == QP_MADE, false, &q); /* lint: without an error it is set */
	if (err || !q)
		return err;
	state_take(q, e->qp.now.state, change == QP_CHANGED && !e->qp.now.by_kernel, e->ts_ns);
	q->type = e->qp.now.type ? e->qp.now.type : q->type;
	q->port = e->qp.now.port ? e->qp.now.port : q->port;
	q->dest_qpn = e->qp.now.dest_qpn ? e->qp.now.dest_qpn : q->dest_qpn;
	if (e->qp.now.has_gid) {
		q->has_gid = true;
		memcpy(q->gid, e->qp.now.gid, sizeof(q->gid));
	}
	q->dlid = e->qp.now.dlid ? e->qp.now.dlid : q->dlid;
	q->gone = change == QP_GONE;
	q->gone_ns = q->gone ? e->ts_ns : 0;
	m->state->qp.changed = true;
	return 0;
}

static void error_take(struct qp *q, const struct event *e)
{
	q->failed = true;
	if (q->error_ns)
		return;
	q->error_status = e->qp.error.status;
	q->error_name = e->qp.error.name;
	q->error_ns = e->ts_ns;
}

/* Totals are read by the collector, now and then: also of what was destroyed since. */
static int sampled_take(struct model *m, const struct event *e)
{
	struct qp *q;
	int err = qp_get(m, e, false, true, &q);

	if (err || !q)
		return err;
	if (e->kind == EV_QP_TOTALS) {
		q->totals = e->qp.totals;
		q->totals_ns = e->ts_ns;
	} else if (e->kind == EV_QP_ASYNC) {
		q->async_name = e->qp.async.name;
		q->async_ns = e->ts_ns;
		q->failed |= e->qp.async.type >= ASYNC_QP_FATAL && e->qp.async.type <= ASYNC_QP_ACCESS_ERR;
	} else {
		error_take(q, e);
	}
	return 0;
}

static int gids_take(struct model *m, const struct event *e)
{
	struct node *n = node_get(m, e->node);
	struct own_gids *o = n ? n->own : NULL;

	if (!n)
		return -ENOMEM;
	while (o && (strcmp(o->device, e->qp.device) || o->port != e->qp.own.port))
		o = o->next;
	if (!o) {
		o = calloc(1, sizeof(*o));
		if (!o)
			return -ENOMEM;
		o->next = n->own;
		n->own = o;
	}
	o->device = e->qp.device;
	o->port = e->qp.own.port;
	o->lid = e->qp.own.lid;
	o->n = smaller(e->qp.own.n, OWN_GIDS_MAX);
	memcpy(o->gids, e->qp.own.gids, o->n * sizeof(o->gids[0]));
	m->state->qp.changed = true;
	return 0;
}

int qp_apply(struct model *m, const struct event *e)
{
	if (e->kind == EV_GIDS)
		return gids_take(m, e);
	if (!e->qp.qpn)
		return -EINVAL;
	return e->kind == EV_QP ? now_take(m, e) : sampled_take(m, e);
}

/* --- the end --- */

static void contexts_forget(struct model *m, uint64_t proc)
{
	struct qp_context **link = &m->state->qp.contexts, *c;

	while ((c = *link)) {
		if (c->proc != proc) {
			link = &c->next;
			continue;
		}
		*link = c->next;
		free(c);
	}
}

void qps_gone_proc(struct model *m, const struct proc *p)
{
	contexts_forget(m, p->key);
	for (struct qp *q = m->qps.newest; q; q = q->next)
		if (q->proc == p && !q->gone) {
			q->gone = true;
			q->gone_ns = m->now_ns;
		}
	m->state->qp.changed = true;
}

void qps_forget_proc(struct model *m, const struct proc *p)
{
	struct qp **link = &m->qps.newest;

	if (model_proc(m, p->key) == p)
		contexts_forget(m, p->key);
	while (*link)
		if ((*link)->proc == p)
			qp_free(m, link);
		else
			link = &(*link)->next;
}

static void qps_sweep(struct model *m)
{
	struct qp **link = &m->qps.newest;

	while (*link)
		if ((*link)->gone && m->now_ns > (*link)->gone_ns + KEEP_NS)
			qp_free(m, link);
		else
			link = &(*link)->next;
}

void qps_tick(struct model *m)
{
	if (m->now_ns >= m->state->qp.swept_ns + SWEEP_EVERY_NS) {
		m->state->qp.swept_ns = m->now_ns;
		qps_sweep(m);
	}
	if (m->state->qp.changed && qp_peers_find(m))
		return; /* without memory: at the next tick */
	m->state->qp.changed = false;
}

void qps_free(struct model *m)
{
	struct qp_context *c;
	struct qp *q, *next;

	for (q = m->qps.newest; q; q = next) {
		next = q->next;
		chain_leave(m, q);
		free(q);
	}
	while ((c = m->state->qp.contexts)) {
		m->state->qp.contexts = c->next;
		free(c);
	}
}

void qp_hold_texts(const struct model *m, struct intern *t)
{
	for (const struct qp *q = m->qps.newest; q; q = q->next) {
		intern_hold(t, q->device);
		intern_hold(t, q->error_name);
		intern_hold(t, q->async_name);
	}
	for (const struct qp_context *c = m->state->qp.contexts; c; c = c->next)
		intern_hold(t, c->device);
}

void own_gids_free(struct node *n)
{
	struct own_gids *o;

	while ((o = n->own)) {
		n->own = o->next;
		free(o);
	}
}
