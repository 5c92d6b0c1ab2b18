/* SPDX-License-Identifier: Apache-2.0
 *
 * phases.h - the phases of a rank's step, from the marks that PyTorch passes. Part of model.h.
 */
#ifndef RANKTRACE_MODEL_PHASES_H
#define RANKTRACE_MODEL_PHASES_H

#include <stdbool.h>
#include <stdint.h>

#include "event.h"

struct model;
struct proc;

/* GC: collections of garbage, wherever in a step; what they took is in no other phase. */
enum step_phase { PHASE_DATA_WAIT, PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER, PHASE_GC, STEP_PHASES };
#define PHASE_OTHER STEP_PHASES /* what of a step is in none of them */
#define PHASES_AND_OTHER (STEP_PHASES + 1)

/* By what a step's borders and its optimizer are known: PyTorch's ranges, or, where these are not seen, the operators
 * that its optimizers run. Phases of the one are not as long as those of the other. */
enum steps_by { STEPS_BY_RANGES, STEPS_BY_OPERATORS };

#define STEP_PARTS_MAX 64 /* of one step that are kept one by one; their time counts in any case */

/* Of all training steps of a process that are over, since it is traced; batches of an evaluation do not count. */
struct phase_totals {
	uint64_t n_steps, wall_ns;
	enum steps_by by;                   /* of the newest one */
	uint32_t by_changes;                /* how often that became another: totals before and after do not compare */
	uint64_t host_ns[PHASES_AND_OTHER]; /* without the training thread's waits for its GPU in them */
	uint64_t gpu_wait_ns, exposed_most_ns;
	uint64_t storage_ns[PHASES_AND_OTHER]; /* of host_ns: blocked in calls on files, for 1 ms and more at a time */
	uint32_t storage_at; /* STORAGE_AT() of the longest of these waits in the newest step with one */
};

struct step_part {
	enum step_phase phase;
	uint64_t begin_ns, end_ns;
};

/*
 * A step of one rank that is over, of the thread that trains. It ends where the next batch is asked for after the
 * optimizer ran (or after an evaluation's forward); where no DataLoader shows, where the optimizer's last range ended.
 * Forward lasts from its first mark to the backward, so that it holds the loss; without a mark it begins where what
 * came before ended (forward_by_gap). What is in no phase is other.
 *
 * Without ranges (STEPS_BY_OPERATORS) a wait for data is not seen and is other, or the forward's where that has no mark
 * either. The optimizer lasts from the first of its operators to the end of the last, and ends the step; a forward
 * begins with DDP's mark, or where the training thread gathers sharded parameters for it (forward_by_gather).
 */
struct step_done {
	const struct proc *proc;
	uint32_t tid;
	uint64_t number; /* from 1, of this process as traced */
	uint64_t begin_ns, end_ns;
	uint64_t phase_ns[STEP_PHASES];
	bool by_data_wait; /* its end, and so the next one's begin; else by the optimizer's end */
	enum steps_by by;
	bool forward_by_gap;                /* some forward had no mark */
	bool forward_by_gather;             /* some forward began with an all-gather of the training thread */
	bool end_by_next;                   /* a backward's end was not seen: it lasted until the next mark at most */
	uint32_t n_backward, n_optimizer;   /* micro-batches; 0 backwards: an evaluation's batch */
	uint64_t n_ops;                     /* NCCL operations called in it, by any thread */
	uint64_t gpu_wait_ns;               /* its host waits for the GPU */
	uint64_t wait_ns[PHASES_AND_OTHER]; /* the same, in each phase */
	/* Of these: from when an operation that ended with the wait could run. Work of the same stream behind it is in
	 * it: the exposed communication is at most that. */
	uint64_t exposed_most_ns;
	uint64_t storage_ns[PHASES_AND_OTHER]; /* in each phase: the training thread was blocked in calls on files */
	uint64_t storage_longest_ns;           /* the longest of these waits; */
	uint32_t storage_at;                   /* where, STORAGE_AT() */
	int n_parts;
	struct step_part parts[STEP_PARTS_MAX];
};

/* What of a step is in no phase. */
static inline uint64_t step_other_ns(const struct step_done *s)
{
	uint64_t rest_ns = s->end_ns - s->begin_ns;

	for (int i = 0; i < STEP_PHASES; i++)
		rest_ns -= s->phase_ns[i] < rest_ns ? s->phase_ns[i] : rest_ns;
	return rest_ns;
}

static inline uint64_t step_storage_ns(const struct step_done *s)
{
	uint64_t sum_ns = 0;

	for (int i = 0; i < PHASES_AND_OTHER; i++)
		sum_ns += s->storage_ns[i];
	return sum_ns;
}

/* As it is said: "data_wait"; PHASE_OTHER, too. */
static inline const char *step_phase_name(int phase)
{
	switch (phase) {
	case PHASE_DATA_WAIT: return "data_wait";
	case PHASE_FORWARD: return "forward";
	case PHASE_BACKWARD: return "backward";
	case PHASE_OPTIMIZER: return "optimizer";
	case PHASE_GC: return "gc";
	case PHASE_OTHER: return "other";
	default: return "?";
	}
}

/* Does anything show this phase of it? */
bool step_shows(const struct step_done *s, int phase);

/* The phase that the process is in now, enum step_phase or PHASE_OTHER; -1: not known, or its steps have none. */
int proc_phase(const struct proc *p);
/* Its ranges alone show whole steps: DDP's marks and the optimizers' operators add nothing. */
bool proc_ranges_suffice(const struct proc *p);

#endif
