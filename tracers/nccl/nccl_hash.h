/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_hash.h - the hash NCCL makes of a unique id; the result is ncclComm.commHash, the communicator's key on
 * all ranks. Facts from NCCL's src/include/bitops.h (eatHash, digestHash) and src/init.cc (commHash).
 */
#ifndef RANKTRACE_NCCL_HASH_H
#define RANKTRACE_NCCL_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Hash of `size` bytes as NCCL 2.18 to 2.30 computes commHash from the 128 bytes of the unique id. */
uint64_t nccl_id_hash(const void *bytes, size_t size);

#endif
