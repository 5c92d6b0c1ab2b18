/* SPDX-License-Identifier: Apache-2.0
 *
 * calls_report.c - what an agent with probes says of a rank's calls: numbers, how long what ended lasted, what is open
 * and what that lies behind, the host's wait. It knows when the host called; of a GPU only that an operation was over
 * when the host saw so, late by the error. All of a rank runs on one stream here: a pass is a Recv (but in the first
 * stage), its collective, a Send (but in the last).
 */
#include "tools/simcluster/rank_report.h"

#include "base/hash.h"

enum { OP_IS_SEND = 8, OP_IS_RECV = 9, BYTES = 1 << 20 };

struct op_times { /* one of a rank: it was called, its GPU was ready for it, it was over */
	double called_s, ready_s, ended_s;
};

struct step_times { /* of one step, of one rank */
	const struct cluster *c;
	unsigned long step;
	double begin_s;
	const double *called, *ended;
	const double *all_ended; /* of all ranks */
	int rank;
};

/* --- one operation --- */

static double seen_late_s(const struct read_at *r, const struct step_times *t, int i)
{
	uint64_t h = hash_mix(hash_mix(t->step, (uint64_t)t->rank), (uint64_t)i);

	return isinf(r->noise->error_s) ? INFINITY : (double)(h >> 11) * 0x1p-53 * r->noise->error_s;
}

static double over_before_s(const struct step_times *t, int i)
{
	return i ? t->ended[i - 1] : t->begin_s;
}

static int op_index(const struct cluster *c, int rank, int micro, bool forward)
{
	for (int i = 0; i < c->n_ops; i++)
		if (rank_op(c, rank, i)->micro == micro && rank_op(c, rank, i)->forward == forward)
			return i;
	return -1;
}

/* The stage that a pass has its input from, as a rank of the same place there; -1 none. */
static int source_of(const struct cluster *c, int rank, const struct sim_op *o)
{
	int stage = rank_stage(c, rank), from = o->forward ? stage - 1 : stage + 1;

	if (o->micro < 0 || c->shape.pp < 2 || from < 0 || from >= c->shape.pp)
		return -1;
	return rank + (from - stage) * c->shape.tp * c->shape.dp;
}

static bool receives(const struct cluster *c, int rank, int i)
{
	return source_of(c, rank, rank_op(c, rank, i)) >= 0;
}

static bool sends(const struct cluster *c, int rank, int i)
{
	struct sim_op back = *rank_op(c, rank, i);

	back.forward = !back.forward; /* where a forward pass goes, a backward one comes from */
	return source_of(c, rank, &back) >= 0;
}

static struct op_times recv_times(const struct step_times *t, int i)
{
	const struct sim_op *o = rank_op(t->c, t->rank, i);
	int from = source_of(t->c, t->rank, o), k = op_index(t->c, from, o->micro, o->forward);
	double sent_s = t->all_ended[(size_t)from * t->c->n_ops + (size_t)k];

	return (struct op_times){ t->called[i], over_before_s(t, i), fmax(sent_s, over_before_s(t, i)) };
}

static struct op_times coll_times(const struct step_times *t, int i)
{
	double ready_s = receives(t->c, t->rank, i) ? recv_times(t, i).ended_s : over_before_s(t, i);

	return (struct op_times){ t->called[i], ready_s, t->ended[i] };
}

/* --- numbers and durations --- */

struct ends { /* what was seen to end since the report before */
	uint32_t n, n_recv;
	double sum_s, error_s, recv_sum_s;
};

static bool ended_since(const struct read_at *r, double seen_s, double since_s)
{
	return seen_s > since_s && seen_s <= r->at_s;
}

static void end_add(struct ends *e, const struct read_at *r, const struct op_times *o, double seen_s)
{
	e->n++;
	e->sum_s += seen_s - fmax(o->called_s, o->ready_s);
	e->error_s += r->noise->error_s;
}

static void ends_add(struct ends *e, const struct read_at *r, const struct step_times *t, enum sim_comm comm,
		     double since_s)
{
	for (int i = 0; i < t->c->n_ops; i++) {
		double late_s = seen_late_s(r, t, i);
		struct op_times o;

		if (t->called[i] > r->at_s || over_before_s(t, i) > r->at_s)
			return;
		if (comm == SIM_PP && receives(t->c, t->rank, i)) {
			o = recv_times(t, i);
			if (!ended_since(r, o.ended_s + late_s, since_s))
				continue;
			e->n_recv++;
			e->recv_sum_s += o.ended_s + late_s - fmax(o.called_s, o.ready_s);
		} else if (rank_op(t->c, t->rank, i)->comm == comm && ended_since(r, t->ended[i] + late_s, since_s)) {
			o = coll_times(t, i);
			end_add(e, r, &o, o.ended_s + late_s);
		}
	}
}

