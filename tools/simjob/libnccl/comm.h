/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The communicator and the inner interfaces of the libnccl stand-in. Field names and types of struct ncclComm that an
 * outside reader looks for are NCCL's; their order and offsets are not, and change with -DSIM_LAYOUT=n, so that
 * no tracer gets by with offsets remembered from a real library.
 */
#ifndef SIMJOB_NCCL_COMM_H
#define SIMJOB_NCCL_COMM_H

#include "tools/simjob/libcuda/cuda_sim.h"
#include "tools/simjob/libnccl/fabric.h"
#include "tools/simjob/libnccl/nccl_abi.h"
#include "tools/simjob/libnccl/proxy.h"

#include <pthread.h>

#define NCCL_MAGIC 0x0280028002800280ULL

/* As the real library: ncclX weak and pncclX strong, one address. */
#define NCCL_API(RET, NAME, ...) \
	RET p##NAME(__VA_ARGS__) __attribute__((visibility("default"), alias(#NAME))); \
	RET NAME(__VA_ARGS__) __attribute__((weak, visibility("default")))

/* Numbers as in NCCL's ncclFunc_t: the first five index seqNumber[]. */
enum nccl_func {
	FUNC_BROADCAST = 0,
	FUNC_REDUCE = 1,
	FUNC_ALL_GATHER = 2,
	FUNC_REDUCE_SCATTER = 3,
	FUNC_ALL_REDUCE = 4,
	NR_COUNTED_FUNCS = 5,
	FUNC_SEND = 6,
	FUNC_RECV = 7,
	FUNC_ALL_TO_ALL = 8,
	FUNC_SCATTER = 9,
	FUNC_GATHER = 10,
};

#ifndef SIM_LAYOUT
#define SIM_LAYOUT 0
#endif

#define COMM_COUNTERS \
	uint64_t opCount; \
	uint64_t seqNumber[NR_COUNTED_FUNCS];

#if SIM_LAYOUT == 0
#define COMM_CHANNEL_BYTES 180200
#define COMM_IDENTITY \
	int nRanks; \
	int cudaDev; \
	uint64_t commHash; \
	int nvmlDev; \
	int rank;
#define COMM_FIRST COMM_COUNTERS
#define COMM_LAST COMM_IDENTITY
#elif SIM_LAYOUT == 1
#define COMM_CHANNEL_BYTES 655384
#define COMM_IDENTITY \
	int cudaDev; \
	int rank; \
	int nvmlDev; \
	int nRanks; \
	uint64_t commHash;
#define COMM_FIRST COMM_IDENTITY
#define COMM_LAST COMM_COUNTERS
#elif SIM_LAYOUT == 2
#define COMM_CHANNEL_BYTES 70008
#define COMM_IDENTITY \
	uint64_t commHash; \
	int rank; \
	int localRank; \
	int64_t busId; \
	int nRanks; \
	int nvmlDev; \
	int cudaDev;
#define COMM_FIRST \
	char bootstrapState[12312]; \
	COMM_COUNTERS
#define COMM_LAST COMM_IDENTITY
#else
#error "SIM_LAYOUT must be 0, 1 or 2"
#endif

struct ncclComm {
	uint64_t startMagic;
	char memPermanent[88];
	COMM_FIRST
	char channels[COMM_CHANNEL_BYTES];
	ncclResult_t asyncResult;
	uint32_t *abortFlag;
	uint32_t revokedFlag;
	COMM_LAST
	char tunerConstants[2064];
	ncclResult_t initState;
	struct ncclProxyState *proxyState; /* NULL: data do not travel over a network */
	ncclConfig_t config;
	int childCount;

	/* Ours from here on. */
	uint32_t abort_word;
	struct fabric fabric;
	int splits;                   /* ncclCommSplit calls */
	int children;                 /* children of any kind, the name under which a child's key is published */
	_Atomic uint32_t splits_done; /* futex: splits go through the fabric one after the other */
	pthread_mutex_t launch_lock;
	uint32_t plans_launched;                       /* under launch_lock */
	_Atomic uint32_t plans_done;                   /* futex */
	uint64_t plan_end_ns;                          /* written by the plan that runs */
	uint32_t collectives;                          /* collectives given to a plan, under launch_lock */
	_Atomic uint64_t feed;                         /* what the ranks compute outside of NCCL; see sim_comm_feed() */
	uint64_t data;                                 /* what all operations so far came to; of the plan that runs */
	uint32_t *transfers_sent, *transfers_received; /* the same, a peer each */
	_Atomic uint32_t creating;                     /* futex: 1 while a non-blocking creation goes on */
	char last_error[160];

	uint64_t endMagic;
};

