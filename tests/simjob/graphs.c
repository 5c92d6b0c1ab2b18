// SPDX-License-Identifier: Apache-2.0
/*
 * CUDA graphs in the stand-ins: what a capture takes in and what it refuses, in time and with CUDA's error codes, and
 * NCCL inside it: counters that do not move, and peers that meet again at each launch.
 */
#include "tests/simjob/ranks_in_one.h"

#include <string.h>

static CUstreamCaptureStatus capture_status(CUstream stream)
{
	CUstreamCaptureStatus status = -1;

	EXPECT(!cuStreamIsCapturing(stream, &status));
	return status;
}

static CUevent event_create(void)
{
	CUevent event;

	EXPECT(!cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	return event;
}

/* @to goes on after what @from has now. */
static void order(CUstream from, CUstream to)
{
	CUevent event = event_create();

	EXPECT(!cuEventRecord(event, from) && !cuStreamWaitEvent(to, event, 0));
	EXPECT(!cuEventDestroy_v2(event));
}

static CUgraphExec instantiate(CUgraph graph)
{
	CUgraphExec exec;

	EXPECT(!cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

/* Fork and join: two branches of 30 ms and 20 ms, then 10 ms. */
static CUgraph fork_capture(void)
{
	CUgraph graph;

	EXPECT(!cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
	EXPECT(capture_status(streams[0]) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	EXPECT(capture_status(streams[1]) == CU_STREAM_CAPTURE_STATUS_NONE);
	order(streams[0], streams[1]);
	EXPECT(capture_status(streams[1]) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	kernel_launch(streams[0], 30 * NSEC_PER_MSEC);
	kernel_launch(streams[1], 20 * NSEC_PER_MSEC);
	order(streams[1], streams[0]);
	kernel_launch(streams[0], 10 * NSEC_PER_MSEC);
	EXPECT(!cuStreamEndCapture(streams[0], &graph) && graph);
	EXPECT(capture_status(streams[0]) == CU_STREAM_CAPTURE_STATUS_NONE);
	EXPECT(capture_status(streams[1]) == CU_STREAM_CAPTURE_STATUS_NONE);
	return graph;
}

static double launch_ms(CUgraphExec exec, CUstream stream, int times)
{
	CUevent begin, end;
	float ms;

	EXPECT(!cuEventCreate(&begin, 0) && !cuEventCreate(&end, 0) && !cuEventRecord(begin, stream));
	while (times-- > 0)
		EXPECT(!cuGraphLaunch(exec, stream));
	EXPECT(!cuEventRecord(end, stream) && !cuEventSynchronize(end) && !cuEventElapsedTime(&ms, begin, end));
	EXPECT(!cuEventDestroy_v2(begin) && !cuEventDestroy_v2(end));
	return ms;
}

static bool is_near(double ms, double expected_ms)
{
	return ms > expected_ms - 0.01 && ms < expected_ms + 1;
}

static void test_times(void)
{
	uint64_t begin_ns = clock_now_ns();
	CUgraph graph = fork_capture(), clone;
	CUgraphExec exec;
	size_t nr_nodes;

	/* Nothing of it has run. */
	EXPECT(!cuStreamSynchronize(streams[0]) && !cuStreamSynchronize(streams[1]) && ms_since(begin_ns) < 20);
	EXPECT(!cuGraphGetNodes(graph, NULL, &nr_nodes) && nr_nodes == 3);
	exec = instantiate(graph);
	EXPECT(is_near(launch_ms(exec, streams[2], 1), 40) && is_near(launch_ms(exec, streams[2], 3), 120));
	/* A launch returns at once, and its work goes on without its exec and its graph. */
	begin_ns = clock_now_ns();
	EXPECT(!cuGraphLaunch(exec, streams[0]) && !cuGraphClone(&clone, graph));
	EXPECT(!cuGraphExecDestroy(exec) && !cuGraphDestroy(graph) && ms_since(begin_ns) < 20);
	EXPECT(cuStreamQuery(streams[0]) == CUDA_ERROR_NOT_READY);
	EXPECT(!cuStreamSynchronize(streams[0]) && ms_since(begin_ns) >= 39);
	exec = instantiate(clone);
	EXPECT(!cuGraphDestroy(clone) && is_near(launch_ms(exec, streams[1], 1), 40));
	/* One exec does not overlap itself on two streams. */
	begin_ns = clock_now_ns();
	EXPECT(!cuGraphLaunch(exec, streams[0]) && !cuGraphLaunch(exec, streams[1]));
	EXPECT(!cuCtxSynchronize() && ms_since(begin_ns) >= 79);
	sim_graphs_scale(1.5);
	EXPECT(is_near(launch_ms(exec, streams[1], 1), 60));
	sim_graphs_scale(1);
	EXPECT(!cuGraphExecDestroy(exec));
}

static CUgraph kernels_capture(uint64_t duration_ns, int nr_kernels)
{
	CUgraph graph;

	EXPECT(!cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
	while (nr_kernels-- > 0)
		kernel_launch(streams[0], duration_ns);
	EXPECT(!cuStreamEndCapture(streams[0], &graph));
	return graph;
}

static void test_update(void)
{
	CUgraph short_graph = kernels_capture(5 * NSEC_PER_MSEC, 1),
		long_graph = kernels_capture(15 * NSEC_PER_MSEC, 1);
	CUgraph other = kernels_capture(5 * NSEC_PER_MSEC, 2);
	CUDA_GRAPH_INSTANTIATE_PARAMS params = { .result_out = 7 };
	CUgraphExecUpdateResultInfo result;
	CUgraphExec exec;

	EXPECT(!cuGraphInstantiateWithParams(&exec, short_graph, &params));
	EXPECT(params.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS && is_near(launch_ms(exec, streams[0], 1), 5));
	EXPECT(!cuGraphExecUpdate_v2(exec, long_graph, &result) && result.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
	EXPECT(is_near(launch_ms(exec, streams[0], 1), 15));
	EXPECT(cuGraphExecUpdate_v2(exec, other, &result) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	EXPECT(result.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
	EXPECT(is_near(launch_ms(exec, streams[0], 1), 15));
	EXPECT(!cuGraphDestroy(short_graph) && !cuGraphDestroy(long_graph) && !cuGraphDestroy(other));
	EXPECT(!cuGraphExecDestroy(exec));
}

/* A capture into a graph of two nodes, behind the second; what was instantiated before does not change. */
static void test_extend(void)
{
	CUgraph graph = kernels_capture(5 * NSEC_PER_MSEC, 2), same;
	CUgraphExec exec = instantiate(graph), longer;
	CUgraphNode nodes[2];
	size_t nr_nodes = 2;

	EXPECT(!cuGraphGetNodes(graph, nodes, &nr_nodes) && nr_nodes == 2);
	EXPECT(!cuStreamBeginCaptureToGraph(streams[0], graph, &nodes[1], NULL, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
	kernel_launch(streams[0], 20 * NSEC_PER_MSEC);
	EXPECT(!cuStreamEndCapture(streams[0], &same) && same == graph);
	longer = instantiate(graph);
	EXPECT(is_near(launch_ms(exec, streams[0], 1), 10) && is_near(launch_ms(longer, streams[0], 1), 30));
	EXPECT(!cuGraphExecDestroy(exec) && !cuGraphExecDestroy(longer) && !cuGraphDestroy(graph));
}

static void begin(CUstreamCaptureMode mode)
{
	EXPECT(!cuStreamBeginCapture_v2(streams[0], mode));
}

/* The capture on the first stream was made invalid and says so until it ends. */
static void expect_invalid(void)
{
	uint64_t duration_ns = 1;
	void *params[] = { &duration_ns };
	CUgraph graph = (CUgraph)1;

	EXPECT(capture_status(streams[0]) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	EXPECT(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, streams[0], params, NULL) ==
	       CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	EXPECT(cuStreamEndCapture(streams[0], &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED && !graph);
	EXPECT(capture_status(streams[0]) == CU_STREAM_CAPTURE_STATUS_NONE);
}

static void test_forbidden(void)
{
	CUevent before = event_create(), inside = event_create();
	CUdeviceptr memory;
	CUstream gone;

	EXPECT(!cuEventRecord(before, streams[1]));
	begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT(cuStreamSynchronize(streams[0]) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	expect_invalid();
	begin(CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT(cuStreamQuery(streams[0]) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	expect_invalid();
	begin(CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT(cuCtxSynchronize() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	expect_invalid();
	begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT(cuMemAlloc_v2(&memory, 4096) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	expect_invalid();
	begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT(cuStreamWaitEvent(streams[0], before, 0) == CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	expect_invalid();
	begin(CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT(!cuMemAlloc_v2(&memory, 4096) && !cuEventRecord(inside, streams[0]));
	EXPECT(cuEventQuery(inside) == CUDA_ERROR_CAPTURED_EVENT);
	expect_invalid();
	EXPECT(cuStreamWaitEvent(streams[1], inside, 0) == CUDA_ERROR_CAPTURED_EVENT);
	EXPECT(!cuEventRecord(inside, streams[0]) && !cuEventSynchronize(inside) && !cuMemFree_v2(memory));
	EXPECT(!cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
	begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
	order(streams[0], gone);
	EXPECT(!cuStreamDestroy_v2(gone));
	expect_invalid();
	EXPECT(!cuEventDestroy_v2(before) && !cuEventDestroy_v2(inside));
}

static void test_ends(void)
{
	CUevent event = event_create();
	CUgraph graph;

	EXPECT(cuStreamEndCapture(streams[0], &graph) == CUDA_ERROR_ILLEGAL_STATE);
	EXPECT(cuStreamBeginCapture_v2(NULL, 0) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT(cuStreamBeginCapture_v2(streams[0], 0) == CUDA_ERROR_ILLEGAL_STATE);
	order(streams[0], streams[1]);
	kernel_launch(streams[1], 1000);
	EXPECT(cuStreamEndCapture(streams[0], &graph) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED && !graph);
	EXPECT(capture_status(streams[1]) == CU_STREAM_CAPTURE_STATUS_NONE);
	begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
	order(streams[0], streams[1]);
	EXPECT(cuStreamEndCapture(streams[1], &graph) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	expect_invalid();
	/* Two captures do not become one. */
	begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT(!cuStreamBeginCapture_v2(streams[1], 0) && !cuEventRecord(event, streams[1]));
	EXPECT(cuStreamWaitEvent(streams[0], event, 0) == CUDA_ERROR_STREAM_CAPTURE_MERGE);
	EXPECT(cuStreamEndCapture(streams[1], &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	expect_invalid();
	EXPECT(!cuEventDestroy_v2(event));
}

/* What another thread may do while this one captures, and that it cannot end it. */
static void *other_thread(void *arg)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
	CUgraph graph;

	EXPECT(!cuThreadExchangeStreamCaptureMode(&mode) && mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT(!cuEventQuery(arg));
	EXPECT(!cuThreadExchangeStreamCaptureMode(&mode) && mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	EXPECT(capture_status(streams[0]) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	EXPECT(cuStreamEndCapture(streams[0], &graph) == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	EXPECT(cuEventQuery(arg) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	return NULL;
}

static void test_threads(void)
{
	CUevent event = event_create();
	pthread_t thread;

	begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT(!pthread_create(&thread, NULL, other_thread, event) && !pthread_join(thread, NULL));
	expect_invalid();
	EXPECT(!cuEventDestroy_v2(event));
}

static void test_info(void)
{
	CUstreamCaptureStatus status;
	CUgraph graph, same;
	uint64_t id, next_id;
	const CUgraphNode *nodes;
	size_t nr_nodes;
	CUstream blocking;

	EXPECT(!cuStreamCreate(&blocking, 0) && !cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
	kernel_launch(blocking, 1000);
	EXPECT(!cuStreamGetCaptureInfo_v2(blocking, &status, &id, &graph, &nodes, &nr_nodes));
	EXPECT(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && nr_nodes == 1 && nodes[0]);
	EXPECT(cuStreamIsCapturing(NULL, &status) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	EXPECT(!cuStreamEndCapture(blocking, &same) && same == graph);
	EXPECT(!cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
	EXPECT(!cuStreamGetCaptureInfo_v3(blocking, &status, &next_id, NULL, NULL, NULL, &nr_nodes));
	EXPECT(next_id != id && nr_nodes == 0);
	/* The legacy stream would wait for it. */
	EXPECT(cuStreamSynchronize(NULL) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	EXPECT(capture_status(blocking) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	EXPECT(!cuStreamDestroy_v2(blocking) && !cuStreamIsCapturing(NULL, &status));
	EXPECT(!cuGraphDestroy(graph));
}

static void counters_expect(ncclComm_t *comms, uint64_t all_reduces, uint64_t op_count)
{
	int i;

	for (i = 0; i < NR_RANKS; i++)
		EXPECT(comms[i]->seqNumber[FUNC_ALL_REDUCE] == all_reduces && comms[i]->opCount == op_count);
}

/* All-reduce, then a ring of transfers in a group. */
static CUgraphExec rank_capture(ncclComm_t comm, int rank)
{
	CUgraph graph;
	CUgraphExec exec;

	EXPECT(!cuStreamBeginCapture_v2(streams[rank], CU_STREAM_CAPTURE_MODE_GLOBAL));
	kernel_launch(streams[rank], NSEC_PER_MSEC);
	EXPECT(!ncclAllReduce(NULL, NULL, 1000, ncclFloat32, ncclSum, comm, streams[rank]));
	EXPECT(!ncclGroupStart());
	EXPECT(!ncclSend(NULL, 10, ncclInt8, (rank + 1) % NR_RANKS, comm, streams[rank]));
	EXPECT(!ncclRecv(NULL, 10, ncclInt8, (rank + NR_RANKS - 1) % NR_RANKS, comm, streams[rank]));
	EXPECT(!ncclGroupEnd() && !cuStreamEndCapture(streams[rank], &graph));
	exec = instantiate(graph);
	EXPECT(!cuGraphDestroy(graph));
	return exec;
}

static void eager_all_reduce(ncclComm_t *comms)
{
	int i;

	for (i = 0; i < NR_RANKS; i++)
		EXPECT(!ncclAllReduce(NULL, NULL, 7, ncclFloat32, ncclSum, comms[i], streams[i]));
}

static void test_collectives(void)
{
	struct timespec wait = { .tv_nsec = 50000000 };
	ncclComm_t comms[NR_RANKS];
	CUgraphExec execs[NR_RANKS];
	int i, round;

	EXPECT(!ncclCommInitAll(comms, NR_RANKS, NULL));
	eager_all_reduce(comms);
	for (i = 0; i < NR_RANKS; i++)
		execs[i] = rank_capture(comms[i], i);
	counters_expect(comms, 1, 1);
	/* Eager and graph collectives on one communicator, in turn; only the eager ones count. */
	for (round = 0; round < 3; round++) {
		for (i = 0; i < NR_RANKS; i++)
			EXPECT(!cuGraphLaunch(execs[i], streams[i]));
		eager_all_reduce(comms);
	}
	EXPECT(!cuCtxSynchronize());
	counters_expect(comms, 4, 4);
	/* Nobody's graph ends before the last one has launched its own. */
	for (i = 0; i < NR_RANKS - 1; i++)
		EXPECT(!cuGraphLaunch(execs[i], streams[i]));
	nanosleep(&wait, NULL);
	for (i = 0; i < NR_RANKS - 1; i++)
		EXPECT(cuStreamQuery(streams[i]) == CUDA_ERROR_NOT_READY);
	EXPECT(!cuGraphLaunch(execs[i], streams[i]) && !cuCtxSynchronize());
	counters_expect(comms, 4, 4);
	for (i = 0; i < NR_RANKS; i++)
		EXPECT(!cuGraphExecDestroy(execs[i]) && !ncclCommDestroy(comms[i]));
}

int main(void)
{
	void *symbol;
	int status;

	device_open();
	EXPECT(!cuGetProcAddress_v2("cuGraphInstantiate", &symbol, 13000, 0, &status));
	EXPECT(symbol == cuGraphInstantiateWithFlags);
	EXPECT(!cuGetProcAddress_v2("cuStreamGetCaptureInfo", &symbol, 13000, 2, &status));
	EXPECT(symbol == cuStreamGetCaptureInfo_v3_ptsz);
	test_times();
	test_update();
	test_extend();
	test_forbidden();
	test_ends();
	test_threads();
	test_info();
	test_collectives();
	printf("graphs: capture, launch and collectives in them as with CUDA and NCCL\n");
	return 0;
}
