/* SPDX-License-Identifier: Apache-2.0
 *
 * window_merge.h - windows of several hosts' flight recorders (or any live recordings) as one stream: in order of time
 * on the first host's clock, as far as the collectives say how clocks differ (clock_align.h).
 */
#ifndef RANKTRACE_WINDOW_MERGE_H
#define RANKTRACE_WINDOW_MERGE_H

#include "autopsy/clock_align.h"
#include "pipeline/pipeline.h"
#include "schemas/collector.h"

#define WINDOWS_MAX 2048

struct window {
	const char *path; /* for what is said of it */
	int fd;           /* the recording, from its begin; read several times */
	/* windows_merge() fills the rest */
	char host[256];
	uint64_t begin_ns, end_ns; /* by its own clock */
	uint64_t realtime_offset_ns;
	struct clock_offset clock;
	union {
		struct record_start record; /* as it stands there */
		char bytes[sizeof(struct record_start) + 264];
	} start;
};

/* Feeds them all, with the hosts' clocks as found, to the end. 0, or -errno; -EINVAL: one is no such recording, or two
 * are of one host, which was said. The detectors judge as they would at the first host's ticks. */
int windows_merge(struct window *w, size_t n, struct pipeline *p);
/* Says how well the clocks are known. */
void window_clocks_say(const struct window *w, size_t n);

#endif
