/* SPDX-License-Identifier: Apache-2.0
 *
 * stack.h - what is read of threads and processes from outside, besides their communicators. Texts as in struct event.
 */
#ifndef RANKTRACE_MODEL_STACK_H
#define RANKTRACE_MODEL_STACK_H

#include <stdbool.h>
#include <stdint.h>

struct task_stack {
	uint64_t ns;         /* 0 never */
	bool sampled;
	const char *wait, *file, *kernel, *frames, *python, *native, *end;
};

struct proc_outside {        /* of a process that was looked at from outside */
	const char *host;    /* in a merge of several hosts: its own; NULL: the session's */
	uint32_t host_pid;   /* there; tgid is the stream's own number */
	const char *stacks_unread; /* why no stack of it could be read; NULL: some were, or nobody tried */
};

#endif
