/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated data: a 64-bit word stands for the contents of a buffer, and what is computed from two is a word that
 * depends on both and on their order. So a run has a result, the same for the same seed whatever the timing.
 */
#ifndef SIMJOB_MIX_H
#define SIMJOB_MIX_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t z = (a ^ 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL + b;

	z = (z ^ (z >> 29)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 32);
}

static inline uint64_t mix_bytes(const char *bytes, size_t size_bytes)
{
	uint64_t result = size_bytes, word;
	size_t i;

	for (i = 0; i + sizeof(word) <= size_bytes; i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		result = mix(result, word);
	}
	return result;
}

#endif
