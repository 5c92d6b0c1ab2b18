/* SPDX-License-Identifier: Apache-2.0
 *
 * share.h - the newest page in memory that the collector writes and its server reads: neither waits for the other. Two
 * places take turns; a reader that was overtaken while it copied copies again. The server cannot write to it.
 */
#ifndef RANKTRACE_METRICS_SHARE_H
#define RANKTRACE_METRICS_SHARE_H

#include <stdint.h>

#include "metrics/page.h"

#define SHARE_TEXT_MAX (1u << 20)

struct shared_part {
	uint32_t at, len; /* len 0: no series */
};

struct shared_page {
	uint64_t made_ns; /* CLOCK_MONOTONIC */
	struct shared_part of[METRICS];
	char text[SHARE_TEXT_MAX];
};

struct share {
	uint64_t turn; /* pages so far; the newest is in place turn % 2; 0: none yet */
	struct shared_page places[2];
};

/* For the collector, which may write. *ret_fd is for the server: share_map(). 0 or -errno. */
int share_new(struct share **ret, int *ret_fd);
/* For the server. NULL: it cannot be mapped. */
const struct share *share_map(int fd);
void share_free(struct share *s);
/* Metrics that do not fit are left out whole; returns how many. */
size_t share_publish(struct share *s, const struct page *p, uint64_t now_ns);
/* The newest page into *ret; its turn, 0: there is none. */
uint64_t share_copy(const struct share *s, struct shared_page *ret);
uint64_t share_turn(const struct share *s);

#endif
