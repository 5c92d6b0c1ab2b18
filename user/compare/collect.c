/* SPDX-License-Identifier: Apache-2.0
 *
 * collect.c - see collect.h. A rank is known again by its number, a communicator by the ranks in it: its hash is
 * another in each run.
 */
#include "compare/collect.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "base/larger.h"
#include "sink/op_size.h"

#define OPS_KEPT 4096 /* kinds and sizes of all communicators; what comes later is in no measure */
#define GPU_WAIT PHASES_AND_OTHER
#define EXPOSED (GPU_WAIT + 1)
#define PHASE_COLUMNS (EXPOSED + 1)

struct rank_seen { /* by number */
	struct keyed keyed;
	uint64_t proc; /* that has the number now */
	uint64_t n_steps;
	struct durations step, late, phases[PHASE_COLUMNS];
	enum steps_by by; /* all of them */
	double late_s;    /* at one collective, the most since its step began */
	/* Where no phases are known: when and with which operation its iteration began; of which period. */
	uint64_t begin_ns, begin_nth;
	size_t period_ops;
};

struct comm_seen { /* by hash */
	struct keyed keyed;
	int *ranks; /* ascending */
	int n, nranks;
	uint64_t late_seq; /* the next collective of which it is said who was late */
};

/* What is known of when an operation was over. Of several that a host saw to be over at once, only the last can have
 * lasted until then, and it may have been over before. */
enum sharpness { VAGUE, SHARP, AT_MOST };

struct op_seen { /* by hash of the communicator, and kind with size and sharpness */
	struct keyed keyed;
	enum op_kind kind;
	uint64_t bytes;
	bool at_most;
	struct durations s;
};

struct collector {
	struct sink base;
	struct keyed_table ranks, comms, ops;
	uint64_t n_ops, n_vague;
	bool phases, rivals;
	int err;
};

static void put(struct collector *c, struct durations *s, double seconds)
{
	int err = durations_put(s, seconds);

	c->err = c->err ? c->err : err;
}

static void *entry(struct collector *c, struct keyed_table *t, uint64_t a, uint64_t b, size_t bytes)
{
	void *e = keyed_get(t, a, b, bytes);

	c->err = e ? c->err : -ENOMEM;
	return e;
}

/* Of a rank that was started again, the process before is dead. */
static bool has_rival(const struct rank_seen *r, const struct model *m)
{
	const struct proc *before = r->proc ? model_proc(m, r->proc) : NULL;

	return before && !before->dead;
}

static struct rank_seen *rank_of(struct collector *c, const struct proc *p, int rank, const struct model *m)
{
	struct rank_seen *r = rank >= 0 ? entry(c, &c->ranks, (uint64_t)rank, 0, sizeof(*r)) : NULL;

	if (!r)
		return NULL;
	if (r->proc != p->key) {
		c->rivals |= has_rival(r, m);
		r->begin_ns = 0;
	}
	r->proc = p->key;
	return r;
}

/* --- steps --- */

static void step_count(struct collector *c, struct rank_seen *r, uint64_t ns)
{
	put(c, &r->step, (double)ns / 1e9);
	put(c, &r->late, r->late_s);
	r->late_s = 0;
	r->n_steps++;
}

static double host_s(uint64_t ns, uint64_t wait_ns)
{
	return ns > wait_ns ? (double)(ns - wait_ns) / 1e9 : 0;
}

static void steps_forget(struct rank_seen *r)
{
	durations_free(&r->step);
	durations_free(&r->late);
	for (int i = 0; i < PHASE_COLUMNS; i++)
		durations_free(&r->phases[i]);
	r->n_steps = 0;
}

static bool has_phases(const struct rank_seen *r)
{
	return r->phases[PHASE_OTHER].seen;
}

/* Of a rank's steps only those of one kind are measured, as others have other borders: by PyTorch's ranges, where there
 * are such, by its operators, by NCCL's operations. */
static bool step_counts(struct rank_seen *r, const struct step_done *s)
{
	if (has_phases(r) && r->by == STEPS_BY_RANGES && s->by != STEPS_BY_RANGES)
		return false;
	if (!has_phases(r) || r->by != s->by)
		steps_forget(r);
	r->by = s->by;
	return true;
}

