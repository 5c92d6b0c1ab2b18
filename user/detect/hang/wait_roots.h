/* SPDX-License-Identifier: Apache-2.0
 *
 * wait_roots.h - what follows from the graph of wait_graph.h: ranks that others wait for and that wait for no rank, and
 * cycles.
 */
#ifndef RANKTRACE_WAIT_ROOTS_H
#define RANKTRACE_WAIT_ROOTS_H

#include "detect/hang/wait_graph.h"
#include "detect/hang/pending.h"

#define CYCLES_MAX 8
#define HOPS_MAX 16
#define FINGERPRINTS_MAX 16
#define CYCLE_COMMS_MAX HOPS_MAX

struct wait_root {
	const struct proc *proc;
	double confidence;
	bool waits; /* private: it sits where waiting ranks sit */
};

struct cycle_rank { /* a rank in a cycle, and what it is held in */
	struct rank_node rank;
	struct awaited in;
	uint64_t fingerprint;
};

struct wait_cycle {
	struct cycle_rank hops[HOPS_MAX]; /* a shortest way round: each is held in what the next one does not come to */
	int n_hops;
	struct cycle_rank *ranks; /* all ranks in it; wait_roots_free() */
	int n_ranks, cap_ranks;
	uint64_t fingerprints[FINGERPRINTS_MAX]; /* of the operations in it, the least ones: what it is known by from
						    tick to tick */
	int n_fingerprints;
	uint64_t comms[CYCLE_COMMS_MAX]; /* that threads which share a process are held in, or their operations are */
	int n_comms;
	uint64_t since_ns; /* the oldest of these operations */
	struct rank_node
		skipped;        /* did not call its side of a transfer and went on; no proc: it is a matter of order */
	struct pending pending; /* that side */
	uint64_t stood_ns;      /* by their counters all in it have stopped since then; 0: known by calls */
};

struct wait_roots {
	struct wait_root *roots; /* in the order of ranks */
	struct wait_cycle cycles[CYCLES_MAX];
	int n_roots, cap_roots, n_cycles;
	const struct job_id *missing; /* no process is seen of some of this job's ranks; NULL: of none */
	bool missing_waited_for;      /* and all others wait for these */
	const struct job_id **named;  /* of a process that is several ranks something is reported: its job */
	int n_named, cap_named;
};

/* `found`: zeroed at first, reused from tick to tick. 0 or -ENOMEM. */
int wait_roots_find(const struct model *m, struct wait_roots *found);
/* The same where no rank may be past a limit yet: also the roots that will be in `ahead_ns`, if they do not come. For
 * who wants to know more of them by then. */
int wait_roots_soon(const struct model *m, uint64_t ahead_ns, struct wait_roots *found);
void wait_roots_free(struct wait_roots *found);
uint64_t awaited_comm(const struct awaited *in); /* as a finding has it */
/* One more of `n` in an array of CYCLE_COMMS_MAX, if it is none of these. Returns how many there are then. */
int cycle_comm_add(uint64_t *comms, int n, uint64_t comm);

/* roots_filter.c */
/* A rank of this job is a root, in a cycle or was named: what else stands in it follows from that. */
bool wait_roots_explain(const struct wait_roots *found, const struct job_id *job);
int wait_roots_named(struct wait_roots *found, const struct job_id *job); /* 0 or -ENOMEM */
/* Send and Recv are in no counter: a rank that waits in one looks like a root. Of several roots those go whose main
 * thread sits where that of a waiting rank sits, if others remain; else any may be the root, and their confidence
 * drops. So it does for a single one that shares a communicator with ranks that are not seen: it may wait for those;
 * and for one that is merely the first of several within the time that samples are apart. `soon`: zeroed at first, for
 * its memory. 0 or -ENOMEM. */
int roots_filter(const struct model *m, struct wait_roots *found, struct wait_roots *soon);

/* A rank inside an operation that all entered does not come elsewhere for that reason: it is no root. Where a transfer
 * is proven to stall, every rank that sleeps waits for it, by whatever way. */
void roots_filter_inside(const struct model *m, struct wait_roots *found);
/* Transfers are in progress, and there were too few samples to prove that one stalls: a rank that lags since then may
 * wait for it. */
bool roots_undecided(const struct model *m, uint64_t since_ns);

#endif
