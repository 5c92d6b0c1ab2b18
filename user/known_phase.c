/* SPDX-License-Identifier: Apache-2.0
 *
 * known_phase.c - see known_phase.h.
 */
#include "known_phase.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void phase_series_add(struct phase_series *s, uint64_t value)
{
	s->values[s->n++ % PHASE_SERIES_KEPT] = value;
}

uint64_t phase_series_median(const struct phase_series *s)
{
	uint64_t sorted[PHASE_SERIES_KEPT];
	size_t n = s->n < PHASE_SERIES_KEPT ? s->n : PHASE_SERIES_KEPT;

	for (size_t i = 0; i < n; i++) {
		size_t at = i;

		for (; at && sorted[at - 1] > s->values[i]; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = s->values[i];
	}
	return n ? sorted[n / 2] : 0; /* lint: values before i are sorted, n are filled */
}

void known_phase_add(struct known_phase *p, uint64_t begin_ns, uint64_t end_ns, uint64_t steps)
{
	uint64_t took_ns = end_ns > begin_ns ? end_ns - begin_ns : 0;

	if (p->begin_ns && begin_ns > p->begin_ns)
		phase_series_add(&p->intervals_ns, begin_ns - p->begin_ns);
	if (p->begin_steps && steps > p->begin_steps)
		phase_series_add(&p->intervals_steps, steps - p->begin_steps);
	p->begin_ns = begin_ns;
	p->begin_steps = steps;
	p->longest_ns = took_ns > p->longest_ns ? took_ns : p->longest_ns;
	phase_series_add(&p->lengths_ns, took_ns);
	p->n++;
}

bool known_phase_recurs(const struct known_phase *p)
{
	return p->n > 1 || (p->n && p->longest_ns < PHASE_TWICE_NS);
}

uint64_t known_phase_limit_ns(const struct known_phase *p)
{
	return PHASE_TIMES * p->longest_ns;
}

uint64_t known_phase_quiet_ns(const struct known_phase *p)
{
	return known_phase_recurs(p) ? known_phase_limit_ns(p) : p->n ? PHASE_TWICE_NS : 0;
}

/* The file's directories are in the evidence. */
static const char *site_shown(const char *site)
{
	size_t path = strcspn(site, " ");

	for (size_t i = path; i > 0; i--)
		if (site[i - 1] == '/')
			return site + i;
	return site;
}

static int interval_text(const struct known_phase *p, char *to, size_t size)
{
	uint64_t steps = phase_series_median(&p->intervals_steps), ns = phase_series_median(&p->intervals_ns);

	if (steps)
		return snprintf(to, size, " every %" PRIu64 " steps", steps);
	if (ns)
		return snprintf(to, size, " every %.*f s", ns < 100000000000ull, ns * 1e-9);
	return 0;
}

void known_phase_text(const struct known_phase *p, char *to, size_t size)
{
	char interval[64] = "";

	interval_text(p, interval, sizeof(interval));
	snprintf(to, size, "%s: %.1f s%s, %u time%s before", site_shown(p->site),
		 phase_series_median(&p->lengths_ns) * 1e-9, interval, p->n, p->n == 1 ? "" : "s");
}

/* --- what a session read at its start --- */

static struct known_phase *phase_find(const struct known_phases *s, const char *job, const char *site)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->all[i].site, site) && !strcmp(s->all[i].job, job))
			return &s->all[i];
	return NULL;
}

const struct known_phase *known_phases_at(const struct known_phases *s, const char *job, const char *site)
{
	return phase_find(s, job, site);
}

static struct known_phase *phase_add(struct known_phases *s)
{
	struct known_phase *all = s->all;

	if (!(s->n & (s->n - 1))) { /* full at each power of two */
		all = realloc(all, (s->n ? 2 * s->n : 1) * sizeof(*all));
		if (!all)
			return NULL;
		s->all = all;
	}
	return &all[s->n++];
}

int known_phases_put(struct known_phases *s, const struct known_phase_event *given)
{
	struct known_phase *p = phase_find(s, given->job, given->site);

	if (!p && s->n == KNOWN_PHASES_MAX)
		return 0;
	p = p ? p : phase_add(s);
	if (!p)
		return -ENOMEM;
	*p = (struct known_phase){ .job = given->job,
				   .site = given->site,
				   .wait = given->wait,
				   .n = given->n,
				   .longest_ns = given->longest_ns };
	phase_series_add(&p->lengths_ns, given->usual_ns);
	if (given->interval_ns)
		phase_series_add(&p->intervals_ns, given->interval_ns);
	if (given->interval_steps)
		phase_series_add(&p->intervals_steps, given->interval_steps);
	return 0;
}

void known_phases_free(struct known_phases *s)
{
	free(s->all);
	*s = (struct known_phases){ 0 };
}
