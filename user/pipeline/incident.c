/* SPDX-License-Identifier: Apache-2.0
 *
 * incident.c - the life of findings. An incident whose finding is absent for CLOSE_TICKS ticks closes: one tick
 * without it is no end, nor is it that nothing is known of its ranks any more. Of one event one incident is the root,
 * to be read and paged: the one that opened first. What comes later carries the root's id, also where it is the cause
 * (explains).
 */
#include "pipeline/incident_private.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/finding_id.h"

#define CLOSE_TICKS 2
#define KEPT_NS 600000000000ull        /* while its ranks are unobserved */
#define BACK_NS 10000000000ull         /* they are observed again: time to find it anew, a D state takes 5 s */
#define UPDATE_EVERY_NS 10000000000ull /* an unchanged finding is reported again every 10 s, with fresh evidence */

struct incidents *incidents_new(void)
{
	return calloc(1, sizeof(struct incidents));
}

static void entry_free(struct entry *e)
{
	finding_drop(&e->now.f);
	free(e);
}

void incidents_free(struct incidents *s)
{
	struct entry *e;

	while (s && (e = s->entries)) {
		s->entries = e->next;
		entry_free(e);
	}
	for (int i = 0; s && i < s->n_past; i++)
		finding_drop(&s->past[i].f);
	free(s);
}

static struct entry *entry_by_key(struct incidents *s, uint64_t key)
{
	for (struct entry *e = s->entries; e; e = e->next)
		if (e->open && e->now.f.key == key)
			return e;
	return NULL;
}

static struct entry *entry_by_number(struct incidents *s, uint64_t number)
{
	for (struct entry *e = number ? s->entries : NULL; e; e = e->next)
		if (e->open && e->now.number == number)
			return e;
	return NULL;
}

static void phase_set(struct entry *e, enum finding_phase phase, uint64_t t_ns)
{
	e->now.phase = phase;
	e->now.t_ns = e->reported_ns = t_ns;
	e->changed = true;
}

/* Where the culprit runs, for the one who has to find it: of one culprit, as an incident may have many. */
static void place_note(struct finding *f, const struct model *m)
{
	const struct proc *p = f->n_ranks == 1 ? model_proc(m, finding_proc(f, 0)) : NULL;

	if (!p)
		return;
	finding_note_text(f, EVIDENCE_POD, p->pod);
	finding_note_text(f, EVIDENCE_CONTAINER, p->container);
}

/* A session has one host, and says so itself. */
static void host_show(struct finding *f, const struct model *m)
{
	const struct node *n = m->merged ? model_node(m, f->node) : NULL;

	f->host = n ? n->name : NULL;
}

static void severity_note(struct incidents *s, struct entry *e, uint64_t now_ns)
{
	enum severity severity = e->now.f.severity;

	s->worst = severity > s->worst ? severity : s->worst;
	if (severity >= SEVERITY_WARNING && !e->now.warned_ns)
		e->now.warned_ns = now_ns;
}

/* The id must be the same in a replay: it is made of facts in the stream only. */
static struct entry *entry_open(struct incidents *s, const struct finding *f, const struct model *m)
{
	struct entry *e = calloc(1, sizeof(*e)), **end = &s->entries;
	struct finding now = *f;

	place_note(&now, m);
	host_show(&now, m);
	if (!e || finding_keep(&e->now.f, &now)) {
		free(e);
		return NULL;
	}
	while (*end)
		end = &(*end)->next;
	*end = e;
	e->open = e->fresh = true;
	e->now.number = ++s->opened;
	e->held_ns = m->now_ns;
	e->now.open_ns = m->now_ns;
	e->costed_ns = f->since_ns;
	finding_id(e->now.id, m, s->opened);
	severity_note(s, e, m->now_ns);
	phase_set(e, PHASE_OPEN, m->now_ns);
	return e;
}

/* What the culprit does is read once it is known who it is: that cannot wait for the next regular update. */
static bool stack_changed(const struct finding *a, const struct finding *b)
{
	static const enum evidence_id ids[] = { EVIDENCE_PYTHON, EVIDENCE_NATIVE_FRAME, EVIDENCE_STACK_UNREAD,
						EVIDENCE_WAITS_FOR_KIND };

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		const char *was = finding_text(a, ids[i]), *is = finding_text(b, ids[i]);

		if (is && (!was || strcmp(was, is)))
			return true;
	}
	return finding_text(b, EVIDENCE_WAITING_IN) &&
	       !finding_text(a, EVIDENCE_WAITING_IN); /* of a circle there is nothing else */
}

/* In a note of several ranks (hosts without an agent, ranks that compute) they come and go all the time: that is for
 * the regular update. */
