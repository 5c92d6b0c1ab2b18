/* SPDX-License-Identifier: Apache-2.0
 *
 * reorder.h - sorts the records of several rings and CPUs by time: it holds each for a short window and hands them out
 * in order of their time stamps.
 *
 * Bounded: past the byte limit it hands out the oldest half early. It never drops a record; one that is older than the
 * newest record handed out is late: it goes out next, out of order, and is counted.
 */
#ifndef RANKTRACE_REORDER_H
#define RANKTRACE_REORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/wire.h"

struct reorder;
typedef int (*reorder_out)(void *to, const struct wire_hdr *rec);

struct reorder *reorder_new(size_t limit_bytes); /* NULL: out of memory */
void reorder_free(struct reorder *r);
/* Copies a record in. 0, -EINVAL for an impossible size, -ENOMEM. */
int reorder_put(struct reorder *r, const struct wire_hdr *rec);
/* The limit is reached: drain now, whatever the time. */
bool reorder_full(const struct reorder *r);
/* Number of records handed out after a newer one. */
uint64_t reorder_late(const struct reorder *r);
/* Hands out every record with ts_ns <= until_ns, in order of time; equal times in order of arrival. Stops at the first
 * error of `out` and returns it; that record counts as handed out. */
int reorder_drain(struct reorder *r, uint64_t until_ns, reorder_out out, void *to);
size_t reorder_bytes(const struct reorder *r);

#endif
