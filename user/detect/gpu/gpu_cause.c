/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_cause.c - see gpu_cause.h. The findings of gpu_health and xid stand earlier in the list.
 */
#include "detect/gpu/gpu_cause.h"

#include <string.h>

static const struct finding *gpu_finding(const struct finding_list *found, enum finding_kind kind, uint32_t pid,
					 const char *prefix)
{
	for (size_t i = 0; i < found->n; i++) {
		const struct finding *g = &found->items[i];

		for (int k = 0; k < g->n_ranks && g->kind == kind; k++)
			if (g->pids[k] == pid && g->cause && !strncmp(g->cause, prefix, strlen(prefix)))
				return g;
	}
	return NULL;
}

void gpu_cause_set(const struct model *m, const struct finding_list *found, struct finding *f)
{
	const struct finding *g;
	const struct gpu *gpu;
	const struct gpu_look *l;

	if (f->n_ranks != 1 || !m->gpus.all)
		return;
	g = gpu_finding(found, FINDING_GPU_HEALTH, f->pids[0], "throttled");
	if (!g)
		g = gpu_finding(found, FINDING_XID, f->pids[0], "");
	if (!g)
		g = gpu_finding(found, FINDING_GPU_HEALTH, f->pids[0], "");
	if (!g)
		return;
	f->cause = g->kind == FINDING_XID               ? "gpu_xid"
		   : !strncmp(g->cause, "throttled", 9) ? "gpu_throttled"
							: "gpu_unhealthy";
	f->caused_by_key = g->key;
	finding_note_text(f, EVIDENCE_GPU_FINDING, g->cause);
	gpu = model_proc(m, f->pids[0]) ? proc_gpu(m, model_proc(m, f->pids[0])) : NULL;
	l = gpu ? gpu_look(gpu, 0) : NULL;
	if (l && l->s.sm_clock_mhz != GPU_NOT_TOLD)
		finding_note(f, EVIDENCE_SM_CLOCK_MHZ, l->s.sm_clock_mhz);
}

uint64_t gpu_stop_key(const struct finding_list *found, uint32_t pid)
{
	static const struct {
		enum finding_kind kind;
		const char *cause;
	} stops[] = {
		{ FINDING_GPU_HEALTH, "gpu_lost" },
		{ FINDING_GPU_HEALTH, "needs_reset" },
		{ FINDING_XID, "hardware" },
		{ FINDING_GPU_HEALTH, "driver_does_not_answer" },
	};

	for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
		const struct finding *f = gpu_finding(found, stops[i].kind, pid, stops[i].cause);

		if (f)
			return f->key;
	}
	return 0;
}
