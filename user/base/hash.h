/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.h - one 64-bit mixer for keys and signatures. Its results never change: finding keys and replay depend on them.
 */
#ifndef RANKTRACE_HASH_H
#define RANKTRACE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Folds `v` into `h`; the finaliser of MurmurHash3. */
static inline uint64_t hash_mix(uint64_t h, uint64_t v)
{
	h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
	h ^= h >> 33;
	h *= 0xff51afd7ed558ccdull;
	h ^= h >> 33;
	h *= 0xc4ceb9fe1a85ec53ull;
	return h ^ (h >> 33);
}

/* The same for a text, by its content; NULL differs from "". */
static inline uint64_t hash_text(uint64_t h, const char *text)
{
	uint64_t one = 0xcbf29ce484222325ull; /* FNV-1a */

	for (const char *c = text; c && *c; c++)
		one = (one ^ (unsigned char)*c) * 0x100000001b3ull;
	return hash_mix(h, text ? one : 0);
}

/* Of up to `len` bytes, to the first zero, what hash_text() is of such a text. */
static inline uint64_t hash_bytes(uint64_t h, const char *s, size_t len)
{
	uint64_t one = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < len && s[i]; i++)
		one = (one ^ (unsigned char)s[i]) * 0x100000001b3ull;
	return hash_mix(h, one);
}

#endif
