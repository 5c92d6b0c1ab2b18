/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_work.c - see gpu_work.h.
 */
#include "detect/rank/gpu_work.h"

#include <math.h>

#define FRESH_NS 8000000000ull /* the newest sample is not older: of a quiet job one comes every 4 s, or is late */
#define NONE_NS 1500000000ull
#define NONE_SAMPLES 3
#define NONE_PERCENT 0.1

static bool is_own(const struct model *m, const struct proc *p, const struct gpu *g, uint32_t pid)
{
	const struct proc *o = model_proc(m, proc_key(g->node->number, pid));

	return o && (o == p || o->leader == p);
}

/* The one GPU on which this rank and its children compute, and no other process does; NULL: there is no such. */
static const struct gpu *own_gpu(const struct model *m, const struct proc *p)
{
	const struct gpu *own = NULL;

	for (const struct gpu *g = p->node->gpus.all; g; g = g->next) {
		if (!gpu_has_proc(g, p))
			continue;
		if (own)
			return NULL;
		own = g;
	}
	for (uint32_t i = 0; own && i < own->procs.n; i++)
		if (!is_own(m, p, own, own->procs.pids[i]))
			return NULL;
	return own;
}

/* -1 unknown */
static double work_percent(const struct gpu_sampled *l)
{
	return fmax(gpu_percent(l->s.tensor_bp), gpu_percent(l->s.dram_bp));
}

static bool is_usable(const struct gpu_sampled *l, uint64_t since_ns)
{
	return l && l->s.window_ns && work_percent(l) >= 0 && l->ts_ns >= since_ns + l->s.window_ns;
}

enum gpu_work rank_gpu_work(const struct model *m, const struct proc *p, uint64_t since_ns)
{
	const struct gpu *g = own_gpu(m, p);
	const struct gpu_sampled *newest = g ? gpu_sample(g, 0) : NULL, *l = newest;
	uint64_t first_ns = m->now_ns, i = 0;

	if (!is_usable(newest, since_ns) || newest->ts_ns + FRESH_NS < m->now_ns)
		return GPU_WORK_UNKNOWN;
	if (work_percent(newest) >= GPU_WORKS_PERCENT)
		return GPU_WORK_DONE;
	for (; is_usable(l, since_ns) && work_percent(l) <= NONE_PERCENT; l = gpu_sample(g, ++i))
		first_ns = l->ts_ns - l->s.window_ns;
	return i >= NONE_SAMPLES && newest->ts_ns >= first_ns + NONE_NS ? GPU_WORK_NONE : GPU_WORK_UNKNOWN;
}
