/* SPDX-License-Identifier: Apache-2.0
 *
 * hang.c - names the roots of the wait-for graph once a rank is late beyond what its communicator is used to, and its
 * cycles. What a root does instead decides: dead, stopped and asleep are a hang at once, D state together with its
 * d_state finding, work is an observation until it outlasts every such phase seen. Victims are evidence, never
 * findings.
 */
#include <errno.h>
#include <stdlib.h>

#include "detect/hang/absent.h"
#include "detect/hang/comm_init.h"
#include "detect/hang/report.h"
#include "detect/hang/deadlock.h"
#include "detect/rank/call_site.h"
#include "detect/hang/all_entered.h"
#include "detect/transfer/link_cause.h"
#include "detect/hang/counters.h"
#include "detect/hang/stalled_op.h"
#include "detect/hang/comm_init_outside.h"
#include "detect/hang/unread.h"

#define CONFIDENCE_NAMED 0.5         /* below it may wait like the others */
#define GPU_TIMEOUT_NS 2000000000ull /* its kernels may take that long in a job that is well */

/* On a bad network: two of NCCL's transport timeouts (4.3 s each) and some. */
#define LINK_TIMEOUT_NS 10000000000ull

struct suspect { /* a root, for as long as it lacks this one operation */
	uint64_t proc;
	struct pending pending;
	bool opened;            /* told as a hang for not entering: stays one, whatever it does then */
	uint64_t busy_since_ns; /* told as an observation */
	struct suspect *next;
};

struct hang {
	struct suspect *suspects;
	uint64_t longest_busy_ns;
	struct deadlocks deadlocks;
	struct wait_roots found;
};

static enum hang_class class_of(enum activity what)
{
	switch (what) {
	case ACTIVITY_DEAD: return HANG_PROCESS_DEAD;
	case ACTIVITY_STOPPED: return HANG_STOPPED;
	case ACTIVITY_BLOCKED: return HANG_HOST_BLOCKED;
	default: return HANG_MISSING_ENTER;
	}
}

static enum finding_cause cause_of(const struct rank_activity *a)
{
	switch (a->what) {
	case ACTIVITY_DEAD: return CAUSE_DEAD;
	case ACTIVITY_STOPPED: return CAUSE_STOPPED;
	case ACTIVITY_BLOCKED: return CAUSE_D_STATE;
	case ACTIVITY_ASLEEP: return CAUSE_ASLEEP;
	case ACTIVITY_GPU: return CAUSE_GPU;
	case ACTIVITY_BUSY: return CAUSE_BUSY;
	default: return CAUSE_NONE;
	}
}

static uint64_t busy_limit_ns(const struct hang *h, const struct model *m)
{
	return 5 * h->longest_busy_ns > m->busy_limit_ns ? 5 * h->longest_busy_ns : m->busy_limit_ns;
}

/* It went on past a Send or Recv that its peer waits for: it will not come, whatever it does. */
static bool passed(const struct proc *p, const struct pending *l)
{
	return l->space == SPACE_P2P && !p->dead && rank_passed(p, l);
}

static bool too_early(const struct hang *h, const struct model *m, const struct suspect *s, const struct proc *p)
{
	uint64_t limit = s->pending.limit_ns;

	if (s->opened)
		return false;
	if (p->dead)
		return death_is_teardown(m, p);
	/* held up by others until now, it has had no time to come */
	return m->now_ns < rank_free_since_ns(p) + limit && m->now_ns - s->pending.since_ns <= busy_limit_ns(h, m);
}

static bool is_hang(const struct hang *h, const struct model *m, const struct suspect *s, const struct culprit *c)
{
	switch (c->activity.what) {
	case ACTIVITY_DEAD:
	case ACTIVITY_STOPPED:
	case ACTIVITY_BLOCKED:
	case ACTIVITY_ASLEEP: return true;
	default:
		return s->opened || c->class == HANG_P2P_UNMATCHED ||
		       (c->activity.what != ACTIVITY_DISK && m->now_ns - s->pending.since_ns > busy_limit_ns(h, m));
	}
}

/* On a network that loses data or is slow a rank gets its part late, and is late at the next operation: asleep until
 * then is no fault of its own. Not dead, stopped or blocked ones. */
static bool network_excuses(const struct model *m, const struct suspect *s, const struct culprit *c,
			    const struct finding_list *found)
{
	if (s->opened || c->class != HANG_MISSING_ENTER || m->now_ns >= s->pending.since_ns + LINK_TIMEOUT_NS)
		return false;
	for (const struct member *mb = s->pending.member->comm->members; mb; mb = mb->next_in_comm)
		if (!mb->gone && link_cause_key(m, found, mb->proc))
			return true;
	return false;
}

/* A live session reads stacks of what it has told: they are evidence of that, and no new verdict. */
static bool is_unreported(const struct suspect *s)
{
	return !s->opened && !s->busy_since_ns;
}

/* Behind, by its counters, and in a wait for its GPU: what runs there does not end. Nothing of NCCL, as far as is seen.
 */
static int gpu_judge(const struct model *m, struct culprit *c, struct finding_list *found)
{
	if (m->now_ns - c->pending.since_ns < GPU_TIMEOUT_NS)
		return 0;
	c->cause = CAUSE_GPU_NOT_RETURNING;
	c->confidence *= 0.8;
	return culprit_report(m, c, found);
}

/* Nothing is said while it is not clear, or while a storage wait may still end like any other. */
static int judge(struct hang *h, const struct model *m, struct suspect *s, const struct wait_root *r,
		 struct finding_list *found)
{
	struct culprit c = {
		.proc = r->proc, .pending = s->pending, .kind = FINDING_HANG, .confidence = r->confidence
	};

