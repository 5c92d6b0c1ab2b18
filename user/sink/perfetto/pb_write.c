/* SPDX-License-Identifier: Apache-2.0
 *
 * pb_write.c - see pb_write.h. A message inside a message gets one byte for its length, which is enough for nearly
 * all of ours; a longer one is moved up to make room when it is closed.
 */
#include "sink/perfetto/pb_write.h"

#include <stdlib.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, VARINT_MAX = 10 };

static bool pb_grow(struct pb *b, size_t more)
{
	size_t cap = b->cap ? b->cap : 256;
	uint8_t *grown;

	while (cap < b->len + more)
		cap *= 2;
	grown = b->failed ? NULL : realloc(b->data, cap);
	if (!grown) {
		b->failed = true;
		return false;
	}
	b->data = grown;
	b->cap = cap;
	return true;
}

static inline bool pb_room(struct pb *b, size_t more)
{
	return b->cap - b->len >= more || pb_grow(b, more);
}

static inline uint8_t *put_varint(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)v | 0x80;
	*p++ = (uint8_t)v;
	return p;
}

static inline uint8_t *put_tag(uint8_t *p, uint32_t field, unsigned int type)
{
	return put_varint(p, (uint64_t)field << 3 | type);
}

void pb_u64(struct pb *b, uint32_t field, uint64_t v)
{
	if (pb_room(b, 2 * VARINT_MAX))
		b->len = (size_t)(put_varint(put_tag(b->data + b->len, field, WIRE_VARINT), v) - b->data);
}

void pb_i64(struct pb *b, uint32_t field, int64_t v)
{
	pb_u64(b, field, (uint64_t)v);
}

void pb_fixed64(struct pb *b, uint32_t field, uint64_t v)
{
	uint8_t *p;

	if (!pb_room(b, VARINT_MAX + sizeof(v)))
		return;
	p = put_tag(b->data + b->len, field, WIRE_FIXED64);
	for (size_t i = 0; i < sizeof(v); i++)
		*p++ = (uint8_t)(v >> 8 * i); /* little-endian on every machine */
	b->len = (size_t)(p - b->data);
}

void pb_double(struct pb *b, uint32_t field, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	pb_fixed64(b, field, bits);
}

void pb_bytes(struct pb *b, uint32_t field, const void *data, size_t len)
{
	uint8_t *p;

	if (!pb_room(b, 2 * VARINT_MAX + len))
		return;
	p = put_varint(put_tag(b->data + b->len, field, WIRE_BYTES), len);
	if (len)
		memcpy(p, data, len);
	b->len = (size_t)(p + len - b->data);
}

void pb_text(struct pb *b, uint32_t field, const char *s)
{
	pb_bytes(b, field, s, strlen(s));
}

size_t pb_open(struct pb *b, uint32_t field)
{
	if (!pb_room(b, VARINT_MAX + 1))
		return 0;
	b->len = (size_t)(put_tag(b->data + b->len, field, WIRE_BYTES) - b->data) + 1;
	return b->len;
}

void pb_close(struct pb *b, size_t opened)
{
	uint8_t length[VARINT_MAX];
	size_t len = b->len - opened, n = (size_t)(put_varint(length, len) - length);

	if (!pb_room(b, n) || b->failed)
		return;
	if (n > 1)
		memmove(b->data + opened + n - 1, b->data + opened, len);
	memcpy(b->data + opened - 1, length, n);
	b->len += n - 1;
}

void pb_reset(struct pb *b)
{
	b->len = 0;
	b->failed = false;
}

void pb_free(struct pb *b)
{
	free(b->data);
	*b = (struct pb){ 0 };
}
