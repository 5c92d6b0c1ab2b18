/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_rounds.h - what the GPUs of a job's ranks on one host did, in rounds: one sample of each, taken together. All
 * ranks make equally many steps, so a value over the median of the others' does not change with the pace of the steps.
 */
#ifndef RANKTRACE_GPU_ROUNDS_H
#define RANKTRACE_GPU_ROUNDS_H

#include "detect/detect.h"

#define GPU_ROUND_RANKS_MAX 16 /* of one job on one host, with a GPU each: no host has more */
#define GPU_ROUNDS_KEPT 64     /* half a minute at two a second */

enum gpu_round_value {
	ROUND_TENSOR, /* percent */
	ROUND_SM,
	ROUND_POWER, /* watts; 0 not known */
	ROUND_CLOCK, /* of the SMs, MHz; 0 not known */
	ROUND_OWN_VALUES,
	ROUND_PEERS_TENSOR = ROUND_OWN_VALUES, /* medians of the others' */
	ROUND_PEERS_SM,
	ROUND_PEERS_POWER,
	ROUND_PEERS_CLOCK,
	ROUND_TENSOR_QUOTIENT, /* own over the others' median */
	ROUND_SM_QUOTIENT,
	ROUND_POWER_QUOTIENT,
	ROUND_CLOCK_QUOTIENT,
	ROUND_VALUES
};

struct gpu_round {
	uint64_t ts_ns;
	float of[ROUND_VALUES][GPU_ROUND_RANKS_MAX]; /* by rank, in the order of procs */
};

struct gpu_rounds {
	int n; /* ranks */
	uint64_t procs[GPU_ROUND_RANKS_MAX];
	struct gpu_round rounds[GPU_ROUNDS_KEPT]; /* number i at i % GPU_ROUNDS_KEPT */
	uint64_t n_rounds, last_ns;
};

/* Other ranks than before: begins anew, and returns true. */
bool gpu_rounds_ranks(struct gpu_rounds *g, const uint64_t *procs, int n);
/* Takes the newest sample of every rank's GPU, if they are one round, a new one, and all of them train. */
bool gpu_rounds_take(struct gpu_rounds *g, const struct gpu *const *gpus);
uint64_t gpu_rounds_kept(const struct gpu_rounds *g);
const struct gpu_round *gpu_round_at(const struct gpu_rounds *g, uint64_t i); /* i-th newest of those kept */
/* Of the rounds [from, to), 0 the newest, of rank `r` in the order of procs: the mean, 0 of none; the standard
 * deviation, infinite of fewer than two. */
double gpu_rounds_mean(const struct gpu_rounds *g, uint64_t from, uint64_t to, enum gpu_round_value v, int r);
double gpu_rounds_deviation(const struct gpu_rounds *g, uint64_t from, uint64_t to, enum gpu_round_value v, int r);

#endif
