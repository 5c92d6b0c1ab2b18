/* SPDX-License-Identifier: Apache-2.0
 *
 * parallel.c - see parallel.h. Launchers lay ranks out as a grid: rank = tp + TP * (dp + DP * pp). So a tensor-parallel
 * group is neighbours, a data-parallel one is TP apart, a pipeline TP * DP, and together they fill the job. Each must
 * be the only one of its stride, and be used as such: context parallelism, hybrid sharding, experts and the pipeline's
 * embedding groups have the same strides, and show by a second communicator, by Send and Recv, or by AlltoAll. A
 * pipeline is also known alone: its stages send both ways, a ring sends one way.
 */
#include <stddef.h>
#include <string.h>

#include "job/parallel.h"

#define CALLS_MIN 8 /* of a communicator, all its ranks together: fewer are a set-up */

const char *parallelism_name(enum parallelism p)
{
	static const char *const names[] = {
		[PARALLEL_TENSOR] = "tp",
		[PARALLEL_DATA] = "dp",
		[PARALLEL_PIPELINE] = "pp",
		[PARALLEL_EXPERT] = "ep",
	};

	return names[p];
}

/* NULL: none has this stride, or several have. The one of all ranks is no part of the grid. */
static const struct comm_shape *only_of(const struct comm_shape *shapes, int n, int stride, int world)
{
	const struct comm_shape *found = NULL;

	for (int i = 0; i < n; i++) {
		if (shapes[i].stride != stride || shapes[i].n >= world)
			continue;
		if (found)
			return NULL;
		found = &shapes[i];
	}
	return found;
}

static bool only_collectives(const struct comm_shape *s)
{
	return s->collectives >= CALLS_MIN && !s->transfers && !s->others;
}

static bool only_transfers(const struct comm_shape *s)
{
	return s->transfers >= CALLS_MIN && !s->others && s->collectives * 10 <= s->transfers;
}

struct grid {
	const struct comm_shape *tensor, *data, *pipeline; /* pipeline: NULL where there is one stage */
};

static bool grid_find(const struct comm_shape *shapes, int n, int world, struct grid *g)
{
	g->tensor = only_of(shapes, n, 1, world);
	g->data = g->tensor ? only_of(shapes, n, g->tensor->n, world) : NULL;
	if (!g->data || !only_collectives(g->tensor) || !only_collectives(g->data))
		return false;
	g->pipeline = only_of(shapes, n, g->tensor->n * g->data->n, world);
	if (g->pipeline && !only_transfers(g->pipeline))
		return false;
	return g->tensor->n * g->data->n * (g->pipeline ? g->pipeline->n : 1) == world &&
	       g->data->all_reduces + g->data->reduce_scatters;
}

/* Sharded over a host and replicated over hosts looks alike, but the shards are gathered and scattered, never reduced
 * whole, and their copies are. */
static bool is_tensor(const struct grid *g)
{
	return g->tensor->one_host &&
	       (2 * g->tensor->all_reduces >= g->tensor->collectives || g->data->reduce_scatters);
}

enum parallelism parallelism_of(const struct comm_shape *shapes, int n, int which, int world)
{
	const struct comm_shape *s = &shapes[which];
	struct grid g;

	if (only_transfers(s) && s->n > 2 && s->both_ways)
		return PARALLEL_PIPELINE;
	if (!grid_find(shapes, n, world, &g))
		return PARALLEL_UNKNOWN;
	if (s == g.tensor && is_tensor(&g))
		return PARALLEL_TENSOR;
	return s == g.data ? PARALLEL_DATA : s == g.pipeline ? PARALLEL_PIPELINE : PARALLEL_UNKNOWN;
}

/* Megatron-core's parallel_state.py; names of dimensions that torchtitan and PyTorch's own examples give a DeviceMesh,
 * which calls its groups "mesh_" and that. Groups of several dimensions are none of these. */
static const struct {
	const char *name;
	enum parallelism is;
} group_names[] = {
	{ "TENSOR_MODEL_PARALLEL_GROUP", PARALLEL_TENSOR },
	{ "EXPERT_TENSOR_PARALLEL_GROUP", PARALLEL_TENSOR },
	{ "DATA_PARALLEL_GROUP", PARALLEL_DATA },
	{ "DATA_PARALLEL_GROUP_WITH_CP", PARALLEL_DATA },
	{ "PIPELINE_MODEL_PARALLEL_GROUP", PARALLEL_PIPELINE },
	{ "EXPERT_MODEL_PARALLEL_GROUP", PARALLEL_EXPERT },
	{ "mesh_tp", PARALLEL_TENSOR },
	{ "mesh_dp", PARALLEL_DATA },
	{ "mesh_dp_replicate", PARALLEL_DATA },
	{ "mesh_dp_shard", PARALLEL_DATA },
	{ "mesh_fsdp", PARALLEL_DATA },
	{ "mesh_pp", PARALLEL_PIPELINE },
	{ "mesh_ep", PARALLEL_EXPERT },
};

enum parallelism parallelism_of_group(const char *name)
{
	for (size_t i = 0; i < sizeof(group_names) / sizeof(group_names[0]); i++)
		if (!strcmp(name, group_names[i].name))
			return group_names[i].is;
	return PARALLEL_UNKNOWN;
}
