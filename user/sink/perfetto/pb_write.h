/* SPDX-License-Identifier: Apache-2.0
 *
 * pb_write.h - writer of the protobuf wire format into a growing buffer. Only what a writer needs: varint,
 * fixed64, bytes and messages inside messages. Running out of memory is kept in `failed`, so that callers look once.
 * Inline, since nearly every field number is a constant: its tag then is one, too.
 */
#ifndef RANKTRACE_PB_WRITE_H
#define RANKTRACE_PB_WRITE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct pb { /* all zero: empty */
	uint8_t *data;
	size_t len, cap;
	bool failed; /* memory ran out: the content is not usable until pb_reset() */
};

enum { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_VARINT_MAX = 10 };

bool pb_grow(struct pb *b, size_t more);

static inline bool pb_room(struct pb *b, size_t more)
{
	return b->cap - b->len >= more || pb_grow(b, more);
}

static inline uint8_t *pb_put_varint(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)v | 0x80;
	*p++ = (uint8_t)v;
	return p;
}

static inline uint8_t *pb_put_tag(uint8_t *p, uint32_t field, unsigned int type)
{
	uint32_t tag = field << 3 | type;

	if (tag >= 0x4000)
		return pb_put_varint(p, tag);
	if (tag >= 0x80)
		*p++ = (uint8_t)tag | 0x80;
	*p++ = (uint8_t)(tag >= 0x80 ? tag >> 7 : tag);
	return p;
}

static inline void pb_u64(struct pb *b, uint32_t field, uint64_t v) /* uint32, uint64, bool, enum */
{
	if (pb_room(b, 2 * PB_VARINT_MAX))
		b->len = (size_t)(pb_put_varint(pb_put_tag(b->data + b->len, field, PB_VARINT), v) - b->data);
}

static inline void pb_i64(struct pb *b, uint32_t field, int64_t v) /* int32, int64 (not sint) */
{
	pb_u64(b, field, (uint64_t)v);
}

static inline void pb_fixed64(struct pb *b, uint32_t field, uint64_t v)
{
	uint8_t *p;

	if (!pb_room(b, PB_VARINT_MAX + sizeof(v)))
		return;
	p = pb_put_tag(b->data + b->len, field, PB_FIXED64);
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
	b->len = (size_t)(p + sizeof(v) - b->data);
}

static inline void pb_double(struct pb *b, uint32_t field, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	pb_fixed64(b, field, bits);
}

static inline void pb_bytes(struct pb *b, uint32_t field, const void *data, size_t len)
{
	uint8_t *p;

	if (!pb_room(b, 2 * PB_VARINT_MAX + len))
		return;
	p = pb_put_varint(pb_put_tag(b->data + b->len, field, PB_BYTES), len);
	if (len)
		memcpy(p, data, len);
	b->len = (size_t)(p + len - b->data);
}

static inline void pb_text(struct pb *b, uint32_t field, const char *s)
{
	pb_bytes(b, field, s, strlen(s));
}

/* A message inside: what is written between the two is its content; the length is filled in by pb_close(). It gets one
 * byte for its length, which is enough for nearly all of ours; a longer one is moved up to make room. */
static inline size_t pb_open(struct pb *b, uint32_t field)
{
	if (!pb_room(b, PB_VARINT_MAX + 1))
		return 0;
	b->len = (size_t)(pb_put_tag(b->data + b->len, field, PB_BYTES) - b->data) + 1;
	return b->len;
}

void pb_close_long(struct pb *b, size_t opened);

static inline void pb_close(struct pb *b, size_t opened)
{
	size_t len = b->len - opened;

	if (len < 0x80 && opened)
		b->data[opened - 1] = (uint8_t)len;
	else
		pb_close_long(b, opened);
}

void pb_reset(struct pb *b); /* empty, memory kept */
void pb_free(struct pb *b);

#endif
