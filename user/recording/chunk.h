/* SPDX-License-Identifier: Apache-2.0
 *
 * chunk.h - records packed into the chunks of a recording (schemas/recording.md), in memory.
 */
#ifndef RANKTRACE_CHUNK_H
#define RANKTRACE_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/wire.h"

#define CHUNK_RAW_MAX (256 * 1024)
#define CHUNK_PACKED_MAX \
	(CHUNK_RAW_MAX + 1024) /* what does not shrink is stored, in blocks of 64 KiB with a few bytes each */

struct chunk;

struct chunk *chunk_new(void); /* NULL without memory */
void chunk_free(struct chunk *c);
bool chunk_has_room(const struct chunk *c, const struct wire_hdr *rec);
/* The caller asked for room. */
void chunk_put(struct chunk *c, const struct wire_hdr *rec);
size_t chunk_raw_bytes(const struct chunk *c);
/* Packs what is held and forgets it: *ret_bytes, header first, valid until the next call. Its size; 0: nothing was
 * held; -ENOMEM. */
long chunk_pack(struct chunk *c, const void **ret_bytes);

#endif
