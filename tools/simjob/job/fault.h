/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Injected faults: what was asked for (fault.c), whether this job can have it (fault_check.c) and how it takes effect
 * (fault_inject.c and its neighbours). Whatever the user leaves open is drawn from the seed, so that the launcher and
 * all ranks come to the same values without talking.
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
	FAULT_KILL,
	FAULT_MISMATCH,
	FAULT_DEADLOCK,
	FAULT_P2P,
	FAULT_INIT,
	FAULT_INSIDE,
	FAULT_PROXY,
	FAULT_DSTATE,
	FAULT_DSTATE_MM,
	FAULT_DSTATE_CHILD,
	FAULT_SLOW,
	FAULT_CPU,
	FAULT_GC,
	FAULT_IMBALANCE,
	FAULT_IO,
	FAULT_PHASE,
	FAULT_GPU,
	NR_FAULT_KINDS,
};

/* Values of what=, how= and host=, in the order of their words in fault.c. */
enum phase_kind {
	PHASE_EVAL,
	PHASE_CHECKPOINT,
	PHASE_COMPILE,
	PHASE_WARMUP,
	PHASE_RESTART,
	PHASE_RANK0LOG,
	NR_PHASE_KINDS,
};
enum mismatch_what { MISMATCH_COUNT, MISMATCH_DTYPE };
enum kill_how { KILL_BY_SIGKILL, KILL_BY_EXIT, KILL_BY_SEGV };
enum deadlock_host { HOST_AHEAD, HOST_BLOCKED };
enum p2p_what { P2P_SEND, P2P_RECV };
enum init_what { INIT_START, INIT_NEW, INIT_SPLIT };
enum cpu_how { CPU_HOG, CPU_QUOTA };
enum proxy_how { PROXY_STOP, PROXY_STARVE, PROXY_SIGSTOP };
enum imbalance_what { IMBALANCE_STAGE, IMBALANCE_SEQUENCE };
enum init_how { INIT_SLEEP, INIT_STOP, INIT_BUSY, INIT_DEAD };

/* One bit a key, so that a set of keys is a number. */
enum fault_key {
	KEY_RANK = 1 << 0,
	KEY_STEP = 1 << 1,
	KEY_UNTIL = 1 << 2,
	KEY_OP = 1 << 3,
	KEY_SEC = 1 << 4,
	KEY_PERCENT = 1 << 5,
	KEY_WHAT = 1 << 6,
	KEY_HOW = 1 << 7,
	KEY_HOST = 1 << 8,
	KEY_WAIT = 1 << 9,
	KEY_N = 1 << 10,
	KEY_RATE = 1 << 11,
	KEY_MS = 1 << 12,
};

struct fault {
	enum fault_kind kind;
	unsigned int given;  /* the keys that the user gave */
	int what, how, host; /* which of the kind's words; see the enums above */
	int rank;            /* -1: every rank */
	int step;
	int until_step; /* first healthy step again */
	int op;         /* index in the step; -1: drawn when the step's length is known */
	int wait;       /* FAULT_DSTATE_CHILD: 1, the rank waits for its batches; 0, it has some in memory */
	int n;          /* FAULT_CPU, FAULT_PROXY: how many hogs */
	double duration_s;
	double percent;
	double rate; /* FAULT_GC, FAULT_IO: how probable one is, in a rank's step or in a step */
	double ms;   /* FAULT_IO: how long a batch is late */
	uint64_t draw;
};

/* 0, or -EINVAL with the reason in @ret_reason. */
int fault_parse(struct fault *ret_fault, const char *spec, char *ret_reason, int reason_size);
/* Fills in what is open. @index tells equal faults apart. */
void fault_draw(struct fault *fault, int index, uint64_t seed, int nr_ranks, int nr_steps);
/* "hang" or "phase-eval", as printed and as written to the fault log. */
const char *fault_name(const struct fault *fault);
/* It comes and goes: people are told of the first time only, the fault log has each. */
bool fault_recurs(const struct fault *fault);
bool fault_needs_frozen_fs(const struct fault *fault);
/* It leaves its rank dead, and the others are to wait for it. */
bool fault_ends_rank(const struct fault *fault);
/* One line of text: what was drawn. */
void fault_print_plan(const struct fault *fault, const char *prefix);

#endif
