/* SPDX-License-Identifier: Apache-2.0
 *
 * suspended.c - a job whose ranks are stopped together, and go on together: its scheduler suspends it (SIGSTOP to all,
 * or a cgroup's freezer), its container is paused. No rank of it is to blame: one finding says so, in place of what the
 * detectors before this one would say of each. What was reported before it was suspended stays.
 *
 * Ranks are not stopped at the same time, least of all those of many hosts, nor do they go on so. So while several
 * change, what waits for those that stand says nothing. Nor does a wait from before: none of it was the rank's own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/larger.h"
#include "detect/detect.h"
#include "detect/rank/activity.h"
#include "detect/rank/forget.h"
#include "detect/rank/places.h"

#define TOGETHER_NS 3000000000ull /* longest time from one rank to the next */
#define USUAL_TIMES 3             /* of the longest: a scheduler that lets jobs take turns does it again and again */
#define GRACE_NS 3000000000ull    /* as a single rank's that is stopped while no rank waits for it */

struct suspension {
	struct keyed job;
	const struct job_id *of;
	int n_ranks, n_stopped; /* at this tick: of those that live and whose hosts report */
	int world_size;         /* -1 unknown */
	int n_before;           /* stopped at the tick before */
	uint64_t newest_ns;     /* the last of them was stopped then */
	int n_moved;            /* were stopped or went on, each within TOGETHER_NS of the one before */
	uint64_t moved_ns;
	uint64_t since_ns;   /* all are stopped; 0: not so */
	uint64_t until_ns;   /* the last tick at which all were; 0 never */
	uint64_t longest_ns; /* that it was suspended and went on */
};

struct known {
	uint64_t key;
	bool later; /* its wait counts from when the job went on */
};

struct suspended {
	struct keyed_table jobs;
	struct forgetting forgetting;
	struct known *known; /* hangs and stops of the last tick that were not withheld */
	size_t n_known, cap_known;
};

static int rank_count(struct suspended *s, const struct proc *p)
{
	struct suspension *j = keyed_get(&s->jobs, (uintptr_t)p->job, 0, sizeof(*j));

	if (!j)
		return -ENOMEM;
	j->of = p->job;
	j->world_size = p->world_size;
	j->n_ranks++;
	if (!proc_gone_or_stopped(p))
		return 0;
	j->n_stopped++;
	if (places_main_task(p)->since_ns > j->newest_ns)
		j->newest_ns = places_main_task(p)->since_ns;
	return 0;
}

/* A single one may have peers on other hosts. */
static bool all_stopped(const struct suspension *j)
{
	return j->n_stopped && j->n_stopped == j->n_ranks && (j->n_ranks > 1 || j->world_size == 1);
}

static bool move_together(const struct suspension *j, const struct model *m)
{
	return j->n_moved > 1 && m->now_ns < j->moved_ns + TOGETHER_NS;
}

static void job_judge(struct suspension *j, const struct model *m)
{
	if (m->now_ns >= j->moved_ns + TOGETHER_NS)
		j->n_moved = 0;
	if (j->n_stopped != j->n_before) {
		j->n_moved += abs(j->n_stopped - j->n_before);
		j->moved_ns = m->now_ns;
	}
	j->n_before = j->n_stopped;
	if (all_stopped(j)) {
		j->since_ns = j->since_ns ? j->since_ns : j->newest_ns;
		j->until_ns = m->now_ns;
	} else if (j->since_ns) {
		j->longest_ns = larger(j->longest_ns, j->until_ns - j->since_ns);
		j->since_ns = 0;
	}
}

static int jobs_count(struct suspended *s, const struct model *m)
{
	int err = 0;

	jobs_forget(&s->forgetting, &s->jobs, m, NULL);
	for (struct suspension *j = s->jobs.all; j; j = j->job.next) {
		j->n_ranks = j->n_stopped = 0;
		j->newest_ns = 0;
	}
	for (const struct proc *p = m->procs; p != m->past && !err; p = proc_next(p))
		if (!p->dead && !p->is_child && rank_counts(p))
			err = rank_count(s, p);
	for (struct suspension *j = s->jobs.all; j; j = j->job.next)
		job_judge(j, m);
	return err;
}

/* --- what others say of it --- */

/* NULL: it names no process, and no communicator that is known. */
static const struct job_id *job_of(const struct finding *f, const struct model *m)
{
	const struct proc *p = f->n_ranks ? model_proc(m, finding_proc(f, 0)) : NULL;
	const struct comm *c = m->comms;

	if (p)
		return p->job;
	while (c && (!f->comm || c->hash != f->comm || !c->members))
		c = c->next;
	return c ? c->members->proc->job : NULL;
}

