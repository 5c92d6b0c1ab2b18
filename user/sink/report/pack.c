/* SPDX-License-Identifier: Apache-2.0
 *
 * pack.c - see pack.h. Browsers undo both by themselves: atob() and DecompressionStream.
 */
#include "sink/report/pack.h"

#include <stdlib.h>

#include <libdeflate.h>

#define LEVEL 6

static size_t base64_put(char *to, const uint8_t *from, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t len = 0;

	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)from[i] << 16 | (i + 1 < n ? (uint32_t)from[i + 1] << 8 : 0) |
			     (i + 2 < n ? from[i + 2] : 0);

		to[len++] = digits[v >> 18];
		to[len++] = digits[v >> 12 & 63];
		to[len++] = i + 1 < n ? digits[v >> 6 & 63] : '=';
		to[len++] = i + 2 < n ? digits[v & 63] : '=';
	}
	to[len] = '\0';
	return len;
}

char *pack_bytes(const uint8_t *data, size_t n)
{
	struct libdeflate_compressor *c = libdeflate_alloc_compressor(LEVEL);
	size_t bound = libdeflate_zlib_compress_bound(c, n), len;
	uint8_t *deflated = c ? malloc(bound) : NULL;
	char *text = NULL;

	len = deflated ? libdeflate_zlib_compress(c, data, n, deflated, bound) : 0;
	if (len)
		text = malloc((len + 2) / 3 * 4 + 1);
	if (text)
		base64_put(text, deflated, len);
	free(deflated);
	if (c)
		libdeflate_free_compressor(c);
	return text;
}
