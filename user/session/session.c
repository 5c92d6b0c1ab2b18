/* SPDX-License-Identifier: Apache-2.0
 *
 * session.c - the loop of a live trace. Read work() first: it is one round of the loop.
 *
 * Every record goes through session_emit() into the reorder window and leaves it in order of time. The loop itself only
 * decides what to poll and when.
 */
#include "session/load_error.h"
#include "session/session_private.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/larger.h"
#include "base/log.h"
#include "base/shares.h"
#include "attach/loader.h"
#include "attach/probe_rows.h"
#include "metrics/metrics.h"
#include "session/outputs.h"
#include "pipeline/reorder.h"
#include "record.h"
#include "schemas/collector.h"
#include "sampler.h"
#include "session/probe_budget.h"
#include "session/escalate.h"
#include "session/greeting.h"
#include "session/loop_files.h"
#include "session/page.h"
#include "session/parts/long_work.h"
#include "session/parts/phases.h"
#include "session/stacks.h"
#include "session/targets.h"
#include "inspect/discover/discover.h"
#include "inspect/reader/reader.h"
#include "inspect/stack/symbolize.h"

#define TICK_EVERY_NS 250000000ull /* period of the detectors */
#define CLOCK_SET_NS 10000000ull   /* against the monotonic clock: by more the wall clock was set */
#define FLUSH_EVERY_NS 1000000000ull
/* What ended jobs needed lies between what is kept of them: by itself malloc() never gives it back. */
#define TRIM_EVERY_NS 30000000000ull
#define START_SCAN_NS 1000000000ull
#define WINDOW_NS 30000000ull /* a record reaches the collector within one loop; the rest covers a delay of its CPU */
#define NEW_PROC_POLL_MS 5
#define ATTACH_POLL_MS 5
#define CRITICAL_BYTES (256u << 10)                /* process life: 6,000 forks and exits between two polls */
#define REORDER_LIMIT ((8u << 20) - WIRE_SIZE_MAX) /* 50 ms of 2 M records/s */

/* Without probes the rings stay nearly empty, and no library waits for an attach. */
static const struct pace pace_probes = { 20000000, 50000000, 1000000000, 10000000000 },
			 pace_watch = { 125000000, 500000000, 5000000000, 600000000000 };

/* All times of a record move, as on a host whose clock is wrong. */
static int session_feed(void *of, const struct wire_hdr *rec)
{
	const struct session *s = of;
	union {
		struct wire_hdr h;
		char bytes[WIRE_SIZE_MAX];
	} u;
	uint64_t *ns;

	if (!s->cfg.clock_offset_ns)
		return pipeline_feed(s->pipeline, rec);
	memcpy(&u, rec, rec->size);
	u.h.ts_ns += s->cfg.clock_offset_ns;
	for (int i = 0; (ns = record_time(&u.h, i)); i++)
		*ns += *ns ? s->cfg.clock_offset_ns : 0;
	return pipeline_feed(s->pipeline, &u.h);
}

static int drain(struct session *s, uint64_t until_ns)
{
	return reorder_drain(s->reorder, until_ns, session_feed, s);
}

int session_emit(void *to, const struct wire_hdr *rec)
{
	struct session *s = to;
	int err;

	if ((rec->tracer == WIRE_LIFE || rec->tracer == WIRE_NCCL) && s->targets)
		session_targets_note(s->targets, rec);
	err = reorder_put(s->reorder, rec);
	return !err && reorder_full(s->reorder) ? drain(s, 0) : err;
}

struct wire_hdr session_record(size_t size, uint8_t kind, uint64_t now_ns)
{
	return (struct wire_hdr){ .size = size, .tracer = WIRE_COLLECTOR, .kind = kind, .ts_ns = now_ns };
}

