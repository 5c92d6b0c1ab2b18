// SPDX-License-Identifier: Apache-2.0
/*
 * One training step as Megatron-LM does it: micro-batches through the pipeline (1F1B), tensor-parallel all-reduces in
 * each layer, a check of the gradients on the host, gradients reduced in buckets over the data-parallel group, the
 * optimizer, and the loss over all ranks, which the host reads.
 */
#include "tools/simjob/libnccl/mix.h"
#include "tools/simjob/job/rank.h"

#include <stdio.h>
#include <string.h>

#define ACTIVATION_COUNT (2UL << 20) /* elements of bf16 that a layer hands on: 4 MiB */
#define BUCKET_COUNT (8UL << 20)     /* elements of bf16 in a gradient bucket: 16 MiB */
#define SHARD_COUNT (1UL << 20)      /* elements of bf16 of a layer's parameters that a rank has: 2 MiB */
#define KERNELS_PER_LAYER 2
#define JITTER 0.01          /* standard deviation of a kernel's duration */
#define OPTIMIZER_SHARE 0.05 /* of the step's compute time */
#define GRADIENT_BYTES (64UL << 20)
#define LOG_STEPS 10 /* the learning rate is set and the gradients' norm is read every so many steps */

double kernel_factor(struct rank *rank)
{
	return (1.0 + JITTER * random_normal(&rank->random)) * hooks_kernel_factor(rank);
}

static int launches_of_step(const struct options *options)
{
	return 2 * options->microbatches * options->layers * KERNELS_PER_LAYER + 1;
}

/* The CPU time of one launch's share of the host's work: a host that is starved takes longer over it. */
static void host_work(const struct rank *rank)
{
	const struct options *options = rank->options;
	uint64_t end_ns;

	if (options->host_ms == 0)
		return;
	end_ns = thread_cpu_ns() + (uint64_t)(options->host_ms * NSEC_PER_MSEC / launches_of_step(options));
	while (thread_cpu_ns() < end_ns)
		;
}

/* One launch's share of them: the stream that copies waits for the compute stream. */
static void cuda_events_run(struct rank *rank)
{
	const struct api *api = &rank->api;
	int launches = launches_of_step(rank->options), i,
	    nr_pairs = (rank->options->cuda_events / 2 + launches - 1) / launches;

	if (!rank->copy || rank->capturing)
		return;
	for (i = 0; i < nr_pairs; i++) {
		cuda_check(api, api->cuEventRecord(rank->copy_event, rank->compute), "cuEventRecord");
		cuda_check(api, api->cuStreamWaitEvent(rank->copy, rank->copy_event, 0), "cuStreamWaitEvent");
	}
}

void compute_launch(struct rank *rank, double duration_ns)
{
	const struct api *api = &rank->api;
	uint64_t kernel_ns = rank->capturing ? duration_ns : duration_ns * kernel_factor(rank);
	void *params[] = { &kernel_ns };
	CUdevice device;

	host_work(rank);
	/* PyTorch asks for the current device before each launch; there is no hotter function in a real job. */
	cuda_check(api, api->cuCtxGetDevice(&device), "cuCtxGetDevice");
	cuda_check(api, api->cuLaunchKernel(rank->kernel, 256, 1, 1, 256, 1, 1, 0, rank->compute, params, NULL),
		   "cuLaunchKernel");
	cuda_events_run(rank);
}

void compute_synchronize(struct rank *rank)
{
	if (rank->turn)
		stream_await(rank);
	else
		cuda_check(&rank->api, rank->api.cuStreamSynchronize(rank->compute), "cuStreamSynchronize");
}

/* Forward of one layer of one micro-batch; backward takes twice as long. */
static double layer_forward_ns(const struct rank *rank)
{
	const struct options *options = rank->options;
	double compute_ns = options->step_ms * NSEC_PER_MSEC * (1.0 - OPTIMIZER_SHARE);

	return compute_ns / (3.0 * options->layers * options->microbatches);
}

