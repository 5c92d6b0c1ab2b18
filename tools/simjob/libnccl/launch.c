// SPDX-License-Identifier: Apache-2.0
/*
 * From operations to the stream and through the fabric. The operations of a group that share communicator and stream
 * become one plan, one cuLaunchKernelEx; a plan's collectives run one after the other, then its transfers all at once.
 * On a capturing stream the plan becomes a node; every launch of the graph then runs a copy of it.
 */
#include "tools/simjob/libnccl/mix.h"
#include "tools/simjob/libnccl/comm.h"

#include <stdlib.h>

struct plan {
	struct ncclComm *comm;
	struct nccl_op *ops, **ops_tail;
	uint32_t number; /* plans of a communicator run in the order of their launch, whatever their streams */
	bool persistent; /* captured: NCCL's word for it */
};

struct link {
	uint64_t latency_ns;
	uint64_t bytes_per_us;
};

/* Defaults: what an NVLink node does, about 150 GB/s of bus bandwidth and 20 us. */
static struct link network = { .latency_ns = 20000, .bytes_per_us = 150000 };
static pthread_once_t network_once = PTHREAD_ONCE_INIT;

static void network_configure(void)
{
	const char *latency_us = getenv("SIM_NCCL_LATENCY_US");
	const char *gigabytes_per_s = getenv("SIM_NCCL_GBPS");

	if (latency_us && atof(latency_us) > 0)
		network.latency_ns = atof(latency_us) * NSEC_PER_USEC;
	if (gigabytes_per_s && atof(gigabytes_per_s) > 0)
		network.bytes_per_us = atof(gigabytes_per_s) * 1000;
}

size_t datatype_size(ncclDataType_t datatype)
{
	static const unsigned char size_bytes[ncclNumTypes] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };

	return size_bytes[datatype];
}

/* Bytes over the slowest link, by the usual ring formulas (nccl-tests, doc/PERFORMANCE.md); n ranks, per-rank bytes. */
static uint64_t op_wire_bytes(const struct nccl_op *op)
{
	uint64_t bytes = op->count * datatype_size(op->datatype);
	uint64_t n = op->comm->nRanks;

	switch (op->func) {
	case FUNC_ALL_REDUCE: return 2 * bytes * (n - 1) / n;
	case FUNC_ALL_GATHER:
	case FUNC_REDUCE_SCATTER:
	case FUNC_ALL_TO_ALL:
	case FUNC_GATHER:
	case FUNC_SCATTER: return bytes * (n - 1);
	default: return bytes;
	}
}

/* @peer: of a transfer; NULL: all ranks take part. */
static uint64_t op_duration_ns(const struct nccl_op *op, const struct fabric_post *peer)
{
	uint64_t ns = network.latency_ns + op_wire_bytes(op) * NSEC_PER_USEC / network.bytes_per_us;

	ns *= shared_communicators();
	return data_is_on() ? (uint64_t)(ns * data_slowness(op, peer)) : ns;
}

/*
 * What must agree: function, bytes, root, reduction. Not the data type: NCCL does not compare it either, and an
 * operation on bf16 here and fp16 there completes, with rubbish as its result.
 */
static uint64_t op_signature(const struct nccl_op *op)
{
	uint64_t bytes = op->count * datatype_size(op->datatype);

	if (op->func == FUNC_SEND || op->func == FUNC_RECV)
		return bytes;
	return bytes << 20 | (uint64_t)op->root << 8 | (uint64_t)op->redop << 4 | op->func;
}

static bool op_is_transfer(const struct nccl_op *op)
{
	return op->func == FUNC_SEND || op->func == FUNC_RECV;
}

/* What the rank brings: its own data, and what has come of all operations before the plan. */
static uint64_t op_value(const struct nccl_op *op)
{
	return mix(mix(op->fed, op->comm->data), op->comm->rank);
}

/* The type matters here: bf16 read as fp16 is rubbish. */
static void op_conclude(const struct nccl_op *op, uint64_t value)
{
	uint64_t what = mix(mix(op->func, op->count), op->datatype << 16 | op->redop << 8);

	op->comm->data = mix(op->comm->data, mix(mix(what, op->root), value));
}

/* What the ranks bring is taken from the network, and the operation takes as long as that does. */
static int net_run(const struct nccl_op *op, uint64_t ready_ns, uint64_t *now_ns, uint64_t *ret_value)
{
	int err = net_op_run(op->comm, op->net, op_value(op), ready_ns, ret_value);
	uint64_t end_ns = clock_now_ns();

	if (end_ns > *now_ns)
		*now_ns = end_ns;
	return err;
}

static int collective_run(const struct nccl_op *op, uint64_t *now_ns)
{
	struct fabric_post post = { .ready_ns = *now_ns, .signature = op_signature(op), .value = op_value(op) };
	struct fabric_post all;
	int err;

	shared_join(op->comm);
	if (data_is_on()) {
		data_maybe_hang(op);
		data_post(op, &post);
	}
	err = fabric_meet(&op->comm->fabric, op->index, &post, &all);
	if (err)
		return err;
	*now_ns = all.ready_ns + op_duration_ns(op, NULL);
	if (data_is_on())
		err = data_collective(op);
	if (!err && op->net)
		err = net_run(op, all.ready_ns, now_ns, &all.value);
	if (!err)
		op_conclude(op, all.value);
	return err;
}

