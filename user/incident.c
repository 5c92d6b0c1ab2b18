/* SPDX-License-Identifier: Apache-2.0
 *
 * incident.c - the life of findings. An incident whose finding is absent for CLOSE_TICKS ticks closes: one tick
 * without it is no end.
 */
#include "incident.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLOSE_TICKS 2
#define UPDATE_EVERY_NS 10000000000ull /* an unchanged finding is told again every 10 s, with fresh evidence */

struct entry {
	struct incident now;
	uint64_t told_ns;
	int missed;
	bool open, changed;
	struct entry *next;
};

struct incidents {
	struct entry *entries, *cursor;
	uint64_t opened, counted;
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

static void mark(struct entry *e, enum finding_phase phase, uint64_t t_ns)
{
	e->now.phase = phase;
	e->now.t_ns = e->told_ns = t_ns;
	e->changed = true;
}

/* Where the culprit runs, for whoever has to find it: of one culprit, as an incident may have many. */
static void place_note(struct finding *f, const struct model *m)
{
	const struct proc *p = f->n_ranks == 1 ? model_proc(m, f->pids[0]) : NULL;

	if (!p)
		return;
	finding_note_text(f, "pod", p->pod);
	finding_note_text(f, "container", p->container);
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
	e->now.open_ns = m->now_ns;
	snprintf(e->now.id, sizeof(e->now.id), "%llx-%llu",
		 (unsigned long long)(m->start_realtime_ns / 1000000), (unsigned long long)s->opened);
	s->counted += finding_kind_exits(f->kind);
	mark(e, PHASE_OPEN, m->now_ns);
	return e;
}

static bool finding_differs(const struct finding *a, const struct finding *b)
{
	if (a->class != b->class || a->n_ranks != b->n_ranks || a->caused_by_key != b->caused_by_key)
		return true;
	if ((a->cause == NULL) != (b->cause == NULL) || (a->cause && strcmp(a->cause, b->cause)))
		return true;
	if (a->has_op && (a->comm != b->comm || a->seq != b->seq || a->op != b->op))
		return true;
	return memcmp(a->ranks, b->ranks, a->n_ranks * sizeof(a->ranks[0])) || fabs(a->confidence - b->confidence) > 0.2;
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
	if (differs || m->now_ns - e->told_ns >= UPDATE_EVERY_NS)
		mark(e, PHASE_UPDATE, m->now_ns);
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
	for (e = s->entries; e; e = e->next) {
		if (e->missed < 0)
			e->missed = 0;
		if (e->missed < CLOSE_TICKS)
			continue;
		e->open = false;
		mark(e, PHASE_CLOSE, m->now_ns);
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

uint64_t incidents_counted(const struct incidents *s)
{
	return s->counted;
}

uint64_t incidents_opened(const struct incidents *s)
{
	return s->opened;
}
