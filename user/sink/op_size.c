/* SPDX-License-Identifier: Apache-2.0
 *
 * op_size.c - see op_size.h.
 */
#include "sink/op_size.h"

#include <math.h>
#include <stdbool.h>

uint64_t op_size_bytes(enum op_kind kind, uint64_t count, int dtype, int nranks)
{
	uint64_t bytes = count * (uint64_t)dtype_bytes(dtype);
	bool per_rank = kind == OP_ALLGATHER || kind == OP_REDUCESCATTER || kind == OP_ALLTOALL || kind == OP_GATHER ||
			kind == OP_SCATTER; /* NCCL is given one rank's part */

	return per_rank && nranks > 1 ? bytes * (uint64_t)nranks : bytes;
}

double op_bus_factor(enum op_kind kind, int nranks)
{
	double n = nranks;

	if (nranks < 2)
		return 1;
	switch (kind) {
	case OP_ALLREDUCE: return 2 * (n - 1) / n;
	case OP_ALLGATHER:
	case OP_REDUCESCATTER:
	case OP_ALLTOALL:
	case OP_GATHER:
	case OP_SCATTER: return (n - 1) / n;
	default: return 1;
	}
}

char *put_text(char *to, const char *text)
{
	while ((*to = *text++))
		to++;
	return to;
}

char *put_number(char *to, uint64_t v)
{
	char digits[20];
	int n = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while (v /= 10);
	while (n)
		*to++ = digits[--n];
	*to = '\0';
	return to;
}

/* v / 2^shift to the nearest, of two as near the even one: as printf rounds. */
static uint64_t shifted(uint64_t v, int shift)
{
	uint64_t whole = v >> shift, rest = v - (whole << shift), half = shift ? 1ull << (shift - 1) : 1;

	return whole + (rest > half || (rest == half && whole & 1));
}

char *put_bytes(char *to, uint64_t bytes)
{
	static const char *const units[] = { " B", " KiB", " MiB", " GiB", " TiB" };
	int unit = 0, shift;
	uint64_t tenths;

	while (unit < 4 && bytes >> (10 * (unit + 1)))
		unit++;
	shift = 10 * unit;
	if (bytes >> shift >= 100 || !(bytes & ((1ull << shift) - 1)))
		return put_text(put_number(to, shifted(bytes, shift)), units[unit]);
	tenths = shifted(10 * bytes, shift);
	to = put_number(to, tenths / 10);
	*to++ = '.';
	return put_text(put_number(to, tenths % 10), units[unit]);
}

/* Powers of ten up to 22 are exact in a double, so the last step rounds once: the number that the digits spell. */
double three_digits(double v)
{
	double scale = 1;

	if (!(v > 0 && v < 1e12))
		return v;
	for (; v * scale < 99.95 && scale < 1e15; scale *= 10)
		;
	if (v * scale < 999.5)
		return nearbyint(v * scale) / scale;
	while (v / scale >= 999.5)
		scale *= 10;
	return nearbyint(v / scale) * scale;
}
