/* SPDX-License-Identifier: Apache-2.0
 *
 * chunk.h - packs records into the chunks of a recording (schemas/recording.md), in memory.
 */
#ifndef RANKTRACE_CHUNK_H
#define RANKTRACE_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/wire.h"

#define CHUNK_RAW_MAX (256 * 1024)
#define CHUNK_PACKED_MAX \
	(CHUNK_RAW_MAX + 1024) /* data that does not shrink is stored in blocks of 64 KiB with a few extra bytes each \
				*/

struct chunk;

struct chunk *chunk_new(void); /* NULL without memory */
void chunk_free(struct chunk *c);
bool chunk_has_room(const struct chunk *c, const struct wire_hdr *rec);
/* The caller made room before. */
void chunk_put(struct chunk *c, const struct wire_hdr *rec);
size_t chunk_raw_bytes(const struct chunk *c);
/* Packs the held records and drops them. Returns the size and *ret_bytes, chunk header first, valid until the next
 * call; 0: no records; -ENOMEM. */
long chunk_pack(struct chunk *c, const void **ret_bytes);

#endif
