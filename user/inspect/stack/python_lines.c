/* SPDX-License-Identifier: Apache-2.0
 *
 * python_lines.c - from an instruction to its line, in the three encodings that CPython has had since 3.9. Pure; the
 * table is the target's memory, so every byte of it may be wrong.
 */
#include "inspect/stack/stack_private.h"

/* 3.9: pairs (address step, signed line step). */
static int line_lnotab(const uint8_t *t, size_t len, int line, int64_t at)
{
	int64_t addr = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		addr += t[i];
		if (addr > at)
			break;
		line += (int8_t)t[i + 1];
	}
	return line;
}

/* 3.10: pairs (length, signed line step or -128: no line) of consecutive ranges. */
static int line_ranges(const uint8_t *t, size_t len, int line, int64_t at)
{
	int64_t end = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		int8_t step = t[i + 1];

		end += t[i];
		if (step != -128)
			line += step;
		if (at < end)
			return step == -128 ? 0 : line;
	}
	return 0;
}

/* Six bits a byte, least first, the seventh says that more follow. */
static uint64_t varint(const uint8_t *t, size_t len, size_t *i)
{
	uint64_t v = 0;
	unsigned shift = 0;
	uint8_t b;

	do {
		if (*i >= len)
			return v;
		b = t[(*i)++];
		if (shift < 36)
			v |= (uint64_t)(b & 63) << shift;
		shift += 6;
	} while (b & 64);
	return v;
}

static int64_t signed_varint(const uint8_t *t, size_t len, size_t *i)
{
	uint64_t v = varint(t, len, i);

	return v & 1 ? -(int64_t)(v >> 1) : (int64_t)(v >> 1);
}

/* 3.11 on: entries that begin with a byte of 1, a 4-bit kind and (code units - 1) in 3 bits. */
static int line_locations(const uint8_t *t, size_t len, int64_t line, int64_t at)
{
	int64_t end = 0;

	for (size_t i = 0; i < len;) {
		unsigned kind = t[i] >> 3 & 15;

		if (!(t[i] & 128))
			return 0;
		end += 2 * ((t[i++] & 7) + 1);
		if (kind == 14 || kind == 13)
			line += signed_varint(t, len, &i);
		else if (kind >= 10 && kind <= 12)
			line += kind - 10;
		if (at < end)
			return kind == 15 || line < 0 || line > INT32_MAX ? 0 : (int)line;
		/* What follows are columns: bytes below 128. */
		while (i < len && !(t[i] & 128))
			i++;
	}
	return 0;
}

int python_line(int version, const uint8_t *table, size_t len, int first_line, int64_t at)
{
	if (first_line < 0 || first_line > 100000000)
		return 0;
	if (at < 0) /* not begun yet */
		return first_line;
	if (version < 0x030a00)
		return line_lnotab(table, len, first_line, at);
	if (version < 0x030b00)
		return line_ranges(table, len, first_line, at);
	return line_locations(table, len, first_line, at);
}
