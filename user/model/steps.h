/* SPDX-License-Identifier: Apache-2.0
 *
 * steps.h - iteration clocks. A clock counts the calls of one process; where several threads call for the ranks of one
 * process (struct proc.by_threads), whose calls together repeat in no order, those of one rank. Part of model.h.
 */
#ifndef RANKTRACE_MODEL_STEPS_H
#define RANKTRACE_MODEL_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct member;
struct op;
struct proc;

struct steps {             /* an iteration clock: smallest period of its signature sequence */
	size_t period_ops; /* 0: none found */
	uint64_t n;        /* whole iterations seen since the period was found */
	double median_s;   /* of the last iterations, 0 unknown */
	uint64_t phase;    /* an iteration starts where op_clock_nth() % period_ops == phase (canonical rotation) */
	uint64_t role;     /* equal for ranks with equal iterations; 0 without a period */
};

/* --- the model's own --- */

struct iteration_clock { /* an iteration clock, and how far it was looked for, as it counts operations */
	struct steps steps;
	uint64_t checked_n;  /* it was last checked */
	uint64_t found_n;    /* when the period was found */
	uint64_t from_n;     /* history before does not count: the period broke there */
	uint64_t searched_n; /* it was last searched */
	size_t base;         /* period of the signatures; period_ops is a multiple of it */
	struct steps held; /* the last that held and was lost: a job ends with another operation than its steps have */
};

struct rank_clock { /* of the rank on that GPU, as its process counts GPUs */
	struct iteration_clock clock;
	int device;
	uint64_t n_ops; /* called for it, since several threads call */
	struct rank_clock *next;
};

/* --- for all --- */

/* The clock that counts a member's calls; never NULL. */
const struct steps *member_steps(const struct member *mb);
/* The same of a process' rank, member_rank(): never NULL. Where the process is one rank, any number means that. */
const struct steps *rank_steps(const struct proc *p, int rank);
/* The same where it has a period; else the last that held, of period 0 where none did. Not kept over a snapshot. */
const struct steps *rank_steps_last(const struct proc *p, int rank);
/* The process' least rank above `than`, as a member of it: where all its communicators are over, of those. NULL none.
 */
const struct member *rank_above(const struct proc *p, int than);
/* The iteration that the rank's next operation is of, counted from the first that was traced, as on the timeline.
 * False: none is known. */
bool rank_step(const struct proc *p, int rank, uint64_t *ret_step);
/* Of the operations that its clock counts: its number, from 0, and the one before it; NULL none kept. */
uint64_t op_clock_nth(const struct op *op);
const struct op *op_before(const struct op *op);

#endif
