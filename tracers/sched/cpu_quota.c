/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu_quota.c - reads quota and throttled time from a cgroup up to the mount. A quota on any level throttles; each
 * level counts its own time only.
 */
#include "tracers/sched/cpu_quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/reader/proc_files.h"

static uint64_t stat_field(const char *text, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = text; (p = strstr(p, name)); p += n)
		if ((p == text || p[-1] == '\n') && p[n] == ' ')
			return strtoull(p + n, NULL, 10);
	return 0;
}

static double level_cores(const char *dir, bool v2)
{
	char text[64];
	double quota, period = 0;

	if (v2) {
		if (proc_read(text, sizeof(text), "%s/cpu.max", dir) < 0 ||
		    sscanf(text, "%lf %lf", &quota, &period) != 2)
			return 0; /* "max 100000" */
		return period > 0 ? quota / period : 0;
	}
	if (proc_read(text, sizeof(text), "%s/cpu.cfs_quota_us", dir) < 0)
		return 0;
	quota = strtod(text, NULL);
	if (quota > 0 && proc_read(text, sizeof(text), "%s/cpu.cfs_period_us", dir) > 0)
		period = strtod(text, NULL);
	return quota > 0 && period > 0 ? quota / period : 0;
}

static void level_add(const char *dir, bool v2, struct cpu_quota *q)
{
	char text[4096];
	double cores = level_cores(dir, v2);

	if (cores > 0 && (q->cores <= 0 || cores < q->cores))
		q->cores = cores;
	if (proc_read(text, sizeof(text), "%s/cpu.stat", dir) <= 0)
		return;
	q->throttled_ns += v2 ? 1000 * stat_field(text, "throttled_usec") : stat_field(text, "throttled_time");
	q->periods += stat_field(text, "nr_throttled");
}

void cpu_quota_read(const struct cgroup_mounts *m, const char *dir, bool v2, struct cpu_quota *ret)
{
	size_t top = strlen(v2 ? m->v2.dir : m->v1_cpu.dir);
	char level[2 * CGROUP_PATH_MAX], *slash;

	memset(ret, 0, sizeof(*ret));
	snprintf(level, sizeof(level), "%s", dir);
	for (;;) {
		level_add(level, v2, ret);
		slash = strrchr(level, '/');
		if (!slash || (size_t)(slash - level) < top)
			return;
		*slash = 0;
	}
}