static void layer_run(struct rank *rank, double layer_ns)
{
	struct op_call call = { .kind = OP_ALL_REDUCE, .count = ACTIVATION_COUNT, .datatype = ncclBfloat16 };
	int kernel;

	for (kernel = 0; kernel < KERNELS_PER_LAYER; kernel++)
		compute_launch(rank, layer_ns / KERNELS_PER_LAYER);
	if (rank->tp.comm)
		op_run(rank, &rank->tp, &call);
}

static void shard_op_run(struct rank *rank, enum op_kind kind, const char *what, int layer)
{
	struct op_call call = { .kind = kind, .count = SHARD_COUNT, .datatype = ncclBfloat16 };
	struct sim_range *range;
	char name[64];

	snprintf(name, sizeof(name), "FSDP::%s (layers.%d)", what, layer);
	range = range_open(rank, name);
	op_run(rank, &rank->dp, &call);
	range_close(rank, range);
}

/* As FSDP2 does it, with the ranges that it has around each layer. */
static void layer_sharded_run(struct rank *rank, double layer_ns, int layer, bool is_backward)
{
	struct sim_range *range = range_open(rank, is_backward ? "FSDP::pre_backward" : "FSDP::pre_forward");

	shard_op_run(rank, OP_ALL_GATHER, "all_gather", layer);
	range_close(rank, range_open(rank, "FSDP::all_gather_copy_out"));
	range_close(rank, range);
	layer_run(rank, layer_ns);
	range = range_open(rank, is_backward ? "FSDP::post_backward_reshard" : "FSDP::post_forward");
	range_close(rank, range);
	if (is_backward)
		shard_op_run(rank, OP_REDUCE_SCATTER, "post_backward_reduce", layer);
}

/* @first_graph: of as many graphs as there are layers; 0 is the forward's. */
static void layers_run(struct rank *rank, double layer_ns, int first_graph)
{
	int layer;

	for (layer = 0; layer < rank->options->layers; layer++) {
		if (graphs_are_used(rank, GRAPH_LAYERS))
			graph_run(rank, first_graph + layer, layer_run, layer_ns);
		else if (rank->options->sharded)
			layer_sharded_run(rank, layer_ns, layer, first_graph > 0);
		else
			layer_run(rank, layer_ns);
	}
}

void forward_run(struct rank *rank)
{
	part_begin(rank, PART_FORWARD);
	layers_run(rank, layer_forward_ns(rank), 0);
	part_end(rank, PART_FORWARD);
}

static void layers_run_back(struct rank *rank)
{
	layers_run(rank, 2 * layer_forward_ns(rank), rank->options->layers);
}

static void backward_run(struct rank *rank)
{
	backward_call(rank, layers_run_back);
}

/* From pinned memory, as a dataloader with pin_memory gives it. */
static void batch_upload(struct rank *rank)
{
	const char *pinned = memcpy(rank->allocator.pinned, rank->batch, BATCH_BYTES);
	struct job_comm *comms[] = { &rank->world, &rank->dp, &rank->tp, &rank->pp };
	uint64_t word = mix_bytes(rank->batch, BATCH_BYTES);
	size_t i;

	for (i = 0; i < sizeof(comms) / sizeof(comms[0]); i++) {
		if (comms[i]->comm)
			comms[i]->api->sim_comm_feed(comms[i]->comm, word);
	}

	cuda_check(&rank->api, rank->api.cuMemcpyHtoDAsync_v2(rank->buffer, pinned, BATCH_BYTES, rank->compute),
		   "cuMemcpyHtoDAsync");
}

enum towards { TO_NEXT = 1, TO_PREVIOUS = -1 };

