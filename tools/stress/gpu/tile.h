/* SPDX-License-Identifier: Apache-2.0
 *
 * tile.h - two versions of a tile, element by element: where they differ, in which bits, and with what period (wrong
 * addresses and bad lanes come again every so many rows or columns; arXiv 2605.04213). Pure.
 */
#ifndef STRESS_TILE_H
#define STRESS_TILE_H

#include <stdint.h>

#include "tools/stress/fault.h"

/* `rows` elements a column, `columns` of them, of `bytes` each. Fills elements, row, column (of the first, counted from
 * the tile's), bits and periods of the fault. */
void tile_compare(const void *got, const void *want, uint32_t rows, uint32_t columns, uint32_t bytes,
		  struct fault *fault);

#endif
