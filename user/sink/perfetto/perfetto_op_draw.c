/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto_op_draw.c - operations of one (communicator, sequence) as slices: where each waits and transfers, on which
 * lane, in which order, with which values.
 */
#include "sink/perfetto/perfetto.h"

#define STREAM_LANES_MAX 32
#define WAIT_MIN_NS 1000 /* less is no wait that anybody would see */

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

/* To three digits: more would be a claim. An end that is known to a tenth of the transfer gives a bandwidth, any other
 * a bound: the true end is no later. */
static void bandwidth_draw(struct trace_file *f, const struct drawn_op *d, uint64_t bytes)
{
	uint64_t begin_ns = d->transfer_ns ? d->transfer_ns : d->begin_ns;
	uint64_t ns = d->end_ns > begin_ns ? d->end_ns - begin_ns : 0;
	bool exact = d->end_error_ns * 10 <= ns;
	double algbw;

	if (!bytes || !ns || d->open || d->graph || d->cut)
		return;
	algbw = three_digits((double)bytes / ns);
	event_double(f, exact ? "algbw_GBps" : "algbw_GBps_at_least", algbw);
	event_double(f, exact ? "busbw_GBps" : "busbw_GBps_at_least",
		     three_digits(algbw * op_bus_factor(d->kind, d->nranks)));
}

/* The two parts lie in the operation's slice. */
static void parts_draw(struct trace_file *f, const struct drawn_op *d)
{
	char name[40], *to = put_text(name, "wait");

	if (!d->transfer_ns)
		return;
	if (d->last_rank >= 0 && d->last_rank != d->rank)
		put_number(put_text(to, " for rank "), (uint64_t)d->last_rank);
	event_open(f, TYPE_SLICE_BEGIN, d->lane_uuid, d->begin_ns, NCCL_CATEGORY, NULL);
	event_title(f, name);
	event_close(f);
	slice_end(f, d->lane_uuid, d->transfer_ns);
	event_open(f, TYPE_SLICE_BEGIN, d->lane_uuid, d->transfer_ns, NCCL_CATEGORY, "transfer");
	event_close(f);
	slice_end(f, d->lane_uuid, d->end_ns);
}

/* "AllReduce #365 16 MiB" */
static void op_title(struct trace_file *f, const struct drawn_op *d, uint64_t bytes)
{
	char title[64], *to = put_number(put_text(put_text(title, op_kind_name(d->kind)), " #"), d->seq);

	if (bytes)
		put_bytes(put_text(to, " "), bytes);
	event_title(f, title);
}

static void op_draw(struct perfetto_sink *p, const struct drawn_op *d, uint64_t chain, bool chain_ends)
{
	struct trace_file *f = &p->file;
	uint64_t flow = d->thread_uuid ? ++p->next_flow : 0;
	uint64_t bytes = op_size_bytes(d->kind, d->count, d->dtype, d->nranks);

	if (flow)
		call_draw(p, d->thread_uuid, d->kind, d->call_ns, d->call_next_ns, flow, false);
	event_open(f, TYPE_SLICE_BEGIN, d->lane_uuid, d->begin_ns, NCCL_CATEGORY, NULL);
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
	if (d->in_process_group)
		event_u64(f, "process_group_seq", d->process_group_seq);
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

/* Two lists in order of time as one, from the first; of two alike that of `a` comes first. */
static struct drawn_op *merged(struct drawn_op *a, struct drawn_op *b)
{
	struct drawn_op *first = NULL, **at = &first, **from;

	while (a && b) {
		from = drawn_before(b, a) ? &b : &a;
		*at = *from;
		at = &(*from)->later;
		*from = (*from)->later;
	}
	*at = a ? a : b;
	return first;
}

static struct drawn_op *sorted(struct drawn_op *ops, int n)
{
	ops->later = NULL;
	return n < 2 ? ops : merged(sorted(ops, n / 2), sorted(ops + n / 2, n - n / 2));
}

/* A flow runs in the order of time and ends at its last slice, so the slices are sorted; the last to call ends it. */
void ops_draw(struct perfetto_sink *p, struct drawn_op *ops, int n)
{
	uint64_t chain = n > 1 ? ++p->next_flow : 0;

	ops_split(ops, n);
	for (int i = 0; i < n; i++)
		lane_take(p, &ops[i]);
	for (const struct drawn_op *d = sorted(ops, n); d; d = d->later)
		op_draw(p, d, chain, !d->later);
}
