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
#include "detect/rank/teardown.h"
#include "detect/severity.h"

#define FLOORS 14              /* hang floors without progress: 20 s in a session; an autopsy's floor is shorter */
#define KERNEL_FLOORS 7        /* the same where one kernel without end, and none of NCCL's, ran for most of it, */
#define KERNEL_ALIKE_FLOORS 5  /* for so long: no step has that */
#define GAPS 20                /* times the longest pause of the job, unless a GPU shows that no work goes on */
#define STILL_GAPS 3           /* times the longest such pause that ended by itself, if one does */
#define FRESH_NS 5000000000ull /* a member that was not sampled that long is not known to have stopped */
#define DEAD_FLOORS 2          /* the same since a rank died of a fault: its peers wait for it */
#define CONFIDENCE_NO_RANK 0.5
#define CONFIDENCE_DEAD 0.9

struct gpu_stall_job {
	struct keyed keyed; /* by the job */
	const struct job_id *job;
	bool live;   /* seen at this tick */
	bool inside; /* all ranks entered the same; moved_ns is then when they last did */
	uint64_t moved_ns;
	uint64_t longest_gap_ns, longest_still_ns; /* that ended by themselves */
	bool still;                                /* in this pause a GPU was the odd one and did no work */
};

static struct gpu_stall_job *job_get(struct gpu_stalls *s, const struct job_id *job)
{
	struct gpu_stall_job *j = keyed_get(&s->jobs, (uintptr_t)job, 0, sizeof(*j));

	if (j)
		j->job = job;
	return j;
}

/* --- does the job stop, all ranks at one place? --- */

static bool member_stands(const struct model *m, const struct member *mb, struct even_memo *memo)
{
	return mb->gone || (member_by_counters(mb) && mb->samples.seen_ns + FRESH_NS > m->now_ns &&
			    counters_still_ns(mb) && comm_even(memo, mb->comm));
}

/* Its calls are seen: those of a member that waits are no sign of progress, since it makes none. */
static bool proc_by_calls(const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		if (!mb->gone && mb->last_call_ns)
			return true;
	return false;
}

/* The newest call, or move of the process' counters; 0: some member moves, lags, or is not known. */
static uint64_t proc_moved_ns(const struct model *m, const struct proc *p, struct even_memo *memo)
{
	uint64_t newest = 0;

	if (proc_by_calls(p))
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
	if (j->still && gap > j->longest_still_ns)
		j->longest_still_ns = gap;
	j->still = false;
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
	if (proc_by_calls(p))
		moved_at(j, p->last_call_ns);
}

static bool is_member_proc(const struct proc *p)
{
	return !p->dead && !p->is_child && p->members;
}

int gpu_stalls_refresh(struct gpu_stalls *s, const struct model *m)
{
	struct even_memo memo = { 0 };

	jobs_forget(&s->forgetting, &s->jobs, m, NULL);
	for (struct gpu_stall_job *j = s->jobs.all; j; j = j->keyed.next)
		j->live = false;
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p)) {
		struct gpu_stall_job *j = is_member_proc(p) ? job_get(s, p->job) : NULL;

		if (!j && is_member_proc(p))
			return -ENOMEM;
		if (!j)
			continue;
		j->inside = (!j->live || j->inside) && proc_moved_ns(m, p, &memo);
		j->live = true;
		job_moved(j, p);
	}
	return 0;
}

void gpu_stalls_free(struct gpu_stalls *s)
{
	keyed_free(&s->jobs);
}

/* --- the finding --- */

