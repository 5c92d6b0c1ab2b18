/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.h - who waits for whom: the operations a rank lacks that its peers entered, and the wait-for graph. Ranks of
 * other nodes are not seen: they neither lack nor wait.
 */
#ifndef RANKTRACE_WAIT_H
#define RANKTRACE_WAIT_H

#include "model/model.h"

struct lack {                   /* an operation that peers entered and this rank did not */
	const struct member *member;
	int space;              /* SEQ_*, -1 P2P */
	enum op_kind kind;      /* of the rank's own side: Recv when the peer's Send waits */
	int peer;               /* P2P: rank in the communicator, -1 */
	uint64_t seq;
	uint64_t since_ns;      /* the first peer that waits entered it */
	uint64_t limit_ns;      /* a wait that long is past what this communicator is used to */
	int n_waiting;
	const struct op *op;    /* as that peer called it */
};

/* The operation the rank lacks: what its own iteration says comes next, else what a peer waits for longest.
 * False: it lacks none. */
bool rank_lacks(const struct model *m, const struct proc *p, struct lack *ret);
/* Some operation it lacks is past its limit. */
bool rank_late(const struct model *m, const struct proc *p);
/* Does it still lack this very operation? Refreshes the waiting peers. */
bool rank_still_lacks(const struct model *m, const struct proc *p, struct lack *l);
/* Calls `each` for every operation the rank lacks. */
void rank_lacks_each(const struct model *m, const struct proc *p, void (*each)(void *arg, const struct lack *l), void *arg);

/* What the rank did one period before its present place: what it would call next, from the same thread. NULL: no
 * period is known. */
const struct op *rank_next_op(const struct proc *p);

/* Since when the rank is held up by nobody: its last call, or the entry of the last peer into what it had entered. */
uint64_t rank_free_since_ns(const struct proc *p);

/* Global ranks that wait for the rank's entry, as text into buf ("0,1,2"). */
void lack_waiting_text(const struct lack *l, char *buf, size_t cap);

struct wait_root { const struct proc *proc; bool deadlock; double confidence; };

/* Late ranks that wait for nobody, and cycles: up to `cap` of them. The number, or -ENOMEM. */
int wait_roots(const struct model *m, struct wait_root *roots, int cap);

#endif