static struct fabric_transfer transfer_of(const struct nccl_op *op, uint64_t now_ns)
{
	struct fabric_transfer transfer = {
		.peer = op->root,
		.is_send = op->func == FUNC_SEND,
		.index = op->index,
		.post = { .ready_ns = now_ns, .signature = op_signature(op), .value = op_value(op) }
	};

	if (data_is_on())
		data_post(op, &transfer.post);
	return transfer;
}

/* A sender's buffer is its own again when the receivers have what was in it. */
static int transfers_taken(struct nccl_op *ops, uint32_t round, uint64_t now_ns)
{
	struct fabric_transfer transfer;
	struct nccl_op *op;
	int err = 0;

	for (op = ops; op && !err; op = op->next) {
		if (op->func != FUNC_SEND || op->round != round)
			continue;
		transfer = transfer_of(op, now_ns);
		err = fabric_transfer_taken(&op->comm->fabric, &transfer);
	}
	return err;
}

/*
 * Several transfers to one peer in one plan have to be posted one after the other (see fabric.h), those to different
 * peers together. So: rounds, each with the transfers whose predecessor is done.
 */
static int transfers_run_round(struct nccl_op *ops, uint32_t round, uint64_t now_ns, uint64_t *end_ns)
{
	struct fabric_transfer transfer;
	struct fabric_post both;
	struct nccl_op *op;
	int err = 0, found = 0;

	for (op = ops; op; op = op->next) {
		if (!op_is_transfer(op) || op->round != round)
			continue;
		transfer = transfer_of(op, now_ns);
		if (data_is_on())
			data_maybe_hang(op);
		fabric_transfer_post(&op->comm->fabric, &transfer);
		found = 1;
	}
	for (op = ops; op && !err; op = op->next) {
		if (!op_is_transfer(op) || op->round != round)
			continue;
		transfer = transfer_of(op, now_ns);
		err = fabric_transfer_wait(&op->comm->fabric, &transfer, &both);
		if (err)
			break;
		if (both.ready_ns + op_duration_ns(op, &both) > *end_ns)
			*end_ns = both.ready_ns + op_duration_ns(op, &both);
		op_conclude(op, op->func == FUNC_RECV ? both.value : 0);
		if (data_is_on() && op->func == FUNC_RECV) {
			data_receive(op, &both);
			fabric_transfer_take(&op->comm->fabric, &transfer);
		}
	}
	if (!err && data_is_on())
		err = transfers_taken(ops, round, now_ns);
	return err ? err : found;
}

static int transfers_run(struct nccl_op *ops, uint64_t *now_ns)
{
	uint64_t end_ns = *now_ns;
	uint32_t round = 0;
	int rc;

	while ((rc = transfers_run_round(ops, round++, *now_ns, &end_ns)) > 0)
		;
	*now_ns = end_ns;
	return rc;
}

static void plan_free(struct plan *plan)
{
	struct nccl_op *op, *next;

	for (op = plan->ops; op; op = next) {
		next = op->next;
		free(op);
	}
	free(plan);
}

static void plan_finish(struct plan *plan, uint64_t end_ns)
{
	struct ncclComm *comm = plan->comm;
	uint32_t number = plan->number;

	plan_free(plan);
	comm->plan_end_ns = end_ns;
	/* The communicator may be freed by a waiting destroy from the store on: a wake-up on its address is harmless.
	 */
	atomic_store(&comm->plans_done, number + 1);
	futex_wake_all(&comm->plans_done);
}

static uint64_t plan_run(void *arg, uint64_t ready_ns)
{
	struct plan *plan = arg;
	struct ncclComm *comm = plan->comm;
	struct nccl_op *op;
	uint32_t done;
	int err = 0;

	while ((done = comm->plans_done) != plan->number)
		futex_wait(&comm->plans_done, done, 0);
	if (comm->plan_end_ns > ready_ns)
		ready_ns = comm->plan_end_ns;
	for (op = plan->ops; op && !err; op = op->next) {
		if (!op_is_transfer(op))
			err = collective_run(op, &ready_ns);
	}
	if (!err)
		err = transfers_run(plan->ops, &ready_ns);
	/* Aborted: the GPU is free at once. */
	if (err)
		ready_ns = clock_now_ns();
	plan_finish(plan, ready_ns);
	return ready_ns;
}

/* Takes the first operation of @ops and all that go with it. */
static struct plan *plan_take(struct nccl_op **ops)
{
	struct plan *plan = calloc(1, sizeof(*plan));
	struct nccl_op **link = ops, *op;
	cudaStream_t stream = (*ops)->stream;

