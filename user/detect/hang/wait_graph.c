/* SPDX-License-Identifier: Apache-2.0
 *
 * wait_graph.c - builds the graph of wait_graph.h from the model. Operations are nodes shared by all who wait for them,
 * so that a communicator costs its members once for each operation that somebody is held in, not once for each rank.
 */
#include "detect/hang/wait_graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "detect/rank/activity.h"
#include "detect/hang/comm_init.h"
#include "detect/hang/p2p.h"
#include "detect/hang/pending.h"

struct op_key {
	const void *what;
	uint64_t a, b, seq;
};

struct op_node {
	struct op_key key;
	struct awaited in;
	int node;
	UT_hash_handle hh;
};

/* --- nodes --- */

static int slot_cmp(const void *a, const void *b)
{
	const struct rank_node *x = &((const struct rank_slot *)a)->rank, *y = &((const struct rank_slot *)b)->rank;

	if (x->proc != y->proc)
		return x->proc < y->proc ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

/* `tid`: without meaning where the process is one rank. */
static int node_of(const struct wait_graph *h, const struct proc *p, uint32_t tid)
{
	struct rank_slot want = { { p, p->shared ? tid : 0 }, 0 };
	struct rank_slot *at = bsearch(&want, h->slots, h->n_ranks, sizeof(want), slot_cmp);

	return at ? at->node : -1;
}

static int node_of_member(const struct wait_graph *h, const struct member *mb)
{
	return node_of(h, mb->proc, mb->proc->shared ? seat_own_tid(mb) : 0);
}

static int op_node_new(struct wait_graph *h, const struct op_key *key, const struct awaited *in)
{
	int cap = h->cap_ops ? 2 * h->cap_ops : 64;
	struct op_node *op_node = calloc(1, sizeof(*op_node)), **grown;

	if (op_node && h->n_ops == h->cap_ops) {
		grown = realloc(h->ops, cap * sizeof(*grown));
		if (grown) {
			h->ops = grown;
			h->cap_ops = cap;
		}
	}
	if (!op_node || h->n_ops == h->cap_ops) {
		free(op_node);
		h->g.failed = true;
		return -1;
	}
	op_node->key = *key;
	op_node->in = *in;
	op_node->node = h->g.n_nodes++;
	HASH_ADD(hh, h->table, key, sizeof(op_node->key), op_node);
	if (!op_node->hh.tbl)
		h->g.failed = true;
	h->ops[h->n_ops++] = op_node;
	return op_node->node;
}

static int op_node_get(struct wait_graph *h, struct op_key key, struct awaited in)
{
	struct op_node *op_node;

	HASH_FIND(hh, h->table, &key, sizeof(key), op_node);
	if (!op_node)
		return op_node_new(h, &key, &in);
	if (!op_node->in.op)
		op_node->in.op = in.op;
	return op_node->node;
}

static int coll_node(struct wait_graph *h, const struct comm *c, int space, uint64_t seq, const struct op *op)
{
	struct op_key key = { c, space, 0, seq };

	return op_node_get(h, key, (struct awaited){ .comm = c, .op = op, .space = space, .seq = seq });
}

/* Both sides of a transfer are one node where their numbers mean the same. */
static int p2p_node(struct wait_graph *h, const struct op *op)
{
	bool send = op->kind == OP_SEND;
	uint64_t me = op->member->rank, peer = op->peer;
	struct op_key key = { op->member->comm, 16 + (send ? me : peer), send ? peer : me, op->seq };

	if (!p2p_numbered(op))
		key = (struct op_key){ op, 15, 0, op->seq };
	return op_node_get(h, key,
			   (struct awaited){ .comm = op->member->comm, .op = op, .space = SPACE_P2P, .seq = op->seq });
}

static int op_node_of(struct wait_graph *h, const struct op *op)
{
	return op_kind_p2p(op->kind) ? p2p_node(h, op) : coll_node(h, op->member->comm, op_space(op), op->seq, op);
}

static int init_node(struct wait_graph *h, const struct comm_init *b)
{
	struct op_key key = { b, 14, 0, 0 };

	return op_node_get(h, key,
			   (struct awaited){ .comm = b->parent, .init = b, .space = SPACE_INIT, .seq = b->nth });
}

struct awaited wait_graph_op(const struct wait_graph *h, int node)
{
	return h->ops[node - h->n_ranks]->in;
}

/* --- edges --- */

/* Held in an operation is held in its whole group: that starts and ends as one. */
static bool wait_add(struct wait_graph *h, int from, const struct op *op, int via)
{
	for (const struct op *one = group_first(op); one; one = group_next(one))
		if (!one->end_ns)
			graph_add(&h->g, from, op_node_of(h, one), via);
	return op;
}

/* `op`: this member's own call of what op_node `from` is, or NULL when it is over or unknown. */
static void behind_add(struct wait_graph *h, int from, const struct member *mb, const struct op *op)
{
	const struct op *front = op && !op->end_ns ? op_blocked_by(op) : NULL;
	int via = front ? node_of_member(h, mb) : -1;

	if (via >= 0)
		wait_add(h, from, front, via);
}

static void p2p_expand(struct wait_graph *h, int node, const struct op *op)
{
	const struct member *o = member_peer(op->member, op->peer);

	behind_add(h, node, op->member, op);
	if (!o || o == op->member || o->gone)
		return;
	if (p2p_unanswered(h->m, op))
		graph_add(&h->g, node, node_of_member(h, o), -1);
	else
		behind_add(h, node, o, p2p_other_side(op));
}

static void coll_expand(struct wait_graph *h, int node, const struct awaited *in)
{
	for (const struct member *o = in->comm->members; o; o = member_next_in_comm(o)) {
		if (!member_comparable(o, in->space))
			continue;
		if (o->entered_seq[in->space] <= in->seq)
			graph_add(&h->g, node, node_of_member(h, o), -1);
		else
			behind_add(h, node, o, member_op(o, in->space, in->seq));
	}
}

static void init_expand(struct wait_graph *h, int node, const struct comm_init *b)
{
	struct rank_ref missing[INIT_MISSING_MAX];
	int n = comm_init_missing(h->m, b, missing, NULL);

	for (int i = 0; i < n; i++)
		graph_add(&h->g, node, node_of(h, missing[i].proc, rank_ref_tid(&missing[i])), -1);
}

static void ops_expand(struct wait_graph *h)
{
	for (int i = 0; i < h->n_ops && !h->g.failed; i++) { /* it makes more of them */
		struct awaited in = h->ops[i]->in;
		int node = h->ops[i]->node;

		if (in.init)
			init_expand(h, node, in.init);
		else if (in.space == SPACE_P2P)
			p2p_expand(h, node, in.op);
		else
			coll_expand(h, node, &in);
	}
}

/* --- what a rank's host is in --- */

/* A thread of it does not go on: of those that would call, or of the others. */
static bool thread_halted(const struct proc *p, bool calling)
{
	uint32_t tid = rank_calling_tid(p);

	for (const struct task *t = p->tasks; t; t = t->next) /* lint: never NULL */
		if ((t->tid == p->tgid || t->tid == tid) == calling &&
		    (t->state == TASK_STOPPED || t->blocked || (t->state == TASK_DISK && t->tid == p->tgid)))
			return true;
	return false;
}

static bool all_from_init(const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb)) /* lint: never NULL */
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

