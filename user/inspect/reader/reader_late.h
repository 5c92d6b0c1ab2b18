/* SPDX-License-Identifier: Apache-2.0
 *
 * reader_late.h - workers, and those that are late: which process kept one, whether it is still waited for, and when
 * that process is asked again. Private to reader.c and reader_late.c.
 */
#ifndef RANKTRACE_TARGET_READER_LATE_H
#define RANKTRACE_TARGET_READER_LATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct worker {
	pid_t pid; /* 0 none */
	int fd;    /* pidfd */
	int sock;
	uint32_t owner; /* of all that a parser was given so far */
	bool is_used, is_hurried;
	const char *shm;
};

void worker_drop(struct worker *w); /* kills it, waits for nothing */
enum worker_state {
	WORKER_RUNS,
	WORKER_ASLEEP,  /* in the kernel (S, D): then lateness says something about the target */
	WORKER_STOPPED, /* by somebody */
};
enum worker_state worker_state(pid_t pid);
uint64_t worker_cpu_ns(const struct worker *w); /* 0: it is gone */
/* 1: readable, 0: time is up, -errno. */
int worker_wait(int fd, unsigned timeout_ms);

struct late;
struct late_table {
	struct late *rows;
	unsigned n_parked;
};

/* May this process be asked? 0 yes; -ETIMEDOUT, -EBUSY, -EINPROGRESS, -EAGAIN as in reader.h. */
int late_check(struct late_table *t, pid_t pid);
/* It timed out and has not answered since. */
bool late_held(const struct late_table *t, pid_t pid);
/* While true, late_check() says -EBUSY. */
bool late_refused(const struct late_table *t, pid_t pid);
/* It timed out now: not asked again for 0.5 s, doubling to 4 s. */
void late_timed_out(struct late_table *t, pid_t pid);
/* Takes the worker, which stays with its call until `due_ns`, and past it for as long again four times if it runs. */
void late_park(struct late_table *t, pid_t pid, struct worker *w, uint64_t due_ns, unsigned deadline_ms);
void late_forget(struct late_table *t, pid_t pid);
void late_free(struct late_table *t);

#endif
