/* SPDX-License-Identifier: Apache-2.0
 *
 * hold.c - builds the graph of hold.h from the model. Operations are nodes shared by all who wait for them, so that
 * a communicator costs its members once for each operation that somebody is held in, not once for each rank.
 */
#include "detect/hang/hold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "detect/rank/activity.h"
#include "detect/hang/birth.h"
#include "detect/hang/wait.h"

struct hub_key {
	const void *what;
	uint64_t a, b, seq;
};

struct hub {
	struct hub_key key;
	struct held_in in;
	int node;
	UT_hash_handle hh;
};

/* --- nodes --- */

static int slot_cmp(const void *a, const void *b)
{
	const struct rank_slot *x = a, *y = b;

	return x->proc < y->proc ? -1 : x->proc > y->proc;
}

static int node_of(const struct holds *h, const struct proc *p)
{
	struct rank_slot want = { p, 0 }, *at = bsearch(&want, h->slots, h->n_procs, sizeof(want), slot_cmp);

	return at ? at->node : -1;
}

static int hub_new(struct holds *h, const struct hub_key *key, const struct held_in *in)
{
	int cap = h->cap_hubs ? 2 * h->cap_hubs : 64;
	struct hub *hub = calloc(1, sizeof(*hub)), **grown;

	if (hub && h->n_hubs == h->cap_hubs) {
		grown = realloc(h->hubs, cap * sizeof(*grown));
		if (grown) {
			h->hubs = grown;
			h->cap_hubs = cap;
		}
	}
	if (!hub || h->n_hubs == h->cap_hubs) {
		free(hub);
		h->g.failed = true;
		return -1;
	}
	hub->key = *key;
	hub->in = *in;
	hub->node = h->g.n_nodes++;
	HASH_ADD(hh, h->table, key, sizeof(hub->key), hub);
	if (!hub->hh.tbl)
		h->g.failed = true;
	h->hubs[h->n_hubs++] = hub;
	return hub->node;
}

static int hub_get(struct holds *h, struct hub_key key, struct held_in in)
{
	struct hub *hub;

	HASH_FIND(hh, h->table, &key, sizeof(key), hub);
	if (!hub)
		return hub_new(h, &key, &in);
	if (!hub->in.op)
		hub->in.op = in.op;
	return hub->node;
}

static int hub_coll(struct holds *h, const struct comm *c, int space, uint64_t seq, const struct op *op)
{
	struct hub_key key = { c, space, 0, seq };

	return hub_get(h, key, (struct held_in){ .comm = c, .op = op, .space = space, .seq = seq });
}

/* Both sides of a transfer are one node where their numbers mean the same. */
static int hub_p2p(struct holds *h, const struct op *op)
{
	bool send = op->kind == OP_SEND;
	uint64_t me = op->member->rank, peer = op->peer;
	struct hub_key key = { op->member->comm, 16 + (send ? me : peer), send ? peer : me, op->seq };

	if (!p2p_numbered(op))
		key = (struct hub_key){ op, 15, 0, op->seq };
	return hub_get(h, key,
		       (struct held_in){ .comm = op->member->comm, .op = op, .space = SPACE_P2P, .seq = op->seq });
}

static int hub_op(struct holds *h, const struct op *op)
{
	return op_kind_p2p(op->kind) ? hub_p2p(h, op) : hub_coll(h, op->member->comm, op_space(op), op->seq, op);
}

static int hub_birth(struct holds *h, const struct birth *b)
{
	struct hub_key key = { b, 14, 0, 0 };

	return hub_get(h, key, (struct held_in){ .comm = b->parent, .birth = b, .space = SPACE_BIRTH, .seq = b->nth });
}

struct held_in hold_of(const struct holds *h, int node)
{
	return h->hubs[node - h->n_procs]->in;
}

/* --- edges --- */

/* Held in an operation is held in its whole group: that starts and ends as one. */
static void hold_add(struct holds *h, int from, const struct op *op, int via)
{
	for (const struct op *one = group_first(op); one; one = group_next(one))
		if (!one->end_ns)
			graph_add(&h->g, from, hub_op(h, one), via);
}

/* `op`: this rank's own call of what hub `from` is, or NULL when it is over or unknown. */
static void behind_add(struct holds *h, int from, const struct proc *p, const struct op *op)
{
	const struct op *front = op && !op->end_ns ? op_blocked_by(op) : NULL;

	if (front)
		hold_add(h, from, front, node_of(h, p));
}

