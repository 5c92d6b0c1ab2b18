/* SPDX-License-Identifier: Apache-2.0
 *
 * child.h - a process of its own that reads what `top` shows, and hands it over by a pipe: what reads never waits for
 * the screen and its user, and what draws needs no rights. It ends when `top` does, however that ends.
 */
#ifndef RANKTRACE_TOP_CHILD_H
#define RANKTRACE_TOP_CHILD_H

#include <sys/types.h>

struct top_child {
	pid_t pid;
	int data_fd;    /* what it read */
	int log_fd;     /* its messages, as text; does not wait */
	int control_fd; /* SOCK_SEQPACKET: what is asked of it; its end is the child's */
};

/* Forks: while this process has one thread, and no terminal taken. The child has `run` as its main function, data as
 * standard output, messages as standard error; what that returns is its exit code. 0 or -errno. */
int top_child_start(int (*run)(void *of, int control_fd), void *of, struct top_child *ret);
/* Has it end, and waits for that, for some seconds at most. Its exit code; -1: it still ends, or was killed. */
int top_child_end(struct top_child *c);

#endif