static int step_collect(struct sink *base, const struct step_done *s, const struct model *m)
{
	struct collector *c = (struct collector *)base;
	struct rank_seen *r = s->n_backward ? rank_of(c, s->proc, proc_rank(s->proc), m) : NULL;

	if (!r || !step_counts(r, s)) /* an evaluation's batch is no step to compare with */
		return 0;
	c->phases = true;
	step_count(c, r, s->end_ns - s->begin_ns);
	for (int i = 0; i < STEP_PHASES; i++)
		if (step_shows(s, i))
			put(c, &r->phases[i], host_s(s->phase_ns[i], s->wait_ns[i]));
	put(c, &r->phases[PHASE_OTHER], host_s(step_other_ns(s), s->wait_ns[PHASE_OTHER]));
	put(c, &r->phases[GPU_WAIT], (double)s->gpu_wait_ns / 1e9);
	put(c, &r->phases[EXPOSED], (double)s->exposed_most_ns / 1e9);
	return 0;
}

/* By the clock of its operations, where no phases are known. */
static void iteration_collect(struct collector *c, struct rank_seen *r, const struct op *op)
{
	const struct steps *s = member_steps(op->member);
	size_t period = op->member->proc->has_phases ? 0 : s->period_ops;

	if (!period || op_clock_nth(op) % period != s->phase)
		return;
	if (r->begin_ns && r->period_ops == period && op_clock_nth(op) == r->begin_nth + period &&
	    op->call_ns > r->begin_ns)
		step_count(c, r, op->call_ns - r->begin_ns);
	r->begin_ns = op->call_ns;
	r->begin_nth = op_clock_nth(op);
	r->period_ops = period;
}

/* --- communicators --- */

static struct comm_seen *comm_of(struct collector *c, const struct op *op, int rank)
{
	const struct comm *comm = op->member->comm;
	struct comm_seen *s = comm && comm->hash ? entry(c, &c->comms, comm->hash, 0, sizeof(*s)) : NULL;
	int at = 0, *ranks;

	if (!s)
		return NULL;
	s->nranks = comm->nranks > s->nranks ? comm->nranks : s->nranks;
	while (at < s->n && s->ranks[at] < rank)
		at++;
	if (rank < 0 || (at < s->n && s->ranks[at] == rank))
		return s;
	ranks = realloc(s->ranks, (size_t)(s->n + 1) * sizeof(*ranks));
	if (!ranks) {
		c->err = -ENOMEM;
		return s;
	}
	memmove(ranks + at + 1, ranks + at, (size_t)(s->n - at) * sizeof(*ranks));
	ranks[at] = rank;
	s->ranks = ranks;
	s->n++;
	return s;
}

/* How long each rank's host is behind the first that came to it: once for each collective. When a GPU is ready is known
 * only of those whose end was seen, so it is not compared. */
static void late_collect(struct collector *c, struct comm_seen *s, const struct op *op, const struct model *m)
{
	const struct comm *comm = op->member->comm;
	uint64_t first_ns = op->enqueue_ns;
	const struct op *of_member;
	struct rank_seen *r;

	if (op_space(op) != SEQ_COLL || !member_comparable(op->member, SEQ_COLL) || op->seq < s->late_seq)
		return;
	s->late_seq = op->seq + 1;
	for (const struct member *mb = comm->members; mb; mb = mb->next_in_comm) {
		of_member = member_op(mb, SEQ_COLL, op->seq);
		if (of_member && of_member->enqueue_ns)
			first_ns = smaller(first_ns, of_member->enqueue_ns);
	}
	for (const struct member *mb = comm->members; mb; mb = mb->next_in_comm) {
		of_member = member_op(mb, SEQ_COLL, op->seq);
		r = of_member ? rank_of(c, mb->proc, member_rank(mb), m) : NULL;
		if (r && of_member->enqueue_ns > first_ns)
			r->late_s = fmax(r->late_s, (double)(of_member->enqueue_ns - first_ns) / 1e9);
	}
}

/* --- operations --- */

