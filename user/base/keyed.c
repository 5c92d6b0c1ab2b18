/* SPDX-License-Identifier: Apache-2.0
 *
 * keyed.c - see keyed.h. Buckets double when there are as many entries as buckets.
 */
#include "base/keyed.h"

#include <stdlib.h>

#include "base/hash.h"

#define BUCKETS_FIRST 8

static struct keyed **bucket_of(const struct keyed_table *t, uint64_t a, uint64_t b)
{
	return &t->buckets[hash_mix(a, b) & (t->n_buckets - 1)];
}

static int buckets_double(struct keyed_table *t)
{
	size_t n = t->n_buckets ? 2 * t->n_buckets : BUCKETS_FIRST;
	struct keyed **grown = calloc(n, sizeof(*grown));

	if (!grown)
		return -1;
	free(t->buckets);
	t->buckets = grown;
	t->n_buckets = n;
	for (struct keyed *k = t->all; k; k = k->next) {
		struct keyed **bucket = bucket_of(t, k->a, k->b);

		k->in_bucket = *bucket;
		*bucket = k;
	}
	return 0;
}

void *keyed_find(const struct keyed_table *t, uint64_t a, uint64_t b)
{
	if (!t->n_buckets)
		return NULL;
	for (struct keyed *k = *bucket_of(t, a, b); k; k = k->in_bucket)
		if (k->a == a && k->b == b)
			return k;
	return NULL;
}

void keyed_fetch(const struct keyed_table *t, uint64_t a, uint64_t b)
{
	if (t->n_buckets)
		__builtin_prefetch(*bucket_of(t, a, b));
}

void *keyed_get(struct keyed_table *t, uint64_t a, uint64_t b, size_t bytes)
{
	struct keyed *k = keyed_find(t, a, b), **bucket;

	if (k || (t->n == t->n_buckets && buckets_double(t) && !t->n_buckets))
		return k;
	k = calloc(1, bytes);
	if (!k)
		return NULL;
	bucket = bucket_of(t, a, b);
	*k = (struct keyed){ .next = t->all, .a = a, .b = b, .in_bucket = *bucket };
	*bucket = t->all = k;
	t->n++;
	return k;
}

static void bucket_remove(struct keyed_table *t, struct keyed *k)
{
	struct keyed **at = bucket_of(t, k->a, k->b);

	while (*at != k)
		at = &(*at)->in_bucket;
	*at = k->in_bucket;
}

void keyed_keep(struct keyed_table *t, bool (*lives)(void *entry, const void *arg), const void *arg)
{
	void **at = &t->all;

	while (*at) {
		struct keyed *k = *at;

		if (lives(k, arg)) {
			at = &k->next;
			continue;
		}
		*at = k->next;
		bucket_remove(t, k);
		t->n--;
		free(k);
	}
}

void keyed_free(struct keyed_table *t)
{
	struct keyed *k;

	while ((k = t->all)) {
		t->all = k->next;
		free(k);
	}
	free(t->buckets);
	*t = (struct keyed_table){ 0 };
}
