/* SPDX-License-Identifier: Apache-2.0
 *
 * habit.h - part of stage 3: how long a rank may keep its peers waiting before that is a warning, and critical. Takes a
 * culprit and the place where it pauses; gives the limits, by what ended by itself there before (detect/pauses.h).
 */
#ifndef RANKTRACE_HABIT_H
#define RANKTRACE_HABIT_H

#include "detect/hang/pending.h"
#include "detect/pauses.h"
#include "detect/rank/activity.h"

struct pause_place {        /* where a rank pauses, as far as it was read by now */
	char site[256];     /* Python line, else native frame; "" no stack was read in this pause */
	char wait[64];      /* kernel wait; "" not known */
	uint64_t first_ns;  /* first asked for: stacks are read from then on */
	uint64_t steps;     /* iterations of the rank at its begin */
	uint64_t outlasted; /* the limit that it was critical by; 0 none yet */
	uint64_t moved_ns;  /* newest sign of life in this pause; 0 none */
};

struct habit {
	const struct known_phase *phase;              /* what ended there before; NULL nothing. Valid in this tick */
	uint64_t warning_after_ns, critical_after_ns; /* as in struct finding */
	uint64_t moved_for_ns;                        /* from the pause's begin to its newest sign of life */
};

/* The place, as far as it is known now, of that thread of the process; 0 its main thread. */
void pause_place_read(struct pause_place *at, const struct model *m, const struct proc *p, uint32_t tid,
		      uint64_t since_ns);
/* `works_ns`: how long a rank may work before it is reported as a hang. Such a hang is critical after: */
uint64_t habit_works_critical_ns(uint64_t works_ns);
struct habit habit_of(const struct pauses *s, const struct model *m, const struct proc *p, uint32_t tid,
		      struct pause_place *at, enum activity what, const struct pending *pend, uint64_t works_ns);
/* The pause there is over, by itself. */
void habit_learn(struct pauses *s, const struct model *m, const struct proc *p, const struct pause_place *at,
		 uint64_t since_ns);

#endif
