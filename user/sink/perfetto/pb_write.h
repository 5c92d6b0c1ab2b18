/* SPDX-License-Identifier: Apache-2.0
 *
 * pb_write.h - writer of the protobuf wire format into a growing buffer. Only what a writer needs: varint,
 * fixed64, bytes and messages inside messages. Running out of memory is kept in `failed`, so that callers look once.
 */
#ifndef RANKTRACE_PB_WRITE_H
#define RANKTRACE_PB_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pb { /* all zero: empty */
	uint8_t *data;
	size_t len, cap;
	bool failed; /* memory ran out: the content is not usable until pb_reset() */
};

void pb_u64(struct pb *b, uint32_t field, uint64_t v); /* uint32, uint64, bool, enum */
void pb_i64(struct pb *b, uint32_t field, int64_t v);  /* int32, int64 (not sint) */
void pb_fixed64(struct pb *b, uint32_t field, uint64_t v);
void pb_double(struct pb *b, uint32_t field, double v);
void pb_bytes(struct pb *b, uint32_t field, const void *data, size_t len);
void pb_text(struct pb *b, uint32_t field, const char *s);
/* A message inside: what is written between the two is its content; the length is filled in by pb_close(). */
size_t pb_open(struct pb *b, uint32_t field);
void pb_close(struct pb *b, size_t opened);
void pb_reset(struct pb *b); /* empty, memory kept */
void pb_free(struct pb *b);

#endif