	if (!plan)
		return NULL;
	plan->comm = (*ops)->comm;
	plan->ops_tail = &plan->ops;
	while ((op = *link)) {
		if (op->comm != plan->comm || op->stream != stream) {
			link = &op->next;
			continue;
		}
		*link = op->next;
		op->next = NULL;
		*plan->ops_tail = op;
		plan->ops_tail = &op->next;
	}
	return plan;
}

/* How many of the plan's transfers before this one go the same way to the same peer. */
static uint32_t transfer_round(const struct plan *plan, const struct nccl_op *op)
{
	const struct nccl_op *earlier;
	uint32_t round = 0;

	for (earlier = plan->ops; earlier != op; earlier = earlier->next)
		round += earlier->func == op->func && earlier->root == op->root;
	return round;
}

/* NCCL counts a collective when it is launched, not when it is called: inside a group that is the group's end. */
static void plan_number(struct plan *plan)
{
	struct ncclComm *comm = plan->comm;
	struct nccl_op *op;

	for (op = plan->ops; op; op = op->next) {
		op->fed = comm->feed;
		if (op_is_transfer(op)) {
			uint32_t *sent_or_received =
				op->func == FUNC_SEND ? comm->transfers_sent : comm->transfers_received;

			op->index = sent_or_received[op->root]++;
			op->round = transfer_round(plan, op);
			continue;
		}
		op->index = comm->collectives;
		comm->collectives += data_is_on() ? 2 : 1; /* data_collective() meets once more */
		op->net = net_op_post(comm, op->func);
		/* NCCL leaves captured ones out, when they are captured and when they run. */
		if (op->func < NR_COUNTED_FUNCS && !plan->persistent)
			__atomic_fetch_add(&comm->seqNumber[op->func], 1, __ATOMIC_RELAXED);
	}
	plan->number = comm->plans_launched++;
	if (!plan->persistent)
		comm->opCount++;
}

static struct plan *plan_copy(const struct plan *plan)
{
	struct plan *copy = calloc(1, sizeof(*copy));
	const struct nccl_op *op;

	if (!copy)
		return NULL;
	*copy = *plan;
	copy->ops = NULL;
	copy->ops_tail = &copy->ops;
	for (op = plan->ops; op; op = op->next) {
		struct nccl_op *op_copy = malloc(sizeof(*op_copy));

		if (!op_copy) {
			plan_free(copy);
			return NULL;
		}
		*op_copy = *op;
		op_copy->next = NULL;
		*copy->ops_tail = op_copy;
		copy->ops_tail = &op_copy->next;
	}
	return copy;
}

/* The communicator must outlive the graph's last launch, as with NCCL. */
static void *plan_replay(void *captured)
{
	const struct plan *plan = captured;
	struct plan *copy = plan_copy(plan);

	if (!copy)
		return NULL;
	pthread_mutex_lock(&plan->comm->launch_lock);
	plan_number(copy);
	pthread_mutex_unlock(&plan->comm->launch_lock);
	return copy;
}

static void plan_release(void *captured)
{
	plan_free(captured);
}

static CUfunction plan_function;

static void plan_function_create(void)
{
	static const struct sim_kernel kernel = { .run = plan_run, .replay = plan_replay, .release = plan_release };
	const struct cuda_driver *driver = cuda_driver_get();

	if (driver)
		plan_function = driver->function_create(&kernel);
}

/* NCCL asks for each stream that it is given. */
static bool stream_is_capturing(cudaStream_t stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	cuda_driver_get()->stream_get_capture_info(stream, &status, NULL, NULL, NULL, NULL, NULL);
	return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static ncclResult_t plan_launch(struct plan *plan, cudaStream_t stream)
{
	struct CUlaunchConfig_st config = { .gridDimX = 16,
					    .gridDimY = 1,
					    .gridDimZ = 1,
					    .blockDimX = 512,
					    .blockDimY = 1,
					    .blockDimZ = 1,
					    .hStream = stream };
	struct ncclComm *comm = plan->comm;
	void *params[] = { &plan };
	CUresult res;

	plan->persistent = stream_is_capturing(stream);
	pthread_mutex_lock(&comm->launch_lock);
	if (!plan->persistent)
		plan_number(plan);
	res = cuda_driver_get()->launch_kernel_ex(&config, plan_function, params, NULL);
	pthread_mutex_unlock(&comm->launch_lock);
	if (res == CUDA_SUCCESS)
		return ncclSuccess;
	comm->asyncResult = ncclUnhandledCudaError;
	plan_free(plan);
	return ncclUnhandledCudaError;
}

ncclResult_t ops_launch(struct nccl_op *ops)
{
	static pthread_once_t function_once = PTHREAD_ONCE_INIT;
	ncclResult_t result = ncclSuccess, plan_result;
	struct plan *plan;

	pthread_once(&network_once, network_configure);
	pthread_once(&function_once, plan_function_create);
	while (ops) {
		cudaStream_t stream = ops->stream;

		plan = plan_take(&ops);
		if (!plan)
			return ncclSystemError;
		plan_result = plan_launch(plan, stream);
		if (result == ncclSuccess)
			result = plan_result;
	}
	return result;
}
