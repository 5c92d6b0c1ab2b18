/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto_ops.c - API calls, operations and the flows between them. Both ends of a flow are written together: a call
 * waits for its operation, an operation for those of its peers, so that no flow is ever left with one end, not
 * even in a file cut by kill -9. What waits is bounded.
 */
#include "sink/perfetto/perfetto.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CALL_NS 10000     /* drawn length of a call: only its entry is probed */
#define CAPTURED_NS 1000  /* the same, for a call that is drawn before the thread's next */
#define HELD_OPS_MAX 4096 /* then the oldest are drawn without those that are missing */
#define HELD_NS 5000000000u
#define STREAM_LANES_MAX 32
#define WAIT_MIN_NS 1000 /* less is no wait that anybody would see */

static const char CATEGORY[] = "nccl";

int call_add(struct perfetto_sink *p, struct thread *t, const struct event *e)
{
	struct call_key key = { .tid = e->tid, .node = e->node, .ts_ns = e->ts_ns };
	struct pending_call *c;

	HASH_FIND(hh, p->calls, &key, sizeof(key), c);
	if (c)
		return 0;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->key = key;
	c->proc = event_proc(e);
	c->op = e->op.op;
	c->end_ns = e->ts_ns + CALL_NS;
	HASH_ADD(hh, p->calls, key, sizeof(c->key), c);
	t->last_call = c;
	return 0;
}

void call_bound(struct thread *t, uint64_t ts_ns)
{
	struct pending_call *c = t->last_call;

	t->last_call = NULL;
	/* one ns apart: on one track, an end and a begin of the same time are distinguished by their order in the file
	 */
	if (c && ts_ns <= c->end_ns)
		c->end_ns = ts_ns > c->key.ts_ns ? ts_ns - 1 : c->key.ts_ns;
}

static void call_free(struct perfetto_sink *p, struct pending_call *c)
{
	struct thread_key key = { c->key.node, c->key.tid };
	struct thread *t;

	HASH_FIND(hh, p->threads, &key, sizeof(key), t);
	if (t && t->last_call == c)
		t->last_call = NULL;
	HASH_DEL(p->calls, c);
	free(c);
}

static void call_draw(struct perfetto_sink *p, uint64_t track, enum op_kind op, uint64_t begin_ns, uint64_t end_ns,
		      uint64_t flow, bool captured)
{
	struct trace_file *f = &p->file;

	event_open(f, TYPE_SLICE_BEGIN, track, begin_ns, CATEGORY, p->call_names[op]);
	event_bool(f, "end_measured", false);
	if (captured)
		event_bool(f, "captured", true);
	if (flow)
		event_flow(f, flow, false);
	event_close(f);
	slice_end(f, track, end_ns);
}

/* Times from its call on. */
static void net_draw(struct trace_file *f, const struct drawn_op *d)
{
	if (!d->net.posts)
		return;
	event_u64(f, "rdma_posts", d->net.posts);
	event_u64(f, "rdma_bytes", d->net.bytes);
	event_u64(f, "rdma_first_post_us", d->net.first_ns > d->call_ns ? (d->net.first_ns - d->call_ns) / 1000 : 0);
	event_u64(f, "rdma_last_post_us", d->net.last_ns > d->call_ns ? (d->net.last_ns - d->call_ns) / 1000 : 0);
	event_u64(f, "rdma_whole", !d->net.shared);
	event_u64(f, "rdma_done_us", d->net.done_ns > d->call_ns ? (d->net.done_ns - d->call_ns) / 1000 : 0);
}

/* To three digits: more would be a claim. */
static double rounded(double v)
{
	char text[32];

	snprintf(text, sizeof(text), "%.3g", v);
	return strtod(text, NULL);
}