static struct step_times this_step(const struct cluster *c, int rank)
{
	return (struct step_times){ c,
				    c->step,
				    c->begin_s,
				    rank_times(c->now.called, c, rank),
				    rank_times(c->now.ended, c, rank),
				    c->now.ended,
				    rank };
}

/* Nothing of it was before its first call. */
static struct step_times step_before(const struct cluster *c, int rank)
{
	return (struct step_times){ c,
				    c->step - 1,
				    0,
				    rank_times(c->before.called, c, rank),
				    rank_times(c->before.ended, c, rank),
				    c->before.ended,
				    rank };
}

static void durations_put(const struct read_at *r, int rank, enum sim_comm comm, double since_s, Cluster__Member *to)
{
	struct step_times t = this_step(r->c, rank);
	struct ends e = { 0 };

	if (since_s <= 0 || isinf(r->noise->error_s))
		return;
	ends_add(&e, r, &t, comm, since_s);
	if (r->c->step > 1) {
		t = step_before(r->c, rank);
		ends_add(&e, r, &t, comm, since_s);
	}
	to->has_ended = to->has_ended_ns = to->has_ended_error_ns = 1;
	to->ended = e.n;
	to->ended_ns = (uint64_t)(e.sum_s * 1e9);
	to->ended_error_ns = (uint64_t)(e.error_s * 1e9);
	to->has_transfers_ended = to->has_transfers_ended_ns = 1;
	to->transfers_ended = e.n_recv;
	to->transfers_ended_ns = (uint64_t)(e.recv_sum_s * 1e9);
}

void calls_numbers_put(const struct read_at *r, int rank, enum sim_comm comm, double since_s, Cluster__Member *to)
{
	const struct step_times t = this_step(r->c, rank);
	uint64_t base = r->c->ranks[rank].n[comm], entered = base, reached = base, completed = base;
	double at_s = r->at_s;

	for (int i = 0; i < r->c->n_ops; i++) {
		double seen_s = t.ended[i] + seen_late_s(r, &t, i);

		if (rank_op(r->c, rank, i)->comm != comm || t.called[i] > at_s)
			continue;
		entered++;
		to->entered_age_ns = read_age_ns(r, t.called[i]);
		to->has_entered_age_ns = 1;
		reached += isinf(r->noise->error_s) || coll_times(&t, i).ready_s <= at_s;
		if (seen_s > at_s)
			continue;
		completed++;
		to->has_completed_age_ns = to->has_completed_error_ns = 1;
		to->completed_age_ns = read_age_ns(r, seen_s);
		to->completed_error_ns = (uint64_t)(r->noise->error_s * 1e9);
	}
	to->has_entered = to->has_reached = 1;
	to->has_completed = !isinf(r->noise->error_s);
	to->entered = entered;
	to->reached = reached;
	to->completed = completed;
	durations_put(r, rank, comm, since_s, to);
}

/* --- transfers --- */

static void peer_put(const struct cluster *c, int rank, bool forward, unsigned long n, struct rank_parts *to,
		     Cluster__Member *m)
{
	int stage = rank_stage(c, rank) + (forward ? 1 : -1);
	Cluster__Peer *p = &to->peers[m->n_peers];

	if (stage < 0 || stage >= c->shape.pp)
		return;
	*p = (Cluster__Peer)CLUSTER__PEER__INIT;
	p->has_rank = p->has_sends = p->has_recvs = 1;
	p->rank = (uint32_t)stage;
	p->sends = p->recvs = n;
	to->peer_list[m->n_peers++] = p;
}

/* With the stage behind: forward passes are sent, backward ones received; with the one before the other way round. */
void calls_peers_put(const struct read_at *r, int rank, struct rank_parts *to, Cluster__Member *m)
{
	const struct step_times t = this_step(r->c, rank);
	unsigned long before = (r->c->step - 1) * (unsigned long)r->c->shape.micro;

	m->peers = to->peer_list;
	peer_put(r->c, rank, true, before, to, m);
	peer_put(r->c, rank, false, before, to, m);
	for (int i = 0; i < r->c->n_ops && t.called[i] <= r->at_s; i++) {
		const struct sim_op *o = rank_op(r->c, rank, i);

		for (size_t k = 0; k < m->n_peers && o->micro >= 0; k++) {
			bool behind = m->peers[k]->rank > (uint32_t)rank_stage(r->c, rank);

			m->peers[k]->sends += o->forward == behind;
			m->peers[k]->recvs += o->forward != behind;
		}
	}
}

/* --- what is open --- */

static uint64_t op_id(const struct cluster *c, int i, int part)
{
	return (c->step * (uint64_t)c->n_ops + (uint64_t)i) * 4 + (uint64_t)part;
}

