/* SPDX-License-Identifier: Apache-2.0
 *
 * habit.c - see habit.h. The stack of a rank is read shortly before its pause is reported, or because it was: the place
 * may not be known at first. In a job with known phases it may be one of them, and nothing is warned of before that is
 * known.
 */
#include "detect/hang/habit.h"

#include <string.h>

#include "detect/phrase.h"
#include "detect/rank/call_site.h"
#include "detect/severity.h"

#define PLACE_UNREAD_NS 10000000000ull /* by then the stack is there, or will not be */
#define MOVES_FOR_NS 12000000000ull    /* what moved is asked for again by then: two periods of the session and some */

static uint64_t longer(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t shorter(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t habit_works_critical_ns(uint64_t works_ns)
{
	return longer(WORKS_CRITICAL_NS, 2 * works_ns);
}

static const struct task *task_of(const struct proc *p, uint32_t tid)
{
	const struct task *t = p->tasks;

	while (t && t->tid != (tid ? tid : p->tgid))
		t = t->next;
	return t;
}

static void text_set(char *buf, size_t cap, const char *text)
{
	buf[0] = 0;
	phrase_add(buf, cap, text);
}

/* Iterations of the rank that the thread calls for. */
static uint64_t steps_done(const struct proc *p, uint32_t tid)
{
	const struct op *op = p->by_threads ? p->last_op : NULL;

	while (op && op->tid != tid)
		op = op->prev_in_proc;
	return op ? member_steps(op->member)->n : p->steps ? p->steps->n : 0;
}

void pause_place_read(struct pause_place *at, const struct model *m, const struct proc *p, uint32_t tid,
		      uint64_t since_ns)
{
	const struct task *t = call_site_thread(p, tid), *caller = task_of(p, tid);

	if (!at->first_ns) {
		at->first_ns = m->now_ns;
		at->steps = steps_done(p, tid);
	}
	if (t && t->stack.ns > since_ns) {
		at->site[0] = 0;
		call_site_name(at->site, sizeof(at->site), t);
		text_set(at->wait, sizeof(at->wait), t->stack.wait);
	} else if (!*at->site && caller && caller->at_ns > since_ns) {
		text_set(at->wait, sizeof(at->wait), caller->syscall);
	}
}

/* Bytes come, or whom it waits for works: nothing says that it will not end. */
static bool wait_moves(const struct model *m, const struct proc *p, uint32_t tid)
{
	const struct waits_for *w = call_site_wait(p, tid);

	return w && w->flags & WAITS_MOVES && m->now_ns < w->ns + MOVES_FOR_NS;
}

static bool unread_still(const struct pause_place *at, const struct model *m)
{
	return !*at->site && m->now_ns < at->first_ns + PLACE_UNREAD_NS;
}

static const struct known_phase *phase_of(const struct pauses *s, const struct model *m, const struct proc *p,
					  const struct pause_place *at)
{
	if (*at->site)
		return pauses_at(s, m, p->job->shown, at->site);
	return unread_still(at, m) ? pauses_like(s, m, p->job->shown, at->wait)
	       : *at->wait         ? pauses_at(s, m, p->job->shown, at->wait)
				   : NULL;
}

/* In a communicator that is used to long lags a wait that was just worth a report is no hang yet. */
static uint64_t critical_without_habit(bool moves, enum activity what, const struct pending *pend, uint64_t works_ns)
{
	if (what == ACTIVITY_ASLEEP && !moves)
		return longer(STALL_CRITICAL_NS, 2 * pend->limit_ns);
	return habit_works_critical_ns(works_ns);
}

/* What moves is alive: how long it has not moved counts from its last sign of life, which may be the end of an upload.
 * But it gets no longer than one that works all the while: signs of life may come for ever, of a health check. */
static uint64_t moved_for_ns(struct pause_place *at, const struct model *m, bool moves, enum activity what,
			     const struct pending *pend)
{
	if (what == ACTIVITY_BUSY || what == ACTIVITY_GPU || moves)
		at->moved_ns = m->now_ns;
	return at->moved_ns > pend->since_ns ? at->moved_ns - pend->since_ns : 0;
}

struct habit habit_of(const struct pauses *s, const struct model *m, const struct proc *p, uint32_t tid,
		      struct pause_place *at, enum activity what, const struct pending *pend, uint64_t works_ns)
{
	struct habit h = { .phase = phase_of(s, m, p, at) };
	bool moves = wait_moves(m, p, tid);

	h.critical_after_ns = critical_without_habit(moves, what, pend, works_ns);
	h.moved_for_ns = moved_for_ns(at, m, moves, what, pend);
	if (what == ACTIVITY_ASLEEP)
		h.critical_after_ns = shorter(h.critical_after_ns + h.moved_for_ns,
					      longer(h.critical_after_ns, habit_works_critical_ns(works_ns)));
	if (h.phase)
		h.critical_after_ns = longer(h.critical_after_ns, known_phase_limit_ns(h.phase));
	if (h.phase)
		h.warning_after_ns = known_phase_quiet_ns(h.phase);
	if (at->outlasted) /* what was critical stays so, whatever it does then */
		h.critical_after_ns = at->outlasted;
	else if (m->now_ns - pend->since_ns >= h.critical_after_ns)
		at->outlasted = h.critical_after_ns;
	return h;
}

void habit_learn(struct pauses *s, const struct model *m, const struct proc *p, const struct pause_place *at,
		 uint64_t since_ns)
{
	const char *site = *at->site ? at->site : at->wait;
	struct pause one = { .job = p->job->shown,
			     .site = site,
			     .wait = at->wait,
			     .begin_ns = since_ns,
			     .end_ns = m->now_ns,
			     .steps = at->steps };

	if (*site)
		pauses_learn(s, m, &one);
}
