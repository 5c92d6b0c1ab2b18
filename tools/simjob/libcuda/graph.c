// SPDX-License-Identifier: Apache-2.0
/*
 * Graphs: nodes that know what they come after, in the order in which they were captured. A launch is one piece of work
 * on its stream; the stream's thread goes through the nodes and works out when each ends from when those before it end,
 * so that branches overlap in time as they do on a GPU. Only the meeting of peers happens in the order of capture.
 */
#include "tools/simjob/libcuda/device.h"

#include <stdlib.h>

/* A callback kernel's captured argument, shared by a node and its clones. */
struct kept_arg {
	_Atomic uint32_t refs;
	const struct sim_kernel *kernel;
	void *arg;
};

struct CUgraphNode_st {
	struct CUgraphNode_st *next;
	size_t index;
	struct sim_work work;
	struct kept_arg *kept; /* NULL: no callback kernel */
	struct node_set after;
	bool reached;
};

/* Only ever grows at its end: what is instantiated of it runs the nodes that there were then. */
struct node_chain {
	_Atomic uint32_t refs;
	size_t nr_nodes;
	CUgraphNode first, *tail;
};

struct CUgraph_st {
	struct node_chain *chain;
};

struct CUgraphExec_st {
	struct node_chain *chain;
	size_t nr_nodes;
	struct sim_instant *last_launch; /* launches of one exec do not overlap */
};

struct graph_run {
	struct node_chain *chain;
	size_t nr_nodes;
	double scale;
	struct sim_instant *before, *done;
	void **args;      /* of callback kernels, by node */
	uint64_t *end_ns; /* by node */
};

static _Atomic double kernel_scale = 1.0;

SIM_EXPORT void sim_graphs_scale(double factor)
{
	kernel_scale = factor;
}

int node_set_add(struct node_set *set, const struct node_set *more)
{
	CUgraphNode *nodes = realloc(set->nodes, (set->nr_nodes + more->nr_nodes) * sizeof(*nodes) + 1);
	size_t i, k;

	if (!nodes)
		return -ENOMEM;
	set->nodes = nodes;
	for (i = 0; i < more->nr_nodes; i++) {
		for (k = 0; k < set->nr_nodes && nodes[k] != more->nodes[i]; k++)
			;
		if (k == set->nr_nodes)
			nodes[set->nr_nodes++] = more->nodes[i];
	}
	return 0;
}

void node_set_clear(struct node_set *set)
{
	free(set->nodes);
	*set = (struct node_set){ 0 };
}

static void kept_put(struct kept_arg *kept)
{
	if (!kept || atomic_fetch_sub(&kept->refs, 1) > 1)
		return;
	if (kept->kernel->release)
		kept->kernel->release(kept->arg);
	free(kept);
}

static void chain_put(struct node_chain *chain)
{
	CUgraphNode node;

	if (!chain || atomic_fetch_sub(&chain->refs, 1) > 1)
		return;
	while ((node = chain->first)) {
		chain->first = node->next;
		kept_put(node->kept);
		node_set_clear(&node->after);
		free(node);
	}
	free(chain);
}

static struct node_chain *chain_get(struct node_chain *chain)
{
	atomic_fetch_add(&chain->refs, 1);
	return chain;
}

static CUgraphNode chain_append(struct node_chain *chain, const struct sim_work *work, const struct node_set *after)
{
	CUgraphNode node = calloc(1, sizeof(*node));

	if (!node || node_set_add(&node->after, after)) {
		free(node);
		return NULL;
	}
	node->work = *work;
	node->index = chain->nr_nodes++;
	*chain->tail = node;
	chain->tail = &node->next;
	return node;
}

CUgraph graph_create(void)
{
	CUgraph graph = calloc(1, sizeof(*graph));
	struct node_chain *chain = calloc(1, sizeof(*chain));

	if (!graph || !chain) {
		free(graph);
		free(chain);
		return NULL;
	}
	chain->refs = 1;
	chain->tail = &chain->first;
	graph->chain = chain;
	return graph;
}

void graph_destroy(CUgraph graph)
{
	if (!graph)
		return;
	chain_put(graph->chain);
	free(graph);
}

size_t graph_nr_nodes(CUgraph graph)
{
	return graph->chain->nr_nodes;
}

static struct kept_arg *kept_create(const struct sim_work *work)
{
	struct kept_arg *kept = calloc(1, sizeof(*kept));

	if (kept)
		*kept = (struct kept_arg){ .refs = 1, .kernel = work->kernel, .arg = work->arg };
	return kept;
}

CUgraphNode graph_append(CUgraph graph, const struct sim_work *work, const struct node_set *after)
{
	struct kept_arg *kept = NULL;
	CUgraphNode node;

	if (work->kind == WORK_CALLBACK_KERNEL && !(kept = kept_create(work)))
		return NULL;
	node = chain_append(graph->chain, work, after);
	if (node)
		node->kept = kept;
	else
		free(kept);
	return node;
}

