// SPDX-License-Identifier: Apache-2.0
/*
 * CUDA graphs (--graph) the way PyTorch's users have them: some eager steps, then a piece of the step is captured once
 * on a side stream, with the communicators' streams joining through events, and launched ever after. NCCL is called at
 * the capture only; what runs in a launch is logged when it is launched, and faults strike there.
 */
#include "tools/simjob/job/job_log.h"
#include "tools/simjob/job/rank.h"

#include <stdio.h>
#include <stdlib.h>

#define WARM_UP_STEPS 3

void graphs_create(struct rank *rank)
{
	const struct options *options = rank->options;

	rank->graph_from_step = rank->step + WARM_UP_STEPS;
	if (options->graph == GRAPH_NONE || rank->graphs)
		return;
	/* The step's, or forward and backward of each layer. */
	rank->nr_graphs = options->graph == GRAPH_STEP ? 1 : 2 * options->layers;
	rank->graphs = calloc(rank->nr_graphs, sizeof(*rank->graphs));
	if (!rank->graphs) {
		fprintf(stderr, "simjob: rank %d: out of memory\n", rank->rank);
		exit(1);
	}
	cuda_check(&rank->api, rank->api.cuStreamCreateWithPriority(&rank->side, CU_STREAM_NON_BLOCKING, 0),
		   "cuStreamCreateWithPriority");
}

void graphs_destroy(struct rank *rank)
{
	int i;

	for (i = 0; rank->graphs && i < rank->nr_graphs; i++) {
		if (rank->graphs[i].exec)
			cuda_check(&rank->api, rank->api.cuGraphExecDestroy(rank->graphs[i].exec),
				   "cuGraphExecDestroy");
		free(rank->graphs[i].ops);
	}
	if (rank->graphs)
		cuda_check(&rank->api, rank->api.cuStreamDestroy_v2(rank->side), "cuStreamDestroy");
	free(rank->graphs);
	rank->graphs = NULL;
}

bool graphs_are_used(const struct rank *rank, enum graph_mode mode)
{
	return rank->options->graph == mode && !rank->capturing && rank->step >= rank->graph_from_step;
}

void graph_note_op(struct rank *rank, struct job_comm *comm, const struct op_call *call)
{
	struct step_graph *graph = rank->capturing;
	struct graph_op *ops = realloc(graph->ops, (graph->nr_ops + 1) * sizeof(*ops));

	if (!ops) {
		fprintf(stderr, "simjob: rank %d: out of memory\n", rank->rank);
		exit(1);
	}
	ops[graph->nr_ops++] = (struct graph_op){ comm, *call };
	graph->ops = ops;
}

static void streams_swap(struct rank *rank)
{
	CUstream compute = rank->compute;

	rank->compute = rank->side;
	rank->side = compute;
}

/* torch.cuda.graph(): waits for the device, captures on a side stream in the global mode, instantiates. */
static void graph_capture(struct rank *rank, struct step_graph *graph, graph_body_fn body, double layer_ns)
{
	const struct api *api = &rank->api;
	CUgraph captured;

	cuda_check(api, api->cuCtxSynchronize(), "cuCtxSynchronize");
	rank->capturing = graph;
	streams_swap(rank);
	cuda_check(api, api->cuStreamBeginCapture_v2(rank->compute, CU_STREAM_CAPTURE_MODE_GLOBAL),
		   "cuStreamBeginCapture");
	body(rank, layer_ns);
	cuda_check(api, api->cuStreamEndCapture(rank->compute, &captured), "cuStreamEndCapture");
	streams_swap(rank);
	rank->capturing = NULL;
	cuda_check(api, api->cuGraphInstantiateWithFlags(&graph->exec, captured, 0), "cuGraphInstantiate");
	cuda_check(api, api->cuGraphDestroy(captured), "cuGraphDestroy");
}

/* A fault that would strike at an operation of the graph strikes before the launch, in front of the first one. */
static void ops_announce(struct rank *rank, const struct step_graph *graph)
{
	uint64_t now_ns;
	int i;

	for (i = 0; i < graph->nr_ops; i++) {
		struct op_call first = graph->ops[0].call;

		hooks_before_op(rank, graph->ops[0].comm, &first);
		rank->op_in_step++;
	}
	now_ns = clock_now_ns();
	for (i = 0; i < graph->nr_ops; i++)
		op_log(rank, graph->ops[i].comm, &graph->ops[i].call, now_ns);
}

void graph_run(struct rank *rank, int index, graph_body_fn body, double layer_ns)
{
	struct step_graph *graph = &rank->graphs[index];

	if (!graph->exec)
		graph_capture(rank, graph, body, layer_ns);
	rank->launching = true;
	ops_announce(rank, graph);
	rank->launching = false;
	rank->api.sim_graphs_scale(kernel_factor(rank));
	cuda_check(&rank->api, rank->api.cuGraphLaunch(graph->exec, rank->compute), "cuGraphLaunch");
}
