/* SPDX-License-Identifier: Apache-2.0
 *
 * threads.c - names of a process' threads, from /proc/TGID/task (which a held mmap_lock does not block).
 */
#include "target/discover.h"
#include "target/proc_files.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add_thread(uint32_t tgid, uint32_t tid, struct target_thread **rows, size_t *n, size_t *room)
{
	char name[32];
	int rc = proc_read(name, sizeof(name), "/proc/%u/task/%u/comm", tgid, tid);

	if (rc < 0)
		return 0; /* it ended meanwhile */
	if (*n == *room) {
		size_t want = *room ? *room * 2 : 32;
		struct target_thread *more = realloc(*rows, want * sizeof(*more));

		if (!more)
			return -ENOMEM;
		*rows = more;
		*room = want;
	}
	struct target_thread *t = &(*rows)[(*n)++];

	t->tid = tid;
	name[strcspn(name, "\n")] = '\0';
	snprintf(t->name, sizeof(t->name), "%.15s", name);
	return 0;
}

int target_threads_read(uint32_t tgid, struct target_thread **ret, size_t *ret_n)
{
	char path[64];
	struct target_thread *rows = NULL;
	size_t n = 0, room = 0;
	int rc = 0;

	snprintf(path, sizeof(path), "/proc/%u/task", tgid);
	DIR *dir = opendir(path);

	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	for (struct dirent *e; !rc && (e = readdir(dir));)
		if (isdigit((unsigned char)e->d_name[0]))
			rc = add_thread(tgid, strtoul(e->d_name, NULL, 10), &rows, &n, &room);
	closedir(dir);
	if (rc) {
		free(rows);
		return rc;
	}
	*ret = rows;
	*ret_n = n;
	return 0;
}
