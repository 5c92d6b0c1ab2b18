/* SPDX-License-Identifier: Apache-2.0
 *
 * decode.c - dispatch by the header's tracer number, and the decoders of the two sources that are no tracer: the
 * collector's facts and the life of processes.
 */
#include "pipeline/decode.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tracers/gpu/decode_gpu.h"
#include "tracers/rdma/decode_port.h"
#include "tracers/rdma/decode_qp.h"
#include "tracers/tcp/decode_tcp.h"
#include "pipeline/retold_fact.h"
#include "schemas/facts.h"
#include "tracers/process/life.h"
#include "schemas/probing.h"

const struct tracer *const tracers_all[] = {
#define TRACER(id, name, help) &tracer_##id,
#include "tracers/tracers.def"
#undef TRACER
	NULL,
};

static const char *text_at(const struct wire_hdr *h, size_t offset, size_t len, struct intern *strings)
{
	return offset + len <= h->size ? intern_bytes(strings, (const char *)h + offset, len) : NULL;
}

static int decode_start(const struct fact_start *f, struct intern *strings, struct event *e)
{
	e->kind = EV_START;
	e->start.realtime_offset_ns = f->realtime_offset_ns;
	e->start.dstate_limit_ns = f->dstate_limit_ns;
	e->start.hang_floor_ns = f->hang_floor_ns;
	e->start.busy_limit_ns = f->busy_limit_ns;
	e->start.host = text_at(&f->hdr, sizeof(*f), f->host_len, strings);
	return e->start.host ? 1 : -EINVAL;
}

static int decode_proc(const struct fact_proc *f, struct intern *strings, struct event *e)
{
	size_t at = sizeof(*f);

	e->kind = EV_PROC;
	e->proc.start_ns = f->start_ns;
	e->proc.parent_tgid = f->parent_tgid;
	e->proc.ns_pid = f->ns_pid;
	e->proc.rank = f->rank;
	e->proc.local_rank = f->local_rank;
	e->proc.world_size = f->world_size;
	e->proc.is_child = f->is_child;
	e->proc.rank_inherited = f->rank_source == RANK_INHERITED;
	e->proc.job = text_at(&f->hdr, at, f->job_len, strings);
	e->proc.name = text_at(&f->hdr, at + f->job_len, f->name_len, strings);
	e->proc.container = text_at(&f->hdr, at + f->job_len + f->name_len, f->container_len, strings);
	at += f->job_len + f->name_len + f->container_len;
	e->proc.pod = text_at(&f->hdr, at, f->pod_len, strings);
	return e->proc.job && e->proc.name && e->proc.container && e->proc.pod ? 1 : -EINVAL;
}

static int decode_lib(const struct fact_lib *f, struct intern *strings, struct event *e)
{
	char hex[41] = "";

	for (int i = 0; i < f->build_id_len && i < 20; i++)
		snprintf(hex + 2 * i, 3, "%02x", f->build_id[i]);
	e->kind = EV_LIB;
	e->lib.lib_id = f->lib_id;
	e->lib.n_probes = f->n_probes;
	e->lib.for_tracer = f->for_tracer;
	e->lib.has_layout = f->has_layout;
	e->lib.build_id = intern(strings, hex);
	e->lib.path = text_at(&f->hdr, sizeof(*f), f->path_len, strings);
	return e->lib.path ? 1 : -EINVAL;
}

