// SPDX-License-Identifier: Apache-2.0
/*
 * What the kernels of tools/stress/kernels/stress.ptx do, in C, one function each, parameters in the order of theirs.
 */
#include "tools/simjob/libcuda/compute.h"

#include <string.h>

#define GOLDEN 0x9e3779b97f4a7c15ull

static uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdull;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ull;
	return x ^ (x >> 33);
}

static void *at(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

/* Little endian, as the GPU's memory is. */
static void store(uint64_t to, uint64_t i, uint64_t bytes, uint64_t value)
{
	memcpy((char *)at(to) + i * bytes, &value, bytes);
}

struct operand {
	uint64_t k, bytes, mantissa, span, negate, shift, seed, column_seed;
	int bias;
};

static uint64_t element(const struct operand *o, uint64_t i)
{
	uint64_t r = mix(o->seed + i * GOLDEN), exponent;
	int column;

	if (!o->mantissa)
		return (uint64_t)(int64_t)((int)(uint32_t)(r % 255) - 127);
	column = (int)(mix(o->column_seed + i % o->k) % (2 * o->span + 1)) - (int)o->span;
	exponent = (uint64_t)(int64_t)(o->bias + (o->negate ? -column : column) - (int)((r >> 62) & 1));
	return (r >> 63) << (o->bytes * 8 - 1) |
	       ((exponent << o->mantissa | (r & ((1ull << o->mantissa) - 1))) << o->shift);
}

/* to, count, period, k, bytes, mantissa, bias, span, negate, shift, seed, column_seed */
void stress_fill(const uint64_t *p)
{
	const struct operand o = { p[3], p[4], p[5], p[7], p[8], p[9], p[10], p[11], (int)p[6] };
	uint64_t i;

	for (i = 0; i < p[1]; i++)
		store(p[0], i, o.bytes, element(&o, i >= p[2] ? i - p[2] : i));
}

static uint64_t tile_hash(const uint32_t *tile, uint64_t column_words, uint64_t shift, uint64_t columns)
{
	uint64_t w, sum = 0;

	for (w = 0; w < columns << shift; w++)
		sum += mix(w << 32 | tile[(w >> shift) * column_words + (w & ((1ull << shift) - 1))]);
	return sum;
}

/* c, column_words, tile_shift, tile_columns, out: the grid is the tiles of a square matrix of 32-bit words a column. */
void stress_hash(const uint64_t *p)
{
	uint64_t side = p[1] >> p[2], x, y;
	const uint32_t *c = at(p[0]);
	uint64_t *out = at(p[4]);

	for (y = 0; y < side; y++) {
		for (x = 0; x < side; x++)
			out[y * side + x] += tile_hash(c + y * p[3] * p[1] + (x << p[2]), p[1], p[2], p[3]);
	}
}

static double load_e4m3(uint8_t bits)
{
	int exponent = bits >> 3 & 15, mantissa = bits & 7;
	double size = exponent ? (8 + mantissa) * (double)(1 << exponent) / 1024 : mantissa / 512.0;

	return bits & 128 ? -size : size;
}

static double load(uint64_t x, uint64_t code, uint64_t i)
{
	uint32_t word;
	float f;

	switch (code) {
	case 0: return ((const double *)at(x))[i];
	case 1: return ((const float *)at(x))[i];
	case 2:
		word = (uint32_t)((const uint16_t *)at(x))[i] << 16;
		memcpy(&f, &word, 4);
		return f;
	case 3: return (double)((const _Float16 *)at(x))[i]; /* lint: clang 14 has none */
	case 4: return load_e4m3(((const uint8_t *)at(x))[i]);
	case 5: return ((const int8_t *)at(x))[i];
	default: return ((const int32_t *)at(x))[i];
	}
}

/* x, code, stride_i, stride_j, n_i, n_j, weights, square, out */
void stress_sums(const uint64_t *p)
{
	const double *weights = at(p[6]);
	double *out = at(p[8]);
	uint64_t i, j;

	for (i = 0; i < p[4]; i++) {
		double sum = 0;

		for (j = 0; j < p[5]; j++) {
			double v = load(p[0], p[1], i * p[2] + j * p[3]);

			v = p[7] ? v * v : v;
			sum += weights ? v * weights[j] : v;
		}
		out[i] = sum;
	}
}

/* --- memory; at, n, mode, p, flip, half, select, offset --- */

static uint64_t value(const uint64_t *p, uint64_t i)
{
	uint64_t half = p[5], place = half ? i & (2 * half - 1) : 0;

	switch (p[2]) {
	case 0: return p[3] ^ p[4];
	case 1: return (p[0] + 8 * i) ^ p[4];
	case 2: return 1ull << ((i + p[3]) & 63) ^ p[4];
	case 4: i = i - place + (place < half ? (place + 4) & (half - 1) : place - half);
	}
	return mix(p[3] + i * GOLDEN) ^ p[4];
}

static bool is_skipped(const uint64_t *p, uint64_t i)
{
	return p[6] && (i % 20 == p[7]) != (p[6] == 1);
}

void stress_mem_write(const uint64_t *p)
{
	uint64_t *words = at(p[0]), i;

	for (i = 0; i < p[1]; i++) {
		if (!is_skipped(p, i))
			words[i] = value(p, i);
	}
}

/* ..., invert, errors, room */
void stress_mem_check(const uint64_t *p)
{
	uint64_t *words = at(p[0]), *errors = at(p[9]), i;

	for (i = 0; i < p[1]; i++) {
		uint64_t want = value(p, i), got = words[i];

		if (is_skipped(p, i))
			continue;
		if (p[8])
			words[i] = ~want;
		if (got != want && errors[0]++ < p[10])
			memcpy(errors + 1 + 3 * (errors[0] - 1), (uint64_t[]){ p[0] + 8 * i, want, got }, 24);
	}
}

/* at, n, half */
void stress_mem_move(const uint64_t *p)
{
	uint64_t *words = at(p[0]), half = p[2], c, j;

	for (c = 0; c + 2 * half <= p[1]; c += 2 * half) {
		memcpy(words + c + half, words + c, half * sizeof(*words));
		for (j = 0; j < half; j++)
			words[c + j] = words[c + half + ((j + 4) & (half - 1))];
	}
}
