/* SPDX-License-Identifier: Apache-2.0
 *
 * incident_cost.c - what incidents take of the job's time, summed under their root, also of those that are over.
 */
#include <string.h>

#include "pipeline/incident_private.h"

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

void incident_costs_add(struct incidents *s, uint64_t now_ns)
{
	uint64_t stands_ns = stands_since(s), to_ns;

	for (struct entry *e = s->entries; e; e = e->next) {
		to_ns = e->now.f.kind == FINDING_HANG || now_ns < stands_ns ? now_ns : stands_ns;
		if (is_reported(e) && to_ns > e->costed_ns)
			incident_top(s, e)->now.cost_s += cost_rate(&e->now.f) * (double)(to_ns - e->costed_ns) * 1e-9;
		e->costed_ns = now_ns > e->costed_ns ? now_ns : e->costed_ns;
	}
}

void incident_past_keep(struct incidents *s, const struct incident *i)
{
	int at = 0;

	if (i->cost_s <= 0 || *i->caused_by)
		return;
	if (s->n_past < PAST_MAX) {
		s->n_past += !incident_keep(&s->past[s->n_past], i);
		return;
	}
	for (int k = 1; k < PAST_MAX; k++)
		if (s->past[k].cost_s < s->past[at].cost_s)
			at = k;
	if (s->past[at].cost_s < i->cost_s)
		incident_keep(&s->past[at], i); /* without memory: the one that was there */
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
