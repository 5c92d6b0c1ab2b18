// SPDX-License-Identifier: Apache-2.0
/*
 * With SIM_CUDA_COMPUTE=1 buffers have contents (libcuda/compute.h), and operations do with them what NCCL's do: each
 * rank reads its peers' buffers from their processes, computes, and writes its own when all have read. Faults, by
 * device, from the environment:
 *     SIM_NCCL_WRONG=1:own:5     element 5 of what a reduction leaves on device 1 is wrong;
 *                   =1:reduce:5  ... on all ranks of a communicator that device 1 is in;
 *                   =1:forward:5 ... on the rank behind that of device 1;
 *                   =1:own:5:7   ... in every seventh operation only
 *     SIM_NCCL_HANG=1:20         device 1 does not come to its operations from the 20th on
 *     SIM_NCCL_SLOW=1:30         what device 1 takes part in takes 30 % longer
 * Each of them may be a list with commas.
 */
#include "tools/simjob/libcuda/slow_while.h"
#include "tools/simjob/libnccl/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

bool data_is_on(void)
{
	static int on = -1;

	if (on < 0) {
		const char *setting = getenv("SIM_CUDA_COMPUTE");

		on = setting && !strcmp(setting, "1");
		if (on)
			prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* peers read our memory */
	}
	return on;
}

void data_post(const struct nccl_op *op, struct fabric_post *post)
{
	post->address = (uintptr_t)op->send;
	post->pid = getpid();
	post->device = op->comm->cudaDev;
}

static void peer_read(const struct fabric_post *peer, size_t offset, void *to, size_t size)
{
	struct iovec local = { to, size }, remote = { (void *)(uintptr_t)(peer->address + offset), size };

	if (peer->pid == getpid())
		memcpy(to, remote.iov_base, size);
	else if (process_vm_readv(peer->pid, &local, 1, &remote, 1, 0) != (ssize_t)size)
		memset(to, 0xee, size); /* the peer is gone, or forbids it: rubbish, not a hang */
}

/* --- faults --- */

static const struct fabric_post *post_of(const struct nccl_op *op, int rank)
{
	return fabric_post_of(&op->comm->fabric, rank, op->index);
}

/* The rank of a device, -1: it does not take part. */
static int rank_of(const struct nccl_op *op, int device)
{
	int i;

	for (i = 0; i < op->comm->nRanks; i++) {
		if (post_of(op, i)->device == device)
			return i;
	}
	return -1;
}

/* The next "device:value" of a list, NULL: no more. */
static const char *setting_next(const char *at, int *ret_device, const char **ret_value)
{
	char *end;

	if (!at || !*at)
		return NULL;
	*ret_device = strtol(at, &end, 10);
	*ret_value = *end ? end + 1 : end;
	return strchr(end, ',') ? strchr(end, ',') + 1 : end + strlen(end);
}

double data_slowness(const struct nccl_op *op, const struct fabric_post *peer)
{
	const char *at = getenv("SIM_NCCL_SLOW"), *value;
	double most = 0;
	int device;

	while ((at = setting_next(at, &device, &value))) {
		bool takes_part =
			peer ? peer->device == device || op->comm->cudaDev == device : rank_of(op, device) >= 0;

		if (takes_part && atof(value) > most)
			most = atof(value);
	}
	return most > 0 && slow_now() ? 1 + most / 100 : 1;
}

void data_maybe_hang(const struct nccl_op *op)
{
	static _Atomic long operations;
	const char *at = getenv("SIM_NCCL_HANG"), *value;
	long n = operations++;
	int device;

	while ((at = setting_next(at, &device, &value))) {
		bool hangs = device == op->comm->cudaDev && n >= atol(value) && slow_now();

		while (hangs)
			pause();
	}
}

static bool op_reduces(const struct nccl_op *op)
{
	return op->func == FUNC_ALL_REDUCE || op->func == FUNC_REDUCE || op->func == FUNC_REDUCE_SCATTER;
}

static void result_spoil(const struct nccl_op *op, unsigned char *result, size_t elements)
{
	const char *at = getenv("SIM_NCCL_WRONG"), *value;
	size_t size = datatype_size(op->datatype);
	unsigned long element, every;
	int device, rank, me = op->comm->rank;
	char how[16];

	while ((at = setting_next(at, &device, &value)) && slow_now()) {
		int n = sscanf(value, "%15[a-z]:%lu:%lu", how, &element, &every);

		rank = rank_of(op, device);
		if (n < 2 || rank < 0 || !op_reduces(op) || (n > 2 && every && op->index / 2 % every != every - 1))
			continue;
		if (!strcmp(how, "own")       ? rank == me
		    : !strcmp(how, "forward") ? me == (rank + 1) % op->comm->nRanks
					      : true)
			result[element % elements * size] ^= 1;
	}
}

/* --- elements --- */

static double small_load(unsigned int bits, int mantissa, int bias)
{
	unsigned int exponent = (bits & 127) >> mantissa, low = bits & ((1u << mantissa) - 1);
	double value = exponent ? (1u << mantissa) + low : 2 * low;

	for (int e = (int)exponent - bias - mantissa; e > 0; e--)
		value *= 2;
	for (int e = (exponent ? (int)exponent : 0) - bias - mantissa; e < 0; e++)
		value /= 2;
	return bits & 128 ? -value : value;
}

