/* SPDX-License-Identifier: Apache-2.0
 *
 * rounds.h - who entered a collective when: operations arrive one by one, a round is one collective of all ranks that
 * are seen. Bounded: what is incomplete for too long is handed out as it is, oldest first.
 */
#ifndef RANKTRACE_REPORT_ROUNDS_H
#define RANKTRACE_REPORT_ROUNDS_H

#include "model/model.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct heat_row;

struct round_entry {
	struct heat_row *row;
	int rank; /* in the communicator */
	uint64_t ns;
};

struct round_key {
	uint64_t hash, seq;
	int64_t space; /* SEQ_* */
};

struct round {
	struct round_key key;
	enum op_kind op;
	size_t n, cap;
	struct round_entry *entries;
	struct round *next, *prev; /* oldest first */
	UT_hash_handle hh;
};

struct rounds {
	struct round *by_key, *oldest, *newest;
	size_t n_entries;
};

/* Adds an entry. Returns the round if that was the last of `n_wanted`, or an older one that has to go for its memory;
 * free it with round_free(). NULL: neither, or no memory. */
struct round *rounds_add(struct rounds *r, const struct op *op, size_t n_wanted, struct heat_row *row);
/* Takes the oldest one out; NULL none. */
struct round *rounds_take(struct rounds *r);
void round_free(struct round *one);
/* The first that entered, and the last one (an index of entries). */
uint64_t round_first_ns(const struct round *one, size_t *ret_last);

#endif