bool graph_is_joined(CUgraph graph, size_t first, const struct node_set *ends)
{
	struct node_chain *chain = graph->chain;
	CUgraphNode *by_index = calloc(chain->nr_nodes + 1, sizeof(*by_index)), node;
	bool joined = by_index != NULL;
	size_t i, k;

	for (node = chain->first; node && by_index; node = node->next) {
		node->reached = false;
		by_index[node->index] = node;
	}
	for (k = 0; k < ends->nr_nodes; k++)
		ends->nodes[k]->reached = true;
	/* A node's number is higher than those of all that it comes after. */
	for (i = joined ? chain->nr_nodes : 0; i-- > first;) {
		joined &= by_index[i]->reached;
		for (k = 0; by_index[i]->reached && k < by_index[i]->after.nr_nodes; k++)
			by_index[i]->after.nodes[k]->reached = true;
	}
	free(by_index);
	return joined;
}

SIM_EXPORT CUresult cuGraphCreate(CUgraph *ret_graph, unsigned int flags)
{
	if (!ret_graph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_graph = graph_create();
	return *ret_graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	graph_destroy(graph);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *ret_nodes, size_t *nr_nodes)
{
	CUgraphNode node;
	size_t i = 0;

	if (!graph || !nr_nodes)
		return CUDA_ERROR_INVALID_VALUE;
	for (node = graph->chain->first; ret_nodes && node && i < *nr_nodes; node = node->next)
		ret_nodes[i++] = node;
	*nr_nodes = ret_nodes ? i : graph->chain->nr_nodes;
	return CUDA_SUCCESS;
}

/* The clone's nodes come after the clone's. */
static bool clone_link(const struct node_chain *original, CUgraphNode *clones)
{
	CUgraphNode node;
	size_t k;

	for (node = original->first; node; node = node->next) {
		for (k = 0; k < node->after.nr_nodes; k++) {
			struct node_set one = { .nodes = &clones[node->after.nodes[k]->index], .nr_nodes = 1 };

			if (node_set_add(&clones[node->index]->after, &one))
				return false;
		}
	}
	return true;
}

SIM_EXPORT CUresult cuGraphClone(CUgraph *ret_clone, CUgraph original)
{
	CUgraph clone = original ? graph_create() : NULL;
	CUgraphNode node, *clones;
	bool complete;

	if (!ret_clone || !original) {
		graph_destroy(clone);
		return CUDA_ERROR_INVALID_VALUE;
	}
	clones = calloc(original->chain->nr_nodes + 1, sizeof(*clones));
	complete = clone && clones;
	for (node = original->chain->first; complete && node; node = node->next) {
		clones[node->index] = chain_append(clone->chain, &node->work, &(struct node_set){ 0 });
		complete = clones[node->index] != NULL;
		if (complete && (clones[node->index]->kept = node->kept))
			atomic_fetch_add(&node->kept->refs, 1);
	}
	complete = complete && clone_link(original->chain, clones);
	free(clones);
	if (!complete) {
		graph_destroy(clone);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_clone = clone;
	return CUDA_SUCCESS;
}

#define INSTANTIATE_NS (200 * NSEC_PER_USEC)
#define INSTANTIATE_NODE_NS (3 * NSEC_PER_USEC)

static CUresult graph_instantiate(const char *name, CUgraphExec *ret_exec, CUgraph graph)
{
	CUresult res = call_injected_error(name);
	CUgraphExec exec;

	if (!ret_exec || !graph)
		return CUDA_ERROR_INVALID_VALUE;
	if (res)
		return res;
	sleep_until_ns(clock_now_ns() + INSTANTIATE_NS + graph->chain->nr_nodes * INSTANTIATE_NODE_NS);
	exec = calloc(1, sizeof(*exec));
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	exec->chain = chain_get(graph->chain);
	exec->nr_nodes = graph->chain->nr_nodes;
	*ret_exec = exec;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *ret_exec, CUgraph graph, unsigned long long flags)
{
	(void)flags;
	return graph_instantiate(__func__, ret_exec, graph);
}

SIM_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	if (!exec)
		return CUDA_ERROR_INVALID_VALUE;
	instant_put(exec->last_launch);
	chain_put(exec->chain);
	free(exec);
	return CUDA_SUCCESS;
}

static bool nodes_correspond(CUgraphNode a, CUgraphNode b)
{
	size_t k;

	if (a->work.kind != b->work.kind || a->after.nr_nodes != b->after.nr_nodes)
		return false;
	for (k = 0; k < a->after.nr_nodes; k++) {
		if (a->after.nodes[k]->index != b->after.nodes[k]->index)
			return false;
	}
	return true;
}

SIM_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *ret_result)
{
	CUgraphNode old, new;
	size_t i;

	if (!exec || !graph || !ret_result)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_result = (CUgraphExecUpdateResultInfo){ .result = CU_GRAPH_EXEC_UPDATE_SUCCESS };
	old = exec->chain->first;
	new = graph->chain->first;
	for (i = 0; i < exec->nr_nodes && new &&nodes_correspond(old, new); i++) {
		old = old->next;
		new = new->next;
	}
	if (i < exec->nr_nodes || new) {
		ret_result->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		ret_result->errorNode = new;
		return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	}
	chain_put(exec->chain);
	exec->chain = chain_get(graph->chain);
	return CUDA_SUCCESS;
}

