/* SPDX-License-Identifier: Apache-2.0
 *
 * record_feed.h - shared by report_records.c (processes, communicators) and the files for threads, GPUs,
 * blocked threads.
 */
#ifndef RANKTRACE_HUB_RECORD_FEED_H
#define RANKTRACE_HUB_RECORD_FEED_H

#include "base/keyed.h"
#include "cluster/report.h"
#include "hub/hosts.h"
#include "pipeline/pipeline.h"
#include "record.h"
#include "schemas/collector.h"

struct feed_to { /* where one report goes */
	struct pipeline *pipeline;
	const struct host *host;
	uint64_t now_raw_ns; /* when it was made, on the host's clock */
};

/* Of the collector, at the time of the report. */
static inline struct wire_hdr record_hdr(const struct feed_to *to, uint8_t kind, size_t size, uint32_t pid)
{
	return (struct wire_hdr){
		.size = size, .tracer = WIRE_COLLECTOR, .kind = kind, .tgid = pid, .tid = pid, .ts_ns = to->host->at_ns
	};
}

/* An age of the report as a time on the hub's axis; 0: before the host's clock began. */
static inline uint64_t feed_time(const struct feed_to *to, uint64_t age_ns)
{
	return age_ns < to->now_raw_ns ? host_time(to->host, to->now_raw_ns - age_ns) : 0;
}

#define FED_HALTED_MAX 8 /* threads that a report has of a rank, at most */
struct fed_halted {      /* of a process: those that were stopped or blocked in its newest report */
	uint32_t tids[FED_HALTED_MAX];
	int n;
};

/* thread_records.c. `fed`: what was given of threads, by host and thread. `whole`: the report had room for all of its
 * host. 0 or -ENOMEM. */
int threads_feed(struct keyed_table *fed, struct fed_halted *halted, const struct feed_to *to,
		 const Cluster__Process *p, bool whole);
/* call_records.c. `fed`: the report before had calls. 0 or -ENOMEM. */
int calls_feed(bool *fed, const struct feed_to *to, const Cluster__Process *p);
/* blocked_records.c. `fed`: threads that are blocked, by host and thread. 0 or -ENOMEM. */
int blocked_feed(struct keyed_table *fed, const struct feed_to *to, const Cluster__NodeReport *r, const char *job);
/* gpu_records.c. `fed`: what was given of GPUs, by host and index. 0 or -ENOMEM. */
int gpu_feed(struct keyed_table *fed, const struct feed_to *to, const Cluster__Gpu *g);

#endif
