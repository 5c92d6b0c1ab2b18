/* SPDX-License-Identifier: Apache-2.0
 *
 * shared_process.c - processes of several ranks: JAX, ncclCommInitAll, a thread for each rank (report.h). A seat waits
 * if its thread is in a wait for an operation of NCCL that is not over; where waits are not seen, if it is ahead in
 * some communicator. A seat that lags and does not wait is who the others wait for. Seats that one thread calls for are
 * late together and one finding; so are those that lack the same operation where no call is seen. A process that is
 * dead or stopped is one with all of its seats, however many are waited for so far. Ranks that all wait for each other
 * are not reported here: the graph's cycles are (deadlock.c).
 */
#include "detect/hang/report.h"

#include <errno.h>

#include "detect/hang/comm_init.h"
#include "detect/rank/activity.h"
#include "detect/rank/counters.h"
#include "detect/rank/seat_activity.h"
#include "detect/rank/seats.h"

struct late {
	const struct member *seat;
	uint32_t tid;
	struct pending pending;
	bool reported;
};

static bool is_ahead(const struct member *mb)
{
	uint64_t lo, hi;

	return member_comparable(mb, SEQ_COLL) && comm_span(mb->comm, SEQ_COLL, &lo, &hi) &&
	       mb->entered_seq[SEQ_COLL] > lo;
}

static bool seat_waits(const struct model *m, const struct member *seat, uint32_t tid)
{
	const struct proc *p = seat->proc;

	if (tid && comm_init_thread_waits(m, p, tid))
		return true;

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

/* A thread that was stopped in a wait does not see its end. */
static bool seat_late(const struct model *m, const struct member *seat, struct late *ret)
{
	*ret = (struct late){ .seat = seat, .tid = seat_tid(seat) };
	return seat_pending(m, seat, &ret->pending) &&
	       (proc_gone_or_stopped(seat->proc) || !seat_waits(m, seat, ret->tid));
}

static bool late_together(const struct late *a, const struct late *b)
{
	if (a->tid || b->tid)
		return a->tid == b->tid;
	return a->pending.member->comm == b->pending.member->comm && a->pending.space == b->pending.space &&
	       a->pending.seq == b->pending.seq;
}

/* --- of one process --- */

static void seats_gather(struct late *all, int n, int first, struct seats *ret)
{
	ret->n = 0;
	for (int i = first; i < n; i++) {
		if (all[i].reported || !late_together(&all[first], &all[i]))
			continue;
		all[i].reported = true;
		ret->all[ret->n++] = all[i].seat;
	}
}

static int seats_report(struct suspects *all, const struct model *m, const struct late *late, const struct seats *seats,
			int n_seats, struct finding_list *found)
{
	const struct proc *p = late->seat->proc;
	struct suspect *s = suspects_get_seat(all, p, late->seat->device, late->tid, &late->pending);
	struct culprit c = {
		.proc = p, .seats = seats, .tid = late->tid, .whole = seats->n == n_seats, .confidence = 0.95
	};

	if (!s)
		return -ENOMEM;
	c.pending = s->pending;
	c.activity = seats_activity(m, p, late->tid, c.whole, c.pending.since_ns);
	return seat_classify(all, s, m, &c) ? culprit_report(m, &c, found) : 0;
}

/* Known by what was lacking first, which stays the same while more of its seats come to be waited for. */
static int halted_report(struct suspects *all, const struct model *m, const struct late *late, int n,
			 const struct seats *seats, struct finding_list *found)
{
	struct late first = late[0];

	for (int i = 1; i < n; i++)
		if (late[i].pending.since_ns < first.pending.since_ns)
			first = late[i];
	first.tid = 0;
	return seats_report(all, m, &first, seats, seats->n, found);
}

static int proc_report(struct suspects *all, const struct model *m, const struct proc *p, struct finding_list *found)
{
	struct late late[SEATS_MAX];
	struct seats seats, together;
	int n = 0, err = 0;

	seats_of(p, &seats);
	for (int i = 0; i < seats.n; i++)
		n += seat_late(m, seats.all[i], &late[n]);
	if (n && proc_gone_or_stopped(p))
		return halted_report(all, m, late, n, &seats, found);
	for (int i = 0; i < n && !err; i++) {
		if (late[i].reported)
			continue;
		seats_gather(late, n, i, &together);
		err = seats_report(all, m, &late[i], &together, seats.n, found);
	}
	return err;
}

static int jobs_named(const struct model *m, const struct finding_list *found, size_t first, struct wait_roots *roots)
{
	int err = 0;

	for (size_t i = first; i < found->n && !err; i++) {
		const struct finding *f = &found->items[i];
		const struct proc *p = f->n_ranks ? model_proc(m, finding_proc(f, 0)) : NULL;

		if (p && !wait_roots_explain(roots, p->job))
			err = wait_roots_named(roots, p->job);
	}
	return err;
}

int shared_report(struct suspects *all, const struct model *m, struct wait_roots *roots, struct finding_list *found)
{
	size_t before = found->n;
	int err = comm_init_report_seats(m, all, found);

	for (const struct proc *p = m->procs; p != m->past && !err; p = proc_next(p))
		if (p->shared)
			err = proc_report(all, m, p, found);
	return err ? err : jobs_named(m, found, before, roots);
}
