/* SPDX-License-Identifier: Apache-2.0
 *
 * mount.c - see mount.h. Of an open file the kernel knows the mount's number (fdinfo), which is right also where the
 * process is in a container; of a path only its begin says it.
 */
#include "inspect/stack/mount.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/reader/proc_files.h"
#include "inspect/stack/evidence.h"

struct mount_line {
	int id;
	char device[24], root[512], point[512], type[64], source[256];
};

/* "\040" and the like stand for characters that would end a field. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; to++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] && s[3]) {
			*to = (s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0');
			s += 4;
		} else {
			*to = *s++;
		}
	}
	*to = '\0';
}

/* "36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw": any number of fields before the dash. */
static bool line_parse(const char *line, struct mount_line *ret)
{
	const char *dash = strstr(line, " - ");

	if (!dash || sscanf(line, "%d %*d %23s %511s %511s", &ret->id, ret->device, ret->root, ret->point) != 4 ||
	    sscanf(dash, " - %63s %255s", ret->type, ret->source) != 2)
		return false;
	unescape(ret->point);
	unescape(ret->source);
	return true;
}

static bool holds(const char *point, const char *path)
{
	size_t n = strlen(point);

	if (n && point[n - 1] == '/') /* the root */
		n--;
	return !strncmp(path, point, n) && (path[n] == '/' || !path[n]);
}

static void mount_put(const struct mount_line *l, char *to, size_t size)
{
	snprintf(to, size, "%s (%s %s, %s)", l->point, l->type, l->source, l->device);
}

bool mount_find(const char *mountinfo, int id, const char *path, char *to, size_t size)
{
	FILE *f = fopen(mountinfo, "re");
	struct mount_line l;
	size_t cap = 0, most = 0, n;
	char *line = NULL;

	*to = '\0';
	while (f && getline(&line, &cap, f) > 0) {
		if (!line_parse(line, &l) || (id == MOUNT_ID_UNKNOWN ? !holds(l.point, path) : l.id != id))
			continue;
		n = strlen(l.point);
		if (n < most)
			continue;
		most = n;
		mount_put(&l, to, size);
	}
	free(line);
	if (f)
		fclose(f);
	return *to;
}

/* Of two mounts of one file system the one of all of it, else the one with the shorter path. */
static bool is_better(const struct mount_line *l, const struct mount_line *best)
{
	bool whole = !strcmp(l->root, "/"), best_whole = !strcmp(best->root, "/");

	if (!*best->device || whole != best_whole)
		return !*best->device || whole;
	return strlen(l->point) < strlen(best->point);
}

bool mount_of_device(const char *mountinfo, unsigned int major, unsigned int minor, char *to, size_t size)
{
	struct mount_line l, best = { .id = MOUNT_ID_UNKNOWN };
	FILE *f = fopen(mountinfo, "re");
	char *line = NULL, device[24];
	size_t cap = 0;

	*to = '\0';
	snprintf(device, sizeof(device), "%u:%u", major, minor);
	while (f && getline(&line, &cap, f) > 0)
		if (line_parse(line, &l) && !strcmp(l.device, device) && is_better(&l, &best))
			best = l;
	free(line);
	if (f)
		fclose(f);
	if (*best.device)
		mount_put(&best, to, size);
	return *best.device;
}

/* The number of the mount that an open file is on. */
static int mount_of_fd(uint32_t tgid, int fd)
{
	char text[1024];
	const char *at;

	if (fd < 0 || proc_read(text, sizeof(text), "/proc/%u/fdinfo/%d", tgid, fd) <= 0)
		return MOUNT_ID_UNKNOWN;
	at = strstr(text, "mnt_id:");
	return at ? atoi(at + strlen("mnt_id:")) : MOUNT_ID_UNKNOWN;
}

static int fd_of(const struct target_evidence *e)
{
	switch (e->syscall_nr < 0 ? SUBJECT_NONE : syscall_subject(e->syscall_nr)) {
	case SUBJECT_FD: return (int)e->args[0];
	case SUBJECT_FD1: return (int)e->args[1];
	case SUBJECT_FD4: return (int)e->args[4];
	default: return -1;
	}
}

void mount_of_evidence(uint32_t tgid, const struct target_evidence *e, char *to, size_t size)
{
	char mountinfo[64];

	*to = '\0';
	if (e->file[0] != '/') /* pipes, sockets: "pipe:[1]" */
		return;
	snprintf(mountinfo, sizeof(mountinfo), "/proc/%u/mountinfo", tgid);
	mount_find(mountinfo, mount_of_fd(tgid, fd_of(e)), e->file, to, size);
}
