/* SPDX-License-Identifier: Apache-2.0
 *
 * tally.c - see tally.h. Sums are made of differences between two pages, of each member or connection; one that is new
 * counts from where it is.
 */
#include "metrics/tally.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/larger.h"
#include "job/parallel.h"
#include "sink/op_size.h"

struct tally_member {
	struct keyed keyed; /* process, address and communicator */
	uint64_t entered;
	bool seen;
};

struct tally_connection {
	struct keyed keyed; /* its id */
	uint64_t sent, received, retransmitted;
	bool seen;
};

struct tally_incident {
	struct keyed keyed; /* its number */
	bool reached[SEVERITY_MAX];
	bool closed;
};

const char *tally_kind_name(enum tally_kind k)
{
	static const char *const names[] = { "tp", "dp", "pp", "other" };

	return names[k];
}

enum tally_kind tally_kind_of(const struct comm *c)
{
	switch (c->parallelism) {
	case PARALLEL_TENSOR: return TALLY_TENSOR;
	case PARALLEL_DATA: return TALLY_DATA;
	case PARALLEL_PIPELINE: return TALLY_PIPELINE;
	default: return TALLY_OTHER;
	}
}

/* NULL: its rank is not known, there are too many, or no memory. */
static struct tally_rank *rank_get(struct tally *t, const struct proc *p, int rank)
{
	struct tally_rank *r = keyed_find(&t->ranks, p->key, (uint64_t)(int64_t)rank);

	if (rank < 0 || p->is_child)
		return NULL;
	if (!r && t->ranks.n < TALLY_RANKS_MAX)
		r = keyed_get(&t->ranks, p->key, (uint64_t)(int64_t)rank, sizeof(*r));
	if (r) {
		r->job = p->job;
		r->proc = p;
		r->rank = rank;
	}
	return r;
}

static struct tally_rank *rank_of(struct tally *t, const struct member *mb)
{
	return rank_get(t, mb->proc, member_rank(mb));
}

/* --- operations --- */

/* Of the others only one side waits for the other. */
static bool waits_for_all(enum op_kind kind)
{
	return kind == OP_ALLREDUCE || kind == OP_ALLGATHER || kind == OP_REDUCESCATTER;
}

static bool peers_known(const struct op *op)
{
	return waits_for_all(op->kind) && !op->seq_from_attach && op->member->comm->n_seen > 1;
}

/* From when it was called and the GPU was ready for it until the last of its peers entered. */
static uint64_t wait_ns(const struct op *op, uint64_t last_ns)
{
	uint64_t ready_ns = larger(op->enqueue_ns, op->arrive_bound_ns);

	return last_ns > ready_ns ? last_ns - ready_ns : 0;
}

/* Against its peers: who was first, who came last. */
static void entry_add(struct tally_rank *r, struct tally_ops *to, const struct op *op)
{
	uint64_t first_ns = comm_first_entry_ns(op->member->comm, op_space(op), op->seq);
	uint64_t last_ns = comm_entry_ns(op->member->comm, op_space(op), op->seq);

	to->wait_ns += wait_ns(op, last_ns);
	to->last += last_ns && op->enqueue_ns == last_ns;
	if (first_ns && op->enqueue_ns >= first_ns)
		histogram_add(&r->lateness, op->enqueue_ns - first_ns);
}

int tally_op(struct tally *t, const struct op *op)
{
	struct tally_rank *r = rank_of(t, op->member);
	struct tally_ops *to;

	if (!r || !op->end_ns)
		return 0;
	to = &r->of[tally_kind_of(op->member->comm)];
	r->probed = true;
	to->ops++;
	to->bytes += op_size_bytes(op->kind, op->count, op->dtype, op->member->comm->nranks);
	if (peers_known(op))
		entry_add(r, to, op);
	return 0;
}

/* --- findings --- */

/* Counted once for each severity that it reaches, from the lowest that it had. */
int tally_incident(struct tally_findings *t, const struct incident *i)
{
	struct tally_incident *n = keyed_get(&t->incidents, i->number, 0, sizeof(*n));

	if (!n)
		return -ENOMEM;
	n->closed = i->phase == PHASE_CLOSE;
	if (!n->reached[i->f.severity] && !n->closed)
		t->n[i->f.kind][i->f.severity]++;
	n->reached[i->f.severity] = true;
	return 0;
}

static bool incident_lives(void *entry, const void *arg)
{
	(void)arg;
	return !((struct tally_incident *)entry)->closed;
}

void tally_findings_settle(struct tally_findings *t)
{
	keyed_keep(&t->incidents, incident_lives, NULL);
}

void tally_findings_add(struct tally_findings *to, const struct tally_findings *t)
{
	for (int k = 0; k < FINDING_KIND_MAX; k++)
		for (int s = 0; s < SEVERITY_MAX; s++)
			to->n[k][s] += t->n[k][s];
}

void tally_findings_free(struct tally_findings *t)
{
	keyed_free(&t->incidents);
}

/* --- how far each is --- */

bool tally_sighted(const struct member *mb)
{
	return mb->last_call_ns || (mb->samples.n && mb->samples.counted);
}

static int entered_add(struct tally *t, struct tally_ops *to, const struct member *mb)
{
	uint64_t now = mb->entered_seq[SEQ_COLL];
	struct tally_member *was = keyed_find(&t->members, mb->proc->key, hash_mix(mb->addr, mb->comm->hash));

	if (!was) {
		if (t->members.n >= TALLY_MEMBERS_MAX)
			return 0;
		was = keyed_get(&t->members, mb->proc->key, hash_mix(mb->addr, mb->comm->hash), sizeof(*was));
		if (!was)
			return -ENOMEM;
		was->entered = mb->from_init ? 0 : now;
	}
	to->collectives += now > was->entered ? now - was->entered : 0;
	was->entered = larger(now, was->entered);
	was->seen = true;
	return 0;
}