/* comm_create.c */
/* Of whatever failed last: the only one of a communicator that was not made. */
extern char comm_last_error[160];
struct ncclComm *comm_alloc(const ncclConfig_t *config);
/* NULL-safe; no operation may be in flight. */
void comm_free(struct ncclComm *comm);
/* Fills in an allocated communicator and blocks until all its ranks did. */
ncclResult_t comm_connect(struct ncclComm *comm, const struct fabric_key *key, int nr_ranks, int rank, uint64_t hash);
ncclResult_t comm_check(const struct ncclComm *comm);

/* comm_end.c: aborts all operations in flight and returns when none is left. */
void comm_drain(struct ncclComm *comm);

/* comm_hash.c: NCCL's own identity of a communicator, the same on all its ranks. */
uint64_t comm_hash_root(const ncclUniqueId *id);
uint64_t comm_hash_child(uint64_t parent_hash, int child_count, int color);

/* comm_jobs.c: creations run at once, or together at the end of a group, a thread each. Takes @job over. */
struct comm_job {
	struct comm_job *next;
	ncclResult_t (*run)(struct comm_job *job);
	ncclComm_t *newcomm;   /* the caller's variable, set when done */
	struct ncclComm *comm; /* NULL: takes part, but stays outside */
	struct ncclComm *parent;
	ncclUniqueId id;
	int nr_ranks, rank;
	int color, key, child_count;
	int split_index, child_index;
	int *excluded, nr_excluded;
	ncclResult_t result;
	pthread_t thread;
};

ncclResult_t comm_job_submit(const struct comm_job *job);
ncclResult_t comm_jobs_run(struct comm_job *jobs);

/* group.c */
struct nccl_op {
	struct nccl_op *next;
	enum nccl_func func;
	const void *send; /* of use with SIM_CUDA_COMPUTE */
	void *recv;
	size_t count;
	ncclDataType_t datatype;
	int redop;
	int root; /* root of the operation, peer of Send and Recv */
	struct ncclComm *comm;
	cudaStream_t stream;
	uint32_t index;     /* its place in the fabric, set at launch */
	uint64_t fed;       /* what the rank had computed before it, set at launch */
	struct net_op *net; /* its way over the network; NULL: none */
	uint32_t round;     /* of a transfer: see transfers_run_round() */
};

/* The library groups through these, not through its exported ncclGroupStart: a probe there sees users' groups only. */
ncclResult_t group_start(void);
ncclResult_t group_end(void);
bool group_is_open(void);
void group_add_job(struct comm_job *job);
/* Inside a group: keeps it for the end. Outside: launches it. */
ncclResult_t op_submit(const struct nccl_op *op);

/* launch.c: launches a list of operations that belong together and takes it over. */
ncclResult_t ops_launch(struct nccl_op *ops);
size_t datatype_size(ncclDataType_t datatype);

/* data.c: with SIM_CUDA_COMPUTE buffers have contents, and operations move and reduce them. */
/* shared.c: a communicator begins to use the network, and ends. How many use it: at least 1. */
void shared_join(const struct ncclComm *comm);
void shared_leave(const struct ncclComm *comm);
int shared_communicators(void);

bool data_is_on(void);
/* Says where the operation's data are. */
void data_post(const struct nccl_op *op, struct fabric_post *post);
/* When all have come to the operation; meets them once more. 0 or -ECANCELED. */
int data_collective(const struct nccl_op *op);
/* Of a transfer both ends of which have come. */
void data_receive(const struct nccl_op *op, const struct fabric_post *sent);
/* By how much it takes longer, as a factor, and whether this GPU does not take part, both on request. */
double data_slowness(const struct nccl_op *op, const struct fabric_post *peer);
void data_maybe_hang(const struct nccl_op *op);

/* room.c: ncclSuccess, or what it comes to that one of its ranks has no room, on request. */
ncclResult_t room_create(struct ncclComm *comm);
ncclResult_t room_operate(struct ncclComm *comm);

/* driver.c: NCCL opens the driver by itself, too. NULL when it is not there. */
struct cuda_driver {
	CUresult (*ctx_get_device)(CUdevice *device);
	CUresult (*launch_kernel_ex)(const struct CUlaunchConfig_st *config, CUfunction f, void **params, void **extra);
	CUresult (*memcpy_async)(CUdeviceptr to, CUdeviceptr from, size_t size_bytes, CUstream stream);
	CUresult (*mem_alloc)(CUdeviceptr *address, size_t size_bytes);
	CUresult (*mem_free)(CUdeviceptr address);
	CUresult (*stream_get_capture_info)(CUstream stream, CUstreamCaptureStatus *status, uint64_t *id,
					    CUgraph *graph, const CUgraphNode **dependencies, const void **edge_data,
					    size_t *nr);
	CUfunction (*function_create)(const struct sim_kernel *kernel);
};

const struct cuda_driver *cuda_driver_get(void);

#endif
