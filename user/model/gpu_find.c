/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_find.c - which GPU is whose, for detectors and sinks.
 */
#include "model/model.h"

const struct gpu *model_gpu(const struct model *m, uint32_t index)
{
	for (const struct gpu *g = m->gpus.all; g; g = g->next)
		if (g->index == index)
			return g;
	return NULL;
}

const struct gpu *model_gpu_at(const struct model *m, uint64_t pci)
{
	for (const struct gpu *g = m->gpus.all; g && pci != GPU_PCI_NONE; g = g->next)
		if (g->pci == pci)
			return g;
	return NULL;
}

bool gpu_has_proc(const struct gpu *g, const struct proc *p)
{
	for (uint32_t i = 0; i < g->n_pids; i++)
		if (g->pids[i] == p->tgid)
			return true;
	return false;
}

const struct gpu *proc_gpu(const struct model *m, const struct proc *p)
{
	for (const struct gpu *g = m->gpus.all; g; g = g->next)
		if (gpu_has_proc(g, p))
			return g;
	return NULL;
}
