/* SPDX-License-Identifier: Apache-2.0
 *
 * hang.c - names the roots of the wait-for graph once a rank is late beyond what its communicator is used to. What
 * the root does instead decides: dead, stopped and asleep are a hang at once, D state together with its d_state
 * finding, work is an observation until it outlasts every such phase seen. Victims are evidence, never findings.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "detect/activity.h"
#include "detect/detect.h"
#include "detect/inside.h"
#include "detect/wait.h"

#define ROOTS_MAX 64
#define LOSS_WINDOW_NS 10000000000ull
#define CONFIDENCE_MIN 0.5

struct suspect {            /* a root, for as long as it lacks this one operation */
	uint32_t tgid;
	struct lack lack;
	bool current;       /* a root at this tick */
	bool opened;        /* told as a hang for not entering: stays one, whatever it does then */
	uint64_t busy_since_ns; /* told as an observation */
	struct suspect *next;
};

struct hang {
	struct suspect *suspects;
	uint64_t longest_busy_ns;
};

static uint64_t lack_key(enum finding_kind kind, const struct suspect *s)
{
	uint64_t what = s->lack.space >= 0 ? (uint64_t)s->lack.space : 16 + 2 * (uint64_t)s->lack.peer + (s->lack.kind == OP_RECV);

	return finding_key(kind, s->lack.member->comm->hash ^ (uint64_t)s->tgid << 32, s->lack.seq, what);
}

static double seconds(uint64_t ns)
{
	return ns * 1e-9;
}

static void note_last_op(struct finding *f, const struct model *m, const struct proc *p)
{
	const struct op *op = p->last_op;

	if (!op)
		return;
	finding_note_text(f, "last_op", op_kind_name(op->kind));
	finding_note(f, "last_op_seq", op->seq);
	finding_note(f, "last_op_count", op->count);
	finding_note(f, "last_op_s_ago", seconds(m->now_ns - op->call_ns));
}

static void note_activity(struct finding *f, const struct rank_activity *a, const struct proc *p)
{
	if (a->cpu_share >= 0) {
		finding_note(f, "cpu_share", a->cpu_share);
		finding_note(f, "io_bytes_per_s", a->io_bytes_s);
	}
	if (a->task) {
		finding_note_text(f, "state", task_state_name(a->task->state));
		finding_note_text(f, "thread", a->task->name);
		finding_note(f, "tid", a->task->tid);
		finding_note_text(f, "wchan", a->task->blocked ? a->task->wchan : "");
		finding_note_text(f, "kernel_stack", a->task->blocked ? a->task->kernel_stack : "");
	}
	if (p->dead) {
		finding_note(f, "exit_code", p->exit_code);
		finding_note(f, "exit_signal", p->exit_signal);
	}
}

static void note_waiting(struct finding *f, struct finding_list *found, const struct model *m, const struct lack *l)
{
	char ranks[256];

	lack_waiting_text(l, ranks, sizeof(ranks));
	finding_note(f, "waiting_s", seconds(m->now_ns - l->since_ns));
	finding_note(f, "n_waiting", l->n_waiting);
	finding_note_text(f, "waiting_ranks", finding_list_text(found, ranks));
	finding_note(f, "limit_s", seconds(l->limit_ns));
}

static void set_op(struct finding *f, const struct lack *l)
{
	f->has_op = true;
	f->comm = l->member->comm->hash;
	f->op = l->kind;
	f->seq = l->seq;
	f->peer = l->space < 0 ? comm_global_rank(l->member->comm, l->peer) : -1;
	f->since_ns = l->since_ns;
}

/* A mismatch in a communicator of this rank explains whatever follows; so does its own D state, or having been stopped. */
static uint64_t cause_key(const struct finding_list *found, const struct proc *p, const struct rank_activity *a)
{
	const struct finding *f = NULL;

	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
		for (size_t i = 0; i < found->n; i++)
			if (found->items[i].kind == FINDING_MISMATCH && found->items[i].comm == mb->comm->hash && !mb->gone)
				return found->items[i].key;
	if (a->what == ACTIVITY_BLOCKED)
		f = finding_list_of(found, FINDING_D_STATE, a->task->tgid);
	else if (a->what == ACTIVITY_STOPPED)
		f = finding_list_of(found, FINDING_STOPPED, p->tgid);
	return f ? (f->caused_by_key ? f->caused_by_key : f->key) : 0;
}

static enum hang_class class_of(enum activity what)
{
	switch (what) {
	case ACTIVITY_DEAD: return HANG_PROCESS_DEAD;
	case ACTIVITY_STOPPED: return HANG_STOPPED;
	case ACTIVITY_BLOCKED: return HANG_HOST_BLOCKED;
	default: return HANG_MISSING_ENTER;
	}
}

static const char *cause_of(const struct rank_activity *a)
{
	switch (a->what) {
	case ACTIVITY_DEAD: return "dead";
	case ACTIVITY_STOPPED: return "stopped";
	case ACTIVITY_BLOCKED: return *a->task->wchan ? a->task->wchan : "d_state";
	case ACTIVITY_ASLEEP: return "asleep";
	case ACTIVITY_BUSY: return "busy";
	default: return NULL;
	}
}

