/* SPDX-License-Identifier: Apache-2.0
 *
 * larger.h - the larger and the smaller of two; of doubles fmax() and fmin() are.
 */
#ifndef RANKTRACE_LARGER_H
#define RANKTRACE_LARGER_H

#include <stdint.h>

static inline uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}
static inline uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

#endif
