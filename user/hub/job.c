/* SPDX-License-Identifier: Apache-2.0
 *
 * job.c - see job.h. What the pipeline opens, changes, closes is noted, and written in order when it can be: a bus that
 * is away costs time and no incident.
 */
#include "hub/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "hub/job_incidents.h"
#include "record.h"
#include "schemas/collector.h"

#define SETTLE_EVERY_NS 1000000000ull
#define DEFAULT_HANG_NS 1500000000ull
#define DEFAULT_BUSY_NS 90000000000ull
#define DSTATE_NS 5000000000ull
#define UNTAKEN_NS 15000000000ull      /* a lease that is free and cannot be taken is said after that, */
#define UNTAKEN_SAID_NS 60000000000ull /* and each time after that */

static struct wire_hdr own_hdr(size_t size, uint8_t kind, uint64_t now_ns)
{
	return (struct wire_hdr){ .size = size, .tracer = WIRE_COLLECTOR, .kind = kind, .ts_ns = now_ns };
}

/* The hub's axis begins as the server's wall clock, which is what people are shown: see hub_job_clock(). */
static int start_feed(struct hub_job *j, const Cluster__NodeReport *limits, uint64_t now_ns)
{
	union {
		struct record_start f;
		char bytes[sizeof(struct record_start) + 80];
	} u = {};

	u.f.hdr = own_hdr(sizeof(u.f), RECORD_START, now_ns);
	u.f.dstate_limit_ns = DSTATE_NS;
	u.f.hang_floor_ns = limits->has_hang_limit_ns ? limits->hang_limit_ns : DEFAULT_HANG_NS;
	u.f.busy_limit_ns = limits->has_busy_limit_ns ? limits->busy_limit_ns : DEFAULT_BUSY_NS;
	u.f.version = WIRE_VERSION;
	u.f.by = START_BY_SESSION;
	u.f.host_len = record_text_put(&u.f.hdr, sizeof(u) - 8, j->log.hub);
	record_pad(&u.f.hdr);
	return pipeline_feed(j->pipeline, &u.f.hdr);
}

/* --- what is found beside the detectors --- */

static int found_before(void *of, const struct model *m, struct finding_list *found)
{
	return node_findings_causes(&((struct hub_job *)of)->node_findings, m, found);
}

static int found_behind(void *of, const struct model *m, struct finding_list *found)
{
	struct hub_job *j = of;
	int err = node_findings_others(&j->node_findings, m, found);

	err = err ? err : past_calls_find(&j->past_calls, m, found);
	return err ? err : slow_ranks_find(&j->slow_ranks, m, found);
}

static bool parts_make(struct hub_job *j, const char *name, const char *hub)
{
	const struct outside_judge outside = { .of = j, .before = found_before, .behind = found_behind };
	struct sink *s;

	j->name = strdup(name);
	j->pipeline = pipeline_new();
	s = job_incidents_sink(j);
	if (s && (!j->pipeline || pipeline_add_listener(j->pipeline, s))) {
		free(s);
		s = NULL;
	}
	if (s)
		pipeline_set_outside(j->pipeline, &outside);
	bus_token(name, j->lease.token);
	memcpy(j->log.token, j->lease.token, sizeof(j->log.token));
	snprintf(j->log.hub, sizeof(j->log.hub), "%s", hub);
	return j->name && j->pipeline && s;
}

struct hub_job *hub_job_new(const char *name, const char *hub, struct bus *b, const Cluster__NodeReport *limits,
			    uint64_t now_ns)
{
	struct hub_job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->bus = b;
	j->tick_ns = j->settle_ns = j->report_ns = now_ns;
	if (parts_make(j, name, hub) && !start_feed(j, limits, now_ns))
		return j;
	hub_job_free(j);
	return NULL;
}

int hub_job_clock(struct hub_job *j, uint64_t now_ns, int64_t wall_ns)
{
	struct record_clock c = { .hdr = own_hdr(sizeof(c), RECORD_CLOCK, now_ns),
				  .realtime_offset_ns = (uint64_t)wall_ns };

	return pipeline_feed(j->pipeline, &c.hdr);
}

void hub_job_free(struct hub_job *j)
{
	if (!j)
		return;
	pipeline_free(j->pipeline);
	job_incidents_free(j);
	incident_log_free(&j->log);
	fed_free(&j->fed);
	node_findings_free(&j->node_findings);
	slow_ranks_free(&j->slow_ranks);
	past_calls_free(&j->past_calls);
	tally_findings_free(&j->findings);
	free(j->name);
	free(j);
}

