/* SPDX-License-Identifier: Apache-2.0
 *
 * collector_records.c - the source "collector": what the collector writes about itself, its session and its probes. It
 * has no folder in tracers/: session, loader and recordings write these. Not one struct with the event: nearly all have
 * texts, flags that are booleans there, or numbers that are checked and become enums.
 */
#include <stdio.h>

#include "pipeline/snapshot_record.h"
#include "source.h"
#include "schemas/collector.h"
#include "schemas/probing.h"

static int decode_start(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_start *f = (const void *)rec;

	e->kind = EV_START;
	e->start.realtime_offset_ns = f->realtime_offset_ns;
	e->start.dstate_limit_ns = f->dstate_limit_ns;
	e->start.hang_floor_ns = f->hang_floor_ns;
	e->start.busy_limit_ns = f->busy_limit_ns;
	e->start.by_autopsy = f->by == START_BY_AUTOPSY;
	e->start.by_session = f->by == START_BY_SESSION;
	e->start.host = record_text(rec, sizeof(*f), f->host_len, strings);
	return e->start.host ? 1 : -EINVAL;
}

static int decode_node(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_node *f = (const void *)rec;

	e->kind = EV_NODE;
	e->node = f->node;
	e->host.name = record_text(rec, sizeof(*f), f->host_len, strings);
	e->host.clock_offset_ns = f->clock_offset_ns;
	e->host.clock_error_ns = f->clock_error_ns;
	return e->host.name ? 1 : -EINVAL;
}

static int decode_heard(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	(void)strings;
	e->kind = EV_NODE_HEARD;
	e->heard.silent = ((const struct record_node_heard *)rec)->silent;
	return 1;
}

static int decode_clock(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_clock *f = (const void *)rec;

	(void)strings;
	e->kind = EV_CLOCK;
	e->clock.realtime_offset_ns = f->realtime_offset_ns;
	return 1;
}

static int decode_limits(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_limits *f = (const void *)rec;

	(void)strings;
	e->kind = EV_LIMITS;
	e->start.dstate_limit_ns = f->dstate_limit_ns;
	e->start.hang_floor_ns = f->hang_floor_ns;
	e->start.busy_limit_ns = f->busy_limit_ns;
	return 1;
}

static int decode_loss(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_loss *f = (const void *)rec;

	(void)strings;
	e->kind = EV_LOSS;
	e->loss.lost = f->lost;
	e->loss.lost_total = f->lost_total;
	e->loss.class = f->ring;
	return 1;
}

static int decode_lib(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_lib *f = (const void *)rec;
	char hex[41] = "";

	for (int i = 0; i < f->build_id_len && i < 20; i++)
		snprintf(hex + 2 * i, 3, "%02x", f->build_id[i]);
	e->kind = EV_LIB;
	e->lib.lib_id = f->lib_id;
	e->lib.n_probes = f->n_probes;
	e->lib.for_tracer = f->for_tracer;
	e->lib.has_layout = f->has_layout;
	e->lib.build_id = intern(strings, hex);
	e->lib.path = record_text(rec, sizeof(*f), f->path_len, strings);
	return e->lib.path ? 1 : -EINVAL;
}

static int decode_attach(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_attach *f = (const void *)rec;

	(void)strings;
	e->kind = EV_ATTACH;
	e->attach.begin_ns = f->begin_ns;
	e->attach.n_probes = f->n_probes;
	e->attach.for_tracer = f->for_tracer;
	e->attach.group = f->group;
	e->attach.shared = f->shared;
	return 1;
}

_Static_assert((int)RECORD_PROBES_CALLS == PROBES_CALLS && (int)RECORD_PROBES_POLLS == PROBES_POLLS &&
		       (int)RECORD_PROBES_POSTS == PROBES_POSTS && (int)RECORD_PROBES_BURST == PROBES_BURST &&
		       (int)RECORD_PROBE_GROUPS == PROBE_GROUPS && (int)RECORD_BUDGET_SHED == BUDGET_SHED &&
		       (int)RECORD_BUDGET_BACK == BUDGET_BACK && (int)RECORD_BUDGET_KEPT == BUDGET_KEPT &&
		       (int)RECORD_BUDGET_WATCH == BUDGET_WATCH && (int)RECORD_PROBES_EVENTS == PROBES_EVENTS &&
		       (int)RECORD_PROBES_RANGES == PROBES_RANGES && (int)RECORD_PROBES_GC == PROBES_GC,
	       "probe_group.h numbers as schemas/probing.h");

