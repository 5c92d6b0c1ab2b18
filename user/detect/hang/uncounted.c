/* SPDX-License-Identifier: Apache-2.0
 *
 * uncounted.c - see uncounted.h. That counters stop proves nothing: a long step looks the same. What does is where the
 * hosts are: a main thread that slept without a break since long, outside of NCCL and of the driver, while the stacks
 * of all others, read meanwhile, end inside. One that was not read or is not seen, and no rank is named; of several
 * that sleep elsewhere any may be the reason, and that is said.
 */
#include "detect/hang/uncounted.h"

#include <errno.h>
#include <string.h>

#include "base/larger.h"
#include "detect/gpu/gpu_role.h"
#include "detect/hang/report.h"
#include "detect/phrase.h"
#include "detect/rank/call_site.h"
#include "detect/rank/counters.h"
#include "detect/rank/gpu_work.h"
#include "detect/rank/init_missing.h"
#include "detect/rank/places.h"
#include "detect/rank/progress.h"

#define FRESH_NS 5000000000ull /* what was not sampled for that long is not known to stand */
#define CONFIDENCE_STACKS 0.7  /* that its peers wait for it is an inference */
#define CONFIDENCE_GPU 0.85    /* and its GPU is the only one that does not wait in NCCL */
#define CONFIDENCE_NONE 0.3

struct uncounted_job {
	struct keyed keyed; /* by the job */
	const struct job_id *job;
	struct progress progress; /* as of this tick; so are these */
	int n_ranks, world;
	bool unfit; /* a creation waits, a counter lags or was not read, a process is several ranks */
	/* the pause of a sleeper that was reported last, and is not over; proc 0: none */
	uint64_t proc, since_ns;
	struct pause_place place;
};

enum host_place {
	HOST_UNKNOWN, /* no stack of this pause */
	HOST_IN_NCCL, /* or in the driver */
	HOST_ELSEWHERE,
	HOST_HALTED, /* stopped, or blocked in the kernel */
};

/* --- progress --- */

static bool is_rank(const struct proc *p)
{
	return !p->is_child && (p->rank >= 0 || p->members);
}

/* Its counters are known as of now, or its calls are seen as they come; and no peer is ahead of another. */
static bool member_stands(const struct model *m, const struct member *mb, struct even_memo *memo)
{
	bool called = mb->last_call_ns && !(mb->proc->shed >> PROBES_NEEDED & 1);

	if (!called && (!member_by_counters(mb) || mb->samples.seen_ns + FRESH_NS <= m->now_ns))
		return false;
	return comm_even(memo, mb->comm);
}

static void member_read(struct uncounted_job *j, const struct model *m, const struct member *mb, struct even_memo *memo)
{
	if (mb->gone)
		return;
	j->unfit = j->unfit || !member_stands(m, mb, memo);
	j->world = mb->comm->nranks > j->world ? mb->comm->nranks : j->world;
}

static void rank_read(struct uncounted_job *j, const struct model *m, const struct proc *p, struct even_memo *memo)
{
	progress_read(&j->progress, p);
	if (p->dead)
		return;
	j->n_ranks++;
	j->unfit |= p->shared;
	j->world = p->world_size > j->world ? p->world_size : j->world;
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		member_read(j, m, mb, memo);
}

static void job_begin(struct uncounted_job *j, const struct model *m)
{
	j->progress = (struct progress){ 0 };
	j->n_ranks = j->world = 0;
	j->unfit = job_creates(m, j->job); /* who is missing there is known otherwise */
}

static int jobs_read(struct keyed_table *t, const struct model *m)
{
	struct even_memo memo = { 0 };

	for (struct uncounted_job *j = t->all; j; j = j->keyed.next)
		job_begin(j, m);
	for (const struct proc *p = m->procs; p; p = proc_next(p)) {
		struct uncounted_job *j = is_rank(p) ? keyed_get(t, (uintptr_t)p->job, 0, sizeof(*j)) : NULL;

		if (!j && is_rank(p))
			return -ENOMEM;
		if (j && !j->job) {
			j->job = p->job;
			job_begin(j, m);
		}
		if (j && (!j->unfit || j->proc)) /* else it goes on by one sign, and no pause of it may be over */
			rank_read(j, m, p, &memo);
	}
	return 0;
}