static double confidence_of(const struct model *m, const struct wait_root *r, const struct lack *l, enum hang_class class)
{
	const struct comm *c = l->member->comm;
	double conf = r->confidence;

	if (c->n_seen < c->nranks) /* who is on other nodes may be late too */
		conf *= 0.9;
	if (class != HANG_MISSING_ENTER)
		return conf;
	if (m->last_loss_ns && m->last_loss_ns + LOSS_WINDOW_NS > l->since_ns)
		conf *= 0.4; /* its entry may be among the lost */
	return conf;
}

static int report(const struct model *m, struct suspect *s, const struct wait_root *r, const struct rank_activity *a,
		  enum finding_kind kind, struct finding_list *found)
{
	struct finding *f = finding_list_add(found);

	if (!f)
		return -ENOMEM;
	f->kind = kind;
	f->key = lack_key(kind, s);
	f->class = r->deadlock ? HANG_DEADLOCK : class_of(a->what);
	f->cause = r->deadlock ? "order" : cause_of(a);
	set_op(f, &s->lack);
	f->confidence = confidence_of(m, r, &s->lack, f->class);
	if (f->confidence < CONFIDENCE_MIN)
		f->class = HANG_UNKNOWN;
	f->caused_by_key = kind == FINDING_HANG ? cause_key(found, r->proc, a) : 0;
	finding_add_rank(f, proc_rank(r->proc), r->proc->tgid);
	note_waiting(f, found, m, &s->lack);
	note_last_op(f, m, r->proc);
	note_activity(f, a, r->proc);
	return 0;
}

static uint64_t busy_limit_ns(const struct hang *h, const struct model *m)
{
	return 5 * h->longest_busy_ns > m->busy_limit_ns ? 5 * h->longest_busy_ns : m->busy_limit_ns;
}

/* Nothing is said while it is not clear, or while a storage wait may still end like any other. */
static int judge(struct hang *h, const struct model *m, struct suspect *s, const struct wait_root *r, struct finding_list *found)
{
	uint64_t waited = m->now_ns - s->lack.since_ns, free_ns = rank_free_since_ns(r->proc);
	struct rank_activity a = rank_activity(m, r->proc, s->lack.since_ns);
	bool hang;

	/* held up by others until now, it has had no time to come */
	if (!s->opened && !r->deadlock && m->now_ns < free_ns + s->lack.limit_ns && waited <= busy_limit_ns(h, m))
		return 0;
	switch (a.what) {
	case ACTIVITY_DEAD:
	case ACTIVITY_STOPPED:
	case ACTIVITY_BLOCKED:
	case ACTIVITY_ASLEEP:
		hang = true;
		break;
	default:
		hang = s->opened || r->deadlock || (a.what != ACTIVITY_DISK && waited > busy_limit_ns(h, m));
	}
	if (hang) {
		s->opened = class_of(a.what) == HANG_MISSING_ENTER;
		return report(m, s, r, &a, FINDING_HANG, found);
	}
	if (a.what != ACTIVITY_BUSY && !(s->busy_since_ns && a.what == ACTIVITY_UNSETTLED))
		return 0;
	s->busy_since_ns = s->lack.since_ns;
	a.what = ACTIVITY_BUSY;
	return report(m, s, r, &a, FINDING_OBSERVATION, found);
}

/* --- suspects over ticks --- */

static struct suspect *suspect_of(struct hang *h, const struct model *m, const struct proc *p)
{
	struct suspect *s;
	struct lack l;

	for (s = h->suspects; s; s = s->next)
		if (s->tgid == p->tgid)
			return s;
	if (!rank_lacks(m, p, &l))
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->tgid = p->tgid;
	s->lack = l;
	s->next = h->suspects;
	h->suspects = s;
	return s;
}

static void suspects_refresh(struct hang *h, const struct model *m)
{
	struct suspect **link = &h->suspects, *s;

	while ((s = *link)) {
		const struct proc *p = model_proc(m, s->tgid);

		s->current = false;
		if (p && rank_still_lacks(m, p, &s->lack)) {
			link = &s->next;
			continue;
		}
		if (s->busy_since_ns && !s->opened && m->now_ns - s->busy_since_ns > h->longest_busy_ns)
			h->longest_busy_ns = m->now_ns - s->busy_since_ns;
		*link = s->next;
		free(s);
	}
}

static bool anyone_late(const struct model *m)
{
	for (const struct proc *p = m->procs; p; p = p->next)
		if (p->members && rank_late(m, p))
			return true;
	return false;
}

static int hang_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct wait_root roots[ROOTS_MAX];
	struct hang *h = state;
	struct suspect *s;
	int n, err = 0;

	suspects_refresh(h, m);
	if (!anyone_late(m))
		return inside_report(m, found);
	n = wait_roots(m, roots, ROOTS_MAX);
	for (int i = 0; i < n && !err; i++) {
		s = suspect_of(h, m, roots[i].proc);
		if (s)
			err = judge(h, m, s, &roots[i], found);
	}
	return n < 0 ? n : err;
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
	.help = "a collective that some rank does not enter while its peers wait; the root of the wait-for graph",
	.state_bytes = sizeof(struct hang),
	.release = hang_release,
	.tick = hang_tick,
};
