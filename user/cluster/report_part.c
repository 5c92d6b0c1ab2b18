/* SPDX-License-Identifier: Apache-2.0
 *
 * report_part.c - see report_part.h.
 */
#include "cluster/report_part.h"

#include <stdlib.h>

#include "detect/gpu/gpu_role.h"

#define BLOCK_BYTES (2u << 20)
#define GPU_SINCE_NS 4000000000ull

bool report_block_init(struct report_block *b)
{
	b->bytes = malloc(BLOCK_BYTES);
	return b->bytes;
}

void report_block_free(struct report_block *b)
{
	free(b->bytes);
}

void report_block_reset(struct report_block *b)
{
	b->used = 0;
	b->left_out = 0;
}

void *report_alloc(struct report_block *b, size_t size)
{
	void *at = b->bytes + b->used;

	size = (size + 15) & ~(size_t)15;
	if (size > BLOCK_BYTES - b->used)
		return NULL;
	b->used += size;
	return at;
}

void *report_list(struct report_block *b, size_t n)
{
	return report_alloc(b, (n + 1) * sizeof(void *));
}

/* --- processes --- */

static void identity_put(Cluster__Process *to, const struct proc *p, const struct event_proc *who)
{
	to->pid = p->tgid;
	to->start_ns = p->start_ns;
	to->parent = p->parent_tgid;
	to->ns_pid = p->ns_pid;
	to->rank = p->rank;
	to->local_rank = p->local_rank;
	to->world_size = p->world_size;
	to->is_child = p->is_child;
	to->user = who->user;
	to->netns = who->netns;
	to->has_pid = to->has_start_ns = to->has_parent = to->has_ns_pid = to->has_rank = to->has_local_rank =
		to->has_world_size = 1;
	to->has_is_child = p->is_child;
	to->has_user = who->user != 0;
	to->has_netns = who->netns != 0;
	to->job = report_text(p->job->name);
	to->name = report_text(p->name);
	to->container = report_text(p->container);
	to->pod = report_text(p->pod);
	to->pod_name = report_text(p->pod_name);
	to->namespace_ = report_text(p->namespace);
	to->cgroup = report_text(who->cgroup);
	to->slurm_job = report_text(p->slurm_job);
	to->slurm_step = report_text(p->slurm_step);
}

static void end_put(Cluster__Process *to, const struct proc *p, uint64_t now_ns)
{
	to->has_dead = to->has_exit_code = to->has_exit_signal = to->has_exit_age_ns = p->dead;
	to->dead = p->dead;
	to->exit_code = (uint32_t)p->exit_code & 0xff;
	to->exit_signal = (uint32_t)p->exit_signal & 0x7f;
	to->exit_age_ns = report_age(now_ns, p->exit_ns);
}

Cluster__Process *report_process(struct report_block *b, const struct proc *p, const struct event_proc *who,
				 const struct model *m)
{
	static const Cluster__Process none = CLUSTER__PROCESS__INIT;
	Cluster__Process *to = report_alloc(b, sizeof(*to));

	if (!to)
		return NULL;
	*to = none;
	identity_put(to, p, who);
	end_put(to, p, m->now_ns);
	report_members(b, p, to, m);
	if (!p->dead) {
		report_threads(b, p, to, m->now_ns);
		report_calls(b, p, to, m->now_ns);
	}
	return to;
}

/* --- GPUs --- */

static Cluster__Gpu__Class class_of(enum gpu_role role)
{
	switch (role) {
	case GPU_ROLE_IN_NCCL: return CLUSTER__GPU__CLASS__IN_NCCL;
	case GPU_ROLE_OTHER_KERNEL: return CLUSTER__GPU__CLASS__OTHER_KERNEL;
	case GPU_ROLE_WORKS: return CLUSTER__GPU__CLASS__WORKS;
	case GPU_ROLE_IDLE: return CLUSTER__GPU__CLASS__IDLE;
	default: return CLUSTER__GPU__CLASS__UNKNOWN;
	}
}