static int decode_tier(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_tier *f = (const void *)rec;

	(void)strings;
	e->kind = EV_TIER;
	e->tier.tier = f->tier;
	e->tier.before = f->before;
	e->tier.incident = f->incident;
	return f->tier <= RECORD_TIER_BURST && f->before <= RECORD_TIER_BURST ? 1 : -EINVAL;
}

static int decode_budget(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_budget *f = (const void *)rec;

	(void)strings;
	e->kind = EV_BUDGET;
	e->budget.what = f->what;
	e->budget.group = f->group;
	e->budget.shed = f->shed;
	e->budget.hits_per_s = f->hits_per_s;
	e->budget.node_hits_per_s = f->node_hits_per_s;
	e->budget.cost_ns = f->cost_ns;
	e->budget.node_cost_ns = f->node_cost_ns;
	e->budget.budget_ppm = f->budget_ppm;
	e->budget.of_node = f->flags & RECORD_BUDGET_OF_NODE;
	e->budget.assumed = f->flags & RECORD_BUDGET_ASSUMED;
	e->budget.of_other = f->flags & RECORD_BUDGET_SHARED;
	_Static_assert(RECORD_PROBE_GROUPS == 8 * sizeof(f->shed), "each bit of it is a group");
	return f->what <= RECORD_BUDGET_WATCH && f->group < RECORD_PROBE_GROUPS ? 1 : -EINVAL;
}

static int decode_known_phase(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_known_phase *f = (const void *)rec;
	const uint16_t lens[] = { f->job_len, f->site_len, f->wait_len };
	const char **const texts[] = { &e->known_phase.job, &e->known_phase.site, &e->known_phase.wait };

	e->kind = EV_KNOWN_PHASE;
	e->known_phase.n = f->n;
	e->known_phase.longest_ns = f->longest_ns;
	e->known_phase.usual_ns = f->usual_ns;
	e->known_phase.interval_ns = f->interval_ns;
	e->known_phase.interval_steps = f->interval_steps;
	return record_texts(rec, sizeof(*f), 3, lens, texts, strings);
}

#define COLLECTOR(id) .tracer = WIRE_COLLECTOR, .kind = id
const struct record_kind source_records_collector[] = {
	{ "start", COLLECTOR(RECORD_START), .size = sizeof(struct record_start), .in_autopsy = true,
	  .decode = decode_start },
	{ "node", COLLECTOR(RECORD_NODE), .size = sizeof(struct record_node), .decode = decode_node },
	{ "node_heard", COLLECTOR(RECORD_NODE_HEARD), .size = sizeof(struct record_node_heard),
	  .decode = decode_heard },
	{ "partial", COLLECTOR(RECORD_PARTIAL), .size = sizeof(struct record_partial), .in_autopsy = true,
	  .event = EV_PARTIAL },
	{ "tick", COLLECTOR(RECORD_TICK), .size = sizeof(struct record_tick), .in_autopsy = true, .event = EV_TICK },
	{ "stop", COLLECTOR(RECORD_STOP), .size = sizeof(struct record_stop), .in_autopsy = true, .event = EV_STOP },
	{ "clock", COLLECTOR(RECORD_CLOCK), .size = sizeof(struct record_clock), .decode = decode_clock },
	{ "limits", COLLECTOR(RECORD_LIMITS), .size = sizeof(struct record_limits), .decode = decode_limits },
	{ "loss", COLLECTOR(RECORD_LOSS), .size = sizeof(struct record_loss), .decode = decode_loss },
	{ "lib", COLLECTOR(RECORD_LIB), .size = sizeof(struct record_lib),
	  .kept_by = offsetof(struct record_lib, lib_id), .decode = decode_lib },
	{ "attach", COLLECTOR(RECORD_ATTACH), .size = sizeof(struct record_attach),
	  .times = { offsetof(struct record_attach, begin_ns) }, .decode = decode_attach },
	{ "tier", COLLECTOR(RECORD_TIER), .size = sizeof(struct record_tier),
	  .kept_by = offsetof(struct record_tier, incident), .decode = decode_tier },
	{ "budget", COLLECTOR(RECORD_BUDGET), .size = sizeof(struct record_budget),
	  .kept_by = offsetof(struct record_budget, reserved), .decode = decode_budget },
	{ "known_phase", COLLECTOR(RECORD_KNOWN_PHASE), .size = sizeof(struct record_known_phase),
	  .kept_by = offsetof(struct record_known_phase, number), .decode = decode_known_phase },
	/* Its body is the model's own: no clock but this host's will do. */
	{ "snapshot", COLLECTOR(RECORD_SNAPSHOT), .size = sizeof(struct record_snapshot), .decode = snapshot_decode },
	{}
};

const struct source_live source_collector = {}; /* sessions write these, wherever something happens */