/* Whole numbers that the type has: all that a test of exact sums needs. */
static unsigned int small_store(double value, int mantissa, int bias)
{
	unsigned int sign = value < 0 ? 128 : 0;
	double size = value < 0 ? -value : value;
	int exponent = 0;

	if (size < 1)
		return sign;
	for (; size >= 2; size /= 2)
		exponent++;
	return sign | (unsigned int)(exponent + bias) << mantissa | (unsigned int)((size - 1) * (1u << mantissa));
}

static double load(const void *from, size_t i, ncclDataType_t type)
{
	uint32_t word;
	float f;

	switch (type) {
	case ncclFloat16: return ((const _Float16 *)from)[i]; /* lint: clang 14 has it on some CPUs only */
	case ncclFloat64: return ((const double *)from)[i];
	case ncclBfloat16:
		word = (uint32_t)((const uint16_t *)from)[i] << 16;
		memcpy(&f, &word, sizeof(f));
		return f;
	case ncclFloat8e4m3: return small_load(((const uint8_t *)from)[i], 3, 7);
	case ncclFloat8e5m2: return small_load(((const uint8_t *)from)[i], 2, 15);
	default: return ((const float *)from)[i];
	}
}

static void store(void *to, size_t i, ncclDataType_t type, double value)
{
	uint32_t word;
	float f = value;

	switch (type) {
	case ncclFloat16: ((_Float16 *)to)[i] = value; break; /* lint: as above */
	case ncclFloat64: ((double *)to)[i] = value; break;
	case ncclBfloat16:
		memcpy(&word, &f, sizeof(f));
		((uint16_t *)to)[i] = word >> 16;
		break;
	case ncclFloat8e4m3: ((uint8_t *)to)[i] = small_store(value, 3, 7); break;
	case ncclFloat8e5m2: ((uint8_t *)to)[i] = small_store(value, 2, 15); break;
	default: ((float *)to)[i] = f; break;
	}
}

/* Of types that C adds as NCCL does: the compiler makes vectors of each, while load() and store() ask for the type of
 * each element. A sum of two floats is the same in double, rounded. */
#define ADD_AS(TYPE) \
	do { \
		TYPE *sum = to; \
		const TYPE *more = from; \
\
		for (i = 0; i < n; i++) \
			sum[i] += more[i]; \
	} while (0)

static void add(void *to, const void *from, size_t n, ncclDataType_t type)
{
	size_t i;

	switch (type) {
	case ncclInt8:
	case ncclUint8: ADD_AS(uint8_t); break;
	case ncclInt32:
	case ncclUint32: ADD_AS(uint32_t); break;
	case ncclInt64:
	case ncclUint64: ADD_AS(uint64_t); break;
	case ncclFloat32: ADD_AS(float); break;
	case ncclFloat64: ADD_AS(double); break;
	default:
		for (i = 0; i < n; i++)
			store(to, i, type, load(to, i, type) + load(from, i, type));
	}
}

/* --- operations --- */

/* What rank @from brings to what this rank gets. */
static void part_take(const struct nccl_op *op, int from, void *part, size_t size, unsigned char *result)
{
	size_t offset = op->func == FUNC_REDUCE_SCATTER ? op->comm->rank * size : 0;

	switch (op->func) {
	case FUNC_ALL_GATHER: peer_read(post_of(op, from), 0, result + from * size, size); break;
	case FUNC_ALL_TO_ALL: peer_read(post_of(op, from), op->comm->rank * size, result + from * size, size); break;
	case FUNC_BROADCAST:
		if (from == op->root)
			peer_read(post_of(op, from), 0, result, size);
		break;
	case FUNC_ALL_REDUCE:
	case FUNC_REDUCE:
	case FUNC_REDUCE_SCATTER:
		peer_read(post_of(op, from), offset, part, size);
		add(result, part, op->count, op->datatype);
		break;
	default: break;
	}
}

static bool op_is_of_parts(const struct nccl_op *op)
{
	return op->func == FUNC_ALL_GATHER || op->func == FUNC_ALL_TO_ALL;
}

/* Of Gather and Scatter data do not move. */
static bool op_is_received(const struct nccl_op *op)
{
	if (!op->recv || op->func == FUNC_GATHER || op->func == FUNC_SCATTER)
		return false;
	return op->func != FUNC_REDUCE || op->comm->rank == op->root;
}

int data_collective(const struct nccl_op *op)
{
	size_t size = op->count * datatype_size(op->datatype);
	size_t parts = op_is_of_parts(op) ? op->comm->nRanks : 1;
	unsigned char *result = calloc(parts, size);
	void *part = malloc(size);
	struct fabric_post mine = { .ready_ns = 0 }, all;
	int err = result && part ? 0 : -ENOMEM, i;

	for (i = 0; !err && i < op->comm->nRanks; i++)
		part_take(op, i, part, size, result);
	if (!err)
		result_spoil(op, result, parts * op->count);
	if (!err)
		err = fabric_meet(&op->comm->fabric, op->index + 1, &mine, &all);
	if (!err && op_is_received(op))
		memcpy(op->recv, result, parts * size);
	free(part);
	free(result);
	return err;
}

void data_receive(const struct nccl_op *op, const struct fabric_post *sent)
{
	if (op->recv)
		peer_read(sent, 0, op->recv, op->count * datatype_size(op->datatype));
}
