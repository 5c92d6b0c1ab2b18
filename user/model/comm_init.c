/* SPDX-License-Identifier: Apache-2.0
 *
 * comm_init.c - communicators being created. Creation is collective: ranks that called wait for all that did not.
 * Callers find each other by the hash of the unique id, or by (parent, n-th such call on it). A caller in an open group
 * does not wait before its GroupEnd; a non-blocking one returns at once and is through when its communicator is used.
 */
#include <errno.h>
#include <stdlib.h>

#include "model/state.h"

#define COMM_INITS_MAX 1024
#define IN_PROGRESS 7           /* ncclInProgress */
#define LINGER_NS 5000000000ull /* no rank inside: kept that long for callers that come later */

static struct caller *caller_of(struct comm_init_member *b)
{
	return (struct caller *)b;
}

static void comm_init_free(struct comm_init *b)
{
	struct comm_init_member *mb;

	while ((mb = b->members)) {
		b->members = mb->next;
		free(mb);
	}
	free(b);
}

struct comm_init *comm_init_add(struct model *m, const struct comm_init *like)
{
	struct comm_init **link = &m->comm_inits, *b = calloc(1, sizeof(*b)), *oldest = m->comm_inits;
	int n = 0;

	if (!b)
		return NULL;
	for (; *link; link = &(*link)->next)
		n++;
	*b = *like;
	*link = b;
	if (n >= COMM_INITS_MAX) {
		m->comm_inits = oldest->next;
		comm_init_free(oldest);
	}
	return b;
}

static bool has_id(const struct comm_init *b, uint64_t id_hash, const struct proc *p)
{
	uint64_t owner = b->members ? proc_owner(b->members->proc) : 0;

	return b->id_hash == id_hash && !owners_differ(owner, proc_owner(p));
}

static struct comm_init *comm_init_get(struct model *m, const struct event *e, const struct proc *p,
				       struct comm *parent, uint64_t nth)
{
	for (struct comm_init *b = m->comm_inits; b; b = b->next)
		if (parent ? b->parent == parent && b->nth == nth : has_id(b, e->comm_init.id_hash, p))
			return b;
	return comm_init_add(m, &(struct comm_init){ .kind = e->comm_init.kind,
						     .id_hash = parent ? 0 : e->comm_init.id_hash,
						     .parent = parent,
						     .nth = nth,
						     .nranks = -1,
						     .first_ns = e->ts_ns });
}

/* How many must call. Ranks met late may have made calls on the parent that were not seen: theirs cannot be matched. */
static int ranks_expected(const struct event *e, const struct comm *parent)
{
	if (!parent)
		return e->comm_init.nranks > 0 ? e->comm_init.nranks : -1;
	if (e->comm_init.kind != COMM_INIT_SPLIT)
		return -1;
	for (const struct member *mb = parent->members; mb; mb = member_next_in_comm(mb))
		if (!mb->from_init)
			return -1;
	return parent->nranks;
}

static int caller_add(struct comm_init *b, struct proc_own *p, const struct event *e, int rank)
{
	struct task_own *t = task_get(p, e->tid);
	struct caller *c = calloc(1, sizeof(*c));

	if (!c || !t) {
		free(c);
		return -ENOMEM;
	}
	c->grouped = t->group_begin_ns != 0;
	c->b = (struct comm_init_member){
		.proc = &p->p, .tid = e->tid, .rank = rank, .since_ns = c->grouped ? 0 : e->ts_ns, .next = b->members
	};
	b->members = &c->b;
	b->n_called++;
	b->last_ns = e->ts_ns; /* lint: kept by the address of its first member */
	return 0;
}

static int comm_init_called(struct model *m, struct proc_own *p, const struct event *e)
{
	struct member_own *parent = e->comm_init.parent_addr ? member_find(p, e->comm_init.parent_addr) : NULL;
	struct comm_init *b;

	if (e->comm_init.kind == COMM_INIT_ALL)
		return 0;
	if (e->comm_init.parent_addr ? !parent || !parent->m.comm->hash : !e->comm_init.id_hash)
		return 0;
	b = comm_init_get(m, e, &p->p, parent ? parent->m.comm : NULL, parent ? ++parent->n_children : 0);
	if (!b)
		return -ENOMEM;
	if (b->nranks < 0)
		b->nranks = ranks_expected(e, b->parent);
	return caller_add(b, p, e, parent ? parent->m.rank : e->comm_init.rank);
}

