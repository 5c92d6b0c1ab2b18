/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the processes of a job share beside NCCL: stands for torchrun's TCP store (unique ids) and for its view of the
 * workers (progress). An unlinked memory file that the ranks inherit; it goes with the last of them.
 */
#ifndef SIMJOB_STORE_H
#define SIMJOB_STORE_H

#include "tools/simjob/job/fault.h"
#include "tools/simjob/libcuda/futex.h"
#include "tools/simjob/libnccl/nccl_abi.h"
#include "tools/simjob/job/options.h"

/* The world's, and for each group of the pipeline and of data parallelism. */
#define IDS_PER_GENERATION(NR_RANKS) (1 + 2 * (NR_RANKS))

/* Of the communicators that --extra-ops makes; they lie before those of the injections. */
#define EXTRA_IDS 3

struct store_id {
	_Atomic uint32_t is_set; /* futex */
	ncclUniqueId id;
};

struct store_rank {
	_Atomic uint32_t steps_done;
	_Atomic uint64_t steps_ns;    /* duration of those steps together, without the first */
	_Atomic uint32_t stopped_for; /* 1 + the injection for which it is about to stop itself; 0: none */
	/* It is about to be ended, and started anew at that step - 1 with communicators of that generation; 0: not. */
	_Atomic uint32_t resume_step, resume_generation;
};

/* All zero at first. */
struct store_injection {
	_Atomic uint32_t resource; /* futex: a message between its rank and its resource */
	_Atomic uint32_t fault;    /* a message between the processes of its fault */
};

struct store {
	struct store_rank ranks[MAX_RANKS];
	struct store_injection injections[MAX_INJECTIONS];
	int nr_ids;
	struct store_id ids[];
};

/* @nr_ids: unique ids the job will need. NULL with errno set on failure; @ret_fd is inherited over exec. */
struct store *store_create(int nr_ids, int *ret_fd);
struct store *store_attach(int fd);
void store_set_id(struct store *store, int index, const ncclUniqueId *id);
/* Blocks until it is set. */
void store_get_id(struct store *store, int index, ncclUniqueId *ret_id);

#endif
