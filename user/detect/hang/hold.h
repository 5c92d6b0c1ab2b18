/* SPDX-License-Identifier: Apache-2.0
 *
 * hold.h - what holds each rank, as a graph: a rank points at the operation its host waits for, an operation at the
 * ranks that did not enter it and at the older operations that those who entered it are still at. A way along the
 * edges is a chain of "cannot go on before"; a way back to its start is a deadlock.
 */
#ifndef RANKTRACE_HOLD_H
#define RANKTRACE_HOLD_H

#include "base/graph.h"
#include "model/model.h"

enum stance {
	STANCE_STUCK,  /* dead, stopped, blocked: goes nowhere by itself */
	STANCE_FREE,   /* its host waits for no GPU and no peer, as far as such waits are seen */
	STANCE_HELD,   /* its host waits for an operation, or inside a creation: its edges are exact */
	STANCE_UNSURE, /* waits are not seen: it points at whatever it entered and others did not */
};

struct hub; /* an operation or a creation as something to wait for; hold.c */
struct rank_slot {
	const struct proc *proc;
	int node;
};

struct holds { /* nodes: ranks in order of appearance, then hubs in order of making */
	const struct model *m;
	const struct proc **procs;
	struct rank_slot *slots; /* the ranks by address */
	enum stance *stance;
	bool *late; /* lacks an operation past its limit */
	int n_procs, n_hubs, cap_hubs;
	struct hub **hubs, *table;
	struct graph g;
};

struct held_in {                 /* public face of a hub */
	const struct comm *comm; /* NULL: a creation from an id */
	const struct op *op;     /* as one rank called it; NULL: only its number is known, or a creation */
	const struct birth *birth;
	int space; /* SEQ_*, SPACE_P2P, SPACE_BIRTH */
	uint64_t seq;
};

int holds_build(struct holds *h, const struct model *m); /* 0 or -ENOMEM; `h` is to be freed either way */
void holds_free(struct holds *h);
struct held_in hold_of(const struct holds *h, int node);
/* Somebody is late, or something is open for so long that it is worth a look. Cheap. */
bool holds_worth(const struct model *m);

#endif