static int decode_comm_sample(const struct fact_comm_sample *f, struct event *e)
{
	e->kind = EV_COMM_SAMPLE;
	e->comm_sample.addr = f->comm;
	e->comm_sample.hash = f->hash;
	e->comm_sample.rank = f->rank;
	e->comm_sample.nranks = f->nranks;
	e->comm_sample.device = f->device;
	e->comm_sample.counters_valid = f->n_counters >= OP_KINDS_COUNTED && f->n_counters <= COMM_SAMPLE_COUNTERS;
	for (uint32_t i = 0; i < f->n_counters && i < COMM_SAMPLE_COUNTERS; i++)
		e->comm_sample.counters_sum += f->counters[i];
	memcpy(e->comm_sample.counters, f->counters, sizeof(e->comm_sample.counters));
	e->comm_sample.async_result = f->known & COMM_SAMPLE_ASYNC_RESULT ? f->async_result : 0;
	e->comm_sample.init_state = f->known & COMM_SAMPLE_INIT_STATE ? f->init_state : 0;
	e->comm_sample.aborted = f->known & COMM_SAMPLE_ABORT && f->abort;
	return f->hash && f->rank >= 0 && f->rank < f->nranks ? 1 : -EINVAL;
}

static int decode_task_at(const struct fact_task_at *f, struct intern *strings, struct event *e)
{
	size_t at = sizeof(*f);

	e->kind = EV_TASK_AT;
	e->task_at.wchan = text_at(&f->hdr, at, f->wchan_len, strings);
	e->task_at.syscall = text_at(&f->hdr, at + f->wchan_len, f->syscall_len, strings);
	e->task_at.file = text_at(&f->hdr, at + f->wchan_len + f->syscall_len, f->file_len, strings);
	return e->task_at.wchan && e->task_at.syscall && e->task_at.file ? 1 : -EINVAL;
}

static int decode_host(const struct fact_host *f, struct intern *strings, struct event *e)
{
	e->kind = EV_HOST;
	e->host.pid = f->pid;
	e->host.name = text_at(&f->hdr, sizeof(*f), f->host_len, strings);
	return e->host.name ? 1 : -EINVAL;
}

static int decode_stack(const struct fact_stack *f, struct intern *strings, struct event *e)
{
	const uint16_t lens[] = { f->wait_len,   f->file_len,   f->kernel_len, f->frames_len,
				  f->python_len, f->native_len, f->end_len };
	const char **texts[] = { &e->stack.wait,   &e->stack.file,   &e->stack.kernel, &e->stack.frames,
				 &e->stack.python, &e->stack.native, &e->stack.end };
	size_t at = sizeof(*f);

	e->kind = EV_STACK;
	e->stack.unread = f->flags & STACK_FLAG_UNREAD;
	e->stack.sampled = f->flags & STACK_FLAG_SAMPLED;
	for (int i = 0; i < 7; at += lens[i++]) {
		*texts[i] = text_at(&f->hdr, at, lens[i], strings);
		if (!*texts[i])
			return -EINVAL;
	}
	return 1;
}

static int decode_proxy(const struct fact_proxy *f, struct event *e)
{
	e->kind = EV_PROXY;
	e->proxy.addr = f->comm;
	e->proxy.is_look = f->flags & PROXY_LOOK;
	e->proxy.moving = f->flags & PROXY_MOVING;
	e->proxy.n = f->n;
	e->proxy.thread = f->thread;
	e->proxy.part = (struct proxy_part){
		.op_count = f->op_count,
		.base = f->base,
		.posted = f->posted,
		.received = f->received,
		.flushed = f->flushed,
		.transmitted = f->transmitted,
		.done = f->done,
		.nsteps = f->nsteps,
		.channel = f->channel,
		.peer = f->peer,
		.queued = f->queued,
		.is_send = f->flags & PROXY_SEND,
		.transport = f->transport,
		.coll = f->coll,
		.algorithm = f->algorithm,
		.protocol = f->protocol,
		.state = f->state,
	};
	return e->proxy.is_look || (f->nsteps >= 0 && f->channel >= 0 && f->peer >= 0) ? 1 : -EINVAL;
}

static int decode_tier(const struct fact_tier *f, struct event *e)
{
	e->kind = EV_TIER;
	e->tier.tier = f->tier;
	e->tier.before = f->before;
	e->tier.incident = f->incident;
	return f->tier <= FACT_TIER_BURST && f->before <= FACT_TIER_BURST ? 1 : -EINVAL;
}

