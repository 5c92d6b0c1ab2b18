/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.c - the wait-for graph of the ranks seen, and its roots. A rank points at a hub (communicator, operation) that
 * it entered and others did not, the hub at those others; hubs of one communicator are chained, so edges stay
 * O(members). Roots are the strongly connected components that nobody in them can leave (Tarjan).
 */
#include <errno.h>
#include <stdlib.h>

#include "detect/wait.h"

struct edge { int from, to; };

struct graph {
	const struct proc **procs;  /* rank nodes, sorted by address; hubs follow */
	int n_procs, n_nodes;
	struct edge *edges;
	size_t n_edges, cap_edges;
	int *first;                 /* CSR over edges sorted by `from` */
	int *order, *low, *scc, *stack, *next;
	bool *on_stack;
	int n_scc;
	bool failed;
};

static int proc_cmp(const void *a, const void *b)
{
	const struct proc *x = *(const struct proc *const *)a, *y = *(const struct proc *const *)b;

	return x < y ? -1 : x > y;
}

static int edge_cmp(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	return x->from != y->from ? (x->from < y->from ? -1 : 1) : x->to < y->to ? -1 : x->to > y->to;
}

static int node_of(const struct graph *g, const struct proc *p)
{
	const struct proc **at = bsearch(&p, g->procs, g->n_procs, sizeof(*g->procs), proc_cmp);

	return at ? (int)(at - g->procs) : -1;
}

static void edge_add(struct graph *g, int from, int to)
{
	size_t cap = g->cap_edges ? 2 * g->cap_edges : 256;
	struct edge *grown;

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
	g->edges[g->n_edges++] = (struct edge){ from, to };
}

/* A rank that cannot go on by itself waits for nobody: it is a root whatever it would do next. */
static bool rank_waits(const struct proc *p)
{
	if (p->dead)
		return false;
	for (const struct task *t = p->tasks; t; t = t->next)
		if (t->state == TASK_STOPPED || t->blocked || (t->state == TASK_DISK && t->tid == p->tgid))
			return false;
	return true;
}

static bool counts(const struct member *mb)
{
	return !mb->gone && mb->seq_known;
}

static int entered_cmp(const void *a, const void *b)
{
	const struct member *x = *(const struct member *const *)a, *y = *(const struct member *const *)b;

	return x->entered_seq[SEQ_COLL] < y->entered_seq[SEQ_COLL] ? -1 : x->entered_seq[SEQ_COLL] > y->entered_seq[SEQ_COLL];
}

/* Members in the order of how far they are: each level behind the front is a hub that all further ones wait on. */
static void comm_edges(struct graph *g, const struct comm *c)
{
	const struct member **by = NULL;
	int n = 0, hub = -1;

	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm)
		n += counts(mb);
	by = calloc(n + 1, sizeof(*by));
	if (!by) {
		g->failed = true;
		return;
	}
	n = 0;
	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm)
		if (counts(mb))
			by[n++] = mb;
	qsort(by, n, sizeof(*by), entered_cmp);
	for (int i = 0; i < n;) {
		uint64_t level = by[i]->entered_seq[SEQ_COLL];
		int below = hub;

		if (level < by[n - 1]->entered_seq[SEQ_COLL]) {
			hub = g->n_nodes++;
			edge_add(g, hub, below);
		}
		for (; i < n && by[i]->entered_seq[SEQ_COLL] == level; i++) {
			if (rank_waits(by[i]->proc))
				edge_add(g, node_of(g, by[i]->proc), below);
			if (level < by[n - 1]->entered_seq[SEQ_COLL])
				edge_add(g, hub, node_of(g, by[i]->proc));
		}
	}
	free(by);
}

static void p2p_edges(struct graph *g, const struct comm *c)
{
	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm) {
		if (mb->gone || !mb->from_birth || mb->rank < 0 || !c->by_rank || !rank_waits(mb->proc))
			continue;
		for (int peer = 0; peer < mb->n_p2p && peer < c->nranks; peer++) {
			const struct member *o = c->by_rank[peer];

			for (int recv = 0; o && o != mb && !o->gone && o->from_birth && recv < 2; recv++)
				if (mb->p2p[peer].entered[recv] >
				    (mb->rank < o->n_p2p ? o->p2p[mb->rank].entered[!recv] : 0))
					edge_add(g, node_of(g, mb->proc), node_of(g, o->proc));
		}
	}
}

