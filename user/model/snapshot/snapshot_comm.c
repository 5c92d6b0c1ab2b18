/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot_comm.c - communicators of a snapshot: their members with the numbers these are at, what each is used to, and
 * creations that go on. Members that are gone are not written; a communicator is known by any of its members.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/larger.h"
#include "model/snapshot/snapshot_private.h"

_Static_assert((int)SNAPSHOT_SPACES == (int)SEQ_SPACES && SNAPSHOT_COUNTED == OP_KINDS_COUNTED, "snapshot_member");

static bool member_kept(const struct member *mb)
{
	return !mb->gone && proc_own(mb->proc)->hashed;
}

static struct snapshot_samples samples_body(const struct samples *s)
{
	struct snapshot_samples b = {
		.n = s->n,
		.seen_ns = s->seen_ns,
		.since_ns = s->since_ns,
		.async_result = s->async_result,
		.init_state = s->init_state,
		.counted = s->counted,
		.moved = s->moved,
		.aborted = s->aborted,
	};

	memcpy(b.counters, s->counters, sizeof(b.counters));
	return b;
}

static void p2p_emit(struct snapshot_writer *r, const struct member *mb)
{
	for (int i = 0; i < mb->n_p2p; i++) {
		const struct p2p_seq *s = &mb->p2p[i];
		struct snapshot_p2p b = { .addr = mb->addr,
					  .peer = i,
					  .next = { s->next[0], s->next[1] },
					  .entered = { s->entered[0], s->entered[1] } };

		if (s->next[0] || s->next[1])
			emit_body(r, mb->proc, 0, SNAPSHOT_P2P, &b, sizeof(b), NULL, 0);
	}
}

static void member_emit(struct snapshot_writer *r, const struct member *mb)
{
	const struct member_own *own = (const struct member_own *)mb;
	struct snapshot_member b = {
		.addr = mb->addr,
		.hash = mb->comm->hash,
		.born_ns = own->born_ns,
		.base_seq = mb->base_seq,
		.last_call_ns = mb->last_call_ns,
		.checked_ns = mb->checked_ns,
		.n_children = own->n_children,
		.samples = samples_body(&mb->samples),
		.rank = mb->rank,
		.nranks = mb->comm->nranks,
		.device = mb->device,
		.from_init = mb->from_init,
		.seq_known = mb->seq_known,
		.blind = mb->blind,
		.stood = { mb->samples.after_ns, mb->samples.stood_ns, mb->samples.stood_seq },
	};

	memcpy(b.next_seq, mb->next_seq, sizeof(b.next_seq));
	memcpy(b.entered_seq, mb->entered_seq, sizeof(b.entered_seq));
	emit_body(r, mb->proc, 0, SNAPSHOT_MEMBER, &b, sizeof(b), NULL, 0);
	p2p_emit(r, mb);
}

static uint32_t buckets_fill(struct snapshot_bucket *to, const uint32_t *h, enum snapshot_bucket_kind kind)
{
	uint32_t n = 0;

	for (int i = 0; i < LAG_BUCKETS; i++)
		if (h[i])
			to[n++] = (struct snapshot_bucket){ kind, i, h[i] };
	return n;
}

static void comm_emit(struct snapshot_writer *r, const struct comm_own *own, const struct member *by)
{
	const char *name = own->c.process_group;
	struct {
		struct snapshot_comm c;
		struct snapshot_bucket buckets[3 * LAG_BUCKETS];
	} b = { .c = {
			.addr = by->addr,
			.first_ns = own->c.first_ns,
			.n_complete = own->c.n_complete,
			.n_ended = own->c.n_ended,
			.n_lag = own->n_lag,
			.n_duration = own->n_duration,
			.idle_ns = own->idle_ns,
			.warm = (own->warm ? SNAPSHOT_WARM : 0) | (own->habitual ? SNAPSHOT_HABITUAL : 0),
		} };

	memcpy(b.c.highest_seq, own->c.highest_seq, sizeof(b.c.highest_seq));
	b.c.n_buckets = buckets_fill(b.buckets, own->lag, SNAPSHOT_LAG);
	b.c.n_buckets += buckets_fill(b.buckets + b.c.n_buckets, own->duration, SNAPSHOT_DURATION);
	b.c.n_buckets += buckets_fill(b.buckets + b.c.n_buckets, own->habit, SNAPSHOT_HABIT);
	emit_body(r, by->proc, 0, SNAPSHOT_COMM, &b, sizeof(b.c) + b.c.n_buckets * sizeof(b.buckets[0]), &name, 1);
}

struct kept {
	const struct member *mb;
	size_t comm_nth, nth;
};

