/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Injected faults: what was asked for (fault.c) and how it takes effect (fault_inject.c). Whatever the user leaves open
 * is drawn from the seed, so that the launcher and all ranks come to the same values without talking.
 */
#ifndef SIMJOB_FAULT_H
#define SIMJOB_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_FAULTS 32
#define FAULT_FOREVER 1e9 /* seconds */

enum fault_kind {
	FAULT_STOP,
	FAULT_HANG,
	FAULT_HANG_BUSY,
	FAULT_MISMATCH,
	FAULT_DSTATE,
	FAULT_DSTATE_MM,
	FAULT_SLOW,
	FAULT_PHASE,
	NR_FAULT_KINDS,
};

enum phase_kind {
	PHASE_EVAL,
	PHASE_CHECKPOINT,
	PHASE_COMPILE,
	PHASE_WARMUP,
	PHASE_RESTART,
	PHASE_RANK0LOG,
	NR_PHASE_KINDS,
};

enum mismatch_kind { MISMATCH_COUNT, MISMATCH_DTYPE };

struct fault {
	enum fault_kind kind;
	enum phase_kind phase;	     /* FAULT_PHASE */
	enum mismatch_kind mismatch; /* FAULT_MISMATCH */
	int rank;		     /* -1: every rank */
	int step;
	int until_step; /* first healthy step again */
	int op;		/* index in the step; -1: drawn when the step's length is known */
	double duration_s;
	double percent; /* FAULT_SLOW */
	uint64_t draw;
	bool has_rank, has_step, has_duration;
};

/* 0, or -EINVAL with the reason in @ret_reason. */
int fault_parse(struct fault *ret_fault, const char *spec, char *ret_reason, int reason_size);
/* Fills in what is open. @index tells equal faults apart. */
void fault_draw(struct fault *fault, int index, uint64_t seed, int nr_ranks, int nr_steps);
/* "hang" or "phase-eval", as printed and as written to the fault log. */
const char *fault_name(const struct fault *fault);
bool fault_needs_frozen_fs(const struct fault *fault);
/* One line of text: what was drawn. */
void fault_print_plan(const struct fault *fault, const char *prefix);

#endif