/* An autopsy looks for half a second. */
static bool may_judge(const struct uncounted_job *j, const struct model *m)
{
	return !j->unfit && j->n_ranks > 1 && j->n_ranks == j->world && !model_is_autopsy(m);
}

/* --- where the hosts are --- */

/* Since when it has slept without a break; 0: it does not. */
static uint64_t asleep_since(const struct model *m, const struct task *t)
{
	return t && t->state == TASK_SLEEP && t->seen_ns > t->since_ns && t->seen_ns + FRESH_NS > m->now_ns
		       ? t->since_ns
		       : 0;
}

/* Its stack was read in this pause; 0: none was. */
static uint64_t stack_ns(const struct uncounted_job *j, const struct proc *p)
{
	const struct task *t = call_site_task(p);

	return t && t->stack.ns > j->progress.changed_ns && (*t->stack.native || *t->stack.python) ? t->stack.ns : 0;
}

/* One that waits in NCCL may wake up there now and then; elsewhere a stack counts while that sleep lasts. */
static enum host_place place_of(const struct uncounted_job *j, const struct model *m, const struct proc *p)
{
	const struct task *t = places_main_task(p);
	uint64_t read_ns = stack_ns(j, p);

	if (t && (t->state == TASK_STOPPED || t->blocked))
		return HOST_HALTED;
	if (read_ns && call_site_in_nccl_or_driver(p))
		return HOST_IN_NCCL;
	return read_ns > asleep_since(m, t) ? HOST_ELSEWHERE : HOST_UNKNOWN;
}

struct hosts {
	const struct proc *odd; /* the last one that is not in NCCL */
	int n_in_nccl, n_odd, n_unknown;
	int n_meeting;     /* odd ones that sleep where they meet their peers outside of NCCL */
	uint64_t read_ns;  /* the oldest stack of those in NCCL */
	uint64_t since_ns; /* the newest that an odd one fell asleep, or the job's last progress; 0: one is awake */
};

static bool is_of_job(const struct uncounted_job *j, const struct proc *p)
{
	return is_rank(p) && !p->dead && p->job == j->job;
}

static void odd_add(struct hosts *h, const struct model *m, const struct proc *p, enum host_place place)
{
	const struct task *t = places_main_task(p);
	uint64_t since = place == HOST_HALTED ? t->since_ns : asleep_since(m, t);

	h->odd = p;
	h->since_ns = !since || (h->n_odd && !h->since_ns) ? 0 : larger(h->since_ns, since);
	h->n_odd++;
	h->n_meeting += place == HOST_ELSEWHERE && call_site_meets_peers(p);
}

static struct hosts hosts_look(const struct uncounted_job *j, const struct model *m)
{
	struct hosts h = { .read_ns = UINT64_MAX };

	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p)) {
		enum host_place place = is_of_job(j, p) ? place_of(j, m, p) : HOST_UNKNOWN;

		if (!is_of_job(j, p))
			continue;
		if (place == HOST_IN_NCCL && stack_ns(j, p) < h.read_ns)
			h.read_ns = stack_ns(j, p);
		h.n_unknown += place == HOST_UNKNOWN;
		h.n_in_nccl += place == HOST_IN_NCCL;
		if (place == HOST_ELSEWHERE || place == HOST_HALTED)
			odd_add(&h, m, p, place);
	}
	h.since_ns = h.since_ns ? larger(h.since_ns, j->progress.changed_ns) : 0;
	return h;
}

