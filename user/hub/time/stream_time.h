/* SPDX-License-Identifier: Apache-2.0
 *
 * stream_time.h - the hub's axis of time. It begins as the clock of the server that stores messages, so that all who
 * follow judge the same past at the same times; where that was gone through, it goes on by this process's own clock. A
 * step of the server's clock, or another server's clock, moves the offset between the two, not the axis. Pure: times
 * are given.
 */
#ifndef RANKTRACE_HUB_STREAM_TIME_H
#define RANKTRACE_HUB_STREAM_TIME_H

#include <stdbool.h>
#include <stdint.h>

#define STREAM_STEP_NS 2000000000ll /* what is off by less is delay, or drift */

struct stream_time {             /* zeroed at first. All in ns; `mono`: this process's clock */
	uint64_t now_ns;         /* on the axis; 0: no message yet */
	uint64_t mono_ns;        /* as of then */
	int64_t moved_ns;        /* axis - server's clock: the sum of its steps */
	uint64_t stored_ns;      /* when the newest message was stored, on the axis */
	uint64_t stored_mono_ns; /* when that one was taken */
	bool empty;              /* no message was in hand when it was last asked for one: what comes next is new */
	bool caught_up;          /* the server had none behind one that was taken: what comes next was not kept */
	bool runs;               /* by this process's clock: the past was gone through, and a message came behind it */
	uint64_t own_ns;         /* then: what the time is by that clock, at mono_ns */
	uint64_t behind_mono_ns; /* since then no message was of the present; 0: the last one was */
	int64_t behind_ns;       /* the least that they were off; negative */
	bool misplaced;          /* the last step is known late: messages behind it had too early a place on the axis */
	uint64_t drift_mono_ns;  /* since then the messages of the present were off by */
	int64_t drift_ns;        /* so much at the most: over own_ns */
};

/* A message that was not taken before. `newest`: the server has none behind it. Returns the step of the server's clock
 * that it shows (ns; negative: back), 0: none. */
int64_t stream_time_take(struct stream_time *t, uint64_t stored_ns, bool newest, uint64_t mono_ns);
/* There is none. */
void stream_time_pass(struct stream_time *t, uint64_t mono_ns);

#endif
