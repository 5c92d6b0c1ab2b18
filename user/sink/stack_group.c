/* SPDX-License-Identifier: Apache-2.0
 *
 * stack_group.c - two sorts: items by text, rank and thread, so that equal ones are neighbours; then the groups.
 */
#include "sink/stack_group.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int order_numbers(int64_t a, int64_t b)
{
	return a < b ? -1 : a > b;
}

static int item_compare(const void *a, const void *b, void *arg)
{
	const struct stack_item *items = arg, *x = &items[*(const size_t *)a], *y = &items[*(const size_t *)b];
	int by_text = strcmp(x->text, y->text), by_rank = order_numbers(x->rank, y->rank);
	int by_process = order_numbers(x->tgid, y->tgid);

	return by_text ? by_text : by_rank ? by_rank : by_process ? by_process : order_numbers(x->tid, y->tid);
}

struct group_view {
	const struct stack_item *items;
	const size_t *order;
};

static int group_compare(const void *a, const void *b, void *arg)
{
	const struct stack_group *x = a, *y = b;
	const struct group_view *v = arg;
	const struct stack_item *p = &v->items[v->order[x->first]], *q = &v->items[v->order[y->first]];
	int by_ranks = order_numbers(x->n_ranks, y->n_ranks), by_rank = order_numbers(p->rank, q->rank);
	int by_process = order_numbers(p->tgid, q->tgid);

	return by_ranks ? by_ranks : by_rank ? by_rank : by_process ? by_process : order_numbers(p->tid, q->tid);
}

size_t stack_groups_make(const struct stack_item *items, size_t n, size_t *order, struct stack_group *groups)
{
	struct group_view view = { items, order };
	size_t n_groups = 0;

	for (size_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), item_compare, (void *)items);
	for (size_t i = 0; i < n; i++) {
		const struct stack_item *now = &items[order[i]], *last = i ? &items[order[i - 1]] : NULL;
		bool same = last && !strcmp(now->text, last->text);

		if (!same)
			groups[n_groups++] = (struct stack_group){ i, 0, 0 };
		groups[n_groups - 1].n++;
		if (!same || now->rank != last->rank || (now->rank < 0 && now->tgid != last->tgid))
			groups[n_groups - 1].n_ranks++;
	}
	qsort_r(groups, n_groups, sizeof(*groups), group_compare, &view);
	return n_groups;
}
