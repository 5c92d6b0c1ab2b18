/* SPDX-License-Identifier: Apache-2.0
 *
 * pending.h - what a rank lacks: operations and creations of communicators that its peers entered and it did not. Ranks
 * of other nodes are not seen: they neither lack nor wait.
 */
#ifndef RANKTRACE_PENDING_H
#define RANKTRACE_PENDING_H

#include "model/model.h"

enum { SPACE_P2P = -1, SPACE_INIT = -2 }; /* besides SEQ_* */
#define OPEN_SCANNED 256                  /* open operations of a member: where ends are not seen all are open */

struct pending {                     /* something that peers entered and this rank did not */
	const struct member *member; /* NULL: a creation */
	int space;                   /* SEQ_*, SPACE_P2P, SPACE_INIT */
	enum op_kind kind;           /* of the rank's own side: Recv when the peer's Send waits */
	int peer;                    /* P2P: rank in the communicator, -1 */
	uint64_t seq;                /* creation: comm_init_key() */
	uint64_t since_ns;           /* the first peer that waits entered it */
	uint64_t limit_ns;           /* a wait that long is past what this communicator is used to */
	int n_waiting;
	const struct op *op; /* as that peer called it; NULL: known by its counters alone, or a creation */
	unsigned int kinds;  /* counters alone: the kinds it may be, as bits; else 0 */
	const struct birth *birth;
};

/* A rank, or what may be one: not its children. */
bool rank_counts(const struct proc *p);
/* The thing the rank lacks: a creation; what its own iteration says comes next; else what a peer waits for longest.
 * False: it lacks none. */
bool rank_pending(const struct model *m, const struct proc *p, struct pending *ret);
/* Does it still lack this very thing? Refreshes the waiting peers. */
bool rank_still_pending(const struct model *m, const struct proc *p, struct pending *l);
/* Calls `each` for everything the rank lacks. */
void rank_pending_each(const struct model *m, const struct proc *p, void (*each)(void *arg, const struct pending *l),
		       void *arg);
/* Calls `each` for every rank that lacks something past its limit, more than once for some. */
void ranks_lagging_each(const struct model *m, void (*each)(void *arg, const struct proc *p), void *arg);

/* The operations of one NCCL group, in the order of their calls; of an operation in no group, itself. */
const struct op *group_first(const struct op *op);
const struct op *group_next(const struct op *op);
/* The peer of this open Send or Recv did not call its side, and it is known to wait for that. */
bool p2p_unanswered(const struct model *m, const struct op *op);
/* The peer's own call of this transfer; NULL: none, or not kept. */
const struct op *p2p_other_side(const struct op *op);
/* Its number means the same on both sides. */
bool p2p_numbered(const struct op *op);
/* The member that is rank `peer` of its communicator; NULL: not seen. */
const struct member *member_peer(const struct member *mb, int peer);
/* Alive, and entered operation `seq` of that space. */
bool member_waits_at(const struct member *mb, int space, uint64_t seq);
/* How long peers may wait for this member before that is past what they are used to. */
uint64_t member_limit_ns(const struct model *m, const struct member *mb);
/* Least and highest count of entered operations; of the dead only the least counts. False: all are alike. */
bool comm_span(const struct comm *c, int space, uint64_t *ret_lo, uint64_t *ret_hi);

/* Since when the rank is held up by nobody: its last call, or the entry of the last peer into what it had entered. */
uint64_t rank_free_since_ns(const struct proc *p);

/* Global ranks that wait for the rank's entry, as text into buf ("0,1,2"). */
void pending_waiting_text(const struct pending *l, char *buf, size_t cap);

#endif