/* An end that is known to a tenth of the transfer gives a bandwidth, any other a bound: the true end is no later. */
static void bandwidth_draw(struct trace_file *f, const struct drawn_op *d, uint64_t bytes)
{
	uint64_t begin_ns = d->transfer_ns ? d->transfer_ns : d->begin_ns;
	uint64_t ns = d->end_ns > begin_ns ? d->end_ns - begin_ns : 0;
	bool exact = d->end_error_ns * 10 <= ns;
	double algbw;

	if (!bytes || !ns || d->open || d->graph || d->cut)
		return;
	algbw = rounded((double)bytes / ns);
	event_double(f, exact ? "algbw_GBps" : "algbw_GBps_at_least", algbw);
	event_double(f, exact ? "busbw_GBps" : "busbw_GBps_at_least",
		     rounded(algbw * op_bus_factor(d->kind, d->nranks)));
}

/* The two parts lie in the operation's slice. */
static void parts_draw(struct trace_file *f, const struct drawn_op *d)
{
	char name[40] = "wait";

	if (!d->transfer_ns)
		return;
	if (d->last_rank >= 0 && d->last_rank != d->rank)
		snprintf(name, sizeof(name), "wait for rank %d", d->last_rank);
	event_open(f, TYPE_SLICE_BEGIN, d->lane_uuid, d->begin_ns, CATEGORY, NULL);
	event_title(f, name);
	event_close(f);
	slice_end(f, d->lane_uuid, d->transfer_ns);
	event_open(f, TYPE_SLICE_BEGIN, d->lane_uuid, d->transfer_ns, CATEGORY, "transfer");
	event_close(f);
	slice_end(f, d->lane_uuid, d->end_ns);
}

/* "AllReduce #365 16 MiB" */
static void op_title(struct trace_file *f, const struct drawn_op *d, uint64_t bytes)
{
	char title[64], size[24] = "";

	if (bytes)
		bytes_text(size, sizeof(size), bytes);
	snprintf(title, sizeof(title), "%s #%" PRIu64 "%s%s", op_kind_name(d->kind), d->seq, bytes ? " " : "", size);
	event_title(f, title);
}

static void op_draw(struct perfetto_sink *p, const struct drawn_op *d, uint64_t chain, bool chain_ends)
{
	struct trace_file *f = &p->file;
	uint64_t flow = d->thread_uuid ? ++p->next_flow : 0;
	uint64_t bytes = op_size_bytes(d->kind, d->count, d->dtype, d->nranks);

	if (flow)
		call_draw(p, d->thread_uuid, d->kind, d->call_ns, d->call_end_ns, flow, false);
	event_open(f, TYPE_SLICE_BEGIN, d->lane_uuid, d->begin_ns, CATEGORY, NULL);
	op_title(f, d, bytes);
	event_u64(f, "seq", d->seq);
	if (bytes)
		event_u64(f, "bytes", bytes);
	bandwidth_draw(f, d, bytes);
	if (d->transfer_ns)
		event_u64(f, "wait_us", (d->transfer_ns - d->begin_ns) / 1000);
	if (d->last_rank >= 0)
		event_i64(f, "last_rank", d->last_rank);
	event_u64(f, "count", d->count);
	if (dtype_name(d->dtype))
		event_interned(f, "dtype", dtype_name(d->dtype));
	if (d->root >= 0)
		event_i64(f, "root", d->root);
	if (d->peer >= 0)
		event_i64(f, "peer", d->peer);
	if (d->comm_hash)
		event_pointer(f, "comm", d->comm_hash);
	if (d->from_attach)
		event_bool(f, "seq_from_attach", true);
	if (d->graph)
		event_interned(f, "times", "spread evenly over the launch of its graph");
	if (d->cut)
		event_bool(f, "drawn_shorter", true);
	if (d->open)
		event_interned(f, "end", "unknown");
	else
		event_u64(f, "end_error_us", (d->end_error_ns + 999) / 1000);
	net_draw(f, d);
	if (flow)
		event_flow(f, flow, true);
	if (chain)
		event_flow(f, chain, chain_ends);
	event_close(f);
	parts_draw(f, d);
	slice_end(f, d->lane_uuid, d->end_ns);
}

