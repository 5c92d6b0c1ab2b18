/* SPDX-License-Identifier: Apache-2.0
 *
 * wait_processes.h - processes that wait, for tests of what is read of them from outside: each is a fork of the test.
 */
#ifndef RANKTRACE_TESTS_WAIT_PROCESSES_H
#define RANKTRACE_TESTS_WAIT_PROCESSES_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "inspect/wait/wait_private.h"

#define LOOKS 1500 /* of 20 ms: until the process is where it is to be */

static struct reader *reader;
static char folder[] = "/tmp/ranktrace-wait-XXXXXX";
static struct shared { /* with the forks */
	uint32_t port, tid, pid, inner;
	volatile bool at_work; /* the process is done with what comes before its wait */
} * shared;

/* --- processes that wait --- */

static inline pid_t fork_into(void (*body)(void *), void *arg)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	body(arg);
	_exit(0);
}

static inline void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static inline void work_expect(void)
{
	for (int i = 0; i < LOOKS && !shared->at_work; i++)
		usleep(20000);
	assert_true(shared->at_work);
}

/* Looks until the sentence has `part` in it. */
static inline void expect(pid_t pid, const char *part, struct target_wait *w)
{
	char text[1024] = "";
	int err = 0;

	for (int i = 0; i < LOOKS; i++) {
		err = target_wait_read(reader, pid, pid, WAIT_DEADLINE_MS, w);
		wait_text(&w->w, text, sizeof(text));
		if (!err && strstr(text, part))
			return;
		usleep(20000);
	}
	fail_msg("\"%s\" (%d) has no \"%s\"", text, err, part);
}

static inline void expect_kind(pid_t pid, const char *part, enum waits_kind kind, struct target_wait *w)
{
	expect(pid, part, w);
	assert_int_equal(w->w.kind, kind);
}

static inline int waits_begin(void **state)
{
	(void)state;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED || !mkdtemp(folder);
}

static inline int waits_over(void **state)
{
	(void)state;
	return rmdir(folder);
}

#endif