static const struct op *oldest_open(const struct proc *p)
{
	const struct op *best = NULL;

	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
		if (!mb->gone && mb->first_open && (!best || mb->first_open->id < best->id))
			best = mb->first_open;
	return best;
}

/* The other side's call of `op`; NULL: not entered, or met late, when Send and Recv cannot be matched by number. */
static const struct op *counterpart(const struct op *op, const struct member *o)
{
	if (!op_kind_p2p(op->kind))
		return member_op(o, op_space(op), op->seq);
	if (op->seq_from_attach)
		return NULL;
	return member_p2p_op(o, op->kind == OP_SEND ? OP_RECV : OP_SEND, op->member->rank, op->seq);
}

static bool same_pair(const struct op *op, const struct op *other)
{
	return other && other->member->comm == op->member->comm && op_kind_p2p(other->kind) &&
	       other->peer == op->member->rank;
}

/* Entered is not reached: a peer whose host ran ahead has called `op`, but older work of its own is not over. */
static void reach_edge(struct graph *g, const struct proc *p, const struct op *op, const struct member *o)
{
	const struct op *head, *theirs;

	if (!o || o == op->member || o->gone)
		return;
	head = oldest_open(o->proc);
	theirs = counterpart(op, o);
	if (theirs ? head && head->id < theirs->id : op->seq_from_attach && !same_pair(op, head))
		edge_add(g, node_of(g, p), node_of(g, o->proc));
}

/* A host that waits for its GPU waits for whoever has not reached its oldest operation. */
static void reach_edges(struct graph *g, const struct proc *p)
{
	const struct op *op = proc_waits(p) ? oldest_open(p) : NULL;
	const struct comm *c = op ? op->member->comm : NULL;

	if (!op || !rank_waits(p))
		return;
	if (op_kind_p2p(op->kind))
		reach_edge(g, p, op, c->by_rank && op->peer >= 0 && op->peer < c->nranks ? c->by_rank[op->peer] : NULL);
	else
		for (const struct member *o = c->members; o; o = o->next_in_comm)
			reach_edge(g, p, op, o);
}

static int graph_build(struct graph *g, const struct model *m)
{
	for (const struct proc *p = m->procs; p; p = p->next)
		g->n_procs += p->members != NULL;
	g->procs = calloc(g->n_procs + 1, sizeof(*g->procs));
	if (!g->procs)
		return -ENOMEM;
	for (const struct proc *p = m->procs; p; p = p->next)
		if (p->members)
			g->procs[g->n_nodes++] = p;
	qsort(g->procs, g->n_procs, sizeof(*g->procs), proc_cmp);
	for (const struct comm *c = m->comms; c; c = c->next) {
		comm_edges(g, c);
		p2p_edges(g, c);
	}
	for (int i = 0; i < g->n_procs; i++)
		reach_edges(g, g->procs[i]);
	return g->failed ? -ENOMEM : 0;
}

static int graph_index(struct graph *g)
{
	int n = g->n_nodes;
	int *mem = calloc(6 * (n + 1) + 1, sizeof(*mem));

	g->on_stack = calloc(n + 1, sizeof(*g->on_stack));
	g->first = mem;
	if (!mem || !g->on_stack)
		return -ENOMEM;
	g->order = mem + (n + 2);
	g->low = g->order + n;
	g->scc = g->low + n;
	g->stack = g->scc + n;
	g->next = g->stack + n;
	if (g->n_edges)
		qsort(g->edges, g->n_edges, sizeof(*g->edges), edge_cmp);
	for (size_t i = 0; i < g->n_edges; i++)
		g->first[g->edges[i].from + 1]++;
	for (int i = 0; i < n; i++)
		g->first[i + 1] += g->first[i];
	return 0;
}

