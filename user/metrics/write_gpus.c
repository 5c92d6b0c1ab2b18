/* SPDX-License-Identifier: Apache-2.0
 *
 * write_gpus.c - GPUs: whose they are, what they do, how well they are. What NVIDIA's exporter has in more detail
 * (clocks, links, memory) is its own; ranktrace_gpu_info joins the two.
 */
#include "metrics/write.h"

#include <stdio.h>

#include "detect/gpu/gpu_role.h"

#define ROLE_WINDOW_NS 5000000000ull

struct gpu_name {
	const char *uuid;
	char index[16];
};

static const struct {
	uint64_t bit;
	const char *name;
} slowdowns[] = {
	{ GPU_SLOW_POWER_CAP, "power_cap" },   { GPU_SLOW_HW, "hardware" },
	{ GPU_SLOW_SYNC_BOOST, "sync_boost" }, { GPU_SLOW_SW_THERMAL, "sw_thermal" },
	{ GPU_SLOW_HW_THERMAL, "hw_thermal" }, { GPU_SLOW_POWER_BRAKE, "power_brake" },
};

/* The living rank that computes there, by the driver's word; of several the lowest. */
static const struct tally_rank *rank_on(const struct tally *t, const struct gpu *g)
{
	const struct tally_rank *found = NULL;

	for (const struct tally_rank *r = tally_next(t, NULL); r; r = tally_next(t, r))
		if (gpu_has_proc(g, r->proc) && (!found || r->rank < found->rank))
			found = r;
	return found;
}

static void info_write(struct page *p, const struct gpu_name *n, const struct tally *t, const struct gpu *g,
		       const struct model *m)
{
	const struct tally_rank *r = rank_on(t, g);
	char rank[16] = "";

	if (r && !r->proc->shared)
		snprintf(rank, sizeof(rank), "%d", r->rank);
	page_put(p, METRIC_GPU_INFO, 1, n->uuid, n->index, g->name, m->host ? m->host : "", r ? r->job->shown : "",
		 rank);
	page_put(p, METRIC_GPU_ANSWERS, g->answer == GPU_IS_THERE, n->uuid, n->index);
}

static void share_put(struct page *p, const struct gpu_name *n, const char *part, uint32_t bp)
{
	if (bp != GPU_NO_VALUE)
		page_put(p, METRIC_GPU_ACTIVE, bp / 1e4, n->uuid, n->index, part);
}

static void number_put(struct page *p, enum metric_id id, const struct gpu_name *n, uint32_t value, double unit)
{
	if (value != GPU_NO_VALUE)
		page_put(p, id, value * unit, n->uuid, n->index);
}

static void sample_write(struct page *p, const struct gpu_name *n, const struct gpu_sample *s)
{
	if (s->window_ns) {
		share_put(p, n, "sm", s->sm_bp);
		share_put(p, n, "tensor", s->tensor_bp);
		share_put(p, n, "dram", s->dram_bp);
		share_put(p, n, "occupancy", s->occupancy_bp);
	}
	number_put(p, METRIC_GPU_POWER, n, s->power_mw, 1e-3);
	number_put(p, METRIC_GPU_TEMPERATURE, n, s->temperature_c, 1);
	number_put(p, METRIC_GPU_CLOCK, n, s->sm_clock_mhz, 1e6);
	for (size_t i = 0; i < sizeof(slowdowns) / sizeof(slowdowns[0]) && s->slowdown != ~0ull; i++)
		page_put(p, METRIC_GPU_SLOWDOWN, (s->slowdown & slowdowns[i].bit) != 0, n->uuid, n->index,
			 slowdowns[i].name);
}

static void role_write(struct page *p, const struct gpu_name *n, const struct gpu *g, const struct model *m)
{
	static const char *const names[] = { NULL, "in_nccl", "other_kernel", "works", "idle" };
	uint64_t since_ns = m->now_ns > ROLE_WINDOW_NS ? m->now_ns - ROLE_WINDOW_NS : 0;
	const char *name = names[gpu_activity_since(g, since_ns, m->now_ns).role];

	if (name)
		page_put(p, METRIC_GPU_ROLE, 1, n->uuid, n->index, name);
}

static void errors_put(struct page *p, const struct gpu_name *n, const char *error, uint64_t value, uint64_t none)
{
	if (value != none)
		page_put(p, METRIC_GPU_ERRORS, (double)value, n->uuid, n->index, error);
}

static void fault_put(struct page *p, const struct gpu_name *n, const char *fault, uint32_t value)
{
	if (value != GPU_NO_VALUE)
		page_put(p, METRIC_GPU_FAULT, value != 0, n->uuid, n->index, fault);
}

static void health_write(struct page *p, const struct gpu_name *n, const struct gpu_health *h)
{
	errors_put(p, n, "ecc_corrected", h->ecc_corrected, ~0ull);
	errors_put(p, n, "ecc_uncorrected", h->ecc_uncorrected, ~0ull);
	errors_put(p, n, "nvlink_crc", h->nvlink_crc, ~0ull);
	errors_put(p, n, "nvlink_replay", h->nvlink_replay, ~0ull);
	errors_put(p, n, "nvlink_recovery", h->nvlink_recovery, ~0ull);
	errors_put(p, n, "pcie_replay", h->pcie_replay, ~0ull);
	errors_put(p, n, "rows_remapped", h->rows_uncorrected, GPU_NO_VALUE);
	fault_put(p, n, "remap_pending", h->rows_pending);
	fault_put(p, n, "remap_failed", h->rows_failed);
	fault_put(p, n, "page_retirement_pending", h->pages_pending);
	fault_put(p, n, "inforom", h->inforom_bad);
}

static void gpu_write(struct page *p, const struct tally *t, const struct gpu *g, const struct model *m)
{
	struct gpu_name n = { .uuid = g->uuid };

	snprintf(n.index, sizeof(n.index), "%u", g->device.index);
	info_write(p, &n, t, g, m);
	if (gpu_sample(g, 0))
		sample_write(p, &n, &gpu_sample(g, 0)->s);
	role_write(p, &n, g, m);
	if (gpu_checkup(g, 0))
		health_write(p, &n, &gpu_checkup(g, 0)->h);
}

void write_gpus(struct page *p, const struct tally *t, const struct model *m)
{
	const struct node *node = model_node(m, 0);

	for (const struct gpu *g = node ? node->gpus.all : NULL; g; g = g->next)
		if (g->device.pci != GPU_PCI_NONE)
			gpu_write(p, t, g, m);
}