/* tid 0: of any thread. */
static bool calls_held(struct wait_graph *h, int node, const struct proc *p, uint32_t tid)
{
	bool held = false;

	for (const struct call *c = p->calls; c; c = c->next)
		held |= (!tid || c->tid == tid) && wait_add(h, node, call_blocked_by(p, c), node);
	return held;
}

static bool calls_wait(struct wait_graph *h, int node, const struct proc *p)
{
	uint32_t tid = rank_calling_tid(p);
	bool main = false;

	for (const struct call *c = p->calls; c; c = c->next)
		main |= c->is_sync && c->tid == tid;
	return calls_held(h, node, p, main ? tid : 0);
}

static bool task_halted(const struct task *t)
{
	return t->blocked || t->state == TASK_STOPPED || t->state == TASK_DISK;
}

/* Whether it is in NCCL itself between two calls is not known: it is not free without doubt. */
static enum rank_state thread_state(struct wait_graph *h, int node, const struct rank_node *r)
{
	const struct task *t = seat_task(r->proc, r->tid);

	if (proc_gone_or_stopped(r->proc) || (t && task_halted(t)))
		return STATE_HALTED;
	if (calls_held(h, node, r->proc, r->tid))
		return STATE_WAITS;
	return rank_node_waits(r) && all_from_init(r->proc) ? STATE_FREE : STATE_UNKNOWN;
}

