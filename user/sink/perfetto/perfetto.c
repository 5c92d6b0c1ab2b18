/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto.c - the timeline for ui.perfetto.dev: a process for each rank, its threads with the calls that were seen,
 * the operations of each communicator on the streams they ran on, findings, loss and the attach windows.
 */
#include "sink/perfetto/perfetto.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPAN_LANES_MAX 16

static const char TRACER[] = "tracer", OWN[] = "ranktrace";

static int perfetto_open(const char *path, struct sink **ret_sink)
{
	struct perfetto_sink *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	err = trace_open(&p->file, path);
	if (err) {
		free(p);
		return err;
	}
	p->base.class = &sink_perfetto;
	p->next_uuid = UUID_FIRST;
	for (int op = 0; op < OP_KIND_MAX; op++)
		snprintf(p->call_names[op], sizeof(p->call_names[op]), "nccl%s", op_kind_name(op));
	*ret_sink = &p->base;
	return 0;
}

static void counter_draw(struct perfetto_sink *p, uint64_t track, uint64_t ts_ns, int64_t value)
{
	event_open(&p->file, TYPE_COUNTER, track, ts_ns, NULL, NULL);
	pb_i64(&p->file.batch, EVENT_COUNTER_VALUE, value);
	event_close(&p->file);
}

/* The first packets, once the model knows the time. */
static void perfetto_start(struct perfetto_sink *p, const struct model *m, uint64_t ts_ns)
{
	if (p->started)
		return;
	p->started = true;
	trace_start(&p->file, ts_ns, m->realtime_offset_ns, UUID_RANKTRACE);
	p->start_ns = ts_ns;
	global_tracks_write(p);
}

/* From nothing on, so that it is seen when it began. */
static void lost_draw(struct perfetto_sink *p, uint64_t ts_ns, uint64_t lost)
{
	if (!p->lost_drawn) {
		descriptor_write(p, UUID_LOST, 0, "lost records", true);
		counter_draw(p, UUID_LOST, p->start_ns, 0);
	}
	p->lost_drawn = true;
	counter_draw(p, UUID_LOST, ts_ns, (int64_t)lost);
}

static void generic_args(struct perfetto_sink *p, const struct event *e)
{
	for (int i = 0; i < e->generic.n_args && i < EVENT_ARGS_MAX; i++) {
		const struct event_arg *arg = &e->generic.args[i];

		if (arg->text)
			event_text(&p->file, arg->name, arg->text);
		else
			event_i64(&p->file, arg->name, arg->number);
	}
}

/* Any tracer's slice or instant, on a track of that tracer's naming beside the thread. */
static void generic_draw(struct perfetto_sink *p, const struct event *e, const struct model *m)
{
	const char *name = e->generic.track && *e->generic.track ? e->generic.track : "events";
	struct track *track = thread_child_track(p, m, TRACK_KIND_SPANS, event_proc(e), e->tid, name);
	bool is_span = e->kind == EV_SPAN, cut;
	uint64_t begin_ns = is_span ? e->generic.begin_ns : e->ts_ns, end_ns = e->ts_ns, lane;

	lane = is_span ? track_lane(p, track, SPAN_LANES_MAX, &begin_ns, &end_ns, &cut) : track_uuid(p, track);
	event_open(&p->file, is_span ? TYPE_SLICE_BEGIN : TYPE_INSTANT, lane, begin_ns, TRACER, e->generic.name);
	generic_args(p, e);
	event_close(&p->file);
	if (is_span)
		slice_end(&p->file, lane, end_ns);
}

static void attach_draw(struct perfetto_sink *p, const struct event *e, const struct model *m)
{
	struct track_key key = { .kind = TRACK_KIND_RANKTRACE };
	struct track *track = track_get(p, key, UUID_RANKTRACE, "attach");
	uint64_t begin_ns = e->attach.begin_ns, end_ns = e->ts_ns > begin_ns ? e->ts_ns : begin_ns, lane;
	const struct proc *proc = model_proc(m, event_proc(e));
	bool cut;

	lane = track_lane(p, track, SPAN_LANES_MAX, &begin_ns, &end_ns, &cut);
	event_open(&p->file, TYPE_SLICE_BEGIN, lane, begin_ns, OWN, "attach");
	event_u64(&p->file, "pid", e->tgid);
	if (proc && sink_rank(proc) >= 0)
		event_i64(&p->file, "rank", sink_rank(proc));
	event_u64(&p->file, "probes", e->attach.n_probes);
	event_u64(&p->file, "tracer", e->attach.for_tracer);
	event_bool(&p->file, "shared", e->attach.shared);
	event_close(&p->file);
	slice_end(&p->file, lane, end_ns);
}

static void tier_draw(struct perfetto_sink *p, const struct event *e, const struct model *m)
{
	static const char *const names[] = { "probes: none", "probes: calls and waits", "probes: all" };

	event_open(&p->file, TYPE_INSTANT, process_uuid(p, m, event_proc(e)), e->ts_ns, OWN, names[e->tier.tier]);
	if (e->tier.incident)
		event_u64(&p->file, "finding", e->tier.incident);
	event_close(&p->file);
	thread_probes_changed(p, e, m);
}