static Cluster__Call *call_add(const struct read_at *r, struct rank_parts *to, enum sim_comm comm, uint64_t id,
			       double called_s)
{
	Cluster__Call *one = &to->calls[to->proc.n_calls];

	*one = (Cluster__Call)CLUSTER__CALL__INIT;
	one->has_id = one->has_comm = one->has_kind = one->has_count = one->has_seq = one->has_age_ns = one->has_tid =
		one->has_behind = 1;
	one->id = id;
	one->comm = comm_addr(comm);
	one->count = BYTES;
	one->age_ns = read_age_ns(r, called_s);
	one->tid = to->proc.pid;
	one->behind = to->proc.n_calls ? to->calls[0].id : 0;
	one->has_behind = one->behind != 0;
	to->call_list[to->proc.n_calls++] = one;
	return one;
}

/* A pass of so many before it goes to or comes from the same stage. */
static uint64_t transfer_seq(const struct cluster *c, int rank, int i)
{
	uint64_t n = (c->step - 1) * (uint64_t)c->shape.micro;

	for (int k = 0; k < i; k++)
		n += rank_op(c, rank, k)->micro >= 0 && rank_op(c, rank, k)->forward == rank_op(c, rank, i)->forward;
	return n;
}

static void recv_open(const struct read_at *r, int rank, int i, double called_s, struct rank_parts *to)
{
	Cluster__Call *one = call_add(r, to, SIM_PP, op_id(r->c, i, 0), called_s);

	one->kind = OP_IS_RECV;
	one->has_peer = 1;
	one->peer = rank_stage(r->c, source_of(r->c, rank, rank_op(r->c, rank, i)));
	one->seq = transfer_seq(r->c, rank, i);
}

static void send_open(const struct read_at *r, int rank, int i, double called_s, struct rank_parts *to)
{
	Cluster__Call *one = call_add(r, to, SIM_PP, op_id(r->c, i, 2), called_s);

	one->kind = OP_IS_SEND;
	one->has_peer = 1;
	one->peer = rank_stage(r->c, rank) + (rank_op(r->c, rank, i)->forward ? 1 : -1);
	one->seq = transfer_seq(r->c, rank, i);
}

static void coll_open(const struct read_at *r, int rank, int i, double called_s, struct rank_parts *to)
{
	const struct sim_op *o = rank_op(r->c, rank, i);
	uint64_t seq = r->c->ranks[rank].n[o->comm];
	Cluster__Call *one = call_add(r, to, o->comm, op_id(r->c, i, 1), called_s);

	for (int k = 0; k < i; k++)
		seq += rank_op(r->c, rank, k)->comm == o->comm;
	one->kind = (uint32_t)count_kind(o);
	one->seq = seq;
}

/* The oldest of each communicator; all of a rank is one behind the other. */
void calls_open_put(const struct read_at *r, int rank, struct rank_parts *to)
{
	const struct step_times t = this_step(r->c, rank);
	int n[SIM_COMMS] = { 0 };

	to->proc.calls = to->call_list;
	for (int i = 0; i < r->c->n_ops; i++) { /* one with another order has called a later one */
		enum sim_comm comm = rank_op(r->c, rank, i)->comm;
		double late_s = isinf(r->noise->error_s) ? 0 : seen_late_s(r, &t, i);

		if (t.called[i] > r->at_s || t.ended[i] + late_s <= r->at_s)
			continue;
		if (receives(r->c, rank, i) && n[SIM_PP] < OPEN_EACH && recv_times(&t, i).ended_s + late_s > r->at_s) {
			n[SIM_PP]++;
			recv_open(r, rank, i, t.called[i], to);
		}
		if (n[comm] < OPEN_EACH) {
			n[comm]++;
			coll_open(r, rank, i, t.called[i], to);
		}
		if (sends(r->c, rank, i) && n[SIM_PP] < OPEN_EACH) {
			n[SIM_PP]++;
			send_open(r, rank, i, t.called[i], to);
		}
	}
}

/* Its host waits for the job-wide operation, or until its queue is short again: for the oldest in either case. */
void calls_wait_put(const struct read_at *r, int rank, struct rank_parts *to)
{
	const double *called = rank_times(r->c->now.called, r->c, rank);
	double since_s = r->c->begin_s;

	if (host_state_at(r->c, rank, r->at_s) != HOST_WAITS)
		return;
	for (int i = 0; i < r->c->n_ops; i++)
		since_s = called[i] <= r->at_s ? fmax(since_s, called[i]) : since_s;
	to->wait = (Cluster__HostWait)CLUSTER__HOST_WAIT__INIT;
	to->wait.has_tid = to->wait.has_age_ns = 1;
	to->wait.tid = to->proc.pid;
	to->wait.age_ns = read_age_ns(r, since_s);
	to->wait.has_call = to->proc.n_calls != 0;
	to->wait.call = to->proc.n_calls ? to->calls[0].id : 0;
	to->wait_list[0] = &to->wait;
	to->proc.waits = to->wait_list;
	to->proc.n_waits = 1;
}