static int kept_order(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;
	uint64_t born_x = ((const struct member_own *)x->mb)->born_ns,
		 born_y = ((const struct member_own *)y->mb)->born_ns;

	if (born_x != born_y)
		return born_x < born_y ? -1 : 1;
	if (x->comm_nth != y->comm_nth)
		return x->comm_nth < y->comm_nth ? -1 : 1;
	return x->nth > y->nth ? -1 : x->nth < y->nth;
}

/* In the order in which they were met, so that all lists come out in the order they have: those grow at their head. */
static int members_emit(struct snapshot_writer *r)
{
	struct kept *all = calloc(r->m->n_members + 1, sizeof(*all));
	size_t n = 0, comm_nth = 0;

	if (!all)
		return -ENOMEM;
	for (const struct comm *c = r->m->comms; c; c = c->next, comm_nth++)
		for (const struct member *mb = c->members; mb && n < r->m->n_members; mb = member_next_in_comm(mb))
			if (member_kept(mb)) {
				all[n] = (struct kept){ mb, comm_nth, n };
				n++;
			}
	qsort(all, n, sizeof(*all), kept_order);
	for (size_t i = 0; i < n; i++)
		member_emit(r, all[i].mb);
	free(all);
	return r->err;
}

static const struct member *member_any(const struct comm *c)
{
	const struct member *mb = c ? c->members : NULL;

	while (mb && !member_kept(mb))
		mb = mb->next_in_comm;
	return mb;
}

void emit_comms(struct snapshot_writer *r)
{
	r->err = r->err ? r->err : members_emit(r);
	for (const struct comm *c = r->m->comms; c && !r->err; c = c->next) {
		const struct member *by = member_any(c);

		if (by)
			comm_emit(r, comm_own((struct comm *)c), by);
	}
}

static struct member_own *member_of(struct model *m, const struct event *e, uint64_t addr)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);

	return p ? member_find(p, addr) : NULL;
}

static void samples_take(struct samples *s, const struct snapshot_samples *b)
{
	*s = (struct samples){
		.n = b->n,
		.seen_ns = b->seen_ns,
		.since_ns = b->since_ns,
		.counted = b->counted,
		.moved = b->moved,
		.aborted = b->aborted,
		.async_result = b->async_result,
		.init_state = b->init_state,
	};
	memcpy(s->counters, b->counters, sizeof(s->counters));
}

int take_member(struct model *m, const struct event *e)
{
	const struct snapshot_member *b = e->snapshot.body;
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct member_own *own = NULL;
	int err = p ? member_get(m, p, b->addr, b->born_ns, &own) : -ENOMEM;
	struct member *mb = own ? &own->m : NULL;

	if (!mb)
		return err;
	own->n_children = b->n_children;
	mb->base_seq = b->base_seq;
	mb->last_call_ns = b->last_call_ns;
	mb->checked_ns = b->checked_ns;
	mb->device = b->device;
	mb->from_init = b->from_init;
	mb->seq_known = b->seq_known;
	mb->blind = b->blind;
	for (int i = 0; i < SEQ_SPACES; i++) {
		mb->next_seq[i] = b->next_seq[i];
		mb->entered_seq[i] = smaller(b->entered_seq[i], b->next_seq[i]);
	}
	samples_take(&mb->samples, &b->samples);
	if (e->snapshot.bytes >= sizeof(*b)) {
		mb->samples.after_ns = b->stood.after_ns;
		mb->samples.stood_ns = b->stood.stood_ns;
		mb->samples.stood_seq = b->stood.stood_seq;
	}
	err = member_join(m, mb, b->hash, b->rank, b->nranks, b->born_ns);
	if (!err)
		comm_stood(mb, mb->samples.stood_seq);
	return err;
}

int take_p2p(struct model *m, const struct event *e)
{
	const struct snapshot_p2p *b = e->snapshot.body;
	struct member_own *own = member_of(m, e, b->addr);
	struct p2p_seq *s = own && b->peer < 1 << 20 ? p2p_get(&own->m, b->peer) : NULL;

	if (!s)
		return -EINVAL;
	for (int i = 0; i < 2; i++) {
		s->next[i] = b->next[i];
		s->entered[i] = smaller(b->entered[i], b->next[i]);
	}
	return 0;
}

static int bucket_take(struct comm_own *c, const struct snapshot_bucket *k)
{
	uint32_t *const buckets[] = {
		[SNAPSHOT_LAG] = c->lag, [SNAPSHOT_DURATION] = c->duration, [SNAPSHOT_HABIT] = c->habit
	};
	uint64_t *const n[] = {
		[SNAPSHOT_LAG] = &c->n_lag, [SNAPSHOT_DURATION] = &c->n_duration, [SNAPSHOT_HABIT] = &c->n_habit
	};

	if (k->bucket >= LAG_BUCKETS || k->kind > SNAPSHOT_HABIT)
		return -EINVAL;
	buckets[k->kind][k->bucket] = k->n;
	*n[k->kind] += k->n;
	return 0;
}

