/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto_ops.c - operations wait for those of their peers, so that no flow is ever left with one end, not even in a
 * file cut by kill -9. What waits is bounded.
 */
#include "sink/perfetto/perfetto.h"

#include <errno.h>
#include <stdlib.h>

#define HELD_OPS_MAX 4096 /* then the oldest are drawn without those that are missing */
#define HELD_NS 5000000000u

/* What a launch runs is known to lie between it and its end, and in which order; where in between is not. */
static void graph_spread(struct drawn_op *d, const struct op *op)
{
	uint64_t all_ns = d->end_ns - d->begin_ns;

	d->graph = true;
	if (!op->graph_n)
		return;
	d->end_ns = d->begin_ns + (uint64_t)((double)all_ns * (op->graph_i + 1) / op->graph_n);
	d->begin_ns += (uint64_t)((double)all_ns * op->graph_i / op->graph_n);
}

static void drawn_fill(struct perfetto_sink *p, struct drawn_op *d, const struct op *op, const struct model *m)
{
	struct pending_call *c = call_of(p, op);
	uint64_t begin_ns = op->start_bound_ns ? op->start_bound_ns : op->enqueue_ns;
	uint64_t end_ns = op->end_ns ? op->end_ns : m->now_ns;

	begin_ns = begin_ns > op->call_ns ? begin_ns : op->call_ns; /* no bound: an open group */
	*d = (struct drawn_op){
		.stream = stream_track(p, m, op),
		.thread_uuid = c ? thread_track_uuid(p, m, c->track) : 0,
		.begin_ns = begin_ns,
		.end_ns = end_ns > begin_ns ? end_ns : begin_ns,
		.call_ns = op->call_ns,
		.enqueue_ns = op->enqueue_ns,
		.rank = op->member->rank,
		.nranks = op->member->comm ? op->member->comm->nranks : 0,
		.all_seen = op->member->comm && op->member->comm->n_seen == op->member->comm->nranks,
		.last_rank = -1,
		.node = op->member->proc->key >> 32,
		.call_next_ns = c ? c->next_ns : 0,
		.end_error_ns = op->end_error_ns,
		.count = op->count,
		.seq = op->seq,
		.comm_hash = op->member->comm ? op->member->comm->hash : 0,
		.kind = op->kind,
		.dtype = op->dtype,
		.root = op->root,
		.peer = op->peer,
		.open = !op->end_ns,
		.from_attach = op->seq_from_attach,
		.process_group_seq = op->process_group_seq,
		.in_process_group = op->in_process_group,
		.net = op->net,
	};
	if (op->graph_exec && op->end_ns)
		graph_spread(d, op);
	if (c)
		call_free(p, c);
}

/* How many operations belong together with this one, it included; 1: none is known to. */
static int gather_expected(const struct op *op, struct gather_key *key)
{
	const struct member *mb = op->member;
	const struct comm *c = mb->comm;
	bool sends = op->kind == OP_SEND;

	if (!c || !c->hash || op->seq_from_attach)
		return 1;
	*key = (struct gather_key){ .hash = c->hash, .seq = op->seq, .space = op_space(op), .from = -1, .to = -1 };
	if (!op_kind_p2p(op->kind))
		return c->n_seen;
	if (mb->rank < 0 || op->peer < 0 || op->peer >= c->nranks || !c->by_rank || !c->by_rank[op->peer])
		return 1;
	key->from = sends ? mb->rank : op->peer;
	key->to = sends ? op->peer : mb->rank;
	return 2;
}

/* Tens of thousands a second come and go, of few sizes. */
static struct gather *gather_new(struct perfetto_sink *p, int n_expected)
{
	struct gather *g;
	int size = 0;

	while (size < GATHER_SIZES - 1 && 1 << size < n_expected)
		size++;
	g = p->spare[size];
	if (!g) {
		g = malloc(sizeof(*g) + (sizeof(g->ops[0]) << size));
		if (g)
			g->size = size;
		return g;
	}
	p->spare[size] = g->newer;
	p->n_spare -= (size_t)1 << size;
	return g;
}

static void gather_release(struct perfetto_sink *p, struct gather *g)
{
	if (p->n_spare >= HELD_OPS_MAX) {
		free(g);
		return;
	}
	g->newer = p->spare[g->size];
	p->spare[g->size] = g;
	p->n_spare += (size_t)1 << g->size;
}

static void gather_draw(struct perfetto_sink *p, struct gather *g)
{
	ops_draw(p, g->ops, g->n);
	p->n_held -= (size_t)g->n;
	*(g->older ? &g->older->newer : &p->oldest) = g->newer;
	*(g->newer ? &g->newer->older : &p->newest) = g->older;
	HASH_DEL(p->gathers, g);
	gather_release(p, g);
}

static struct gather *gather_get(struct perfetto_sink *p, const struct gather_key *key, int n_expected, uint64_t now_ns)
{
	struct gather *g;

	HASH_FIND(hh, p->gathers, key, sizeof(*key), g);
	if (g)
		return g;
	g = gather_new(p, n_expected);
	if (!g)
		return NULL;
	*g = (struct gather){
		.key = *key, .n_expected = n_expected, .size = g->size, .born_ns = now_ns, .older = p->newest
	};
	*(p->newest ? &p->newest->newer : &p->oldest) = g;
	p->newest = g;
	HASH_ADD(hh, p->gathers, key, sizeof(g->key), g);
	return g;
}

int op_add(struct perfetto_sink *p, const struct op *op, const struct model *m)
{
	struct gather_key key;
	int n_expected = gather_expected(op, &key);
	struct drawn_op alone;
	struct gather *g;

	if (op->captured) {
		captured_draw(p, op, m);
		return 0;
	}
	step_add(p, op, m);
	if (n_expected < 2) {
		drawn_fill(p, &alone, op, m);
		ops_draw(p, &alone, 1);
		return 0;
	}
	g = gather_get(p, &key, n_expected, m->now_ns);
	if (!g)
		return -ENOMEM;
	drawn_fill(p, &g->ops[g->n++], op, m);
	p->n_held++;
	if (g->n == g->n_expected)
		gather_draw(p, g);
	while (p->n_held > HELD_OPS_MAX)
		gather_draw(p, p->oldest);
	return 0;
}

void ops_age(struct perfetto_sink *p, uint64_t now_ns)
{
	while (p->oldest && p->oldest->born_ns + HELD_NS < now_ns)
		gather_draw(p, p->oldest);
}

void ops_finish(struct perfetto_sink *p, const struct model *m)
{
	while (p->oldest)
		gather_draw(p, p->oldest);
	calls_left_draw(p, m);
}

void ops_free(struct perfetto_sink *p)
{
	struct gather *g, *next;

	calls_free(p);
	HASH_ITER (hh, p->gathers, g, next) {
		HASH_DEL(p->gathers, g);
		free(g);
	}
	for (int size = 0; size < GATHER_SIZES; size++)
		while ((g = p->spare[size])) {
			p->spare[size] = g->newer;
			free(g);
		}
}