static bool ranks_differ(const struct finding *a, const struct finding *b)
{
	if (b->severity == SEVERITY_INFO && a->n_ranks_all > 1 && b->n_ranks_all > 1)
		return false;
	return a->n_ranks_all != b->n_ranks_all || memcmp(a->ranks, b->ranks, a->n_ranks * sizeof(a->ranks[0]));
}

static bool finding_differs(const struct finding *a, const struct finding *b)
{
	if (a->class != b->class || a->severity != b->severity || a->caused_by_key != b->caused_by_key)
		return true;
	if (strcmp(finding_cause_shown(a), finding_cause_shown(b)))
		return true;
	if (a->has_op && (a->comm != b->comm || a->seq != b->seq || a->op != b->op))
		return true;
	return ranks_differ(a, b) || fabs(a->confidence - b->confidence) > 0.2 || stack_changed(a, b);
}

/* It keeps the subject that it opened with. */
static int entry_update(struct incidents *s, struct entry *e, const struct finding *f, const struct model *m)
{
	struct finding now = *f;
	bool differs;

	now.subject = e->now.f.subject;
	now.severity = now.severity > e->least ? now.severity : e->least;
	place_note(&now, m);
	host_show(&now, m);
	e->missed = -1;
	e->held_ns = m->now_ns;
	differs = finding_differs(&e->now.f, &now);
	if (finding_keep(&e->now.f, &now))
		return -ENOMEM;
	severity_note(s, e, m->now_ns);
	if (differs || m->now_ns - e->reported_ns >= UPDATE_EVERY_NS)
		phase_set(e, PHASE_UPDATE, m->now_ns);
	return 0;
}

static bool same_ranks(const struct finding *a, const struct finding *b)
{
	return a->n_ranks && a->n_ranks_all == b->n_ranks_all &&
	       !memcmp(a->ranks, b->ranks, a->n_ranks * sizeof(a->ranks[0])) &&
	       !memcmp(a->pids, b->pids, a->n_ranks * sizeof(a->pids[0])) &&
	       !memcmp(a->nodes, b->nodes, a->n_ranks * sizeof(a->nodes[0]));
}

static bool has_rank(const struct finding *f, const struct finding *of, int i)
{
	for (int k = 0; k < f->n_ranks; k++)
		if (f->ranks[k] == of->ranks[i] && finding_proc(f, k) == finding_proc(of, i))
			return true;
	return false;
}

/* A guess at several ranks, and at more, fewer or one of them. */
static bool same_guess(const struct finding *a, const struct finding *b)
{
	const struct finding *more = a->n_ranks_all > b->n_ranks_all ? a : b, *less = more == a ? b : a;

	if (more->class != HANG_UNKNOWN || !finding_evidence(more, EVIDENCE_ONE_OF) || !less->n_ranks)
		return false;
	for (int i = 0; i < less->n_ranks; i++)
		if (!has_rank(more, less, i))
			return false;
	return true;
}

/* A hang of the same ranks that began while another one, gone at this tick, still held is that one: they were in the
 * middle of an operation, and now a peer waits in the next. */
static struct entry *entry_before(struct incidents *s, const struct finding *f)
{
	for (struct entry *e = f->kind == FINDING_HANG ? s->entries : NULL; e; e = e->next)
		if (e->open && e->missed > 0 && e->now.f.kind == FINDING_HANG && f->since_ns <= e->held_ns &&
		    (same_ranks(&e->now.f, f) || same_guess(&e->now.f, f)))
			return e;
	return NULL;
}

static bool all_unobserved(const struct finding *f, const struct model *m)
{
	for (int i = 0; i < f->n_ranks; i++) {
		const struct proc *p = model_proc(m, finding_proc(f, i));

		if (!p || !proc_unobserved(p))
			return false;
	}
	return f->n_ranks && f->kind != FINDING_UNOBSERVED;
}

/* Its finding is absent because its ranks are not seen, or were not a moment ago: that is not its end. */
static bool is_kept(const struct entry *e, const struct model *m)
{
	if (m->now_ns > e->held_ns + KEPT_NS)
		return false;
	return e->unseen_ns && m->now_ns < e->unseen_ns + BACK_NS;
}

static void parent_set(struct entry *e, const struct entry *parent)
{
	e->parent = parent->now.number;
	memcpy(e->now.caused_by, parent->now.id, sizeof(e->now.caused_by));
}

/* NULL: none of its ranks has a process that is known. */
static const struct job_id *job_of(const struct finding *f, const struct model *m)
{
	const struct proc *p = NULL;

	for (int i = 0; i < f->n_ranks && !p; i++)
		p = model_proc(m, finding_proc(f, i));
	return p ? p->job : NULL;
}

/* A hang of the same job whose ranks are not seen, so that all that is known now is that all wait for something: that
 * follows from it. */
