/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated GPU's inside, shared by the files of the libcuda stand-in. The one idea: a stream's thread runs ahead
 * of the clock. It works out *when* each piece of work ends and never sleeps for it; a call that asks (a query, a
 * synchronize) compares that instant with the clock. So the GPU goes on when the host process is stopped, as a real
 * one does, times do not drift, and an idle simulation costs nothing.
 */
#ifndef SIMJOB_CUDA_DEVICE_H
#define SIMJOB_CUDA_DEVICE_H

#include "tools/simjob/libcuda/futex.h"
#include "tools/simjob/libcuda/cuda_abi.h"
#include "tools/simjob/libcuda/cuda_sim.h"

#include <pthread.h>

#define SIM_EXPORT __attribute__((visibility("default")))

/* The driver blocks a launch when about this many are pending on a stream; it is what stops a host that runs ahead. */
#define STREAM_QUEUE_LIMIT 1024

/* One recording of an event; waiters hold a reference, so that a re-recorded or destroyed event cannot mislead them. */
struct sim_instant {
	_Atomic uint32_t refs;
	_Atomic uint32_t scheduled; /* futex: 1 when end_ns is known */
	uint64_t end_ns;
};

enum work_kind {
	WORK_KERNEL,
	WORK_COPY,
	WORK_CALLBACK_KERNEL,
	WORK_RECORD,
	WORK_WAIT,
	WORK_HOST_FUNC,
	WORK_GRAPH,
	WORK_COMPUTE,
};

struct sim_work {
	struct sim_work *next;
	enum work_kind kind;
	uint64_t enqueued_ns;
	uint64_t duration_ns;            /* WORK_KERNEL, WORK_COPY, WORK_COMPUTE */
	struct sim_instant *instant;     /* WORK_RECORD, WORK_WAIT; owns a reference */
	const struct sim_kernel *kernel; /* WORK_CALLBACK_KERNEL */
	CUhostFn host_fn;                /* WORK_HOST_FUNC, WORK_COMPUTE */
	struct graph_run *graph_run;     /* WORK_GRAPH, owned */
	void *arg;
};

struct capture;
struct sim_gpu_span;

/* Nodes that the next one depends on. */
struct node_set {
	CUgraphNode *nodes;
	size_t nr_nodes;
};

struct CUstream_st {
	struct CUstream_st *next_in_process;
	CUcontext context; /* NULL: its thread had none */
	pthread_mutex_t lock;
	struct sim_work *head, **tail;
	_Atomic uint32_t queued;    /* futex: work handed in since creation */
	_Atomic uint32_t scheduled; /* futex: work whose end is known */
	_Atomic uint32_t closing;
	_Atomic uint64_t end_ns; /* end of the last scheduled work */
	unsigned int flags;
	struct capture
		*_Atomic capture; /* not NULL: work goes there; changes under the capture lock, as what follows */
	struct CUstream_st *next_in_capture;
	struct node_set frontier;
};

struct CUevent_st {
	pthread_mutex_t lock;
	struct sim_instant *instant; /* NULL before the first record */
	unsigned int flags;
	struct capture *capture; /* not NULL: last recorded in it, owns a reference; under the capture lock */
	struct node_set frontier;
};

struct CUmod_st {
	struct CUfunc_st *functions; /* freed with the module */
	char *text;                  /* of PTX; NULL: it is something else */
};

struct CUfunc_st {
	struct CUfunc_st *next_in_module;
	const struct sim_kernel *kernel;      /* NULL: modelled, its first parameter is its duration in ns (uint64_t) */
	const struct compute_kernel *compute; /* not NULL: done in C (compute.c) */
};

struct CUctx_st {
	CUdevice device;
};

/* compute.c: kernels known by name, whose work is done in C when SIM_CUDA_COMPUTE is set, and faults of the hardware.
 */
bool compute_is_on(void);
const struct compute_kernel *compute_kernel_find(const char *name);
CUresult compute_kernel_launch(const struct compute_kernel *kernel, CUstream stream, void **params);
/* The error that a call about the current device gives since it was lost (SIM_GPU_LOSE); counts the calls. */
CUresult compute_lost(void);
CUresult compute_set_words(CUdeviceptr to, unsigned int value, size_t count, CUstream stream);

