/* SPDX-License-Identifier: Apache-2.0
 *
 * measures.c - see measures.h.
 */
#include "compare/measures.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"

/* Every second value goes, so that those that stay are spread over the whole time. */
static void durations_thin(struct durations *s)
{
	s->n /= 2;
	for (size_t i = 0; i < s->n; i++)
		s->v[i] = s->v[2 * i];
	s->every *= 2;
}

static int durations_grow(struct durations *s)
{
	size_t cap = s->cap ? 2 * s->cap : 64;
	double *v = realloc(s->v, cap * sizeof(*v));

	if (!v)
		return -ENOMEM;
	s->v = v;
	s->cap = cap;
	return 0;
}

int durations_put(struct durations *s, double seconds)
{
	int err = 0;

	if (!s->every)
		s->every = 1;
	if (s->seen % s->every == 0 && s->n == DURATIONS_KEPT)
		durations_thin(s);
	if (s->seen % s->every == 0) {
		err = s->n == s->cap ? durations_grow(s) : 0;
		if (!err)
			s->v[s->n++] = seconds;
	}
	s->seen += !err;
	return err;
}

double durations_median(const struct durations *s)
{
	double room[DURATIONS_KEPT];

	if (s->n)
		memcpy(room, s->v, s->n * sizeof(*s->v));
	return doubles_median(room, s->n);
}

void durations_free(struct durations *s)
{
	free(s->v);
	*s = (struct durations){ 0 };
}

struct measure *measures_add(struct measures *m, enum measure_kind kind, int rank, const char *what, const char *where)
{
	size_t cap = m->cap ? 2 * m->cap : 64;
	struct measure *v;

	if (m->n == m->cap) {
		v = realloc(m->v, cap * sizeof(*v));
		if (!v)
			return NULL;
		m->v = v;
		m->cap = cap;
	}
	v = &m->v[m->n++];
	*v = (struct measure){ .kind = kind, .rank = rank };
	snprintf(v->what, sizeof(v->what), "%s", what);
	snprintf(v->where, sizeof(v->where), "%s", where);
	return v;
}

void measures_free(struct measures *m)
{
	for (size_t i = 0; i < m->n; i++)
		durations_free(&m->v[i].s);
	free(m->v);
	*m = (struct measures){ 0 };
}

void ranks_text(const int *ranks, size_t n, char *to, size_t size)
{
	size_t at = (size_t)snprintf(to, size, n == 1 ? "rank" : "ranks"), last;
	char one[32];

	for (size_t i = 0; i < n; i = last + 1) {
		for (last = i; last + 1 < n && ranks[last + 1] == ranks[last] + 1;)
			last++;
		snprintf(one, sizeof(one), last > i ? "%c%d-%d" : "%c%d", i ? ',' : ' ', ranks[i], ranks[last]);
		if (at + strlen(one) + sizeof(",...") > size) {
			snprintf(to + at, size - at, ",...");
			return;
		}
		at += (size_t)snprintf(to + at, size - at, "%s", one);
	}
}

const char *measure_kind_name(enum measure_kind kind)
{
	switch (kind) {
	case MEASURE_STEP: return "step";
	case MEASURE_PHASE: return "phase";
	case MEASURE_LATE: return "late";
	case MEASURE_OPERATION: return "operation";
	default: return "?";
	}
}
