/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.h - the memory test: most of what is free is filled with patterns, on the device, and read back.
 *
 * A word's value is a function of its place; a check computes it anew, so nothing is compared with a copy. A pattern is
 * a list of steps: write, check, check and write the complement behind, move blocks, pause.
 */
#ifndef STRESS_GPU_MEMORY_H
#define STRESS_GPU_MEMORY_H

#include "tools/stress/run.h"

#define MEMORY_PIECE (1ull << 30)
#define MEMORY_PIECES_MAX 512
#define MEMORY_ERRORS 16      /* kept of one step */
#define MOVE_HALF (64u << 10) /* words: blocks of a MiB */

/* What value() of the kernels makes of a place. */
enum memory_mode { MODE_CONSTANT, MODE_ADDRESS, MODE_WALKING, MODE_RANDOM, MODE_MOVED };
enum memory_select { SELECT_ALL, SELECT_ONLY, SELECT_OTHERS };

struct memory_value {
	uint32_t mode, select, offset, half;
	uint64_t p, flip;
};

struct memory {
	struct stress_gpu *gpu;
	cuda_ptr pieces[MEMORY_PIECES_MAX], errors;
	uint64_t bytes[MEMORY_PIECES_MAX], total;
	int n;
	cuda_handle begin, end;
	const char *pattern; /* that is on */
	bool injected, stopped;
	struct series rates; /* GB/s of checks */
};

/* One GPU's part of a window. */
void memory_window(struct stress_gpu *gpu);

/* Steps; 0, or -EIO: the device is lost. */
int memory_write(struct memory *m, struct memory_value value);
int memory_check(struct memory *m, struct memory_value value, bool invert);
int memory_move(struct memory *m);
int memory_pause(struct memory *m, uint64_t ns);

/* memtests.c: the patterns from the first to the last, again and again until the window's end. */
int memtests_run(struct memory *m);

#endif
