/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_stall.c - see gpu_stall.h. Counters show how many operations each host launched, and hosts run far ahead of their
 * GPUs: that all do not move at one number is no fault by itself (all ranks may write a checkpoint). It is one when a
 * GPU waits in NCCL all that time.
 */
#include "detect/hang/gpu_stall.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/larger.h"
#include "detect/gpu/gpu_cause.h"
#include "detect/gpu/gpu_role.h"
#include "detect/hang/pending.h"
#include "detect/hang/report.h"
#include "detect/rank/activity.h"
#include "detect/rank/call_site.h"
#include "detect/rank/counters.h"
#include "detect/rank/gpu_work.h"
#include "detect/rank/standing.h"
#include "detect/rank/teardown.h"
#include "detect/severity.h"

#define FLOORS 14              /* hang floors without progress: 20 s in a session; an autopsy's floor is shorter */
#define KERNEL_FLOORS 7        /* the same where one kernel without end, and none of NCCL's, ran for most of it, */
#define KERNEL_ALIKE_FLOORS 5  /* for so long: no step has that */
#define GAPS 20                /* times the longest pause of the job, unless a GPU shows that no work goes on */
#define STILL_GAPS 3           /* times the longest such pause that ended by itself, if one does */
#define FRESH_NS 5000000000ull /* a member that was not sampled that long is not known to have stopped */
#define CONFIDENCE_NO_RANK 0.5
#define CONFIDENCE_DEAD 0.9

struct gpu_stall_job {
	struct keyed keyed; /* by the job */
	const struct job_id *job;
	bool live;   /* seen at this tick */
	bool inside; /* all ranks entered the same; moved_ns is then when they last did */
	uint64_t moved_ns;
	uint64_t longest_gap_ns, longest_still_ns; /* that ended by themselves */
	uint64_t still_ns; /* since when in this pause a GPU was the odd one and did no work, or all waited; 0: not */
	uint64_t waits_ns; /* the same without a break, for this odd one and this role; 0: not so now */
	uint64_t odd;
	enum gpu_role role;
	uint64_t worked_ns;  /* all wait, and some host was at work last; may be of an earlier pause */
	struct suspect host; /* of the rank that gives its GPU nothing, for as long as it does; proc 0: none */
};

static struct gpu_stall_job *job_get(struct gpu_stalls *s, const struct job_id *job)
{
	struct gpu_stall_job *j = keyed_get(&s->jobs, (uintptr_t)job, 0, sizeof(*j));

	if (j)
		j->job = job;
	return j;
}

/* --- does the job stop, all ranks at one place, and for how long does it at times? --- */

static bool member_stands(const struct model *m, const struct member *mb, struct even_memo *memo)
{
	return mb->gone || (member_by_counters(mb) && mb->samples.seen_ns + FRESH_NS > m->now_ns &&
			    counters_still_ns(mb) && comm_even(memo, mb->comm));
}

/* The newest call, or move of the process' counters; 0: some member moves, lags, or is not known. */
static uint64_t proc_moved_ns(const struct model *m, const struct proc *p, struct even_memo *memo)
{
	uint64_t newest = 0;

	if (standing_by_calls(p))
		return p->last_call_ns;
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb)) {
		if (!member_stands(m, mb, memo))
			return 0;
		if (!mb->gone && mb->samples.since_ns > newest)
			newest = mb->samples.since_ns;
	}
	return newest;
}

static void gap_learn(struct gpu_stall_job *j, uint64_t moved_ns)
{
	uint64_t gap = moved_ns - j->moved_ns;

	if (gap > j->longest_gap_ns)
		j->longest_gap_ns = gap;
	if (j->still_ns && moved_ns > j->still_ns)
		j->longest_still_ns = larger(j->longest_still_ns, moved_ns - j->still_ns);
	j->still_ns = j->waits_ns = 0;
}

static void moved_at(struct gpu_stall_job *j, uint64_t moved_ns)
{
	if (moved_ns <= j->moved_ns)
		return;
	if (j->moved_ns)
		gap_learn(j, moved_ns);
	j->moved_ns = moved_ns;
}

/* The newest sign of progress of any member, whether or not all do not move now. */
static void job_moved(struct gpu_stall_job *j, const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		moved_at(j, mb->samples.n ? mb->samples.since_ns : 0);
	if (standing_by_calls(p))
		moved_at(j, p->last_call_ns);
}

/* It gave its GPU work again: work may take that long in this job, and a pause there may, if anything came of it. */
static void host_refresh(struct gpu_stall_job *j, const struct model *m, struct suspects *all)
{
	struct suspect *s = &j->host;
	const struct proc *p = s->proc ? model_proc(m, s->proc) : NULL;

	s->was_stopped |= p && proc_gone_or_stopped(p);
	if (!s->proc || j->waits_ns == s->pending.since_ns)
		return;
	if (p && !p->dead && !s->was_stopped && j->moved_ns > s->pending.since_ns && (s->busy_since_ns || s->is_hang)) {
		suspects_busy_learn(all, p->job, m->now_ns - s->pending.since_ns);
		habit_learn(&all->pauses, m, p, &s->place, s->pending.since_ns);
	}
	*s = (struct suspect){ 0 };
}

