/* SPDX-License-Identifier: Apache-2.0
 *
 * pieces.c - see pieces.h.
 */
#include "tools/stress/verbs/pieces.h"

#define GAP_MAX 61
#define PIECE_MAX 40000
#define SMALL_MAX 300

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static uint8_t pattern(uint64_t seed, size_t at)
{
	return mix(seed ^ at >> 3) >> 8 * (at & 7);
}

void pieces_make(struct pieces *p, uint64_t seed, size_t area_bytes, uint32_t mtu)
{
	const uint32_t first[] = { 1, 2, 7, mtu - 1, mtu, mtu + 1, 2 * mtu, 8 * mtu + 3 };
	uint64_t state = seed;
	size_t at = 0;

	p->n = 0;
	while (p->n < PIECES_MAX) {
		uint32_t bytes = p->n < (int)(sizeof(first) / sizeof(first[0])) ? first[p->n]
				 : (state = mix(state)) & 1                     ? 1 + (state >> 8) % PIECE_MAX
										: 1 + (state >> 8) % SMALL_MAX;

		state = mix(state);
		at += state % GAP_MAX;
		if (at + bytes > area_bytes)
			return;
		p->piece[p->n].at = at;
		p->piece[p->n++].bytes = bytes;
		at += bytes;
	}
}

void pieces_one(struct pieces *p, uint32_t bytes)
{
	p->n = 1;
	p->piece[0].at = 0;
	p->piece[0].bytes = bytes;
}

void pattern_fill(uint8_t *area, size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		area[i] = pattern(seed, i);
}

void pattern_poison(uint8_t *area, size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		area[i] = ~pattern(seed, i);
}

uint64_t pieces_check(const struct pieces *p, const uint8_t *area, size_t bytes, uint64_t seed, uint64_t *at,
		      uint64_t *want, uint64_t *got)
{
	uint64_t wrong = 0;
	int piece = 0;

	for (size_t i = 0; i < bytes; i++) {
		uint8_t expected = pattern(seed, i);

		while (piece < p->n && i >= p->piece[piece].at + p->piece[piece].bytes)
			piece++;
		if (piece == p->n || i < p->piece[piece].at)
			expected = ~expected;
		if (area[i] == expected)
			continue;
		if (!wrong++) {
			*at = i;
			*want = expected;
			*got = area[i];
		}
	}
	return wrong;
}