static enum rank_state state_of(struct wait_graph *h, int node, const struct rank_node *r)
{
	const struct proc *p = r->proc;

	if (r->tid)
		return thread_state(h, node, r);
	if (proc_gone_or_stopped(p) || thread_halted(p, true))
		return STATE_HALTED;
	if (calls_wait(h, node, p)) /* whatever a thread that writes a checkpoint waits for */
		return STATE_WAITS;
	if (thread_halted(p, false))
		return STATE_HALTED;
	if (proc_waits(p)) /* for its own GPU alone, if all that it called is known */
		return all_from_init(p) ? STATE_FREE : STATE_UNKNOWN; /* lint: never NULL */
	return !p->calls && p->last_sync_ns && !maybe_in_nccl(p) && rank_at_rest(p) ? STATE_FREE : STATE_UNKNOWN;
}

static void inits_wait(struct wait_graph *h)
{
	for (const struct comm_init *b = h->m->comm_inits; b; b = b->next)
		for (const struct comm_init_member *bm = b->members; bm; bm = bm->next) {
			bool waits = comm_init_waits(bm) && comm_init_incomplete(b);
			int node = waits ? node_of(h, bm->proc, bm->tid) : -1;

			if (node < 0 || h->state[node] == STATE_HALTED)
				continue;
			h->state[node] = STATE_WAITS;
			graph_add(&h->g, node, init_node(h, b), node);
		}
}

/* --- numbers: who is ahead, who is late --- */

static void ahead_wait(struct wait_graph *h, const struct comm *c, int space)
{
	uint64_t lo, hi;

	if (!comm_span(c, space, &lo, &hi))
		return;
	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb)) {
		int node = member_comparable(mb, space) && mb->entered_seq[space] > lo ? node_of_member(h, mb) : -1;

		if (node >= 0 && h->state[node] == STATE_UNKNOWN)
			graph_add(&h->g, node, coll_node(h, c, space, lo, member_op(mb, space, lo)), node);
	}
}

/* Open operations of ranks whose waits are not seen, and what the streams of any rank stand at since long. */
static void open_wait(struct wait_graph *h, const struct member *mb)
{
	const struct op *op = mb->gone ? NULL : mb->first_open;
	int node = op ? node_of_member(h, mb) : -1;

	if (node < 0 || h->state[node] == STATE_HALTED)
		return;
	if (op->enqueue_ns && !op->end_ns && h->m->now_ns > op->enqueue_ns + h->m->hang_floor_ns) {
		const struct op *front = op_blocked_by(op);

		op_node_of(h, front ? front : op);
	}
	for (int i = 0; op && i < OPEN_SCANNED && h->state[node] == STATE_UNKNOWN; op = op->next, i++)
		if (op_kind_p2p(op->kind) && p2p_numbered(op) && p2p_unanswered(h->m, op))
			graph_add(&h->g, node, p2p_node(h, op), node);
}

