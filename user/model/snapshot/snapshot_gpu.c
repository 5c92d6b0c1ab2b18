/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot_gpu.c - GPUs of a snapshot: what is asked for seldom (which one it is, who computes there) and whether it
 * answers. Looks and checkups come again by themselves within seconds.
 */
#include <errno.h>
#include <string.h>

#include "model/snapshot/snapshot_private.h"

void emit_gpus(struct snapshot_writer *r)
{
	const struct gpus *all = &r->m->nodes[0]->gpus;

	for (const struct gpu *g = all->all; g; g = g->next) {
		const char *texts[] = { g->name, g->uuid };
		struct snapshot_gpu b = {
			.pci = g->device.pci,
			.answer_ns = g->answer_ns,
			.driver_ns = all->driver_ns,
			.index = g->device.index,
			.pcie_width_max = g->device.pcie_width_max,
			.pcie_gen_max = g->device.pcie_gen_max,
			.power_limit_mw = g->device.power_limit_mw,
			.n_nvlinks = g->device.n_nvlinks,
			.answer = g->answer,
			.driver = all->driver,
			.n_pids = g->procs.n,
		};

		memcpy(b.pids, g->procs.pids, sizeof(b.pids));
		emit_body(r, NULL, 0, SNAPSHOT_GPU, &b, sizeof(b), texts, 2);
	}
}

int take_gpu(struct model *m, const struct event *e)
{
	const struct snapshot_gpu *b = e->snapshot.body;
	struct gpu *g;

	_Static_assert(sizeof(b->pids) == sizeof(g->procs.pids), "as many processes as the model keeps");
	if (b->index >= GPUS_MAX || b->n_pids > GPU_PIDS_MAX || b->answer > GPU_NO_ANSWER || b->driver > GPU_NO_ANSWER)
		return -EINVAL;
	g = gpu_get(m->nodes[0], b->index);
	if (!g)
		return -ENOMEM;
	g->device.pci = b->pci;
	g->name = e->snapshot.text[0];
	g->uuid = e->snapshot.text[1];
	g->device.pcie_width_max = b->pcie_width_max;
	g->device.pcie_gen_max = b->pcie_gen_max;
	g->device.power_limit_mw = b->power_limit_mw;
	g->device.n_nvlinks = b->n_nvlinks;
	g->answer = b->answer;
	g->answer_ns = b->answer_ns;
	g->procs.n = b->n_pids;
	memcpy(g->procs.pids, b->pids, sizeof(g->procs.pids));
	m->nodes[0]->gpus.driver = b->driver;
	m->nodes[0]->gpus.driver_ns = b->driver_ns;
	return 0;
}