static void gpu_sample_put(Cluster__Gpu *to, const struct gpu_sample *s)
{
	to->has_window_ns = s->window_ns != 0;
	to->window_ns = s->window_ns;
	to->sm_bp = s->sm_bp;
	to->tensor_bp = s->tensor_bp;
	to->dram_bp = s->dram_bp;
	to->occupancy_bp = s->occupancy_bp;
	to->power_mw = s->power_mw;
	to->temperature_c = s->temperature_c;
	to->sm_clock_mhz = s->sm_clock_mhz;
	to->mem_clock_mhz = s->mem_clock_mhz;
	to->slowdown = s->slowdown;
	to->has_sm_bp = s->sm_bp != GPU_NO_VALUE;
	to->has_tensor_bp = s->tensor_bp != GPU_NO_VALUE;
	to->has_dram_bp = s->dram_bp != GPU_NO_VALUE;
	to->has_occupancy_bp = s->occupancy_bp != GPU_NO_VALUE;
	to->has_power_mw = s->power_mw != GPU_NO_VALUE;
	to->has_temperature_c = s->temperature_c != GPU_NO_VALUE;
	to->has_sm_clock_mhz = s->sm_clock_mhz != GPU_NO_VALUE;
	to->has_mem_clock_mhz = s->mem_clock_mhz != GPU_NO_VALUE;
	to->has_slowdown = s->slowdown != 0;
}

/* 0: not known. */
static uint32_t one_more(uint32_t value)
{
	return value == GPU_NO_VALUE ? 0 : value + 1;
}

static void gpu_usage_put(struct report_block *b, Cluster__Gpu *to, const struct gpu *g)
{
	uint32_t *memory = report_alloc(b, to->n_pids * sizeof(*memory));
	uint32_t *sm = report_alloc(b, to->n_pids * sizeof(*sm));

	if (!memory || !sm)
		return;
	for (size_t i = 0; i < to->n_pids; i++) {
		const struct gpu_usage *u = gpu_usage_of(g, to->pids[i]);

		memory[i] = u && u->memory_mib != GPU_NO_VALUE ? u->memory_mib : 0;
		sm[i] = u ? one_more(u->sm_percent) : 0;
	}
	to->memory_mib = memory;
	to->sm_percent = sm;
	to->n_memory_mib = to->n_sm_percent = to->n_pids;
}

Cluster__Gpu *report_gpu(struct report_block *b, const struct gpu *g, uint64_t now_ns)
{
	static const Cluster__Gpu none = CLUSTER__GPU__INIT;
	const struct gpu_sampled *newest = gpu_sample(g, 0);
	uint64_t since_ns = now_ns > GPU_SINCE_NS ? now_ns - GPU_SINCE_NS : 0;
	Cluster__Gpu *to = report_alloc(b, sizeof(*to));

	if (!to)
		return NULL;
	*to = none;
	to->has_index = to->has_class_ = 1;
	to->index = g->device.index;
	to->has_pci = g->device.pci != GPU_PCI_NONE;
	to->pci = g->device.pci;
	to->has_n_gpus = 1;
	to->n_gpus = g->device.n_gpus;
	to->name = report_text(g->name);
	to->uuid = report_text(g->uuid);
	to->class_ = class_of(gpu_activity_since(g, since_ns, now_ns).role);
	to->has_sampled_age_ns = newest != NULL;
	to->sampled_age_ns = newest ? report_age(now_ns, newest->ts_ns) : 0;
	if (newest)
		gpu_sample_put(to, &newest->s);
	to->n_pids = g->procs.n < GPU_PIDS_MAX ? g->procs.n : GPU_PIDS_MAX;
	to->pids = (uint32_t *)g->procs.pids;
	gpu_usage_put(b, to, g);
	return to;
}