int hub_job_other_report(struct hub_job *j, const struct host *h, const Cluster__NodeReport *r)
{
	int err = report_feed(&j->fed, j->pipeline, h, r, j->name);

	err = err ? err : node_findings_take(&j->node_findings, h, r, j->name);
	err = err ? err : slow_ranks_take(&j->slow_ranks, h, r, j->name);
	return err ? err : past_calls_take(&j->past_calls, h->number, h->at_ns, r, j->name);
}

int hub_job_report(struct hub_job *j, const struct host *h, const Cluster__NodeReport *r, uint64_t now_ns)
{
	j->report_ns = now_ns;
	return hub_job_other_report(j, h, r);
}

/* --- ticks --- */

static int hosts_judge(struct hub_job *j, const struct hosts *hosts, uint64_t now_ns)
{
	int err = 0;

	for (const struct host *h = hosts->all; h && !err; h = h->hh.next)
		err = host_heard_feed(&j->fed, j->pipeline, h, h->paused || now_ns > h->at_ns + HOSTS_SILENT_NS);
	return err;
}

int hub_job_ticks(struct hub_job *j, const struct hosts *hosts, uint64_t now_ns)
{
	struct record_tick tick = { .hdr = own_hdr(sizeof(tick), RECORD_TICK, now_ns) };
	int err;

	if (now_ns < j->tick_ns + JOB_TICK_NS)
		return 0;
	j->tick_ns = now_ns;
	err = hosts_judge(j, hosts, now_ns);
	if (!err && now_ns >= j->settle_ns + SETTLE_EVERY_NS) {
		j->settle_ns = now_ns;
		tally_findings_settle(&j->findings);
		err = fed_settle(&j->fed, j->pipeline);
	}
	return err ? err : pipeline_feed(j->pipeline, &tick.hdr);
}

/* --- the bus --- */

static const char *shown(const struct hub_job *j)
{
	return *j->name ? j->name : "(no name)";
}

static void job_lose(struct hub_job *j, const char *why)
{
	log_warn("job %s: %s: another hub has it, this one is a standby now", shown(j), why);
	j->taken = j->lease.mine = false;
	j->lease.changed_ns = 0; /* its revision is another one now */
	job_incidents_lost(j);
}

/* It may be no hub's meanwhile, so it is said: once a minute. */
static void job_warn_untaken(struct hub_job *j, const char *what, int err)
{
	if (j->warned_ns && j->mono_ns < j->warned_ns + UNTAKEN_SAID_NS)
		return;
	j->warned_ns = j->mono_ns;
	log_warn("job %s: %s (%s); trying again", shown(j), what, strerror(-err));
}

static void job_take(struct hub_job *j)
{
	int err = incident_log_take(&j->log, j->bus);

	if (err == -ESTALE) {
		job_lose(j, "its log was taken over at the same time");
		return;
	}
	if (err) { /* next turn */
		job_warn_untaken(j, "the log of its incidents cannot be taken over", err);
		return;
	}
	j->taken = true;
	j->taken_ns = j->tick_ns;
	log_info("job %s: this hub has it (lease %llu)", shown(j), (unsigned long long)j->lease.revision);
	job_incidents_taken(j);
}

void hub_job_turn(struct hub_job *j, uint64_t mono_ns)
{
	j->mono_ns = mono_ns;
	if (j->taken && job_incidents_write(j) == -ESTALE)
		job_lose(j, "what it wrote into the log of incidents was refused");
	if (lease_turn(&j->lease, j->bus, j->log.hub, mono_ns) == LEASE_LOST && j->taken)
		job_lose(j, "its lease was lost");
	if (j->lease.refused_ns && mono_ns > j->lease.refused_ns + UNTAKEN_NS)
		job_warn_untaken(j, "no hub renews its lease, and it cannot be taken", j->lease.err);
	if (j->lease.mine && !j->taken)
		job_take(j);
	if (j->taken)
		freezes_turn(&j->freezes, j->bus, mono_ns);
}

void hub_job_give_up(struct hub_job *j)
{
	if (j->taken)
		job_incidents_write(j);
	lease_give_up(&j->lease, j->bus);
}
