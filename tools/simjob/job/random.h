/* SPDX-License-Identifier: Apache-2.0 */
/* A small seeded generator (splitmix64, Steele et al. 2014): the same seed gives the same job. */
#ifndef SIMJOB_RANDOM_H
#define SIMJOB_RANDOM_H

#include <stdint.h>

struct random {
	uint64_t state;
};

static inline uint64_t random_u64(struct random *random)
{
	uint64_t z = random->state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* In [0, 1). */
static inline double random_unit(struct random *random)
{
	return (double)(random_u64(random) >> 11) / (double)(1ULL << 53);
}

/* Mean 0, standard deviation 1, within +-3.5: a sum of twelve uniform draws would do no better here than of four. */
static inline double random_normal(struct random *random)
{
	double sum = random_unit(random) + random_unit(random) + random_unit(random) + random_unit(random);

	return (sum - 2.0) * 1.7320508;
}

#endif