/* The newest call of that thread that has not returned yet. */
static struct caller *caller_inside(struct model *m, const struct proc_own *p, uint32_t tid)
{
	struct caller *found = NULL;

	for (struct comm_init *b = m->comm_inits; b; b = b->next)
		for (struct comm_init_member *mb = b->members; mb; mb = mb->next)
			if (mb->proc == &p->p && mb->tid == tid && !mb->done_ns && !caller_of(mb)->async &&
			    !caller_of(mb)->addr)
				found = caller_of(mb);
	return found;
}

static void comm_init_returned(struct model *m, struct proc_own *p, const struct event *e)
{
	struct caller *c = caller_inside(m, p, e->tid);

	if (!c)
		return;
	c->addr = e->comm_init.addr;
	c->async = e->comm_init.result == IN_PROGRESS;
	if (!c->async && (!c->grouped || e->comm_init.result))
		c->b.done_ns = e->ts_ns;
}

/* The communicator is used: its caller is through. */
void comm_init_used(struct model *m, const struct proc_own *p, uint64_t addr, uint64_t hash, uint64_t ns)
{
	for (struct comm_init *b = m->comm_inits; b; b = b->next)
		for (struct comm_init_member *mb = b->members; mb; mb = mb->next)
			if (mb->proc == &p->p && !mb->done_ns &&
			    (caller_of(mb)->addr == addr || (hash && b->id_hash == hash)))
				mb->done_ns = ns;
}

bool comm_init_seen(const struct model *m, const struct proc_own *p, uint64_t hash)
{
	for (const struct comm_init *b = m->comm_inits; b && hash; b = b->next)
		for (const struct comm_init_member *mb = b->members; mb && b->id_hash == hash; mb = mb->next)
			if (mb->proc == &p->p)
				return true;
	return false;
}

/* The thread calls NCCL again: what it was creating is through, or begins to be waited for, where its group ends. */
void comm_inits_moved_on(struct model *m, const struct proc_own *p, uint32_t tid, bool at_end, uint64_t ns)
{
	for (struct comm_init *b = m->comm_inits; b; b = b->next)
		for (struct comm_init_member *mb = b->members; mb; mb = mb->next) {
			if (mb->proc != &p->p || mb->tid != tid || mb->done_ns)
				continue;
			if (!mb->since_ns && at_end)
				mb->since_ns = ns;
			else if (mb->since_ns && !caller_of(mb)->async)
				mb->done_ns = ns;
		}
}

int comm_init_apply(struct model *m, struct proc_own *p, const struct event *e)
{
	if (e->kind == EV_COMM_INIT) {
		comm_inits_moved_on(m, p, e->tid, false, e->ts_ns);
		return comm_init_called(m, p, e);
	}
	if (e->kind == EV_COMM_READY)
		comm_init_returned(m, p, e);
	else if (e->kind == EV_COMM_SEEN)
		comm_init_used(m, p, e->comm_seen.addr, e->comm_seen.hash, e->ts_ns);
	return 0;
}

static bool comm_init_over(const struct comm_init *b, uint64_t now_ns)
{
	bool all_called = b->nranks > 0 && b->n_called >= b->nranks, all_done = true;

	for (struct comm_init_member *mb = b->members; mb; mb = mb->next) {
		if (mb->done_ns || mb->proc->dead)
			continue;
		all_done = false;
		if (!all_called || !caller_of(mb)->async)
			return false;
	}
	return (all_called && all_done) || now_ns > b->last_ns + LINGER_NS;
}

void comm_inits_tick(struct model *m)
{
	struct comm_init **link = &m->comm_inits, *b;

	while ((b = *link)) {
		if (!comm_init_over(b, m->now_ns)) {
			link = &b->next;
			continue;
		}
		*link = b->next;
		comm_init_free(b);
	}
}

void comm_inits_forget_proc(struct model *m, const struct proc *p)
{
	for (struct comm_init *b = m->comm_inits; b; b = b->next)
		for (struct comm_init_member **link = &b->members, *mb; (mb = *link);) {
			if (mb->proc != p) {
				link = &mb->next;
				continue;
			}
			*link = mb->next;
			free(mb);
		}
}

/* NULL: all. */
void comm_inits_forget(struct model *m, const struct comm *parent)
{
	struct comm_init **link = &m->comm_inits, *b;

	while ((b = *link)) {
		if (parent && b->parent != parent) {
			link = &b->next;
			continue;
		}
		*link = b->next;
		comm_init_free(b);
	}
}
