/* SPDX-License-Identifier: Apache-2.0
 *
 * parallel.h - what a communicator is for: tensor, data or pipeline parallelism, by its shape (size, which ranks) and
 * its use (which operations, Send and Recv with whom), or as its process group is called. By shape said only where
 * nothing else looks the same: parallel.c.
 */
#ifndef RANKTRACE_PARALLEL_H
#define RANKTRACE_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

enum parallelism { PARALLEL_UNKNOWN, PARALLEL_TENSOR, PARALLEL_DATA, PARALLEL_PIPELINE, PARALLEL_EXPERT };

struct comm_shape {
	int n;         /* ranks */
	int stride;    /* from each to the next, as global ranks; 0: not the same, or fewer than two of them are seen */
	bool one_host; /* all are seen, on one */
	uint64_t all_reduces, reduce_scatters, collectives; /* calls; collectives: all that NCCL counts */
	uint64_t transfers, others;                         /* Send and Recv; AlltoAll and the like */
	bool both_ways; /* Sends go to neighbours only, and some rank sends to both of its */
};

/* Of shape `which` among the `n` that one rank is in, of a job of `world` ranks. Pure. */
enum parallelism parallelism_of(const struct comm_shape *shapes, int n, int which, int world);
/* What a process group is for, by the name that Megatron or a DeviceMesh gives it; unknown: it has another one. */
enum parallelism parallelism_of_group(const char *name);
const char *parallelism_name(enum parallelism p); /* "tp"; NULL: unknown */

#endif
