/* SPDX-License-Identifier: Apache-2.0
 *
 * wait_roots.c - reads the graph. A component that no rank in it can leave is a root if it is one rank, and nothing
 * that can be blamed on a rank if it is one operation (all are there). More than one node is a cycle: proof of a
 * deadlock where every rank in it is known to be held, since each waits for all of its edges; a guess where waits are
 * not seen.
 */
#include "detect/hang/wait_roots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "detect/hang/comm_init.h"
#include "detect/hang/p2p.h"
#include "detect/rank/places.h"
#include "detect/rank/call_site.h"
#include "detect/rank/counters.h"

static uint64_t fingerprint_of(const struct awaited *in)
{
	uint64_t h = hash_mix(11, in->init ? comm_init_key(in->init) : in->comm->hash);

	h = hash_mix(hash_mix(h, (uint64_t)in->space), in->seq);
	if (in->space == SPACE_P2P) /* both sides have one name */
		h = hash_mix(h, in->op->kind == OP_SEND
					? (uint64_t)in->op->member->rank << 32 | (uint32_t)in->op->peer
					: (uint64_t)in->op->peer << 32 | (uint32_t)in->op->member->rank);
	return h;
}

static bool is_rank(const struct wait_graph *h, int node)
{
	return node < h->n_ranks;
}

/* --- roots --- */

