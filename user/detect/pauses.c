/* SPDX-License-Identifier: Apache-2.0
 *
 * pauses.c - see pauses.h. What the session read at its start stays in the model; the first pause at such a call
 * site copies it here and goes on from there.
 */
#include "detect/pauses.h"

#include <stdlib.h>
#include <string.h>

static struct known_phase *own_find(const struct pauses *s, const char *job, const char *site)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->all[i].site, site) && !strcmp(s->all[i].job, job))
			return &s->all[i];
	return NULL;
}

const struct known_phase *pauses_at(const struct pauses *s, const struct model *m, const char *job, const char *site)
{
	const struct known_phase *own = own_find(s, job, site);

	return own ? own : known_phases_at(&m->known_phases, job, site);
}

static bool is_like(const struct known_phase *p, const char *job, const char *wait)
{
	return p->n && !strcmp(p->job, job) && (!*wait || !*p->wait || !strcmp(p->wait, wait));
}

/* The longest of those that recur, else of those that happened once. */
static bool is_better(const struct known_phase *p, const struct known_phase *best)
{
	if (!best || known_phase_recurs(p) != known_phase_recurs(best))
		return !best || known_phase_recurs(p);
	return p->longest_ns > best->longest_ns;
}

static const struct known_phase *better_like(const struct known_phase *best, const struct known_phase *p,
					     const char *job, const char *wait)
{
	return is_like(p, job, wait) && is_better(p, best) ? p : best;
}

const struct known_phase *pauses_like(const struct pauses *s, const struct model *m, const char *job, const char *wait)
{
	const struct known_phase *best = NULL;

	for (size_t i = 0; i < s->n; i++)
		best = better_like(best, &s->all[i], job, wait);
	for (size_t i = 0; i < m->known_phases.n; i++)
		if (!own_find(s, m->known_phases.all[i].job, m->known_phases.all[i].site))
			best = better_like(best, &m->known_phases.all[i], job, wait);
	return best;
}

/* --- learning --- */

static struct known_phase *oldest(const struct pauses *s)
{
	struct known_phase *old = &s->all[0];

	for (size_t i = 1; i < s->n; i++)
		old = s->all[i].begin_ns < old->begin_ns ? &s->all[i] : old;
	return old;
}

static void texts_free(struct known_phase *p)
{
	free((char *)p->job);
	free((char *)p->site);
	free((char *)p->wait);
}

/* With the texts of the one that was there, or none. */
static struct known_phase *slot_take(struct pauses *s)
{
	size_t cap = s->cap ? 2 * s->cap : 16;
	struct known_phase *grown;

	if (s->n == PAUSES_MAX)
		return oldest(s);
	if (s->n == s->cap) {
		grown = realloc(s->all, cap * sizeof(*grown));
		if (!grown)
			return NULL;
		s->all = grown;
		s->cap = cap;
	}
	s->all[s->n] = (struct known_phase){ 0 };
	return &s->all[s->n++];
}

static struct known_phase *own_add(struct pauses *s, const struct model *m, const struct pause *p)
{
	const struct known_phase *known = known_phases_at(&m->known_phases, p->job, p->site);
	struct known_phase now = known ? *known : (struct known_phase){ 0 }, *own;

	now.job = strdup(p->job);
	now.site = strdup(p->site);
	now.wait = strdup(known ? known->wait : "");
	own = now.job && now.site && now.wait ? slot_take(s) : NULL;
	if (!own) {
		texts_free(&now);
		return NULL;
	}
	texts_free(own);
	*own = now;
	return own;
}

static void wait_set(struct known_phase *own, const char *wait)
{
	char *now = *wait ? strdup(wait) : NULL;

	if (!now)
		return;
	free((char *)own->wait);
	own->wait = now;
}

void pauses_learn(struct pauses *s, const struct model *m, const struct pause *p)
{
	struct known_phase *own = own_find(s, p->job, p->site);

	own = own ? own : own_add(s, m, p);
	if (!own)
		return;
	wait_set(own, p->wait);
	s->n_learnt++;
	known_phase_add(own, p->begin_ns, p->end_ns, p->steps);
}

void pauses_free(struct pauses *s)
{
	for (size_t i = 0; i < s->n; i++)
		texts_free(&s->all[i]);
	free(s->all);
	*s = (struct pauses){ 0 };
}
