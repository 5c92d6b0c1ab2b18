/* SPDX-License-Identifier: Apache-2.0
 *
 * rounds.c - see rounds.h.
 */
#include "sink/report/rounds.h"

#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX 4194304 /* of all rounds that are incomplete: 96 MiB */

static void round_unlink(struct rounds *r, struct round *one)
{
	HASH_DEL(r->by_key, one);
	if (one->prev)
		one->prev->next = one->next;
	else
		r->oldest = one->next;
	if (one->next)
		one->next->prev = one->prev;
	else
		r->newest = one->prev;
	r->n_entries -= one->n;
}

static struct round *round_new(struct rounds *r, const struct round_key *key, const struct op *op)
{
	struct round *one = calloc(1, sizeof(*one));

	if (!one)
		return NULL;
	one->key = *key;
	one->op = op->kind;
	HASH_ADD(hh, r->by_key, key, sizeof(one->key), one);
	if (!one->hh.tbl) {
		free(one);
		return NULL;
	}
	one->prev = r->newest;
	if (r->newest)
		r->newest->next = one;
	else
		r->oldest = one;
	r->newest = one;
	return one;
}

static bool round_put(struct round *one, const struct round_entry *e)
{
	size_t cap = one->cap ? 2 * one->cap : 8;
	struct round_entry *grown;

	if (one->n == one->cap) {
		grown = realloc(one->entries, cap * sizeof(*grown));
		if (!grown)
			return false;
		one->entries = grown;
		one->cap = cap;
	}
	one->entries[one->n++] = *e;
	return true;
}

struct round *rounds_add(struct rounds *r, const struct op *op, size_t n_wanted, struct heat_row *row)
{
	const struct round_entry e = { row, op->member->rank, op->enqueue_ns };
	struct round_key key;
	struct round *one;

	memset(&key, 0, sizeof(key));
	key = (struct round_key){ op->member->comm->hash, op->seq, op_space(op) };
	HASH_FIND(hh, r->by_key, &key, sizeof(key), one);
	if (!one)
		one = round_new(r, &key, op);
	if (!one || !round_put(one, &e))
		return NULL;
	r->n_entries++;
	if (one->n >= n_wanted) {
		round_unlink(r, one);
		return one;
	}
	return r->n_entries > ENTRIES_MAX ? rounds_take(r) : NULL;
}

struct round *rounds_take(struct rounds *r)
{
	struct round *one = r->oldest;

	if (one)
		round_unlink(r, one);
	return one;
}

void round_free(struct round *one)
{
	if (one)
		free(one->entries);
	free(one);
}

uint64_t round_first_ns(const struct round *one, size_t *ret_last)
{
	uint64_t first = UINT64_MAX;

	*ret_last = 0;
	for (size_t i = 0; i < one->n; i++) {
		first = one->entries[i].ns < first ? one->entries[i].ns : first;
		if (one->entries[i].ns > one->entries[*ret_last].ns)
			*ret_last = i;
	}
	return first;
}
