/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_cause.c - see gpu_cause.h. The findings of gpu_health and xid stand earlier in the list.
 */
#include "detect/gpu/gpu_cause.h"

#include "detect/severity.h"

static bool is_throttled(const struct finding *g)
{
	return g->cause == CAUSE_THROTTLED_THERMAL || g->cause == CAUSE_THROTTLED_THERMAL_SOFTWARE ||
	       g->cause == CAUSE_THROTTLED_POWER_BRAKE || g->cause == CAUSE_THROTTLED_HARDWARE;
}

static bool has_proc(const struct finding *g, uint64_t proc)
{
	for (int i = 0; i < g->n_ranks; i++)
		if (finding_proc(g, i) == proc)
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

static const struct finding *slowness_of(const struct finding_list *found, uint64_t proc)
{
	const struct finding *best = NULL;

	for (size_t i = 0; i < found->n; i++) {
		const struct finding *g = &found->items[i];

		if (weight(g) > (best ? weight(best) : 0) && has_proc(g, proc))
			best = g;
	}
	return best;
}

bool gpu_is_ill(const struct finding_list *found, const struct proc *p)
{
	return p->node->gpus.all && slowness_of(found, p->key);
}

void gpu_cause_set(const struct model *m, const struct finding_list *found, struct finding *f)
{
	const struct finding *g;
	const struct proc *p;
	const struct gpu *gpu;
	const struct gpu_sampled *l;

	p = f->n_ranks == 1 ? model_proc(m, finding_proc(f, 0)) : NULL;
	if (!p || !gpu_is_ill(found, p))
		return;
	g = slowness_of(found, p->key);
	f->cause = g->kind == FINDING_XID ? CAUSE_GPU_XID : is_throttled(g) ? CAUSE_GPU_THROTTLED : CAUSE_GPU_UNHEALTHY;
	f->caused_by_key = g->key;
	finding_note_text(f, EVIDENCE_GPU_FINDING, cause_name(g->cause));
	gpu = proc_gpu(p);
	l = gpu ? gpu_sample(gpu, 0) : NULL;
	if (l && l->s.sm_clock_mhz != GPU_NO_VALUE)
		finding_note(f, EVIDENCE_SM_CLOCK_MHZ, l->s.sm_clock_mhz);
}

/* An error that the GPU goes on after; or of a program, and several compute there. */
static bool is_anybodys(const struct finding *g)
{
	return g->kind == FINDING_XID && (xid_is_corrected((int)finding_number(g, EVIDENCE_XID)) ||
					  (g->cause == CAUSE_APPLICATION && g->n_ranks_all > 1));
}

uint64_t gpu_stop_key(const struct finding_list *found, uint64_t proc)
{
	static const struct {
		enum finding_kind kind;
		enum finding_cause cause;
	} stops[] = {
		{ FINDING_GPU_HEALTH, CAUSE_GPU_LOST }, { FINDING_GPU_HEALTH, CAUSE_NEEDS_RESET },
		{ FINDING_XID, CAUSE_HARDWARE },        { FINDING_XID, CAUSE_DRIVER },
		{ FINDING_XID, CAUSE_APPLICATION },     { FINDING_GPU_HEALTH, CAUSE_DRIVER_DOES_NOT_ANSWER },
	};

	for (size_t k = 0; k < sizeof(stops) / sizeof(stops[0]); k++)
		for (size_t i = 0; i < found->n; i++) {
			const struct finding *g = &found->items[i];

			if (g->kind == stops[k].kind && g->cause == stops[k].cause && has_proc(g, proc) &&
			    !is_anybodys(g))
				return g->key;
		}
	return 0;
}
