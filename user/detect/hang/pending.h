/* SPDX-License-Identifier: Apache-2.0
 *
 * pending.h - stage 1: what each rank has not entered while peers wait in it: collectives, Sends and Recvs, the init of
 * communicators. Takes the model; gives `struct pending` of one rank, or the ranks whose pending operation is overdue.
 * Only ranks that are seen count: others neither wait nor are waited for.
 */
#ifndef RANKTRACE_PENDING_H
#define RANKTRACE_PENDING_H

#include "model/ahead.h"

#define SPACE_INIT (-2) /* besides SEQ_* and SPACE_P2P */

struct pending {                     /* entered by peers, not by this rank */
	const struct member *member; /* NULL: the init of a communicator */
	int space;                   /* SEQ_*, SPACE_P2P, SPACE_INIT */
	enum op_kind kind;           /* of the rank's own side: Recv when the peer's Send waits */
	int peer;                    /* P2P: rank in the communicator, -1 */
	uint64_t seq;                /* init: comm_init_key() */
	uint64_t since_ns;           /* the first peer that waits entered it */
	uint64_t limit_ns;           /* a wait that long is past this communicator's usual lag */
	uint64_t usual_ns;           /* the same as of now: lags learnt meanwhile do not lengthen limit_ns */
	int n_waiting;
	const struct op *op; /* as that peer called it; NULL: known by its counters alone, or an init */
	unsigned int kinds;  /* counters alone: the kinds it may be, as bits; else 0 */
	const struct comm_init *init;
};

/* --- one rank --- */

/* What the rank has pending: an init; else what comes next by its own iteration; else what a peer waits for longest.
 * False: nothing. */
bool rank_pending(const struct model *m, const struct proc *p, struct pending *ret);
/* The same of one member of a process that is several ranks; no init. */
bool member_pending(const struct model *m, const struct member *mb, struct pending *ret);
/* Is this very thing still pending? Refreshes the waiting peers. */
bool rank_still_pending(const struct model *m, const struct proc *p, struct pending *pend);
/* Since when the rank waits for no peer: its last call, or the entry of the last peer into what it had entered. */
uint64_t rank_free_since_ns(const struct proc *p);
/* Global ranks that wait for the rank's entry, as text into buf ("0,1,2"). */
void pending_waiting_text(const struct pending *pend, char *buf, size_t cap);

/* --- all ranks --- */

/* Calls `each` for every rank with something pending past its limit, or that will be in `ahead_ns` if it does not come
 * (half a limit ahead at the most), more than once for some. */
void ranks_lagging_each(const struct model *m, uint64_t ahead_ns, void (*each)(void *arg, const struct proc *p),
			void *arg);
/* Least and highest count of entered operations; of the dead only the least counts. False: all are alike. */
bool comm_span(const struct comm *c, int space, uint64_t *ret_lo, uint64_t *ret_hi);

/* A detector that asks that for each rank asks a large communicator as often as it has members. Zeroed at first, good
 * for one tick. */
#define EVEN_MEMO 1024
struct even_memo {
	const struct comm *comm[EVEN_MEMO];
	bool even[EVEN_MEMO];
};
/* All members that count have entered the same collectives. */
bool comm_even(struct even_memo *memo, const struct comm *c);

#endif
