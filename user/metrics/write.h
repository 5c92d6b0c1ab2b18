/* SPDX-License-Identifier: Apache-2.0
 *
 * write.h - what the model, the findings and the session are, written to a page of metrics: one function a part of the
 * table. Only what is known is written. A hub writes its own part (hub/hub_metrics.h), with what it shares with these.
 */
#ifndef RANKTRACE_METRICS_WRITE_H
#define RANKTRACE_METRICS_WRITE_H

#include "metrics/page.h"
#include "metrics/tally.h"
#include "model/model.h"
#include "pipeline/incident.h"

#define WRITE_INCIDENTS_MAX 64 /* the first ones that opened; they are causes of what came later */

struct own_health { /* of the session itself */
	const char *tier;
	uint32_t processes, probes;
	bool prices; /* hits are counted */
	uint64_t records, lost[3], hits, paid_ns, turn_gap_ns;
};

struct finding_counts { /* open now; so far, by the gravest that each was */
	uint64_t open[FINDING_KIND_MAX][SEVERITY_MAX], all[FINDING_KIND_MAX][SEVERITY_MAX];
};

/* `open`: NULL for none. */
void finding_counts_add(struct finding_counts *to, const struct incidents *open, const struct tally_findings *t);
void write_finding_counts(struct page *p, enum metric_id open, enum metric_id all, const struct finding_counts *c);
/* `id`: of the labels of ranktrace_finding_age_seconds, and the host behind them or not. */
void write_finding_ages(struct page *p, enum metric_id id, const struct incidents *open, const struct model *m);
/* This process: when it began, what it takes, its longest time without a turn. Last: counts what was left out. */
void write_process(struct page *p, uint64_t start_realtime_ns, uint64_t turn_gap_ns);

void write_ranks(struct page *p, const struct tally *t, const struct model *m);
void write_findings(struct page *p, const struct incidents *open, const struct tally *t, const struct model *m);
void write_gpus(struct page *p, const struct tally *t, const struct model *m);
void write_network(struct page *p, const struct tally *t, const struct model *m);
void write_own(struct page *p, const struct own_health *own, const struct model *m);

#endif
