/* SPDX-License-Identifier: Apache-2.0
 *
 * options.h - what the user asked a test for. Parsed by user/cmd/stress.c, filled by hand by code that calls a test.
 */
#ifndef STRESS_OPTIONS_H
#define STRESS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define STRESS_GPUS_MAX 64

enum stress_exit { STRESS_PASSED = 0, STRESS_FAILED = 1, STRESS_USAGE = 2, STRESS_IMPOSSIBLE = 3 };

/* A fault made on purpose in device memory, to see that it is found: a bit of an element of C (numbers.def), or of a
 * byte of the memory under test. */
enum inject_kind { INJECT_NONE, INJECT_FLIP, INJECT_MEMORY };
struct inject {
	enum inject_kind kind;
	int gpu; /* its CUDA ordinal */
	uint32_t row, column, bit;
	uint64_t at; /* INJECT_MEMORY: a byte of the memory under test */
	bool always; /* in every result, not in one: as a bad multiplier does */
};

struct stress_options {
	uint64_t time_ns;
	uint32_t size;     /* of the matrices: M = N = K */
	uint32_t measures; /* bit i: enum number_id, MEASURE_MEMORY */
	uint64_t gpus;     /* bit i: CUDA ordinal; 0: all */
	double memory_share;
	bool force, json, self_test;
	int self_tests; /* of each kind and GPU */
	uint64_t seed;
	const char *baseline, *save_baseline, *log, *cublaslt;
	bool resume;
	struct inject inject;
};

#define STRESS_DEFAULTS \
	{ \
		.time_ns = 60000000000ull, .size = 8192, .measures = (1u << N_MEASURES) - 1, .memory_share = 0.9, \
		.seed = 1, .self_tests = 3, \
	}

/* "flip:gpu=0,row=5,col=7,bit=0[,always]" or "mem:gpu=0,at=4096,bit=3". 0 or -EINVAL. */
int inject_parse(const char *text, struct inject *inject);
/* "90", "60s", "15m", "24h" -> ns. 0 or -EINVAL. */
int time_parse(const char *text, uint64_t *ns);
/* "0,2-3" -> bits. 0 or -EINVAL. */
int gpus_parse(const char *text, uint64_t *bits);
/* "bf16,memory" -> bits; "all". 0 or -EINVAL. */
int measures_parse(const char *text, uint32_t *bits);

#endif
