/* SPDX-License-Identifier: Apache-2.0
 *
 * seat_activity.c - see seat_activity.h.
 */
#include "detect/rank/seat_activity.h"

#include "detect/rank/seats.h"

#define AT_REST_NS 400000000ull /* as in rank/activity.c */

/* A child that works, or bytes that come, are what it sleeps for. */
static enum activity sleeper_activity(const struct model *m, const struct task *t, uint64_t since_ns)
{
	if (t->seen_ns <= t->since_ns + AT_REST_NS)
		return ACTIVITY_BUSY;
	return rank_helpers_activity(m, t->proc, since_ns);
}

static enum activity task_activity(const struct model *m, const struct task *t, uint64_t since_ns)
{
	if (t->blocked)
		return ACTIVITY_BLOCKED;
	switch (t->state) {
	case TASK_DISK: return ACTIVITY_DISK;
	case TASK_STOPPED: return ACTIVITY_STOPPED;
	case TASK_SLEEP: return sleeper_activity(m, t, since_ns);
	default: return ACTIVITY_BUSY;
	}
}

/* A debugger holds one thread, a signal all of them. */
static bool is_the_only_stopped(const struct proc *p)
{
	int n = 0;

	for (const struct task *t = p->tasks; t; t = t->next)
		n += t->state == TASK_STOPPED;
	return n == 1;
}

/* Of its thread where that is known, and others wait in theirs; else nothing distinguishes the threads of the
 * process. */
struct rank_activity seats_activity(const struct model *m, const struct proc *p, uint32_t tid, bool whole,
				    uint64_t since_ns)
{
	const struct task *t = whole ? NULL : seat_task(p, tid);
	struct rank_activity a;

	if (!t || p->dead) {
		a = rank_activity(m, p, since_ns);
		if (!tid && a.what != ACTIVITY_BLOCKED && !(a.what == ACTIVITY_STOPPED && is_the_only_stopped(p)))
			a.task = NULL; /* which of its threads says nothing */
		return a;
	}
	a = (struct rank_activity){ .what = task_activity(m, t, since_ns), .cpu_share = task_cpu_share(t), .task = t };
	return a;
}