static void p2p_expand(struct holds *h, int node, const struct op *op)
{
	const struct member *o = member_peer(op->member, op->peer);

	behind_add(h, node, op->member->proc, op);
	if (!o || o == op->member || o->gone)
		return;
	if (p2p_lacking(h->m, op))
		graph_add(&h->g, node, node_of(h, o->proc), -1);
	else
		behind_add(h, node, o->proc, p2p_other_side(op));
}

static void coll_expand(struct holds *h, int node, const struct held_in *in)
{
	for (const struct member *o = in->comm->members; o; o = o->next_in_comm) {
		if (!member_comparable(o, in->space))
			continue;
		if (o->entered_seq[in->space] <= in->seq)
			graph_add(&h->g, node, node_of(h, o->proc), -1);
		else
			behind_add(h, node, o->proc, member_op(o, in->space, in->seq));
	}
}

static void birth_expand(struct holds *h, int node, const struct birth *b)
{
	const struct proc *missing[BIRTH_MISSING_MAX];
	int n = birth_missing(h->m, b, missing, NULL);

	for (int i = 0; i < n; i++)
		graph_add(&h->g, node, node_of(h, missing[i]), -1);
}

static void hubs_expand(struct holds *h)
{
	for (int i = 0; i < h->n_hubs && !h->g.failed; i++) { /* it makes more of them */
		struct held_in in = h->hubs[i]->in;
		int node = h->hubs[i]->node;

		if (in.birth)
			birth_expand(h, node, in.birth);
		else if (in.space == SPACE_P2P)
			p2p_expand(h, node, in.op);
		else
			coll_expand(h, node, &in);
	}
}

/* --- what a rank's host is in --- */

static bool cannot_go(const struct proc *p)
{
	if (proc_gone_or_stopped(p))
		return true;
	for (const struct task *t = p->tasks; t; t = t->next)
		if (t->state == TASK_STOPPED || t->blocked || (t->state == TASK_DISK && t->tid == p->tgid))
			return true;
	return false;
}

static bool all_from_birth(const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
		if (!mb->gone && !member_comparable(mb, SPACE_P2P))
			return false;
	return true;
}

/* NCCL itself may wait for peers inside a call, on the first transfer with each: nothing came after the call yet. */
static bool maybe_in_nccl(const struct proc *p)
{
	const struct op *op = p->last_op;

	return op && (p->last_call_ns == op->call_ns || p->last_call_ns == op->enqueue_ns);
}

static bool calls_hold(struct holds *h, int node, const struct proc *p)
{
	uint32_t tid = rank_calling_tid(p);
	bool main = false, held = false;

	for (const struct call *c = p->calls; c; c = c->next)
		main |= c->is_sync && c->tid == tid;
	for (const struct call *c = p->calls; c; c = c->next) {
		const struct op *op = !main || c->tid == tid ? call_blocked_by(p, c) : NULL;

		if (op)
			hold_add(h, node, op, node);
		held |= op != NULL;
	}
	return held;
}

static enum stance stance_of(struct holds *h, int node, const struct proc *p)
{
	if (cannot_go(p))
		return STANCE_STUCK;
	if (calls_hold(h, node, p))
		return STANCE_HELD;
	if (proc_waits(p)) /* for its own GPU alone, if all that it called is known */
		return all_from_birth(p) ? STANCE_FREE : STANCE_UNSURE;
	return !p->calls && p->last_sync_ns && !maybe_in_nccl(p) && rank_at_rest(p) ? STANCE_FREE : STANCE_UNSURE;
}

static void births_hold(struct holds *h)
{
	for (const struct birth *b = h->m->births; b; b = b->next)
		for (const struct birth_member *bm = b->members; bm; bm = bm->next) {
			int node = birth_inside(bm) && birth_incomplete(b) ? node_of(h, bm->proc) : -1;

			if (node < 0 || h->stance[node] == STANCE_STUCK)
				continue;
			h->stance[node] = STANCE_HELD;
			graph_add(&h->g, node, hub_birth(h, b), node);
		}
}

/* --- numbers: who is ahead, who is late --- */

