/* SPDX-License-Identifier: Apache-2.0
 *
 * wait_threads.c - of a thread that waits for another one of its process, without a word on which: the one that waits
 * for somebody outside is the likeliest. PyTorch's pin_memory thread stands so between a rank and its data workers, a
 * pool's thread between it and an object store. Not followed are sockets on high ports, as NCCL's own threads always
 * wait on some, and threads of the driver and of NCCL: they poll pipes that the rank's children hold open, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "inspect/discover/discover.h"
#include "inspect/reader/proc_files.h"
#include "inspect/wait/wait_private.h"

#define CANDIDATES_MAX 12 /* threads sampled closely */
#define TIME_MAX_NS 500000000ull
#define PORT_PRIVATE 1024 /* the first that a program without privilege may listen on */

/* By its system call alone. */
static bool may_wait_outside(uint32_t tgid, uint32_t tid)
{
	char text[256];
	int nr = -1;

	if (proc_read(text, sizeof(text), "/proc/%u/task/%u/syscall", tgid, tid) <= 0 || sscanf(text, "%d", &nr) != 1)
		return false;
	switch (wait_call_of(nr).ask) {
	case ASK_FD:
	case ASK_POLL:
	case ASK_SELECT:
	case ASK_EPOLL:
	case ASK_WAIT4:
	case ASK_WAITID: return true;
	case ASK_FILE: return wait_call_of(nr).act == WAITS_TO_OPEN;
	default: return false;
	}
}

static bool is_served_port(const char *address)
{
	const char *colon = strrchr(address, ':');
	int port = colon ? atoi(colon + 1) : 0;

	return port > 0 && port < PORT_PRIVATE;
}

static bool is_outside(const struct waits_for *w)
{
	switch (w->kind) {
	case WAITS_CHILD: return w->pid != 0;
	case WAITS_FILE: return w->act != WAITS_TO_OTHER && strncmp(w->what, "/dev/", 5);
	case WAITS_SOCKET: return !(w->flags & (WAITS_OWN | WAITS_UNIX)) && is_served_port(w->what);
	default: return false;
	}
}

static bool is_of_library(const struct target_wait *w)
{
	static const char *const names[] = { "cuda", "nccl", "NCCL", "pt_nccl" };
	char name[16] = "";

	wait_name_read(w->tgid, w->tid, name, sizeof(name));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	return false;
}

static void thread_take(struct target_wait *w, const struct target_wait *other)
{
	w->w.thread = other->tid;
	w->work_ns = other->work_ns;
	wait_name_read(w->tgid, other->tid, w->who, sizeof(w->who));
	wait_text(&other->w, w->activity, sizeof(w->activity));
}

void wait_threads_follow(struct reader *r, unsigned deadline_ms, struct target_wait *w)
{
	uint64_t until_ns = clock_monotonic_ns() + TIME_MAX_NS;
	struct target_thread *all = NULL;
	struct target_wait other;
	int n_close = 0;
	size_t n = 0;

	if (target_threads_read(w->tgid, &all, &n))
		return;
	for (size_t i = 0; i < n && !w->w.thread && n_close < CANDIDATES_MAX && clock_monotonic_ns() < until_ns; i++) {
		if (all[i].tid == w->tid || !may_wait_outside(w->tgid, all[i].tid))
			continue;
		n_close++;
		if (!wait_sample(r, w->tgid, all[i].tid, deadline_ms, WAIT_THREAD, &other) && is_outside(&other.w) &&
		    !is_of_library(&other))
			thread_take(w, &other);
	}
	free(all);
}
