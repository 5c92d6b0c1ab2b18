/* SPDX-License-Identifier: Apache-2.0
 *
 * reload.c - what is wanted of a session while it runs: by signals, and by a user who looks on. Other settings go each
 * to the part whose they are, and no part loses what it knows.
 *
 * Thresholds are the model's, which gets them in a record, so that a replay knows them too.
 */
#include "session/session_private.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "attach/loader.h"
#include "base/clock.h"
#include "base/log.h"
#include "schemas/collector.h"
#include "session/escalate.h"
#include "session/probe_budget.h"
#include "session/stacks.h"
#include "session/targets.h"

static void limits_set(struct session *s, const struct session_cfg *next)
{
	struct session_cfg *now = &s->cfg;
	struct record_limits f = {
		.hdr = session_record(sizeof(f), RECORD_LIMITS, clock_monotonic_ns()),
		.dstate_limit_ns = next->dstate_limit_ns,
		.hang_floor_ns = next->hang_floor_ns,
		.busy_limit_ns = next->busy_limit_ns,
	};

	if (now->dstate_limit_ns == next->dstate_limit_ns && now->hang_floor_ns == next->hang_floor_ns &&
	    now->busy_limit_ns == next->busy_limit_ns)
		return;
	now->dstate_limit_ns = next->dstate_limit_ns;
	now->hang_floor_ns = next->hang_floor_ns;
	now->busy_limit_ns = next->busy_limit_ns;
	loader_dstate_limit(s->loader, next->dstate_limit_ns);
	session_emit(s, &f.hdr);
}

/* Where there is none, prices of hits were not asked for when the programs were loaded: it takes a restart, and that is
 * said by who compares the settings. */
static void budget_set(struct session *s, const struct session_cfg *next)
{
	s->cfg.budget_ppm = next->budget_ppm;
	s->cfg.budget_node_ppm = next->budget_node_ppm;
	if (s->probe_budget)
		probe_budget_set(s->probe_budget, next->budget_ppm, next->budget_node_ppm);
}

static void raise_set(struct session *s, const struct session_cfg *next)
{
	s->cfg.raise_ns = next->raise_ns;
	s->cfg.no_raise = next->no_raise;
	s->cfg.holds_trace = next->holds_trace;
	memcpy(s->cfg.held_job, next->held_job, sizeof(s->cfg.held_job));
	if (s->escalator)
		escalator_set(s->escalator, &s->cfg);
	else if (s->cfg.tier == TIER_WATCH && (s->cfg.holds_trace || (s->cfg.raise_ns && !s->cfg.no_raise)))
		s->escalator = escalator_new(&s->cfg, s->pipeline, s->targets, session_emit, s);
}

/* The memory of the last minutes stays, whatever its new size or place. */
static void flight_change(struct session *s, const struct session_cfg *next)
{
	char error[512];

	if (!s->flight || !next->flight.dir)
		return;
	if (flight_set(s->flight, &next->flight, error, sizeof(error)))
		log_error("%s; the recorder stays as it is", error);
}

/* Escalation is off while it is paused, and what was escalated ends at the next tick. What was seen last proves nothing
 * of then: to the detectors the host is silent. */
static void pause_set(struct session *s, const struct session_cfg *next)
{
	struct record_node_heard f = { .hdr = session_record(sizeof(f), RECORD_NODE_HEARD, clock_monotonic_ns()),
				       .silent = next->paused };

	if (s->cfg.paused == next->paused)
		return;
	s->cfg.paused = next->paused;
	session_emit(s, &f.hdr);
	log_info(next->paused ? "paused: nothing is sampled or attached until 'ranktrace ctl resume'" : "resumed");
}

static void settings_reload(struct session *s)
{
	struct session_cfg next = s->cfg;

	if (!s->cfg.reload(s->cfg.reload_of, s->pipeline, &next))
		return;
	pause_set(s, &next);
	next.no_raise |= next.paused;
	limits_set(s, &next);
	budget_set(s, &next);
	raise_set(s, &next);
	flight_change(s, &next);
}

void settings_turn(struct session *s)
{
	if (s->cfg.reload_wanted && s->cfg.reload_wanted(s->cfg.reload_of))
		settings_reload(s);
}

void session_reload(struct session *s)
{
	char begin[64];

	snprintf(begin, sizeof(begin), "RELOADING=1\nMONOTONIC_USEC=%llu",
		 (unsigned long long)clock_monotonic_ns() / 1000);
	notify_say(&s->notify, begin);
	pipeline_reopen_outputs(s->pipeline);
	if (s->cfg.reload)
		settings_reload(s);
	else
		log_info("SIGHUP: outputs whose files were moved away are begun anew; settings stay");
	notify_say(&s->notify, "READY=1");
}

/* --- what a user asks for --- */

static void raise_asked(struct session *s, uint32_t pid)
{
	if (!s->escalator)
		log_warn("pid %u: this session raises no tier (--no-raise)", pid);
	else if (escalator_ask(s->escalator, pid, clock_monotonic_ns()))
		log_info("pid %u: probes for %.0f s", pid, (double)s->cfg.raise_ns * 1e-9);
	else
		log_info("pid %u has probes already, or as many processes as may have some do", pid);
}

static void dump_asked(struct session *s)
{
	if (!s->flight) {
		log_warn("no flight recorder in this session: start it with --flight, or use 'ranktrace dump'");
		return;
	}
	flight_request(s->flight, 0);
	log_info("the flight recorder's window is being written to %s", s->cfg.flight.dir);
}

static void ask_take(struct session *s, const struct session_ask *a)
{
	switch (a->wish) {
	case SESSION_RAISE: raise_asked(s, a->pid); break;
	case SESSION_STACKS:
		if (!s->stacks)
			log_warn("pid %u: this session reads no stacks", a->pid);
		else if (!session_stacks_ask(s->stacks, a->pid))
			log_warn("pid %u: %d stacks are waited for already; ask again", a->pid, STACKS_ASKED_MAX);
		break;
	case SESSION_DUMP: dump_asked(s); break;
	}
}

void session_asked(struct session *s)
{
	struct session_ask a;
	ssize_t n;

	while ((n = recv(s->cfg.control_fd, &a, sizeof(a), MSG_DONTWAIT)) == sizeof(a))
		ask_take(s, &a);
	if (n >= 0 || (errno != EAGAIN && errno != EINTR)) /* no user looks on any more */
		s->stop = true;
}

/* --- signals --- */

static uint64_t lost_all(const struct session *s)
{
	uint64_t n = 0;

	for (int i = 0; i < RING_CLASSES; i++)
		n += loader_lost(s->loader, i);
	return n;
}

void session_progress_say(const struct session *s, void (*say)(const char *format, ...))
{
	const struct model *m = pipeline_model(s->pipeline);

	say("%.0f s: %u processes, %u libraries, %u probes, %" PRIu64 " records, %" PRIu64 " operations, %" PRIu64
	    " lost",
	    (clock_monotonic_ns() - s->start_ns) / 1e9, session_targets_alive(s->targets),
	    loader_libs_attached(s->loader), loader_probes(s->loader), pipeline_records(s->pipeline), m->n_ops,
	    lost_all(s));
}

void session_signals_take(struct session *s)
{
	struct signalfd_siginfo info;

	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGUSR1) {
			session_progress_say(s, log_info);
			if (s->flight)
				flight_request(s->flight, info.ssi_code == SI_QUEUE ? info.ssi_int : 0);
			continue;
		}
		if (info.ssi_signo == SIGHUP) {
			session_reload(s);
			continue;
		}
		s->stop = s->result.interrupted = true;
	}
}