/* memory.c: the device whose memory it is; -1: of the host, or of no allocation. */
int memory_device(CUdeviceptr address);
/* peer.c: with SIM_CUDA_COMPUTE a copy between host and device, in its turn on the stream. */
CUresult peer_host_copy(void *to, const void *from, size_t size_bytes, CUstream stream);
/* A blocking copy to a device from memory that is not pinned returns once that is read. The data arrive later, and only
 * the default stream waits for them: no stream that does not block, no other device and no NIC. */
CUresult peer_put(void *to, const void *from, size_t size_bytes);

/* context.c */
const char *sim_setting(const char *name, const char *usual);
CUcontext context_current(void);

/* usage.c: when the GPU of this process computes, for the stand-in of NVML. */
void usage_open(int device, int nr_devices);
/* With SIM_GPU_HEAT=1: what this thread notes from now on is of that GPU, and not of the process' first. */
void usage_of(int device);
void usage_note(uint64_t begin_ns, uint64_t end_ns);
/* A kernel whose end its peers decide: open until then. NULL, which end() takes: it is never asked. */
struct sim_gpu_span *usage_nccl_begin(uint64_t begin_ns);
void usage_nccl_end(struct sim_gpu_span *span, uint64_t end_ns);

/* inject.c: the error that this call, by its exported name, is to return in place of its work; else 0. */
CUresult call_injected_error(const char *name);

/* stream.c: NULL and the two magic default handles become the process's default stream; NULL when that fails. */
struct CUstream_st *stream_resolve(CUstream handle);
/* Takes @work over. 0 or CUDA_ERROR_OUT_OF_MEMORY. */
CUresult stream_enqueue(struct CUstream_st *stream, const struct sim_work *work);
CUresult stream_synchronize(CUstream handle);
CUresult stream_synchronize_all(void);
uint64_t work_run(struct sim_work *work, uint64_t ready_ns);
bool stream_is_legacy(CUstream handle);
void sleep_until_ns(uint64_t deadline_ns);

/* event.c */
struct sim_instant *instant_create(void);
struct sim_instant *instant_get(struct sim_instant *instant);
void instant_put(struct sim_instant *instant);
void instant_schedule(struct sim_instant *instant, uint64_t end_ns);
uint64_t instant_wait_scheduled(struct sim_instant *instant);
/* Blocks until the clock has passed the instant. */
void instant_wait_reached(struct sim_instant *instant);

/* capture.c. What a stream's capture makes of a call: true, and the result of the call, when the stream captures. */
bool capture_takes_work(struct CUstream_st *stream, const struct sim_work *work, CUresult *ret_result);
bool capture_takes_record(struct CUstream_st *stream, CUevent event, CUresult *ret_result);
bool capture_takes_wait(struct CUstream_st *stream, CUevent event, CUresult *ret_result);
/* CUDA_SUCCESS where it is allowed; else the capture that it violates is invalid. */
CUresult capture_permits_wait_for_stream(struct CUstream_st *stream);
CUresult capture_permits_wait_for_all(void);
CUresult capture_permits_unsafe_call(void);
CUresult capture_permits_event_use(CUevent event);
CUresult capture_permits_legacy_stream(void);
void capture_forget_stream(struct CUstream_st *stream);
void capture_forget_event(CUevent event);

/* graph.c: a graph under construction, for capture.c. */
CUgraph graph_create(void);
void graph_destroy(CUgraph graph);
/* Appends a node behind @after and takes a callback kernel's argument over. NULL when out of memory. */
CUgraphNode graph_append(CUgraph graph, const struct sim_work *work, const struct node_set *after);
/* All nodes from number @first on lead to @ends. */
bool graph_is_joined(CUgraph graph, size_t first, const struct node_set *ends);
size_t graph_nr_nodes(CUgraph graph);
int node_set_add(struct node_set *set, const struct node_set *more);
void node_set_clear(struct node_set *set);
uint64_t graph_run_work(struct graph_run *run, uint64_t ready_ns);
void graph_run_free(struct graph_run *run);

#endif
