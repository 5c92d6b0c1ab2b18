/* SPDX-License-Identifier: Apache-2.0
 *
 * pace.c - a job that becomes slower, seen without a probe: NCCL counts the collectives a rank enters, and all ranks
 * enter equally many. Names no rank, as in a blocking collective all become slower together; it has the job sampled
 * more closely. Where iterations are seen slow_step knows better.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "detect/detect.h"
#include "detect/straggler/history.h"
#include "detect/straggler/pace_series.h"

#define BUSIER 2                /* times as many operations: another communicator shows the pace better */
#define CALLS_NS 10000000000ull /* its calls were seen that lately: there are probes */

struct paced { /* one job */
	struct keyed keyed;
	const struct job_id *job;
	uint64_t anchor; /* the rank whose counters are followed */
	uint64_t comm;
	struct pace_series series;
	uint64_t explained_by;
	bool seen;
};

struct pace {
	struct keyed_table jobs;
};

static uint64_t entered(const struct member *mb)
{
	uint64_t n = 0;

	for (int k = 0; k < OP_KINDS_COUNTED; k++)
		n += mb->samples.counters[k];
	return n;
}

/* In which it entered most; NULL: no counter is read. */
static const struct member *busiest(const struct proc *p)
{
	const struct member *best = NULL;

	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		if (!mb->gone && mb->samples.n && mb->samples.counted && (!best || entered(mb) > entered(best)))
			best = mb;
	return best;
}

static const struct member *member_of(const struct proc *p, uint64_t comm)
{
	for (const struct member *mb = p ? p->members : NULL; mb; mb = member_next_in_proc(mb))
		if (!mb->gone && mb->samples.counted && mb->comm->hash == comm)
			return mb;
	return NULL;
}

static bool is_rank_of(const struct proc *p, const struct job_id *job)
{
	return !p->dead && !p->is_child && p->job == job;
}

static const struct proc *anchor_choose(const struct model *m, const struct job_id *job)
{
	const struct proc *best = NULL;

	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		if (is_rank_of(p, job) && busiest(p) && (!best || proc_rank(p) < proc_rank(best)))
			best = p;
	return best;
}

/* The member that is followed, as long as it is there and no other shows more. */
static const struct member *followed(struct paced *j, const struct model *m)
{
	const struct proc *p = model_proc(m, j->anchor);
	const struct member *mb = p && is_rank_of(p, j->job) ? member_of(p, j->comm) : NULL, *other;

	if (!mb) {
		p = anchor_choose(m, j->job);
		other = p ? busiest(p) : NULL;
	} else {
		other = j->series.width ? mb : busiest(p);
		if (entered(other) < BUSIER * entered(mb))
			other = mb;
	}
	if (!other || other == mb)
		return other;
	j->anchor = other->proc->key;
	j->comm = other->comm->hash;
	pace_restart(&j->series);
	return other;
}

static bool concerns(const struct finding *f, const struct model *m, const struct job_id *job)
{
	const struct proc *p = f->n_ranks ? model_proc(m, finding_proc(f, 0)) : NULL;

	return p ? p->job == job : f->kind == FINDING_HANG; /* a link that is congested stops no rank */
}

/* While something else holds the job up the pace is that one's affair. */
static bool is_disturbed(const struct finding_list *found, const struct model *m, const struct job_id *job)
{
	for (size_t i = 0; i < found->n; i++) {
		const struct finding *f = &found->items[i];

		if ((f->kind == FINDING_HANG || f->kind == FINDING_D_STATE || f->kind == FINDING_STOPPED ||
		     f->kind == FINDING_OBSERVATION) &&
		    concerns(f, m, job))
			return true;
	}
	return false;
}

/* Iterations are seen, by probes. */
static bool steps_seen(const struct model *m, const struct job_id *job)
{
	const struct proc *p = job_anchor(m, job);

	return p && m->now_ns - p->last_op->call_ns < CALLS_NS;
}

static int report(struct paced *j, const struct model *m, struct finding_list *found)
{
	uint64_t cause = slow_cause_key(m, found, j->job);
	struct finding *f = finding_list_add(found);

	if (!f)
		return -ENOMEM;
	j->explained_by = cause ? cause : j->explained_by;
	j->series.explained = j->explained_by;
	f->kind = FINDING_SLOW_STEP;
	f->subject = subject_job(j->job->name, j->job->nth, j->job->shown);
	finding_identify(f, "pace", 0, j->series.since_ns);
	f->caused_by_key = j->explained_by;
	f->cause = CAUSE_UNKNOWN;
	f->job = j->job->shown;
	f->since_ns = j->series.since_ns;
	f->confidence = 0.8;
	finding_note(f, EVIDENCE_OPS_PER_S, j->series.slow);
	finding_note(f, EVIDENCE_OPS_PER_S_BEFORE, j->series.usual);
	finding_note(f, EVIDENCE_SLOWER_PERCENT, 100 * (j->series.usual / j->series.slow - 1));
	finding_note_text(f, EVIDENCE_KNOWN_FROM, "counters");
	return 0;
}

static int job_tick(struct paced *j, const struct model *m, struct finding_list *found)
{
	const struct member *mb = followed(j, m);
	bool disturbed = is_disturbed(found, m, j->job);

	j->seen = mb;
	if (!mb)
		return 0;
	if (disturbed && !j->series.width)
		pace_restart(&j->series);
	else
		pace_add(&j->series, mb->samples.seen_ns, entered(mb), !steps_seen(m, j->job));
	if (!j->series.width)
		j->explained_by = 0;
	return pace_dropped(&j->series, m->now_ns) ? report(j, m, found) : 0;
}

/* --- jobs --- */

static struct paced *paced_of(struct pace *st, const struct job_id *job)
{
	struct paced *j = keyed_get(&st->jobs, (uintptr_t)job, 0, sizeof(*j));

	if (j)
		j->job = job;
	return j;
}

/* Else its ranks are gone, or show no counter any more. */
static bool was_seen(void *entry, const void *arg)
{
	(void)arg;
	return ((struct paced *)entry)->seen;
}

static int pace_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct pace *st = state;
	int err = 0;

	for (struct paced *j = st->jobs.all; j; j = j->keyed.next)
		j->seen = false;
	for (const struct proc *p = m->procs; p != m->past && !err; p = proc_next(p)) {
		struct paced *j = keyed_find(&st->jobs, (uintptr_t)p->job, 0);

		if ((j && j->seen) || !is_rank_of(p, p->job) || !busiest(p))
			continue;
		j = paced_of(st, p->job);
		if (j)
			err = job_tick(j, m, found);
	}
	keyed_keep(&st->jobs, was_seen, NULL);
	return err;
}

static void pace_release(void *state)
{
	struct pace *st = state;

	keyed_free(&st->jobs);
}

const struct detector detector_pace = {
	.name = "pace",
	.help = "a job that enters fewer collectives a second than it used to, by NCCL's own counters",
	.state_bytes = sizeof(struct pace),
	.release = pace_release,
	.tick = pace_tick,
};