int gpu_stalls_refresh(struct gpu_stalls *s, const struct model *m, struct suspects *all)
{
	struct even_memo memo = { 0 };

	jobs_forget(&s->forgetting, &s->jobs, m, NULL);
	for (struct gpu_stall_job *j = s->jobs.all; j; j = j->keyed.next)
		j->live = false;
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p)) {
		struct gpu_stall_job *j = standing_is_rank(p) ? job_get(s, p->job) : NULL;

		if (!j && standing_is_rank(p))
			return -ENOMEM;
		if (!j)
			continue;
		j->inside = (!j->live || j->inside) && proc_moved_ns(m, p, &memo);
		j->live = true;
		job_moved(j, p);
	}
	for (struct gpu_stall_job *j = s->jobs.all; j; j = j->keyed.next)
		host_refresh(j, m, all);
	return 0;
}

void gpu_stalls_free(struct gpu_stalls *s)
{
	keyed_free(&s->jobs);
}

/* --- the finding --- */

/* In kernels of NCCL. Hosts that set up a connection there get on, for as long as that takes on many ranks. */
static bool all_wait(const struct gpu_odd *o)
{
	return o->n_ranks && o->n_in_nccl == o->n_ranks && !o->n_on_host;
}

static bool does_no_work(const struct gpu_odd *o)
{
	return o->proc ? o->of.role != GPU_ROLE_WORKS : all_wait(o);
}

/* Counted from when it shows: before, ranks may have computed for long without an operation that counts. A kernel has
 * a rule of its own: least_ns(). */
static void wait_refresh(struct gpu_stall_job *j, const struct gpu_odd *o)
{
	uint64_t odd = o->proc ? o->proc->key : 0;
	enum gpu_role role = o->proc ? o->of.role : GPU_ROLE_IN_NCCL;

	if (!does_no_work(o)) {
		j->waits_ns = 0;
		return;
	}
	if (!j->waits_ns || odd != j->odd || role != j->role)
		j->waits_ns = role == GPU_ROLE_OTHER_KERNEL ? j->moved_ns : larger(j->moved_ns, o->since_ns);
	j->odd = odd;
	j->role = role;
	j->still_ns = j->still_ns ? j->still_ns : j->waits_ns;
}

static uint64_t pause_ns(const struct gpu_stall_job *j)
{
	return j->waits_ns ? j->waits_ns : j->moved_ns;
}

static uint64_t least_ns(const struct model *m, const struct gpu_odd *o)
{
	bool one_kernel = o->proc && o->of.role == GPU_ROLE_OTHER_KERNEL &&
			  m->now_ns >= o->of.since_ns + KERNEL_ALIKE_FLOORS * m->hang_floor_ns;

	return (one_kernel ? KERNEL_FLOORS : FLOORS) * m->hang_floor_ns;
}

static uint64_t limit_ns(const struct gpu_stall_job *j, const struct model *m, const struct gpu_odd *o)
{
	uint64_t least = least_ns(m, o);
	uint64_t habit = does_no_work(o) ? STILL_GAPS * j->longest_still_ns : GAPS * j->longest_gap_ns;

	return habit > least ? habit : least;
}

/* Of its kinds the usual one. */
static void op_set(struct finding *f, const struct member *mb)
{
	int best = OP_ALLREDUCE;

	f->subject = subject_comm(mb->comm->hash, 0);
	for (int k = 0; k < OP_KINDS_COUNTED; k++)
		best = mb->samples.counters[k] > mb->samples.counters[best] ? k : best;
	f->has_op = true;
	f->comm = mb->comm->hash;
	f->seq = mb->entered_seq[SEQ_COLL] - 1;
	f->op = (enum op_kind)best;
}

/* Its GPU has nothing to do, as its host, asleep or at work outside of NCCL and the driver, gives it nothing. */
static bool host_elsewhere(const struct model *m, const struct gpu_odd *o, uint64_t since_ns, struct culprit *ret)
{
	if (!o->proc || o->of.role != GPU_ROLE_IDLE)
		return false;
	*ret = (struct culprit){ .proc = o->proc, .activity = rank_activity(m, o->proc, since_ns) };
	if (ret->activity.what == ACTIVITY_ASLEEP)
		return call_site_task(o->proc) && !call_site_in_nccl_or_driver(o->proc);
	return standing_host_works(o->proc, ret->activity.what, since_ns);
}

