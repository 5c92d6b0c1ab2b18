/* SPDX-License-Identifier: Apache-2.0
 *
 * blame.c - the blame walk over what the host sees: arrivals (enqueues) and completions. At each operation the last
 * arriver is charged what it came later than its peers of the same role, counted from the operation that released
 * them all; then the walk goes on from there. Where operations with others lie in between whose ends are too vague
 * to split the charge, it falls on all of them together: never on a rank picked by chance. Arrivals are compared on
 * one node's clock; over nodes it must be durations.
 */
#include "detect/straggler/blame.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/sorted.h"

#define TIGHT_SHARE 0.01 /* of the step: an end known that well splits a charge */
#define OWN_WAIT_SHARE \
	0.2 /* of the step: an operation that lasts longer after its last arriver waits for that rank's own GPU */
#define WALK_MAX 8192
#define MISCOUNT_SHARE 0.05 /* of the step: less may be the error between the clocks of two hosts */
#define PEERS_MAX 256       /* of more the median is that of the first so many */
/* A larger set than half of the job is how the job is built (history.c). In a small job it still counts: by all that is
 * charged one knows how much the job's steps vary. */
#define SET_MOST 16

struct walk {
	const struct model *m;
	const struct op *begin;
	double step_s;
	struct blames *ret;
	int most;         /* ranks of a set */
	uint64_t late_ns; /* when the last arriver of the station before entered */
	int err;
};

static double to_s(uint64_t ns)
{
	return ns * 1e-9;
}

static bool same_role(const struct proc *a, const struct proc *b)
{
	return a->steps->role && a->steps->role == b->steps->role;
}

static const struct op *entered(const struct member *mb, const struct op *op)
{
	int space = op_space(op);
	const struct op *o;

	if (mb->gone || mb->proc->dead)
		return NULL;
	o = space >= 0 ? member_op(mb, space, op->seq) : NULL;
	return o && o->enqueue_ns ? o : NULL;
}

static const struct op *p2p_partner(const struct op *op)
{
	const struct comm *c = op->member->comm;
	const struct member *o = c->by_rank && op->peer >= 0 && op->peer < c->nranks ? c->by_rank[op->peer] : NULL;

	if (!o || op->seq_from_attach || o->gone)
		return NULL;
	return member_p2p_op(o, op->kind == OP_SEND ? OP_RECV : OP_SEND, op->member->rank, op->seq);
}

/* A Recv waits for its Send; a Send for no rank worth blaming. */
static const struct op *last_arriver(const struct op *op)
{
	const struct op *last = op, *o;

	if (op_kind_p2p(op->kind)) {
		o = op->kind == OP_RECV ? p2p_partner(op) : NULL;
		return o && o->enqueue_ns > op->enqueue_ns ? o : op;
	}
	for (const struct member *mb = op->member->comm->members; mb; mb = member_next_in_comm(mb)) {
		o = entered(mb, op);
		if (o && o->enqueue_ns > last->enqueue_ns)
			last = o;
	}
	return last;
}

/* Seen to be over before `ns`: the host may have waited for it. */
static bool over_before(const struct op *op, uint64_t ns)
{
	return op->end_ns && op->end_ns <= ns;
}

/* No rank leaves such an operation before the last one entered. Where one was seen to, the numbers of two ranks do not
 * belong together, as where an operation was lost. */
static bool is_miscounted(const struct op *op, double step_s)
{
	const struct op *last, *o;

	if (op->kind != OP_ALLREDUCE && op->kind != OP_ALLGATHER && op->kind != OP_REDUCESCATTER &&
	    op->kind != OP_ALLTOALL)
		return false;
	last = last_arriver(op);
	for (const struct member *mb = op->member->comm->members; mb; mb = member_next_in_comm(mb)) {
		o = entered(mb, op);
		if (o && o != last && o->end_ns && to_s(o->end_ns) + MISCOUNT_SHARE * step_s < to_s(last->enqueue_ns))
			return true;
	}
	return false;
}

static bool comm_has(const struct comm *c, const struct proc *p)
{
	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb))
		if (mb->proc == p)
			return true;
	return false;
}

/* Did `x` release all members of `op` together? */
static bool shared(const struct op *x, const struct op *op)
{
	if (op_kind_p2p(x->kind) || op_space(x) < 0)
		return false;
	if (x->member->comm == op->member->comm)
		return true;
	if (op_kind_p2p(op->kind))
		return false;
	for (const struct member *mb = op->member->comm->members; mb; mb = member_next_in_comm(mb))
		if (!comm_has(x->member->comm, mb->proc))
			return false;
	return true;
}

static void set_add_op(struct blame_set *b, const struct op *x)
{
	const struct op *o;

	if (op_kind_p2p(x->kind)) {
		o = p2p_partner(x);
		if (o)
			blame_set_add(b, o);
		else
			b->open = true; /* with whom is not known */
		return;
	}
	for (const struct member *mb = x->member->comm->members; mb && !b->open; mb = member_next_in_comm(mb)) {
		o = entered(mb, x);
		if (o)
			blame_set_add(b, o);
	}
}

