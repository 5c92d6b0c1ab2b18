/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_cause.c - see gpu_cause.h. The findings of gpu_health and xid stand earlier in the list.
 */
#include "detect/gpu/gpu_cause.h"

static bool is_throttled(const struct finding *g)
{
	return g->cause == CAUSE_THROTTLED_THERMAL || g->cause == CAUSE_THROTTLED_THERMAL_SOFTWARE ||
	       g->cause == CAUSE_THROTTLED_POWER_BRAKE || g->cause == CAUSE_THROTTLED_HARDWARE;
}

static bool has_pid(const struct finding *g, uint32_t pid)
{
	for (int i = 0; i < g->n_ranks; i++)
		if (g->pids[i] == pid)
			return true;
	return false;
}

/* How much it explains: a GPU that is throttled more than an XID, and that more than any other health finding. */
static int weight(const struct finding *g)
{
	if (g->kind == FINDING_XID)
		return 2;
	return g->kind != FINDING_GPU_HEALTH ? 0 : is_throttled(g) ? 3 : 1;
}

static const struct finding *slowness_of(const struct finding_list *found, uint32_t pid)
{
	const struct finding *best = NULL;

	for (size_t i = 0; i < found->n; i++) {
		const struct finding *g = &found->items[i];

		if (weight(g) > (best ? weight(best) : 0) && has_pid(g, pid))
			best = g;
	}
	return best;
}

void gpu_cause_set(const struct model *m, const struct finding_list *found, struct finding *f)
{
	const struct finding *g;
	const struct gpu *gpu;
	const struct gpu_look *l;

	if (f->n_ranks != 1 || !m->gpus.all)
		return;
	g = slowness_of(found, f->pids[0]);
	if (!g)
		return;
	f->cause = g->kind == FINDING_XID ? CAUSE_GPU_XID : is_throttled(g) ? CAUSE_GPU_THROTTLED : CAUSE_GPU_UNHEALTHY;
	f->caused_by_key = g->key;
	finding_note_text(f, EVIDENCE_GPU_FINDING, cause_name(g->cause));
	gpu = model_proc(m, f->pids[0]) ? proc_gpu(m, model_proc(m, f->pids[0])) : NULL;
	l = gpu ? gpu_look(gpu, 0) : NULL;
	if (l && l->s.sm_clock_mhz != GPU_NOT_TOLD)
		finding_note(f, EVIDENCE_SM_CLOCK_MHZ, l->s.sm_clock_mhz);
}

uint64_t gpu_stop_key(const struct finding_list *found, uint32_t pid)
{
	static const struct {
		enum finding_kind kind;
		enum finding_cause cause;
	} stops[] = {
		{ FINDING_GPU_HEALTH, CAUSE_GPU_LOST },
		{ FINDING_GPU_HEALTH, CAUSE_NEEDS_RESET },
		{ FINDING_XID, CAUSE_HARDWARE },
		{ FINDING_GPU_HEALTH, CAUSE_DRIVER_DOES_NOT_ANSWER },
	};

	for (size_t k = 0; k < sizeof(stops) / sizeof(stops[0]); k++)
		for (size_t i = 0; i < found->n; i++) {
			const struct finding *g = &found->items[i];

			if (g->kind == stops[k].kind && g->cause == stops[k].cause && has_pid(g, pid))
				return g->key;
		}
	return 0;
}