/* As any rank that does not come. False: what it does is not clear, or an ordinary wait for a disk. */
static bool host_classify(struct gpu_stall_job *j, const struct model *m, const struct suspects *all, struct culprit *c)
{
	struct suspect *s = &j->host;

	if (s->proc != c->proc->key || s->pending.since_ns != pause_ns(j))
		*s = (struct suspect){ .proc = c->proc->key, .pending = { .since_ns = pause_ns(j) } };
	c->pending = s->pending;
	return seat_classify(all, s, m, c);
}

static void name_odd(struct finding *f, const struct gpu_odd *o, struct finding_list *found)
{
	f->class = HANG_INSIDE_GPU;
	f->cause = gpu_odd_cause(o);
	f->confidence = o->confidence;
	f->caused_by_key = gpu_stop_key(found, o->proc->key);
	finding_add_rank(f, proc_rank(o->proc), o->proc->key);
	call_site_note(f, found, o->proc, 0);
}

/* Real work of its own, as of a rank that evaluates alone: as for any that works. */
static uint64_t critical_ns(const struct gpu_stall_job *j, const struct model *m, const struct gpu_odd *o)
{
	uint64_t limit = limit_ns(j, m, o), least = FLOORS * m->hang_floor_ns;
	uint64_t critical = (limit > least ? limit : least) * 3 / 2; /* 30 s for a quick job */
	bool works = o->proc && o->of.role == GPU_ROLE_WORKS && fmax(o->of.tensor, o->of.dram) >= GPU_WORKS_PERCENT;

	return works && critical < WORKS_CRITICAL_NS ? WORKS_CRITICAL_NS : critical;
}

/* For how long of this pause a host was at work. All GPUs may wait in what was launched ahead, and a host that writes a
 * checkpoint first gives them the rest later; and the host of an idle one may have come to the driver just now. */
static uint64_t worked_for_ns(struct gpu_stall_job *j, const struct model *m, const struct gpu_odd *o)
{
	uint64_t since = pause_ns(j), worked = 0;

	if (o->proc && j->host.proc == o->proc->key)
		worked = j->host.place.moved_ns;
	if (!o->proc && standing_some_work(m, j->job, since))
		j->worked_ns = m->now_ns;
	worked = o->proc ? worked : j->worked_ns;
	return worked > since ? worked - since : 0;
}

/* What it worked for is no part of the wait; but nothing gets longer than who works all the while. */
static void limits_set(struct finding *f, struct gpu_stall_job *j, const struct model *m, const struct suspects *all,
		       const struct gpu_odd *o)
{
	uint64_t busy = suspects_busy_limit_ns(all, m, j->job), worked = worked_for_ns(j, m, o),
		 critical = critical_ns(j, m, o);

	if (!o->proc && worked)
		f->warning_after_ns = smaller(worked + limit_ns(j, m, o), busy);
	f->critical_after_ns =
		worked ? smaller(critical + worked, larger(critical, habit_works_critical_ns(busy))) : critical;
}

static void host_set(struct finding *f, const struct culprit *c, uint64_t critical, struct finding_list *found)
{
	f->kind = c->kind;
	f->class = c->class;
	f->cause = c->cause;
	f->warning_after_ns = c->habit.warning_after_ns;
	f->critical_after_ns = larger(critical, c->habit.critical_after_ns);
	habit_note(f, found, &c->habit);
}

static int report(struct gpu_stall_job *j, const struct model *m, const struct suspects *all, const struct gpu_odd *o,
		  struct finding_list *found)
{
	const struct member *mb = standing_last_moved(m, j->job);
	struct culprit c;
	bool elsewhere = host_elsewhere(m, o, pause_ns(j), &c);
	struct finding *f;

	if (!mb || (elsewhere && !host_classify(j, m, all, &c)))
		return 0;
	f = finding_list_add(found);
	if (!f)
		return -ENOMEM;
	f->kind = FINDING_HANG;
	f->class = HANG_UNKNOWN;
	f->cause = CAUSE_ALL_ENTERED;
	f->confidence = CONFIDENCE_NO_RANK;
	f->job = j->job->shown;
	f->peer = -1;
	f->since_ns = pause_ns(j);
	limits_set(f, j, m, all, o);
	f->subject = o->proc ? subject_rank(proc_rank(o->proc), o->proc->key)
			     : subject_job(j->job->name, j->job->nth, j->job->shown);
	if (!elsewhere && !o->n_on_host && member_by_counters(mb)) /* else it is none of those that NCCL counts */
		op_set(f, mb);
	finding_identify(f, "gpu_stall", 0, mb->entered_seq[SEQ_COLL]);
	finding_note(f, EVIDENCE_WAITING_S, (m->now_ns - f->since_ns) * 1e-9);
	finding_note(f, EVIDENCE_N_WAITING, o->n_in_nccl);
	if (o->proc)
		name_odd(f, o, found);
	if (elsewhere)
		host_set(f, &c, critical_ns(j, m, o), found);
	gpu_odd_note(f, found, m, o, j->job, j->moved_ns);
	call_site_note_others(f, found, m);
	if (member_by_counters(mb))
		finding_note_text(f, EVIDENCE_KNOWN_FROM, "counters");
	finding_note(f, EVIDENCE_LIMIT_S, limit_ns(j, m, o) * 1e-9);
	return 0;
}

