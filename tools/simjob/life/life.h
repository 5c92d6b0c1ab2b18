/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ordinary life of a job: phases that come again and again, each a struct of hooks, as faults are. When one comes,
 * how long it takes and whom it concerns follows from the seed and the step alone, so that all ranks agree without a
 * word.
 */
#ifndef SIMJOB_LIFE_H
#define SIMJOB_LIFE_H

#include "tools/simjob/job/fault.h"
#include "tools/simjob/job/rank.h"

/* Communicators that it makes anew, at most: the store has ids for as many. */
#define LIFE_RESTARTS_MAX 400
#define LIFE_FIRST_STEP 20

struct life_event { /* a phase at one step */
	const struct life_phase *phase;
	int rank;       /* whom it concerns, where that is one rank */
	double seconds; /* drawn, times --life-scale */
	uint64_t draw;
	int nth; /* so many steps after its first */
};

/* Any hook may be NULL. Both run in each rank's main thread. */
struct life_phase {
	const char *name;
	int every, steps; /* mean steps from one to the next; it lasts for so many (0: one) */
	double min_s, max_s;
	bool restarts_job;
	bool ends_process; /* of one rank: not where others live in it */
	bool waits_alone;  /* each rank in its own thread, for what others do meanwhile */
	void (*run)(struct rank *rank, const struct life_event *event); /* before a step */
	double (*kernel_factor)(struct rank *rank, const struct life_event *event);
};

#define LIFE_PHASE(ID) extern const struct life_phase life_##ID;
#include "tools/simjob/life/phases.def"
#undef LIFE_PHASE

/* All of them, for the others of this room. */
extern const struct life_phase *const life_phases[];
extern const int nr_life_phases;

static inline uint64_t life_ns(const struct life_event *event)
{
	return (uint64_t)(event->seconds * NSEC_PER_SEC);
}

#endif
