/* SPDX-License-Identifier: Apache-2.0
 *
 * write.h - what the model, the findings and the session are, written to a page of metrics: one function a part of the
 * table. Only what is known is written.
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

void write_ranks(struct page *p, const struct tally *t, const struct model *m);
void write_findings(struct page *p, const struct incidents *open, const struct tally *t, const struct model *m);
void write_gpus(struct page *p, const struct tally *t, const struct model *m);
void write_network(struct page *p, const struct tally *t, const struct model *m);
void write_own(struct page *p, const struct own_health *own, const struct model *m);

#endif
