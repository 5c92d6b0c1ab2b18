/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stress_vote.c - whose result is right, and where two versions of a tile differ.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/stress/gpu/tile.h"
#include "tools/stress/gpu/vote.h"

#define SIDE 8
#define ROTATE 2
#define TILES (SIDE * SIDE)
#define VOTERS 3

struct world {
	struct vote vote;
	uint64_t ballots[VOTERS][N_WAYS][TILES], reference[N_WAYS][TILES];
	uint8_t how[N_WAYS][TILES];
};

/* All GPUs healthy: tile i of the rotated result is tile i + ROTATE of the plain one. */
static struct world *world_of(int voters)
{
	static struct world w;

	memset(&w, 0, sizeof(w));
	w.vote = (struct vote){ .n = voters, .side = SIDE, .rotate = ROTATE };
	for (int way = 0; way < N_WAYS; way++) {
		w.vote.reference[way] = w.reference[way];
		w.vote.how[way] = w.how[way];
	}
	for (int i = 0; i < voters * TILES; i++) {
		int voter = i / TILES, tile = i % TILES, moved = tile - tile % SIDE + (tile % SIDE + ROTATE) % SIDE;

		w.ballots[voter][PLAIN][tile] = 1000 + tile;
		w.ballots[voter][ROTATED][tile] = 1000 + moved;
		for (int way = 0; way < N_WAYS; way++)
			w.vote.ballot[voter][way] = w.ballots[voter][way];
	}
	return &w;
}

static uint32_t count(const struct world *w, int way, enum vote_how how)
{
	uint32_t n = 0;

	for (int tile = 0; tile < TILES; tile++)
		n += w->how[way][tile] == how;
	return n;
}

static void test_healthy_agree(void **state)
{
	(void)state;
	for (int voters = 1; voters <= VOTERS; voters++) {
		struct world *w = world_of(voters);

		vote_count(&w->vote);
		assert_int_equal(count(w, PLAIN, VOTE_ALL), TILES);
		assert_int_equal(count(w, ROTATED, VOTE_ALL), TILES);
		assert_int_equal(w->vote.moved, 0);
		assert_false(w->vote.place_matters);
	}
}

static void test_partners_are_each_others(void **state)
{
	struct world *w = world_of(1);

	(void)state;
	for (uint32_t tile = 0; tile < TILES; tile++) {
		uint32_t partner = vote_partner(&w->vote, PLAIN, tile);

		assert_int_equal(w->ballots[0][PLAIN][tile], w->ballots[0][ROTATED][partner]);
		assert_int_equal(vote_partner(&w->vote, ROTATED, partner), tile);
	}
}

static void test_majority_of_three(void **state)
{
	struct world *w = world_of(3);

	(void)state;
	w->ballots[0][PLAIN][5] = 7; /* the first one, whose word counts no more than others' */
	vote_count(&w->vote);
	assert_int_equal(w->how[PLAIN][5], VOTE_MAJORITY);
	assert_int_equal(w->reference[PLAIN][5], 1005);
	assert_int_equal(count(w, PLAIN, VOTE_ALL), TILES - 1);
}

/* A fault that belongs to a place of the GPU's: the rotated rows, computed elsewhere, are right. */
static void test_two_by_rotation(void **state)
{
	(void)state;
	for (int bad = 0; bad < 2; bad++) {
		struct world *w = world_of(2);

		w->ballots[bad][PLAIN][9] ^= 1;
		w->ballots[bad][ROTATED][9] ^= 1;
		vote_count(&w->vote);
		assert_int_equal(w->how[PLAIN][9], VOTE_ROTATION);
		assert_int_equal(w->how[ROTATED][9], VOTE_ROTATION);
		assert_int_equal(w->reference[PLAIN][9], w->ballots[!bad][PLAIN][9]);
		assert_int_equal(w->reference[ROTATED][9], w->ballots[!bad][ROTATED][9]);
	}
}

/* Wrong rows wherever they are computed: each GPU agrees with itself. */
static void test_two_stay_open(void **state)
{
	struct world *w = world_of(2);
	uint32_t partner = vote_partner(&w->vote, PLAIN, 9);

	(void)state;
	w->ballots[1][PLAIN][9] ^= 1;
	w->ballots[1][ROTATED][partner] ^= 1;
	vote_count(&w->vote);
	assert_int_equal(w->how[PLAIN][9], VOTE_OPEN);
	assert_int_equal(w->how[ROTATED][partner], VOTE_OPEN);
}

