/* SPDX-License-Identifier: Apache-2.0
 *
 * hand_known.h - hand_job.h where model_proc() finds the processes: `known` instead of `procs`, from hand_find() to
 * hand_lose().
 */
#ifndef RANKTRACE_HAND_KNOWN_H
#define RANKTRACE_HAND_KNOWN_H

#include "tests/unit/job/hand_job.h"

static struct model *hand_model;
static struct proc *known[HAND_RANKS], hand_was[HAND_RANKS];

static inline void hand_find_one(int r)
{
	struct event e = { .kind = EV_PROC,
			   .tgid = HAND_PID(r),
			   .proc = { .rank = r, .world_size = HAND_RANKS, .name = "train" } };

	assert_int_equal(model_apply(hand_model, &e), 0);
	known[r] = (struct proc *)model_proc(hand_model, procs[r].key);
	hand_was[r] = *known[r];
	*known[r] = procs[r];
	known[r]->leader = known[r];
	known[r]->next = NULL;
	if (r)
		known[r - 1]->next = known[r];
	mains[r].proc = proxies[r].proc = members[r].proc = known[r];
}

/* What hand_setup() made: a model of its own holds the processes from here on. */
static inline void hand_find(void)
{
	hand_model = model_new();
	for (int r = 0; r < HAND_RANKS; r++)
		hand_find_one(r);
	m.procs = known[0];
	m.state = hand_model->state;
}

static inline void hand_lose(void)
{
	for (int r = 0; r < HAND_RANKS; r++) {
		*known[r] = hand_was[r];
		known[r]->next = r + 1 < HAND_RANKS ? known[r + 1] : NULL; /* which came later */
	}
	model_free(hand_model);
}

#endif
