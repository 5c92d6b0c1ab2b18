/* SPDX-License-Identifier: Apache-2.0
 *
 * reorder.c - see reorder.h.
 *
 * Records lie one behind the other in one buffer; slots sorted by time point into it. A drain sorts the slots, hands
 * out the oldest ones and moves the small rest to the front.
 */
#include "pipeline/reorder.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct slot {
	uint64_t ts_ns;
	uint32_t offset, order;
};

struct reorder {
	char *bytes, *spare;
	size_t used, cap, limit;
	struct slot *slots;
	size_t n_slots, cap_slots;
	uint32_t next_order;
	bool sorted;
	uint64_t out_ns, late; /* time of the newest record handed out */
};

struct reorder *reorder_new(size_t limit_bytes)
{
	struct reorder *r = calloc(1, sizeof(*r));

	if (r)
		r->limit = limit_bytes;
	return r;
}

void reorder_free(struct reorder *r)
{
	if (!r)
		return;
	free(r->bytes);
	free(r->spare);
	free(r->slots);
	free(r);
}

size_t reorder_bytes(const struct reorder *r)
{
	return r->used;
}

bool reorder_full(const struct reorder *r)
{
	return r->used > r->limit;
}

uint64_t reorder_late(const struct reorder *r)
{
	return r->late;
}

static int bytes_grow(struct reorder *r, size_t need)
{
	size_t cap = r->cap ? r->cap : 65536;
	char *bytes, *spare;

	while (cap < need)
		cap *= 2;
	bytes = realloc(r->bytes, cap);
	if (!bytes)
		return -ENOMEM;
	r->bytes = bytes;
	spare = realloc(r->spare, cap);
	if (!spare)
		return -ENOMEM;
	r->spare = spare;
	r->cap = cap;
	return 0;
}

static int slots_grow(struct reorder *r)
{
	size_t cap = r->cap_slots ? r->cap_slots * 2 : 1024;
	struct slot *slots = realloc(r->slots, cap * sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	r->slots = slots;
	r->cap_slots = cap;
	return 0;
}

int reorder_put(struct reorder *r, const struct wire_hdr *rec)
{
	if (rec->size < sizeof(*rec) || rec->size > WIRE_SIZE_MAX || rec->size % 8)
		return -EINVAL;
	if (r->used + rec->size > r->cap && bytes_grow(r, r->used + rec->size))
		return -ENOMEM;
	if (r->n_slots == r->cap_slots && slots_grow(r))
		return -ENOMEM;
	memcpy(r->bytes + r->used, rec, rec->size);
	r->slots[r->n_slots++] = (struct slot){ rec->ts_ns, r->used, r->next_order++ };
	r->used += rec->size;
	r->sorted = false;
	return 0;
}

static int slot_compare(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static const struct wire_hdr *slot_record(const struct reorder *r, const struct slot *s)
{
	return (const struct wire_hdr *)(r->bytes + s->offset);
}

/* Keeps the slots from `first` on: moves their records to the front. */
static void keep_from(struct reorder *r, size_t first)
{
	size_t used = 0, n = r->n_slots - first;
	char *bytes = r->bytes;

	for (size_t i = 0; i < n; i++) {
		const struct wire_hdr *rec = slot_record(r, &r->slots[first + i]);

		memcpy(r->spare + used, rec, rec->size);
		r->slots[i] = r->slots[first + i];
		r->slots[i].offset = used;
		r->slots[i].order = i;
		used += rec->size;
	}
	r->bytes = r->spare;
	r->spare = bytes;
	r->used = used;
	r->n_slots = r->next_order = n;
}

int reorder_drain(struct reorder *r, uint64_t until_ns, reorder_out out, void *to)
{
	size_t i = 0, over = reorder_full(r) ? r->used - r->limit / 2 : 0, given = 0;
	int err = 0;

	if (!r->n_slots)
		return 0;
	if (!r->sorted)
		qsort(r->slots, r->n_slots, sizeof(*r->slots), slot_compare);
	r->sorted = true;
	for (; !err && i < r->n_slots && (r->slots[i].ts_ns <= until_ns || given < over); i++) {
		const struct wire_hdr *rec = slot_record(r, &r->slots[i]);

		given += rec->size;
		if (rec->ts_ns < r->out_ns)
			r->late++;
		else
			r->out_ns = rec->ts_ns;
		err = out(to, rec);
	}
	if (i)
		keep_from(r, i);
	return err;
}
