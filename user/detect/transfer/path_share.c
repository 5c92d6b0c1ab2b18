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

static struct path *path_of(struct paths *s, const struct member *from, const struct member *to)
{
	struct path *p = keyed_get(&s->paths, (uintptr_t)from, (uintptr_t)to, sizeof(*p));

	if (p) {
		p->from = from;
		p->to = to;
	}
	return p;
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

	for (const struct member *mb = c->members; mb && c->by_rank && !err; mb = mb->next_in_comm)
		err = mb->gone ? 0 : paths_find(s, mb);
	for (struct path *p = s->paths.all; p && !err; p = p->keyed.next) {
		if (p->from->comm != c || p->from->gone || p->from->proxies.seen_ns <= last_ns(p))
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

static bool is_member(const struct model *m, const struct member *mb)
{
	for (const struct comm *c = m->comms; c; c = c->next)
		for (const struct member *o = c->members; o; o = o->next_in_comm)
			if (o == mb)
				return !o->gone;
	return false;
}

static bool has_ends(void *entry, const void *model)
{
	const struct path *p = entry;

	return is_member(model, p->from) && is_member(model, p->to);
}

void paths_forget(struct paths *s, const struct model *m)
{
	keyed_keep(&s->paths, has_ends, m);
}

void paths_free(struct paths *s)
{
	keyed_free(&s->paths);
}
