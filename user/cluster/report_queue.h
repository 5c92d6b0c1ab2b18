/* SPDX-License-Identifier: Apache-2.0
 *
 * report_queue.h - reports that a hub has fetched and not judged yet: at most one of a host, so that a burst costs it
 * little. Pure.
 */
#ifndef RANKTRACE_CLUSTER_REPORT_QUEUE_H
#define RANKTRACE_CLUSTER_REPORT_QUEUE_H

#include "base/keyed.h"
#include "cluster/report.h"

#define REPORT_QUEUE_MAX 2048
#define REPORT_QUEUE_BYTES (4u << 20) /* of messages; unpacked up to REPORT_MEMORY_TIMES as much */
/* From the first report that another one carries to that one, on the host's clock. With the second before, a host is
 * known as of three seconds ago at most, as the detectors allow. */
#define REPORT_QUEUE_SPAN_NS 1500000000ull

struct queued_report {
	Cluster__NodeReport *r;
	void *of;          /* its host */
	uint64_t ns;       /* the caller's time as it was put, */
	uint64_t at_ns;    /* and when it was made, on the caller's axis */
	uint64_t first_ns; /* r->now_ns of the first one that it carries */
};

struct report_queue { /* zeroed at first; owns its reports */
	struct queued_report all[REPORT_QUEUE_MAX];
	size_t n, bytes;
	uint64_t n_carried; /* so many were put, and a newer one took their place */
	uint64_t round;
	struct keyed_table places; /* by host */
};

/* `one` is newer than all of its host that were put; its report is the queue's from here on. 0; -EAGAIN: what is in the
 * queue is to be judged first (it is full, or has a report of that host which this one does not carry), and the report
 * stays the caller's, as with -ENOMEM. `bytes`: of the message. */
int report_queue_put(struct report_queue *q, const struct queued_report *one, size_t bytes);
void report_queue_clear(struct report_queue *q);
void report_queue_free(struct report_queue *q);

#endif
