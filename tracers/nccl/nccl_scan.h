/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_scan.h - finds the communicators (struct ncclComm) of a live process from outside: no probe, no stop. Looks for
 * NCCL's magic number in private writable memory, in pages that are present only: others would be faulted in. Works in
 * a parser, in slices with a deadline each; only addresses come back.
 */
#ifndef RANKTRACE_TARGET_NCCL_SCAN_H
#define RANKTRACE_TARGET_NCCL_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <sys/types.h>

#include "tracers/nccl/nccl_layout.h"

#define NCCL_LAYOUTS_MAX 8  /* different builds of NCCL in one process */
#define NCCL_PLACES_MAX 256 /* communicators of one process */

struct reader;

/* layout: index into those asked with; proxy_thread: its progress thread, once found: another scan need not
 * search; 0 not yet. */
struct nccl_place {
	uint64_t addr;
	uint32_t layout, proxy_thread;
};

struct nccl_places {
	size_t n;
	uint64_t pages; /* present pages read */
	bool cut; /* more places, more magic numbers or more address space than are sampled: there may be others */
	struct nccl_place at[NCCL_PLACES_MAX];
};

struct nccl_scan_at {
	uint64_t addr, space;
	bool far;
}; /* zeroed: the beginning; far: at the large mappings, which come last */

/* One piece: up to `pages_max` present pages more. What is found is added to *ret, which begins zeroed. 1: there is
 * more; 0: that was the end; an error of parser_run_memory() (-ETIMEDOUT: the mmap_lock is held), -ESRCH, -EACCES,
 * after which it may be asked again. */
int nccl_scan_step(struct reader *r, pid_t pid, const struct nccl_layout *layouts, size_t n_layouts, uint32_t pages_max,
		   struct nccl_scan_at *at, struct nccl_places *ret);
/* Piece after piece, until the small mappings are through, or the large ones, or it is until_ns on the monotonic clock
 * (0: never). As above. */
int nccl_scan(struct reader *r, pid_t pid, const struct nccl_layout *layouts, size_t n_layouts, uint64_t until_ns,
	      struct nccl_scan_at *at, struct nccl_places *ret);

#endif
