/* SPDX-License-Identifier: Apache-2.0
 *
 * classify.c - see classify.h. Nothing is said while it is not clear, or while a storage wait may still end like any
 * other.
 */
#include "detect/hang/classify.h"

#include <stdlib.h>

#include "base/larger.h"
#include "detect/hang/gpu_stall.h"
#include "detect/hang/p2p.h"
#include "detect/hang/stalled_op.h"
#include "detect/rank/call_site.h"
#include "detect/rank/counters.h"
#include "detect/rank/teardown.h"
#include "detect/severity.h"
#include "detect/transfer/link_cause.h"

#define CONFIDENCE_NAMED 0.5         /* below it the rank may wait like the others */
#define GPU_TIMEOUT_NS 2000000000ull /* kernels may take that long in a healthy job */

/* On a bad network: two of NCCL's transport timeouts (4.3 s each) and some. */
#define LINK_TIMEOUT_NS 10000000000ull

static enum hang_class class_of(enum activity what)
{
	switch (what) {
	case ACTIVITY_DEAD: return HANG_PROCESS_DEAD;
	case ACTIVITY_STOPPED: return HANG_STOPPED;
	case ACTIVITY_BLOCKED: return HANG_HOST_BLOCKED;
	default: return HANG_MISSING_ENTER;
	}
}

static enum finding_cause cause_of(const struct proc *p, const struct rank_activity *a)
{
	switch (a->what) {
	case ACTIVITY_DEAD: return CAUSE_DEAD;
	case ACTIVITY_STOPPED: return proc_stop_cause(p);
	case ACTIVITY_BLOCKED: return CAUSE_D_STATE;
	case ACTIVITY_ASLEEP: return CAUSE_ASLEEP;
	case ACTIVITY_GPU: return CAUSE_GPU;
	case ACTIVITY_BUSY: return CAUSE_BUSY;
	default: return CAUSE_NONE;
	}
}

struct suspects_job {
	struct keyed keyed; /* by the job */
	uint64_t longest_ns;
};

/* Five times what ended by itself; of what took minutes, which a job with timeouts as usual has not, only twice. */
uint64_t suspects_busy_limit_ns(const struct suspects *s, const struct model *m, const struct job_id *job)
{
	const struct suspects_job *j = keyed_find(&s->jobs, (uintptr_t)job, 0);
	uint64_t longest = j ? j->longest_ns : 0;

	return larger(m->busy_limit_ns, larger(smaller(5 * longest, WORKS_CRITICAL_NS), 2 * longest));
}

/* It went on past a Send or Recv that its peer waits for: it will not come, whatever it does. */
static bool passed(const struct proc *p, const struct pending *pend)
{
	return pend->space == SPACE_P2P && !p->dead && p2p_passed(p, pend->member, pend->kind, pend->peer);
}

/* Of ranks whose hosts report: a peer on another one was seen to enter it no earlier than this rank was last seen, so
 * what is known of it is from before that. Of samples alone. */
static bool is_old(const struct model *m, const struct pending *pend)
{
	const struct member *mb = pend->member;

	if (!m->reported || !mb || pend->space != SEQ_COLL || !member_by_counters(mb))
		return false;
	for (const struct member *o = mb->comm->members; o; o = member_next_in_comm(o))
		if (o->proc->node != mb->proc->node && !o->proc->dead && member_comparable(o, SEQ_COLL) &&
		    o->entered_seq[SEQ_COLL] > pend->seq && o->samples.since_ns >= mb->samples.seen_ns)
			return true;
	return false;
}

static bool too_early(const struct suspects *all, const struct model *m, const struct suspect *s, const struct proc *p)
{
	uint64_t limit = s->pending.limit_ns;

	if (s->is_hang)
		return false;
	if (p->dead)
		return death_is_teardown(m, p);
	if (is_old(m, &s->pending))
		return true;
	/* others delayed it until now: it has had no time to come */
	return m->now_ns < rank_free_since_ns(p) + limit &&
	       m->now_ns - s->pending.since_ns <= suspects_busy_limit_ns(all, m, p->job);
}

static bool is_hang(const struct suspects *all, const struct model *m, const struct suspect *s, const struct culprit *c)
{
	switch (c->activity.what) {
	case ACTIVITY_DEAD:
	case ACTIVITY_STOPPED:
	case ACTIVITY_BLOCKED:
	case ACTIVITY_ASLEEP: return true;
	default:
		return s->is_hang || c->class == HANG_P2P_UNMATCHED ||
		       (c->activity.what != ACTIVITY_DISK &&
			m->now_ns - s->pending.since_ns > suspects_busy_limit_ns(all, m, c->proc->job));
	}
}