_Static_assert((int)FACT_PROBES_CALLS == PROBES_CALLS && (int)FACT_PROBES_POLLS == PROBES_POLLS &&
		       (int)FACT_PROBES_POSTS == PROBES_POSTS && (int)FACT_PROBES_BURST == PROBES_BURST &&
		       (int)FACT_PROBE_GROUPS == PROBE_GROUPS && (int)FACT_BUDGET_SHED == BUDGET_SHED &&
		       (int)FACT_BUDGET_BACK == BUDGET_BACK && (int)FACT_BUDGET_KEPT == BUDGET_KEPT,
	       "probe_group.h numbers as schemas/probing.h");

static int decode_budget(const struct fact_budget *f, struct event *e)
{
	e->kind = EV_BUDGET;
	e->budget.what = f->what;
	e->budget.group = f->group;
	e->budget.shed = f->shed;
	e->budget.hits_per_s = f->hits_per_s;
	e->budget.node_hits_per_s = f->node_hits_per_s;
	e->budget.cost_ns = f->cost_ns;
	e->budget.node_cost_ns = f->node_cost_ns;
	e->budget.budget_ppm = f->budget_ppm;
	e->budget.of_node = f->flags & FACT_BUDGET_OF_NODE;
	e->budget.assumed = f->flags & FACT_BUDGET_ASSUMED;
	return f->what <= FACT_BUDGET_KEPT && f->group < FACT_PROBE_GROUPS && f->shed < 1 << FACT_PROBE_GROUPS
		       ? 1
		       : -EINVAL;
}

static bool is_network(unsigned int kind)
{
	return (kind >= FACT_PORT && kind <= FACT_PORT_USERS) || kind == FACT_QP || kind == FACT_GIDS ||
	       kind == FACT_TCP || kind == FACT_TCP_LOOK;
}

static int decode_network(const struct wire_hdr *h, struct intern *strings, struct event *e)
{
	if (h->kind == FACT_TCP || h->kind == FACT_TCP_LOOK)
		return decode_tcp_fact(h, strings, e);
	return h->kind == FACT_QP || h->kind == FACT_GIDS ? decode_qp_fact(h, strings, e)
							  : decode_port_fact(h, strings, e);
}

