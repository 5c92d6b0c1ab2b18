/* SPDX-License-Identifier: Apache-2.0
 *
 * live.h - a session of tier watch in a process of its own, whose records `top` reads from a pipe: the screen and its
 * user block no ring, and what draws has no rights. It ends when `top` does, however that ends.
 */
#ifndef RANKTRACE_TOP_LIVE_H
#define RANKTRACE_TOP_LIVE_H

#include <sys/types.h>

#include "session/args.h"

struct top_live {
	pid_t pid;
	int records_fd; /* a recording that goes on */
	int log_fd;     /* its messages and findings, as text; does not wait */
	int control_fd; /* struct session_ask */
};

/* Forks: while this process has one thread, and no terminal taken. 0 or -errno. */
int top_live_start(struct session_args *a, struct top_live *ret);
/* 0, or -errno: it has ended, or takes no more. */
int top_live_ask(const struct top_live *l, enum session_wish wish, uint32_t pid);
/* Has it end, and waits for that, for some seconds at most. Its exit code; -1: it still ends, or was killed. */
int top_live_end(struct top_live *l);

#endif
