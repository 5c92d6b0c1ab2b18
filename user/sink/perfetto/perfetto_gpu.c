/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto_gpu.c - counters of each GPU (activity, power, clocks, errors), of what tasks wait for, and the kernel log's
 * lines, on tracks of their own: what happened to the hardware while the ranks did what they did.
 */
#include <stdio.h>
#include <string.h>

#include "sink/perfetto/perfetto.h"

static const char KERNEL[] = "kernel";

static void value_write(struct perfetto_sink *p, struct track *t, uint64_t ts_ns, int64_t value)
{
	event_open(&p->file, TYPE_COUNTER, track_uuid(p, t), ts_ns, NULL, NULL);
	pb_i64(&p->file.batch, EVENT_COUNTER_VALUE, value);
	event_close(&p->file);
}

void counter_put(struct perfetto_sink *p, struct track *t, struct track *parent, uint64_t ts_ns, int64_t value)
{
	bool drawn = t && t->n_lanes;

	if (!t || (!drawn && t->held_ns && value == t->held_value))
		return;
	if (!drawn && !t->held_ns) {
		t->held_ns = ts_ns;
		t->held_value = value;
		return;
	}
	if (!drawn) {
		t->parent = parent ? track_uuid(p, parent) : t->parent;
		value_write(p, t, t->held_ns, t->held_value);
	}
	value_write(p, t, ts_ns, value);
}

/* `part`: the host's number << 32 | a GPU's index, or GPU_INDEX_ALL for the machine; ports begin past the GPUs
 * (perfetto_port.c). */
void machine_counter_draw(struct perfetto_sink *p, uint64_t part, const char *group, const char *name, uint64_t ts_ns,
			  int64_t value)
{
	struct track_key parent = { .kind = TRACK_KIND_MACHINE,
				    .node = part >> 32,
				    .tgid = (uint32_t)part,
				    .a = (uintptr_t)TRACK_KIND_MACHINE };
	struct track_key key = { .kind = TRACK_KIND_COUNTER,
				 .node = part >> 32,
				 .tgid = (uint32_t)part,
				 .tid = TRACK_KIND_MACHINE, /* no thread's */
				 .a = (uintptr_t)trace_text(&p->file, name) };
	struct track *t = track_find(p, &key);

	t = t ? t : track_get(p, key, 0, name);
	counter_put(p, t, track_get(p, parent, 0, group), ts_ns, value);
}

static void group_name(char *to, size_t size, const struct model *m, uint32_t node, uint32_t index)
{
	const struct gpu *g = node_gpu(model_node(m, node), index);

	snprintf(to, size, "GPU %u", index);
	for (const struct proc *q = m->procs; g && q; q = q->next)
		if (!q->is_child && gpu_has_proc(g, q) && sink_rank(q) >= 0) {
			snprintf(to, size, "GPU %u · rank %d", index, sink_rank(q));
			return;
		}
}

static void sample_draw(struct perfetto_sink *p, const struct event *e, const struct model *m)
{
	const struct gpu_sample *s = &e->gpu_sample;
	const struct {
		const char *name;
		double value;
	} shares[] = {
		{ "SM activity %", gpu_percent(s->sm_bp) },
		{ "tensor activity %", gpu_percent(s->tensor_bp) },
		{ "DRAM activity %", gpu_percent(s->dram_bp) },
	};
	char group[48];

	group_name(group, sizeof(group), m, e->node, s->index);
	for (int i = 0; i < 3 && s->window_ns; i++)
		if (shares[i].value >= 0)
			machine_counter_draw(p, proc_key(e->node, s->index), group, shares[i].name, e->ts_ns,
					     (int64_t)(shares[i].value + 0.5));
	if (s->power_mw != GPU_NO_VALUE)
		machine_counter_draw(p, proc_key(e->node, s->index), group, "power W", e->ts_ns, s->power_mw / 1000);
	if (s->sm_clock_mhz != GPU_NO_VALUE)
		machine_counter_draw(p, proc_key(e->node, s->index), group, "SM clock MHz", e->ts_ns, s->sm_clock_mhz);
	if (s->temperature_c != GPU_NO_VALUE)
		machine_counter_draw(p, proc_key(e->node, s->index), group, "temperature C", e->ts_ns,
				     s->temperature_c);
	machine_counter_draw(p, proc_key(e->node, s->index), group, "slowdown reasons", e->ts_ns, (int64_t)s->slowdown);
}

