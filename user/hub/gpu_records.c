/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_records.c - what a report says of GPUs as records: which they are, who computes on them, how busy they were.
 * Their errors come as findings of the node.
 */
#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "hub/record_feed.h"
#include "tracers/gpu/wire/gpu.h"

struct fed_gpu { /* by host and index */
	struct keyed keyed;
	uint64_t device, procs, usage; /* hashes of what was fed; 0 nothing */
	uint64_t sampled_raw_ns;
};

static uint32_t value(protobuf_c_boolean has, uint32_t v)
{
	return has ? v : GPU_NO_VALUE;
}

static int device_feed(const struct feed_to *to, const Cluster__Gpu *g)
{
	union {
		struct record_gpu_device f;
		char bytes[sizeof(struct record_gpu_device) + 272];
	} u = {};

	u.f.hdr = record_hdr(to, RECORD_GPU_DEVICE, sizeof(u.f), 0);
	u.f.body = (struct gpu_device){
		.index = g->index,
		.n_gpus = g->n_gpus,
		.pci = g->has_pci ? g->pci : GPU_PCI_NONE,
		.pcie_width_max = GPU_NO_VALUE,
		.pcie_gen_max = GPU_NO_VALUE,
		.power_limit_mw = GPU_NO_VALUE,
		.sm_clock_max_mhz = GPU_NO_VALUE,
		.n_nvlinks = GPU_NO_VALUE,
	};
	u.f.body.name_len = record_text_put(&u.f.hdr, sizeof(u.f) + 128, g->name);
	u.f.body.uuid_len = record_text_put(&u.f.hdr, sizeof(u) - 8, g->uuid);
	record_pad(&u.f.hdr);
	return pipeline_feed(to->pipeline, &u.f.hdr);
}

static int procs_feed(const struct feed_to *to, const Cluster__Gpu *g)
{
	struct record_gpu_procs f = { .hdr = record_hdr(to, RECORD_GPU_PROCS, sizeof(f), 0),
				      .body = { .index = g->index } };

	for (size_t i = 0; i < g->n_pids && i < GPU_PIDS_MAX; i++)
		f.body.pids[f.body.n++] = g->pids[i];
	return pipeline_feed(to->pipeline, &f.hdr);
}

static int usage_feed(const struct feed_to *to, const Cluster__Gpu *g)
{
	int err = 0;

	for (size_t i = 0; i < g->n_pids && i < GPU_PIDS_MAX && !err; i++) {
		uint32_t memory = i < g->n_memory_mib ? g->memory_mib[i] : 0;
		uint32_t sm = i < g->n_sm_percent ? g->sm_percent[i] : 0;
		struct record_gpu_usage f = { .hdr = record_hdr(to, RECORD_GPU_USAGE, sizeof(f), 0),
					      .body = { .index = g->index,
							.pid = g->pids[i],
							.memory_mib = value(memory != 0, memory),
							.sm_percent = value(sm != 0, sm - 1) } };

		err = memory || sm ? pipeline_feed(to->pipeline, &f.hdr) : 0;
	}
	return err;
}

static int sample_feed(const struct feed_to *to, const Cluster__Gpu *g)
{
	struct record_gpu_sample f = { .hdr = record_hdr(to, RECORD_GPU_SAMPLE, sizeof(f), 0) };

	f.hdr.ts_ns = feed_time(to, g->sampled_age_ns);
	f.body = (struct gpu_sample){
		.index = g->index,
		.window_ns = g->window_ns,
		.sm_bp = value(g->has_sm_bp, g->sm_bp),
		.tensor_bp = value(g->has_tensor_bp, g->tensor_bp),
		.dram_bp = value(g->has_dram_bp, g->dram_bp),
		.occupancy_bp = value(g->has_occupancy_bp, g->occupancy_bp),
		.power_mw = value(g->has_power_mw, g->power_mw),
		.temperature_c = value(g->has_temperature_c, g->temperature_c),
		.sm_clock_mhz = value(g->has_sm_clock_mhz, g->sm_clock_mhz),
		.mem_clock_mhz = value(g->has_mem_clock_mhz, g->mem_clock_mhz),
		.slowdown = g->slowdown,
	};
	return pipeline_feed(to->pipeline, &f.hdr);
}

static uint64_t device_hash(const Cluster__Gpu *g)
{
	uint64_t h = hash_text(hash_text(1, g->name ? g->name : ""), g->uuid ? g->uuid : "");

	return hash_mix(hash_mix(h, g->pci), g->n_gpus) | 1;
}

static uint64_t procs_hash(const Cluster__Gpu *g)
{
	uint64_t h = 1;

	for (size_t i = 0; i < g->n_pids; i++)
		h = hash_mix(h, g->pids[i]);
	return h | 1;
}

static uint64_t usage_hash(const Cluster__Gpu *g)
{
	uint64_t h = 1;

	for (size_t i = 0; i < g->n_memory_mib; i++)
		h = hash_mix(h, g->memory_mib[i]);
	for (size_t i = 0; i < g->n_sm_percent; i++)
		h = hash_mix(h, g->sm_percent[i]);
	return h | 1;
}

int gpu_feed(struct keyed_table *fed, const struct feed_to *to, const Cluster__Gpu *g)
{
	struct fed_gpu *one = keyed_get(fed, to->host->number, g->index, sizeof(*one));
	uint64_t device = device_hash(g), procs = procs_hash(g), usage = hash_mix(procs, usage_hash(g));
	uint64_t raw_ns =
		g->has_sampled_age_ns && g->sampled_age_ns < to->now_raw_ns ? to->now_raw_ns - g->sampled_age_ns : 0;
	int err = 0;

	if (!one)
		return -ENOMEM;
	if (one->device != device)
		err = device_feed(to, g);
	if (one->procs != procs && !err)
		err = procs_feed(to, g);
	if (one->usage != usage && !err)
		err = usage_feed(to, g);
	if (raw_ns > one->sampled_raw_ns && g->has_window_ns && !err)
		err = sample_feed(to, g);
	one->device = device;
	one->procs = procs;
	one->usage = usage;
	one->sampled_raw_ns = raw_ns > one->sampled_raw_ns ? raw_ns : one->sampled_raw_ns;
	return err;
}
