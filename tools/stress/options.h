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
enum inject_kind { INJECT_NONE, INJECT_FLIP, INJECT_MEMORY, INJECT_NO_PEER };
struct inject {
	enum inject_kind kind;
	int gpu; /* its CUDA ordinal */
	int to;  /* INJECT_NO_PEER: this one's memory cannot be accessed from `gpu` */
	uint32_t row, column, bit;
	uint64_t at; /* INJECT_MEMORY: a byte of the memory under test */
	bool always; /* in every result, not in one: as a bad multiplier does */
};

/* Which ranks share a communicator: all, those with one local number (a rail of the network), those of one host. */
enum split { SPLIT_NONE, SPLIT_RAILS, SPLIT_INSIDE };

/* Of `stress nccl`. Bits of collectives and types: the lines of nccl/collectives.def and nccl/types.def. */
struct nccl_options {
	uint32_t collectives, types;
	uint64_t bytes_min, bytes_max; /* from, to, times factor */
	uint32_t factor, iterations, skip;
	bool out_of_place, in_place, bisect;
	enum split split;
	uint64_t limit_ns;   /* after which an operation hangs, and a peer is missing */
	const char *host;    /* "ADDRESS[:PORT]" of rank 0, NULL: the launcher says */
	const char *library; /* NULL: searched */
};

/* Of `stress rdma`. Bits: enum rdma_shape, rdma_operation, rdma_measure of verbs/rdma.h. */
struct rdma_options {
	uint32_t shapes, operations, measures;
	const char *devices; /* "mlx5_0,mlx5_1:1", "^mlx5_2"; NULL: all */
	const char *hosts;   /* "node1,node2", NULL: a launcher says, or this host alone */
	const char *library; /* NULL: searched */
	int gid_index;       /* -1: chosen */
	bool no_gpus;
	uint32_t bytes, iterations; /* of a message; of a latency */
	uint64_t time_ns, limit_ns; /* of a bandwidth or rate; without progress, or until a host is here */
};

/* Of `stress all`. */
struct all_options {
	bool quick, quiet;
	bool timed, sized;        /* --time, --bytes were given: they hold for its tests */
	const char *html, *lines; /* files to write; NULL: none */
};

struct stress_options {
	uint64_t time_ns;
	uint32_t size;      /* of the matrices: M = N = K */
	uint32_t measures;  /* bit i: enum number_id, MEASURE_MEMORY */
	uint64_t gpus;      /* bit i: CUDA ordinal; 0: all */
	const char *gpu;    /* UUID or PCI address of the only one; NULL: as `gpus` says */
	bool gpu_was_there; /* a finding names it, not a user: that it is missing is a fault */
	double memory_share;
	bool force, json, self_test;
	int self_tests; /* of each kind and GPU */
	uint64_t seed;
	const char *baseline, *save_baseline, *log, *cublaslt;
	bool resume;
	struct inject inject;
	uint32_t member;    /* 1 + number on its host of a process that tests one GPU; 0: it tests all of `gpus` */
	uint64_t p2p_bytes; /* of a copy of `stress p2p`; 0: its own */
	uint32_t again;     /* times at most that what is below its bound is measured again */
	uint64_t again_ns;  /* for which, of a test */
	struct nccl_options nccl;
	struct rdma_options rdma;
	struct all_options all;
};

#define STRESS_DEFAULTS \
	{ \
		.time_ns = 60000000000ull, .size = 8192, .measures = (1u << N_MEASURES) - 1, .memory_share = 0.9, \
		.seed = 1, .self_tests = 3, .again = 4, .again_ns = 30000000000ull, \
		.nccl = { .collectives = ~0u, \
			  .types = 0, \
			  .bytes_min = 1 << 20, \
			  .bytes_max = 1 << 30, \
			  .factor = 4, \
			  .iterations = 20, \
			  .skip = 5, \
			  .out_of_place = true, \
			  .in_place = true, \
			  .limit_ns = 60000000000ull }, \
		.rdma = { .shapes = 3, \
			  .operations = ~0u, \
			  .measures = ~0u, \
			  .gid_index = -1, \
			  .bytes = 65536, \
			  .iterations = 1000, \
			  .time_ns = 250000000, \
			  .limit_ns = 20000000000ull }, \
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
