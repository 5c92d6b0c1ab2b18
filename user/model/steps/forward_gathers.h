/* SPDX-License-Identifier: Apache-2.0
 *
 * forward_gathers.h - which all-gather a sharded model's forward begins with, where nothing else marks it. Optimizers
 * gather, too: what they changed, before the next batch is waited for (ZeRO, Megatron's distributed optimizer). One of
 * a forward is made again in the backward, with the same communicator and count; or, where parameters stay gathered in
 * between, the gathers of its communicator are spread over the forward. Both are learnt of the steps before. A whole
 * forward's gathers, then another operation in their communicator, then gathers again: the first was an evaluation's.
 * How long a forward runs until its first gather is learnt while ranges show where it begins.
 */
#ifndef RANKTRACE_FORWARD_GATHERS_H
#define RANKTRACE_FORWARD_GATHERS_H

#include <stdbool.h>
#include <stdint.h>

struct op;

#define GATHERS_AGAIN 32 /* kinds of gathers in a backward; layers are alike */
#define GATHER_RUNS 4
#define GATHER_LEADS 15

struct forward_gathers { /* of a process; all zero: nothing learnt */
	struct {
		uint64_t addr, count; /* of a communicator, of elements */
	} again[GATHERS_AGAIN];       /* in a backward */
	int n_again;
	struct gather_run { /* by the training thread since the last backward or optimizer, in one communicator */
		uint64_t addr;
		uint64_t first_ns, last_ns;           /* 0: none yet */
		uint64_t first_wait_ns, last_wait_ns; /* its waits for the GPU by then */
		uint64_t last_count;
		int spread; /* by how many forwards more than not they were spread over it; within limits */
	} runs[GATHER_RUNS];
	uint64_t forward_addr;           /* the communicator of the forward at hand; */
	uint32_t n, least;               /* how many gathers it has so far; the fewest that one had; 0 none */
	bool is_whole;                   /* it had that many, and then another operation was called there, */
	uint64_t interrupted_ns;         /* the newest such then: what was gathered before is no root of what comes */
	uint64_t root_count;             /* elements of the gather that came right before a forward's first, and in */
	uint32_t roots;                  /* how many forwards more than not, within limits */
	uint64_t marked_ns;              /* a range began a forward there, which has gathered nothing yet; 0 none */
	uint32_t leads_ns[GATHER_LEADS]; /* from there to the first gather, of the newest such forwards */
	uint32_t n_leads;                /* of all */
};

/* An all-gather of any thread, in a backward. */
void gather_in_backward(struct forward_gathers *g, const struct op *op);
/* One of the training thread, outside of it; gpu_wait_ns: how long this waited for its GPU so far, at any time. Returns
 * from when on the forward runs, if it does; 0: the gather says nothing of it. */
uint64_t gather_outside(struct forward_gathers *g, const struct op *op, uint64_t gpu_wait_ns);
/* Another operation of the training thread, outside of it. */
void gathers_interrupted(struct forward_gathers *g, const struct op *op);
/* Of a gather that gather_outside() took for a forward's: with it a forward begins anew. */
bool gathers_anew(struct forward_gathers *g);
/* A forward begins as a range says; its first all-gather by the training thread, whatever runs by then. */
void gathers_forward_marked(struct forward_gathers *g, uint64_t ns);
void gather_in_marked(struct forward_gathers *g, const struct op *op);
/* How long a forward runs until its first gather, in the middle; 0 not known. */
uint64_t gathers_lead_ns(const struct forward_gathers *g);
void gathers_backward_begins(struct forward_gathers *g, uint64_t ns, uint64_t gpu_wait_ns);
void gathers_optimizer_ran(struct forward_gathers *g);

#endif
