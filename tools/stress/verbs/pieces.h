/* SPDX-License-Identifier: Apache-2.0
 *
 * pieces.h - what a check of data moves: messages of many lengths to odd places of an area, with gaps between them that
 * nothing may touch; and what each byte of the area has to be.
 */
#ifndef STRESS_VERBS_PIECES_H
#define STRESS_VERBS_PIECES_H

#include <stddef.h>
#include <stdint.h>

#define PIECES_MAX 64

struct pieces {
	int n;
	struct {
		uint32_t at, bytes;
	} piece[PIECES_MAX];
};

/* The same at both ends. `mtu` bytes: lengths around it are among them. */
void pieces_make(struct pieces *p, uint64_t seed, size_t area_bytes, uint32_t mtu);
/* One piece from the area's begin. */
void pieces_one(struct pieces *p, uint32_t bytes);
/* What is sent; and what lies there before, of which no byte is the same. */
void pattern_fill(uint8_t *area, size_t bytes, uint64_t seed);
void pattern_poison(uint8_t *area, size_t bytes, uint64_t seed);
/* Every byte of `bytes`: pieces have the pattern, gaps the poison. The number of wrong ones; the first in at, want,
 * got. */
uint64_t pieces_check(const struct pieces *p, const uint8_t *area, size_t bytes, uint64_t seed, uint64_t *at,
		      uint64_t *want, uint64_t *got);

#endif