static const struct entry *unseen_root(struct incidents *s, const struct finding *f, const struct model *m)
{
	const struct job_id *job = job_of(f, m), *its;

	for (struct entry *e = f->class == HANG_UNKNOWN && !f->caused_by_key ? s->entries : NULL; e; e = e->next) {
		if (!e->open || e->missed < 1 || e->now.f.class == HANG_UNKNOWN ||
		    e->now.f.severity < SEVERITY_WARNING || !is_kept(e, m))
			continue;
		its = job_of(&e->now.f, m);
		if (!job || !its || job == its)
			return e;
	}
	return NULL;
}

static int finding_open(struct incidents *s, const struct finding *f, const struct model *m)
{
	const struct entry *root = unseen_root(s, f, m);
	struct entry *e = entry_open(s, f, m);

	if (e && root)
		parent_set(e, root);
	return e ? 0 : -ENOMEM;
}

static int findings_take(struct incidents *s, const struct finding_list *found, const struct model *m)
{
	int err = 0;

	for (size_t i = 0; i < found->n && !err; i++) {
		struct entry *e = entry_by_key(s, found->items[i].key);

		if (e)
			err = entry_update(s, e, &found->items[i], m);
	}
	for (size_t i = 0; i < found->n && !err; i++) {
		struct entry *before;

		if (entry_by_key(s, found->items[i].key))
			continue;
		before = entry_before(s, &found->items[i]);
		if (before)
			err = entry_update(s, before, &found->items[i], m);
		else
			err = finding_open(s, &found->items[i], m);
	}
	return err;
}

/* --- causes --- */

struct entry *incident_top(struct incidents *s, struct entry *e)
{
	struct entry *parent;

	while ((parent = entry_by_number(s, e->parent)))
		e = parent;
	return e;
}

/* What was reported as a root stays one: a cause that is seen only now joins it. */
static void cause_join(struct incidents *s, struct entry *e)
{
	struct entry *cause = e->now.f.caused_by_key ? entry_by_key(s, e->now.f.caused_by_key) : NULL;
	struct entry *top = cause ? incident_top(s, cause) : NULL;

	if (!cause || top == e || e->now.explains)
		return;
	if (!top->fresh || e->fresh || e->parent) {
		parent_set(e, cause);
		return;
	}
	parent_set(top, e);
	top->now.explains = true;
}

/* Those that opened now first: where a chain of them ends is then known. */
static void causes_join(struct incidents *s)
{
	for (struct entry *e = s->entries; e; e = e->next)
		if (e->open && e->fresh)
			cause_join(s, e);
	for (struct entry *e = s->entries; e; e = e->next)
		if (e->open && !e->fresh)
			cause_join(s, e);
}

/* Who is paged by roots alone learns of a cause that is graver. */
static void roots_grave(struct incidents *s, uint64_t now_ns)
{
	for (const struct entry *e = s->entries; e; e = e->next) {
		struct entry *root = e->open && e->now.explains ? entry_by_number(s, e->parent) : NULL;

		if (!root || e->now.f.severity <= root->now.f.severity)
			continue;
		root->least = root->now.f.severity = e->now.f.severity;
		severity_note(s, root, now_ns);
		phase_set(root, root->fresh ? PHASE_OPEN : PHASE_UPDATE, now_ns);
	}
}

static void closed_drop(struct incidents *s)
{
	struct entry **at = &s->entries, *e;

	while ((e = *at)) {
		if (e->open) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		entry_free(e);
	}
}

int incidents_update(struct incidents *s, const struct finding_list *found, const struct model *m)
{
	struct entry *e;
	int err;

	closed_drop(s);
	for (e = s->entries; e; e = e->next) {
		e->changed = e->fresh = false;
		e->missed++;
		if (e->open && all_unobserved(&e->now.f, m))
			e->unseen_ns = m->now_ns;
	}
	err = findings_take(s, found, m);
	causes_join(s);
	roots_grave(s, m->now_ns);
	incident_costs_add(s, m->now_ns);
	for (e = s->entries; e; e = e->next) {
		if (e->missed < 0)
			e->missed = 0;
		if (e->missed < CLOSE_TICKS || is_kept(e, m))
			continue;
		e->open = false;
		incident_past_keep(s, &e->now);
		phase_set(e, PHASE_CLOSE, m->now_ns);
	}
	s->cursor = s->entries;
	return err;
}

const struct incident *incidents_next(struct incidents *s)
{
	struct entry *e;

	while ((e = s->cursor)) {
		s->cursor = e->next;
		if (e->changed)
			return &e->now;
	}
	return NULL;
}

const struct incident *incidents_next_open(const struct incidents *s, const struct incident *after)
{
	const struct entry *e = after ? ((const struct entry *)after)->next : s->entries;

	while (e && !e->open)
		e = e->next;
	return e ? &e->now : NULL;
}

enum severity incidents_worst(const struct incidents *s)
{
	return s->worst;
}

uint64_t incidents_opened(const struct incidents *s)
{
	return s->opened;
}
