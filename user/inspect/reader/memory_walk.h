/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_walk.h - goes through the private writable memory of a live process from outside, in slices: no probe, no
 * stop, and only pages that are present, as others would be faulted in. For jobs of a parser.
 */
#ifndef RANKTRACE_TARGET_MEMORY_WALK_H
#define RANKTRACE_TARGET_MEMORY_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inspect/reader/memory.h"

#define MEMORY_WALK_SPACE_MAX \
	(64u << 20) /* pages of address space of a whole walk, for its caller to hold to: 256 GB */

/* Allocators keep what is no tensor in the heap and in small mappings: looked through first, it is a small part of a
 * large process. Neither has a library's data. */
enum memory_part { MEMORY_ALL, MEMORY_NEAR, MEMORY_FAR };

struct memory_walk {
	const struct memory *memory; /* its maps change under a walk, so each slice opens it anew */
	enum memory_part part;
	uint64_t from;      /* address; 0 the beginning */
	uint32_t pages_max; /* present pages of this slice */
	/* Aligned words of the target at `addr`; called for stretch after stretch. */
	void (*words)(void *of, uint64_t addr, const uint64_t *words, size_t n);
	void *of;
	/* What came of it. */
	uint64_t next;         /* address to go on at; 0 the end */
	uint64_t pages, space; /* pages read; pages of address space passed */
};

void memory_walk_slice(struct memory_walk *w);

#endif
