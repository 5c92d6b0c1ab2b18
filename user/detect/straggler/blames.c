/* SPDX-License-Identifier: Apache-2.0
 *
 * blames.c - see blame.h: what a walk has charged, to whom.
 */
#include <errno.h>
#include <stdlib.h>

#include "detect/straggler/blame.h"

static int items_grow(struct blames *b)
{
	int cap = b->cap ? 2 * b->cap : 16;
	struct blame *grown;

	if (b->n < b->cap)
		return 0;
	grown = realloc(b->items, cap * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	b->items = grown;
	b->cap = cap;
	return 0;
}

void blames_free(struct blames *b)
{
	free(b->items);
	free(b->procs);
	blame_set_free(&b->alone);
	blame_set_free(&b->with);
	*b = (struct blames){ 0 };
}

static int procs_grow(struct blames *b, int more)
{
	size_t cap = 2 * (b->n_procs + more);
	uint64_t *grown;

	if (b->n_procs + more <= b->procs_cap)
		return 0;
	grown = realloc(b->procs, cap * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	b->procs = grown;
	b->procs_cap = cap;
	return 0;
}

int blames_add(struct blames *all, const struct blame_set *who, uint64_t key, double s)
{
	if (items_grow(all) || procs_grow(all, who->n))
		return -ENOMEM;
	all->items[all->n++] = (struct blame){ .key = key, .n = who->n, .at = all->n_procs, .gap_s = s };
	for (int i = 0; i < who->n; i++)
		all->procs[all->n_procs++] = who->parts[i].proc->key;
	return 0;
}