static int root_add(struct wait_roots *found, const struct proc *p, double confidence)
{
	int cap = found->cap_roots ? 2 * found->cap_roots : 64;
	struct wait_root *grown;

	if (found->n_roots == found->cap_roots) {
		grown = realloc(found->roots, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		found->roots = grown;
		found->cap_roots = cap;
	}
	found->roots[found->n_roots++] = (struct wait_root){ p, confidence, false };
	return 0;
}

/* --- guesses --- */

static bool fell_silent_before(const struct wait_graph *h, int a, int b)
{
	return h->ranks[a].proc->last_call_ns < h->ranks[b].proc->last_call_ns;
}

/* A host that sits in no wait, where others do, is what holds a cycle up; else the one that fell silent first. Nothing
 * is guessed of threads that share a process. */
static int unsure_roots(const struct wait_graph *h, int scc, struct wait_roots *found)
{
	int n_ranks = 0, n_waiting = 0, first = -1, err = 0;

	for (int i = 0; i < h->n_ranks; i++) {
		if (h->g.scc[i] != scc)
			continue;
		if (h->ranks[i].tid)
			return 0;
		n_ranks++;
		n_waiting += proc_waits(h->ranks[i].proc);
		if (h->lagging[i] && (first < 0 || fell_silent_before(h, i, first)))
			first = i;
	}
	if (first < 0)
		return 0;
	for (int i = 0; i < h->n_ranks && n_waiting && n_waiting < n_ranks && !err; i++)
		if (h->g.scc[i] == scc && h->lagging[i] && !proc_waits(h->ranks[i].proc))
			err = root_add(found, h->ranks[i].proc, 0.9);
	if (!err && (!n_waiting || n_waiting == n_ranks))
		err = root_add(found, h->ranks[first].proc, n_waiting ? 0.45 : 0.6);
	return err;
}

/* --- cycles --- */

static struct cycle_rank cycle_rank_of(const struct wait_graph *h, const struct graph_edge *e)
{
	struct awaited in = wait_graph_op(h, e->to);

	return (struct cycle_rank){ h->ranks[is_rank(h, e->from) ? e->from : e->via], in, fingerprint_of(&in) };
}

static int cycle_rank_add(struct wait_cycle *c, const struct cycle_rank *a)
{
	int cap = c->cap_ranks ? 2 * c->cap_ranks : 16;
	struct cycle_rank *grown;

	if (c->n_ranks == c->cap_ranks) {
		grown = realloc(c->ranks, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		c->ranks = grown;
		c->cap_ranks = cap;
	}
	c->ranks[c->n_ranks++] = *a;
	return 0;
}

static void fingerprint_add(struct wait_cycle *c, uint64_t fingerprint)
{
	int i;

	for (i = 0; i < c->n_fingerprints && c->fingerprints[i] < fingerprint; i++)
		;
	if (i == FINGERPRINTS_MAX || (i < c->n_fingerprints && c->fingerprints[i] == fingerprint))
		return;
	if (c->n_fingerprints < FINGERPRINTS_MAX)
		c->n_fingerprints++;
	for (int k = c->n_fingerprints - 1; k > i; k--)
		c->fingerprints[k] = c->fingerprints[k - 1];
	c->fingerprints[i] = fingerprint;
}

static uint64_t begin_of(const struct awaited *in)
{
	uint64_t since = in->init                ? comm_init_since_ns(in->init)
			 : in->op                ? in->op->enqueue_ns
			 : in->space == SEQ_COLL ? counters_since_ns(in->comm, in->seq)
						 : 0;

	return since ? since : UINT64_MAX;
}

/* The peer's side of the transfer that op_node `in` is: what that rank lacks. */
static struct pending pending_of(const struct awaited *in)
{
	const struct op *op = in->op;

	return (struct pending){ .member = member_peer(op->member, op->peer),
				 .space = SPACE_P2P,
				 .peer = op->member->rank,
				 .kind = op->kind == OP_SEND ? OP_RECV : OP_SEND,
				 .seq = op->seq,
				 .since_ns = op->enqueue_ns,
				 .n_waiting = 1,
				 .op = op };
}

/* Of threads that share a process the order of calls says nothing. */
static bool passed(const struct rank_node *r, const struct pending *pend)
{
	return !r->proc->by_threads && p2p_passed(r->proc, pend->member, pend->kind, pend->peer);
}

/* A transfer in the cycle that a rank did not call. Who went on past its place is the cause. One alone can be nothing
 * else; of several (both Send first) neither can be distinguished from the other: that is a matter of order. */
static void skipped_find(const struct wait_graph *h, int scc, struct wait_cycle *c)
{
	struct pending one;
	int n = 0;

	for (size_t i = 0; i < h->g.n_edges; i++) {
		const struct graph_edge *e = &h->g.edges[i];
		struct awaited in;

		if (h->g.scc[e->from] != scc || h->g.scc[e->to] != scc || is_rank(h, e->from) || !is_rank(h, e->to))
			continue;
		in = wait_graph_op(h, e->from);
		if (in.space != SPACE_P2P)
			continue;
		one = pending_of(&in);
		if (n++ == 0 || passed(&h->ranks[e->to], &one)) {
			c->pending = one;
			c->skipped = h->ranks[e->to];
			if (passed(&c->skipped, &one))
				return;
		}
	}
	if (n != 1)
		c->skipped = (struct rank_node){ 0 };
}

uint64_t awaited_comm(const struct awaited *in)
{
	return in->comm ? in->comm->hash : in->init->id_hash;
}

int cycle_comm_add(uint64_t *comms, int n, uint64_t comm)
{
	int k = 0;

	while (k < n && comms[k] != comm)
		k++;
	if (k == n && n < CYCLE_COMMS_MAX)
		comms[n++] = comm;
	return n;
}

static int hops_find(const struct wait_graph *h, int node, struct wait_cycle *c)
{
	int edges[2 * HOPS_MAX], n = graph_cycle(&h->g, node, edges, 2 * HOPS_MAX);

	for (int i = 0; i < n && c->n_hops < HOPS_MAX; i++)
		if (!is_rank(h, h->g.edges[edges[i]].to))
			c->hops[c->n_hops++] = cycle_rank_of(h, &h->g.edges[edges[i]]);
	return n < 0 ? n : 0;
}

static int cycle_read(const struct wait_graph *h, int scc, int node, struct wait_cycle *c)
{
	bool *taken = calloc(h->n_ranks + 1, sizeof(*taken));
	int err = taken ? 0 : -ENOMEM;

	free(c->ranks);
	*c = (struct wait_cycle){ .since_ns = UINT64_MAX };
	for (size_t i = 0; i < h->g.n_edges && !err; i++) {
		const struct graph_edge *e = &h->g.edges[i];
		int rank = is_rank(h, e->from) ? e->from : e->via;
		struct cycle_rank a;

		if (h->g.scc[e->from] != scc || h->g.scc[e->to] != scc || is_rank(h, e->to))
			continue;
		a = cycle_rank_of(h, e);
		if (!taken[rank])
			err = cycle_rank_add(c, &a);
		taken[rank] = true;
		if (a.rank.tid)
			c->n_comms = cycle_comm_add(c->comms, c->n_comms, awaited_comm(&a.in));
		fingerprint_add(c, a.fingerprint);
		if (begin_of(&a.in) < c->since_ns)
			c->since_ns = begin_of(&a.in);
	}
	free(taken);
	if (err)
		return err;
	skipped_find(h, scc, c);
	return hops_find(h, node, c);
}

/* The newest of what their counters say. */
static uint64_t stood_since(const struct proc *const *ranks, int n)
{
	uint64_t since = 0, one;

	for (int i = 0; i < n; i++)
		for (const struct member *mb = ranks[i]->members; mb; mb = member_next_in_proc(mb)) {
			one = counters_still_ns(mb);
			since = one > since ? one : since;
		}
	return since;
}

static int waiting_cycle(const struct wait_graph *h, int scc, int op_node, uint64_t stood_ns, struct wait_roots *found)
{
	struct wait_cycle *c = &found->cycles[found->n_cycles];
	int err;

	if (found->n_cycles == CYCLES_MAX)
		return 0;
	found->n_cycles++;
	err = cycle_read(h, scc, op_node, c);
	c->stood_ns = stood_ns;
	return err;
}

/* --- cycles known by counters --- */

enum cycle_verdict {
	CYCLE_BY_CALLS,    /* calls of some rank are seen */
	CYCLE_ALL_WAIT,    /* each is ahead somewhere, stays there, and all sleep in one place: no rank goes on first */
	CYCLE_ONE_DIFFERS, /* *ret_rank sits elsewhere than all others: it delays them */
	CYCLE_UNDECIDED,   /* any of them may be at fault */
};

/* Ranks that wait for each other by their counters, n of them. */
static enum cycle_verdict counters_cycle_judge(const struct proc *const *ranks, int n, int *ret_rank)
{
	struct places places = { .n = 0 };
	const struct task *first;
	int n_alone = 0, most = 0;

	for (int i = 0; i < n; i++)
		places_add(&places, places_main_task(ranks[i]));
	for (int i = 0; i < n; i++) {
		int alike = places_alike(&places, places_main_task(ranks[i]), false);

		if (!proc_by_counters(ranks[i]))
			return CYCLE_BY_CALLS;
		if (!alike) {
			n_alone++;
			*ret_rank = i;
		}
		most = alike > most ? alike : most;
	}
	if (n_alone == 1 && most == n - 2 && n > 2)
		return CYCLE_ONE_DIFFERS;
	first = places_main_task(ranks[0]);
	return most == n - 1 && first && !places_runs(first) ? CYCLE_ALL_WAIT : CYCLE_UNDECIDED;
}

struct in_component {
	const struct proc **ranks;
	bool *lags;
	int n, n_threads; /* that share a process: these have called */
};

/* Known by their counters alone: what their threads sit in says more than the order of their last calls, which nothing
 * shows. */
static int counters_roots(const struct wait_graph *h, int scc, int op_node, struct in_component *c,
			  struct wait_roots *found, bool *ret_done)
{
	int odd = 0, err = 0;

	*ret_done = true;
	switch (c->n_threads ? CYCLE_BY_CALLS : counters_cycle_judge(c->ranks, c->n, &odd)) {
	case CYCLE_ALL_WAIT: return waiting_cycle(h, scc, op_node, stood_since(c->ranks, c->n), found);
	case CYCLE_ONE_DIFFERS: return c->lags[odd] ? root_add(found, c->ranks[odd], 0.9) : 0;
	case CYCLE_UNDECIDED:
		for (int i = 0; i < c->n && !err; i++)
			err = c->lags[i] ? root_add(found, c->ranks[i], 0.4) : 0;
		return err;
	default: *ret_done = false; return 0;
	}
}

static int counters_read(const struct wait_graph *h, int scc, int op_node, struct wait_roots *found, bool *ret_done)
{
	struct in_component c = { .ranks = calloc(h->n_ranks, sizeof(*c.ranks)),
				  .lags = calloc(h->n_ranks, sizeof(*c.lags)) };
	int err = c.ranks && c.lags ? 0 : -ENOMEM;

	for (int i = 0; i < h->n_ranks && !err; i++) {
		if (h->g.scc[i] != scc)
			continue;
		c.lags[c.n] = h->lagging[i];
		c.n_threads += h->ranks[i].tid != 0;
		c.ranks[c.n++] = h->ranks[i].proc;
	}
	*ret_done = true;
	if (!err)
		err = counters_roots(h, scc, op_node, &c, found, ret_done);
	free(c.ranks);
	free(c.lags);
	return err;
}

/* --- components --- */

struct component {
	int size, op_node;
	bool unsure, lagging;
};

static struct component *components_count(const struct wait_graph *h)
{
	struct component *all = calloc(h->g.n_scc + 1, sizeof(*all));

	for (int i = 0; all && i < h->g.n_nodes; i++) {
		struct component *c = &all[h->g.scc[i]];

		if (!is_rank(h, i) && (!c->size || c->op_node < 0))
			c->op_node = i;
		else if (!c->size)
			c->op_node = -1;
		c->size++;
		c->unsure |= is_rank(h, i) && h->state[i] == STATE_UNKNOWN;
		c->lagging |= is_rank(h, i) && h->lagging[i];
	}
	return all;
}

static int roots_read(const struct wait_graph *h, struct wait_roots *found)
{
	struct component *all = components_count(h), *c;
	int err = all ? 0 : -ENOMEM;
	bool sampled;

	for (int i = 0; all && !err && i < h->g.n_nodes; i++) { /* in the order of ranks, not of components */
		c = &all[h->g.scc[i]];
		if (c->size > 1 && !c->unsure && c->op_node >= 0 && found->n_cycles < CYCLES_MAX)
			err = cycle_read(h, h->g.scc[i], c->op_node, &found->cycles[found->n_cycles++]);
		else if (c->size == 1 && c->lagging && !h->g.leaves[h->g.scc[i]])
			err = root_add(found, h->ranks[i].proc, 0.97);
		else if (c->size > 1 && c->unsure && !h->g.leaves[h->g.scc[i]]) {
			err = counters_read(h, h->g.scc[i], c->op_node, found, &sampled);
			if (!err && !sampled)
				err = unsure_roots(h, h->g.scc[i], found);
		}
		c->size = 0; /* reported */
	}
	free(all);
	return err;
}

static int roots_find(const struct model *m, uint64_t ahead_ns, struct wait_roots *found)
{
	struct wait_graph h;
	int err = wait_graph_build(&h, m, ahead_ns);

	found->n_roots = found->n_cycles = 0;
	if (!err)
		err = roots_read(&h, found);
	wait_graph_free(&h);
	return err;
}

int wait_roots_find(const struct model *m, struct wait_roots *found)
{
	return roots_find(m, 0, found);
}

static void lagging_found(void *arg, const struct proc *p)
{
	(void)p;
	*(bool *)arg = true;
}

int wait_roots_soon(const struct model *m, uint64_t ahead_ns, struct wait_roots *found)
{
	bool any = false;

	found->n_roots = found->n_cycles = 0;
	ranks_lagging_each(m, ahead_ns, lagging_found, &any);
	return any ? roots_find(m, ahead_ns, found) : 0;
}

void wait_roots_free(struct wait_roots *found)
{
	for (int i = 0; i < CYCLES_MAX; i++)
		free(found->cycles[i].ranks);
	free(found->roots);
	free(found->named);
}
