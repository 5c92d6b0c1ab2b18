/* SPDX-License-Identifier: Apache-2.0
 *
 * tile.c - see tile.h.
 */
#include "tools/stress/gpu/tile.h"

#include <string.h>

#define PERIOD_ELEMENTS_MIN 3 /* any two have a distance; a third one at a multiple of it is a period */

static uint64_t element(const void *of, uint64_t i, uint32_t bytes)
{
	uint64_t value = 0;

	memcpy(&value, (const char *)of + i * bytes, bytes);
	return value;
}

static uint32_t gcd(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

void tile_compare(const void *got, const void *want, uint32_t rows, uint32_t columns, uint32_t bytes,
		  struct fault *fault)
{
	uint32_t row_step = 0, column_step = 0;

	fault->elements = 0;
	fault->bits = 0;
	for (uint32_t i = 0; i < rows * columns; i++) {
		uint64_t differ = element(got, i, bytes) ^ element(want, i, bytes);
		uint32_t row = i % rows, column = i / rows;

		if (!differ)
			continue;
		fault->bits |= differ;
		if (!fault->elements++) {
			fault->row = row;
			fault->column = column;
		}
		row_step = gcd(row_step, row > fault->row ? row - fault->row : fault->row - row);
		column_step = gcd(column_step, column - fault->column);
	}
	fault->row_period = fault->elements >= PERIOD_ELEMENTS_MIN && row_step > 1 ? row_step : 0;
	fault->column_period = fault->elements >= PERIOD_ELEMENTS_MIN && column_step > 1 ? column_step : 0;
}
