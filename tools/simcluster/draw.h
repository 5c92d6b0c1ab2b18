/* SPDX-License-Identifier: Apache-2.0
 *
 * draw.h - chance with a seed: the same seed, the same run, on any machine.
 */
#ifndef RANKTRACE_SIMCLUSTER_DRAW_H
#define RANKTRACE_SIMCLUSTER_DRAW_H

#include <math.h>
#include <stdint.h>

struct draw {
	uint64_t state;
};

/* SplitMix64 (Steele, Lea, Flood 2014). */
static inline uint64_t draw_bits(struct draw *d)
{
	uint64_t z = d->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static inline double draw_unit(struct draw *d) /* [0, 1) */
{
	return (double)(draw_bits(d) >> 11) * 0x1p-53;
}

static inline double draw_between(struct draw *d, double low, double high)
{
	return low + (high - low) * draw_unit(d);
}

static inline int draw_below(struct draw *d, int n)
{
	return (int)(draw_unit(d) * n);
}

/* Normal, mean 0 and deviation 1, by four uniforms: tails end at 3.4, which nothing here depends on. */
static inline double draw_normal(struct draw *d)
{
	uint64_t bits = draw_bits(d);
	double sum = 0;

	for (int i = 0; i < 4; i++)
		sum += (double)(bits >> (16 * i) & 0xffff) * 0x1p-16;
	return (sum - 2) * 1.7320508075688772;
}

static inline double draw_exponential(struct draw *d, double mean)
{
	return -mean * log(1 - draw_unit(d));
}

#endif
