/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_records.c - what the probes on NCCL's API write, and what it means.
 */
#include "tracers/nccl/nccl.h"
#include "tracers/nccl/nccl_hash.h"
#include "tracers/nccl/nccl_layout.h"
#include "record.h"

/* An empty collective is none: NCCL returns at once and counts nothing. An empty transfer still meets its peer. */
static int decode_op(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct nccl_op *r = (const void *)rec;

	(void)strings;
	if (!r->count && r->op != OP_SEND && r->op != OP_RECV)
		return 0;
	if (!ranks_possible(r->root, 0) || !ranks_possible(r->peer, 0))
		return -EINVAL;
	e->kind = EV_OP;
	e->op.addr = r->comm;
	e->op.stream = r->stream;
	e->op.count = r->count;
	e->op.counters_sum = r->counters_sum;
	e->op.counters_valid = r->counters_valid;
	e->op.op = r->op < OP_KIND_MAX ? r->op : OP_ALLREDUCE;
	e->op.dtype = r->dtype;
	e->op.redop = redop_decode(r->redop);
	e->op.root = r->root;
	e->op.peer = r->peer;
	e->op.group_depth = r->group_depth;
	return 1;
}

/* Memory that does not look like a communicator gives no event: "unknown", never a guess. */
static int decode_comm(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct nccl_comm *r = (const void *)rec;

	(void)strings;
	if (r->magic != NCCL_MAGIC || r->end_magic != NCCL_MAGIC || !r->hash)
		return 0;
	if (!ranks_possible(r->rank, 0) || !ranks_possible(-1, r->nranks))
		return -EINVAL;
	if (r->rank < 0 || r->rank >= r->nranks) /* it was read while it was made, or given back */
		return 0;
	e->kind = EV_COMM_SEEN;
	e->comm_seen.addr = r->comm;
	e->comm_seen.hash = r->hash;
	e->comm_seen.rank = r->rank;
	e->comm_seen.nranks = r->nranks;
	e->comm_seen.device = r->device;
	e->comm_seen.counters_valid = r->n_counters > 0;
	for (uint32_t i = 0; i < r->n_counters && i < NCCL_COUNTERS_MAX; i++)
		e->comm_seen.counters_sum += r->counters[i];
	return 1;
}

static int decode_init(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct nccl_init *r = (const void *)rec;

	(void)strings;
	if (!ranks_possible(r->rank, r->nranks))
		return -EINVAL;
	e->kind = EV_COMM_INIT;
	e->comm_init.kind = r->how < COMM_INIT_KIND_MAX ? r->how : COMM_INIT_RANK;
	e->comm_init.parent_addr = r->parent;
	e->comm_init.id_hash = r->has_id ? nccl_id_hash(r->id, sizeof(r->id)) : 0;
	e->comm_init.rank = r->rank;
	e->comm_init.nranks = r->nranks;
	e->comm_init.color = r->color;
	e->comm_init.key = r->key;
	return 1;
}

static int decode_ready(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct nccl_ready *r = (const void *)rec;
	struct event *span = e + 1;

	(void)strings;
	if (!ranks_possible(r->rank, r->nranks))
		return -EINVAL;
	*span = *e;
	e->kind = EV_COMM_READY;
	e->comm_init.kind = r->how < COMM_INIT_KIND_MAX ? r->how : COMM_INIT_RANK;
	e->comm_init.addr = r->comm;
	e->comm_init.parent_addr = r->parent;
	e->comm_init.id_hash = r->has_id ? nccl_id_hash(r->id, sizeof(r->id)) : 0;
	e->comm_init.rank = r->rank;
	e->comm_init.nranks = r->nranks;
	e->comm_init.result = r->result;
	e->comm_init.returned = r->returned;
	if (!r->returned)
		return 1;
	span->kind = EV_SPAN;
	span->generic.name = comm_init_kind_name(e->comm_init.kind);
	span->generic.begin_ns = r->begin_ns;
	span->generic.args[0] = (struct event_arg){ .name = "result", .number = r->result };
	span->generic.args[1] = (struct event_arg){ .name = "nranks", .number = r->nranks };
	span->generic.n_args = 2;
	return 2;
}

static int decode_group(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct nccl_group *r = (const void *)rec;

	(void)strings;
	e->kind = r->end ? EV_GROUP_END : EV_GROUP_START;
	e->group.depth_before = r->depth;
	return 1;
}

static int decode_gone(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct nccl_gone *r = (const void *)rec;

	(void)strings;
	e->kind = EV_COMM_GONE;
	e->comm_gone.addr = r->comm;
	e->comm_gone.kind = r->how;
	return 1;
}

/* No operation of the model: it has no number that a peer's call shares. Drawn on its thread. */
static int decode_signal(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	static const char *const names[] = { [NCCL_PUT_SIGNAL] = "ncclPutSignal",
					     [NCCL_SEND_SIGNAL] = "ncclSignal",
					     [NCCL_WAIT_SIGNAL] = "ncclWaitSignal" };
	const struct nccl_signal *r = (const void *)rec;

	(void)strings;
	if (r->what < NCCL_PUT_SIGNAL || r->what > NCCL_WAIT_SIGNAL)
		return -EINVAL;
	e->kind = EV_INSTANT;
	e->generic.name = names[r->what];
	e->generic.args[0] = (struct event_arg){ .name = "count", .number = (int64_t)r->count };
	e->generic.args[1] = (struct event_arg){ .name = "peer", .number = r->peer };
	e->generic.n_args = r->peer >= 0 ? 2 : 1;
	return 1;
}

#define NCCL(id) .tracer = WIRE_NCCL, .kind = id
const struct record_kind source_records_nccl[] = {
	{ "nccl_op", NCCL(NCCL_OP), .size = sizeof(struct nccl_op), .decode = decode_op },
	{ "nccl_comm", NCCL(NCCL_COMM), .size = sizeof(struct nccl_comm), .decode = decode_comm },
	{ "nccl_init", NCCL(NCCL_INIT), .size = sizeof(struct nccl_init), .decode = decode_init },
	{ "nccl_ready", NCCL(NCCL_READY), .size = sizeof(struct nccl_ready), .n_events = 2,
	  .times = { offsetof(struct nccl_ready, begin_ns) }, .decode = decode_ready },
	{ "nccl_group", NCCL(NCCL_GROUP), .size = sizeof(struct nccl_group), .decode = decode_group },
	{ "nccl_signal", NCCL(NCCL_SIGNAL), .size = sizeof(struct nccl_signal), .decode = decode_signal },
	{ "nccl_gone", NCCL(NCCL_GONE), .size = sizeof(struct nccl_gone), .decode = decode_gone },
	{}
};
