/* SPDX-License-Identifier: Apache-2.0
 *
 * shared_process.c - processes of several ranks: JAX, ncclCommInitAll, a thread for each rank (report.h). A seat waits
 * if its thread is in a wait for an operation of NCCL that is not over; where waits are not seen, if it is ahead in
 * some communicator. A seat that lags and does not wait is who the others wait for. Ranks that all wait for each other
 * are not reported here.
 */
#include "detect/hang/report.h"

#include "detect/rank/counters.h"

#define AT_REST_NS 400000000ull /* as in rank/activity.c */

/* It is the first of its process that has this GPU: it stands for the seat. */
static bool stands_for_seat(const struct member *mb)
{
	const struct member *o = mb->proc->members;

	while (o != mb && (o->gone || o->device != mb->device))
		o = o->next_in_proc;
	return o == mb && !mb->gone;
}

static const struct member *seat_next(const struct member *seat, const struct member *last)
{
	const struct member *mb = last ? last->next_in_proc : seat->proc->members;

	while (mb && (mb->gone || mb->device != seat->device))
		mb = mb->next_in_proc;
	return mb;
}

/* The thread that called last for it; 0: no call was seen. */
static uint32_t seat_tid(const struct member *seat)
{
	const struct op *newest = NULL;

	for (const struct member *mb = seat_next(seat, NULL); mb; mb = seat_next(seat, mb))
		if (mb->ops_tail && (!newest || mb->ops_tail->call_ns > newest->call_ns))
			newest = mb->ops_tail;
	return newest ? newest->tid : 0;
}

static bool is_ahead(const struct member *mb)
{
	uint64_t lo, hi;

	return member_comparable(mb, SEQ_COLL) && comm_span(mb->comm, SEQ_COLL, &lo, &hi) &&
	       mb->entered_seq[SEQ_COLL] > lo;
}

static bool seat_waits(const struct member *seat, uint32_t tid)
{
	const struct proc *p = seat->proc;

	for (const struct call *c = p->calls; c; c = c->next)
		if (tid && c->tid == tid && call_blocked_by(p, c))
			return true;
	if (tid && p->last_sync_ns)
		return false;
	for (const struct member *mb = seat_next(seat, NULL); mb; mb = seat_next(seat, mb))
		if (is_ahead(mb))
			return true;
	return false;
}

/* What the seat lacks for longest, past its limit. */
static bool seat_pending(const struct model *m, const struct member *seat, struct pending *ret)
{
	struct pending one;
	bool found = false;

	for (const struct member *mb = seat_next(seat, NULL); mb; mb = seat_next(seat, mb)) {
		if (!member_pending(m, mb, &one) || m->now_ns <= one.since_ns + one.limit_ns)
			continue;
		if (!found || one.since_ns < ret->since_ns)
			*ret = one;
		found = true;
	}
	return found;
}

static const struct task *task_of(const struct proc *p, uint32_t tid)
{
	const struct task *t = tid ? p->tasks : NULL;

	while (t && t->tid != tid)
		t = t->next;
	return t;
}

static enum activity task_activity(const struct task *t)
{
	if (t->blocked)
		return ACTIVITY_BLOCKED;
	switch (t->state) {
	case TASK_DISK: return ACTIVITY_DISK;
	case TASK_STOPPED: return ACTIVITY_STOPPED;
	case TASK_SLEEP: return t->seen_ns > t->since_ns + AT_REST_NS ? ACTIVITY_ASLEEP : ACTIVITY_BUSY;
	default: return ACTIVITY_BUSY;
	}
}

/* Of its thread where that is known; else nothing distinguishes the threads of the process. */
static struct rank_activity seat_activity(const struct model *m, const struct proc *p, uint32_t tid, uint64_t since_ns)
{
	const struct task *t = task_of(p, tid);
	struct rank_activity a;

	if (!t || p->dead) {
		a = rank_activity(m, p, since_ns);
		a.task = a.what == ACTIVITY_STOPPED || a.what == ACTIVITY_BLOCKED ? a.task : NULL;
		return a;
	}
	a = (struct rank_activity){ .what = task_activity(t), .cpu_share = task_cpu_share(t), .task = t };
	return a;
}

static int seat_report(const struct suspects *all, const struct model *m, const struct member *seat,
		       struct finding_list *found, int *n)
{
	struct culprit c = { .proc = seat->proc, .seat = seat, .confidence = 0.95 };
	uint32_t tid = seat_tid(seat);
	int err;

	if (!seat_pending(m, seat, &c.pending) || seat_waits(seat, tid))
		return 0;
	c.seat = c.pending.member;
	c.activity = seat_activity(m, seat->proc, tid, c.pending.since_ns);
	if (!seat_classify(all, m, &c))
		return 0;
	err = culprit_report(m, &c, found);
	*n += !err;
	return err;
}

int shared_report(const struct suspects *all, const struct model *m, struct finding_list *found, int *ret_n)
{
	int err = 0;

	*ret_n = 0;
	for (const struct proc *p = m->procs; p && !err; p = p->next)
		for (const struct member *mb = p->shared ? p->members : NULL; mb && !err; mb = mb->next_in_proc)
			if (stands_for_seat(mb))
				err = seat_report(all, m, mb, found, ret_n);
	return err;
}
