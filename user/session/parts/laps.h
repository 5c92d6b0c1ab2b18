/* SPDX-License-Identifier: Apache-2.0
 *
 * laps.h - what a turn of the loop spends its time on. The longest gap between two ticks says with it which part to
 * look at.
 */
#ifndef RANKTRACE_LAPS_H
#define RANKTRACE_LAPS_H

#include <stdint.h>

enum lap {
	LAP_IDLE, /* in poll(), where it waits or gets no CPU */
	LAP_RINGS,
	LAP_TARGETS, /* rescan and attach */
	LAP_SCAN,
	LAP_SAMPLERS,
	LAP_STACKS,
	LAP_TICK,
	LAP_RECORDS, /* through model, detectors and sinks */
	LAP_WRITE,   /* dumps, outputs, what is said */
	LAPS
};

/* Of the loop's thread since its start. */
struct lap_cpu {
	uint64_t on_ns, ready_ns; /* on a CPU; ready to run, without one. 0: this kernel does not count it */
};

struct laps {
	uint64_t at_ns, ns[LAPS];
	uint64_t gap_ns, most_ns; /* of the longest gap, and what took most of it */
	enum lap most;
	struct lap_cpu cpu, gap_cpu; /* at its begin; of the longest gap: what is left of that it slept */
};

/* The time since the last call, or laps_gap(), goes to this part. */
void laps_add(struct laps *l, enum lap lap);
/* A gap is over. From the loop's thread. */
void laps_gap(struct laps *l, uint64_t gap_ns);
const char *lap_name(enum lap lap);

#endif
