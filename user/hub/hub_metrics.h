/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_metrics.h - a hub as Prometheus metrics: what it hears, whose jobs it has, how far they are, what it found. Its
 * size does not grow with ranks or hosts: those are in the metrics of their own `ranktrace watch`.
 */
#ifndef RANKTRACE_HUB_METRICS_H
#define RANKTRACE_HUB_METRICS_H

#include "hub/job.h"
#include "metrics/write.h"

enum hub_refused { HUB_REFUSED_FORGED = REPORT_FAULTS, HUB_REFUSED_KINDS }; /* behind enum report_fault */

struct hub_health { /* what a hub counts, since its start */
	uint64_t start_realtime_ns;
	uint64_t n_reports, n_repeated, refused[HUB_REFUSED_KINDS];
	uint64_t n_carried;                /* a newer report of their host was judged in their place */
	uint64_t n_unread, last_report_ns; /* of the newest message, on the server's wall clock; 0 none */
	uint64_t turn_gap_ns;              /* the longest, since the page before */
	struct tally_findings forgotten;   /* of jobs that are over */
};

const char *hub_refused_text(int why); /* "malformed"; by enum report_fault and enum hub_refused */
/* `now_ns`: on the hub's axis. */
void hub_metrics_write(struct page *p, const struct hub_health *of, const struct hosts *hosts,
		       const struct hub_job *jobs, uint64_t now_ns);

#endif