uint64_t tally_lag(const struct member *mb)
{
	uint64_t first = mb->comm->highest_seq[SEQ_COLL], own = mb->entered_seq[SEQ_COLL];

	return member_comparable(mb, SEQ_COLL) && first > own ? first - own : 0;
}

uint64_t tally_moved_ns(const struct member *mb)
{
	return larger(mb->last_call_ns, mb->samples.moved ? mb->samples.since_ns : 0);
}

static int member_add(struct tally *t, const struct member *mb)
{
	struct tally_rank *r = mb->gone || !tally_sighted(mb) ? NULL : rank_of(t, mb);
	struct tally_ops *to = r ? &r->of[tally_kind_of(mb->comm)] : NULL;

	if (!r)
		return 0;
	r->lives = r->seen = to->any = true;
	r->moved_ns = larger(r->moved_ns, tally_moved_ns(mb));
	to->lag = larger(to->lag, tally_lag(mb));
	return entered_add(t, to, mb);
}

static int proc_add(struct tally *t, const struct proc *p)
{
	struct tally_rank *r = p->shared ? NULL : rank_get(t, p, proc_rank(p));
	int err = 0;

	if (r)
		r->lives = true;
	for (const struct member *mb = p->members; mb && !err; mb = mb->next_in_proc)
		err = member_add(t, mb);
	return err;
}

/* --- TCP --- */

static void counter_add(uint64_t *sum, uint64_t *was, uint64_t now, bool is_new)
{
	if (!is_new && now > *was)
		*sum += now - *was;
	*was = larger(*was, now);
}

static int connection_add(struct tally *t, const struct model *m, const struct tcp_connection *c)
{
	const struct tcp_sample *s = tcp_sample_at(c, 0);
	const struct proc *p = s ? model_proc(m, c->proc) : NULL;
	struct tally_rank *r = p && !p->shared ? rank_get(t, p, proc_rank(p)) : NULL;
	struct tally_connection *was = r ? keyed_find(&t->connections, c->id, 0) : NULL;
	bool is_new = !was;

	if (!r)
		return 0;
	if (!was)
		was = keyed_get(&t->connections, c->id, 0, sizeof(*was));
	if (!was)
		return -ENOMEM;
	was->seen = true;
	r->tcp.connections++;
	counter_add(&r->tcp.sent, &was->sent, tcp_value(s, TCP_BYTES_SENT, 0), is_new);
	counter_add(&r->tcp.received, &was->received, tcp_value(s, TCP_BYTES_RECEIVED, 0), is_new);
	counter_add(&r->tcp.retransmitted, &was->retransmitted, tcp_value(s, TCP_BYTES_RETRANSMITTED, 0), is_new);
	r->tcp.send_queue += tcp_value(s, TCP_OUT_QUEUE, 0);
	r->tcp.receive_queue += tcp_value(s, TCP_IN_QUEUE, 0);
	return 0;
}

/* --- from page to page --- */

static bool rank_lives(void *entry, const void *arg)
{
	(void)arg;
	return ((struct tally_rank *)entry)->lives;
}

static bool member_seen(void *entry, const void *arg)
{
	struct tally_member *m = entry;
	bool seen = m->seen;

	(void)arg;
	m->seen = false;
	return seen;
}

static bool connection_seen(void *entry, const void *arg)
{
	struct tally_connection *c = entry;
	bool seen = c->seen;

	(void)arg;
	c->seen = false;
	return seen;
}

static void rank_begin(struct tally_rank *r)
{
	r->lives = r->seen = false;
	r->tcp.connections = 0;
	r->tcp.send_queue = r->tcp.receive_queue = 0;
	for (int k = 0; k < TALLY_KINDS; k++) {
		r->of[k].any = false;
		r->of[k].lag = 0;
	}
}

int tally_turn(struct tally *t, const struct model *m)
{
	int err = 0;

	for (struct tally_rank *r = t->ranks.all; r; r = r->keyed.next)
		rank_begin(r);
	for (const struct proc *p = m->procs; p && !err; p = p->next)
		if (!p->dead && !p->is_child)
			err = proc_add(t, p);
	for (uint32_t i = 0; i < m->tcp.n && !err; i++)
		if (tcp_connection_at(m, i))
			err = connection_add(t, m, tcp_connection_at(m, i));
	keyed_keep(&t->ranks, rank_lives, NULL);
	keyed_keep(&t->members, member_seen, NULL);
	keyed_keep(&t->connections, connection_seen, NULL);
	tally_findings_settle(&t->findings);
	return err;
}

/* Of two processes that say they are one rank of one job (one is about to end), the newer. */
static bool is_newest(const struct tally *t, const struct tally_rank *r)
{
	for (const struct tally_rank *o = t->ranks.all; o; o = o->keyed.next)
		if (o != r && o->lives && o->rank == r->rank && !strcmp(o->job->shown, r->job->shown) &&
		    (o->proc->start_ns > r->proc->start_ns ||
		     (o->proc->start_ns == r->proc->start_ns && o->proc->key > r->proc->key)))
			return false;
	return true;
}

const struct tally_rank *tally_next(const struct tally *t, const struct tally_rank *last)
{
	const struct tally_rank *r = last ? last->keyed.next : t->ranks.all;

	while (r && (!r->lives || !is_newest(t, r)))
		r = r->keyed.next;
	return r;
}

void tally_free(struct tally *t)
{
	keyed_free(&t->ranks);
	keyed_free(&t->members);
	keyed_free(&t->connections);
	tally_findings_free(&t->findings);
}