static int start_emit(struct session *s, uint64_t now_ns)
{
	union {
		struct record_start f;
		char bytes[sizeof(struct record_start) + 256];
	} u = {};
	size_t len;

	gethostname(u.f.host, 255);
	len = strlen(u.f.host) + 1;
	u.f.hdr = session_record((sizeof(u.f) + len + 7) & ~7ul, RECORD_START, now_ns);
	u.f.realtime_offset_ns = s->realtime_offset_ns = clock_realtime_offset_ns();
	u.f.dstate_limit_ns = s->cfg.dstate_limit_ns;
	u.f.hang_floor_ns = s->cfg.hang_floor_ns;
	u.f.busy_limit_ns = s->cfg.busy_limit_ns;
	u.f.version = WIRE_VERSION;
	u.f.by = START_BY_SESSION;
	u.f.host_len = len;
	return session_emit(s, &u.f.hdr);
}

static void libbpf_line(const char *line)
{
	log_debug("%s", line);
}

uint64_t session_ring_bytes(enum tier tier)
{
	return tier == TIER_WATCH ? SESSION_RING_BYTES / 16 : SESSION_RING_BYTES;
}

static int parts_make(struct session *s, char *error, size_t error_size)
{
	size_t n_filters, ring_bytes = s->cfg.ring_bytes ? s->cfg.ring_bytes : session_ring_bytes(s->cfg.tier);
	const struct target_filter *filters = session_target_filters(&n_filters);
	struct loader_cfg cfg = {
		.reader = s->reader,
		.dstate_limit_ns = s->cfg.dstate_limit_ns,
		.tier = s->cfg.tier,
		.prices = s->cfg.budget_ppm || s->cfg.budget_node_ppm,
		.ring_bytes = { [RING_CRITICAL] = CRITICAL_BYTES,
				[RING_NORMAL] = ring_bytes,
				[RING_BULK] = s->cfg.tier == TIER_TRACE
						      ? CRITICAL_BYTES
						      : ring_bytes }, /* tier watch may escalate to burst */
		.emit = session_emit,
		.emit_to = s,
		.log = libbpf_line,
	};
	int err;

	reader_set_timeout(s->reader, READER_TIMEOUT_MS);
	s->reorder = reorder_new(REORDER_LIMIT);
	s->shares = shares_new();
	if (!s->reorder || !s->shares)
		return -ENOMEM;
	err = target_set_new(s->reader, filters, n_filters, &s->set);
	if (!err)
		err = symbolizer_new(s->reader, &s->symbols);
	if (err)
		return err;
	target_set_share(s->set, s->shares);
	if (s->cfg.tier == TIER_WATCH)
		target_set_unhurried(s->set);
	cfg.targets = s->set;
	cfg.shares = s->shares;
	cfg.shared_probes = s->cfg.shared_probes;
	cfg.symbols = s->symbols;
	err = loader_open(&cfg, &s->loader);
	if (err)
		return load_error_say(err, error, error_size);
	err = loader_confine(s->loader);
	err = err ? err : tracers_check(s->loader, error, error_size);
	if (!err && s->cfg.flight.dir)
		err = flight_new(&s->cfg.flight, &s->flight, error, error_size);
	if (err)
		return err;
	if (s->flight)
		flight_tap(s->flight, s->pipeline);
	s->targets = session_targets_new(&s->cfg, s->set, s->loader, s->shares, session_emit, s);
	s->greeting = greeting_new(&s->cfg, s->targets);
	if (s->targets && s->cfg.tier == TIER_WATCH && s->cfg.raise_ns && !s->cfg.no_raise)
		s->escalator = escalator_new(&s->cfg, s->pipeline, s->targets, session_emit, s);
	if (s->cfg.stack_reader)
		s->stacks = session_stacks_new(s->cfg.stack_reader, s->pipeline, session_emit, s);
	if (s->targets && (s->cfg.budget_ppm || s->cfg.budget_node_ppm))
		s->probe_budget = probe_budget_new(&s->cfg, s->loader, s->targets, session_emit, s);
	s->windows = (struct windows){ .asker = s->cfg.windows,
				       .stacks = s->stacks,
				       .stacks_ask = session_stacks_ask,
				       .stacks_asked = session_stacks_asked };
	return s->targets && s->greeting ? loop_files_open(s) : -ENOMEM;
}

