/* SPDX-License-Identifier: Apache-2.0
 *
 * escalate.c - see escalate.h.
 */
#include "session/escalate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "session/rules/escalation.h"
#include "attach/probe_rows.h"
#include "schemas/probing.h"

#define BURST_AFTER_NS 2000000000ull /* tier trace first: the calls come before the launches */
#define BURST_NS 5000000000ull
#define HELD_NS 3000000000ull /* it is said again at every tick */
#define PAUSES 4 /* pause, in durations of the escalation: a process has probes for a fifth of the time at most */

struct escalator {
	const struct pipeline *pipeline;
	struct session_targets *targets;
	int (*emit)(void *to, const struct wire_hdr *rec);
	void *to;
	struct escalation *escalation;
	uint64_t seen_ns; /* incidents that were due by then are handled */
	bool holds;
	char held_job[sizeof(((struct session_cfg *)0)->held_job)];
};

static struct escalation_cfg durations(const struct session_cfg *cfg)
{
	return (struct escalation_cfg){ .raise_ns = cfg->no_raise ? 0 : cfg->raise_ns,
					.burst_after_ns = BURST_AFTER_NS,
					.burst_ns = BURST_NS,
					.pause_ns = PAUSES * cfg->raise_ns };
}

struct escalator *escalator_new(const struct session_cfg *cfg, const struct pipeline *p, struct session_targets *t,
				int (*emit)(void *to, const struct wire_hdr *rec), void *to)
{
	struct escalation_cfg e = durations(cfg);
	struct escalator *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	*r = (struct escalator){
		.pipeline = p, .targets = t, .emit = emit, .to = to, .escalation = escalation_new(&e)
	};
	if (r->escalation) {
		escalator_set(r, cfg);
		return r;
	}
	free(r);
	return NULL;
}

void escalator_set(struct escalator *r, const struct session_cfg *cfg)
{
	struct escalation_cfg e = durations(cfg);

	escalation_set(r->escalation, &e);
	r->holds = cfg->holds_trace && !cfg->paused;
	memcpy(r->held_job, cfg->held_job, sizeof(r->held_job));
}

bool escalator_ask(struct escalator *r, uint32_t tgid, uint64_t now_ns)
{
	return escalation_ask(r->escalation, tgid, now_ns);
}

void escalator_free(struct escalator *r)
{
	if (r)
		escalation_free(r->escalation);
	free(r);
}

/* False where probes would show nothing new. */
static bool is_worth_it(const struct finding *f)
{
	bool suspended = f->kind == FINDING_STOPPED && f->subject.type == SUBJECT_JOB;

	return f->kind != FINDING_LOST_EVENTS && f->kind != FINDING_UNOBSERVED && f->class != HANG_PROCESS_DEAD &&
	       !suspended;
}

/* A known phase of the job is no reason; it is one when it lasts too long. */
static uint64_t due_ns(const struct incident *i)
{
	return i->f.kind == FINDING_HANG ? i->warned_ns : i->open_ns;
}

/* Escalates the ranks that the finding names and all members of its communicator, because only the waiting ranks
 * show what they wait for. If the finding is about a whole job, escalates the job: a slow rank shows only beside its
 * peers. */
static int incident_note(struct escalator *r, const struct incident *i, uint64_t now_ns)
{
	const struct model *m = pipeline_model(r->pipeline);
	int err = 0;

	for (int k = 0; !err && k < i->f.n_ranks; k++)
		err = i->f.pids[k] ? escalation_note(r->escalation, i->f.pids[k], i->number, now_ns) : 0;
	for (const struct comm *c = m->comms; !err && i->f.has_op && c; c = c->next)
		for (const struct member *mb = c->hash == i->f.comm ? c->members : NULL; !err && mb;
		     mb = mb->next_in_comm)
			if (!mb->gone && !mb->proc->dead)
				err = escalation_note(r->escalation, mb->proc->tgid, i->number, now_ns);
	for (const struct proc *p = i->f.n_ranks || !i->f.job ? NULL : m->procs; !err && p; p = p->next)
		if (!p->dead && !p->is_child && p->members && !strcmp(p->job->shown, i->f.job))
			err = escalation_note(r->escalation, p->tgid, i->number, now_ns);
	return err;
}

static int tier_emit(struct escalator *r, const struct tier_change *c)
{
	struct record_tier f = {
		.hdr = { .size = sizeof(f),
			 .tracer = WIRE_COLLECTOR,
			 .kind = RECORD_TIER,
			 .tgid = c->tgid,
			 .tid = c->tgid,
			 .ts_ns = clock_monotonic_ns() },
		.incident = c->incident,
		.tier = c->tier - TIER_WATCH,
		.before = c->before - TIER_WATCH,
	};

	return r->emit(r->to, &f.hdr);
}

/* Of a process whose probes cost too much (the probe budget took them) nothing would be seen. What was raised is said
 * to be over, whatever became of its probes meanwhile. */
static int change_make(struct escalator *r, const struct tier_change *c, uint64_t now_ns)
{
	bool was_raised = session_targets_tier_of(r->targets, c->tgid) > c->tier;
	int err;

	if (c->tier > c->before && session_targets_unprobed(r->targets, c->tgid))
		return 0;
	if (c->tier > c->before &&
	    (err = tier_emit(r, c))) /* emit before the first record of its probes, or after the last */
		return err;
	err = session_targets_tier(r->targets, c->tgid, c->tier, now_ns);
	if (err == -ESRCH) {
		escalation_forget(r->escalation, c->tgid);
		return 0;
	}
	log_debug("pid %u: tier %s (finding %llu)", c->tgid, tier_name(c->tier), (unsigned long long)c->incident);
	return err || !was_raised || c->tier > c->before ? err : tier_emit(r, c);
}

/* What is held is said anew each time: a rank that is new is held as well, and one of another job no more. */
static int ranks_hold(struct escalator *r, uint64_t now_ns)
{
	int err = 0;

	for (const struct proc *p = r->holds ? pipeline_model(r->pipeline)->procs : NULL; !err && p; p = p->next)
		if (!p->dead && !p->is_child && p->members &&
		    (!*r->held_job || !strcmp(p->job->shown, r->held_job) || !strcmp(p->job->name, r->held_job)))
			err = escalation_hold(r->escalation, p->tgid, now_ns + HELD_NS, now_ns);
	return err;
}

int escalator_tick(struct escalator *r, uint64_t now_ns)
{
	const struct incidents *all = pipeline_incidents(r->pipeline);
	struct tier_change c;
	int err = ranks_hold(r, now_ns);

	for (const struct incident *i = incidents_next_open(all, NULL); !err && i; i = incidents_next_open(all, i))
		if (due_ns(i) > r->seen_ns && is_worth_it(&i->f))
			err = incident_note(r, i, now_ns);
	r->seen_ns = pipeline_model(r->pipeline)->now_ns;
	if (!err && escalation_next(r->escalation, now_ns, &c)) /* one per tick: attaching takes milliseconds */
		err = change_make(r, &c, now_ns);
	return err;
}
