/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm_check.c - hashes of results against the reference, and what lies behind a difference: the tile is fetched from
 * the device, a right one from a GPU that has it, and compared element by element.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stress/gpu/gemm.h"
#include "tools/stress/gpu/tile.h"

#define HASH_BLOCK 256
#define FETCHED_MAX 16 /* of a window and GPU; more are counted */

static uint32_t tiles_of(const struct gemm *g)
{
	return g->side * g->side;
}

static cuda_ptr hashes_at(const struct gemm *g, int way)
{
	return g->hashes + (uint64_t)way * RING_HALF_MAX * tiles_of(g) * sizeof(uint64_t);
}

static uint32_t log2_of(uint32_t x)
{
	return 31 - __builtin_clz(x);
}

int gemm_hash(struct gemm *g, int way)
{
	uint64_t column_words = (uint64_t)g->n * g->number->c_bytes / 4;
	uint32_t shift = log2_of(g->tile * g->number->c_bytes / 4), tiles = tiles_of(g);
	cuda_ptr out = hashes_at(g, way);
	int err = gpu_try(g->gpu, g->gpu->run->cuda.set_words(out, 0, 2ull * g->half * tiles, g->gpu->stream),
			  "a memset");

	for (uint32_t slot = 0; !err && slot < g->half; slot++, out += tiles * sizeof(uint64_t)) {
		void *params[] = { &g->c[way][slot], &column_words, &shift, &g->tile, &out };

		err = gpu_launch(g->gpu, KERNEL_HASH, g->side, g->side, HASH_BLOCK, params);
	}
	return err ? err : gpu_try(g->gpu, g->gpu->run->cuda.event_record(g->hashed[way], g->gpu->stream), "an event");
}

int gemm_hashes_fetch(struct gemm *g, int way)
{
	int err = gpu_wait_event(g->gpu, g->hashed[way]);

	return err ? err
		   : gpu_try(g->gpu,
			     g->gpu->run->cuda.to_host(g->host[way], hashes_at(g, way),
						       (uint64_t)g->half * tiles_of(g) * sizeof(uint64_t)),
			     "a copy");
}

/* --- a tile --- */

static size_t tile_bytes(const struct gemm *g)
{
	return (size_t)g->tile * g->tile * g->number->c_bytes;
}

/* Of any GPU's result, by the calling thread. 0 or an error of CUDA's. */
static int tile_fetch(const struct gemm *of, int way, uint32_t slot, uint32_t tile, void *to)
{
	const struct cuda *cuda = &of->gpu->run->cuda;
	size_t column_bytes = (size_t)of->tile * of->number->c_bytes;
	uint32_t row = tile % of->side * of->tile, column = tile / of->side * of->tile;
	int error = cuda->context_set(of->gpu->context);

	for (uint32_t i = 0; !error && i < of->tile; i++)
		error = cuda->to_host((char *)to + i * column_bytes,
				      of->c[way][slot] + ((uint64_t)(column + i) * of->n + row) * of->number->c_bytes,
				      column_bytes);
	return error;
}

static bool tile_is(const struct gemm *g, const void *tile, uint64_t hash)
{
	return tile_hash(tile, tile_bytes(g) / 4) == hash;
}

/* A right one: of this GPU's other results, or of another GPU that can be read now. Under the run's lock. */
static bool reference_find(struct gemm *g, int way, uint32_t tile, void *to)
{
	uint64_t hash = g->class->vote.reference[way][tile];
	bool found = false;

	for (uint32_t slot = 0; !found && slot < g->half; slot++)
		found = g->host[way][slot * tiles_of(g) + tile] == hash && !tile_fetch(g, way, slot, tile, to) &&
			tile_is(g, to, hash);
	for (int i = 0; !found && i < g->class->vote.n; i++) {
		const struct gemm *other = g->gpu->run->gemms[g->class->voters[i]];

		found = other && other != g && other->usable && !other->gpu->lost &&
			!tile_fetch(other, way, 0, tile, to) && tile_is(g, to, hash);
	}
	return found;
}

/* Rows of a rotated result are said as rows of the plain one only where that is asked: here, as they lie in memory. */
static void fault_place(const struct gemm *g, uint32_t tile, struct fault *fault)
{
	fault->row += tile % g->side * g->tile;
	fault->column += tile / g->side * g->tile;
}

static size_t fault_elements_say(const struct fault *fault, char *text, size_t size)
{
	size_t at = snprintf(text, size, "row %u, column %u, bits 0x%llx", fault->row, fault->column,
			     (unsigned long long)fault->bits);

	if (fault->elements > 1)
		at += snprintf(text + at, size - at, ", %u elements of the tile", fault->elements);
	if (fault->row_period)
		at += snprintf(text + at, size - at, ", every %u rows", fault->row_period);
	if (fault->column_period)
		at += snprintf(text + at, size - at, ", every %u columns", fault->column_period);
	return at;
}

static const char *how_decided(const struct gemm *g, int way, uint32_t tile)
{
	if (g->class->vote.n == 1)
		return "its other results agree";
	switch (g->class->vote.how[way][tile]) {
	case VOTE_ROTATION: return "the other GPU's rotated rows confirm its result";
	case VOTE_MAJORITY: return "most GPUs agree on another result";
	default: return "all GPUs agree on another result";
	}
}

