/* SPDX-License-Identifier: Apache-2.0
 *
 * vote.h - which result is right, tile by tile, by majority: of a GPU's own repeats first, then of the GPUs. No
 * reference and no epsilon. Pure: hashes in, references and blame out.
 *
 * A is used twice: as it is (PLAIN) and with its rows rotated by `rotate` tiles (ROTATED), so that another
 * multiprocessor computes each row. Tile i of a rotated result has to be tile i + rotate of the plain one. Where two
 * GPUs disagree, the one whose two results agree with each other is right. A lone GPU is compared with itself.
 */
#ifndef STRESS_VOTE_H
#define STRESS_VOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/stress/options.h"

enum { PLAIN, ROTATED, N_WAYS };

enum vote_how {
	VOTE_ALL,      /* all agree */
	VOTE_MAJORITY, /* more than half do */
	VOTE_ROTATION, /* a tie, which the rotated results decided */
	VOTE_OPEN,     /* a tie that nothing decides, or a lone GPU that disagrees with itself: no reference */
};

struct vote {
	int n; /* voters */
	uint32_t side, rotate;
	const uint64_t *ballot[STRESS_GPUS_MAX][N_WAYS]; /* side * side hashes each */
	/* out, side * side each: */
	uint64_t *reference[N_WAYS];
	uint8_t *how[N_WAYS]; /* enum vote_how */
	uint32_t moved;       /* tiles that all agree on, and whose rotated result is another one */
	bool place_matters;   /* so many that it is the algorithm: its results depend on the place of a tile */
};

/* The most frequent of n hashes that are `stride` apart, the first of equals. */
uint64_t vote_own(const uint64_t *hashes, int n, uint32_t stride);
void vote_count(struct vote *vote);
/* The tile of the rotated result that has the rows of a tile of the plain one, and the other way round. */
uint32_t vote_partner(const struct vote *vote, int way, uint32_t tile);

/* What stress_hash computes, of a tile that lies in memory: columns one after the other. */
uint64_t tile_hash(const uint32_t *words, uint32_t n);

#endif