int session_open(const struct session_cfg *cfg, struct reader *reader, struct pipeline *p, struct session **ret,
		 char *error, size_t error_size)
{
	struct session *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	*s = (struct session){ .cfg = *cfg,
			       .pace = cfg->tier == TIER_WATCH ? &pace_watch : &pace_probes,
			       .reader = reader,
			       .pipeline = p,
			       .timer_fd = -1,
			       .signal_fd = -1,
			       .child_fd = -1,
			       .result.child_status = -1 };
	notify_open(&s->notify);
	hurry_open(&s->hurry, s->pace->loop_ns); /* loading takes a second of CPU time */
	snprintf(error, error_size, "out of memory");
	err = parts_make(s, error, error_size);
	if (err)
		session_free(s);
	else
		*ret = s;
	return err;
}

void session_free(struct session *s)
{
	if (!s)
		return;
	pipeline_set_tap(s->pipeline, NULL, NULL);
	hurry_close(&s->hurry);
	notify_close(&s->notify);
	flight_free(s->flight);
	samplers_free(s->samplers);
	session_stacks_free(s->stacks);
	session_phases_close(s->phases);
	escalator_free(s->escalator);
	probe_budget_free(s->probe_budget);
	greeting_free(s->greeting);
	session_targets_free(s->targets);
	if (s->loader)
		load_left_say(loader_detach(s->loader));
	loader_free(s->loader);
	symbolizer_free(s->symbols);
	target_set_free(s->set);
	shares_free(s->shares);
	reorder_free(s->reorder);
	if (s->timer_fd >= 0)
		close(s->timer_fd);
	if (s->signal_fd >= 0)
		close(s->signal_fd);
	if (s->child_fd >= 0)
		close(s->child_fd);
	free(s);
}

/* A service without what reads processes ends with an error, as its manager starts it anew; else it goes on with what
 * calls and counters show. */
static int turn_begin(struct session *s, uint64_t now_ns)
{
	bool is_ahead;

	hurry_beat(&s->hurry, now_ns);
	if (hurry_changed(&s->hurry, &is_ahead))
		reader_hurry(s->reader, is_ahead);
	notify_turn(&s->notify, now_ns);
	shares_turn(s->shares, now_ns);
	reader_check(s->reader);
	return reader_is_lost(s->reader) && s->notify.fd >= 0 ? -ECHILD : 0;
}

/* Consume while attaching: processes that already have probes fill the rings. */
static int attach_more(struct session *s)
{
	uint64_t now_ns = clock_monotonic_ns();
	int more = loader_consume(s->loader), err = more < 0 ? more : 0;

	if (loader_attach_waits(s->loader))
		poll(NULL, 0, ATTACH_POLL_MS);
	err = err ? err : turn_begin(s, now_ns);
	if (!err)
		err = loader_poll(s->loader, now_ns); /* a process may be about to send */
	if (!err && target_set_scan_left(s->set))
		err = target_set_scan_more(s->set);
	if (!err)
		err = session_targets_attach(s->targets, now_ns);
	return err ? err : drain(s, more ? 0 : now_ns - WINDOW_NS);
}

static bool is_traced(const void *of, const struct target_proc *p)
{
	return session_targets_traces(of, p->tgid);
}

static bool is_unseen(const void *of, const struct target_proc *p)
{
	return session_targets_unseen(of, p->tgid);
}

static int samplers_begin(struct session *s)
{
	struct sampler_ctx ctx = {
		.reader = s->reader,
		.targets = s->set,
		.shares = s->shares,
		.is_traced = is_traced,
		.is_traced_of = s->targets,
		.is_unseen = is_unseen,
		.emit = session_emit,
		.emit_to = s,
		.start_ns = s->start_ns,
		.start_boot_ns = s->start_boot_ns,
		.dstate_limit_ns = s->cfg.dstate_limit_ns,
		.probes = s->cfg.tier > TIER_WATCH,
	};

	return samplers_open(&ctx, &s->samplers);
}

