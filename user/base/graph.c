/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.c - see graph.h. Strongly connected components by Tarjan's algorithm without recursion; a shortest cycle
 * through a node by breadth-first search. All in O(nodes + edges), after one sort of the edges.
 */
#include "base/graph.h"

#include <errno.h>
#include <stdlib.h>

void graph_add(struct graph *g, int from, int to, int via)
{
	size_t cap = g->cap_edges ? 2 * g->cap_edges : 256;
	struct graph_edge *grown;

	if (from < 0 || to < 0)
		return;
	if (g->n_edges == g->cap_edges) {
		grown = realloc(g->edges, cap * sizeof(*grown));
		if (!grown) {
			g->failed = true;
			return;
		}
		g->edges = grown;
		g->cap_edges = cap;
	}
	g->edges[g->n_edges++] = (struct graph_edge){ from, to, via };
}

static int edge_cmp(const void *a, const void *b)
{
	const struct graph_edge *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	return x->via < y->via ? -1 : x->via > y->via;
}

static int graph_index(struct graph *g)
{
	g->first = calloc(g->n_nodes + 2, sizeof(*g->first));
	g->scc = calloc(g->n_nodes + 1, sizeof(*g->scc));
	g->leaves = calloc(g->n_nodes + 1, sizeof(*g->leaves));
	if (!g->first || !g->scc || !g->leaves)
		return -ENOMEM;
	if (g->n_edges)
		qsort(g->edges, g->n_edges, sizeof(*g->edges), edge_cmp);
	for (size_t i = 0; i < g->n_edges; i++)
		g->first[g->edges[i].from + 1]++;
	for (int i = 0; i < g->n_nodes; i++)
		g->first[i + 1] += g->first[i];
	return 0;
}

struct walk {
	int *order, *low, *stack, *next, *parent;
	bool *on_stack;
	int top, clock;
};

static void component_close(struct graph *g, struct walk *k, int v)
{
	int w;

	do {
		w = k->stack[--k->top];
		k->on_stack[w] = false;
		g->scc[w] = g->n_scc;
	} while (w != v);
	g->n_scc++;
}

/* One step at `v`. Returns the node to go on with; -1: back above the start. */
static int walk_step(struct graph *g, struct walk *k, int v)
{
	int w;

	if (!k->order[v]) {
		k->order[v] = k->low[v] = ++k->clock;
		k->next[v] = g->first[v];
		k->stack[k->top++] = v;
		k->on_stack[v] = true;
	}
	if (k->next[v] < g->first[v + 1]) {
		w = g->edges[k->next[v]++].to;
		if (!k->order[w]) {
			k->parent[w] = v;
			return w;
		}
		if (k->on_stack[w] && k->order[w] < k->low[v])
			k->low[v] = k->order[w];
		return v;
	}
	if (k->low[v] == k->order[v])
		component_close(g, k, v);
	w = k->parent[v];
	if (w >= 0 && k->low[v] < k->low[w])
		k->low[w] = k->low[v];
	return w;
}

int graph_solve(struct graph *g)
{
	struct walk k = { 0 };
	int n = g->n_nodes + 1, *mem;

	if (g->failed || graph_index(g))
		return -ENOMEM;
	mem = calloc(5 * (size_t)n, sizeof(*mem));
	k.on_stack = calloc(n, sizeof(*k.on_stack));
	if (!mem || !k.on_stack) {
		free(mem);
		free(k.on_stack);
		return -ENOMEM;
	}
	k.order = mem;
	k.low = mem + n;
	k.stack = mem + 2 * n;
	k.next = mem + 3 * n;
	k.parent = mem + 4 * n;
	for (int s = 0; s < g->n_nodes; s++) {
		if (k.order[s])
			continue;
		k.parent[s] = -1;
		for (int v = s; v >= 0;)
			v = walk_step(g, &k, v);
	}
	for (size_t i = 0; i < g->n_edges; i++)
		if (g->scc[g->edges[i].from] != g->scc[g->edges[i].to])
			g->leaves[g->scc[g->edges[i].from]] = true;
	free(mem);
	free(k.on_stack);
	return 0;
}

void graph_free(struct graph *g)
{
	free(g->edges);
	free(g->first);
	free(g->scc);
	free(g->leaves);
	*g = (struct graph){ 0 };
}

/* Breadth-first from `node` inside its component: by[n] is the edge that first reached n, -1: none. Returns the edge
 * that closes the cycle, -1: none. */
static int cycle_search(const struct graph *g, int node, int *by, int *queue)
{
	int head = 0, tail = 0;

	for (int i = 0; i < g->n_nodes; i++)
		by[i] = -1;
	queue[tail++] = node;
	while (head < tail) {
		int v = queue[head++];

		for (int e = g->first[v]; e < g->first[v + 1]; e++) {
			int w = g->edges[e].to;

			if (w == node)
				return e;
			if (g->scc[w] != g->scc[node] || by[w] >= 0)
				continue;
			by[w] = e;
			queue[tail++] = w;
		}
	}
	return -1;
}

int graph_cycle(const struct graph *g, int node, int *edges, int cap)
{
	int *by = calloc(2 * (size_t)g->n_nodes + 1, sizeof(*by)), n = 0, e;

	if (!by)
		return -ENOMEM;
	for (e = cycle_search(g, node, by, by + g->n_nodes); e >= 0; e = by[g->edges[e].from]) {
		if (n < cap)
			edges[n] = e;
		n++;
		if (g->edges[e].from == node)
			break;
	}
	free(by);
	if (n > cap) /* too long to return */
		n = 0;
	for (int i = 0; i < n / 2; i++) {
		e = edges[i];
		edges[i] = edges[n - 1 - i];
		edges[n - 1 - i] = e;
	}
	return n;
}