/* Not of a process that is several ranks: shared_process.c judges who of them is late. */
static void lagging_mark(void *arg, const struct proc *p)
{
	struct wait_graph *h = arg;
	int node = p->shared ? -1 : node_of(h, p, 0);

	if (node >= 0)
		h->lagging[node] = true;
}

/* The ranks of one process, into the list of nodes. Returns how many. */
static int proc_nodes(const struct proc *p, struct rank_node *ret)
{
	struct seats s;
	int n = 0, k;

	if (!rank_counts(p))
		return 0;
	if (!p->shared) {
		*ret = (struct rank_node){ p, 0 };
		return 1;
	}
	seats_of(p, &s);
	for (int i = 0; i < s.n; i++) {
		uint32_t tid = seat_own_tid(s.all[i]);

		for (k = 0; k < n && ret[k].tid != tid; k++)
			;
		if (tid && k == n)
			ret[n++] = (struct rank_node){ p, tid };
	}
	return n;
}

static int ranks_list(struct wait_graph *h, const struct model *m)
{
	int cap = 1;

	for (const struct proc *p = m->procs; p; p = proc_next(p))
		cap += !rank_counts(p) ? 0 : p->shared ? SEATS_MAX : 1;
	h->ranks = calloc(cap, sizeof(*h->ranks));
	h->slots = calloc(cap, sizeof(*h->slots));
	h->state = calloc(cap, sizeof(*h->state));
	h->lagging = calloc(cap, sizeof(*h->lagging));
	if (!h->ranks || !h->slots || !h->state || !h->lagging)
		return -ENOMEM;
	for (const struct proc *p = m->procs; p; p = proc_next(p))
		h->n_ranks += proc_nodes(p, &h->ranks[h->n_ranks]);
	for (int i = 0; i < h->n_ranks; i++)
		h->slots[i] = (struct rank_slot){ h->ranks[i], i };
	h->g.n_nodes = h->n_ranks;
	qsort(h->slots, h->n_ranks, sizeof(*h->slots), slot_cmp);
	return 0;
}

int wait_graph_build(struct wait_graph *h, const struct model *m, uint64_t ahead_ns)
{
	*h = (struct wait_graph){ .m = m };
	if (ranks_list(h, m))
		return -ENOMEM;
	for (int i = 0; i < h->n_ranks; i++)
		h->state[i] = state_of(h, i, &h->ranks[i]);
	inits_wait(h);
	for (const struct comm *c = m->comms; c; c = c->next) {
		for (int space = 0; space < SEQ_SPACES; space++)
			ahead_wait(h, c, space);
		for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb))
			open_wait(h, mb);
	}
	ops_expand(h);
	ranks_lagging_each(m, ahead_ns, lagging_mark, h);
	return graph_solve(&h->g);
}

void wait_graph_free(struct wait_graph *h)
{
	HASH_CLEAR(hh, h->table);
	for (int i = 0; i < h->n_ops; i++)
		free(h->ops[i]);
	free(h->ops);
	free(h->ranks);
	free(h->slots);
	free(h->state);
	free(h->lagging);
	graph_free(&h->g);
}

static bool open_long(const struct model *m, const struct proc *p)
{
	for (const struct call *c = p->calls; c; c = c->next)
		if (c->is_sync && m->now_ns > c->begin_ns + m->hang_floor_ns)
			return true;
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		if (!mb->gone && mb->first_open && mb->first_open->enqueue_ns &&
		    m->now_ns > mb->first_open->enqueue_ns + m->hang_floor_ns)
			return true;
	return false;
}

static void lagging_found(void *arg, const struct proc *p)
{
	(void)p;
	*(bool *)arg = true;
}

bool wait_graph_needed(const struct model *m)
{
	bool found = m->comm_inits != NULL;

	for (const struct proc *p = m->procs; p != m->past && !found; p = proc_next(p))
		found = !p->dead && open_long(m, p);
	if (!found)
		ranks_lagging_each(m, 0, lagging_found, &found);
	return found;
}
