/* SPDX-License-Identifier: Apache-2.0
 *
 * autopsy.h - looks at a job from outside, twice or more, and feeds what it sees to the pipeline as records: who is
 * there, NCCL's own counters and states, what every thread does. No probe, no ptrace, no signal; nothing of the job is
 * stopped.
 */
#ifndef RANKTRACE_AUTOPSY_H
#define RANKTRACE_AUTOPSY_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/pipeline.h"

struct reader;

struct autopsy_cfg {
	const uint32_t *pids; /* these and their descendants; none: every job of the host */
	int n_pids;
	const char *job;      /* NULL any */
	bool raw;             /* for a merge: of these processes alone, whoever else is there */
	uint64_t interval_ns; /* between two looks */
	uint64_t patience_ns; /* while nothing moves and nobody is behind, look again for that long */
	uint64_t find_ns;     /* looking for more communicators where every rank shows one */
	uint64_t stacks_ns;   /* reading stacks may take that long, between the first two looks; 0: none are read */
};

struct autopsy_result {
	int n_procs;        /* processes looked at */
	int n_ranks;        /* of them not children of others */
	int n_comms;        /* communicators read, one a rank */
	int n_denied;       /* processes that we may not look at */
	int n_no_layout;    /* ranks whose NCCL says nothing of its own layout */
	int n_held;         /* ranks whose memory cannot be read: mmap_lock is held */
	int n_cut;          /* processes whose memory was not looked through to the end */
	int n_uncounted;    /* ranks whose NCCL keeps no counters that move */
	bool moved;         /* some counter did between two looks */
	uint64_t looked_ns; /* from the first look to the last */
	uint64_t found_ns;  /* time spent looking for communicators */
	int n_unread;       /* processes whose stacks were not read: no time, or no leave */
};

/* With n readers it looks at so many processes at once. 0 or -errno: of /proc, of memory, of the reader. All are
 * borrowed. */
int autopsy_run(const struct autopsy_cfg *cfg, struct reader *const *readers, size_t n, struct pipeline *p,
		struct autopsy_result *ret);

/* Some member's counters moved between two looks. */
bool autopsy_moved(const struct model *m);

#endif
