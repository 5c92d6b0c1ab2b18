// SPDX-License-Identifier: Apache-2.0
/*
 * Operations the way PyTorch's ProcessGroupNCCL issues them: the communicator's own stream waits for the compute
 * stream, the call is made there, an end event is recorded behind it for the watchdog and for what waits for it.
 */
#include "tools/simjob/job/job_log.h"
#include "tools/simjob/job/rank.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const op_names[NR_OP_KINDS] = {
	[OP_BROADCAST] = "Broadcast",
	[OP_BCAST] = "Broadcast",
	[OP_REDUCE] = "Reduce",
	[OP_ALL_GATHER] = "AllGather",
	[OP_REDUCE_SCATTER] = "ReduceScatter",
	[OP_ALL_REDUCE] = "AllReduce",
	[OP_ALL_TO_ALL] = "AlltoAll",
	[OP_GATHER] = "Gather",
	[OP_SCATTER] = "Scatter",
	[OP_SEND] = "Send",
	[OP_RECV] = "Recv",
};

const char *op_name(enum op_kind kind)
{
	return op_names[kind]; /* lint: every kind has its name */
}

/* The number the call has, or gets with @advance. Docs, Operations, has the rules. */
uint64_t comm_next_seq(const struct rank *rank, struct job_comm *comm, const struct op_call *call, bool advance)
{
	uint64_t *counter = &comm->collective_seq;

	if (call->kind == OP_SEND)
		counter = &comm->send_seq[call->root_or_peer];
	else if (call->kind == OP_RECV)
		counter = &comm->recv_seq[call->root_or_peer];
	else if (rank->launching)
		counter = &comm->graph_seq;
	else if (call->kind == OP_ALL_TO_ALL || call->kind == OP_GATHER || call->kind == OP_SCATTER)
		counter = &comm->other_seq[call->kind];
	return advance ? (*counter)++ : *counter;
}

void op_log(struct rank *rank, struct job_comm *comm, const struct op_call *call, uint64_t t_ns)
{
	bool is_transfer = call->kind == OP_SEND || call->kind == OP_RECV;
	struct job_log_line line = {
		.comm_hash = comm->hash,
		.comm_rank = comm->rank,
		.seq = comm_next_seq(rank, comm, call, true),
		.op = op_name(call->kind),
		.count = call->count,
		.datatype = call->datatype,
		.peer = is_transfer ? call->root_or_peer : -1,
		.in_graph = rank->launching,
		.t_ns = t_ns,
	};

	if (rank->log_fd >= 0)
		job_log_write(rank->log_fd, rank->rank, rank->pid, &line);
}

static ncclResult_t op_dispatch(struct rank *rank, struct job_comm *comm, const struct op_call *call)
{
	const struct api *api = comm->api;
	void *buffer = (void *)(uintptr_t)rank->buffer;
	ncclComm_t c = comm->comm;
	CUstream s = comm->stream;

	switch (call->kind) {
	case OP_BROADCAST:
		return api->ncclBroadcast(buffer, buffer, call->count, call->datatype, call->root_or_peer, c, s);
	case OP_BCAST: return api->ncclBcast(buffer, call->count, call->datatype, call->root_or_peer, c, s);
	case OP_REDUCE:
		return api->ncclReduce(buffer, buffer, call->count, call->datatype, ncclSum, call->root_or_peer, c, s);
	case OP_ALL_GATHER: return api->ncclAllGather(buffer, buffer, call->count, call->datatype, c, s);
	case OP_REDUCE_SCATTER:
		return api->ncclReduceScatter(buffer, buffer, call->count, call->datatype, ncclSum, c, s);
	case OP_ALL_REDUCE: return api->ncclAllReduce(buffer, buffer, call->count, call->datatype, ncclSum, c, s);
	case OP_ALL_TO_ALL: return api->ncclAlltoAll(buffer, buffer, call->count, call->datatype, c, s);
	case OP_GATHER: return api->ncclGather(buffer, buffer, call->count, call->datatype, call->root_or_peer, c, s);
	case OP_SCATTER: return api->ncclScatter(buffer, buffer, call->count, call->datatype, call->root_or_peer, c, s);
	case OP_SEND: return api->ncclSend(buffer, call->count, call->datatype, call->root_or_peer, c, s);
	case OP_RECV: return api->ncclRecv(buffer, call->count, call->datatype, call->root_or_peer, c, s);
	case NR_OP_KINDS: break;
	}
	return ncclInvalidArgument;
}

