/* SPDX-License-Identifier: Apache-2.0
 *
 * wait_graph.h - what holds each rank, as a graph: a rank points at the operation its host waits for, an operation at
 * the ranks that did not enter it and at the older operations that those who entered it are still at. A way along the
 * edges is a chain of "cannot go on before"; a way back to its start is a deadlock. Where a process is several ranks, a
 * rank here is a thread that calls for some of them, as far as calls show which (rank/seats.h); such a thread is never
 * a root (shared_process.c), but it may be in a cycle.
 */
#ifndef RANKTRACE_WAIT_GRAPH_H
#define RANKTRACE_WAIT_GRAPH_H

#include "base/graph.h"
#include "detect/rank/seats.h"
#include "model/ahead.h"

enum rank_state {
	STATE_HALTED,  /* dead, stopped, blocked: goes nowhere by itself */
	STATE_FREE,    /* its host waits for no GPU and no peer, as far as such waits are seen */
	STATE_WAITS,   /* its host waits for an operation, or inside a creation: its edges are exact */
	STATE_UNKNOWN, /* waits are not seen: it points at whatever it entered and others did not */
};

struct op_node; /* an operation or a creation as something to wait for; wait_graph.c */
struct rank_slot {
	struct rank_node rank;
	int node;
};

struct wait_graph { /* nodes: ranks in order of appearance, then ops in order of making */
	const struct model *m;
	struct rank_node *ranks;
	struct rank_slot *slots; /* the ranks by address and thread */
	enum rank_state *state;
	bool *lagging; /* lacks an operation past its limit */
	int n_ranks, n_ops, cap_ops;
	struct op_node **ops, *table;
	struct graph g;
};

struct awaited {                 /* public face of a op_node */
	const struct comm *comm; /* NULL: a creation from an id */
	const struct op *op;     /* as one rank called it; NULL: only its number is known, or a creation */
	const struct comm_init *init;
	int space; /* SEQ_*, SPACE_P2P, SPACE_INIT */
	uint64_t seq;
};

/* `ahead_ns`: who lags (ranks_lagging_each()). 0 or -ENOMEM; `h` is to be freed either way. */
int wait_graph_build(struct wait_graph *h, const struct model *m, uint64_t ahead_ns);
void wait_graph_free(struct wait_graph *h);
struct awaited wait_graph_op(const struct wait_graph *h, int node);
/* Somebody is late, or something is open for so long that it is worth a sample. Cheap. */
bool wait_graph_needed(const struct model *m);

#endif