static void budget_draw(struct perfetto_sink *p, const struct event *e, const struct model *m)
{
	static const char *const what[] = { [BUDGET_SHED] = "no longer probed: ", [BUDGET_BACK] = "probed again: " };
	char title[160] = "probes over their budget";

	if (e->budget.what == BUDGET_COST)
		return;
	if (e->budget.what == BUDGET_WATCH)
		snprintf(title, sizeof(title), "probes: none, over their budget");
	else if (e->budget.what != BUDGET_KEPT)
		snprintf(title, sizeof(title), "%s%s", what[e->budget.what], probe_group_what(e->budget.group));
	event_open(&p->file, TYPE_INSTANT, process_uuid(p, m, event_proc(e)), e->ts_ns, OWN, NULL);
	event_title(&p->file, title);
	event_u64(&p->file, "hits_per_s", e->budget.hits_per_s);
	event_u64(&p->file, "node_hits_per_s", e->budget.node_hits_per_s);
	event_u64(&p->file, "hit_ns", e->budget.cost_ns);
	event_double(&p->file, "budget_percent", e->budget.budget_ppm * 1e-4);
	event_bool(&p->file, "of_node", e->budget.of_node);
	event_close(&p->file);
	thread_probes_shed(p, e, m);
}

static int event_draw(struct perfetto_sink *p, const struct event *e, const struct model *m)
{
	switch (e->kind) {
	case EV_TICK:
		ops_age(p, m->now_ns);
		comms_rename(p, m);
		return 0;
	case EV_PROC:
	case EV_COMM_SEEN: process_seen(p, m, event_proc(e)); return 0;
	case EV_THREAD: thread_rename(p, event_proc(e), e->tid, e->thread.name); return 0;
	case EV_ATTACH: attach_draw(p, e, m); return 0;
	case EV_TIER: tier_draw(p, e, m); return 0;
	case EV_BUDGET: budget_draw(p, e, m); return 0;
	case EV_CLOCK: trace_clock_set(&p->file, e->ts_ns, m->realtime_offset_ns); return 0;
	case EV_LOSS: lost_draw(p, e->ts_ns, m->lost); return 0;
	case EV_SPAN:
	case EV_INSTANT: generic_draw(p, e, m); return 0;
	case EV_COUNTER:
		counter_put(p, process_child_track(p, m, TRACK_KIND_COUNTER, event_proc(e), e->generic.name), NULL,
			    e->ts_ns, e->generic.value);
		return 0;
	case EV_PYTHON_GC: collection_draw(p, e, m); return 0;
	case EV_GPU_SAMPLE:
	case EV_GPU_HEALTH:
	case EV_KERNEL_LOG:
	case EV_XID:
	case EV_PRESSURE: machine_event(p, e, m); return 0;
	case EV_PORT_SAMPLE: port_event_draw(p, e, m); return 0;
	case EV_TCP_SAMPLE: tcp_event_draw(p, e, m); return 0;
	default: return thread_event(p, e, m);
	}
}

/* One failure is reported once; after it the sink is dead and draws nothing. */
static int perfetto_event(struct sink *base, const struct event *e, const struct model *m)
{
	struct perfetto_sink *p = (struct perfetto_sink *)base;
	int err;

	if (p->file.err)
		return 0;
	perfetto_start(p, m, e->ts_ns);
	err = event_draw(p, e, m);
	return err ? err : trace_flush_due(&p->file, m->now_ns);
}

static int perfetto_op(struct sink *base, const struct op *op, const struct model *m)
{
	struct perfetto_sink *p = (struct perfetto_sink *)base;
	int err;

	if (p->file.err)
		return 0;
	perfetto_start(p, m, op->call_ns);
	err = op_add(p, op, m);
	return err ? err : trace_flush_due(&p->file, m->now_ns);
}

static int perfetto_step(struct sink *base, const struct step_done *s, const struct model *m)
{
	struct perfetto_sink *p = (struct perfetto_sink *)base;

	if (p->file.err)
		return 0;
	perfetto_start(p, m, s->begin_ns);
	step_done_draw(p, s, m);
	return trace_flush_due(&p->file, m->now_ns);
}

static int perfetto_incident(struct sink *base, const struct incident *i, const struct model *m)
{
	struct perfetto_sink *p = (struct perfetto_sink *)base;
	int err;

	if (p->file.err)
		return 0;
	perfetto_start(p, m, i->t_ns);
	err = finding_add(p, i, m);
	return err ? err : trace_flush_due(&p->file, m->now_ns);
}

static int perfetto_flush(struct sink *base)
{
	return trace_flush(&((struct perfetto_sink *)base)->file);
}

static int perfetto_close(struct sink *base, const struct model *m)
{
	struct perfetto_sink *p = (struct perfetto_sink *)base;
	int err;

	if (!p->file.err && p->started) {
		ops_finish(p, m);
		steps_finish(p);
		threads_finish(p, m);
		findings_finish(p, m);
	}
	err = trace_close(&p->file);
	ops_free(p);
	threads_free(p);
	tracks_free(p);
	findings_free(p);
	free(p);
	return err;
}

const struct sink_class sink_perfetto = {
	.name = "perfetto",
	.help = "one timeline per rank, for ui.perfetto.dev",
	.suffix = ".pftrace",
	.open = perfetto_open,
	.event = perfetto_event,
	.op = perfetto_op,
	.step = perfetto_step,
	.incident = perfetto_incident,
	.flush = perfetto_flush,
	.close = perfetto_close,
};