/* Back from `op` to the operation that released its whole group; NULL: not within reach. Who took part in something
 * with this rank in between, and was waited for, goes into `with`; the newest of these operations into *between. */
static const struct op *release_of(const struct op *op, const struct op *group, struct blame_set *with, double step_s,
				   const struct op **between)
{
	uint64_t at = op->enqueue_ns;
	const struct op *x = op->prev_in_proc;
	bool blind =
		!op->member->proc->last_sync_ns; /* host waits are not seen: any operation may have been waited for */

	*between = NULL;
	for (int i = 0; x && i < WALK_MAX; i++, x = x->prev_in_proc) {
		bool over = over_before(x, at), together = shared(x, group);

		if ((together ? !over : !over && !blind) || is_miscounted(x, step_s))
			continue;
		if (together)
			return x;
		if (!*between && over)
			*between = x;
		set_add_op(with, x);
	}
	return NULL;
}

/* Members of the set were delayed by others in turn: close it over what each took part in since the release. */
static void set_close(struct blame_set *with, const struct op *group, uint64_t since_ns, double step_s)
{
	for (int i = 0; i < with->n && !with->open; i++) {
		if (with->parts[i].scanned)
			continue;
		with->parts[i].scanned = true;
		for (const struct op *x = with->parts[i].from; x && x->enqueue_ns > since_ns && !with->open;
		     x = x->prev_in_proc)
			if (!shared(x, group) && over_before(x, group->enqueue_ns) && !is_miscounted(x, step_s))
				set_add_op(with, x);
		i = -1; /* one found earlier may reach further now */
	}
}

/* What the rank of `op` did as its part of `x`; NULL: it took none. */
static const struct op *own_part(const struct op *op, const struct op *x)
{
	const struct op *own;

	for (const struct member *mb = x->member->comm->members; mb; mb = member_next_in_comm(mb)) {
		own = mb->proc == op->member->proc ? entered(mb, x) : NULL;
		if (own)
			return own;
	}
	return NULL;
}

/* Is `op` before the iteration, which begins behind `begin`? By its rank's own call order where it took part in that.
 */
static bool before_iteration(const struct op *op, const struct op *begin)
{
	const struct op *own = own_part(op, begin);

	return own ? op->nth <= own->nth : op->enqueue_ns <= begin->enqueue_ns;
}

/* How much later than the median of its role's other members; 0 without one, or when it is not. */
static double lateness_s(const struct op *op, const struct blame_set *with)
{
	double late[PEERS_MAX];
	const struct op *o;
	int n = 0;

	for (const struct member *mb = op->member->comm->members; mb && n < PEERS_MAX; mb = member_next_in_comm(mb)) {
		if (mb == op->member || blame_set_has(with, mb->proc) || !same_role(mb->proc, op->member->proc))
			continue;
		o = entered(mb, op);
		if (o)
			late[n++] = to_s(op->enqueue_ns) - to_s(o->enqueue_ns);
	}
	return fmax(doubles_lower_median(late, n), 0);
}

/* Local time of the rank before `op`, since an operation seen to be over at that time; -1 unknown. */
static double gap_s(const struct op *op)
{
	for (const struct op *x = op->prev_in_proc; x; x = x->prev_in_proc)
		if (over_before(x, op->enqueue_ns))
			return to_s(op->enqueue_ns - x->end_ns);
	return -1;
}

static uint64_t index_of(const struct op *op)
{
	const struct steps *s = op->member->proc->steps;

	return (op->nth + s->period_ops - s->phase % s->period_ops) % s->period_ops;
}

/* The same place of the iteration in another rank of the role, nearest in time. */
static const struct op *counterpart(const struct op *op, const struct proc *p, double step_s)
{
	uint64_t index = index_of(op);

	for (const struct op *x = p->last_op; x; x = x->prev_in_proc) {
		if (to_s(x->enqueue_ns) > to_s(op->enqueue_ns) + step_s / 2 || !x->enqueue_ns)
			continue;
		if (to_s(x->enqueue_ns) < to_s(op->enqueue_ns) - step_s / 2)
			return NULL;
		if (index_of(x) == index)
			return x;
	}
	return NULL;
}

/* The local gap beyond the median of the role: for operations between which the ends are well known. */
static double extra_gap_s(const struct model *m, const struct op *op, double step_s)
{
	double gaps[PEERS_MAX], mine = gap_s(op), one, usual;
	const struct op *o;
	int n = 0;

	for (const struct proc *p = m->procs; p && n < PEERS_MAX && mine > 0; p = proc_next(p)) {
		if (p == op->member->proc || p->dead || !same_role(p, op->member->proc) ||
		    p->steps->period_ops != op->member->proc->steps->period_ops)
			continue;
		o = counterpart(op, p, step_s);
		one = o ? gap_s(o) : -1;
		if (one >= 0)
			gaps[n++] = one;
	}
	if (!n)
		return 0;
	usual = doubles_lower_median(gaps, n);
	return mine > usual ? mine - usual : 0;
}

