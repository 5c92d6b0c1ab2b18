/* SPDX-License-Identifier: Apache-2.0
 *
 * threads.c - what a process' threads say of themselves in /proc/TGID/task, where a held mmap_lock blocks no reader.
 */
#include "inspect/discover/discover.h"
#include "inspect/reader/proc_files.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
	return target_threads_read_some(tgid, 0, SIZE_MAX, ret, ret_n);
}

int target_threads_read_some(uint32_t tgid, size_t from, size_t most, struct target_thread **ret, size_t *ret_n)
{
	char path[64];
	struct target_thread *rows = NULL;
	size_t n = 0, room = 0, place = 0;
	int rc = 0;

	snprintf(path, sizeof(path), "/proc/%u/task", tgid);
	DIR *dir = opendir(path);

	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	for (struct dirent *e; !rc && n < most && (e = readdir(dir));)
		if (isdigit((unsigned char)e->d_name[0]) && place++ >= from)
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

bool target_threads_over(uint32_t tgid)
{
	struct proc_stat st;

	return proc_stat_read(tgid, &st) || st.state == 'Z' || st.state == 'X';
}

static bool thread_blocked(uint32_t tgid, const char *tid)
{
	char text[1024];
	struct proc_stat st;

	return proc_read(text, sizeof(text), "/proc/%u/task/%s/stat", tgid, tid) > 0 && !proc_stat_parse(text, &st) &&
	       st.state == 'D';
}

/* Outside of any system call: what is left for user code to sleep in is a fault. */
static bool thread_faults(uint32_t tgid, const char *tid)
{
	char text[256];

	return thread_blocked(tgid, tid) && proc_read(text, sizeof(text), "/proc/%u/task/%s/syscall", tgid, tid) > 0 &&
	       !strncmp(text, "-1 ", 3);
}

static bool threads_any(uint32_t tgid, bool (*is)(uint32_t tgid, const char *tid))
{
	char path[64];
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%u/task", tgid);
	DIR *dir = opendir(path);

	if (!dir)
		return false;
	for (struct dirent *e; !found && (e = readdir(dir));)
		found = isdigit((unsigned char)e->d_name[0]) && is(tgid, e->d_name);
	closedir(dir);
	return found;
}

bool target_threads_blocked(uint32_t tgid)
{
	return threads_any(tgid, thread_blocked);
}

bool target_threads_faulting(uint32_t tgid)
{
	return threads_any(tgid, thread_faults);
}

/* Takes no lock; only a process without memory has none. */
static int exe_link(uint32_t tgid, const char *tid, char *to, size_t size)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%u/task/%.20s/exe", tgid, tid);
	n = readlink(path, to, size - 1);
	if (n < 0)
		return -errno;
	to[n] = '\0';
	return 0;
}

int target_exe_read(uint32_t tgid, char *to, size_t size)
{
	char path[64];
	int rc = -ESRCH;

	snprintf(path, sizeof(path), "/proc/%u/task", tgid);
	DIR *dir = opendir(path);

	if (!dir)
		return -errno;
	for (struct dirent *e; rc && (e = readdir(dir));)
		if (isdigit((unsigned char)e->d_name[0]))
			rc = exe_link(tgid, e->d_name, to, size);
	closedir(dir);
	return rc;
}
