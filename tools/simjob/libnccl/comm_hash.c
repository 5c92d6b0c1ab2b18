// SPDX-License-Identifier: Apache-2.0
/*
 * How NCCL names a communicator: a 64-bit hash of the unique id, or of (parent's hash, number of the split, color).
 * Mixing steps and constants are those of NCCL 2.28's bitops.h, as the value has to be the same.
 */
#include "tools/simjob/libnccl/comm.h"

#include <string.h>

struct hash_state {
	uint64_t a, b;
};

static void hash_word(struct hash_state *state, uint64_t word)
{
	state->a += state->b;
	state->b ^= state->a;
	state->a = (state->a ^ (state->a >> 31)) * 0x9de62bbc8cef3ce3ULL;
	state->b = (state->b ^ (state->b >> 32)) * 0x485cd6311b599e79ULL;
	state->a += word;
}

static void hash_bytes(struct hash_state *state, const void *bytes, size_t size_bytes)
{
	const char *next = bytes;

	state->a ^= size_bytes;
	while (size_bytes) {
		size_t chunk_bytes = size_bytes < sizeof(uint64_t) ? size_bytes : sizeof(uint64_t);
		uint64_t word = 0;

		memcpy(&word, next, chunk_bytes);
		hash_word(state, word);
		next += chunk_bytes;
		size_bytes -= chunk_bytes;
	}
}

static uint64_t hash_digest(const struct hash_state *state)
{
	uint64_t hash = (state->a ^ (state->a >> 31)) * 0xbac3bd562846de6bULL;

	hash += state->b;
	hash ^= hash >> 32;
	return hash * 0x995a187a14e7b445ULL;
}

uint64_t comm_hash_root(const ncclUniqueId *id)
{
	struct hash_state state = { 1, 1 };

	hash_bytes(&state, id->internal, NCCL_UNIQUE_ID_BYTES);
	return hash_digest(&state);
}

uint64_t comm_hash_child(uint64_t parent_hash, int child_count, int color)
{
	struct hash_state state = { 1, 1 };

	hash_bytes(&state, &parent_hash, sizeof(parent_hash));
	hash_bytes(&state, &child_count, sizeof(child_count));
	hash_bytes(&state, &color, sizeof(color));
	return hash_digest(&state);
}