/* From when the last rank was ready for it. */
static double op_length_s(const struct op *op)
{
	uint64_t ns = op->end_ns > op->start_bound_ns ? op->end_ns - op->start_bound_ns : 0;

	return (double)(op->gpu_ns ? op->gpu_ns : ns) / 1e9;
}

static enum sharpness op_sharpness(const struct op *op)
{
	bool is_last = !op->next || op->next->end_ns != op->end_ns;

	if (op->gpu_ns)
		return SHARP;
	if (!op->start_bound_ns || op->end_ns <= op->start_bound_ns)
		return VAGUE;
	return op->end_error_ns <= (op->end_ns - op->start_bound_ns) / 2 ? SHARP : is_last ? AT_MOST : VAGUE;
}

static struct op_seen *op_of(struct collector *c, const struct op *op, enum sharpness sharpness)
{
	const struct comm *comm = op->member->comm;
	uint64_t bytes = op_size_bytes(op->kind, op->count, op->dtype, comm->nranks);
	uint64_t key = ((uint64_t)op->kind << 57 | (uint64_t)(sharpness == AT_MOST) << 56) ^ bytes;
	struct op_seen *s = keyed_find(&c->ops, comm->hash, key);

	if (!s && c->ops.n < OPS_KEPT)
		s = entry(c, &c->ops, comm->hash, key, sizeof(*s));
	if (s) {
		s->kind = op->kind;
		s->bytes = bytes;
		s->at_most = sharpness == AT_MOST;
	}
	return s;
}

static int op_collect(struct sink *base, const struct op *op, const struct model *m)
{
	struct collector *c = (struct collector *)base;
	int rank = member_rank(op->member);
	struct rank_seen *r = op->captured ? NULL : rank_of(c, op->member->proc, rank, m);
	struct comm_seen *comm = r ? comm_of(c, op, rank) : NULL;
	enum sharpness sharpness;
	struct op_seen *s;

	if (r)
		iteration_collect(c, r, op);
	if (!comm || !op->end_ns)
		return 0;
	c->n_ops++;
	late_collect(c, comm, op, m);
	sharpness = op_sharpness(op);
	c->n_vague += sharpness == VAGUE;
	s = sharpness == VAGUE ? NULL : op_of(c, op, sharpness);
	if (s)
		put(c, &s->s, op_length_s(op));
	return 0;
}

/* --- what it has measured --- */

static void take(struct collector *c, struct measures *to, enum measure_kind kind, int rank, const char *what,
		 struct durations *s)
{
	struct measure *m = s->n ? measures_add(to, kind, rank, what, "") : NULL;

	if (!s->n)
		return;
	if (!m) {
		c->err = -ENOMEM;
		return;
	}
	m->per_step = 1;
	m->s = *s;
	*s = (struct durations){ 0 };
}

static const char *phase_text(int i)
{
	return i == GPU_WAIT ? "gpu_wait" : i == EXPOSED ? "exposed_most" : step_phase_name(i);
}

static int rank_cmp(const void *a, const void *b)
{
	const struct rank_seen *const *x = a, *const *y = b;

	return (*x)->keyed.a < (*y)->keyed.a ? -1 : (*x)->keyed.a > (*y)->keyed.a;
}

/* All ranks in the order of their numbers; of free(). */
static struct rank_seen **ranks_sorted(struct collector *c)
{
	struct rank_seen **all = calloc(c->ranks.n + 1, sizeof(*all));
	size_t n = 0;

	if (!all)
		return NULL;
	for (struct rank_seen *r = c->ranks.all; r; r = r->keyed.next)
		all[n++] = r;
	qsort(all, n, sizeof(*all), rank_cmp);
	return all;
}

static uint64_t ranks_take(struct collector *c, struct collected *to)
{
	struct rank_seen **all = ranks_sorted(c);
	uint64_t n_steps = 0;

	if (!all)
		c->err = -ENOMEM;
	for (int i = 0; all && all[i]; i++) {
		take(c, &to->measures, MEASURE_STEP, (int)all[i]->keyed.a, "step", &all[i]->step);
		to->n_ranks += all[i]->n_steps > 0;
		n_steps += all[i]->n_steps;
		all[i]->n_steps = 0;
	}
	for (int k = 0; all && k < PHASE_COLUMNS; k++)
		for (int i = 0; all[i]; i++)
			take(c, &to->measures, MEASURE_PHASE, (int)all[i]->keyed.a, phase_text(k), &all[i]->phases[k]);
	for (int i = 0; all && all[i]; i++)
		take(c, &to->measures, MEASURE_LATE, (int)all[i]->keyed.a, "late", &all[i]->late);
	free(all);
	return n_steps;
}

