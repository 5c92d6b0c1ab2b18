/* SPDX-License-Identifier: Apache-2.0
 *
 * keyed.h - what somebody keeps of each job, rank, GPU or port: entries found by two numbers, made at the first
 * question. An entry is a struct of the caller's whose first member is a struct keyed.
 */
#ifndef RANKTRACE_KEYED_H
#define RANKTRACE_KEYED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct keyed {
	void *next; /* the entry made before this one; NULL: it was the first */
	uint64_t a, b;
	struct keyed *in_bucket;
};

struct keyed_table { /* zeroed at first; owns its entries */
	void *all;   /* the newest entry; the others by its `next` */
	struct keyed **buckets;
	size_t n, n_buckets;
};

/* The entry with this key, else a new one of `bytes` bytes, zeroed but for its key; NULL: out of memory. */
void *keyed_get(struct keyed_table *t, uint64_t a, uint64_t b, size_t bytes);
/* NULL: there is none. */
void *keyed_find(const struct keyed_table *t, uint64_t a, uint64_t b);
/* It will be asked for soon: it is fetched into the cache. */
void keyed_fetch(const struct keyed_table *t, uint64_t a, uint64_t b);
/* Frees the entries that `lives` does not say true of; it may change them. */
void keyed_keep(struct keyed_table *t, bool (*lives)(void *entry, const void *arg), const void *arg);
/* All entries; the table is as at first. What entries own is the caller's to free before. */
void keyed_free(struct keyed_table *t);

#endif
