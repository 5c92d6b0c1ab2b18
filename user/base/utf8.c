/* SPDX-License-Identifier: Apache-2.0
 *
 * utf8.c - see utf8.h.
 */
#include "base/utf8.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t utf8_len(const char *s)
{
	const uint8_t *p = (const uint8_t *)s;
	size_t n = *p < 0x80 ? 1 : *p < 0xc2 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : *p < 0xf5 ? 4 : 0;

	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if (n == 3 && ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0)))
		return 0;
	if (n == 4 && ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] >= 0x90)))
		return 0;
	return n;
}

/* Control characters that JSON does not escape. */
static bool is_raw_control(const char *s)
{
	return (unsigned char)*s >= 0x7f && utf8_is_control(s);
}

bool utf8_valid(const char *s)
{
	while (*s) {
		size_t n = (unsigned char)*s < 0x7f ? 1 : utf8_len(s);

		if (!n || is_raw_control(s))
			return false;
		s += n;
	}
	return true;
}

size_t utf8_copy(char *out, size_t size, const char *s)
{
	size_t used = 0;

	while (*s) {
		size_t n = utf8_len(s);
		bool fits = n && !is_raw_control(s);
		size_t put = fits ? n : 3;

		if (used + put >= size)
			break;
		memcpy(out + used, fits ? s : "\xef\xbf\xbd", put);
		used += put;
		s += n ? n : 1;
	}
	if (size)
		out[used] = '\0';
	return used;
}

char *utf8_dup(const char *s)
{
	size_t size = 3 * strlen(s) + 1;
	char *out = malloc(size);

	if (out)
		utf8_copy(out, size, s);
	return out;
}

bool utf8_is_control(const char *s)
{
	unsigned char c = (unsigned char)*s;

	return c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)s[1] >= 0x80 && (unsigned char)s[1] < 0xa0);
}

void utf8_tame(char *text, const char *keep)
{
	char *to = text;

	for (const char *s = text; *s;) {
		size_t n = utf8_len(s);

		if (n && (!utf8_is_control(s) || strchr(keep, *s))) {
			memmove(to, s, n);
			to += n;
		} else {
			*to++ = '?';
		}
		s += n ? n : 1;
	}
	*to = '\0';
}
