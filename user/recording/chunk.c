/* SPDX-License-Identifier: Apache-2.0
 *
 * chunk.c - see chunk.h.
 */
#include "recording/chunk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <libdeflate.h>

#include "schemas/recording.h"

#define DEFLATE_LEVEL 1 /* 517 MB/s to 0.162 of the size; 4: 308 MB/s, 0.142 */

struct chunk {
	struct libdeflate_compressor *deflate;
	char *raw, *packed; /* packed: chunk header, then the deflated bytes */
	size_t used, packed_cap;
	uint32_t n_records;
};

struct chunk *chunk_new(void)
{
	struct chunk *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->deflate = libdeflate_alloc_compressor(DEFLATE_LEVEL);
	c->packed_cap = sizeof(struct recording_chunk) + libdeflate_zlib_compress_bound(c->deflate, CHUNK_RAW_MAX);
	c->raw = malloc(CHUNK_RAW_MAX);
	c->packed = malloc(c->packed_cap);
	if (c->deflate && c->raw && c->packed)
		return c;
	chunk_free(c);
	return NULL;
}

void chunk_free(struct chunk *c)
{
	if (!c)
		return;
	libdeflate_free_compressor(c->deflate);
	free(c->raw);
	free(c->packed);
	free(c);
}

bool chunk_has_room(const struct chunk *c, const struct wire_hdr *rec)
{
	return c->used + rec->size <= CHUNK_RAW_MAX;
}

void chunk_put(struct chunk *c, const struct wire_hdr *rec)
{
	memcpy(c->raw + c->used, rec, rec->size);
	c->used += rec->size;
	c->n_records++;
}

size_t chunk_raw_bytes(const struct chunk *c)
{
	return c->used;
}

long chunk_pack(struct chunk *c, const void **ret_bytes)
{
	struct recording_chunk *h = (void *)c->packed;
	size_t size;

	if (!c->used)
		return 0;
	size = libdeflate_zlib_compress(c->deflate, c->raw, c->used, h + 1, c->packed_cap - sizeof(*h));
	if (!size)
		return -ENOMEM;
	*h = (struct recording_chunk){
		.magic = RECORDING_CHUNK_MAGIC,
		.raw_bytes = c->used,
		.packed_bytes = size,
		.n_records = c->n_records,
		.crc32 = libdeflate_crc32(0, h + 1, size),
	};
	c->used = c->n_records = 0;
	*ret_bytes = c->packed;
	return sizeof(*h) + size;
}