static void test_one_against_itself(void **state)
{
	struct world *w = world_of(1);
	uint32_t partner = vote_partner(&w->vote, PLAIN, 3);

	(void)state;
	w->ballots[0][PLAIN][3] ^= 1;
	vote_count(&w->vote);
	assert_int_equal(w->how[PLAIN][3], VOTE_OPEN);
	assert_int_equal(w->how[ROTATED][partner], VOTE_OPEN);
	assert_int_equal(count(w, PLAIN, VOTE_OPEN), 1);
	assert_int_equal(w->vote.moved, 1);
}

/* An algorithm that splits sums by place: no GPU is to blame. */
static void test_place_matters(void **state)
{
	struct world *w = world_of(1);

	(void)state;
	for (int tile = 0; tile < TILES; tile++)
		w->ballots[0][ROTATED][tile] ^= 1;
	vote_count(&w->vote);
	assert_true(w->vote.place_matters);
	assert_int_equal(count(w, PLAIN, VOTE_OPEN), 0);
}

static void test_own_majority(void **state)
{
	const uint64_t hashes[] = { 9, 1, 1, 5, 1, 6, 9, 7 };

	(void)state;
	assert_int_equal(vote_own(hashes, 1, 1), 9);
	assert_int_equal(vote_own(hashes, 8, 1), 1);
	assert_int_equal(vote_own(hashes, 3, 3), 9); /* 9, 5, 9 */
}

static void test_hash_sees_any_bit(void **state)
{
	uint32_t words[64] = { 0 };
	uint64_t hash = tile_hash(words, 64);

	(void)state;
	for (int bit = 0; bit < 64 * 32; bit++) {
		words[bit / 32] ^= 1u << bit % 32;
		assert_int_not_equal(tile_hash(words, 64), hash);
		words[bit / 32] ^= 1u << bit % 32;
	}
	words[3] = 1;
	hash = tile_hash(words, 64);
	words[3] = 0;
	words[4] = 1; /* the same words elsewhere */
	assert_int_not_equal(tile_hash(words, 64), hash);
}

static void test_tile_one_element(void **state)
{
	uint16_t want[16 * 16] = { 0 }, got[16 * 16];
	struct fault fault = { 0 };

	(void)state;
	memcpy(got, want, sizeof(got));
	got[5 * 16 + 11] ^= 0x8001;
	tile_compare(got, want, 16, 16, 2, &fault);
	assert_int_equal(fault.elements, 1);
	assert_int_equal(fault.row, 11);
	assert_int_equal(fault.column, 5);
	assert_int_equal(fault.bits, 0x8001);
	assert_int_equal(fault.row_period, 0);
}

static void test_tile_period(void **state)
{
	double want[32 * 32] = { 0 }, got[32 * 32] = { 0 };
	struct fault fault = { 0 };

	(void)state;
	for (int row = 3; row < 32; row += 8)
		for (int column = 2; column < 32; column += 4)
			got[column * 32 + row] = 1;
	tile_compare(got, want, 32, 32, 8, &fault);
	assert_int_equal(fault.elements, 4 * 8);
	assert_int_equal(fault.row, 3);
	assert_int_equal(fault.column, 2);
	assert_int_equal(fault.row_period, 8);
	assert_int_equal(fault.column_period, 4);
	assert_int_equal(fault.bits, 0x3ff0000000000000ull);
}

/* Two wrong elements have a distance, and no period. */
static void test_tile_two_have_no_period(void **state)
{
	uint8_t want[64] = { 0 }, got[64] = { 0 };
	struct fault fault = { 0 };

	(void)state;
	got[1] = got[5] = 1;
	tile_compare(got, want, 8, 8, 1, &fault);
	assert_int_equal(fault.elements, 2);
	assert_int_equal(fault.row_period, 0);
	tile_compare(want, want, 8, 8, 1, &fault);
	assert_int_equal(fault.elements, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_healthy_agree),     cmocka_unit_test(test_partners_are_each_others),
		cmocka_unit_test(test_majority_of_three), cmocka_unit_test(test_two_by_rotation),
		cmocka_unit_test(test_two_stay_open),     cmocka_unit_test(test_one_against_itself),
		cmocka_unit_test(test_place_matters),     cmocka_unit_test(test_own_majority),
		cmocka_unit_test(test_hash_sees_any_bit), cmocka_unit_test(test_tile_one_element),
		cmocka_unit_test(test_tile_period),       cmocka_unit_test(test_tile_two_have_no_period),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
