/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu_quota.c - finds the cgroup that rules a process' CPU and reads quota and throttled time up to the mount. A quota
 * on any level throttles; each level counts its own time only.
 */
#include "tracers/sched/cpu_quota.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/reader/proc_files.h"

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* Blanks in mountinfo stand as \040. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; s++)
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && is_octal(s[2]) && is_octal(s[3])) {
			*to++ = (s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0');
			s += 3;
		} else {
			*to++ = *s;
		}
	*to = 0;
}

static bool list_has(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)); p += n)
		if ((p == list || p[-1] == ',') && (p[n] == ',' || p[n] == '\0' || p[n] == '\n'))
			return true;
	return false;
}

static void mount_take(char *line, struct cgroup_mounts *m)
{
	char root[CGROUP_PATH_MAX], dir[CGROUP_PATH_MAX], type[32], options[CGROUP_PATH_MAX];
	const char *rest = strstr(line, " - ");
	struct cgroup_mount *to;

	if (!rest || sscanf(line, "%*s %*s %*s %511s %511s", root, dir) != 2 ||
	    sscanf(rest, " - %31s %*s %511s", type, options) != 2)
		return;
	if (!strcmp(type, "cgroup2"))
		to = &m->v2;
	else if (!strcmp(type, "cgroup") && list_has(options, "cpu"))
		to = &m->v1_cpu;
	else
		return;
	if (*to->dir && strcmp(root, "/"))
		return; /* a bind mount of a part, when the whole is there */
	unescape(root);
	unescape(dir);
	strcpy(to->root, root);
	strcpy(to->dir, dir);
}

int cgroup_mounts_read(const char *mountinfo, struct cgroup_mounts *ret)
{
	FILE *f = fopen(mountinfo, "re");
	char line[4096];

	memset(ret, 0, sizeof(*ret));
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f))
		mount_take(line, ret);
	fclose(f);
	return 0;
}

/* Of "ID:CONTROLLERS:PATH" lines the one with `controllers` empty (version 2) or holding cpu; NULL none. */
static const char *path_of(const char *text, bool v2)
{
	const char *list, *path;
	char controllers[256];

	for (const char *line = text, *end; *line; line = *end ? end + 1 : end) {
		end = line + strcspn(line, "\n");
		list = strchr(line, ':');
		path = list ? strchr(list + 1, ':') : NULL;
		if (!path || path - list > 255)
			continue;
		snprintf(controllers, sizeof(controllers), "%.*s", (int)(path - list - 1), list + 1);
		if (v2 ? !*controllers && !strncmp(line, "0:", 2) : list_has(controllers, "cpu"))
			return path + 1;
	}
	return NULL;
}

int cgroup_cpu_dir(const struct cgroup_mounts *m, const char *text, char dir[2 * CGROUP_PATH_MAX], bool *ret_v2)
{
	const struct cgroup_mount *mount = &m->v1_cpu;
	const char *path = path_of(text, false);
	size_t n;

	*ret_v2 = !path; /* a controller lives in one hierarchy only */
	if (!path) {
		path = path_of(text, true);
		mount = &m->v2;
	}
	if (!path || !*mount->dir || !strncmp(path, "/..", 3)) /* outside this process' cgroup namespace */
		return -ENOENT;
	n = strcmp(mount->root, "/") ? strlen(mount->root) : 0;
	if (strncmp(path, mount->root, n))
		return -ENOENT;
	if (n && path[n] != '/' && path[n] != '\n' && path[n])
		return -ENOENT;
	path += n;
	n = strcspn(path, "\n");
	if (n == 1) /* "/" */
		n = 0;
	if (n >= CGROUP_PATH_MAX)
		return -ENAMETOOLONG;
	snprintf(dir, 2 * CGROUP_PATH_MAX, "%s%.*s", mount->dir, (int)n, path);
	return 0;
}

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