/* Nothing of it moves, its GPU included. */
static bool rests(const struct model *m, const struct proc *p, uint64_t since_ns, struct rank_activity *ret)
{
	*ret = rank_activity(m, p, since_ns);
	return ret->what == ACTIVITY_ASLEEP || ret->what == ACTIVITY_STOPPED || ret->what == ACTIVITY_BLOCKED;
}

static bool all_rest(const struct uncounted_job *j, const struct model *m, uint64_t since_ns)
{
	struct rank_activity a;

	for (const struct proc *p = m->procs; p; p = proc_next(p))
		if (is_of_job(j, p) && place_of(j, m, p) != HOST_IN_NCCL && !rests(m, p, since_ns, &a))
			return false;
	return true;
}

/* A host in the driver waits for its GPU: one that does matrix work or moves memory is in a long step, not in NCCL. */
static bool peers_work(const struct uncounted_job *j, const struct model *m, uint64_t since_ns)
{
	for (const struct proc *p = m->procs; p; p = proc_next(p))
		if (is_of_job(j, p) && place_of(j, m, p) == HOST_IN_NCCL &&
		    rank_gpu_work(m, p, since_ns) == GPU_WORK_DONE)
			return true;
	return false;
}

/* Odd ones meet their peers outside of NCCL; these, some or all, have no frame of NCCL: they may just generate yet. */
static bool may_be_first(const struct uncounted_job *j, const struct model *m, const struct hosts *h, bool all)
{
	bool computes = all;

	for (const struct proc *p = m->procs; p && computes == all; p = proc_next(p))
		if (is_of_job(j, p) && place_of(j, m, p) == HOST_IN_NCCL)
			computes = !call_site_in_nccl(p);
	return computes && h->n_meeting == h->n_odd;
}

/* --- the finding --- */

static void ranks_text(char *text, size_t cap, const struct uncounted_job *j, const struct model *m, bool in_nccl)
{
	text[0] = 0;
	for (const struct proc *p = m->procs; p; p = proc_next(p))
		if (is_of_job(j, p) && (place_of(j, m, p) == HOST_IN_NCCL) == in_nccl)
			phrase_list(text, cap, proc_rank(p));
}

static void note_waiting(struct finding *f, struct finding_list *found, const struct uncounted_job *j,
			 const struct model *m, const struct hosts *h)
{
	char text[256];

	ranks_text(text, sizeof(text), j, m, true);
	finding_note(f, EVIDENCE_WAITING_S, (double)(m->now_ns - f->since_ns) * 1e-9);
	finding_note(f, EVIDENCE_N_WAITING, h->n_in_nccl);
	finding_note_text(f, EVIDENCE_WAITING_RANKS, finding_list_text(found, text));
	finding_note_text(f, EVIDENCE_KNOWN_FROM, "stacks");
}

static struct finding *finding_new(const struct uncounted_job *j, const struct hosts *h, struct finding_list *found)
{
	struct finding *f = finding_list_add(found);

	if (!f)
		return NULL;
	f->kind = FINDING_HANG;
	f->job = j->job->shown;
	f->peer = -1;
	f->since_ns = h->since_ns;
	return f;
}

static void class_set(struct finding *f, const struct finding_list *found, const struct proc *p, enum activity what)
{
	f->class = HANG_MISSING_ENTER;
	f->cause = CAUSE_ASLEEP;
	if (what == ACTIVITY_STOPPED) {
		f->class = HANG_STOPPED;
		f->cause = proc_stop_cause(p);
	} else if (what == ACTIVITY_BLOCKED) {
		f->class = HANG_HOST_BLOCKED;
		f->cause = CAUSE_D_STATE;
	}
	f->caused_by_key = standing_key(found, what == ACTIVITY_BLOCKED ? p->key : 0, p->key);
}

