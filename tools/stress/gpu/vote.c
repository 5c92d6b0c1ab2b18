/* SPDX-License-Identifier: Apache-2.0
 *
 * vote.c - see vote.h.
 */
#include "tools/stress/gpu/vote.h"

/* A fault of one multiprocessor changes a hundredth of the tiles; an algorithm that splits sums by place, nearly all.
 */
#define PLACE_SHARE 4

uint64_t vote_own(const uint64_t *hashes, int n, uint32_t stride)
{
	uint64_t best = hashes[0];
	int most = 0;

	for (int i = 0; i < n && most * 2 <= n; i++) {
		int same = 0;

		for (int j = 0; j < n; j++)
			same += hashes[j * stride] == hashes[i * stride];
		if (same > most) {
			most = same;
			best = hashes[i * stride];
		}
	}
	return best;
}

uint32_t vote_partner(const struct vote *vote, int way, uint32_t tile)
{
	uint32_t row = tile % vote->side, by = way == PLAIN ? vote->side - vote->rotate : vote->rotate;

	return tile - row + (row + by) % vote->side;
}

/* A GPU whose two results of the same rows are alike. */
static bool is_consistent(const struct vote *vote, int voter, int way, uint32_t tile)
{
	return vote->ballot[voter][way][tile] == vote->ballot[voter][!way][vote_partner(vote, way, tile)];
}

/* The one value that consistent voters have; false: none, or several. */
static bool rotation_decides(const struct vote *vote, int way, uint32_t tile, uint64_t *value)
{
	bool found = false;

	for (int i = 0; i < vote->n; i++) {
		if (!is_consistent(vote, i, way, tile))
			continue;
		if (found && vote->ballot[i][way][tile] != *value)
			return false;
		*value = vote->ballot[i][way][tile];
		found = true;
	}
	return found;
}

static void tile_decide(struct vote *vote, int way, uint32_t tile)
{
	uint64_t hashes[STRESS_GPUS_MAX] = { 0 }, best;
	int same = 0;

	for (int i = 0; i < vote->n; i++)
		hashes[i] = vote->ballot[i][way][tile];
	best = vote_own(hashes, vote->n, 1);
	for (int i = 0; i < vote->n; i++)
		same += hashes[i] == best;
	vote->reference[way][tile] = best;
	if (same * 2 > vote->n)
		vote->how[way][tile] = same == vote->n ? VOTE_ALL : VOTE_MAJORITY;
	else if (rotation_decides(vote, way, tile, &vote->reference[way][tile]))
		vote->how[way][tile] = VOTE_ROTATION;
	else
		vote->how[way][tile] = VOTE_OPEN;
}

/* Compares the plain reference with the rotated one. */
static void places_compare(struct vote *vote)
{
	uint32_t tiles = vote->side * vote->side;

	vote->moved = 0;
	for (uint32_t tile = 0; tile < tiles; tile++)
		vote->moved +=
			vote->how[PLAIN][tile] == VOTE_ALL &&
			vote->reference[PLAIN][tile] != vote->reference[ROTATED][vote_partner(vote, PLAIN, tile)];
	vote->place_matters = vote->moved > tiles / PLACE_SHARE;
	if (vote->n > 1 || vote->place_matters)
		return;
	for (uint32_t tile = 0; tile < tiles; tile++) {
		uint32_t partner = vote_partner(vote, PLAIN, tile);

		if (vote->reference[PLAIN][tile] != vote->reference[ROTATED][partner])
			vote->how[PLAIN][tile] = vote->how[ROTATED][partner] = VOTE_OPEN;
	}
}

void vote_count(struct vote *vote)
{
	for (int way = 0; way < N_WAYS; way++)
		for (uint32_t tile = 0; tile < vote->side * vote->side; tile++)
			tile_decide(vote, way, tile);
	places_compare(vote);
}

uint64_t tile_hash(const uint32_t *words, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t x = (uint64_t)i << 32 | words[i];

		x ^= x >> 33;
		x *= 0xff51afd7ed558ccdull;
		x ^= x >> 33;
		x *= 0xc4ceb9fe1a85ec53ull;
		sum += x ^ x >> 33;
	}
	return sum;
}
