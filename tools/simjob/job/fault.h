/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract between the job and its faults. A fault is a struct fault: the options it takes, and hooks that the job
 * calls at certain moments of a rank's life. An injection is one --fault of the command line. The job knows faults by
 * this header only and names none; a fault may use all of the job (rank.h). README.md says how to add one.
 */
#ifndef SIMJOB_FAULT_H
#define SIMJOB_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_INJECTIONS 32
#define FAULT_FOREVER 1e9 /* seconds */
#define RANK_ALL -1
#define RANK_DRAWN -2
#define STEP_DRAWN -1

struct injection;
struct op_call;
struct op_place;
struct options;
struct rank;
struct store;

/* Of a step; PART_OTHER is the rest. */
enum step_part { PART_DATA_WAIT, PART_FORWARD, PART_BACKWARD, PART_OPTIMIZER, PART_OTHER };

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
#define PLACE_KEYS (KEY_RANK | KEY_STEP | KEY_OP)
/* The words of what=, how= or host=, the default first. */
#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Where a check says why a job cannot have an injection. */
struct reason {
	char *text;
	int size;
};

/*
 * What an injection needs outside of its rank. The launcher makes it before the ranks are there, once for all
 * injections that need it, and keeps it until they are gone.
 */
struct resource {
	void (*create)(const struct options *options, struct store *store);
	/* In a rank to be: puts into its environment where to find it. */
	void (*set_env)(void);
	/* The ranks are ending: lets go of what would keep them from it. May be called again. */
	void (*release)(void);
	/* No rank is left. */
	void (*destroy)(void);
};

/*
 * Any hook may be NULL. Those of a rank run in its main thread, for each injection in the order of the command line and
 * on every rank: most begin with the question whether injection->rank is this one.
 */
struct fault {
	unsigned int keys;     /* that it takes */
	unsigned int required; /* KEY_WHAT or 0: there is no default */
	const char *const *what, *const *how, *const *host;
	double default_s, default_percent, default_rate;
	const struct resource *resource;
	int nr_restarts; /* of communicators, at most: the store has ids for as many */
	bool is_of_job;  /* how the job is, not what happens to a rank: everywhere and from the first step on */
	bool recurs;     /* comes and goes: stderr has the first time only, the fault log has each */

	/* The command line has been read: derives what follows from it. */
	void (*complete)(struct injection *injection);
	/* Whether a job with these options can have it: 0, or -EINVAL by refuse(). Its rank and step may be undrawn. */
	int (*check)(const struct options *options, const struct injection *injection, struct reason *reason);

	/* Right before the first creation of the world's communicator. */
	void (*before_world)(struct rank *rank, const struct injection *injection);
	void (*before_step)(struct rank *rank, const struct injection *injection);
	/* The rank makes its next batch itself, and does not ask the dataloader child. */
	bool (*skips_loader)(const struct rank *rank, const struct injection *injection);
	/* A kernel or graph is about to be launched: its duration is multiplied by this. */
	double (*kernel_factor)(struct rank *rank, const struct injection *injection);
	/* Before every operation. False: the operation is left out, and no other injection learns of it. */
	bool (*before_op)(struct rank *rank, const struct injection *injection, const struct op_place *place);
	/* Once, on injection->rank, before the operation that step= and op= name, or the next that fits. */
	void (*strike)(struct rank *rank, const struct injection *injection, const struct op_place *place);
	bool (*fits_op)(const struct rank *rank, const struct op_place *place);
	/* Around the last gradient operation of a step, before the loss is reduced. */
	void (*before_last_bucket)(struct rank *rank, const struct injection *injection, const struct op_call *call);
	void (*after_last_bucket)(struct rank *rank, const struct injection *injection, const struct op_call *call);

	/* Once in each of these parts of a step, at its begin: the host may take its time. */
	void (*in_part)(struct rank *rank, const struct injection *injection, enum step_part part);

	/* In the dataloader child, which has a copy of the rank: before it makes the batch for rank->step. */
	void (*before_batch)(struct rank *rank, const struct injection *injection);
};

/* What one --fault asks for. What is left open is drawn from the seed, so that launcher and ranks agree on it. */
struct injection {
	const struct fault *fault;
	const char *name;    /* "hang", or more exactly by complete(), "phase-eval": as printed and in the fault log */
	int index;           /* in options->injections */
	unsigned int given;  /* the keys that the user gave */
	int what, how, host; /* which of the fault's words */
	int rank;            /* or RANK_ALL; RANK_DRAWN until it is drawn */
	int step;            /* STEP_DRAWN until it is drawn */
	int until_step;      /* first healthy step again */
	int op;              /* index in the step; -1: drawn when the step's length is known */
	int wait;            /* 1: the rank waits for its batches; 0: it has some in memory */
	int n;
	double duration_s;
	double percent;
	double rate; /* how probable it is, in a rank's step or in a step */
	double ms;
	uint64_t draw;
	const struct resource *resource; /* NULL: needs none */
	bool ends_rank;                  /* leaves its rank dead, and the others are to wait for it */
	int nr_restarts;                 /* so often communicators are made anew, at most */
};

/* The lines of faults/faults.def, which faults/faults.c makes these tables from. */
struct fault_row {
	const char *name, *help;
	const struct fault *fault;
};
extern const struct fault_row fault_rows[];
extern const int nr_fault_rows;
extern const struct resource *const resources[];
extern const int nr_resources;

#endif