static bool drawn_before(const struct drawn_op *a, const struct drawn_op *b)
{
	return a->begin_ns != b->begin_ns ? a->begin_ns < b->begin_ns : a->call_ns < b->call_ns;
}

/* No rank can end one of these before the last has come: all give and all take. Clocks of two hosts are not compared.
 */
static bool waits_for_all(const struct drawn_op *ops, int n)
{
	enum op_kind kind = ops[0].kind;

	if (n < 2 || n != ops[0].nranks || (kind != OP_ALLREDUCE && kind != OP_ALLGATHER && kind != OP_REDUCESCATTER))
		return false;
	for (int i = 0; i < n; i++)
		if (!ops[i].all_seen || ops[i].open || ops[i].graph || !ops[i].enqueue_ns || ops[i].kind != kind ||
		    ops[i].node != ops[0].node)
			return false;
	return true;
}

/* On its stream, as far as is known: it was enqueued, and what lay before it was over. */
static uint64_t arrival_ns(const struct drawn_op *d)
{
	uint64_t busy_ns = d->stream ? d->stream->busy_until_ns : 0;
	uint64_t at_ns = d->enqueue_ns > busy_ns ? d->enqueue_ns : busy_ns;

	return at_ns < d->begin_ns ? at_ns : d->begin_ns;
}

/* Who was enqueued last, if all the others had arrived by then; -1: a stream was busy, it may have been the last. */
static int last_arrived(const struct drawn_op *ops, int n)
{
	int last = 0;

	for (int i = 1; i < n; i++)
		if (ops[i].enqueue_ns > ops[last].enqueue_ns)
			last = i;
	for (int i = 0; i < n; i++)
		if (i != last && arrival_ns(&ops[i]) >= ops[last].enqueue_ns)
			return -1;
	return ops[last].rank;
}

/* begin_ns is a bound of the whole operation so far: each rank's wait lies before it. */
static void ops_split(struct drawn_op *ops, int n)
{
	uint64_t transfer_ns = 0;
	int last_rank;

	if (!waits_for_all(ops, n))
		return;
	last_rank = last_arrived(ops, n);
	for (int i = 0; i < n; i++)
		transfer_ns = ops[i].begin_ns > transfer_ns ? ops[i].begin_ns : transfer_ns;
	for (int i = 0; i < n; i++) {
		uint64_t at_ns = arrival_ns(&ops[i]);

		ops[i].last_rank = last_rank;
		if (transfer_ns >= ops[i].end_ns || transfer_ns < at_ns + WAIT_MIN_NS)
			continue;
		ops[i].begin_ns = at_ns;
		ops[i].transfer_ns = transfer_ns;
	}
}

/* Its lane is shared when there are no more: parts would lie across others' slices. */
static void lane_take(struct perfetto_sink *p, struct drawn_op *d)
{
	d->lane_uuid = track_lane(p, d->stream, STREAM_LANES_MAX, &d->begin_ns, &d->end_ns, &d->cut);
	if (!d->stream)
		return;
	if (d->cut || d->stream->n_lanes == STREAM_LANES_MAX)
		d->transfer_ns = 0;
	if (d->end_ns > d->stream->busy_until_ns && !d->open)
		d->stream->busy_until_ns = d->end_ns;
}

/* A flow runs in the order of time and ends at its last slice, so the slices are sorted; the last to call ends it. */
static void ops_draw(struct perfetto_sink *p, struct drawn_op *ops, int n)
{
	uint64_t chain = n > 1 ? ++p->next_flow : 0;

	ops_split(ops, n);
	for (int i = 0; i < n; i++)
		lane_take(p, &ops[i]);
	for (int i = 1; i < n; i++)
		for (int k = i; k > 0 && drawn_before(&ops[k], &ops[k - 1]); k--) {
			struct drawn_op swap = ops[k];

			ops[k] = ops[k - 1];
			ops[k - 1] = swap;
		}
	for (int i = 0; i < n; i++)
		op_draw(p, &ops[i], chain, i == n - 1);
}

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

