/* SPDX-License-Identifier: Apache-2.0
 *
 * numbers.h - the number types of the GEMM burn, and what is measured: a rate for each of them, and memory.
 *
 * Operands. Sign and mantissa of every element are random. Column k of A has the exponent s(k) or s(k) - 1, row k of B
 * has -s(k) or -s(k) - 1, s random over almost all of the type's exponents (`span`, either way; of fp64 half of them:
 * squares of the checksums stay finite). So operands have the whole range of exponents, yet each product lies in
 * (1/4, 4) in size, every product counts in its sum, and a sum of k of them is less than 4 k: finite in fp16 too for k
 * up to 16,000. With exponents drawn freely a few products would drown all others, and what went wrong in those would
 * not show. int8: all of -127 to 127.
 */
#ifndef STRESS_NUMBERS_H
#define STRESS_NUMBERS_H

enum number_id {
#define NUMBER(id, ...) NUMBER_##id,
#include "tools/stress/numbers.def"
#undef NUMBER
	N_NUMBERS,
	MEASURE_MEMORY = N_NUMBERS, /* GB/s that a check of a pattern reads */
	N_MEASURES
};

struct number {
	const char *name, *unit;
	int cc_min, type, c_type, compute, scale;
	unsigned int bytes, c_bytes, mantissa;
	int bias;
	unsigned int span, shift, code, c_code;
	int sum_error_log2, c_error_log2;
};

extern const struct number numbers[N_NUMBERS];

const char *measure_name(int measure); /* "bf16", "memory" */
const char *measure_unit(int measure);
int measure_find(const char *name); /* -1: none has that name */

#endif