/* Tarjan without recursion: `stack` holds the component stack, `path` is chained through `parent`. */
static int graph_components(struct graph *g)
{
	int *parent = calloc(g->n_nodes + 1, sizeof(*parent)), top = 0, clock = 0, v, w;

	if (!parent)
		return -ENOMEM;
	for (int s = 0; s < g->n_nodes; s++) {
		if (g->order[s])
			continue;
		parent[s] = -1;
		for (v = s; v >= 0;) {
			if (!g->order[v]) {
				g->order[v] = g->low[v] = ++clock;
				g->next[v] = g->first[v];
				g->stack[top++] = v;
				g->on_stack[v] = true;
			}
			if (g->next[v] < g->first[v + 1]) {
				w = g->edges[g->next[v]++].to;
				if (!g->order[w]) {
					parent[w] = v;
					v = w;
				} else if (g->on_stack[w] && g->order[w] < g->low[v]) {
					g->low[v] = g->order[w];
				}
				continue;
			}
			if (g->low[v] == g->order[v]) {
				do {
					w = g->stack[--top];
					g->on_stack[w] = false;
					g->scc[w] = g->n_scc;
				} while (w != v);
				g->n_scc++;
			}
			w = parent[v];
			if (w >= 0 && g->low[v] < g->low[w])
				g->low[w] = g->low[v];
			v = w;
		}
	}
	free(parent);
	return 0;
}

static bool host_waits(const struct proc *p)
{
	return proc_waits(p);
}

/* In a cycle every rank seems to wait for the next through work enqueued ahead. A host that sits in no wait, where
 * others do, is what holds it up; with no wait seen at all it is the one that fell silent first. */
static int cycle_roots(const struct graph *g, int scc, const bool *late, struct wait_root *roots, int cap)
{
	int n = 0, n_ranks = 0, n_waiting = 0, first = -1;

	for (int i = 0; i < g->n_procs; i++) {
		if (g->scc[i] != scc)
			continue;
		n_ranks++;
		n_waiting += host_waits(g->procs[i]);
		if (late[i] && (first < 0 || g->procs[i]->last_call_ns < g->procs[first]->last_call_ns))
			first = i;
	}
	if (first < 0)
		return 0;
	if (n_ranks == 1 || !n_waiting) {
		roots[0] = (struct wait_root){ g->procs[first], false, n_ranks == 1 ? 0.97 : 0.6 };
		return 1;
	}
	for (int i = 0; i < g->n_procs && n < cap; i++)
		if (g->scc[i] == scc && (n_waiting == n_ranks || (!host_waits(g->procs[i]) && late[i])))
			roots[n++] = (struct wait_root){ g->procs[i], n_waiting == n_ranks, 0.9 };
	return n;
}

static int roots_collect(const struct graph *g, const struct model *m, struct wait_root *roots, int cap)
{
	bool *leaves = calloc(g->n_scc + 1, sizeof(*leaves)), *late = calloc(g->n_procs + 1, sizeof(*late));
	bool *done = calloc(g->n_scc + 1, sizeof(*done));
	int n = 0;

	for (size_t i = 0; leaves && i < g->n_edges; i++)
		if (g->scc[g->edges[i].from] != g->scc[g->edges[i].to])
			leaves[g->scc[g->edges[i].from]] = true;
	for (int i = 0; late && i < g->n_procs; i++)
		late[i] = rank_late(m, g->procs[i]);
	for (int i = 0; leaves && late && done && i < g->n_procs && n < cap; i++) {
		if (leaves[g->scc[i]] || done[g->scc[i]])
			continue;
		done[g->scc[i]] = true;
		n += cycle_roots(g, g->scc[i], late, roots + n, cap - n);
	}
	if (!leaves || !late || !done)
		n = -ENOMEM;
	free(leaves);
	free(late);
	free(done);
	return n;
}

int wait_roots(const struct model *m, struct wait_root *roots, int cap)
{
	struct graph g = { 0 };
	int n = graph_build(&g, m);

	if (!n)
		n = graph_index(&g);
	if (!n)
		n = graph_components(&g);
	if (!n)
		n = roots_collect(&g, m, roots, cap);
	free(g.procs);
	free(g.edges);
	free(g.first);
	free(g.on_stack);
	return n;
}
