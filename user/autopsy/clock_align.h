/* SPDX-License-Identifier: Apache-2.0
 *
 * clock_align.h - how clocks of hosts differ, by the collectives that they have in common. No rank leaves a collective
 * before the last one is in it: so each bounds the difference of two clocks from both sides, and many of them bound it
 * closely, whatever the clocks say of the time of day. Pure.
 */
#ifndef RANKTRACE_CLOCK_ALIGN_H
#define RANKTRACE_CLOCK_ALIGN_H

#include <stddef.h>
#include <stdint.h>

#include "event.h"

#define CLOCK_ERROR_UNKNOWN UINT64_MAX

/* A collective on one host, by that host's clock. */
struct clock_span {
	uint64_t comm, seq;
	enum op_kind kind;
	uint64_t enter_ns; /* not after it is in: the last of its ranks */
	uint64_t leave_ns; /* not before it is through: the first of its ranks */
};

struct clock_spans {
	struct clock_span *all;
	size_t n, room;
};

struct clock_offset {
	int64_t offset_ns; /* to be added, for the first host's clock */
	uint64_t error_ns; /* it is right to within that, given that both clocks run alike; CLOCK_ERROR_UNKNOWN:
			      nothing is known of it, and it is 0 */
	size_t n_spans;    /* that it is by */
};

/* Of one rank, in any order. 0 or -ENOMEM. */
int clock_span_add(struct clock_spans *s, const struct clock_span *span);
void clock_spans_free(struct clock_spans *s);
/* Sorts the spans. `ret`: of n. 0 or -ENOMEM. */
int clocks_align(struct clock_spans *hosts, size_t n, struct clock_offset *ret);

#endif
