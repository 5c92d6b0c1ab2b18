/* SPDX-License-Identifier: Apache-2.0
 *
 * autopsy.h - samples a job from outside, twice or more, and feeds the samples to the pipeline as records: the
 * processes, NCCL's own counters and states, what every thread does.
 *
 * No probe, no ptrace, no signal; no process of the job is stopped.
 */
#ifndef RANKTRACE_AUTOPSY_H
#define RANKTRACE_AUTOPSY_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/pipeline.h"

struct reader;

struct autopsy_cfg {
	const uint32_t *pids; /* these processes and their descendants; none: every job of the host */
	int n_pids;
	const char *job;      /* NULL: any */
	bool raw;             /* for a merge: emit the selected processes only, not the other ranks of their job */
	uint64_t interval_ns; /* between two samples */
	uint64_t timeout_ns;  /* while nothing moves and no rank is behind, sample for that long */
	uint64_t find_ns;     /* time to search for more communicators once every rank shows one */
	uint64_t stacks_ns;   /* time to read stacks between the first two samples; 0: read none */
};

struct autopsy_result {
	int n_procs;         /* processes sampled */
	int n_ranks;         /* of these, ranks and no children of ranks */
	int n_comms;         /* communicators read, counted once per rank */
	int n_denied;        /* processes that the collector must not read */
	int n_no_layout;     /* ranks whose NCCL has no debug information on its structs */
	int n_held;          /* ranks whose memory cannot be read: mmap_lock is held */
	int n_cut;           /* processes whose memory was not searched to the end */
	int n_uncounted;     /* ranks whose NCCL keeps no moving counters */
	bool moved;          /* some counter moved between two samples */
	uint64_t sampled_ns; /* from the first sample to the last */
	uint64_t found_ns;   /* time spent on the search for communicators */
	int n_unread;        /* processes without stacks: no time, or not permitted */
};

/* Samples n processes at the same time with n readers. Borrows all arguments. 0 or -errno: of /proc, of memory, of the
 * reader. */
int autopsy_run(const struct autopsy_cfg *cfg, struct reader *const *readers, size_t n, struct pipeline *p,
		struct autopsy_result *ret);

/* Did some member's counters move between two samples? */
bool autopsy_moved(const struct model *m);

#endif