static void captured_draw(struct perfetto_sink *p, const struct op *op, const struct model *m)
{
	struct call_key key = { .tid = op->tid, .node = op->member->proc->key >> 32, .ts_ns = op->call_ns };
	struct pending_call *c;

	HASH_FIND(hh, p->calls, &key, sizeof(key), c);
	if (!c)
		return;
	call_draw(p, thread_uuid(p, m, c->proc, c->key.tid), c->op, c->key.ts_ns, c->key.ts_ns + CAPTURED_NS, 0, true);
	call_free(p, c);
}

static void drawn_fill(struct perfetto_sink *p, struct drawn_op *d, const struct op *op, const struct model *m)
{
	struct call_key key = { .tid = op->tid, .node = op->member->proc->key >> 32, .ts_ns = op->call_ns };
	struct pending_call *c;
	uint64_t begin_ns = op->start_bound_ns ? op->start_bound_ns : op->enqueue_ns;
	uint64_t end_ns = op->end_ns ? op->end_ns : m->now_ns;

	HASH_FIND(hh, p->calls, &key, sizeof(key), c);
	begin_ns = begin_ns > op->call_ns ? begin_ns : op->call_ns; /* no bound: an open group */
	*d = (struct drawn_op){
		.stream = stream_track(p, m, op),
		.thread_uuid = c ? thread_uuid(p, m, op->member->proc->key, op->tid) : 0,
		.begin_ns = begin_ns,
		.end_ns = end_ns > begin_ns ? end_ns : begin_ns,
		.call_ns = op->call_ns,
		.enqueue_ns = op->enqueue_ns,
		.rank = op->member->rank,
		.nranks = op->member->comm ? op->member->comm->nranks : 0,
		.all_seen = op->member->comm && op->member->comm->n_seen == op->member->comm->nranks,
		.last_rank = -1,
		.node = op->member->proc->key >> 32,
		.call_end_ns = c ? c->end_ns : 0,
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

static void gather_draw(struct perfetto_sink *p, struct gather *g)
{
	ops_draw(p, g->ops, g->n);
	p->n_held -= (size_t)g->n;
	*(g->older ? &g->older->newer : &p->oldest) = g->newer;
	*(g->newer ? &g->newer->older : &p->newest) = g->older;
	HASH_DEL(p->gathers, g);
	free(g);
}

static struct gather *gather_get(struct perfetto_sink *p, const struct gather_key *key, int n_expected, uint64_t now_ns)
{
	struct gather *g;

	HASH_FIND(hh, p->gathers, key, sizeof(*key), g);
	if (g)
		return g;
	g = calloc(1, sizeof(*g) + (size_t)n_expected * sizeof(g->ops[0]));
	if (!g)
		return NULL;
	g->key = *key;
	g->n_expected = n_expected;
	g->born_ns = now_ns;
	g->older = p->newest;
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
	struct pending_call *c, *next;

	while (p->oldest)
		gather_draw(p, p->oldest);
	HASH_ITER (hh, p->calls, c, next) {
		call_draw(p, thread_uuid(p, m, c->proc, c->key.tid), c->op, c->key.ts_ns, c->end_ns, 0, false);
		call_free(p, c);
	}
}

void ops_free(struct perfetto_sink *p)
{
	struct pending_call *c, *next_call;
	struct gather *g, *next;

	HASH_ITER (hh, p->calls, c, next_call)
		call_free(p, c);
	HASH_ITER (hh, p->gathers, g, next) {
		HASH_DEL(p->gathers, g);
		free(g);
	}
}