/* Attaching to many ranks takes long; reading the processes of a user with thousands is left for later at some time. */
static bool start_unfinished(const struct session *s)
{
	return session_targets_unattached(s->targets) ||
	       (target_set_scan_left(s->set) && clock_monotonic_ns() - s->start_ns < START_SCAN_NS);
}

/* Order: process life, then the existing processes, then their libraries. Samplers come last, so that a node does not
 * record the cost of its own attach. */
static int attach(struct session *s)
{
	uint64_t now_ns = s->start_ns = clock_monotonic_ns();
	const struct target_proc *const *list;
	size_t n;
	int err;

	hurry_beat(&s->hurry, now_ns);
	s->start_boot_ns = clock_boottime_ns();
	shares_turn(s->shares, now_ns);
	err = start_emit(s, now_ns);
	if (!err && s->cfg.phases) {
		s->phases = session_phases_open(s->cfg.phases, s->pipeline, session_emit, s);
		err = s->phases ? 0 : -ENOMEM;
	}
	if (!err)
		err = loader_attach_life(s->loader);
	for (int i = 0; !err && i < s->cfg.n_pids; i++)
		err = loader_target_add(s->loader, s->cfg.pids[i], UID_UNKNOWN);
	if (!err && s->cfg.child)
		err = loader_target_add(s->loader, s->cfg.child, UID_UNKNOWN);
	if (!err)
		err = session_targets_scan(s->targets, now_ns);
	while (!err && !s->stop && start_unfinished(s)) {
		err = attach_more(s);
		session_signals_take(s); /* attaching to many ranks on a busy machine may take long */
	}
	if (!err)
		err = loader_attach_samplers(s->loader);
	if (!err)
		err = samplers_begin(s);
	list = target_set_list(s->set, &n);
	if (!err && !s->stop)
		greeting_start(s->greeting, list, n, clock_monotonic_ns() - now_ns);
	s->scan_ns = s->rescan_ns = s->tick_ns = s->flush_ns = s->trim_ns = s->progress_ns = s->start_ns =
		clock_monotonic_ns();
	tick_grid_begin(&s->ticks, TICK_EVERY_NS, s->start_ns);
	err = err ? err : loop_timer_start(s, s->start_ns);
	if (!err && s->cfg.child && write(s->cfg.child_go_fd, "", 1) != 1)
		err = -errno;
	if (s->cfg.child)
		close(s->cfg.child_go_fd);
	return err;
}

static bool due(uint64_t *last_ns, uint64_t every_ns, uint64_t now_ns)
{
	if (now_ns - *last_ns < every_ns)
		return false;
	*last_ns = now_ns;
	return true;
}

static int clock_emit(struct session *s, uint64_t now_ns)
{
	struct record_clock f = { .hdr = session_record(sizeof(f), RECORD_CLOCK, now_ns),
				  .realtime_offset_ns = clock_realtime_offset_ns() };
	int64_t moved_ns = f.realtime_offset_ns - s->realtime_offset_ns;

	if (moved_ns < (int64_t)CLOCK_SET_NS && moved_ns > -(int64_t)CLOCK_SET_NS)
		return 0;
	s->realtime_offset_ns = f.realtime_offset_ns;
	log_info("the wall clock was set %s by %.3f s; the order of the trace does not depend on it",
		 moved_ns > 0 ? "forward" : "back", llabs(moved_ns) / 1e9);
	return session_emit(s, &f.hdr);
}