/* With --torch: as ProcessGroupNCCL does, for an operation that no graph holds. Names are a DeviceMesh's. */
static void group_say(struct rank *rank, struct job_comm *comm, const struct op_call *call)
{
	bool is_transfer = call->kind == OP_SEND || call->kind == OP_RECV;
	char desc[32], title[32];

	if (!rank->options->torch || rank->capturing)
		return;
	*(is_transfer ? &comm->group_p2p_seq : &comm->group_seq) += 1;
	snprintf(desc, sizeof(desc), "mesh_%s", comm->name);
	snprintf(title, sizeof(title), "nccl:%s", op_name(call->kind));
	rank->api.sim_torch_group("7", comm == &rank->world ? "default_pg" : desc, comm->group_seq, comm->group_p2p_seq,
				  title);
}

static bool op_is_due(struct rank *rank, struct job_comm *comm, struct op_call *call)
{
	bool is_made = hooks_before_op(rank, comm, call);

	rank->op_in_step++;
	return is_made;
}

static bool op_is_empty(const struct op_call *call)
{
	return call->count == 0 && call->kind != OP_SEND && call->kind != OP_RECV;
}

void op_call(struct rank *rank, struct job_comm *comm, const struct op_call *call)
{
	struct op_call actual = *call;

	/* NCCL does nothing for an empty collective, and so it is no operation. */
	if (op_is_empty(call)) {
		nccl_check(comm->api, op_dispatch(rank, comm, call), comm->comm, op_name(call->kind));
		return;
	}
	if (rank->capturing)
		graph_note_op(rank, comm, call);
	else if (op_is_due(rank, comm, &actual))
		op_log(rank, comm, &actual, clock_now_ns());
	else
		return;
	group_say(rank, comm, &actual);
	group_join(rank);
	nccl_check(comm->api, op_dispatch(rank, comm, &actual), comm->comm, op_name(call->kind));
}

/* Makes @waiter wait for what @stream holds now, through an event of its own as torch.cuda.Stream.wait_stream does. */
static void stream_wait_stream(struct rank *rank, CUstream waiter, CUstream stream)
{
	const struct api *api = &rank->api;
	CUevent event;

	cuda_check(api, api->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
	cuda_check(api, api->cuEventRecord(event, stream), "cuEventRecord");
	cuda_check(api, api->cuStreamWaitEvent(waiter, event, 0), "cuStreamWaitEvent");
	cuda_check(api, api->cuEventDestroy_v2(event), "cuEventDestroy");
}

/* With TORCH_NCCL_ENABLE_TIMING each work has a start event, too, and both have the time; not so in a capture. */
static bool ops_are_timed(const struct rank *rank)
{
	return rank->options->timing && !rank->capturing;
}

void op_begin(struct rank *rank, struct job_comm *comm)
{
	const struct api *api = &rank->api;

	stream_wait_stream(rank, comm->stream, rank->compute);
	if (!ops_are_timed(rank))
		return;
	cuda_check(api, api->cuEventCreate(&comm->start, 0), "cuEventCreate");
	cuda_check(api, api->cuEventRecord(comm->start, comm->stream), "cuEventRecord");
}

struct work *op_finish(struct rank *rank, struct job_comm *comm, enum op_kind kind)
{
	const struct api *api = &rank->api;
	struct work *work = calloc(1, sizeof(*work));

	if (!work) {
		fprintf(stderr, "simjob: rank %d: out of memory\n", rank->rank);
		exit(1);
	}
	group_await(rank);
	/* The watchdog's and the caller's; PyTorch's watchdog learns nothing of what is captured. */
	work->refs = rank->capturing ? 1 : 2;
	work->op = op_name(kind);
	work->comm = comm;
	work->issued_ns = clock_now_ns();
	work->start = comm->start;
	comm->start = NULL;
	cuda_check(api, api->cuEventCreate(&work->end, work->start ? 0 : CU_EVENT_DISABLE_TIMING), "cuEventCreate");
	cuda_check(api, api->cuEventRecord(work->end, comm->stream), "cuEventRecord");
	if (!rank->capturing)
		watchdog_add(rank, work);
	return work;
}

void work_put(const struct api *api, struct work *work)
{
	if (atomic_fetch_sub(&work->refs, 1) > 1)
		return;
	if (work->start)
		api->cuEventDestroy_v2(work->start);
	api->cuEventDestroy_v2(work->end);
	free(work);
}

void work_wait(struct rank *rank, struct work *work)
{
	cuda_check(&rank->api, rank->api.cuStreamWaitEvent(rank->compute, work->end, 0), "cuStreamWaitEvent");
	work_put(&rank->api, work);
}

void op_run(struct rank *rank, struct job_comm *comm, const struct op_call *call)
{
	op_begin(rank, comm);
	op_call(rank, comm, call);
	work_wait(rank, op_finish(rank, comm, call->kind));
}
