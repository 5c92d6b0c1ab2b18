// SPDX-License-Identifier: Apache-2.0
/*
 * The kernels of tools/stress/kernels/stress.ptx that fill and check the operands of collectives and copies, in C.
 */
#include "tools/simjob/libcuda/compute.h"

#include <string.h>
#include <unistd.h>

#define GOLDEN 0x9e3779b97f4a7c15ull
#define RANK_STEP 0xd1342543de82ef95ull

struct part {
	uint64_t seed, most, every, is_signed, bytes, mantissa, bias;
};

static uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdull;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ull;
	return x ^ (x >> 33);
}

static uint64_t draw(const struct part *p, uint64_t i, uint64_t rank)
{
	return mix(p->seed + i * GOLDEN + rank * RANK_STEP);
}

static int64_t share(const struct part *p, uint64_t i, uint64_t rank)
{
	uint64_t h = draw(p, i, rank) >> 32;

	if (p->every > 1 && (rank + i) % p->every)
		return 0;
	return p->is_signed ? (int64_t)(h % (2 * p->most + 1)) - (int64_t)p->most : (int64_t)(h % (p->most + 1));
}

static uint64_t encode(const struct part *p, int64_t v)
{
	uint32_t bits;
	uint64_t mantissa;
	float f = v;

	if (!p->mantissa || !v)
		return v;
	memcpy(&bits, &f, sizeof(bits));
	mantissa = bits & 0x7fffff;
	mantissa = p->mantissa >= 23 ? mantissa << (p->mantissa - 23) : mantissa >> (23 - p->mantissa);
	return mantissa | ((bits >> 23 & 255) - 127 + p->bias) << p->mantissa |
	       (uint64_t)(bits >> 31) << (8 * p->bytes - 1);
}

static uint64_t wanted(const struct part *p, uint64_t i, uint64_t rank, uint64_t n)
{
	uint64_t mask = p->bytes < 8 ? (1ull << (8 * p->bytes)) - 1 : ~0ull, r;
	int64_t sum = 0;

	if (!p->most)
		return draw(p, i, rank) & mask;
	for (r = rank; r < rank + n; r++)
		sum += share(p, i, r);
	return encode(p, sum) & mask;
}

/* to, count, base, seed, rank, most, every, is_signed, bytes, mantissa, bias */
void stress_part_fill(const uint64_t *p)
{
	const struct part part = { p[3], p[5], p[6], p[7], p[8], p[9], p[10] };
	char *to = (char *)(uintptr_t)p[0];
	uint64_t i;

	for (i = 0; i < p[1]; i++) {
		uint64_t value = wanted(&part, p[2] + i, p[4], 1);

		memcpy(to + i * part.bytes, &value, part.bytes);
	}
}

/* at, count, segment, base, seed, rank, n, most, every, is_signed, bytes, mantissa, bias, errors, room */
void stress_part_check(const uint64_t *p)
{
	const struct part part = { p[4], p[7], p[8], p[9], p[10], p[11], p[12] };
	const char *at = (const char *)(uintptr_t)p[0];
	uint64_t *errors = (uint64_t *)(uintptr_t)p[13], i;

	for (i = 0; i < p[1]; i++) {
		uint64_t want = wanted(&part, p[3] + i % p[2], p[5] + i / p[2], p[6]), got = 0;

		memcpy(&got, at + i * part.bytes, part.bytes);
		if (got != want && errors[0]++ < p[14])
			memcpy(errors + 1 + 3 * (errors[0] - 1), (uint64_t[]){ i, want, got }, 24);
	}
}

/* flag, most_ns */
void stress_spin(const uint64_t *p)
{
	const volatile uint32_t *flag = (const uint32_t *)(uintptr_t)p[0];
	uint64_t end_ns = clock_now_ns() + p[1];

	while (!*flag && clock_now_ns() < end_ns)
		usleep(20);
}

/* to, from, count of 16 bytes */
void stress_copy(const uint64_t *p)
{
	memcpy((void *)(uintptr_t)p[0], (const void *)(uintptr_t)p[1], 16 * p[2]);
}

/* at, hops, out */
void stress_chase(const uint64_t *p)
{
	uint64_t at = p[0], i;

	for (i = 0; i < p[1]; i++)
		at = *(const uint64_t *)(uintptr_t)at;
	*(uint64_t *)(uintptr_t)p[2] = at;
}