/* "ranks 0-3,8 (of 16)" */
static void where_text(const struct comm_seen *s, char *to, size_t size)
{
	size_t at;

	ranks_text(s->ranks, (size_t)s->n, to, size - 40); /* room for what stands behind */
	at = strlen(to);
	if (s->nranks > s->n)
		snprintf(to + at, size - at, " (of %d)", s->nranks);
}

/* Communicators of the same ranks are counted in the order in which they were first used. */
static int nth_of(const struct comm_seen *s, const char *where)
{
	char other[sizeof(((struct measure *)0)->where)];
	int n = 1;

	for (const struct comm_seen *o = s->keyed.next; o; o = o->keyed.next) {
		where_text(o, other, sizeof(other));
		n += !strcmp(other, where);
	}
	return n;
}

static void comm_text(const struct comm_seen *s, char *to, size_t size)
{
	int nth;
	size_t at;

	where_text(s, to, size);
	nth = nth_of(s, to);
	at = strlen(to);
	if (nth > 1)
		snprintf(to + at, size - at, ", communicator %d", nth);
}

static void op_take(struct collector *c, struct op_seen *o, double steps_of_rank, struct measures *to)
{
	const struct comm_seen *comm = keyed_find(&c->comms, o->keyed.a, 0);
	char what[48], where[160], *at;
	struct measure *m;

	if (!o->s.n || !comm)
		return;
	comm_text(comm, where, sizeof(where));
	at = put_text(what, op_kind_name(o->kind));
	if (o->bytes)
		at = put_bytes(put_text(at, " "), o->bytes);
	if (o->at_most)
		put_text(at, ", at most");
	m = measures_add(to, MEASURE_OPERATION, -1, what, where);
	if (!m) {
		c->err = -ENOMEM;
		return;
	}
	m->per_step = steps_of_rank > 0 ? (double)o->s.seen / comm->n / steps_of_rank : 0;
	m->s = o->s;
	o->s = (struct durations){ 0 };
}

int collector_take(struct collector *c, struct collected *ret)
{
	uint64_t n_steps;

	*ret = (struct collected){ .phases = c->phases, .rivals = c->rivals, .n_ops = c->n_ops, .n_vague = c->n_vague };
	n_steps = ranks_take(c, ret);
	for (struct op_seen *o = c->ops.all; o; o = o->keyed.next)
		op_take(c, o, ret->n_ranks ? (double)n_steps / ret->n_ranks : 0, &ret->measures);
	if (c->err)
		measures_free(&ret->measures);
	return c->err;
}

static int collector_close(struct sink *base, const struct model *m)
{
	struct collector *c = (struct collector *)base;

	(void)m;
	for (struct rank_seen *r = c->ranks.all; r; r = r->keyed.next) {
		durations_free(&r->step);
		durations_free(&r->late);
		for (int i = 0; i < PHASE_COLUMNS; i++)
			durations_free(&r->phases[i]);
	}
	for (struct comm_seen *s = c->comms.all; s; s = s->keyed.next)
		free(s->ranks);
	for (struct op_seen *o = c->ops.all; o; o = o->keyed.next)
		durations_free(&o->s);
	keyed_free(&c->ranks);
	keyed_free(&c->comms);
	keyed_free(&c->ops);
	free(c);
	return 0;
}

static const struct sink_class collector_class = {
	.name = "collector", .op = op_collect, .step = step_collect, .close = collector_close
};

struct collector *collector_new(void)
{
	struct collector *c = calloc(1, sizeof(*c));

	if (c)
		c->base.class = &collector_class;
	return c;
}

struct sink *collector_sink(struct collector *c)
{
	return &c->base;
}
