/* SPDX-License-Identifier: Apache-2.0
 *
 * roots.h - what follows from the graph of hold.h: ranks that others wait for and that wait for nobody, and cycles.
 */
#ifndef RANKTRACE_ROOTS_H
#define RANKTRACE_ROOTS_H

#include "detect/hang/hold.h"
#include "detect/hang/wait.h"

#define ROOTS_MAX 64
#define CYCLES_MAX 8
#define HOPS_MAX 16
#define HOLDERS_MAX 256
#define PRINTS_MAX 16

struct wait_root {
	const struct proc *proc;
	double confidence;
};

struct holder { /* a rank in a cycle, and what it is held in */
	const struct proc *proc;
	struct held_in in;
	uint64_t print;
};

struct wait_cycle {
	struct holder hops[HOPS_MAX]; /* a shortest way round: each is held in what the next one does not come to */
	int n_hops;
	struct holder holders[HOLDERS_MAX]; /* all ranks in it */
	int n_holders;
	uint64_t
		prints[PRINTS_MAX]; /* of the operations in it, the least ones: what it is known by from tick to tick */
	int n_prints;
	uint64_t since_ns;          /* the oldest of these operations */
	const struct proc *skipped; /* did not call its side of a transfer and went on; NULL: it is a matter of order */
	struct lack lack;           /* that side */
	uint64_t stood_ns;          /* by their counters all in it stand still since then; 0: known by calls */
};

struct wait_found {
	struct wait_root roots[ROOTS_MAX];
	struct wait_cycle cycles[CYCLES_MAX];
	int n_roots, n_cycles;
};

int wait_find(const struct model *m, struct wait_found *found); /* 0 or -ENOMEM */

/* p2p.c: did the rank call what comes after the missing Send or Recv, by what it did before? False where not known. */
bool rank_passed(const struct proc *p, const struct lack *l);

#endif
