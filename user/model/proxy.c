/* SPDX-License-Identifier: Apache-2.0
 *
 * proxy.c - looks at NCCL's proxies. A look comes in pieces; it counts once it is whole, and is compared with the one
 * before: nothing moved as long as all numbers are the same.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/state.h"

static bool parts_same(const struct proxy_part *a, const struct proxy_part *b)
{
	return a->op_count == b->op_count && a->base == b->base && a->posted == b->posted &&
	       a->received == b->received && a->flushed == b->flushed && a->transmitted == b->transmitted &&
	       a->done == b->done && a->nsteps == b->nsteps && a->channel == b->channel && a->peer == b->peer &&
	       a->is_send == b->is_send && a->state == b->state && a->transport == b->transport;
}

static bool look_same(const struct proxies *p, const struct member_own *mb)
{
	if (p->n != mb->n_look)
		return false;
	for (int i = 0; i < p->n; i++)
		if (!parts_same(&p->parts[i], &mb->look[i]))
			return false;
	return true;
}

static void look_take(struct member_own *mb, const struct event *e, bool moving)
{
	struct proxies *p = &mb->m.proxies;
	struct proxy_part *old = p->parts;

	if (!p->n_looks || moving || !look_same(p, mb)) {
		p->moved = p->n_looks != 0 || moving;
		p->since_ns = e->ts_ns;
	}
	p->n_looks++;
	p->seen_ns = e->ts_ns;
	p->parts = mb->look;
	p->n = mb->n_look;
	mb->look = old;
	mb->n_look = mb->want_look = 0;
}

static int look_begin(struct member_own *mb, const struct event *e)
{
	size_t n = e->proxy.n < PROXY_PARTS_KEPT ? e->proxy.n : PROXY_PARTS_KEPT;
	struct proxy_part *parts = realloc(mb->look, (n + 1) * sizeof(*parts));

	if (!parts)
		return -ENOMEM;
	mb->look = parts;
	mb->n_look = 0;
	mb->want_look = n;
	if (e->proxy.thread)
		mb->m.proxies.thread = e->proxy.thread;
	if (!n)
		look_take(mb, e, e->proxy.moving);
	return 0;
}

/* Of a communicator that was never told, or that is gone, nothing is kept. */
int proxy_apply(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, e->tgid, e->ts_ns);
	struct member_own *mb = p ? member_find(p, e->proxy.addr) : NULL;

	if (!p)
		return -ENOMEM;
	if (!mb || mb->m.gone)
		return 0;
	if (e->proxy.is_look)
		return look_begin(mb, e);
	if (mb->n_look >= mb->want_look)
		return 0;
	mb->look[mb->n_look++] = e->proxy.part;
	if (mb->n_look == mb->want_look)
		look_take(mb, e, false);
	return 0;
}

void proxies_free(struct member_own *mb)
{
	free(mb->m.proxies.parts);
	free(mb->look);
}