/* On a network that loses data or is slow a rank gets its part late, and is late at the next operation: asleep until
 * then is no fault of its own. Not dead, stopped or blocked ones. */
static bool network_excuses(const struct model *m, const struct suspect *s, const struct culprit *c,
			    const struct finding_list *found)
{
	if (s->is_hang || c->class != HANG_MISSING_ENTER || m->now_ns >= s->pending.since_ns + LINK_TIMEOUT_NS)
		return false;
	for (const struct member *mb = s->pending.member->comm->members; mb; mb = member_next_in_comm(mb))
		if (!mb->gone && link_cause_key(m, found, mb->proc))
			return true;
	return false;
}

/* In a live job a step that waits for its GPU for seconds is ordinary; an autopsy was asked because the job hangs. */
static bool stack_decides(const struct model *m, const struct suspect *s)
{
	return model_is_autopsy(m) && !s->is_hang && !s->busy_since_ns;
}

/* Behind, by its counters, and in a wait for its GPU: a kernel there does not end, and none of NCCL's, as far as is
 * seen. */
static bool gpu_is_late(const struct model *m, struct culprit *c)
{
	c->cause = CAUSE_GPU_NOT_RETURNING;
	c->confidence *= 0.8;
	c->habit = (struct habit){ 0 }; /* as any stall */
	return m->now_ns - c->pending.since_ns >= GPU_TIMEOUT_NS;
}

/* Its host runs, but only to poll for its GPU, or for room to launch more. If that runs a kernel that does not end
 * while its peers' GPUs wait in NCCL, that is no work. */
static enum activity polled(const struct model *m, const struct suspect *s, const struct proc *p, enum activity what)
{
	if (gpu_stall_holds(m, p, s->pending.since_ns))
		return ACTIVITY_ASLEEP;
	return what == ACTIVITY_BUSY && call_site_gpu_wait(p) ? ACTIVITY_GPU : what;
}

static bool is_busy(struct suspect *s, struct culprit *c)
{
	if (c->activity.what == ACTIVITY_UNSETTLED && s->busy_since_ns)
		c->cause = CAUSE_BUSY;
	else if (c->activity.what != ACTIVITY_BUSY && c->activity.what != ACTIVITY_GPU)
		return false;
	s->busy_since_ns = s->pending.since_ns;
	c->kind = FINDING_OBSERVATION;
	return true;
}

/* A child that began a moment ago makes no other verdict of a rank that hangs. */
static enum activity settled(struct suspect *s, enum activity what)
{
	if (what != ACTIVITY_UNSETTLED)
		s->was = what;
	return what == ACTIVITY_UNSETTLED && s->is_hang ? s->was : what;
}

/* Only what may end by itself has a habit. */
static void habit_set(const struct suspects *all, struct suspect *s, const struct model *m, struct culprit *c)
{
	pause_place_read(&s->place, m, c->proc, c->tid, s->pending.since_ns);
	c->habit = habit_of(&all->pauses, m, c->proc, c->tid, &s->place, c->activity.what, &s->pending,
			    suspects_busy_limit_ns(all, m, c->proc->job));
}

bool suspect_classify(const struct suspects *all, struct suspect *s, const struct model *m, const struct wait_root *r,
		      const struct finding_list *found, struct culprit *c)
{
	bool named = r->confidence >= CONFIDENCE_NAMED;

	*c = (struct culprit){
		.proc = r->proc, .pending = s->pending, .kind = FINDING_HANG, .confidence = r->confidence
	};
	if (too_early(all, m, s, r->proc) || (!named && roots_undecided(m, s->pending.since_ns)))
		return false;
	c->activity = rank_activity(m, r->proc, s->pending.since_ns);
	c->activity.what = settled(s, c->activity.what);
	if (c->activity.what == ACTIVITY_BUSY || c->activity.what == ACTIVITY_UNSETTLED)
		c->activity.what = polled(m, s, r->proc, c->activity.what);
	c->class = passed(r->proc, &s->pending) ? HANG_P2P_UNMATCHED : class_of(c->activity.what);
	c->cause = c->class == HANG_P2P_UNMATCHED ? CAUSE_WENT_ON : cause_of(r->proc, &c->activity);
	if (c->class == HANG_MISSING_ENTER)
		habit_set(all, s, m, c);
	if (network_excuses(m, s, c, found))
		return false;
	if (c->class == HANG_MISSING_ENTER && named && stack_decides(m, s) && call_site_gpu_wait(r->proc))
		return gpu_is_late(m, c);
	if (!is_hang(all, m, s, c))
		return is_busy(s, c);
	s->is_hang = c->class == HANG_MISSING_ENTER || c->class == HANG_P2P_UNMATCHED;
	return true;
}

