/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.h - a directed graph and its strongly connected components; knows nothing of ranks.
 *
 * `via` of an edge belongs to the caller (a node that the edge goes through), -1: none.
 */
#ifndef RANKTRACE_GRAPH_H
#define RANKTRACE_GRAPH_H

#include <stdbool.h>
#include <stddef.h>

struct graph_edge {
	int from, to, via;
};

struct graph {       /* zero it first */
	int n_nodes; /* the caller counts it up */
	struct graph_edge *edges;
	size_t n_edges, cap_edges;
	int *first;      /* after graph_solve(): edges of node n are first[n] .. first[n + 1] - 1 */
	int *scc, n_scc; /* component of each node */
	bool *leaves;    /* of a component: an edge leads out of it */
	bool failed;     /* no memory; graph_solve() says so */
};

void graph_add(struct graph *g, int from, int to, int via); /* ends below 0: none */
int graph_solve(struct graph *g);                           /* 0 or -ENOMEM */
void graph_free(struct graph *g);
/* Finds a shortest way from `node` back to itself inside its component and returns its edge numbers in order. 0: none,
 * -ENOMEM. */
int graph_cycle(const struct graph *g, int node, int *edges, int cap);

#endif
