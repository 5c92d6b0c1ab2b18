/* SPDX-License-Identifier: Apache-2.0
 *
 * side_thread.h - a sampler's thread for work that may take long or never return.
 *
 * The collector asks for work, the thread does it, the collector takes the result at a later poll. The data belongs to
 * the thread while the work is asked for, otherwise to the collector.
 */
#ifndef RANKTRACE_SAMPLE_SIDE_THREAD_H
#define RANKTRACE_SAMPLE_SIDE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define SIDE_LIMIT_NS 10000000000ull

enum side_step { SIDE_IDLE, SIDE_ASKED, SIDE_DONE };

struct side_thread {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum side_step step; /* this, `quit` and `over` are protected by the lock */
	bool quit, over;
	uint64_t asked_ns; /* of the collector: since when the work is asked for */
	uint64_t limit_ns; /* 0: SIDE_LIMIT_NS */
	bool late;         /* it takes longer than the limit, which was said */
	const char *name;
	void (*work)(void *of);
	void *of;
};

/* name: at most 15 characters, borrowed. The thread runs no signal handler. 0 or -errno. */
int side_thread_start(struct side_thread *t, const char *name, void (*work)(void *of), void *of);
enum side_step side_thread_step(struct side_thread *t);
/* Waits until its work is done, so long at most. */
enum side_step side_thread_wait(struct side_thread *t, uint64_t ns);
/* SIDE_ASKED: begin the work; SIDE_IDLE: the result was taken. */
void side_thread_set(struct side_thread *t, enum side_step step);
/* The collector's turn: `take` gets what the thread was given for, of work that is done. 0: the thread is idle and the
 * next may be asked for; 1: it is at work, and past its limit that is said once, and when it answers again; or take's
 * -errno. */
int side_thread_take(struct side_thread *t, int (*take)(void *of, uint64_t now_ns), uint64_t now_ns);
/* Its work was asked for longer ago than that. */
bool side_thread_overdue(struct side_thread *t, uint64_t limit_ns);
/* Ends the thread; waits a second at most, and not for one that is late. False: its work does not return and keeps its
 * data. */
bool side_thread_end(struct side_thread *t);
/* CPU time of the calling thread, ns; getrusage() is only exact to the tick. */
uint64_t side_thread_cpu_ns(void);

#endif
