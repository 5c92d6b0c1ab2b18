/* SPDX-License-Identifier: Apache-2.0
 *
 * wait_owners.c - which process has the other end: one pass over the descriptors of all processes, bounded in time. Of
 * several, as with a pipe that all data workers inherit, the one that is at work is likelier than one that idles, and a
 * child likelier than a stranger.
 */
#include "inspect/wait/wait_private.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "inspect/reader/proc_files.h"

#define PARENTS_MAX 4

/* Asleep in what a worker without work is in. */
static bool idles(uint32_t pid)
{
	static const char *const waits[] = { "pipe_", "poll", "select", "futex", "wait_for_partner", "sigsuspend" };
	char wchan[64];

	if (proc_read(wchan, sizeof(wchan), "/proc/%u/wchan", pid) < 0)
		return false;
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
		if (strstr(wchan, waits[i]))
			return true;
	return false;
}

/* How likely it is that others wait for this one: dead, idle, asleep, running, blocked. */
static int likelihood(uint32_t pid)
{
	struct proc_stat st;

	if (proc_stat_read(pid, &st) || st.state == 'Z' || st.state == 'X')
		return 0;
	if (st.state == 'D' || st.state == 'T')
		return 4;
	if (st.state == 'R')
		return 3;
	return idles(pid) ? 1 : 2;
}

static bool is_younger(uint32_t a, uint32_t b)
{
	struct proc_stat x, y;

	return !proc_stat_read(a, &x) && !proc_stat_read(b, &y) && x.start_time_ns > y.start_time_ns;
}

static bool is_child_of(uint32_t pid, uint32_t tgid)
{
	struct proc_stat st;

	for (int i = 0; i < PARENTS_MAX && pid > 1 && !proc_stat_read(pid, &st); i++, pid = st.parent)
		if (st.parent == tgid)
			return true;
	return false;
}

static void owner_add(const struct wait_ends *s, struct wait_end *e, uint32_t pid)
{
	int rank;
	bool is_child;

	if (pid == s->tgid) {
		e->is_own = true;
		return;
	}
	is_child = is_child_of(pid, s->tgid);
	rank = likelihood(pid) + (is_child ? 16 : is_child_of(s->tgid, pid) ? 8 : 0); /* relatives before strangers */
	e->n_pids++;
	if (e->pid && (rank < e->rank_of_pid || (rank == e->rank_of_pid && !is_younger(pid, e->pid))))
		return;
	e->pid = pid;
	e->rank_of_pid = rank;
	e->is_child = is_child;
}

/* A pipe is one file: who may do the opposite has the other end. */
static bool does_opposite(uint32_t pid, const char *fd, const struct wait_end *e)
{
	char info[512], *flags;
	unsigned long mode;

	if (proc_read(info, sizeof(info), "/proc/%u/fdinfo/%s", pid, fd) < 0)
		return false;
	flags = strstr(info, "flags:");
	mode = flags ? strtoul(flags + 6, NULL, 8) & O_ACCMODE : O_RDWR;
	return mode == O_RDWR || mode == (e->fd.act == WAITS_TO_WRITE ? O_RDONLY : O_WRONLY);
}

static bool is_other_end(const struct wait_end *e, uint32_t pid, const char *fd, const char *name, uint64_t socket,
			 uint64_t pipe)
{
	switch (e->kind) {
	case END_TCP:
	case END_UNIX: return socket && socket == e->peer;
	case END_PIPE: return pipe && pipe == e->peer && does_opposite(pid, fd, e);
	case END_FIFO: return !socket && !pipe && !strcmp(name, e->what) && does_opposite(pid, fd, e);
	default: return false;
	}
}

static void fds_match(struct wait_ends *s, uint32_t pid, uint64_t until_ns)
{
	char path[64], name[256];
	struct dirent *f;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%u/fd", pid);
	d = opendir(path);
	while (d && (f = readdir(d)) && clock_monotonic_ns() < until_ns) {
		ssize_t len = readlinkat(dirfd(d), f->d_name, name, sizeof(name) - 1);
		uint64_t socket = 0, pipe = 0;

		if (len <= 0)
			continue;
		name[len] = 0;
		if (sscanf(name, "socket:[%" SCNu64 "]", &socket) != 1)
			sscanf(name, "pipe:[%" SCNu64 "]", &pipe);
		for (size_t i = 0; i < s->n; i++)
			if (s->ends[i].pid != pid && is_other_end(&s->ends[i], pid, f->d_name, name, socket, pipe))
				owner_add(s, &s->ends[i], pid);
	}
	if (d)
		closedir(d);
}

static bool some_sought(const struct wait_ends *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->ends[i].peer || s->ends[i].kind == END_FIFO)
			return true;
	return false;
}

static uint32_t pid_next(DIR *d)
{
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (isdigit((unsigned char)e->d_name[0]))
			return strtoul(e->d_name, NULL, 10);
	return 0;
}

void wait_owners_sample(struct wait_ends *s, uint64_t until_ns)
{
	DIR *d = some_sought(s) ? opendir("/proc") : NULL;
	uint32_t pid;

	while ((pid = pid_next(d)) && clock_monotonic_ns() < until_ns)
		fds_match(s, pid, until_ns);
	if (d)
		closedir(d);
}

static bool is_sought(uint32_t pid, uint32_t tgid, int ns_pid)
{
	struct proc_status status;
	struct proc_stat st;

	if (proc_stat_read(pid, &st) || st.parent != tgid)
		return false;
	return !ns_pid || (!proc_status_read(pid, &status) && status.ns_pid == (uint32_t)ns_pid);
}

struct wait_child wait_child_find(uint32_t tgid, int ns_pid)
{
	struct wait_child best = { 0 };
	DIR *d = opendir("/proc");
	int rank, best_rank = -1;
	uint32_t pid;

	while ((pid = pid_next(d))) {
		if (!is_sought(pid, tgid, ns_pid))
			continue;
		best.n++;
		rank = likelihood(pid);
		if (rank < best_rank || (rank == best_rank && !is_younger(pid, best.pid)))
			continue;
		best.pid = pid;
		best_rank = rank;
	}
	if (d)
		closedir(d);
	return best;
}
