/* SPDX-License-Identifier: Apache-2.0
 *
 * incident.c - the life of findings. An incident whose finding is absent for CLOSE_TICKS ticks closes: one tick
 * without it is no end.
 */
#include "pipeline/incident.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/finding_id.h"

#define CLOSE_TICKS 2
#define UPDATE_EVERY_NS 10000000000ull /* an unchanged finding is reported again every 10 s, with fresh evidence */

#define PAST_MAX 64 /* closed ones kept for the summary; of more the cheapest are forgotten */

struct entry {
	struct incident now; /* first: incidents_next_open() finds the entry by it */
	uint64_t reported_ns, costed_ns;
	int missed;
	bool open, changed;
	struct entry *next;
};

struct incidents {
	struct entry *entries, *cursor;
	uint64_t opened;
	enum severity worst;
	struct incident past[PAST_MAX];
	int n_past;
};

struct incidents *incidents_new(void)
{
	return calloc(1, sizeof(struct incidents));
}

void incidents_free(struct incidents *s)
{
	struct entry *e;

	while (s && (e = s->entries)) {
		s->entries = e->next;
		free(e);
	}
	free(s);
}

static struct entry *entry_by_key(struct incidents *s, uint64_t key)
{
	for (struct entry *e = s->entries; e; e = e->next)
		if (e->open && e->now.f.key == key)
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

	if (!e)
		return NULL;
	while (*end)
		end = &(*end)->next;
	*end = e;
	e->open = true;
	e->now.number = ++s->opened;
	e->now.f = *f;
	place_note(&e->now.f, m);
	host_show(&e->now.f, m);
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

static bool finding_differs(const struct finding *a, const struct finding *b)
{
	if (a->class != b->class || a->severity != b->severity || a->n_ranks_all != b->n_ranks_all ||
	    a->caused_by_key != b->caused_by_key)
		return true;
	if (strcmp(finding_cause_shown(a), finding_cause_shown(b)))
		return true;
	if (a->has_op && (a->comm != b->comm || a->seq != b->seq || a->op != b->op))
		return true;
	return memcmp(a->ranks, b->ranks, a->n_ranks * sizeof(a->ranks[0])) ||
	       fabs(a->confidence - b->confidence) > 0.2 || stack_changed(a, b);
}

static int finding_take(struct incidents *s, const struct finding *f, const struct model *m)
{
	struct entry *e = entry_by_key(s, f->key);
	bool differs;

	if (!e)
		return entry_open(s, f, m) ? 0 : -ENOMEM;
	e->missed = -1;
	differs = finding_differs(&e->now.f, f);
	e->now.f = *f;
	place_note(&e->now.f, m);
	host_show(&e->now.f, m);
	severity_note(s, e, m->now_ns);
	if (differs || m->now_ns - e->reported_ns >= UPDATE_EVERY_NS)
		phase_set(e, PHASE_UPDATE, m->now_ns);
	return 0;
}

static void causes_name(struct incidents *s)
{
	for (struct entry *e = s->entries; e; e = e->next) {
		struct entry *cause = e->now.f.caused_by_key ? entry_by_key(s, e->now.f.caused_by_key) : NULL;

		if (cause && cause != e)
			memcpy(e->now.caused_by, cause->now.id, sizeof(e->now.caused_by));
	}
}

/* --- cost --- */

/* Seconds of the job's time a second. A job with a hang does not move; what a straggler takes is what would come back
 * without it. A cause costs what its consequences do. */
static double cost_rate(const struct finding *f)
{
	switch (f->kind) {
	case FINDING_HANG: return 1;
	case FINDING_STRAGGLER: return finding_number(f, EVIDENCE_WHAT_IF_PERCENT) / 100;
	case FINDING_CPU_STARVED: return finding_number(f, EVIDENCE_RUNQUEUE_WAIT_SHARE);
	default: return 0;
	}
}

static struct entry *root_of(struct incidents *s, struct entry *e)
{
	struct entry *cause;

	for (int i = 0; i < 4 && e->now.f.caused_by_key; i++) {
		cause = entry_by_key(s, e->now.f.caused_by_key);
		if (!cause)
			return e;
		e = cause;
	}
	return e;
}

static bool is_reported(const struct entry *e)
{
	return e->open && e->missed <= 0;
}

/* Since when the job has stopped; UINT64_MAX: it has not. No rank is slow then. */
static uint64_t stands_since(const struct incidents *s)
{
	uint64_t since = UINT64_MAX;

	for (const struct entry *e = s->entries; e; e = e->next)
		if (is_reported(e) && e->now.f.kind == FINDING_HANG && e->now.f.since_ns < since)
			since = e->now.f.since_ns;
	return since;
}

static void costs_add(struct incidents *s, uint64_t now_ns)
{
	uint64_t stands_ns = stands_since(s), to_ns;

	for (struct entry *e = s->entries; e; e = e->next) {
		to_ns = e->now.f.kind == FINDING_HANG || now_ns < stands_ns ? now_ns : stands_ns;
		if (is_reported(e) && to_ns > e->costed_ns)
			root_of(s, e)->now.cost_s += cost_rate(&e->now.f) * (double)(to_ns - e->costed_ns) * 1e-9;
		e->costed_ns = now_ns > e->costed_ns ? now_ns : e->costed_ns;
	}
}

static void past_keep(struct incidents *s, const struct incident *i)
{
	int at = 0;

	if (i->cost_s <= 0 || *i->caused_by)
		return;
	if (s->n_past < PAST_MAX) {
		s->past[s->n_past++] = *i;
		return;
	}
	for (int k = 1; k < PAST_MAX; k++)
		if (s->past[k].cost_s < s->past[at].cost_s)
			at = k;
	if (s->past[at].cost_s < i->cost_s)
		s->past[at] = *i;
}

static size_t cost_insert(const struct incident **to, size_t n, size_t cap, const struct incident *i)
{
	size_t at = n;

	while (at && to[at - 1]->cost_s < i->cost_s)
		at--;
	if (at == cap)
		return n;
	n += n < cap;
	memmove(to + at + 1, to + at, (n - at - 1) * sizeof(*to));
	to[at] = i;
	return n;
}

size_t incidents_by_cost(const struct incidents *s, const struct incident **to, size_t cap)
{
	size_t n = 0;

	for (int i = 0; i < s->n_past; i++)
		n = cost_insert(to, n, cap, &s->past[i]);
	for (const struct entry *e = s->entries; e; e = e->next)
		if (e->open && e->now.cost_s > 0 && !*e->now.caused_by)
			n = cost_insert(to, n, cap, &e->now);
	return n;
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
		free(e);
	}
}

int incidents_update(struct incidents *s, const struct finding_list *found, const struct model *m)
{
	struct entry *e;
	int err = 0;

	closed_drop(s);
	for (e = s->entries; e; e = e->next) {
		e->changed = false;
		e->missed++;
	}
	for (size_t i = 0; !err && i < found->n; i++)
		err = finding_take(s, &found->items[i], m);
	causes_name(s);
	costs_add(s, m->now_ns);
	for (e = s->entries; e; e = e->next) {
		if (e->missed < 0)
			e->missed = 0;
		if (e->missed < CLOSE_TICKS)
			continue;
		e->open = false;
		past_keep(s, &e->now);
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
