/* SPDX-License-Identifier: Apache-2.0
 *
 * fault.h - what a test found wrong with a device: each has a kind, a sentence, and the place where there is one.
 */
#ifndef STRESS_FAULT_H
#define STRESS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum fault_kind {
#define FAULT(id, name, severity, remedy) FAULT_##id,
#include "tools/stress/faults.def"
#undef FAULT
	N_FAULT_KINDS
};

/* How a measurement is judged: by which row, and what came out. */
#define JUDGE_RULE 160
#define JUDGE_TURNS 9
struct judgement {
	bool measured, judged, failed;
	double value, bound; /* the value: the best of all turns */
	char rule[JUDGE_RULE];
	int n_rounds;              /* whose median the first turn is */
	double turns[JUDGE_TURNS]; /* of what was measured again, the first one, too */
	int n_turns;               /* 0: it was measured once */
};

#define FAULT_TEXT 480

struct fault {
	enum fault_kind kind;
	int gpu;     /* index in the run; -1: none, the fault is the host's */
	int measure; /* enum number_id, MEASURE_MEMORY; -1: none */
	double at_s; /* since the start of the run */
	char text[FAULT_TEXT];
	/* FAULT_CORRUPT, FAULT_DISPUTED: the first element and all bits that differ in any; how many do, and after how
	 * many rows and columns the pattern comes again (0: no period). */
	uint32_t row, column, elements, row_period, column_period;
	uint64_t bits;
	uint64_t address; /* FAULT_MEMORY */
	int to;           /* of a link: 1 + index of the GPU at its other end; 0: none */
	int memory_gpu; /* of ports: 1 + CUDA's number of the GPU whose memory it is, of host `memory_host`; 0: none */
	int memory_host;
	struct judgement held; /* FAULT_SLOW, FAULT_LINK: what it was held to, and by which row */
	const char *unit;      /* of that; NULL: none */
};

#define NOTES_MAX 48

/* What the reader of a verdict has to know; each text once. Of more than there is room for the first are kept, how many
 * are not, and the newest. */
struct notes {
	char texts[NOTES_MAX][FAULT_TEXT];
	int n, n_dropped;
};

const char *fault_kind_name(enum fault_kind kind);
const char *fault_severity(enum fault_kind kind); /* "critical", "warning" */
const char *fault_remedy(enum fault_kind kind);

#endif