static int tick(struct session *s, uint64_t now_ns)
{
	struct record_tick f = { .hdr = session_record(sizeof(f), RECORD_TICK, now_ns) };
	uint64_t gap_ns = now_ns - s->tick_ns;
	int err;

	if (!tick_grid_due(&s->ticks, now_ns) && !s->tick_soon)
		return 0;
	tick_grid_take(&s->ticks, now_ns);
	s->tick_soon = false;
	s->tick_ns = now_ns;
	laps_gap(&s->result.laps, gap_ns);
	s->page_gap_ns = larger(gap_ns, s->page_gap_ns);
	err = clock_emit(s, now_ns);
	if (!err)
		err = loader_tick(s->loader, now_ns);
	if (!err)
		err = session_emit(s, &f.hdr);
	if (s->phases)
		session_phases_tick(s->phases, now_ns);
	if (!err && s->escalator)
		err = escalator_tick(s->escalator, now_ns);
	session_targets_stand_ins(s->targets, pipeline_model(s->pipeline));
	return err || !s->probe_budget ? err : probe_budget_tick(s->probe_budget, now_ns);
}

static bool has_new_procs(const struct session *s, uint64_t now_ns)
{
	return s->cfg.tier > TIER_WATCH && session_targets_has_new(s->targets, now_ns);
}

static int scan_turn(void *of, uint64_t now_ns)
{
	struct session *s = of;
	const struct target_proc *const *list;
	size_t n;
	int err;

	target_set_until(s->set, tick_grid_latest_ns(&s->ticks));
	if (target_set_scan_cut(s->set) || !due(&s->scan_ns, s->pace->scan_ns, now_ns))
		return target_set_scan_left(s->set) ? target_set_scan_more(s->set) : 0; /* traced at the next rescan */
	err = session_targets_scan(s->targets, now_ns);
	list = target_set_list(s->set, &n);
	greeting_scan(s->greeting, list, n);
	s->comms_refused_said = comms_refused_say(pipeline_model(s->pipeline), s->comms_refused_said);
	return err;
}

static int targets_turn(void *of, uint64_t now_ns)
{
	struct session *s = of;

	if (s->cfg.paused)
		return 0;
	if (due(&s->rescan_ns, s->pace->rescan_ns, now_ns))
		return session_targets_rescan(s->targets, now_ns);
	if (session_targets_unattached(s->targets) && !loader_attach_waits(s->loader))
		return session_targets_attach(s->targets, now_ns);
	return has_new_procs(s, now_ns) ? session_targets_poll_new(s->targets, now_ns) : 0;
}

static int samplers_turn(void *of, uint64_t now_ns)
{
	struct session *s = of;

	samplers_often(s->samplers, session_stacks_recent(s->stacks, now_ns));
	return s->cfg.paused ? 0 : samplers_run(s->samplers, now_ns, tick_grid_latest_ns(&s->ticks));
}

static const struct long_part long_parts[] = {
	{ targets_turn, LAP_TARGETS },
	{ scan_turn, LAP_SCAN },
	{ samplers_turn, LAP_SAMPLERS },
};

/* A ring may still hold an old record, so drain() stops before the time of what is left in it. */
static int work(struct session *s)
{
	struct laps *laps = &s->result.laps;
	uint64_t now_ns;
	int more, err;

	laps_add(laps, LAP_IDLE);
	now_ns = laps->at_ns;
	settings_turn(s);
	more = loader_consume(s->loader);
	err = more < 0 ? more : 0;
	s->more = more > 0;
	laps_add(laps, LAP_RINGS);
	err = err ? err : turn_begin(s, now_ns);
	away_say(loader_away_ns(s->loader));
	if (!err)
		err = loader_poll(s->loader, now_ns);
	if (!err)
		err = long_work_run(long_parts, sizeof(long_parts) / sizeof(*long_parts), &s->part, laps, &s->ticks, s);
	if (!err)
		err = session_stacks_emit(s->stacks, laps->at_ns, &s->tick_soon);
	laps_add(laps, LAP_STACKS);
	if (!err)
		err = tick(s, laps->at_ns);
	laps_add(laps, LAP_TICK);
	if (!err)
		err = drain(s, s->more ? 0 : now_ns - WINDOW_NS);
	laps_add(laps, LAP_RECORDS);
	session_stacks_begin(s->stacks, laps->at_ns);
	laps_add(laps, LAP_STACKS);
	if (s->flight)
		flight_poll(s->flight, pipeline_incidents(s->pipeline), pipeline_model(s->pipeline), now_ns);
	windows_turn(&s->windows, s->flight, s->set, pipeline_model(s->pipeline), now_ns);
	if (s->cfg.metrics && metrics_due(s->cfg.metrics, now_ns))
		session_page_write(s, now_ns);
	if (due(&s->flush_ns, FLUSH_EVERY_NS, now_ns))
		pipeline_flush(s->pipeline);
	if (due(&s->trim_ns, TRIM_EVERY_NS, now_ns))
		malloc_trim(0);
	if (due(&s->progress_ns, s->pace->progress_ns, now_ns))
		session_progress_say(s, log_detail);
	outputs_errors_say(s->pipeline);
	laps_add(laps, LAP_WRITE);
	if (!s->cfg.child && !pipeline_has_output(s->pipeline)) { /* CMD is worth more than the findings */
		log_warn("no output of this session is read any more: it ends");
		s->stop = true;
	}
	return err;
}