	if (s->pending.space == SPACE_INIT)
		return comm_init_report_rank(m, r->proc, &s->pending, busy_limit_ns(h, m), found);
	if (too_early(h, m, s, r->proc))
		return 0;
	if (r->confidence < CONFIDENCE_NAMED && stalled_op_undecided(m, s->pending.since_ns))
		return 0;
	c.activity = rank_activity(m, r->proc, s->pending.since_ns);
	c.class = passed(r->proc, &s->pending) ? HANG_P2P_UNMATCHED : class_of(c.activity.what);
	c.cause = c.class == HANG_P2P_UNMATCHED ? CAUSE_WENT_ON : cause_of(&c.activity);
	if (network_excuses(m, s, &c, found))
		return 0;
	if (c.class == HANG_MISSING_ENTER && r->confidence >= CONFIDENCE_NAMED && is_unreported(s) &&
	    call_site_gpu_wait(r->proc))
		return gpu_judge(m, &c, found);
	if (is_hang(h, m, s, &c)) {
		s->opened = c.class == HANG_MISSING_ENTER || c.class == HANG_P2P_UNMATCHED;
		return culprit_report(m, &c, found);
	}
	if (c.activity.what == ACTIVITY_UNSETTLED && s->busy_since_ns)
		c.cause = CAUSE_BUSY;
	else if (c.activity.what != ACTIVITY_BUSY && c.activity.what != ACTIVITY_GPU)
		return 0;
	s->busy_since_ns = s->pending.since_ns;
	c.kind = FINDING_OBSERVATION;
	return culprit_report(m, &c, found);
}

/* --- suspects over ticks --- */

static struct suspect *suspect_of(struct hang *h, const struct model *m, const struct proc *p)
{
	struct suspect *s;
	struct pending l;

	for (s = h->suspects; s; s = s->next)
		if (s->proc == p->key)
			return s;
	if (!rank_pending(m, p, &l))
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->proc = p->key;
	s->pending = l;
	s->next = h->suspects;
	h->suspects = s;
	return s;
}

static void suspects_refresh(struct hang *h, const struct model *m)
{
	struct suspect **link = &h->suspects, *s;

	while ((s = *link)) {
		const struct proc *p = model_proc(m, s->proc);

		if (p && rank_still_pending(m, p, &s->pending)) {
			link = &s->next;
			continue;
		}
		if (s->busy_since_ns && !s->opened && m->now_ns - s->busy_since_ns > h->longest_busy_ns)
			h->longest_busy_ns = m->now_ns - s->busy_since_ns;
		*link = s->next;
		free(s);
	}
}

static int roots_judge(struct hang *h, const struct model *m, struct finding_list *found)
{
	int err = 0;

	for (int i = 0; i < h->found.n_roots && !err; i++) {
		struct suspect *s = suspect_of(h, m, h->found.roots[i].proc);

		if (s)
			err = judge(h, m, s, &h->found.roots[i], found);
	}
	return err;
}

/* --- cycles --- */

static int skipped_report(const struct model *m, const struct wait_cycle *c, struct finding_list *found)
{
	struct culprit one = { .proc = c->skipped,
			       .pending = c->pending,
			       .kind = FINDING_HANG,
			       .class = HANG_P2P_UNMATCHED,
			       .confidence = 0.95 };

	one.pending.limit_ns = m->hang_floor_ns;
	one.activity = rank_activity(m, c->skipped, c->pending.since_ns);
	one.cause = CAUSE_WENT_ON;
	return culprit_report(m, &one, found);
}

static int cycles_judge(struct hang *h, const struct model *m, struct finding_list *found)
{
	int err = 0;

	deadlocks_begin(&h->deadlocks);
	for (int i = 0; i < h->found.n_cycles && !err; i++) {
		const struct wait_cycle *c = &h->found.cycles[i];
		const struct known_cycle *s = deadlocks_match(&h->deadlocks, c, m->now_ns);

		if (!s || m->now_ns < (c->stood_ns && c->stood_ns < s->since_ns ? c->stood_ns : s->since_ns) +
					      m->hang_floor_ns)
			continue;
		err = c->skipped ? skipped_report(m, c, found) : deadlock_report(m, c, s->fingerprint, found);
	}
	deadlocks_end(&h->deadlocks);
	return err;
}

static int hang_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct hang *h = state;
	size_t n_before;
	int err = 0;

	suspects_refresh(h, m);
	h->found.n_roots = h->found.n_cycles = 0;
	if (wait_graph_needed(m))
		err = wait_roots_find(m, &h->found);
	stalled_op_filter_roots(m, &h->found);
	counters_filter_roots(m, &h->found);
	if (!err)
		err = absent_report(m, &h->found, found);
	if (!err)
		err = cycles_judge(h, m, found);
	if (!err)
		err = roots_judge(h, m, found);
	if (!err)
		err = comm_init_report_unnamed(m, busy_limit_ns(h, m), found);
	if (!err && !h->found.n_roots && !h->found.n_cycles)
		err = unread_report(m, found);
	if (!err)
		err = comm_init_report_outside(m, found);
	n_before = found->n;
	if (!err && !h->found.n_roots && !h->found.n_cycles)
		err = stalled_transfer_report(m, found);
	if (!err && !h->found.n_roots && !h->found.n_cycles && n_before == found->n)
		err = all_entered_report(m, found);
	return err;
}

static void hang_release(void *state)
{
	struct hang *h = state;
	struct suspect *s;

	while ((s = h->suspects)) {
		h->suspects = s->next;
		free(s);
	}
}

const struct detector detector_hang = {
	.name = "hang",
	.help = "an operation that some rank does not enter while its peers wait: the root of the wait-for graph, or its cycle",
	.state_bytes = sizeof(struct hang),
	.release = hang_release,
	.tick = hang_tick,
};
