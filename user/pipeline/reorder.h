/* SPDX-License-Identifier: Apache-2.0
 *
 * reorder.h - merges records of several rings and CPUs by time: what came is held for a short window and given
 * out in order of its time stamp. Bounded: past the byte limit the oldest half goes out early; nothing is dropped, but
 * what comes older than that is late: it goes out next, out of order, and is counted.
 */
#ifndef RANKTRACE_REORDER_H
#define RANKTRACE_REORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/wire.h"

struct reorder;
typedef int (*reorder_out)(void *to, const struct wire_hdr *rec);

struct reorder *reorder_new(size_t limit_bytes); /* NULL without memory */
void reorder_free(struct reorder *r);
/* Copy a record in. 0, -EINVAL for a size that cannot be, -ENOMEM. */
int reorder_put(struct reorder *r, const struct wire_hdr *rec);
/* The limit is reached: drain now, whatever the time. */
bool reorder_full(const struct reorder *r);
/* Records handed out so far that were older than one handed out before. */
uint64_t reorder_late(const struct reorder *r);
/* Hand out every record with ts_ns <= until_ns, in order (equal times: as they came). Stops at the first error of
 * `out` and returns it; that record counts as handed out. */
int reorder_drain(struct reorder *r, uint64_t until_ns, reorder_out out, void *to);
size_t reorder_bytes(const struct reorder *r);

#endif