bool seat_classify(const struct suspects *all, struct suspect *s, const struct model *m, struct culprit *c)
{
	c->kind = FINDING_HANG;
	c->activity.what = settled(s, c->activity.what);
	c->class = class_of(c->activity.what);
	c->cause = cause_of(c->proc, &c->activity);
	if (c->activity.what == ACTIVITY_DEAD && death_is_teardown(m, c->proc))
		return false;
	if (c->class == HANG_MISSING_ENTER)
		habit_set(all, s, m, c);
	if (!is_hang(all, m, s, c))
		return is_busy(s, c);
	s->is_hang = c->class == HANG_MISSING_ENTER;
	return true;
}

/* --- suspects over ticks --- */

struct suspect *suspects_get(struct suspects *all, const struct model *m, const struct proc *p)
{
	struct pending pend;
	struct suspect *s;

	for (s = all->first; s; s = s->next)
		if (s->proc == p->key && !s->seat)
			return s;
	if (!rank_pending(m, p, &pend))
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	*s = (struct suspect){ .proc = p->key, .pending = pend, .next = all->first };
	all->first = s;
	return s;
}

struct suspect *suspects_get_seat(struct suspects *all, const struct proc *p, int device, uint32_t tid,
				  const struct pending *pend)
{
	struct suspect *s;

	for (s = all->first; s; s = s->next)
		if (s->proc == p->key && s->seat == device + 1)
			return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	*s = (struct suspect){ .proc = p->key, .seat = device + 1, .tid = tid, .pending = *pend, .next = all->first };
	all->first = s;
	return s;
}

/* NULL: it is not of the rank any more. */
static const struct member *member_of(const struct proc *p, const struct pending *pend)
{
	const struct member *mb = p->members;

	while (mb && mb != pend->member)
		mb = mb->next_in_proc;
	return mb;
}

/* The rank entered what its peers waited in: its communicator is there, and it is past that number; or the peer of a
 * transfer lives, and waits no more. */
static bool has_come(const struct proc *p, const struct pending *pend)
{
	const struct member *mb = member_of(p, pend), *o;

	if (!mb || mb->gone || pend->space >= 0)
		return mb && !mb->gone && mb->entered_seq[pend->space] > pend->seq;
	o = member_peer(mb, pend->peer);
	return o && !o->gone && !o->proc->dead;
}

/* Its communicator is gone, and it lives: the program gave up soon and makes another, as one does that begins anew
 * after an error. Later than that it may be a watchdog, which ends a hang. */
static bool gave_up_soon(const struct proc *p, const struct pending *pend, uint64_t took_ns)
{
	const struct member *mb = member_of(p, pend);

	return mb && mb->gone && took_ns < PHASE_TWICE_NS;
}

void suspects_busy_learn(struct suspects *all, const struct job_id *job, uint64_t took_ns)
{
	struct suspects_job *j = keyed_get(&all->jobs, (uintptr_t)job, 0, sizeof(*j));

	if (j)
		j->longest_ns = larger(j->longest_ns, took_ns);
}

/* It came: work may take that long in this job, and a pause there may. Not what ended with the rank or its peers, nor
 * what it was stopped or blocked in. Reported or not. */
static void ended_learn(struct suspects *all, const struct model *m, const struct suspect *s, const struct proc *p)
{
	uint64_t took_ns = m->now_ns - s->pending.since_ns;

	if (!p || p->dead || s->was_stopped || (!s->busy_since_ns && !s->is_hang))
		return;
	if (!has_come(p, &s->pending) && !gave_up_soon(p, &s->pending, took_ns))
		return;
	suspects_busy_learn(all, p->job, took_ns);
	habit_learn(&all->pauses, m, p, &s->place, s->pending.since_ns);
}

void suspects_refresh(struct suspects *all, const struct model *m)
{
	struct suspect **link = &all->first, *s;

	jobs_forget(&all->forgetting, &all->jobs, m, NULL);
	while ((s = *link)) {
		const struct proc *p = model_proc(m, s->proc);

		s->was_stopped |= p && proc_gone_or_stopped(p);
		if (p && rank_still_pending(m, p, &s->pending)) {
			link = &s->next;
			continue;
		}
		ended_learn(all, m, s, p);
		*link = s->next;
		free(s);
	}
}

void suspects_free(struct suspects *all)
{
	struct suspect *s;

	while ((s = all->first)) {
		all->first = s->next;
		free(s);
	}
	pauses_free(&all->pauses);
	keyed_free(&all->jobs);
}
