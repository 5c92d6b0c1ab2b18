/* SPDX-License-Identifier: Apache-2.0
 *
 * page.c - see page.h.
 */
#include "session/page.h"

#include "attach/loader.h"
#include "attach/probe_rows.h"
#include "metrics/metrics.h"
#include "pipeline/pipeline.h"
#include "session/probe_budget.h"
#include "session/session_private.h"
#include "session/targets.h"

void session_page_write(struct session *s, uint64_t now_ns)
{
	struct own_health own = { .tier = tier_name(s->cfg.tier),
				  .processes = session_targets_alive(s->targets),
				  .probes = loader_probes(s->loader),
				  .prices = s->probe_budget,
				  .records = pipeline_records(s->pipeline),
				  .turn_gap_ns = s->page_gap_ns };
	struct session_budget sums = { 0 };

	for (int i = 0; i < RING_CLASSES; i++)
		own.lost[i] = loader_lost(s->loader, i);
	if (s->probe_budget) {
		probe_budget_sums(s->probe_budget, &sums);
		own.hits = sums.hits;
		own.paid_ns = sums.paid_ns;
	}
	metrics_publish(s->cfg.metrics, pipeline_model(s->pipeline), pipeline_incidents(s->pipeline), &own, now_ns);
	s->page_gap_ns = 0;
}