void graph_run_free(struct graph_run *run)
{
	if (!run)
		return;
	instant_put(run->before);
	instant_put(run->done);
	chain_put(run->chain);
	free(run->args);
	free(run->end_ns);
	free(run);
}

static struct graph_run *run_create(CUgraphExec exec)
{
	struct graph_run *run = calloc(1, sizeof(*run));

	if (!run)
		return NULL;
	run->chain = chain_get(exec->chain);
	run->nr_nodes = exec->nr_nodes;
	run->scale = kernel_scale;
	run->done = instant_create();
	run->args = calloc(exec->nr_nodes + 1, sizeof(*run->args));
	run->end_ns = calloc(exec->nr_nodes + 1, sizeof(*run->end_ns));
	if (run->done && run->args && run->end_ns)
		return run;
	graph_run_free(run);
	return NULL;
}

/* Asks the owners of callback kernels, in the order of capture. */
static bool run_replay(struct graph_run *run)
{
	CUgraphNode node = run->chain->first;
	size_t i;

	for (i = 0; i < run->nr_nodes; i++, node = node->next) {
		if (!node->kept)
			continue;
		run->args[i] =
			node->kept->kernel->replay ? node->kept->kernel->replay(node->kept->arg) : node->kept->arg;
		if (!run->args[i])
			return false;
	}
	return true;
}

uint64_t graph_run_work(struct graph_run *run, uint64_t ready_ns)
{
	CUgraphNode node = run->chain->first;
	uint64_t last_ns = ready_ns;
	size_t i, k;

	if (run->before && instant_wait_scheduled(run->before) > ready_ns)
		last_ns = ready_ns = run->before->end_ns;
	for (i = 0; i < run->nr_nodes; i++, node = node->next) {
		struct sim_work work = node->work;
		uint64_t begin_ns = ready_ns;

		for (k = 0; k < node->after.nr_nodes; k++) {
			if (run->end_ns[node->after.nodes[k]->index] > begin_ns)
				begin_ns = run->end_ns[node->after.nodes[k]->index];
		}
		if (node->kept)
			work.arg = run->args[i];
		if (work.kind == WORK_KERNEL)
			work.duration_ns *= run->scale;
		run->end_ns[i] = work_run(&work, begin_ns);
		if (run->end_ns[i] > last_ns)
			last_ns = run->end_ns[i];
	}
	instant_schedule(run->done, last_ns);
	return last_ns;
}

static CUresult graph_launch(const char *name, CUgraphExec exec, CUstream handle)
{
	struct sim_work work = { .kind = WORK_GRAPH };
	struct CUstream_st *stream;
	CUresult res = call_injected_error(name);

	if (!exec)
		return CUDA_ERROR_INVALID_VALUE;
	if (!res && stream_is_legacy(handle))
		res = capture_permits_legacy_stream();
	if (res)
		return res;
	stream = stream_resolve(handle);
	/* A graph within a graph: not modelled, and refused before anybody has been asked for a replay. */
	if (stream && capture_takes_work(stream, &work, &res))
		return res;
	work.graph_run = stream ? run_create(exec) : NULL;
	if (!work.graph_run || !run_replay(work.graph_run)) {
		graph_run_free(work.graph_run);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	work.graph_run->before = exec->last_launch;
	exec->last_launch = instant_get(work.graph_run->done);
	return stream_enqueue(stream, &work);
}

static CUresult graph_instantiate_with(const char *name, CUgraphExec *ret_exec, CUgraph graph,
				       CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	params->hErrNode_out = NULL;
	params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
	return graph_instantiate(name, ret_exec, graph);
}

#define DEFINE_GRAPH_CALLS(SUFFIX) \
	SIM_EXPORT CUresult cuGraphInstantiateWithParams##SUFFIX(CUgraphExec *ret_exec, CUgraph graph, \
								 CUDA_GRAPH_INSTANTIATE_PARAMS *params) \
	{ \
		return graph_instantiate_with(__func__, ret_exec, graph, params); \
	} \
	SIM_EXPORT CUresult cuGraphUpload##SUFFIX(CUgraphExec exec, CUstream stream) \
	{ \
		(void)stream; \
		return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; \
	} \
	SIM_EXPORT CUresult cuGraphLaunch##SUFFIX(CUgraphExec exec, CUstream stream) \
	{ \
		return graph_launch(__func__, exec, stream); \
	}

DEFINE_GRAPH_CALLS()
DEFINE_GRAPH_CALLS(_ptsz)
