/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_abi.h - the part of NCCL's interface that the tests call, declared anew from NVIDIA's public NCCL API
 * reference: what is required is as it was in NCCL 2.7.
 */
#ifndef STRESS_NCCL_ABI_H
#define STRESS_NCCL_ABI_H

#include <stddef.h>

enum { NCCL_SUCCESS = 0, NCCL_SYSTEM_ERROR = 2, NCCL_INTERNAL_ERROR = 3, NCCL_REMOTE_ERROR = 6 };
enum { NCCL_SUM = 0 };

struct nccl_id { /* passed by value */
	char internal[128];
};

/* X(field, symbol, required, type, arguments) */
/* clang-format off */
#define NCCL_FUNCTIONS(X) \
	X(version, "ncclGetVersion", true, int, (int *version)) \
	X(id_make, "ncclGetUniqueId", true, int, (struct nccl_id *id)) \
	X(init, "ncclCommInitRank", true, int, (void **comm, int n, struct nccl_id id, int rank)) \
	X(async_error, "ncclCommGetAsyncError", true, int, (void *comm, int *error)) \
	X(destroy, "ncclCommDestroy", true, int, (void *comm)) \
	X(all_reduce, "ncclAllReduce", true, int, \
	  (const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream)) \
	X(all_gather, "ncclAllGather", true, int, \
	  (const void *send, void *recv, size_t count, int type, void *comm, void *stream)) \
	X(reduce_scatter, "ncclReduceScatter", true, int, \
	  (const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream)) \
	X(broadcast, "ncclBroadcast", true, int, \
	  (const void *send, void *recv, size_t count, int type, int root, void *comm, void *stream)) \
	X(reduce, "ncclReduce", true, int, \
	  (const void *send, void *recv, size_t count, int type, int op, int root, void *comm, void *stream)) \
	X(send, "ncclSend", true, int, (const void *send, size_t count, int type, int peer, void *comm, void *stream)) \
	X(recv, "ncclRecv", true, int, (void *recv, size_t count, int type, int peer, void *comm, void *stream)) \
	/* since 2.28 */ \
	X(all_to_all, "ncclAlltoAll", false, int, \
	  (const void *send, void *recv, size_t count, int type, void *comm, void *stream)) \
	X(group_start, "ncclGroupStart", true, int, (void)) \
	X(group_end, "ncclGroupEnd", true, int, (void)) \
	X(error_text, "ncclGetErrorString", true, const char *, (int error)) \
	X(last_error, "ncclGetLastError", false, const char *, (void *comm))
/* clang-format on */

struct nccl {
#define X(field, symbol, required, type, args) type(*field) args;
	NCCL_FUNCTIONS(X)
#undef X
};

#endif
