/* SPDX-License-Identifier: Apache-2.0
 *
 * write_own.c - the session itself: what it costs, what it lost, whether it sees anything.
 */
#include "metrics/write.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "command.h"

static double seconds_of(const struct rusage *u)
{
	return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) +
	       (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) * 1e-6;
}

static void cpu_write(struct page *p)
{
	struct rusage own, ended;

	if (!getrusage(RUSAGE_SELF, &own) && !getrusage(RUSAGE_CHILDREN, &ended))
		page_put(p, METRIC_CPU, seconds_of(&own) + seconds_of(&ended));
}

static void memory_write(struct page *p)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long size, resident;

	if (f && fscanf(f, "%lu %lu", &size, &resident) == 2)
		page_put(p, METRIC_MEMORY, (double)resident * (double)sysconf(_SC_PAGESIZE));
	if (f)
		fclose(f);
}

void write_process(struct page *p, uint64_t start_realtime_ns, uint64_t turn_gap_ns)
{
	page_put(p, METRIC_START, (double)start_realtime_ns * 1e-9);
	cpu_write(p);
	memory_write(p);
	page_put(p, METRIC_TURN_GAP, (double)turn_gap_ns * 1e-9);
	page_put(p, METRIC_SERIES_LEFT_OUT, (double)p->left_out);
}

void write_own(struct page *p, const struct own_health *own, const struct model *m)
{
	static const char *const classes[] = { "critical", "normal", "bulk" };

	page_put(p, METRIC_TIER, 1, own->tier, RANKTRACE_VERSION);
	page_put(p, METRIC_PROCESSES, own->processes);
	page_put(p, METRIC_PROBES, own->probes);
	if (own->prices) {
		page_put(p, METRIC_PROBE_HITS, (double)own->hits);
		page_put(p, METRIC_PROBE_SECONDS, (double)own->paid_ns * 1e-9);
	}
	page_put(p, METRIC_RECORDS, (double)own->records);
	for (int i = 0; i < 3; i++)
		page_put(p, METRIC_LOST, (double)own->lost[i], classes[i]);
	write_process(p, m->start_ns + m->realtime_offset_ns, own->turn_gap_ns);
}