/* What its own GPU still had to do after it arrived is not the host's lateness: no host would have been faster. */
static double hidden_s(const struct op *op, double step_s)
{
	double lasts = op->end_ns ? to_s(op->end_ns - op->enqueue_ns) : step_s;

	return lasts > OWN_WAIT_SHARE * step_s ? lasts - OWN_WAIT_SHARE * step_s : 0;
}

static void charge(struct walk *w, const struct blame_set *who, double s)
{
	uint64_t key = 0;

	if (s <= 0 || who->open || w->err)
		return;
	for (int i = 0; i < who->n; i++)
		key += hash_mix(3, who->parts[i].proc->key);
	for (int i = 0; i < w->ret->n; i++)
		if (w->ret->items[i].key == key) {
			w->ret->items[i].gap_s += s;
			return;
		}
	w->err = blames_add(w->ret, who, key, s);
}

static bool tight(const struct op *op, double step_s)
{
	return to_s(op->end_error_ns) <= TIGHT_SHARE * step_s;
}

/* Released before the iteration began, and not by its beginning: what it was late by then was charged then. */
static double lateness_before_s(const struct walk *w, const struct op *last, const struct op *release,
				const struct blame_set *with)
{
	const struct op *own = own_part(last, w->begin);

	return own && release->nth < own->nth && own->nth < last->nth ? lateness_s(own, with) : 0;
}

/* The first operation behind `release` in the communicator of `last` before which the host waited for its GPU: how late
 * that one was hides nothing, though it may take long. NULL: there was no such wait. */
static const struct op *after_wait(const struct op *last, const struct op *release)
{
	const struct op *first = NULL;

	for (const struct op *x = last; x && x != release; x = x->prev_in_proc)
		if (x->member == last->member && !op_kind_p2p(x->kind) && x->prev_in_proc &&
		    x->sync_ns > x->prev_in_proc->call_ns)
			first = x;
	return first;
}

static double lateness_charged_s(const struct walk *w, const struct op *last, const struct op *release,
				 const struct blame_set *with)
{
	double s = lateness_s(last, with) - lateness_before_s(w, last, release, with) - hidden_s(last, w->step_s),
	       open_s;
	const struct op *first = after_wait(last, release);

	if (!first)
		return s;
	open_s = lateness_s(first, with) - lateness_before_s(w, first, release, with);
	return open_s > s ? open_s : s;
}

/* Who comes last to an operation was there before what waited for that. Where it was not, numbers do not belong
 * together, though no end shows it, and the walk would go round in a circle. */
static bool goes_back(struct walk *w, const struct op *last)
{
	bool back = !w->late_ns || last->enqueue_ns < w->late_ns;

	w->late_ns = last->enqueue_ns;
	return back;
}

/* One station: charges its last arriver and says where to go on; NULL: the end of the walk. */
static const struct op *station(struct walk *w, const struct op *op)
{
	const struct op *last = last_arriver(op), *between, *release;
	struct blame_set *alone = &w->ret->alone, *with = &w->ret->with;
	double s;

	if (!goes_back(w, last) || is_miscounted(last, w->step_s))
		return NULL;
	blame_set_begin(alone, 1, last);
	blame_set_begin(with, w->most, last);
	release = release_of(last, last, with, w->step_s, &between);
	if (between && tight(between, w->step_s)) {
		s = extra_gap_s(w->m, last, w->step_s) - 2 * to_s(between->end_error_ns) - hidden_s(last, w->step_s);
		charge(w, alone, s);
		return between;
	}
	if (!release || op_kind_p2p(last->kind))
		return release ? release : between;
	if (with->n > 1)
		set_close(with, last, release->enqueue_ns, w->step_s);
	w->err = w->err ? w->err : alone->err ? alone->err : with->err;
	charge(w, with, lateness_charged_s(w, last, release, with));
	return release;
}

static int half_of_job(const struct model *m, const struct job_id *job)
{
	int n = 0;

	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		n += !p->dead && !p->is_child && p->job == job;
	return n / 2;
}

int blame_walk(const struct model *m, const struct op *begin, const struct op *end, double step_s, struct blames *ret)
{
	int half = half_of_job(m, end->member->proc->job);
	struct walk w = { .m = m, .begin = begin, .step_s = step_s, .ret = ret };
	const struct op *op = end;

	w.most = half > SET_MOST ? half : SET_MOST;
	ret->n = 0;
	ret->n_procs = 0;
	for (int i = 0; op && !w.err && i < WALK_MAX && !before_iteration(op, begin); i++)
		op = station(&w, op);
	return w.err;
}