static void text_take(char *to, size_t size, const char *text)
{
	size_t n = strnlen(text, size - 1);

	memcpy(to, text, n);
	to[n] = '\0';
}

int take_comm(struct model *m, const struct event *e)
{
	const struct snapshot_comm *b = e->snapshot.body;
	struct member_own *by = member_of(m, e, b->addr);
	struct comm_own *c = by ? comm_own(by->m.comm) : NULL;

	if (!c || b->n_buckets > (e->snapshot.bytes - sizeof(*b)) / sizeof(b->buckets[0]))
		return -EINVAL;
	c->c.first_ns = b->first_ns;
	c->c.n_complete = b->n_complete;
	c->c.n_ended = b->n_ended;
	c->idle_ns = b->idle_ns;
	c->warm = b->warm & SNAPSHOT_WARM;
	c->habitual = b->warm & SNAPSHOT_HABITUAL;
	c->n_lag = c->n_duration = c->n_habit = 0;
	text_take(c->c.process_group, sizeof(c->c.process_group), e->snapshot.text[0]);
	for (uint32_t i = 0; i < b->n_buckets; i++)
		if (bucket_take(c, &b->buckets[i]))
			return -EINVAL;
	for (int i = 0; i < SEQ_SPACES; i++)
		c->c.highest_seq[i] = larger(c->c.highest_seq[i], b->highest_seq[i]);
	comm_quantiles(c);
	return 0;
}

/* --- creations --- */

static void caller_emit(struct snapshot_writer *r, const struct caller *c)
{
	struct snapshot_caller b = { .since_ns = c->b.since_ns,
				     .done_ns = c->b.done_ns,
				     .addr = c->addr,
				     .rank = c->b.rank,
				     .grouped = c->grouped,
				     .async = c->async };

	if (proc_own(c->b.proc)->hashed)
		emit_body(r, c->b.proc, c->b.tid, SNAPSHOT_CALLER, &b, sizeof(b), NULL, 0);
}

void emit_comm_inits(struct snapshot_writer *r)
{
	for (const struct comm_init *b = r->m->comm_inits; b; b = b->next) {
		const struct member *parent = member_any(b->parent);
		struct snapshot_comm_init body = {
			.parent = parent ? parent->addr : 0,
			.id_hash = b->id_hash,
			.nth = b->nth,
			.first_ns = b->first_ns,
			.last_ns = b->last_ns,
			.kind = b->kind,
			.nranks = b->nranks,
			.n_called = b->n_called,
		};
		const struct comm_init_member *at;

		if (b->parent && !parent)
			continue;
		emit_body(r, parent ? parent->proc : NULL, 0, SNAPSHOT_COMM_INIT, &body, sizeof(body), NULL, 0);
		for (const struct comm_init_member *upto = NULL; upto != b->members;
		     upto = at) { /* from the back, as above */
			for (at = b->members; at->next != upto; at = at->next)
				;
			caller_emit(r, (const struct caller *)at);
		}
	}
}

int take_comm_init(struct model *m, const struct event *e)
{
	const struct snapshot_comm_init *b = e->snapshot.body;
	struct member_own *parent = b->parent ? member_of(m, e, b->parent) : NULL;

	if ((b->parent && !parent) || (unsigned int)b->kind >= COMM_INIT_KIND_MAX || (!b->parent && !b->id_hash))
		return -EINVAL;
	return comm_init_add(m, &(struct comm_init){ .kind = b->kind,
						     .id_hash = b->id_hash,
						     .parent = parent ? parent->m.comm : NULL,
						     .nth = b->nth,
						     .nranks = b->nranks,
						     .n_called = b->n_called,
						     .first_ns = b->first_ns,
						     .last_ns = b->last_ns })
		       ? 0
		       : -ENOMEM;
}

int take_caller(struct model *m, const struct event *e)
{
	const struct snapshot_caller *b = e->snapshot.body;
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct comm_init *of = m->comm_inits;
	struct caller *c;

	while (of && of->next)
		of = of->next;
	if (!of)
		return -EINVAL;
	c = p ? calloc(1, sizeof(*c)) : NULL;
	if (!c)
		return -ENOMEM;
	*c = (struct caller){ .b = { .proc = &p->p,
				     .tid = e->tid,
				     .rank = b->rank,
				     .since_ns = b->since_ns,
				     .done_ns = b->done_ns,
				     .next = of->members },
			      .addr = b->addr,
			      .grouped = b->grouped,
			      .async = b->async };
	of->members = &c->b; /* lint: kept by the address of its first member */
	return 0;
}
