/* SPDX-License-Identifier: Apache-2.0
 *
 * comm.c - communicators and their members. The canonical key is the hash NCCL keeps in the communicator; a member
 * whose hash is not known yet sits in a communicator of its own until a memory read shows it.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/larger.h"
#include "model/state.h"

#define NRANKS_MAX (1 << 20) /* more is a wrong read */
#define MEMBERS_ALL 65536    /* of a host: then a process with MEMBERS_SURE of them gets no more */
#define MEMBERS_SURE 16
#define MEMBERS_FEW 8      /* so many are looked through: a hash table lies in more places of the memory */
#define NCCL_IN_PROGRESS 7 /* a non-blocking communicator: it is there, and not to be used before it is ready */

static struct comm_own *comm_new(struct model *m, uint64_t hash, uint64_t ts_ns)
{
	struct comm_own *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->c.hash = hash;
	c->c.nranks = -1;
	c->c.first_ns = ts_ns;
	if (hash) {
		HASH_ADD(hh, m->state->comms, c.hash, sizeof(hash), c);
		if (!c->hh.tbl) {
			free(c);
			return NULL;
		}
		c->hashed = true;
	}
	c->at = m->comms_tail;
	*m->comms_tail = &c->c;
	m->comms_tail = &c->c.next;
	m->n_comms++;
	return c;
}

static struct comm_own *comm_find(const struct model *m, uint64_t hash)
{
	struct comm_own *c;

	HASH_FIND(hh, m->state->comms, &hash, sizeof(hash), c);
	return c;
}

static struct comm_own *comm_get(struct model *m, uint64_t hash, uint64_t ts_ns)
{
	struct comm_own *c = hash ? comm_find(m, hash) : NULL;

	return c ? c : comm_new(m, hash, ts_ns);
}

void comm_free(struct comm_own *c)
{
	for (int space = 0; space < SEQ_SPACES; space++)
		free(c->ring[space]);
	free(c->c.by_rank);
	free(c);
}

static void member_hold(struct model *m, struct comm *c, struct member *mb)
{
	struct member_own *own = (struct member_own *)mb;

	mb->next_in_comm = c->members;
	if (c->members)
		((struct member_own *)c->members)->at = &mb->next_in_comm;
	own->at = &c->members;
	c->members = mb;
	m->state->ahead_stale = true;
}

static void comm_unlink(struct model *m, struct comm_own *c)
{
	*c->at = c->c.next;
	if (c->c.next)
		comm_own(c->c.next)->at = c->at;
	else
		m->comms_tail = c->at;
	if (c->hashed)
		HASH_DEL(m->state->comms, c);
	comm_inits_forget(m, &c->c);
	m->n_comms--;
	comm_free(c);
}

void comm_leave(struct model *m, struct member *mb)
{
	struct comm *c = mb->comm;
	struct member **at = ((struct member_own *)mb)->at;

	*at = mb->next_in_comm;
	if (mb->next_in_comm)
		((struct member_own *)mb->next_in_comm)->at = at;
	if (c->by_rank && mb->rank >= 0 && mb->rank < c->nranks && c->by_rank[mb->rank] == mb) {
		c->by_rank[mb->rank] = NULL;
		c->n_seen--;
	}
	if (!c->members)
		comm_unlink(m, comm_own(c));
}

static void comm_size(struct comm *c, int nranks)
{
	if (c->nranks > 0 || nranks <= 0 || nranks > NRANKS_MAX)
		return;
	c->by_rank = calloc(nranks, sizeof(*c->by_rank));
	if (c->by_rank)
		c->nranks = nranks;
}

/* The place of a member by its rank; one that is gone, or whose process is dead, makes room. */
static void comm_place(struct comm *c, struct member *mb, int rank)
{
	if (!c->by_rank || rank < 0 || rank >= c->nranks)
		return;
	mb->rank = rank;
	if (!c->by_rank[rank])
		c->n_seen++;
	if (!c->by_rank[rank] || c->by_rank[rank]->gone || c->by_rank[rank]->proc->dead)
		c->by_rank[rank] = mb;
}

static bool other_rank(const struct member *mb, const struct member *o)
{
	return o != mb && !o->gone && o->comm == mb->comm && o->proc == mb->proc && o->rank >= 0 && o->rank != mb->rank;
}

/* Another rank of the communicator in the same process: JAX, ncclCommInitAll, a thread for each rank. It is in both
 * lists, of which one may be long. */
