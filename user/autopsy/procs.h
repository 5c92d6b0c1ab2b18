/* SPDX-License-Identifier: Apache-2.0
 *
 * procs.h - the processes that an autopsy samples: their communicators, their threads, and the records of each sample.
 *
 * Trouble with one process becomes a flag of it, never a failure of the sample.
 */
#ifndef RANKTRACE_AUTOPSY_PROCS_H
#define RANKTRACE_AUTOPSY_PROCS_H

#include "tracers/nccl/comm_places.h"

struct proc_thread;
struct target_stacks;
struct target_wait;

struct autopsy_proc {
	const struct target_proc *proc; /* owned by the target set: valid until its next scan */
	struct comm_places comms;
	struct nccl_places *found; /* during the search */
	struct nccl_scan_at at;
	bool cut_short; /* time was up before all memory was searched */
	bool frozen;    /* by its cgroup */
	struct proc_thread *threads;
	size_t n_threads;
	struct target_stacks *stacks; /* while they are read: procs_stacks.c */
	struct target_wait *waits;    /* the same: two samples of what its main thread waits for */
	int wait_err;
	uint64_t stacks_ns;
	int stacks_err;
};

#define AUTOPSY_READERS_MAX 8 /* processes sampled at the same time */

struct autopsy_procs {
	struct reader *reader;         /* for work on one process after the other */
	struct reader *const *readers; /* the same and more, for work in parallel */
	size_t n_readers;
	struct layout_cache layouts;
	struct autopsy_proc *all;
	size_t n, cap;
	int n_comms;
	bool scans_emitted;
	uint64_t find_max_ns; /* of the search while some rank shows no communicator; 0: 15 s */
	uint64_t find_until_ns, stacks_until_ns;
};

typedef int procs_emit_fn(void *to, const struct wire_hdr *rec);

int procs_add(struct autopsy_procs *s, const struct target_proc *p); /* 0 or -ENOMEM */
void procs_free(struct autopsy_procs *s);
/* Emits the processes and the names of their threads. Returns all errors of emit(). */
int procs_emit(struct autopsy_procs *s, procs_emit_fn *emit, void *to);
/* Learns the struct layouts and finds the communicators; once, before the first sample. As soon as every rank shows a
 * communicator, the search in the rest of their memory (large mappings) takes `find_ns` at most. */
int procs_comms_find(struct autopsy_procs *s, uint64_t find_ns);
/* Samples all communicators, with one time stamp. */
int procs_sample_comms(struct autopsy_procs *s, procs_emit_fn *emit, void *to);
/* Samples the progress of all network transfers. */
int procs_sample_proxies(struct autopsy_procs *s, procs_emit_fn *emit, void *to);
/* Samples all threads, with evidence for each that stayed blocked since the last sample, and where each main thread
 * waits. */
int procs_sample_threads(struct autopsy_procs *s, procs_emit_fn *emit, void *to);

#endif
