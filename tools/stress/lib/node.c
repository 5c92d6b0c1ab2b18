/* SPDX-License-Identifier: Apache-2.0
 *
 * node.c - see node.h.
 */
#include "tools/stress/lib/node.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "0-3,8" */
static void list_take(const char *text, cpu_set_t *cpus)
{
	char *at = (char *)text;

	while (isdigit((unsigned char)*at)) {
		long first = strtol(at, &at, 10), last = *at == '-' ? strtol(at + 1, &at, 10) : first;

		for (long i = first; i <= last && i < CPU_SETSIZE; i++)
			CPU_SET(i, cpus);
		at += *at == ',';
	}
}

bool node_cpus(const char *sysfs, int node, cpu_set_t *cpus)
{
	char path[256], text[4096] = "";
	FILE *f;

	CPU_ZERO(cpus);
	snprintf(path, sizeof(path), "%s/devices/system/node/node%d/cpulist", sysfs, node);
	f = fopen(path, "re");
	if (f && fgets(text, sizeof(text), f))
		list_take(text, cpus);
	if (f)
		fclose(f);
	return CPU_COUNT(cpus) > 0;
}

bool node_is_allowed(int node)
{
	static const char key[] = "Mems_allowed_list:\t";
	FILE *f = fopen("/proc/self/status", "re");
	bool allowed = true; /* a kernel without cpusets has no such line */
	char line[4096];
	cpu_set_t nodes; /* a list of the same form */

	CPU_ZERO(&nodes);
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, sizeof(key) - 1)) {
			list_take(line + sizeof(key) - 1, &nodes);
			allowed = CPU_ISSET(node, &nodes);
		}
	if (f)
		fclose(f);
	return allowed;
}

void node_stay(const char *sysfs, int node)
{
	cpu_set_t cpus;

	if (node >= 0 && node_cpus(sysfs, node, &cpus) && !sched_setaffinity(0, sizeof(cpus), &cpus))
		return;
	memset(&cpus, 0xff, sizeof(cpus));
	sched_setaffinity(0, sizeof(cpus), &cpus);
}

int node_usable(const char *sysfs, int node)
{
	cpu_set_t before, cpus;
	int n;

	if (sched_getaffinity(0, sizeof(before), &before))
		return 0;
	node_stay(sysfs, node);
	n = sched_getaffinity(0, sizeof(cpus), &cpus) ? 0 : CPU_COUNT(&cpus);
	sched_setaffinity(0, sizeof(before), &before);
	return n;
}

/* "200000 100000" or "max 100000" of a group: cpu.max. */
static int quota_read(const char *sysfs, const char *group)
{
	char path[640];
	long quota = 0, period = 0;
	FILE *f;
	int n;

	snprintf(path, sizeof(path), "%s/fs/cgroup%s/cpu.max", sysfs, group);
	f = fopen(path, "re");
	n = f ? fscanf(f, "%ld %ld", &quota, &period) : 0;
	if (f)
		fclose(f);
	return n == 2 && quota > 0 && period > 0 ? (int)(100 * quota / period) : 0;
}

int cpus_quota(const char *sysfs, const char *procfs)
{
	char path[256], line[320] = "", *group = line + 3;
	int least = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/self/cgroup", procfs);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f) && strncmp(line, "0::/", 4))
		*line = 0;
	if (f)
		fclose(f);
	if (strncmp(line, "0::/", 4))
		return 0;
	for (group[strcspn(group, "\n")] = 0;; *strrchr(group, '/') = 0) {
		int quota = quota_read(sysfs, group);

		least = quota && (!least || quota < least) ? quota : least;
		if (!*group)
			return least;
	}
}

/* "10 21 21 31" of a node to all. */
int node_distance(const char *sysfs, int from, int to)
{
	int distance = from == to ? NODE_OWN : NODE_OTHER, nth = 0, n = 0;
	char path[256];
	FILE *f;

	if (from < 0)
		return NODE_UNKNOWN;
	snprintf(path, sizeof(path), "%s/devices/system/node/node%d/distance", sysfs, from);
	f = fopen(path, "re");
	while (f && fscanf(f, "%d", &n) == 1)
		if (nth++ == to && n >= NODE_OWN && n < NODE_UNKNOWN)
			distance = n;
	if (f)
		fclose(f);
	return distance;
}