static int dead_report(const struct gpu_stall_job *j, const struct model *m, const struct proc *p,
		       struct finding_list *found)
{
	const struct member *mb = standing_last_moved(m, j->job);
	struct finding *f = mb ? finding_list_add(found) : NULL;

	if (!f)
		return mb ? -ENOMEM : 0;
	f->kind = FINDING_HANG;
	f->class = HANG_PROCESS_DEAD;
	f->cause = CAUSE_DEAD;
	f->confidence = CONFIDENCE_DEAD;
	f->peer = -1;
	f->since_ns = larger(j->moved_ns, p->exit_ns);
	f->subject = subject_rank(proc_rank(p), p->key);
	if (member_by_counters(mb))
		op_set(f, mb);
	finding_identify(f, "dead_inside", 0, mb->entered_seq[SEQ_COLL]);
	finding_add_rank(f, proc_rank(p), p->key);
	finding_note(f, EVIDENCE_WAITING_S, (m->now_ns - f->since_ns) * 1e-9);
	finding_note(f, EVIDENCE_EXIT_CODE, p->exit_code);
	finding_note(f, EVIDENCE_EXIT_SIGNAL, p->exit_signal);
	finding_note(f, EVIDENCE_DEAD_S, (m->now_ns - p->exit_ns) * 1e-9);
	return 0;
}

static int job_report(struct gpu_stall_job *j, const struct model *m, const struct suspects *all,
		      struct finding_list *found)
{
	const struct proc *dead;
	struct gpu_odd o;

	if (!j->live || !j->inside) {
		j->waits_ns = 0;
		return 0;
	}
	dead = death_inside(m, j->job, j->moved_ns);
	if (dead && !hang_is_reported(found, m, j->job))
		return dead_report(j, m, dead, found);
	o = gpu_odd_find(m, j->job, j->moved_ns);
	wait_refresh(j, &o);
	if (m->now_ns < pause_ns(j) + limit_ns(j, m, &o) || hang_is_reported(found, m, j->job))
		return 0;
	if (!o.proc && (o.n_in_nccl < o.n_ranks || !o.n_ranks || !standing_all_seen(m, j->job)))
		return 0;
	return report(j, m, all, &o, found);
}

int gpu_stalls_report(const struct gpu_stalls *s, const struct model *m, const struct suspects *all,
		      const struct wait_roots *roots, struct finding_list *found)
{
	int err = 0;

	for (struct gpu_stall_job *j = s->jobs.all; j && !err; j = j->keyed.next)
		if (!wait_roots_explain(roots, j->job))
			err = job_report(j, m, all, found);
	return err;
}

/* A host that does not come launches nothing: an idle GPU is a reason only where the host is seen to wait for it. */
static bool gpu_is_reason(const struct gpu_odd *o)
{
	return o->of.role == GPU_ROLE_OTHER_KERNEL || (o->of.role == GPU_ROLE_IDLE && call_site_gpu_wait(o->proc));
}

bool gpu_stall_holds(const struct model *m, const struct proc *p, uint64_t since_ns)
{
	struct gpu_odd o;

	if (!call_site_gpu_wait(p) && !call_site_launches(p))
		return false;
	o = gpu_odd_find(m, p->job, since_ns);
	return o.proc == p && gpu_is_reason(&o);
}

void gpu_stall_explain(struct finding *f, const struct model *m, const struct proc *p, struct finding_list *found)
{
	struct gpu_odd o = gpu_odd_find(m, p->job, f->since_ns);

	if ((f->class != HANG_MISSING_ENTER && f->class != HANG_UNKNOWN) || o.proc != p)
		return;
	if (gpu_is_reason(&o)) {
		f->warning_after_ns = f->class == HANG_UNKNOWN ? 0 : f->warning_after_ns; /* it is no guess any more */
		f->class = HANG_INSIDE_GPU;
		f->cause = gpu_odd_cause(&o);
		f->confidence = fmax(f->confidence, o.confidence);
	}
	gpu_odd_note(f, found, m, &o, p->job, f->since_ns);
}

void gpu_stall_name(struct finding *f, const struct model *m, const struct job_id *job, struct finding_list *found)
{
	struct gpu_odd o = gpu_odd_find(m, job, f->since_ns);

	if (o.proc)
		name_odd(f, &o, found);
	gpu_odd_note(f, found, m, &o, job, f->since_ns);
}