/* Every process of --pid is gone, so nothing more can come. A session over all jobs of the host goes on. */
static bool job_ended(const struct session *s)
{
	return !s->cfg.child && s->cfg.n_pids && session_targets_seen(s->targets) && !session_targets_alive(s->targets);
}

/* Timeout of poll() in ms, -1 none: short while there is work to do at once. */
static int poll_timeout_ms(const struct session *s)
{
	if (s->more || s->part)
		return 0;
	if (session_targets_unattached(s->targets))
		return loader_attach_waits(s->loader) ? ATTACH_POLL_MS : 0;
	return has_new_procs(s, clock_monotonic_ns()) ? NEW_PROC_POLL_MS : -1;
}

static int loop(struct session *s)
{
	int err = 0;

	notify_say(&s->notify, "READY=1");
	while (!err && !s->stop) {
		err = loop_wait(s, poll_timeout_ms(s));
		err = err ? err : work(s);
		if (s->cfg.duration_ns && clock_monotonic_ns() - s->start_ns >= s->cfg.duration_ns)
			s->stop = true;
		if (job_ended(s))
			s->stop = s->result.job_ended = true;
	}
	return err;
}

/* Take what the rings still hold, do one more tick, then emit the end. */
static int finish(struct session *s)
{
	struct record_stop f = { .records = pipeline_records(s->pipeline) };
	int err;

	do
		err = loader_consume(s->loader);
	while (err > 0);
	if (!err)
		err = loader_tick(s->loader, clock_monotonic_ns());
	f.hdr = session_record(sizeof(f), RECORD_STOP, clock_monotonic_ns());
	if (!err)
		err = session_emit(s, &f.hdr);
	if (!err)
		err = drain(s, UINT64_MAX);
	pipeline_flush(s->pipeline);
	outputs_errors_say(s->pipeline);
	if (s->flight)
		flight_finish(s->flight, pipeline_incidents(s->pipeline), pipeline_model(s->pipeline), f.hdr.ts_ns);
	return err;
}

int session_run(struct session *s, struct session_result *ret)
{
	int err = attach(s), end;

	if (!err && !loader_attaches_per_process(s->loader))
		attach_shared_say(s->cfg.shared_probes);
	if (!err)
		err = loop(s);
	notify_say(&s->notify, "STOPPING=1");
	end = finish(s);
	s->result.records = pipeline_records(s->pipeline);
	s->result.ops = pipeline_model(s->pipeline)->n_ops;
	for (int i = 0; i < RING_CLASSES; i++)
		s->result.lost[i] = loader_lost(s->loader, i);
	s->result.ring_bytes_mapped = loader_ring_bytes_mapped(s->loader);
	if (s->probe_budget)
		probe_budget_sums(s->probe_budget, &s->result.budget);
	s->result.late = reorder_late(s->reorder);
	s->result.processes = session_targets_seen(s->targets);
	s->result.probes = loader_probes(s->loader);
	s->result.ran = true;
	*ret = s->result;
	return err ? err : end;
}