/* A transfer with a neighbour; both directions at once go into a group, as they would block each other otherwise. */
static void neighbour_exchange(struct rank *rank, enum towards towards, bool sends, bool receives)
{
	struct job_comm *pp = &rank->pp;
	int peer = rank->position.pp + towards;
	struct op_call call = {
		.kind = OP_SEND, .count = ACTIVATION_COUNT, .datatype = ncclBfloat16, .root_or_peer = peer
	};
	bool both = sends && receives;

	if (peer < 0 || peer >= rank->options->pp)
		return;
	op_begin(rank, pp);
	if (both)
		nccl_check(&rank->api, rank->api.ncclGroupStart(), pp->comm, "ncclGroupStart");
	if (sends)
		op_call(rank, pp, &call);
	call.kind = OP_RECV;
	if (receives)
		op_call(rank, pp, &call);
	if (both)
		nccl_check(&rank->api, rank->api.ncclGroupEnd(), pp->comm, "ncclGroupEnd");
	work_wait(rank, op_finish(rank, pp, sends ? OP_SEND : OP_RECV));
}

/* Megatron's one-forward-one-backward schedule; with one stage it is a loop over the micro-batches. */
static void pipeline_run(struct rank *rank)
{
	int nr = rank->options->microbatches;
	int warm_up = rank->options->pp - rank->position.pp - 1;
	int i;

	if (warm_up > nr)
		warm_up = nr;
	for (i = 0; i < warm_up; i++) {
		neighbour_exchange(rank, TO_PREVIOUS, false, true);
		forward_run(rank);
		neighbour_exchange(rank, TO_NEXT, true, false);
	}
	if (nr > warm_up)
		neighbour_exchange(rank, TO_PREVIOUS, false, true);
	for (i = warm_up; i < nr; i++) {
		forward_run(rank);
		neighbour_exchange(rank, TO_NEXT, true, true);
		backward_run(rank);
		neighbour_exchange(rank, TO_PREVIOUS, true, i + 1 < nr);
	}
	for (i = 0; i < warm_up; i++) {
		neighbour_exchange(rank, TO_NEXT, false, true);
		backward_run(rank);
		neighbour_exchange(rank, TO_PREVIOUS, true, false);
	}
}

/* Buckets differ in size, as DDP's do; each size is a multiple of the group for ZeRO. */
static size_t bucket_count(const struct rank *rank, int bucket)
{
	size_t shard_count = (BUCKET_COUNT >> (bucket % 3)) / rank->dp.size;

	return shard_count * rank->dp.size;
}

/* Issues all buckets, then makes the compute stream wait for each: they overlap with nothing but one another. */
static void buckets_run(struct rank *rank, enum op_kind kind)
{
	bool is_last_run = kind == OP_ALL_GATHER || !rank->options->zero;
	int i, nr = rank->options->buckets;
	struct work *works[64];

	for (i = 0; i < nr; i++) {
		struct op_call call = { .kind = kind, .count = bucket_count(rank, i), .datatype = ncclBfloat16 };

		if (kind != OP_ALL_REDUCE)
			call.count /= rank->dp.size;
		if (is_last_run && i == nr - 1)
			hooks_before_last_bucket(rank, &call);
		op_begin(rank, &rank->dp);
		op_call(rank, &rank->dp, &call);
		works[i] = op_finish(rank, &rank->dp, kind);
		if (is_last_run && i == nr - 1)
			hooks_after_last_bucket(rank, &call);
	}
	for (i = 0; i < nr; i++)
		work_wait(rank, works[i]);
}

void loss_reduce(struct rank *rank)
{
	struct op_call call = { .kind = OP_ALL_REDUCE, .count = 2, .datatype = ncclFloat32 };

	if (!rank->is_loss_reduced)
		op_run(rank, &rank->world, &call);
	rank->is_loss_reduced = false;
}

/* loss.item(): averaged over the world, copied to the host, waited for. */
static void loss_read(struct rank *rank)
{
	float loss[2];

	loss_reduce(rank);
	cuda_check(&rank->api, rank->api.cuMemcpyDtoHAsync_v2(loss, rank->buffer, sizeof(loss), rank->compute),
		   "cuMemcpyDtoHAsync");
	compute_synchronize(rank);
}

static void gradients_clear(struct rank *rank)
{
	cuda_check(&rank->api, rank->api.cuMemsetD8Async(rank->buffer, 0, GRADIENT_BYTES, rank->compute),
		   "cuMemsetD8Async");
}