static int decode_fact(const struct wire_hdr *h, struct intern *strings, struct event *e)
{
	static const uint16_t sizes[] = {
		[FACT_START] = sizeof(struct fact_start),     [FACT_TICK] = sizeof(struct fact_tick),
		[FACT_PROC] = sizeof(struct fact_proc),       [FACT_THREAD] = sizeof(struct fact_thread),
		[FACT_LIB] = sizeof(struct fact_lib),         [FACT_LOSS] = sizeof(struct fact_loss),
		[FACT_STOP] = sizeof(struct fact_stop),       [FACT_ATTACH] = sizeof(struct fact_attach),
		[FACT_CLOCK] = sizeof(struct fact_clock),     [FACT_COMM_SAMPLE] = sizeof(struct fact_comm_sample),
		[FACT_TASK_AT] = sizeof(struct fact_task_at), [FACT_TIER] = sizeof(struct fact_tier),
		[FACT_BUDGET] = sizeof(struct fact_budget),   [FACT_STACK] = sizeof(struct fact_stack),
		[FACT_PROXY] = sizeof(struct fact_proxy),     [FACT_RETOLD] = sizeof(struct fact_retold),
		[FACT_HOST] = sizeof(struct fact_host),       [FACT_COMM_SCAN] = sizeof(struct fact_comm_scan),
	};
	const struct fact_loss *loss = (const void *)h;
	const struct fact_attach *attach = (const void *)h;

	if (h->kind >= FACT_PRESSURE && h->kind <= FACT_GPU_STATE)
		return decode_gpu_fact(h, strings, e);
	if (is_network(h->kind))
		return decode_network(h, strings, e);
	if (h->kind >= sizeof(sizes) / sizeof(sizes[0]) || !sizes[h->kind] || h->size < sizes[h->kind])
		return -EINVAL;
	switch (h->kind) {
	case FACT_START: return decode_start((const void *)h, strings, e);
	case FACT_PROC: return decode_proc((const void *)h, strings, e);
	case FACT_LIB: return decode_lib((const void *)h, strings, e);
	case FACT_COMM_SAMPLE: return decode_comm_sample((const void *)h, e);
	case FACT_TASK_AT: return decode_task_at((const void *)h, strings, e);
	case FACT_HOST: return decode_host((const void *)h, strings, e);
	case FACT_STACK: return decode_stack((const void *)h, strings, e);
	case FACT_PROXY: return decode_proxy((const void *)h, e);
	case FACT_RETOLD: return retold_decode((const void *)h, strings, e);
	case FACT_TIER: return decode_tier((const void *)h, e);
	case FACT_BUDGET: return decode_budget((const void *)h, e);
	case FACT_TICK: e->kind = EV_TICK; return 1;
	case FACT_COMM_SCAN: e->kind = EV_COMM_SCAN; return 1;
	case FACT_STOP: e->kind = EV_STOP; return 1;
	case FACT_CLOCK:
		e->kind = EV_CLOCK;
		e->clock.realtime_offset_ns = ((const struct fact_clock *)h)->realtime_offset_ns;
		return 1;
	case FACT_THREAD:
		e->kind = EV_THREAD;
		e->thread.name = intern_bytes(strings, ((const struct fact_thread *)h)->name, WIRE_COMM_LEN);
		return 1;
	case FACT_LOSS:
		e->kind = EV_LOSS;
		e->loss.lost = loss->lost;
		e->loss.lost_total = loss->lost_total;
		e->loss.class = loss->ring;
		return 1;
	default:
		e->kind = EV_ATTACH;
		e->attach.begin_ns = attach->begin_ns;
		e->attach.n_probes = attach->n_probes;
		e->attach.for_tracer = attach->for_tracer;
		e->attach.group = attach->group;
		e->attach.shared = attach->shared;
		return 1;
	}
}

static int decode_life(const struct wire_hdr *h, struct event *e)
{
	const struct life_fork *fork = (const void *)h;
	const struct life_exit *exit = (const void *)h;

	if (h->kind == LIFE_EXEC) {
		e->kind = EV_EXEC;
		return 1;
	}
	if (h->size < sizeof(*fork))
		return -EINVAL;
	if (h->kind == LIFE_FORK) {
		e->kind = EV_FORK;
		e->fork.child_tgid = fork->child_tgid;
		e->fork.child_tid = fork->child_tid;
		return 1;
	}
	if (h->kind != LIFE_EXIT)
		return -EINVAL;
	e->kind = EV_EXIT;
	e->exit.last = exit->last;
	e->exit.code = exit->code >> 8 & 0xff;
	e->exit.signal = exit->code & 0x7f;
	return 1;
}

static const struct tracer *tracer_by_id(uint8_t id)
{
	for (const struct tracer *const *t = tracers_all; *t; t++)
		if ((*t)->id == id)
			return *t;
	return NULL;
}

int decode_record(const struct wire_hdr *rec, struct intern *strings, struct event *out)
{
	const struct tracer *t =
		rec->tracer == WIRE_FACT || rec->tracer == WIRE_LIFE ? NULL : tracer_by_id(rec->tracer);
	int max = !t ? 1 : t->events_max ? t->events_max : DECODE_EVENTS_MAX;

	memset(out, 0, max * sizeof(*out)); /* half of what a decode costs: no more of them than there can be */
	for (int i = 0; i < max; i++) {
		out[i].tid = rec->tid;
		out[i].tgid = rec->tgid;
		out[i].cpu = rec->cpu;
		out[i].ts_ns = rec->ts_ns;
	}
	if (rec->tracer == WIRE_FACT)
		return decode_fact(rec, strings, out);
	if (rec->tracer == WIRE_LIFE)
		return decode_life(rec, out);
	return t ? t->decode(rec, strings, out, max) : -EINVAL;
}
