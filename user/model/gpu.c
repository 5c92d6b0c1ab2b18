/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu.c - what the driver and the kernel log say of the GPUs, and which rank sits on which.
 */
#include <errno.h>
#include <stdlib.h>

#include "model/state.h"

#define SAME_XID_NS 5000000000ull /* reported twice: by the tracepoint and in the kernel log */

struct gpu *gpu_get(struct node *n, uint32_t index)
{
	struct gpu **link = &n->gpus.all, *g;

	while (*link && (*link)->device.index < index)
		link = &(*link)->next;
	if (*link && (*link)->device.index == index)
		return *link; /* lint: another one than above */
	g = index < GPUS_MAX ? lines_alloc(sizeof(*g)) : NULL;
	if (!g)
		return NULL;
	g->node = n;
	g->device.index = index;
	g->device.pci = GPU_PCI_NONE;
	g->name = g->uuid = "";
	g->device.pcie_width_max = g->device.pcie_gen_max = g->device.power_limit_mw = g->device.n_nvlinks =
		GPU_NO_VALUE;
	g->next = *link;
	*link = g;
	return g;
}

static void device_take(struct gpu *g, const struct event *e)
{
	uint32_t most = g->device.n_nvlinks; /* that there ever were: NVML's child may have been replaced */

	g->device = e->gpu_device;
	g->name = e->gpu_name;
	g->uuid = e->gpu_uuid;
	if (most != GPU_NO_VALUE && (g->device.n_nvlinks == GPU_NO_VALUE || g->device.n_nvlinks < most))
		g->device.n_nvlinks = most;
}

static void health_take(struct gpu *g, const struct event *e)
{
	if (!g->n_checkups)
		g->first = e->gpu_health;
	g->checkups[g->n_checkups++ % GPU_HEALTHS_KEPT] = (struct gpu_checkup){ e->ts_ns, e->gpu_health };
}

static void procs_take(struct gpu *g, const struct event *e)
{
	if (e->gpu_procs.n || g->answer == GPU_IS_THERE)
		g->procs = e->gpu_procs;
}

/* Of who is in the list: behind it, as the sampler writes them. */
static void usage_take(struct gpu *g, const struct event *e)
{
	for (uint32_t i = 0; i < g->procs.n && i < GPU_PIDS_MAX; i++)
		if (g->procs.pids[i] == e->gpu_usage.pid)
			g->usage[i] = e->gpu_usage;
}

const struct gpu_usage *gpu_usage_of(const struct gpu *g, uint32_t pid)
{
	for (uint32_t i = 0; i < g->procs.n && i < GPU_PIDS_MAX; i++)
		if (g->procs.pids[i] == pid && g->usage[i].pid == pid)
			return &g->usage[i];
	return NULL;
}

static int state_apply(struct node *n, const struct event *e)
{
	struct gpu *g;

	if (e->gpu_state.index == GPU_INDEX_ALL) {
		n->gpus.driver = e->gpu_state.answer;
		n->gpus.driver_ns = e->gpu_state.since_ns;
		return 0;
	}
	if (e->gpu_state.index >= GPUS_MAX)
		return -EINVAL;
	g = gpu_get(n, e->gpu_state.index);
	if (!g)
		return -ENOMEM;
	if (g->answer != e->gpu_state.answer)
		g->answer_ns = e->gpu_state.since_ns;
	g->answer = e->gpu_state.answer;
	return 0;
}

static uint32_t event_index(const struct event *e)
{
	switch (e->kind) {
	case EV_GPU_DEVICE: return e->gpu_device.index;
	case EV_GPU_SAMPLE: return e->gpu_sample.index;
	case EV_GPU_HEALTH: return e->gpu_health.index;
	case EV_GPU_USAGE: return e->gpu_usage.index;
	default: return e->gpu_procs.index;
	}
}

int gpu_apply(struct model *m, const struct event *e)
{
	struct node *n = node_get(m, e->node);
	struct gpu *g;

	if (!n)
		return -ENOMEM;
	if (e->kind == EV_GPU_STATE)
		return state_apply(n, e);
	if (event_index(e) >= GPUS_MAX)
		return -EINVAL;
	g = gpu_get(n, event_index(e));
	if (!g)
		return -ENOMEM;
	if (e->kind == EV_GPU_DEVICE)
		device_take(g, e);
	else if (e->kind == EV_GPU_SAMPLE)
		g->samples[g->n_samples++ % GPU_SAMPLES_KEPT] = (struct gpu_sampled){ e->ts_ns, e->gpu_sample };
	else if (e->kind == EV_GPU_HEALTH)
		health_take(g, e);
	else if (e->kind == EV_GPU_USAGE)
		usage_take(g, e);
	else
		procs_take(g, e);
	return 0;
}

int xid_apply(struct model *m, const struct event *e)
{
	struct node *n = node_get(m, e->node);
	struct gpus *all = n ? &n->gpus : NULL;
	struct xid *x;

	if (!all)
		return -ENOMEM;
	for (uint64_t i = 0; i < all->n_xids && i < XIDS_KEPT; i++) {
		x = &all->xids[(all->n_xids - 1 - i) % XIDS_KEPT];
		if (x->number != e->kernel_log.xid || x->pci != e->kernel_log.pci ||
		    x->of_switch != e->kernel_log.of_switch || e->ts_ns > x->last_ns + SAME_XID_NS)
			continue;
		x->last_ns = e->ts_ns;
		x->n++;
		x->pid = x->pid ? x->pid : e->kernel_log.pid;
		return 0;
	}
	all->xids[all->n_xids++ % XIDS_KEPT] = (struct xid){
		.ts_ns = e->ts_ns,
		.last_ns = e->ts_ns,
		.number = e->kernel_log.xid,
		.pid = e->kernel_log.pid,
		.n = 1,
		.pci = e->kernel_log.pci,
		.of_switch = e->kernel_log.of_switch,
		.text = e->kernel_log.text,
	};
	return 0;
}

int pressure_apply(struct model *m, const struct event *e)
{
	struct proc_own *p = e->tgid ? proc_get(m, event_proc(e), e->ts_ns) : NULL;
	struct node *n = node_get(m, e->node);
	struct pressure *to = p ? &p->p.pressure : n ? &n->pressure : NULL;

	if (!to || (e->tgid && !p))
		return -ENOMEM;
	to->prev_ns = to->ts_ns;
	to->prev = to->now;
	to->ts_ns = e->ts_ns;
	to->now = e->pressure;
	return 0;
}

void gpus_free(struct node *n)
{
	struct gpu *g;

	while ((g = n->gpus.all)) {
		n->gpus.all = g->next;
		free(g);
	}
}
