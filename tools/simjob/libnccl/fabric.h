/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fabric: how ranks of one communicator meet. It stands for bootstrap network and NVLink at once: one unlinked
 * memory file per communicator, found through the unique id, gone with its last process.
 * Only atomics and futexes lie in it: a rank may be stopped or killed at any instruction and must not take its peers
 * along by a lock that it holds.
 */
#ifndef SIMJOB_FABRIC_H
#define SIMJOB_FABRIC_H

#include "tools/simjob/libcuda/futex.h"

#define FABRIC_MAX_RANKS 1024
#define FABRIC_ADDRESS_BYTES 256

/* Names a fabric; lies at the start of the unique id. The nonce keeps a recycled pid and fd from being believed. */
struct fabric_key {
	uint64_t nonce[2];
	int32_t owner_pid;
	int32_t owner_fd;
};

/* What a participant says about its end of an operation. Operations with unequal signatures never complete. */
struct fabric_post {
	uint64_t ready_ns; /* when its stream reaches the operation */
	uint64_t signature;
	uint64_t value;   /* its data, see mix.h */
	uint64_t address; /* where they are, with SIM_CUDA_COMPUTE: data.c */
	int32_t pid, device;
};

struct fabric_segment;

struct fabric {
	struct fabric_segment *segment;
	size_t size_bytes;
	int nr_ranks;
	int rank;
	_Atomic uint32_t aborted; /* makes every wait return -ECANCELED; see fabric_abort() */
};

/* All return 0 or -errno, and -ECANCELED after fabric_abort(). */

/* Makes the memory file; the calling process keeps it open until every rank has attached. */
int fabric_key_create(struct fabric_key *ret_key);
/* Maps it. -ESTALE: the owner is gone. -EINVAL: the ranks disagree about @nr_ranks. */
int fabric_open(struct fabric *fabric, const struct fabric_key *key, int nr_ranks, int rank);
/* Blocks until all ranks did the same. */
int fabric_attach(struct fabric *fabric, const struct fabric_key *key);
void fabric_close(struct fabric *fabric);
/*
 * How a rank can be reached over the network, in its transport's own terms: put before fabric_attach(), good after it.
 */
void fabric_address_put(struct fabric *fabric, const void *address, size_t size);
const void *fabric_address(const struct fabric *fabric, int rank);
/* Wakes the threads that wait here in this process; call again until they are gone. */
void fabric_abort(struct fabric *fabric);

/*
 * Meets all ranks for collective @index (0, 1, ...; in order). @ret_all: when the last of them is ready, and their data
 * together, in the order of ranks.
 */
int fabric_meet(struct fabric *fabric, uint32_t index, const struct fabric_post *mine, struct fabric_post *ret_all);

/* What a rank said about collective @index that all have met for, until one of them comes to the next but one. */
const struct fabric_post *fabric_post_of(const struct fabric *fabric, int rank, uint32_t index);

/* One end of a transfer between two ranks; @index counts per (peer, direction) and is posted only after @index - 1. */
struct fabric_transfer {
	int peer;
	bool is_send;
	uint32_t index;
	struct fabric_post post;
};

void fabric_transfer_post(struct fabric *fabric, const struct fabric_transfer *mine);
/* @ret_both: when both are ready, and the peer's data. */
int fabric_transfer_wait(struct fabric *fabric, const struct fabric_transfer *mine, struct fabric_post *ret_both);

/* The receiver has what the transfer brought; the sender waits for that. */
void fabric_transfer_take(struct fabric *fabric, const struct fabric_transfer *mine);
int fabric_transfer_taken(struct fabric *fabric, const struct fabric_transfer *mine);

/* Split: every rank learns every rank's (color, key). @ret_colors and @ret_keys have nr_ranks entries. */
int fabric_exchange(struct fabric *fabric, uint32_t index, int color, int key, int *ret_colors, int *ret_keys);
/* The first member of a child communicator hands the child's key to the others; @child_index as in NCCL's childCount.
 */
void fabric_publish(struct fabric *fabric, uint32_t child_index, const struct fabric_key *child);
int fabric_learn(struct fabric *fabric, int leader, uint32_t child_index, struct fabric_key *ret_child);

#endif