static void shared_find(const struct member *mb)
{
	const struct member *in_proc = mb->proc->members, *in_comm = mb->comm->members;

	for (; in_proc && in_comm && mb->rank >= 0; in_proc = in_proc->next_in_proc, in_comm = in_comm->next_in_comm)
		if (other_rank(mb, in_proc) || other_rank(mb, in_comm)) {
			mb->proc->shared = true;
			return;
		}
}

bool owners_differ(uint64_t a, uint64_t b)
{
	return a && b && a != b;
}

/* Anybody can write any hash into memory of his own: a process of another user is in another communicator. */
static uint64_t comm_key(const struct model *m, struct comm *of, const struct proc *p, uint64_t hash)
{
	uint64_t owner = proc_owner(p);
	const struct comm_own *c = comm_own(of);

	if (of->hash && c->said == hash && !owners_differ(c->owner, owner)) /* it is in that one: as nearly always */
		return of->hash;
	c = comm_find(m, hash);
	return c && owners_differ(c->owner, owner) ? hash_mix(hash, owner) : hash;
}

int member_join(struct model *m, struct member *mb, uint64_t hash, int rank, int nranks, uint64_t ts_ns)
{
	uint64_t key = hash ? comm_key(m, mb->comm, mb->proc, hash) : 0;
	bool joins = key && mb->comm->hash != key;
	struct comm_own *c;

	if (joins) {
		c = comm_get(m, key, ts_ns);
		if (!c)
			return -ENOMEM;
		c->said = hash;
		c->owner = c->owner ? c->owner : proc_owner(mb->proc);
		comm_leave(m, mb);
		mb->comm = &c->c;
		member_hold(m, &c->c, mb);
		member_tied(m, mb);
	}
	comm_size(mb->comm, nranks);
	comm_place(mb->comm, mb, rank);
	if (joins)
		shared_find(mb);
	return 0;
}

static struct member_own *member_new(struct model *m, struct proc_own *p, uint64_t addr, uint64_t ts_ns)
{
	struct member_own *mb = lines_alloc(sizeof(*mb));
	struct comm_own *c = mb ? comm_new(m, 0, ts_ns) : NULL;

	if (!c) {
		free(mb);
		return NULL;
	}
	mb->m.comm = &c->c;
	mb->m.proc = &p->p;
	mb->m.addr = addr;
	mb->m.rank = mb->m.device = -1;
	mb->born_ns = ts_ns;
	HASH_ADD(hh, p->members, m.addr, sizeof(addr), mb);
	if (!mb->hh.tbl) {
		comm_unlink(m, c);
		free(mb);
		return NULL;
	}
	mb->m.at_addr = true;
	member_hold(m, &c->c, &mb->m);
	mb->m.next_in_proc = p->p.members; /* lint: the communicator is in the model's list */
	p->p.members = &mb->m;
	p->p.n_members++;
	p->p.node->n_members++;
	m->n_members++;
	return mb;
}

void member_unhash(struct proc_own *p, struct member_own *mb)
{
	if (mb->m.at_addr)
		HASH_DEL(p->members, mb);
	mb->m.at_addr = false;
}

struct member_own *member_find(const struct proc_own *p, uint64_t addr)
{
	struct member_own *found;

	if (p->p.n_members > MEMBERS_FEW) {
		HASH_FIND(hh, p->members, &addr, sizeof(addr), found);
		return found;
	}
	for (struct member *mb = p->p.members; mb; mb = mb->next_in_proc)
		if (mb->at_addr && mb->addr == addr)
			return (struct member_own *)mb;
	return NULL;
}

/* A process that calls with another address each time is a member of so many communicators. */
static bool members_full(const struct proc *p)
{
	return p->n_members >= MODEL_MEMBERS_MAX || (p->node->n_members >= MEMBERS_ALL && p->n_members >= MEMBERS_SURE);
}

int member_get(struct model *m, struct proc_own *p, uint64_t addr, uint64_t ts_ns, struct member_own **ret)
{
	struct member_own *mb = member_find(p, addr);

	*ret = mb;
	if (mb && !mb->m.gone)
		return 0;
	*ret = NULL;
	if (members_full(&p->p)) {
		p->p.n_refused++;
		m->n_refused++;
		return 0;
	}
	if (mb)
		member_unhash(p, mb); /* stays in the lists, with its operations */
	*ret = member_new(m, p, addr, ts_ns);
	return *ret ? 0 : -ENOMEM;
}

bool member_comparable(const struct member *mb, int space)
{
	/* whose host is silent last: that lies elsewhere in memory */
	return !mb->gone &&
	       (space == SEQ_COLL ? mb->seq_known : (mb->from_init || (space < 0 && mb->p2p_reported)) && !mb->blind) &&
	       !proc_unobserved(mb->proc);
}