static void health_draw(struct perfetto_sink *p, const struct event *e, const struct model *m)
{
	const struct gpu_health *h = &e->gpu_health;
	const struct {
		const char *name;
		uint64_t value;
	} counters[] = {
		{ "ECC uncorrected", h->ecc_uncorrected },   { "ECC corrected", h->ecc_corrected },
		{ "NVLink CRC errors", h->nvlink_crc },      { "NVLink replays", h->nvlink_replay },
		{ "NVLink recoveries", h->nvlink_recovery }, { "PCIe replays", h->pcie_replay },
	};
	char group[48];

	group_name(group, sizeof(group), m, e->node, h->index);
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		if (counters[i].value != ~0ull)
			machine_counter_draw(p, proc_key(e->node, h->index), group, counters[i].name, e->ts_ns,
					     (int64_t)counters[i].value);
}

static void log_draw(struct perfetto_sink *p, const struct event *e)
{
	struct track_key key = {
		.kind = TRACK_KIND_MACHINE, .node = e->node, .tgid = GPU_INDEX_ALL, .a = (uintptr_t)KERNEL
	};
	uint64_t track = track_uuid(p, track_get(p, key, 0, "kernel log"));

	event_open(&p->file, TYPE_INSTANT, track, e->ts_ns, KERNEL, e->kernel_log.class);
	event_text(&p->file, "line", e->kernel_log.text);
	if (e->kernel_log.xid)
		event_u64(&p->file, "xid", e->kernel_log.xid);
	event_close(&p->file);
}

/* In percent of the time since the last sample: PSI's totals are of no use to an eye. */
static void pressure_draw(struct perfetto_sink *p, const struct event *e, const struct model *m)
{
	static const char *const names[3][2] = {
		{ "CPU pressure some %", "CPU pressure full %" },
		{ "memory pressure some %", "memory pressure full %" },
		{ "I/O pressure some %", "I/O pressure full %" },
	};
	const struct proc *proc = e->tgid ? model_proc(m, event_proc(e)) : NULL;
	const struct node *node = model_node(m, e->node);
	const struct pressure *seen = e->tgid ? proc ? &proc->pressure : NULL : node ? &node->pressure : NULL;

	if (!seen || !seen->prev_ns || seen->ts_ns <= seen->prev_ns)
		return;
	for (int r = 0; r < 3; r++)
		for (int full = 0; full < 2; full++) {
			uint64_t waited = seen->now.stall_ns[r][full] - seen->prev.stall_ns[r][full];
			int64_t percent = (int64_t)(100.0 * waited / (seen->ts_ns - seen->prev_ns) + 0.5);

			if (!(seen->now.known >> (2 * r + full) & 1))
				continue;
			if (!e->tgid)
				machine_counter_draw(p, proc_key(e->node, GPU_INDEX_ALL), "host", names[r][full],
						     e->ts_ns, percent);
			else if (!r)
				counter_put(
					p, process_child_track(p, m, TRACK_KIND_COUNTER, event_proc(e), names[r][full]),
					NULL, e->ts_ns, percent);
		}
}

void machine_event(struct perfetto_sink *p, const struct event *e, const struct model *m)
{
	if (e->kind == EV_GPU_SAMPLE)
		sample_draw(p, e, m);
	else if (e->kind == EV_GPU_HEALTH)
		health_draw(p, e, m);
	else if (e->kind == EV_KERNEL_LOG || e->kind == EV_XID)
		log_draw(p, e);
	else if (e->kind == EV_PRESSURE)
		pressure_draw(p, e, m);
}
