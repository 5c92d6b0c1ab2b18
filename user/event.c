/* SPDX-License-Identifier: Apache-2.0
 *
 * event.c - names of what events carry, as every output prints them.
 */
#include "event.h"

#include <stddef.h>

static const char *const op_names[OP_KIND_MAX] = {
	[OP_BROADCAST] = "Broadcast", [OP_REDUCE] = "Reduce",
	[OP_ALLGATHER] = "AllGather", [OP_REDUCESCATTER] = "ReduceScatter",
	[OP_ALLREDUCE] = "AllReduce", [OP_ALLTOALL] = "AlltoAll",
	[OP_GATHER] = "Gather",       [OP_SCATTER] = "Scatter",
	[OP_SEND] = "Send",           [OP_RECV] = "Recv",
};

/* ncclDataType_t in nccl.h, 2.28. */
static const struct {
	const char *name;
	int bytes;
} dtypes[] = {
	{ "int8", 1 }, { "uint8", 1 }, { "int32", 4 }, { "uint32", 4 }, { "int64", 8 },   { "uint64", 8 },
	{ "fp16", 2 }, { "fp32", 4 },  { "fp64", 8 },  { "bf16", 2 },   { "fp8e4m3", 1 }, { "fp8e5m2", 1 },
};

static const char *const init_names[COMM_INIT_KIND_MAX] = {
	[COMM_INIT_RANK] = "InitRank", [COMM_INIT_CONFIG] = "InitRankConfig", [COMM_INIT_SCALABLE] = "InitRankScalable",
	[COMM_INIT_ALL] = "InitAll",   [COMM_INIT_SPLIT] = "Split",           [COMM_INIT_SHRINK] = "Shrink",
	[COMM_INIT_GROW] = "Grow",
};

static const char *const state_names[] = {
	[TASK_UNKNOWN] = "unknown", [TASK_ON_CPU] = "on_cpu",   [TASK_RUNNABLE] = "runnable", [TASK_SLEEP] = "asleep",
	[TASK_DISK] = "disk",       [TASK_STOPPED] = "stopped", [TASK_DEAD] = "dead",
};

const char *op_kind_name(enum op_kind kind)
{
	return (unsigned int)kind < OP_KIND_MAX ? op_names[kind] : "?";
}

const char *dtype_name(int dtype)
{
	return dtype >= 0 && dtype < (int)(sizeof(dtypes) / sizeof(dtypes[0])) ? dtypes[dtype].name : NULL;
}

int dtype_bytes(int dtype)
{
	return dtype >= 0 && dtype < (int)(sizeof(dtypes) / sizeof(dtypes[0])) ? dtypes[dtype].bytes : 0;
}

const char *comm_init_kind_name(enum comm_init_kind kind)
{
	return (unsigned int)kind < COMM_INIT_KIND_MAX ? init_names[kind] : "?";
}

const char *probe_group_what(enum probe_group group)
{
	static const char *const what[PROBE_GROUPS] = {
		[PROBES_NEEDED] = "operations and waits",
		[PROBES_EVENTS] = "cuEventRecord and cuStreamWaitEvent",
		[PROBES_CALLS] =
			"allocations, loads of code, timed copies, questions for elapsed times, backward, DDP and "
			"optimizers",
		[PROBES_POLLS] = "cuEventQuery and cuStreamQuery",
		[PROBES_POSTS] = "RDMA posts and completions",
		[PROBES_RANGES] = "ranges and process groups of PyTorch",
		[PROBES_GC] = "collections of Python",
		[PROBES_BURST] = "launches, asynchronous copies and asynchronous allocations",
	};

	return (unsigned int)group < PROBE_GROUPS ? what[group] : "?";
}

const char *task_state_name(enum task_state state)
{
	return (unsigned int)state <= TASK_DEAD ? state_names[state] : "?";
}

const char *tcp_counter_name(enum tcp_counter counter)
{
	static const char *const names[] = {
#define TCP_COUNTER(id, name, offset, bytes) [TCP_##id] = name,
#define TCP_BESIDE(id, name) [TCP_##id] = name,
#include "tracers/tcp/wire/tcp_counters.def"
#undef TCP_BESIDE
#undef TCP_COUNTER
	};

	return (unsigned int)counter < TCP_COUNTERS ? names[counter] : "?";
}

const char *port_counter_name(enum port_counter counter)
{
	static const char *const names[] = {
#define PORT_COUNTER(id, name) [PORT_##id] = name,
#include "tracers/rdma/wire/port_counters.def"
#undef PORT_COUNTER
	};

	return (unsigned int)counter < PORT_COUNTERS ? names[counter] : "?";
}
