/* SPDX-License-Identifier: Apache-2.0
 *
 * side_thread.h - a sampler's thread for work that may take a while, or never come back: asked by the collector, done,
 * taken by it at a later look. What the work uses is the thread's while it is asked, else the collector's.
 */
#ifndef RANKTRACE_SAMPLE_SIDE_THREAD_H
#define RANKTRACE_SAMPLE_SIDE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum side_step { SIDE_IDLE, SIDE_ASKED, SIDE_DONE };

struct side_thread {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum side_step step; /* this and `quit` under the lock */
	bool quit;
	const char *name;
	void (*work)(void *of);
	void *of;
};

/* name: at most 15 characters, borrowed. It runs no signal handler. 0 or -errno. */
int side_thread_start(struct side_thread *t, const char *name, void (*work)(void *of), void *of);
enum side_step side_thread_step(struct side_thread *t);
/* SIDE_ASKED: begin; SIDE_IDLE: what was done is taken. */
void side_thread_set(struct side_thread *t, enum side_step step);
/* Ends it and waits for a second. False: its work does not come back, and keeps what it uses. */
bool side_thread_end(struct side_thread *t);
/* CPU time of the calling thread, ns: getrusage() is exact to the tick only. */
uint64_t side_thread_cpu_ns(void);

#endif