static void ahead_hold(struct holds *h, const struct comm *c, int space)
{
	uint64_t lo, hi;

	if (!comm_span(c, space, &lo, &hi))
		return;
	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm) {
		int node = member_comparable(mb, space) && mb->entered_seq[space] > lo ? node_of(h, mb->proc) : -1;

		if (node >= 0 && h->stance[node] == STANCE_UNSURE)
			graph_add(&h->g, node, hub_coll(h, c, space, lo, member_op(mb, space, lo)), node);
	}
}

/* Open operations of ranks whose waits are not seen, and what the streams of any rank stand at since long. */
static void open_hold(struct holds *h, const struct member *mb)
{
	int node = node_of(h, mb->proc);
	const struct op *op = mb->gone ? NULL : mb->first_open;

	if (node < 0 || !op || h->stance[node] == STANCE_STUCK)
		return;
	if (op->enqueue_ns && !op->end_ns && h->m->now_ns > op->enqueue_ns + h->m->hang_floor_ns) {
		const struct op *front = op_blocked_by(op);

		hub_op(h, front ? front : op);
	}
	for (int i = 0; op && i < OPEN_LOOKED_AT && h->stance[node] == STANCE_UNSURE; op = op->next, i++)
		if (op_kind_p2p(op->kind) && p2p_numbered(op) && p2p_lacking(h->m, op))
			graph_add(&h->g, node, hub_p2p(h, op), node);
}

static void late_mark(void *arg, const struct proc *p)
{
	struct holds *h = arg;
	int node = node_of(h, p);

	if (node >= 0)
		h->late[node] = true;
}

static int ranks_list(struct holds *h, const struct model *m)
{
	for (const struct proc *p = m->procs; p; p = p->next)
		h->n_procs += rank_counts(p);
	h->procs = calloc(h->n_procs + 1, sizeof(*h->procs));
	h->slots = calloc(h->n_procs + 1, sizeof(*h->slots));
	h->stance = calloc(h->n_procs + 1, sizeof(*h->stance));
	h->late = calloc(h->n_procs + 1, sizeof(*h->late));
	if (!h->procs || !h->slots || !h->stance || !h->late)
		return -ENOMEM;
	for (const struct proc *p = m->procs; p; p = p->next)
		if (rank_counts(p)) {
			h->slots[h->g.n_nodes] = (struct rank_slot){ p, h->g.n_nodes };
			h->procs[h->g.n_nodes++] = p;
		}
	qsort(h->slots, h->n_procs, sizeof(*h->slots), slot_cmp);
	return 0;
}

int holds_build(struct holds *h, const struct model *m)
{
	*h = (struct holds){ .m = m };
	if (ranks_list(h, m))
		return -ENOMEM;
	for (int i = 0; i < h->n_procs; i++)
		h->stance[i] = stance_of(h, i, h->procs[i]);
	births_hold(h);
	for (const struct comm *c = m->comms; c; c = c->next) {
		for (int space = 0; space < SEQ_SPACES; space++)
			ahead_hold(h, c, space);
		for (const struct member *mb = c->members; mb; mb = mb->next_in_comm)
			open_hold(h, mb);
	}
	hubs_expand(h);
	ranks_late_each(m, late_mark, h);
	return graph_solve(&h->g);
}

void holds_free(struct holds *h)
{
	HASH_CLEAR(hh, h->table);
	for (int i = 0; i < h->n_hubs; i++)
		free(h->hubs[i]);
	free(h->hubs);
	free(h->procs);
	free(h->slots);
	free(h->stance);
	free(h->late);
	graph_free(&h->g);
}

static bool open_long(const struct model *m, const struct proc *p)
{
	for (const struct call *c = p->calls; c; c = c->next)
		if (c->is_sync && m->now_ns > c->begin_ns + m->hang_floor_ns)
			return true;
	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
		if (!mb->gone && mb->first_open && mb->first_open->enqueue_ns &&
		    m->now_ns > mb->first_open->enqueue_ns + m->hang_floor_ns)
			return true;
	return false;
}

static void late_found(void *arg, const struct proc *p)
{
	(void)p;
	*(bool *)arg = true;
}

bool holds_worth(const struct model *m)
{
	bool found = m->births != NULL;

	for (const struct proc *p = m->procs; p && !found; p = p->next)
		found = !p->dead && open_long(m, p);
	if (!found)
		ranks_late_each(m, late_found, &found);
	return found;
}
