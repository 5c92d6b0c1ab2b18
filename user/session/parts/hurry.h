/* SPDX-License-Identifier: Apache-2.0
 *
 * hurry.h - CPU time for the loop where a host has a thousand times more to run than it has CPUs: a fork flood, or as
 * many processes that end at once, would keep it waiting for seconds. A thread of a low real-time priority looks every
 * 50 ms whether the loop had its turn, and a CPU for it: with a fifth of a CPU or less it attaches for ten seconds and
 * is late in none of its turns. Where it had not, the loop gets that priority too, for some seconds; it needs no more
 * CPU time by that, only sooner. Of a second it has that priority for half a second of CPU time at most, and for half a
 * minute not at all where it had even less of a CPU with it.
 */
#ifndef RANKTRACE_HURRY_H
#define RANKTRACE_HURRY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct hurry {
	pthread_t thread;
	bool is_on;     /* the thread is there */
	bool was_ahead; /* what hurry_changed() said last */
	bool said;
	pid_t tid;            /* of the loop */
	clockid_t loop_clock; /* its CPU time */
	uint64_t period_ns;   /* of the loop */
	_Atomic uint64_t beat_ns;
	_Atomic bool is_ahead, quit;
};

/* From the loop's own thread, whose turns count from its first beat. Without CAP_SYS_NICE, or memory, the loop does
 * without. */
void hurry_open(struct hurry *h, uint64_t period_ns);
void hurry_close(struct hurry *h);
/* The loop has its turn. */
void hurry_beat(struct hurry *h, uint64_t now_ns);
/* True: the loop's priority rose, or fell, since this was asked last. Says the first time why. */
bool hurry_changed(struct hurry *h, bool *ret_is_ahead);

#endif
