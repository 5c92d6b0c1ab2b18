/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_layout.h - where the members of struct ncclComm lie in one library, learned from that file's own DWARF. No table
 * of versions: without DWARF nothing is known, and nothing is read. What is read by it is checked at each use.
 */
#ifndef RANKTRACE_TARGET_NCCL_LAYOUT_H
#define RANKTRACE_TARGET_NCCL_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "tracers/nccl/nccl_proxy.h"

#define NCCL_MAGIC 0x0280028002800280ull /* ncclComm.startMagic, endMagic: comm.h, all versions */
#define NCCL_SEQ_MAX 8                   /* of ncclComm.seqNumber[]; 5 in 2.26 to 2.30 */
#define NCCL_NOWHERE UINT32_MAX

struct reader;

struct nccl_layout { /* bytes from the start of the struct */
	uint32_t magic, hash, rank, nranks;
	uint32_t end_magic;                /* that of magic where there is none */
	uint32_t device;                   /* from here on NCCL_NOWHERE: this version has none */
	uint32_t counters, n_counters;     /* u64 each; n_counters 0: none that move */
	uint32_t async_result, init_state; /* ncclResult_t */
	uint32_t abort_flag;               /* uint32_t *: host memory, another thread's word */
	uint32_t launches; /* opCount, u64: kernels launched, for Send and Recv too; 0: this version has none */
	uint32_t size;
	struct nccl_proxy_layout proxy; /* how far transfers are: fetched by those who read that, zero else */
};

/* Of the library behind `fd` (borrowed), in the helper process. 0; -ENOENT: no such struct, or it lacks what identifies
 * a communicator; or an error of struct_layout_fetch() (-ENODATA: no DWARF). */
int nccl_layout_fetch(struct reader *r, int fd, struct nccl_layout *ret);

#endif