static struct habit habit_read(struct uncounted_job *j, const struct model *m, const struct suspects *all,
			       const struct hosts *h)
{
	struct pending pend = { .since_ns = h->since_ns, .limit_ns = COMM_CARE_NS };

	if (j->proc != h->odd->key || j->since_ns != h->since_ns) {
		j->proc = h->odd->key;
		j->since_ns = h->since_ns;
		j->place = (struct pause_place){ 0 };
	}
	pause_place_read(&j->place, m, h->odd, 0, 0); /* its stack is of now: place_of() */
	return habit_of(&all->pauses, m, h->odd, 0, &j->place, ACTIVITY_ASLEEP, &pend,
			suspects_busy_limit_ns(all, m, j->job));
}

static int odd_report(struct uncounted_job *j, const struct model *m, const struct suspects *all, const struct hosts *h,
		      const struct rank_activity *a, const struct gpu_odd *gpu, struct finding_list *found)
{
	struct finding *f = finding_new(j, h, found);
	struct habit habit;

	if (!f)
		return -ENOMEM;
	class_set(f, found, h->odd, a->what);
	f->confidence = gpu->proc ? CONFIDENCE_GPU : CONFIDENCE_STACKS;
	f->subject = subject_rank(proc_rank(h->odd), h->odd->key);
	finding_identify(f, "uncounted", 0, 0);
	finding_add_rank(f, proc_rank(h->odd), h->odd->key);
	note_waiting(f, found, j, m, h);
	if (f->class == HANG_MISSING_ENTER) {
		habit = habit_read(j, m, all, h);
		f->warning_after_ns = habit.warning_after_ns;
		f->critical_after_ns = habit.critical_after_ns;
		habit_note(f, found, &habit);
	}
	gpu_odd_note(f, found, m, gpu, j->job, h->since_ns);
	call_site_note(f, found, h->odd, 0);
	call_site_note_others(f, found, m);
	finding_note(f, EVIDENCE_LIMIT_S, COMM_CARE_NS * 1e-9);
	return 0;
}

/* Any that sleeps elsewhere may be the reason, or what it waits for. */
static int none_report(const struct uncounted_job *j, const struct model *m, const struct suspects *all,
		       const struct hosts *h, struct finding_list *found)
{
	struct finding *f = finding_new(j, h, found);
	char text[256];

	if (!f)
		return -ENOMEM;
	f->class = HANG_UNKNOWN;
	f->cause = CAUSE_NOT_KNOWN;
	f->confidence = CONFIDENCE_NONE;
	f->subject = subject_job(j->job->name, j->job->nth, j->job->shown);
	f->warning_after_ns = suspects_busy_limit_ns(all, m, j->job);
	f->critical_after_ns = may_be_first(j, m, h, true) ? UINT64_MAX : 2 * f->warning_after_ns;
	finding_identify(f, "uncounted", 1, 0);
	note_waiting(f, found, j, m, h);
	ranks_text(text, sizeof(text), j, m, false);
	finding_note_text(f, EVIDENCE_ELSEWHERE_RANKS, finding_list_text(found, text));
	finding_note_text(f, EVIDENCE_EXCLUDED,
			  "no rank is behind by its counters, none has died, and none of those that sleep is at work");
	call_site_note_others(f, found, m);
	finding_note(f, EVIDENCE_LIMIT_S, COMM_CARE_NS * 1e-9);
	return 0;
}

static int job_report(struct uncounted_job *j, const struct model *m, const struct suspects *all,
		      struct finding_list *found)
{
	struct hosts h = hosts_look(j, m);
	struct rank_activity a;
	struct gpu_odd gpu;

	if (h.n_unknown || !h.n_in_nccl || !h.n_odd || !h.since_ns || h.read_ns <= h.since_ns ||
	    m->now_ns < h.since_ns + COMM_CARE_NS || peers_work(j, m, h.since_ns))
		return 0;
	gpu = gpu_odd_find(m, j->job, h.since_ns);
	if (h.n_odd > 1) /* their GPUs may say which one it is: gpu_stall.h */
		return !gpu.proc && all_rest(j, m, h.since_ns) ? none_report(j, m, all, &h, found) : 0;
	if (!rests(m, h.odd, h.since_ns, &a) || (gpu.proc && gpu.proc != h.odd) ||
	    call_site_waits_for_rank(m, h.odd)) /* that one may be the reason as well */
		return 0;
	if (!gpu.proc && a.what == ACTIVITY_ASLEEP && may_be_first(j, m, &h, false))
		return none_report(j, m, all, &h, found);
	return odd_report(j, m, all, &h, &a, &gpu, found);
}

