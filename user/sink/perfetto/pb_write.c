/* SPDX-License-Identifier: Apache-2.0
 *
 * pb_write.c - see pb_write.h.
 */
#include "sink/perfetto/pb_write.h"

#include <stdlib.h>

bool pb_grow(struct pb *b, size_t more)
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

void pb_close_long(struct pb *b, size_t opened)
{
	uint8_t length[PB_VARINT_MAX];
	size_t len = b->len - opened, n = (size_t)(pb_put_varint(length, len) - length);

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
