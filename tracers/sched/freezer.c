/* SPDX-License-Identifier: Apache-2.0
 *
 * freezer.c - see freezer.h.
 */
#include "tracers/sched/freezer.h"

#include <string.h>

#include "inspect/reader/proc_files.h"

static bool is_frozen(const char *dir, bool v2)
{
	char text[256];

	if (proc_read(text, sizeof(text), "%s/%s", dir, v2 ? "cgroup.events" : "freezer.state") <= 0)
		return false;
	return v2 ? strstr(text, "frozen 1") != NULL : !strncmp(text, "FROZEN", 6);
}

bool freezer_holds(const struct cgroup_mounts *m, const char *text)
{
	char dir[2 * CGROUP_PATH_MAX];

	for (int v2 = 0; v2 < 2; v2++)
		if (!cgroup_freezer_dir(m, text, v2, dir) && is_frozen(dir, v2))
			return true;
	return false;
}

bool freezer_holds_process(uint32_t tgid)
{
	struct cgroup_mounts m;
	char text[4096];

	return !cgroup_mounts_read("/proc/self/mountinfo", &m) &&
	       proc_read(text, sizeof(text), "/proc/%u/cgroup", tgid) > 0 && freezer_holds(&m, text);
}