static const struct suspension *suspension_of(const struct suspended *s, const struct finding *f, const struct model *m)
{
	const struct job_id *job = job_of(f, m);

	if (job)
		return keyed_find(&s->jobs, (uintptr_t)job, 0);
	for (const struct suspension *j = s->jobs.all; j; j = j->job.next)
		if (f->job == j->of->shown)
			return j;
	return NULL;
}

static const struct known *known_find(const struct suspended *s, uint64_t key)
{
	for (size_t i = 0; i < s->n_known; i++)
		if (s->known[i].key == key)
			return &s->known[i];
	return NULL;
}

/* A rank that died is dead whatever the others do. */
static bool may_be_withheld(const struct finding *f)
{
	return (f->kind == FINDING_HANG && f->class != HANG_PROCESS_DEAD) || f->kind == FINDING_STOPPED ||
	       f->kind == FINDING_OBSERVATION;
}

/* Its wait began before the job went on: it counts from then. */
static bool is_later(const struct suspension *j, const struct finding *f, const struct known *k)
{
	return f->kind != FINDING_STOPPED && f->since_ns < j->until_ns && (!k || k->later);
}

static bool is_withheld(const struct suspension *j, const struct finding *f, const struct known *k,
			const struct model *m)
{
	return !k && (j->since_ns || move_together(j, m) || (is_later(j, f, k) && m->now_ns < j->until_ns + GRACE_NS));
}

/* Room for all of this tick. */
static int known_grow(struct suspended *s, size_t n)
{
	struct known *grown = n > s->cap_known ? realloc(s->known, 2 * n * sizeof(*grown)) : s->known;

	if (n && !grown)
		return -ENOMEM;
	s->known = grown;
	s->cap_known = n > s->cap_known ? 2 * n : s->cap_known;
	return 0;
}

/* --- what is said instead --- */

static int report(const struct suspension *j, const struct model *m, struct finding_list *found)
{
	struct finding *f = finding_list_add(found);

	if (!f)
		return -ENOMEM;
	f->kind = FINDING_STOPPED;
	f->subject = subject_job(j->of->name, j->of->nth, j->of->shown);
	f->job = j->of->shown;
	finding_identify(f, "suspended", 0, j->since_ns);
	f->since_ns = j->since_ns;
	f->confidence = 0.99;
	f->warning_after_ns = USUAL_TIMES * j->longest_ns;
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		if (p->job == j->of && !p->dead && !p->is_child && rank_counts(p)) {
			f->cause = f->n_ranks ? f->cause : proc_stop_cause(p);
			finding_add_rank(f, proc_rank(p), p->key);
		}
	finding_note(f, EVIDENCE_STOPPED_S, (m->now_ns - j->since_ns) * 1e-9);
	return 0;
}

/* Behind the known ones of the tick before come those of this one. */
static int found_filter(struct suspended *s, const struct model *m, struct finding_list *found)
{
	size_t n = 0, n_known = s->n_known;

	if (known_grow(s, n_known + found->n))
		return -ENOMEM;
	for (size_t i = 0; i < found->n; i++) {
		struct finding *f = &found->items[i];
		const struct suspension *j = may_be_withheld(f) ? suspension_of(s, f, m) : NULL;
		const struct known *k = j ? known_find(s, f->key) : NULL;
		bool later = j && is_later(j, f, k);

		if (j && is_withheld(j, f, k, m))
			continue;
		if (j)
			s->known[n_known++] = (struct known){ f->key, later };
		f->since_ns = later ? j->until_ns : f->since_ns;
		found->items[n++] = *f;
	}
	if (s->n_known)
		memmove(s->known, s->known + s->n_known, (n_known - s->n_known) * sizeof(*s->known));
	s->n_known = n_known - s->n_known;
	found->n = n;
	return 0;
}

static int suspended_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct suspended *s = state;
	int err = jobs_count(s, m);

	err = err ? err : found_filter(s, m, found);
	for (const struct suspension *j = s->jobs.all; j && !err; j = j->job.next)
		if (j->since_ns && m->now_ns >= j->since_ns + GRACE_NS)
			err = report(j, m, found);
	return err;
}

static void suspended_release(void *state)
{
	struct suspended *s = state;

	keyed_free(&s->jobs);
	free(s->known);
}

const struct detector detector_suspended = {
	.name = "suspended",
	.help = "a job whose ranks are all stopped: suspended by its scheduler, or paused",
	.state_bytes = sizeof(struct suspended),
	.release = suspended_release,
	.tick = suspended_tick,
};
