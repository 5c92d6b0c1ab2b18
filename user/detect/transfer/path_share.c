/* SPDX-License-Identifier: Apache-2.0
 *
 * path_share.c - see path_share.h. A member is sampled as a whole: a sample that shows nothing on a path is one at
 * which it was idle.
 */
#include "detect/transfer/path_share.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "detect/transfer/stalled_transfer.h"

struct comm_paths {
	struct keyed keyed; /* by the communicator */
	struct path *first, **end;
};

struct path *paths_of(const struct paths *s, const struct comm *c)
{
	const struct comm_paths *of = keyed_find(&s->comms, (uintptr_t)c, 0);

	return of ? of->first : NULL;
}

/* The newest first, as in the table. */
static int path_link(struct paths *s, struct path *p, bool newest)
{
	struct comm_paths *of = keyed_get(&s->comms, (uintptr_t)p->from->comm, 0, sizeof(*of));

	if (!of)
		return -ENOMEM;
	if (!of->end)
		of->end = &of->first;
	p->next = newest ? of->first : NULL;
	if (!newest || !of->first) {
		*of->end = p;
		of->end = &p->next;
	} else {
		of->first = p;
	}
	return 0;
}

static struct path *path_of(struct paths *s, const struct member *from, const struct member *to)
{
	struct path *p = keyed_get(&s->paths, (uintptr_t)from, (uintptr_t)to, sizeof(*p));

	if (!p || p->from)
		return p;
	p->from = from;
	p->to = to;
	return path_link(s, p, true) ? NULL : p;
}

static int paths_find(struct paths *s, const struct member *mb)
{
	const struct comm *c = mb->comm;

	for (int i = 0; i < mb->proxies.n; i++) {
		const struct proxy_part *part = &mb->proxies.parts[i];
		const struct member *to = part->peer >= 0 && part->peer < c->nranks ? c->by_rank[part->peer] : NULL;

		if (proxy_part_sends(part) && proxy_part_is_network(part) && to && to != mb && !path_of(s, mb, to))
			return -ENOMEM;
	}
	return 0;
}

static bool is_busy(const struct path *p)
{
	for (int i = 0; i < p->from->proxies.n; i++) {
		const struct proxy_part *part = &p->from->proxies.parts[i];

		if (proxy_part_sends(part) && proxy_part_is_network(part) && part->peer == p->to->rank &&
		    part->transmitted > part->done)
			return true;
	}
	return false;
}

static uint64_t last_ns(const struct path *p)
{
	return p->n_samples ? p->samples_ns[(p->n_samples - 1) % PATH_SAMPLES] : 0;
}

int paths_take(struct paths *s, const struct comm *c)
{
	int err = 0;

	for (const struct member *mb = c->members; mb && c->by_rank && !err; mb = member_next_in_comm(mb))
		err = mb->gone ? 0 : paths_find(s, mb);
	for (struct path *p = err ? NULL : paths_of(s, c); p; p = p->next) {
		if (p->from->gone || p->from->proxies.seen_ns <= last_ns(p))
			continue;
		p->samples_ns[p->n_samples % PATH_SAMPLES] = p->from->proxies.seen_ns;
		p->busy[p->n_samples % PATH_SAMPLES] = is_busy(p);
		p->n_samples++;
	}
	return err;
}

struct path_samples path_samples(const struct path *p, uint64_t now_ns)
{
	struct path_samples l = { 0 };

	for (uint64_t i = 0; i < p->n_samples && i < PATH_SAMPLES; i++) {
		if (p->samples_ns[i] + PATH_WINDOW_NS < now_ns)
			continue;
		l.n++;
		l.busy += p->busy[i];
	}
	return l;
}

double path_share(const struct path *p, uint64_t now_ns, int least)
{
	struct path_samples l = path_samples(p, now_ns);

	return l.n && l.n >= least ? (double)l.busy / l.n : -1;
}

/* The logarithm of the likelihood of what was seen, at the share that makes it most likely. */
static double likelihood(struct path_samples l)
{
	double idle = l.n - l.busy;

	return (l.busy ? l.busy * log(l.busy / (double)l.n) : 0) + (idle > 0 ? idle * log(idle / l.n) : 0);
}

double path_samples_differ(struct path_samples one, struct path_samples other)
{
	struct path_samples both = { one.n + other.n, one.busy + other.busy };

	return 2 * (likelihood(one) + likelihood(other) - likelihood(both));
}

/* --- paths of members that are no more --- */

struct living { /* in the order of their addresses */
	const struct member **all;
	size_t n;
};

static int address_order(const void *a, const void *b)
{
	const struct member *const *x = a, *const *y = b;

	return (*x > *y) - (*x < *y);
}

/* Without memory nothing is known to live: what is forgotten is found again. */
static struct living living_members(const struct model *m)
{
	struct living l = { 0 };
	size_t n = 0;

	for (const struct comm *c = m->comms; c; c = c->next)
		for (const struct member *o = c->members; o; o = member_next_in_comm(o))
			n++;
	l.all = n ? malloc(n * sizeof(*l.all)) : NULL;
	for (const struct comm *c = m->comms; c && l.all; c = c->next)
		for (const struct member *o = c->members; o; o = member_next_in_comm(o))
			if (!o->gone)
				l.all[l.n++] = o;
	if (l.n)
		qsort(l.all, l.n, sizeof(*l.all), address_order);
	return l;
}

static bool lives(const struct living *l, const struct member *mb)
{
	return l->n && bsearch(&mb, l->all, l->n, sizeof(*l->all), address_order);
}

static bool has_ends(void *entry, const void *living)
{
	const struct path *p = entry;

	return lives(living, p->from) && lives(living, p->to);
}

/* The lists of the communicators anew; without memory there is none. */
static void paths_relink(struct paths *s)
{
	int err = 0;

	keyed_free(&s->comms);
	for (struct path *p = s->paths.all; p && !err; p = p->keyed.next)
		err = path_link(s, p, false);
	if (err)
		paths_free(s);
}

void paths_forget(struct paths *s, const struct model *m)
{
	size_t before = s->paths.n;
	struct living l = { 0 };

	if (!before)
		return;
	l = living_members(m);
	keyed_keep(&s->paths, has_ends, &l);
	free(l.all);
	if (s->paths.n != before)
		paths_relink(s);
}

void paths_free(struct paths *s)
{
	keyed_free(&s->paths);
	keyed_free(&s->comms);
}