int uncounted_report(struct uncounted *u, const struct model *m, const struct suspects *all,
		     const struct wait_roots *roots, struct finding_list *found)
{
	int err = 0;

	for (struct uncounted_job *j = u->jobs.all; j && !err; j = j->keyed.next)
		if (may_judge(j, m) && m->now_ns >= j->progress.changed_ns + COMM_CARE_NS &&
		    !wait_roots_explain(roots, j->job) && !hang_is_reported(found, m, j->job))
			err = job_report(j, m, all, found);
	return err;
}

/* --- over ticks --- */

/* It is over when the job goes on: a rank that woke up may sleep again. Stopped or blocked it has no habit. */
static void ended_learn(struct uncounted_job *j, const struct model *m, struct suspects *all)
{
	const struct proc *p = j->proc ? model_proc(m, j->proc) : NULL;
	bool teaches = p && !p->dead && place_of(j, m, p) != HOST_HALTED &&
		       progress_by_itself(&j->progress, j->since_ns, m->now_ns);

	if (teaches && j->progress.went_on_ns <= j->since_ns)
		return;
	if (teaches)
		habit_learn(&all->pauses, m, p, &j->place, j->since_ns);
	j->proc = 0;
}

int uncounted_refresh(struct uncounted *u, const struct model *m, struct suspects *all)
{
	int err = jobs_read(&u->jobs, m);

	jobs_forget(&u->forgetting, &u->jobs, m, NULL);
	for (struct uncounted_job *j = err ? NULL : u->jobs.all; j; j = j->keyed.next)
		ended_learn(j, m, all);
	return err;
}

void uncounted_free(struct uncounted *u)
{
	keyed_free(&u->jobs);
}

/* For the session: whose stacks are to be read. Some main thread sleeps nearly as long as it takes to be named. */
static bool one_rests(const struct uncounted_job *j, const struct model *m, uint64_t ahead_ns)
{
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p)) {
		uint64_t since = is_of_job(j, p) ? asleep_since(m, places_main_task(p)) : 0;

		if (since && m->now_ns >= since + COMM_CARE_NS - ahead_ns)
			return true;
	}
	return false;
}

static int job_unread(const struct uncounted_job *j, const struct model *m, uint64_t ahead_ns, const struct proc **ret,
		      int max)
{
	uint64_t since_ns = hosts_look(j, m).since_ns;
	int n = 0;

	if (!may_judge(j, m) || m->now_ns < j->progress.changed_ns + COMM_CARE_NS - ahead_ns ||
	    (!one_rests(j, m, ahead_ns) && !gpu_some_without_work(m, j->job, j->progress.changed_ns)))
		return 0;
	for (const struct proc *p = m->procs; p != m->past && n < max; p = proc_next(p))
		if (is_of_job(j, p) && place_of(j, m, p) != HOST_HALTED && !p->outside.stacks_unread &&
		    (place_of(j, m, p) == HOST_UNKNOWN || stack_ns(j, p) <= since_ns ||
		     call_site_passed(p, asleep_since(m, places_main_task(p)), m->now_ns) || gpu_wait_is_over(m, p)))
			ret[n++] = p;
	return n;
}

int uncounted_unread(const struct model *m, uint64_t ahead_ns, const struct proc **ret, int max)
{
	struct keyed_table jobs = { 0 };
	int n = 0, err = jobs_read(&jobs, m);

	for (const struct uncounted_job *j = err ? NULL : jobs.all; j; j = j->keyed.next)
		n += job_unread(j, m, ahead_ns, ret + n, max - n);
	keyed_free(&jobs);
	return n;
}
