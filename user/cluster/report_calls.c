/* SPDX-License-Identifier: Apache-2.0
 *
 * report_calls.c - where a rank's calls stand, where they are seen: what it enqueued and is not over, the oldest of
 * each communicator, with what these lie behind on their streams; and which threads wait for what of it. Counters say
 * what a rank entered; only this says what it has reached.
 */
#include <stdlib.h>

#include "cluster/report_part.h"

#define OPEN_OF_MEMBER 4 /* the oldest: for what lies further back no rank waits yet */
#define OPEN_SCANNED 64

struct chosen {
	const struct op *ops[REPORT_CALLS_MAX];
	size_t n;
};

static void choose(struct chosen *c, const struct op *op)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->ops[i] == op)
			return;
	if (c->n < REPORT_CALLS_MAX)
		c->ops[c->n++] = op;
}

/* What it lies behind first: without that a call would seem to be reached. */
static void member_choose(struct chosen *c, const struct member *mb)
{
	int n = 0, scanned = 0;

	for (const struct op *op = mb->first_open; op && n < OPEN_OF_MEMBER && scanned < OPEN_SCANNED; op = op->next) {
		const struct op *front = op->end_ns || !op->enqueue_ns ? NULL : op_blocked_by(op);

		scanned++;
		if (op->end_ns || !op->enqueue_ns || op_space(op) == SEQ_GRAPH)
			continue;
		n++;
		if (front)
			choose(c, front);
		choose(c, op);
	}
}

static int by_id(const void *a, const void *b)
{
	uint64_t x = (*(const struct op *const *)a)->id, y = (*(const struct op *const *)b)->id;

	return x < y ? -1 : x > y;
}

static Cluster__Call *call_of(struct report_block *b, const struct op *op, uint64_t now_ns)
{
	static const Cluster__Call none = CLUSTER__CALL__INIT;
	Cluster__Call *to = report_alloc(b, sizeof(*to));
	const struct op *front = op_blocked_by(op);

	if (!to)
		return NULL;
	*to = none;
	to->has_id = to->has_comm = to->has_kind = to->has_count = to->has_seq = to->has_age_ns = to->has_tid = 1;
	to->id = op->id;
	to->comm = op->member->addr;
	to->kind = op->kind;
	to->has_dtype = op->dtype >= 0;
	to->dtype = op->dtype;
	to->has_redop = op->redop >= 0;
	to->redop = op->redop;
	to->has_root = op->root >= 0;
	to->root = op->root;
	to->has_peer = op->peer >= 0;
	to->peer = op->peer;
	to->count = op->count;
	to->seq = op->seq;
	to->age_ns = report_age(now_ns, op->enqueue_ns);
	to->has_behind = front != NULL;
	to->behind = front ? front->id : 0;
	to->tid = op->tid;
	return to;
}

static void waits_put(struct report_block *b, const struct proc *p, Cluster__Process *to, uint64_t now_ns)
{
	static const Cluster__HostWait none = CLUSTER__HOST_WAIT__INIT;

	to->waits = report_list(b, REPORT_CALLS_MAX);
	for (const struct call *c = p->calls; c && to->waits && to->n_waits < REPORT_CALLS_MAX; c = c->next) {
		const struct op *front = c->is_sync ? call_blocked_by(p, c) : NULL;
		Cluster__HostWait *one = c->is_sync ? report_alloc(b, sizeof(*one)) : NULL;

		if (!one)
			continue;
		*one = none;
		one->has_tid = one->has_age_ns = 1;
		one->tid = c->tid;
		one->age_ns = report_age(now_ns, c->begin_ns);
		one->has_call = front != NULL;
		one->call = front ? front->id : 0;
		to->waits[to->n_waits++] = one;
	}
}

void report_calls(struct report_block *b, const struct proc *p, Cluster__Process *to, uint64_t now_ns)
{
	struct chosen c = { .n = 0 };

	for (const struct call *w = p->calls; w; w = w->next) { /* what it waits for is to be there */
		const struct op *front = w->is_sync ? call_blocked_by(p, w) : NULL;

		if (front)
			choose(&c, front);
	}
	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
		if (!mb->gone && mb->comm->hash && mb->last_call_ns && mb->seq_known)
			member_choose(&c, mb);
	qsort(c.ops, c.n, sizeof(*c.ops), by_id);
	to->calls = c.n ? report_list(b, c.n) : NULL;
	for (size_t i = 0; i < c.n && to->calls; i++) {
		Cluster__Call *one = call_of(b, c.ops[i], now_ns);

		if (one)
			to->calls[to->n_calls++] = one;
	}
	if (p->calls)
		waits_put(b, p, to, now_ns);
}
