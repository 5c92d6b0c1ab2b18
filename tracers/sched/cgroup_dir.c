/* SPDX-License-Identifier: Apache-2.0
 *
 * cgroup_dir.c - see cgroup_dir.h.
 */
#include "tracers/sched/cgroup_dir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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
	else if (!strcmp(type, "cgroup") && list_has(options, "freezer"))
		to = &m->v1_freezer;
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

/* Of "ID:CONTROLLERS:PATH" lines the one whose controllers hold this one, or NULL: none (version 2); NULL: no line. */
static const char *path_of(const char *text, const char *controller)
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
		if (controller ? list_has(controllers, controller) : !*controllers && !strncmp(line, "0:", 2))
			return path + 1;
	}
	return NULL;
}

static int dir_of(const struct cgroup_mount *mount, const char *path, char dir[2 * CGROUP_PATH_MAX])
{
	size_t n;

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

int cgroup_cpu_dir(const struct cgroup_mounts *m, const char *text, char dir[2 * CGROUP_PATH_MAX], bool *ret_v2)
{
	const char *path = path_of(text, "cpu");

	*ret_v2 = !path; /* a controller lives in one hierarchy only */
	return path ? dir_of(&m->v1_cpu, path, dir) : dir_of(&m->v2, path_of(text, NULL), dir);
}

int cgroup_freezer_dir(const struct cgroup_mounts *m, const char *text, bool v2, char dir[2 * CGROUP_PATH_MAX])
{
	return v2 ? dir_of(&m->v2, path_of(text, NULL), dir) : dir_of(&m->v1_freezer, path_of(text, "freezer"), dir);
}