static void parameters_update(void *arg)
{
	struct rank *rank = arg;

	compute_launch(rank, rank->options->step_ms * NSEC_PER_MSEC * OPTIMIZER_SHARE);
}

static void optimizer_run(struct rank *rank)
{
	part_begin(rank, PART_OPTIMIZER);
	optimizer_call(rank, parameters_update);
	part_end(rank, PART_OPTIMIZER);
}

/* All of a step that is the GPU's: what --graph step makes one graph of, in which the host cannot check gradients. */
static void gpu_step_run(struct rank *rank, double unused)
{
	const struct options *options = rank->options;

	(void)unused;
	gradients_zero(rank, gradients_clear);
	pipeline_run(rank);
	/* Megatron's check_for_nan_in_grad: no rank reduces a gradient that it has not seen to be finite. */
	if (options->sync == SYNC_NAN_CHECK && !rank->capturing)
		compute_synchronize(rank);
	if (rank->dp.comm && !options->sharded)
		buckets_run(rank, options->zero ? OP_REDUCE_SCATTER : OP_ALL_REDUCE);
	optimizer_run(rank);
	if (rank->dp.comm && options->zero)
		buckets_run(rank, OP_ALL_GATHER);
}

/* The kernels of the optimizer come when they are first needed. */
static void optimizer_load(struct rank *rank)
{
	if (!rank->optimizer)
		cuda_check(&rank->api,
			   rank->api.cuLibraryLoadData(&rank->optimizer, "an optimizer", NULL, NULL, 0, NULL, NULL, 0),
			   "cuLibraryLoadData");
}

/* Blocking copies, on the default stream. */
static void scalars_exchange(struct rank *rank)
{
	const struct api *api = &rank->api;
	float learning_rate = 0.001f, norm;

	cuda_check(api, api->cuMemcpyHtoD_v2(rank->buffer, &learning_rate, sizeof(learning_rate)), "cuMemcpyHtoD");
	cuda_check(api, api->cuMemcpyDtoH_v2(&norm, rank->buffer, sizeof(norm)), "cuMemcpyDtoH");
}

/* Of the host, when the step's work has been handed in: PyTorch asks whether memory used on other streams is free. */
static void step_finish(struct rank *rank)
{
	CUresult res = rank->api.cuStreamQuery(rank->compute);
	int i;

	if (res != CUDA_ERROR_NOT_READY)
		cuda_check(&rank->api, res, "cuStreamQuery");
	hooks_in_part(rank, PART_OTHER);
	for (i = 0; i < rank->options->script_ranges; i++)
		range_close(rank, range_open(rank, "by the script"));
	loss_read(rank);
	if (rank->step % LOG_STEPS == LOG_STEPS - 1)
		scalars_exchange(rank);
	allocator_step(rank);
}

void step_run(struct rank *rank)
{
	const struct options *options = rank->options;

	rank->op_in_step = 0;
	optimizer_load(rank);
	dataloader_next(rank);
	batch_upload(rank);
	if (graphs_are_used(rank, GRAPH_STEP))
		graph_run(rank, 0, gpu_step_run, 0);
	else
		gpu_step_run(rank, 0);
	if (options->extra_ops && rank->step % 4 == 3)
		extra_ops_run(rank);
	step_finish(rank);
	rank->ops_last_step = rank->op_in_step;
}

/* The replicas start from the same parameters: a broadcast of each layer's within the data-parallel group. */
void params_broadcast(struct rank *rank)
{
	struct op_call call = { .kind = OP_BROADCAST, .count = BUCKET_COUNT, .datatype = ncclBfloat16 };
	int i;

	for (i = 0; rank->dp.comm && i < rank->options->layers; i++)
		op_run(rank, &rank->dp, &call);
	compute_synchronize(rank);
}

/* torch.distributed.barrier() is an all-reduce of one element that the host waits for. */
void world_barrier(struct rank *rank)
{
	struct op_call call = { .kind = OP_ALL_REDUCE, .count = 1, .datatype = ncclFloat32 };

	op_run(rank, &rank->world, &call);
	compute_synchronize(rank);
}