/* Those that NCCL counts are good again once its counters have confirmed them. */
bool op_number_sure(const struct model *m, const struct op *op)
{
	if (op_space(op) != SEQ_COLL || !m->last_loss_ns || op->seq_checked_ns > m->last_loss_ns)
		return true;
	return op->seq_checked_ns == op->call_ns && !op->grouped;
}

void member_forget(struct member *mb)
{
	mb->gone = true;
}

void member_free(struct member_own *mb)
{
	struct op *next;

	for (struct op *op = mb->m.ops; op; op = next) {
		next = op->next;
		free(op_own(op));
	}
	free(mb->m.p2p);
	proxies_free(mb);
	free(mb);
}

/* `ts_ns`: when the counters were right, 0 not known. NCCL counted more launches than we did: the difference was lost
 * on the way, or came before us. */
void member_correct(struct member *mb, uint64_t counters_sum, uint64_t ts_ns)
{
	if (mb->n_pending) /* counted when their group ends: nothing to compare with now */
		return;
	if (!mb->seq_known) {
		mb->base_seq = mb->next_seq[SEQ_COLL] = mb->entered_seq[SEQ_COLL] = counters_sum;
		mb->seq_known = true;
	} else if (counters_sum > mb->next_seq[SEQ_COLL]) {
		mb->next_seq[SEQ_COLL] = mb->entered_seq[SEQ_COLL] = counters_sum;
	}
	mb->checked_ns = larger(mb->checked_ns, ts_ns);
	mb->comm->highest_seq[SEQ_COLL] = larger(mb->comm->highest_seq[SEQ_COLL], mb->entered_seq[SEQ_COLL]);
}

static int comm_ready(struct model *m, struct proc_own *p, const struct event *e)
{
	struct member_own *mb;
	int err;

	if ((e->comm_init.result && e->comm_init.result != NCCL_IN_PROGRESS) || !e->comm_init.addr)
		return 0;
	err = member_get(m, p, e->comm_init.addr, e->ts_ns, &mb);
	if (mb && mb->m.n_ops) { /* its end was missed: another communicator at that address */
		member_forget(&mb->m);
		err = member_get(m, p, e->comm_init.addr, e->ts_ns, &mb);
	}
	if (!mb)
		return err;
	mb->m.from_init = mb->m.seq_known = true;
	mb->m.checked_ns = e->ts_ns;
	return member_join(m, &mb->m, e->comm_init.id_hash, e->comm_init.rank, e->comm_init.nranks, e->ts_ns);
}

static int comm_seen(struct model *m, struct proc_own *p, const struct event *e)
{
	struct member_own *mb;
	int err = member_get(m, p, e->comm_seen.addr, e->ts_ns, &mb);

	if (!mb)
		return err;
	if (!mb->m.n_ops && !mb->m.from_init && comm_init_seen(m, p, e->comm_seen.hash)) /* created in a group */
		mb->m.from_init = mb->m.seq_known = true;
	mb->m.device = e->comm_seen.device;
	err = member_join(m, &mb->m, e->comm_seen.hash, e->comm_seen.rank, e->comm_seen.nranks, e->ts_ns);
	if (!err && e->comm_seen.counters_valid)
		member_correct(&mb->m, e->comm_seen.counters_sum, e->ts_ns);
	return err;
}

int comm_apply(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct member_own *mb;
	int err;

	if (!p)
		return -ENOMEM;
	p->p.last_call_ns = e->ts_ns;
	call_forget(p, e->tid);
	switch (e->kind) {
	case EV_COMM_READY: err = comm_ready(m, p, e); return err ? err : comm_init_apply(m, p, e);
	case EV_COMM_SEEN: err = comm_seen(m, p, e); return err ? err : comm_init_apply(m, p, e);
	case EV_COMM_INIT: return comm_init_apply(m, p, e);
	case EV_COMM_GONE:
		mb = member_find(p, e->comm_gone.addr);
		if (mb)
			member_forget(&mb->m);
		return 0;
	default: return 0;
	}
}

int comm_global_rank(const struct comm *c, int r)
{
	if (!c->by_rank || r < 0 || r >= c->nranks || !c->by_rank[r])
		return -1;
	return member_rank(c->by_rank[r]);
}

int member_rank(const struct member *mb)
{
	const struct member *best = mb;

	if (!mb->proc->shared)
		return proc_rank(mb->proc);
	for (const struct member *o = mb->proc->members; o; o = member_next_in_proc(o))
		if (!o->gone && o->device == mb->device && o->comm->nranks > best->comm->nranks)
			best = o;
	return best->rank;
}