static bool does_no_work(const struct gpu_odd *o)
{
	return o->proc && o->of.role != GPU_ROLE_WORKS;
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

/* The communicator whose counters moved last; and, of its kinds, the usual one. */
static const struct member *last_moved(const struct model *m, const struct job_id *job)
{
	const struct member *best = NULL;

	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		for (const struct member *mb = is_member_proc(p) && p->job == job ? p->members : NULL; mb;
		     mb = member_next_in_proc(mb))
			if (!mb->gone && mb->entered_seq[SEQ_COLL] &&
			    (!best || mb->samples.since_ns > best->samples.since_ns))
				best = mb;
	return best;
}

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

/* Ranks on hosts that are not seen may be the reason; the hub knows. */
static bool all_seen(const struct model *m, const struct job_id *job)
{
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		for (const struct member *mb = is_member_proc(p) && p->job == job ? p->members : NULL; mb;
		     mb = member_next_in_proc(mb))
			if (!mb->gone && mb->comm->n_seen < mb->comm->nranks)
				return false;
	return true;
}

/* Its GPU has nothing to do, as its host, asleep outside of NCCL and the driver, gives it nothing. */
static bool host_elsewhere(const struct model *m, const struct gpu_odd *o, uint64_t since_ns)
{
	return o->of.role == GPU_ROLE_IDLE && call_site_task(o->proc) && !call_site_in_nccl_or_driver(o->proc) &&
	       rank_activity(m, o->proc, since_ns).what == ACTIVITY_ASLEEP;
}

static void name_odd(struct finding *f, const struct gpu_odd *o, bool elsewhere, struct finding_list *found)
{
	f->class = elsewhere ? HANG_MISSING_ENTER : HANG_INSIDE_GPU;
	f->cause = elsewhere ? CAUSE_ASLEEP : gpu_odd_cause(o);
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

static int report(const struct gpu_stall_job *j, const struct model *m, const struct gpu_odd *o,
		  struct finding_list *found)
{
	const struct member *mb = last_moved(m, j->job);
	struct finding *f = mb ? finding_list_add(found) : NULL;
	bool elsewhere = o->proc && host_elsewhere(m, o, j->moved_ns);

	if (!f)
		return mb ? -ENOMEM : 0;
	f->kind = FINDING_HANG;
	f->class = HANG_UNKNOWN;
	f->cause = CAUSE_ALL_ENTERED;
	f->confidence = CONFIDENCE_NO_RANK;
	f->job = j->job->shown;
	f->peer = -1;
	f->since_ns = j->moved_ns;
	f->critical_after_ns = critical_ns(j, m, o);
	f->subject = o->proc ? subject_rank(proc_rank(o->proc), o->proc->key)
			     : subject_job(j->job->name, j->job->nth, j->job->shown);
	if (!elsewhere && !o->n_on_host && member_by_counters(mb)) /* else it is none of those that NCCL counts */
		op_set(f, mb);
	finding_identify(f, "gpu_stall", 0, mb->entered_seq[SEQ_COLL]);
	finding_note(f, EVIDENCE_WAITING_S, (m->now_ns - j->moved_ns) * 1e-9);
	finding_note(f, EVIDENCE_N_WAITING, o->n_in_nccl);
	if (o->proc)
		name_odd(f, o, elsewhere, found);
	gpu_odd_note(f, found, m, o, j->job, j->moved_ns);
	call_site_note_others(f, found, m);
	if (member_by_counters(mb))
		finding_note_text(f, EVIDENCE_KNOWN_FROM, "counters");
	finding_note(f, EVIDENCE_LIMIT_S, limit_ns(j, m, o) * 1e-9);
	return 0;
}

/* It left a communicator that others still have: not so where they made theirs anew without it, nor of a process that
 * only bears the job's name. */
static bool has_left_peers(const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		for (const struct member *o = mb->gone ? NULL : mb->comm->members; o; o = member_next_in_comm(o))
			if (!o->gone && !o->proc->dead)
				return true;
	return false;
}

/* A rank that died inside what all entered: its peers stand there, and none is behind. NULL: none. */
static const struct proc *dead_of(const struct gpu_stall_job *j, const struct model *m)
{
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		if (p->job == j->job && !p->is_child && death_is_fault(m, p) && has_left_peers(p) &&
		    m->now_ns >= larger(j->moved_ns, p->exit_ns) + DEAD_FLOORS * m->hang_floor_ns)
			return p;
	return NULL;
}

static int dead_report(const struct gpu_stall_job *j, const struct model *m, const struct proc *p,
		       struct finding_list *found)
{
	const struct member *mb = last_moved(m, j->job);
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

static int job_report(struct gpu_stall_job *j, const struct model *m, struct finding_list *found)
{
	const struct proc *dead;
	struct gpu_odd o;

	if (!j->live || !j->inside)
		return 0;
	dead = dead_of(j, m);
	if (dead && !hang_is_reported(found, m, j->job))
		return dead_report(j, m, dead, found);
	o = gpu_odd_find(m, j->job, j->moved_ns);
	j->still |= does_no_work(&o);
	if (m->now_ns < j->moved_ns + limit_ns(j, m, &o) || hang_is_reported(found, m, j->job))
		return 0;
	if (!o.proc && (o.n_in_nccl < o.n_ranks || !o.n_ranks || !all_seen(m, j->job)))
		return 0;
	return report(j, m, &o, found);
}

int gpu_stalls_report(const struct gpu_stalls *s, const struct model *m, const struct wait_roots *roots,
		      struct finding_list *found)
{
	int err = 0;

	for (struct gpu_stall_job *j = s->jobs.all; j && !err; j = j->keyed.next)
		if (!wait_roots_explain(roots, j->job))
			err = job_report(j, m, found);
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
		name_odd(f, &o, false, found);
	gpu_odd_note(f, found, m, &o, job, f->since_ns);
}