/* One tile of one result differs from the reference. */
static int tile_report(struct gemm *g, int way, uint32_t slot, uint32_t tile)
{
	struct fault fault = { .kind = FAULT_CORRUPT, .gpu = g->gpu->index, .measure = g->number_id };
	char *got = malloc(tile_bytes(g)), *want = malloc(tile_bytes(g)), place[200];
	int error = !got || !want ? CUDA_ERROR_OUT_OF_MEMORY : tile_fetch(g, way, slot, tile, got), back;
	bool found = false;

	if (!error) {
		pthread_mutex_lock(&g->gpu->run->lock);
		found = reference_find(g, way, tile, want);
		pthread_mutex_unlock(&g->gpu->run->lock);
	}
	back = g->gpu->run->cuda.context_set(g->gpu->context);
	if (found)
		tile_compare(got, want, g->tile, g->tile, g->number->c_bytes, &fault);
	fault_place(g, tile, &fault);
	if (fault.elements)
		fault_elements_say(&fault, place, sizeof(place));
	else
		snprintf(place, sizeof(place), "in the tile of %u from row %u, column %u on", g->tile, fault.row,
			 fault.column);
	snprintf(fault.text, sizeof(fault.text), "wrong result of a %s GEMM of %u: %s%s; %s", g->number->name, g->n,
		 place, way == ROTATED ? " (rows rotated)" : "", how_decided(g, way, tile));
	free(got);
	free(want);
	run_fault(g->gpu->run, &fault);
	return gpu_try(g->gpu, error ? error : back, "a wrong tile");
}

int gemm_check(struct gemm *g, int way)
{
	const struct vote *vote = &g->class->vote;
	uint32_t tiles = tiles_of(g);
	int err = 0;

	for (uint32_t slot = 0; !err && slot < g->half; slot++) {
		const uint64_t *hash = g->host[way] + slot * tiles;

		if (!memcmp(hash, vote->reference[way], tiles * sizeof(*hash)))
			continue;
		for (uint32_t tile = 0; !err && tile < tiles; tile++) {
			if (hash[tile] == vote->reference[way][tile] || vote->how[way][tile] == VOTE_OPEN)
				continue;
			if (g->fetched++ < FETCHED_MAX)
				err = tile_report(g, way, slot, tile);
			else
				g->gpu->n_faults++;
		}
	}
	return err;
}

/* --- what the vote left open --- */

/* The version of the other side: a lone GPU's own rotated rows, or another voter's. */
static int other_fetch(struct gemm *g, int way, uint32_t tile, void *to, char *whose, size_t size)
{
	const struct vote *vote = &g->class->vote;

	if (vote->n == 1) {
		snprintf(whose, size, "the same rows computed by other multiprocessors");
		return tile_fetch(g, !way, 0, vote_partner(vote, way, tile), to);
	}
	for (int i = 0; i < vote->n; i++) {
		const struct gemm *other = g->gpu->run->gemms[g->class->voters[i]];

		if (!other || other == g || !other->usable || other->ballot[way][tile] == g->ballot[way][tile])
			continue;
		snprintf(whose, size, "GPU %d", other->gpu->ordinal);
		return tile_fetch(other, way, 0, tile, to);
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static int open_report(struct gemm *g, int way, uint32_t tile)
{
	struct fault fault = { .kind = FAULT_DISPUTED, .gpu = g->gpu->index, .measure = g->number_id };
	char *got = malloc(tile_bytes(g)), *other = malloc(tile_bytes(g)), place[200], whose[64] = "another GPU";
	int error = !got || !other ? CUDA_ERROR_OUT_OF_MEMORY : tile_fetch(g, way, 0, tile, got);

	pthread_mutex_lock(&g->gpu->run->lock);
	if (!error && !other_fetch(g, way, tile, other, whose, sizeof(whose)))
		tile_compare(got, other, g->tile, g->tile, g->number->c_bytes, &fault);
	pthread_mutex_unlock(&g->gpu->run->lock);
	error = error ? error : g->gpu->run->cuda.context_set(g->gpu->context);
	fault_place(g, tile, &fault);
	fault_elements_say(&fault, place, sizeof(place));
	snprintf(fault.text, sizeof(fault.text), "a %s GEMM of %u differs from %s: %s; %s", g->number->name, g->n,
		 whose, place,
		 g->class->vote.n == 1 ? "one of the two places of this GPU computes wrongly"
				       : "nothing says which of the two is wrong");
	free(got);
	free(other);
	run_fault(g->gpu->run, &fault);
	return gpu_try(g->gpu, error, "a tile in dispute");
}

int gemm_open_tiles(struct gemm *g)
{
	const struct vote *vote = &g->class->vote;
	int err = 0, ways = vote->n == 1 ? 1 : N_WAYS; /* a lone GPU's rotated tiles are the partners of plain ones */

	for (int way = 0; way < ways; way++) {
		for (uint32_t tile = 0; !err && tile < tiles_of(g); tile++) {
			if (vote->how[way][tile] != VOTE_OPEN)
				continue;
			if (g->fetched++ < FETCHED_MAX)
				err = open_report(g, way, tile);
			else
				g->gpu->n_faults++;
		}
	}
	return err;
}
