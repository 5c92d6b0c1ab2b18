/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_slices.c - see trace_slices.h. Field numbers as in schemas/perfetto.proto; all other fields are skipped.
 */
#include "tools/bench/trace_slices.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <libdeflate.h>

enum { TRACE_PACKET = 1, PACKET_TRACK_EVENT = 11, PACKET_COMPRESSED = 50, EVENT_TYPE = 9, TYPE_SLICE_BEGIN = 1 };
#define INFLATED_MAX (16u << 20)

struct span {
	const uint8_t *at, *end;
};
struct field {
	uint32_t number;
	uint64_t value;
	struct span bytes;
};

static uint64_t varint(struct span *s)
{
	uint64_t v = 0;

	for (int shift = 0; s->at < s->end && shift < 64; shift += 7) {
		uint8_t b = *s->at++;

		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			break;
	}
	return v;
}

static bool field_next(struct span *s, struct field *f)
{
	uint64_t key, len = 0;

	if (s->at >= s->end)
		return false;
	key = varint(s);
	*f = (struct field){ .number = key >> 3 };
	switch (key & 7) {
	case 0: f->value = varint(s); return true;
	case 1: len = 8; break;
	case 2: len = varint(s); break;
	case 5: len = 4; break;
	default: return false;
	}
	if (len > (uint64_t)(s->end - s->at))
		return false;
	f->bytes = (struct span){ s->at, s->at + len };
	s->at += len;
	return true;
}

static bool begins_slice(struct span event)
{
	struct field f;

	while (field_next(&event, &f))
		if (f.number == EVENT_TYPE)
			return f.value == TYPE_SLICE_BEGIN;
	return false;
}

static uint64_t packets_count(struct span trace, uint8_t *inflated, struct libdeflate_decompressor *inflater)
{
	struct field packet, f;
	uint64_t n = 0;

	while (field_next(&trace, &packet)) {
		while (packet.number == TRACE_PACKET && field_next(&packet.bytes, &f)) {
			size_t size;

			if (f.number == PACKET_TRACK_EVENT)
				n += begins_slice(f.bytes);
			else if (f.number == PACKET_COMPRESSED && inflated &&
				 !libdeflate_zlib_decompress(inflater, f.bytes.at, f.bytes.end - f.bytes.at, inflated,
							     INFLATED_MAX, &size))
				n += packets_count((struct span){ inflated, inflated + size }, NULL, NULL);
		}
	}
	return n;
}

double trace_slices(const char *path)
{
	FILE *f = fopen(path, "rb");
	long size = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
	uint8_t *data = size > 0 ? malloc(size) : NULL, *inflated = malloc(INFLATED_MAX);
	struct libdeflate_decompressor *inflater = libdeflate_alloc_decompressor();
	double n = -1;

	if (data && inflated && inflater && !fseek(f, 0, SEEK_SET) && fread(data, 1, size, f) == (size_t)size)
		n = packets_count((struct span){ data, data + size }, inflated, inflater);
	if (f)
		fclose(f);
	libdeflate_free_decompressor(inflater);
	free(data);
	free(inflated);
	return n;
}
