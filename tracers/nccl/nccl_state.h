/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_state.h - one sample of communicators in another process' memory: identity, NCCL's own counters, its states.
 * Each is checked as it is read; what does not look like a communicator any more is no sample.
 */
#ifndef RANKTRACE_TARGET_NCCL_STATE_H
#define RANKTRACE_TARGET_NCCL_STATE_H

#include "tracers/nccl/nccl_scan.h"

struct nccl_state {
	bool valid; /* the rest means something */
	bool read;  /* its memory is there: if not valid, it is no communicator any more */
	bool has_async_result, has_init_state, has_abort;
	uint64_t hash;                   /* commHash */
	int rank, nranks, device;        /* device -1 not known */
	uint32_t n_counters;             /* 0: this version keeps none that move */
	uint64_t counters[NCCL_SEQ_MAX]; /* collectives launched, by NCCL function: OP_BROADCAST .. OP_ALLREDUCE */
	int async_result, init_state;    /* ncclResult_t */
	uint32_t abort;                  /* the flag at abort_addr */
	uint64_t abort_addr;             /* 0 none */
	uint64_t launches;               /* of any kind; 0 also where not known */
	unsigned int n_missed;           /* of a known one: samples in a row that did not find it */
};

/* Both magic numbers, 0 <= rank < size, a hash: what every reader of a communicator asks for first. */
bool nccl_identity_sane(uint64_t magic, uint64_t end_magic, uint64_t hash, int rank, int nranks);
/* Reads n communicators, up to 32 in one process_vm_readv. `before` and ret have n entries; before: as they were read
 * last, or NULL: where their abort flags lay spares a second read. 0 or an error of reader_memory(). */
int nccl_states_read(struct reader *r, pid_t pid, const struct nccl_layout *layouts, const struct nccl_place *places,
		     size_t n, unsigned deadline_ms, const struct nccl_state *before, struct nccl_state *ret);

/* All communicators of one process have launched something, and none has counted anything: NCCL 2.23 to 2.25 have the
 * counters, and move them only while a profiler plugin is loaded. */
bool nccl_counters_stand(const struct nccl_state *s, size_t n);

#endif
