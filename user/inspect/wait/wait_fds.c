/* SPDX-License-Identifier: Apache-2.0
 *
 * wait_fds.c - what a process' descriptors are: by the name of the open file, which nothing can delay, and for files
 * with a path by their type as the kernel has it in memory.
 */
#include "inspect/wait/wait_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "inspect/reader/proc_files.h"

static uint64_t number_after(const char *text, const char *key, int base)
{
	const char *at = strstr(text, key);

	return at ? strtoull(at + strlen(key), NULL, base) : 0;
}

/* Nothing is asked of a server that a network file system may have. */
static enum end_kind kind_of_path(const char *path)
{
	struct statx st;

	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_TYPE, &st))
		return END_FILE;
	return S_ISFIFO(st.stx_mode) ? END_FIFO : END_FILE;
}

static void timer_take(struct wait_end *e, const char *info)
{
	const char *at = strstr(info, "it_value: (");
	uint64_t s = 0, ns = 0;

	e->kind = END_TIMER;
	snprintf(e->what, sizeof(e->what), "timerfd");
	if (at && sscanf(at, "it_value: (%" SCNu64 ", %" SCNu64, &s, &ns) == 2 && (s || ns))
		e->until_ns = clock_monotonic_ns() + s * 1000000000ull + ns;
}

static void anonymous_take(struct wait_ends *s, struct wait_end *e, const char *name)
{
	char info[4096];

	e->kind = END_EVENT;
	snprintf(e->what, sizeof(e->what), "%.*s", (int)strcspn(name, "]"), name);
	if (proc_read(info, sizeof(info), "/proc/%u/fdinfo/%d", s->tgid, e->fd.fd) < 0)
		return;
	if (!strncmp(name, "timerfd", 7)) {
		timer_take(e, info);
	} else if (!strncmp(name, "pidfd", 5)) {
		e->pid = number_after(info, "\nPid:", 10);
		e->kind = e->pid && (int32_t)e->pid > 0 ? END_PROCESS : END_EVENT;
	}
}

/* By the name of the open file. */
static void end_take(struct wait_ends *s, struct wait_end *e)
{
	char path[64], name[256];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%u/fd/%d", s->tgid, e->fd.fd);
	len = readlink(path, name, sizeof(name) - 1);
	if (len < 0)
		return;
	name[len] = 0;
	if (sscanf(name, "socket:[%" SCNu64 "]", &e->inode) == 1) {
		e->kind = END_SOCKET;
	} else if (sscanf(name, "pipe:[%" SCNu64 "]", &e->inode) == 1) {
		e->kind = END_PIPE;
		e->peer = e->inode;
	} else if (!strncmp(name, "anon_inode:", 11)) {
		anonymous_take(s, e, name + 11 + (name[11] == '['));
	} else {
		e->kind = kind_of_path(path);
		memcpy(e->what, name, sizeof(e->what));
	}
}

static void end_add(struct wait_ends *s, struct wait_fd fd)
{
	if (s->n == WAIT_FDS_MAX)
		return;
	s->ends[s->n] = (struct wait_end){ .fd = fd, .quiet_ns = UINT64_MAX };
	end_take(s, &s->ends[s->n]);
	s->n += s->ends[s->n].kind != END_NONE;
}

/* An epoll descriptor stands for those that it watches. */
static bool epoll_add(struct wait_ends *s, struct wait_fd fd)
{
	struct wait_fd watched[WAIT_FDS_MAX];
	char path[64], name[64] = "", info[16384];
	size_t n;

	snprintf(path, sizeof(path), "/proc/%u/fd/%d", s->tgid, fd.fd);
	if (readlink(path, name, sizeof(name) - 1) < 0 || strcmp(name, "anon_inode:[eventpoll]"))
		return false;
	if (proc_read(info, sizeof(info), "/proc/%u/fdinfo/%d", s->tgid, fd.fd) < 0)
		return false;
	n = wait_epoll_take(info, watched, WAIT_FDS_MAX);
	for (size_t i = 0; i < n; i++)
		end_add(s, watched[i]);
	return n;
}

void wait_fds_sample(struct wait_ends *s, const struct wait_fd *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!epoll_add(s, fds[i]))
			end_add(s, fds[i]);
}
