/* SPDX-License-Identifier: Apache-2.0
 *
 * cgroup_path.c - one pass over each path, component by component. A component is recognised by the id in it (64, 36
 * or 32 characters), not by the runtime's prefix: that list would never be complete.
 */
#include "inspect/discover/cgroup_path.h"
#include "inspect/reader/proc_files.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define CONTAINER_DIGITS 64
#define POD_UID_LEN 36
#define STATIC_UID_LEN 32

struct part { /* of a path, without .scope, .slice or .service */
	const char *text;
	size_t len;
};

static bool part_begins(const struct part *p, const char *with)
{
	size_t n = strlen(with);

	return p->len >= n && !memcmp(p->text, with, n);
}

static bool is_hex(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isxdigit((unsigned char)s[i]))
			return false;
	return true;
}

/* 8-4-4-4-12 hexadecimal digits; the systemd driver writes '_' for '-', which separates slices. */
static bool is_uid(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? s[i] != '-' && s[i] != '_' : !isxdigit((unsigned char)s[i]))
			return false;
	}
	return true;
}

/* "pod<uid>", "kubepods-burstable-pod<uid>"; a static pod's uid is a hash of its manifest: 32 digits, no dashes. */
static void pod_take(const struct part *p, size_t len, bool (*is_id)(const char *s, size_t len), struct cgroup_names *n)
{
	const char *uid = p->text + p->len - len;

	if (p->len < len + 3 || memcmp(uid - 3, "pod", 3) || (p->len > len + 3 && uid[-4] != '-') || !is_id(uid, len))
		return;
	snprintf(n->pod, sizeof(n->pod), "%.*s", (int)len, uid);
	for (char *c = n->pod; *c; c++)
		*c = *c == '_' ? '-' : *c;
}

/* The id stands last, alone or behind the runtime's name; conmon is podman's and cri-o's monitor beside the container.
 */
static void container_take(const struct part *p, const struct part *before, struct cgroup_names *n)
{
	const char *id = p->text + (p->len < CONTAINER_DIGITS ? 0 : p->len - CONTAINER_DIGITS);

	if (part_begins(p, "lxc.payload."))
		snprintf(n->container, sizeof(n->container), "%.*s", (int)p->len - 12, p->text + 12);
	else if (before->len == 3 && part_begins(before, "lxc"))
		snprintf(n->container, sizeof(n->container), "%.*s", (int)p->len, p->text);
	if (p->len < CONTAINER_DIGITS || !is_hex(id, CONTAINER_DIGITS) || memmem(p->text, p->len, "conmon", 6))
		return;
	if (p->len == CONTAINER_DIGITS || !isxdigit((unsigned char)id[-1]))
		snprintf(n->container, sizeof(n->container), "%.12s", id);
}

/* ".../job_77/step_0/...", below a folder of Slurm's. */
static void slurm_take(const struct part *p, const struct part *before, struct cgroup_names *n)
{
	if (part_begins(p, "step_") && part_begins(before, "job_"))
		snprintf(n->slurm, sizeof(n->slurm), "%.*s.%.*s", (int)before->len - 4, before->text + 4,
			 (int)p->len - 5, p->text + 5);
}

static struct part part_next(const char *path, const char *end)
{
	static const char *const suffixes[] = { ".scope", ".slice", ".service" };
	struct part p = { path, 0 };

	/* containerd with the wrong driver writes "...slice:cri-containerd:<id>" into one component */
	while (path + p.len < end && path[p.len] != '/' && path[p.len] != ':')
		p.len++;
	for (int i = 0; i < 3; i++) {
		size_t n = strlen(suffixes[i]);

		if (p.len > n && !memcmp(path + p.len - n, suffixes[i], n))
			p.len -= n;
	}
	return p;
}

static void path_parse(const char *path, const char *end, struct cgroup_names *ret)
{
	bool slurm = memmem(path, end - path, "slurm", 5);
	struct part before = { path, 0 };

	while (path < end) {
		struct part p = part_next(path, end);

		pod_take(&p, POD_UID_LEN, is_uid, ret);
		pod_take(&p, STATIC_UID_LEN, is_hex, ret);
		container_take(&p, &before, ret);
		if (slurm)
			slurm_take(&p, &before, ret);
		before = p;
		path += strcspn(path, "/:\n");
		path += path < end;
	}
}

static void path_take(const char *line, const char *path, const char *end, struct cgroup_names *ret)
{
	size_t len = end - path, max = sizeof(ret->path) - 1, skip = len > max ? len - max : 0;

	if (*ret->path && strncmp(line, "0::", 3))
		return;
	memcpy(ret->path, path + skip, len - skip);
	ret->path[len - skip] = '\0';
}

void cgroup_names_parse(const char *text, struct cgroup_names *ret)
{
	*ret = (struct cgroup_names){};
	for (const char *line = text; *line;) {
		const char *end = line + strcspn(line, "\n"), *path = memchr(line, ':', end - line);
		struct cgroup_names n = {};

		path = path ? memchr(path + 1, ':', end - path - 1) : NULL;
		if (path) {
			path_parse(path + 1, end, &n);
			path_take(line, path + 1, end, ret);
		}
		if (!*ret->container)
			memcpy(ret->container, n.container, sizeof(n.container));
		if (!*ret->pod)
			memcpy(ret->pod, n.pod, sizeof(n.pod));
		if (!*ret->slurm)
			memcpy(ret->slurm, n.slurm, sizeof(n.slurm));
		line = end + (*end == '\n');
	}
}

void cgroup_names_read(uint32_t pid, struct cgroup_names *ret)
{
	char text[16384];

	if (proc_read(text, sizeof(text), "/proc/%u/cgroup", pid) < 0)
		text[0] = '\0';
	cgroup_names_parse(text, ret);
}
