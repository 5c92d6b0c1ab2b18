/* SPDX-License-Identifier: Apache-2.0
 *
 * lag.c - what a communicator is used to: how long its last member trails the first, and how long operations take.
 * Log-spaced histograms (8 buckets an octave). A sample beyond the limit that makes a finding stays out of the p99.9,
 * or one hang would teach the next to be found late. The habit takes them all: what one operation in fifty waits for is
 * how this job is (a pipeline's bubble, one rank with more to do), whether it was reported or not; what is rarer (a
 * checkpoint every hundred steps) is not.
 *
 * From samples: the lag of an operation is the time from the first sample that showed a peer to stop ahead to
 * the sample that showed the late one to have come, which is what a finding's limit is compared with.
 */
#include <math.h>
#include <stdlib.h>

#include "base/larger.h"
#include "model/state.h"

#define DURATION_OUTLIER_S 10.0
#define RARE_QUANTILE 0.999
#define HABIT_QUANTILE 0.98
#define HABIT_SPARE 2   /* of calls, where each is seen: so many lags are chance, however few operations there were */
#define HABIT_KEPT 4096 /* operations: then each weighs half, so that a job may change */
#define HABIT_MARGIN_S 3.0 /* at most; 4 x the habit where that is less */
#define RARE_LIMIT_S 4.0
#define HABITUAL_OPS 10                   /* seen by samples; or */
#define SAMPLED_TOGETHER_NS 2000000000ull /* two periods of the sampler */
#define LARGE_RANKS 32                    /* a communicator of more is asked once in a moment: */
#define ASKED_NS 100000000ull
#define HABITUAL_ADVANCES 3          /* so many samples that showed it to go on; or */
#define HABITUAL_GAP_NS 500000000ull /* so often an operation since its process was started */

/* 1 us and 8 buckets an octave: bucket = 8 log2(us), linear inside an octave. */
static unsigned int lag_bucket(uint64_t ns)
{
	uint64_t us = ns / 1000;
	unsigned int octave, b;

	if (us < 8)
		return us;
	octave = 63 - __builtin_clzll(us);
	b = (octave - 2) * 8 + ((us >> (octave - 3)) & 7);
	return smaller(b, LAG_BUCKETS - 1);
}

static double bucket_top_s(unsigned int b)
{
	if (b < 8)
		return (b + 1) * 1e-6;
	return (double)((9 + (b & 7)) * (1ull << (b / 8 - 1))) * 1e-6;
}

/* Of n samples. */
static uint64_t longer_than_quantile(uint64_t n, double q)
{
	return (uint64_t)(n * (1 - q));
}

/* The top of the bucket of the longest sample but `above`. */
static double all_but_s(const uint32_t *h, uint64_t above)
{
	uint64_t sum = 0;

	for (unsigned int b = LAG_BUCKETS; b-- > 0;) {
		sum += h[b];
		if (sum > above)
			return bucket_top_s(b);
	}
	return 0;
}

static double quantile_s(const uint32_t *h, uint64_t n, double q)
{
	return n ? all_but_s(h, longer_than_quantile(n, q)) : 0;
}

/* The n-th sample moves a quantile only if it is longer, or if one more may be: of most operations neither. */
static bool quantile_stays(double quantile, unsigned int bucket, uint64_t n, double q)
{
	return bucket_top_s(bucket) <= quantile && longer_than_quantile(n, q) == longer_than_quantile(n - 1, q);
}

static void quantile_add(uint32_t *h, uint64_t *n, double *quantile, uint64_t ns)
{
	unsigned int bucket = lag_bucket(ns);

	h[bucket]++;
	if (!quantile_stays(*quantile, bucket, ++*n, RARE_QUANTILE))
		*quantile = quantile_s(h, *n, RARE_QUANTILE);
}

/* Sampled from outside, with no call seen: what it is used to is not known, and a sample is asked for when it hangs. */
static bool comm_sampled_only(const struct comm *c)
{
	bool sampled = false;

	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb)) {
		if (mb->last_call_ns && !mb->gone)
			return false;
		sampled |= mb->samples.n != 0;
	}
	return sampled;
}

static uint64_t habit_limit_ns(const struct model *m, const struct comm *c)
{
	double margin_s = fmin(4 * c->lag_habit_s, HABIT_MARGIN_S);

	return larger(m->hang_floor_ns, (uint64_t)(1e9 * (c->lag_habit_s + margin_s)));
}

/* It is old, and so many operations were launched on it that it cannot take long over one: a job that hangs already
 * when it is sampled. */
static bool was_quick(const struct model *m, const struct comm *c)
{
	const struct proc *p = c->members ? c->members->proc : NULL;
	uint64_t n = c->highest_seq[SEQ_COLL];

	return p && p->start_ns && p->start_ns < m->now_ns && n >= HABITUAL_OPS &&
	       (m->now_ns - p->start_ns) / n <= HABITUAL_GAP_NS;
}

static uint64_t sampled_limit_ns(const struct model *m, const struct comm *c)
{
	uint64_t habit = habit_limit_ns(m, c);

	if (c->members->proc->comms_scanned) /* an autopsy samples once, sees no habits and reports at once */
		return m->hang_floor_ns;
	return comm_own((struct comm *)c)->habitual || was_quick(m, c) ? habit : larger(habit, COMM_CARE_NS);
}

/* Of lags that come by chance, one in a thousand. A pause is no lag: with five times a pause that was too short to be
 * reported the next one may be five times as long, and so on, until a rank that sleeps is found after minutes. */
static uint64_t rare_limit_ns(const struct comm *c)
{
	return (uint64_t)(1e9 * fmin(5 * c->lag_p999_s, RARE_LIMIT_S));
}

uint64_t comm_lag_limit_ns(const struct model *m, const struct comm *c)
{
	if (comm_sampled_only(c))
		return sampled_limit_ns(m, c);
	if (!comm_own((struct comm *)c)->warm)
		return COMM_WARMUP_NS;
	return larger(habit_limit_ns(m, c), rare_limit_ns(c));
}

/* The first steps compile, load and tune: until a member's iterations are known, of these operations or of those before
 * its communicators were made anew. A job without any is warm some day. */
static bool warm_now(const struct comm *c)
{
	bool shared = false;

	if (c->n_complete < COMM_WARMUP_OPS)
		return false;
	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb)) {
		if (member_steps(mb)->period_ops || proc_own(mb->proc)->warm)
			return true;
		shared |= mb->proc->shared;
	}
	return c->n_complete >= (shared ? COMM_WARMUP_OPS_SHARED : COMM_WARMUP_OPS_MAX);
}

static double habit_s(const struct comm_own *o)
{
	uint64_t above = longer_than_quantile(o->n_habit, HABIT_QUANTILE);

	return all_but_s(o->habit, o->warm ? larger(above, HABIT_SPARE) : above);
}

static void habit_halve(struct comm_own *o)
{
	o->n_habit = 0;
	for (int i = 0; i < LAG_BUCKETS; i++)
		o->n_habit += o->habit[i] /= 2;
}

static void habit_add(struct comm_own *o, unsigned int bucket, uint64_t n)
{
	bool halved = o->n_habit >= HABIT_KEPT;

	if (halved)
		habit_halve(o);
	n = smaller(n, HABIT_KEPT);
	o->habit[bucket] += n;
	o->n_habit += n;
	if (halved || n > 1 || !quantile_stays(o->c.lag_habit_s, bucket, o->n_habit, HABIT_QUANTILE))
		o->c.lag_habit_s = habit_s(o);
}

static void warm_set(struct comm *c)
{
	comm_own(c)->warm = true;
	c->lag_habit_s = habit_s(comm_own(c)); /* spares some, now */
	for (struct member *mb = c->members; mb; mb = member_next_in_comm(mb))
		proc_own(mb->proc)->warm = true;
}

static void lag_add(const struct model *m, struct comm *c, uint64_t lag_ns)
{
	struct comm_own *o = comm_own(c);

	if (!o->warm && warm_now(c))
		warm_set(c);
	if (o->warm)
		habit_add(o, lag_bucket(lag_ns), 1);
	if (o->warm && lag_ns <= comm_lag_limit_ns(m, c))
		quantile_add(o->lag, &o->n_lag, &c->lag_p999_s, lag_ns);
	c->n_complete++;
}

/* --- by samples --- */

/* Since when this peer did not move ahead of number `seq`, as its newest samples but for one show; ts_ns: it did not.
 * It may have gone on already, with the one that is late. */
static uint64_t stood_ahead_ns(const struct member *o, uint64_t seq, uint64_t ts_ns)
{
	const struct samples *s = &o->samples;
	uint64_t since = ts_ns;

	if (o->gone || o->last_call_ns || !s->counted)
		return ts_ns;
	if (o->entered_seq[SEQ_COLL] > seq && s->seen_ns > s->since_ns)
		since = s->since_ns;
	else if (s->stood_ns && s->stood_seq > seq && ts_ns - s->since_ns < SAMPLED_TOGETHER_NS)
		since = s->stood_ns;
	return since == ts_ns || o->proc->dead ? ts_ns : since;
}

static uint64_t sampled_since_ns(const struct comm *c, uint64_t seq, uint64_t ts_ns)
{
	uint64_t since = ts_ns;

	for (const struct member *o = c->members; o; o = member_next_in_comm(o))
		since = smaller(since, stood_ahead_ns(o, seq, ts_ns));
	return since;
}

/* All members of a large communicator ask about one operation within a moment: its members would be gone through as
 * often as it has members. An answer so old may miss a peer, and the next one has it. */
static uint64_t sampled_lag_ns(const struct member *mb, uint64_t ts_ns)
{
	struct comm_own *o = comm_own(mb->comm);
	uint64_t seq = mb->entered_seq[SEQ_COLL];

	if (o->stood_at <= seq) /* no member waited: as with most operations */
		return 0;
	if (o->c.nranks <= LARGE_RANKS)
		return ts_ns - sampled_since_ns(&o->c, seq, ts_ns);
	if (o->asked_seq != seq || ts_ns + ASKED_NS < o->asked_ns || ts_ns > o->asked_ns + ASKED_NS) {
		o->asked_seq = seq;
		o->asked_ns = ts_ns;
		o->asked_since_ns = sampled_since_ns(&o->c, seq, ts_ns);
	}
	return o->asked_since_ns < o->asked_ns && o->asked_since_ns < ts_ns ? ts_ns - o->asked_since_ns : 0;
}

/* Several may be late for one operation: the latest counts. */
static void sampled_lag_add(struct comm_own *o, uint64_t level, uint64_t lag_ns)
{
	unsigned int bucket = lag_bucket(lag_ns);

	if (o->lag_level == level && o->lag_last >= bucket)
		return;
	if (o->lag_level == level && o->habit[o->lag_last]) {
		o->habit[o->lag_last]--;
		o->n_habit--;
	}
	o->lag_level = level;
	o->lag_last = bucket;
	habit_add(o, bucket, 1);
}

/* Operations between two samples of a communicator that did not stand had no lag to speak of. */
void comm_sampled(struct member *mb, uint64_t seq, uint64_t ts_ns)
{
	struct comm_own *o = comm_own(mb->comm);
	uint64_t level = mb->entered_seq[SEQ_COLL], highest = o->c.highest_seq[SEQ_COLL], lag_ns;

	if (seq <= level)
		return;
	if (seq > highest) {
		habit_add(o, 0, seq - highest);
		o->n_advances++;
	}
	lag_ns = level < highest ? sampled_lag_ns(mb, ts_ns) : 0;
	if (lag_ns)
		sampled_lag_add(o, level + 1, lag_ns);
	o->habitual |= o->n_habit >= HABITUAL_OPS || o->n_advances >= HABITUAL_ADVANCES;
}

void comm_stood(struct member *mb, uint64_t seq)
{
	struct comm_own *o = comm_own(mb->comm);

	o->stood_at = larger(o->stood_at, larger(seq, mb->entered_seq[SEQ_COLL]));
}

static int members_expected(const struct comm *c, int space)
{
	int n = 0;

	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb))
		n += member_comparable(mb, space);
	return n;
}

static struct entries *entries_of(struct comm *c, int space, uint64_t seq)
{
	struct entries **ring = &comm_own(c)->ring[space];

	if (!*ring)
		*ring = calloc(ENTRY_RING, sizeof(**ring));
	return *ring ? &(*ring)[seq % ENTRY_RING] : NULL;
}

static void coll_entered(const struct model *m, struct comm *c, const struct op *op)
{
	int space = op_space(op);
	struct entries *s = entries_of(c, space, op->seq);

	c->highest_seq[space] = larger(c->highest_seq[space], op->seq + 1);
	if (!s)
		return;
	if (!s->used || s->seq < op->seq)
		*s = (struct entries){ .used = true, .seq = op->seq, .first_ns = op->enqueue_ns };
	if (s->seq != op->seq) /* far behind: its slot is taken */
		return;
	s->n++;
	s->first_ns = smaller(s->first_ns, op->enqueue_ns);
	s->last_ns = larger(s->last_ns, op->enqueue_ns);
	if (s->complete || s->n < 2 || (int)s->n < members_expected(c, space))
		return;
	s->complete = true; /* once, also when a member is met only later */
	lag_add(m, c, s->last_ns - s->first_ns);
}

void comm_quantiles(struct comm_own *c)
{
	c->c.lag_p999_s = quantile_s(c->lag, c->n_lag, RARE_QUANTILE);
	c->c.duration_p999_s = quantile_s(c->duration, c->n_duration, RARE_QUANTILE);
	c->c.lag_habit_s = habit_s(c);
}

/* What it was used to is kept apart: an entry counted twice would weigh twice. */
void comm_entry_taken(const struct op *op, bool complete)
{
	struct comm *c = op->member->comm;
	int space = op_space(op);
	struct entries *s = space >= 0 && op->enqueue_ns && op->count && member_comparable(op->member, space)
				    ? entries_of(c, space, op->seq)
				    : NULL;

	if (!s || (s->used && s->seq > op->seq))
		return;
	if (!s->used || s->seq < op->seq)
		*s = (struct entries){ .used = true, .seq = op->seq, .first_ns = op->enqueue_ns };
	s->n++;
	s->first_ns = smaller(s->first_ns, op->enqueue_ns);
	s->last_ns = larger(s->last_ns, op->enqueue_ns);
	s->complete |= complete;
}

bool comm_entry_complete(const struct op *op)
{
	int space = op_space(op);
	const struct entries *s = space >= 0 ? comm_own(op->member->comm)->ring[space] : NULL;

	s = s ? s + op->seq % ENTRY_RING : NULL;
	return s && s->used && s->seq == op->seq && s->complete;
}

static const struct op *p2p_match(const struct op *op)
{
	const struct member *mb = op->member;
	const struct comm *c = mb->comm;
	enum op_kind other = op->kind == OP_SEND ? OP_RECV : OP_SEND;

	if (!c->by_rank || op->peer < 0 || op->peer >= c->nranks || !c->by_rank[op->peer])
		return NULL;
	return member_p2p_op(c->by_rank[op->peer], other, mb->rank, op->seq);
}

static uint64_t apart_ns(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

void comm_entered(const struct model *m, const struct op *op)
{
	const struct op *match;
	int space = op_space(op);

	if (space >= 0 && member_comparable(op->member, space))
		coll_entered(m, op->member->comm, op);
	if (!op_kind_p2p(op->kind) || op->seq_from_attach)
		return;
	match = p2p_match(op);
	if (match && match->enqueue_ns && !match->seq_from_attach)
		lag_add(m, op->member->comm, apart_ns(op->enqueue_ns, match->enqueue_ns));
}

void comm_ended(const struct op *op)
{
	struct comm_own *c = comm_own(op->member->comm);
	uint64_t ns = op_duration_ns(op);
	double limit_s = fmax(5 * c->c.duration_p999_s, DURATION_OUTLIER_S);

	c->c.n_ended++;
	if (!ns || ns * 1e-9 > limit_s)
		return;
	quantile_add(c->duration, &c->n_duration, &c->c.duration_p999_s, ns);
}

static bool all_wait(enum op_kind kind)
{
	return kind == OP_ALLREDUCE || kind == OP_ALLGATHER || kind == OP_REDUCESCATTER || kind == OP_ALLTOALL;
}

/* No rank leaves such an operation before all entered. Where NCCL counts, its counters heal the numbers. */
void comm_contradicted(const struct op *op)
{
	struct comm *c = op->member->comm;
	int space = op_space(op);
	const struct entries *s = space > SEQ_COLL ? comm_own(c)->ring[space] : NULL;

	if (!s || !all_wait(op->kind) || op->seq_from_attach)
		return;
	s += op->seq % ENTRY_RING;
	if (s->seq != op->seq || s->complete)
		return;
	for (struct member *mb = c->members; mb; mb = member_next_in_comm(mb))
		mb->blind |= !mb->proc->dead && mb->entered_seq[space] <= op->seq;
}

/* NULL: too long ago, or none entered it. */
static const struct entries *entries_find(const struct comm *c, int space, uint64_t seq)
{
	const struct entries *s = ((const struct comm_own *)c)->ring[space];

	s = s ? s + seq % ENTRY_RING : NULL;
	return s && s->used && s->seq == seq ? s : NULL;
}

uint64_t comm_entry_ns(const struct comm *c, int space, uint64_t seq)
{
	const struct entries *s = entries_find(c, space, seq);

	return s ? s->last_ns : 0;
}

uint64_t comm_first_entry_ns(const struct comm *c, int space, uint64_t seq)
{
	const struct entries *s = entries_find(c, space, seq);

	return s ? s->first_ns : 0;
}

static uint64_t entry_of(const struct op *op)
{
	return op ? op->enqueue_ns : 0;
}

/* Of a rooted operation only one direction waits: who receives needs who gives. */
static uint64_t rooted_entry_ns(const struct op *op, int space, bool root_gives)
{
	const struct member *mb = op->member;
	const struct comm *c = mb->comm;
	uint64_t last = 0;

	if (!c->by_rank || op->root < 0 || op->root >= c->nranks || (mb->rank == op->root) == root_gives)
		return 0;
	if (root_gives)
		return c->by_rank[op->root] ? entry_of(member_op(c->by_rank[op->root], space, op->seq)) : 0;
	for (const struct member *o = c->members; o; o = member_next_in_comm(o))
		if (member_comparable(o, space))
			last = larger(last, entry_of(member_op(o, space, op->seq)));
	return last;
}

uint64_t comm_last_entry_ns(const struct op *op)
{
	if (op->seq_from_attach || !op->count)
		return 0;
	switch (op->kind) {
	case OP_ALLREDUCE:
	case OP_ALLGATHER:
	case OP_REDUCESCATTER: return comm_entry_ns(op->member->comm, op_space(op), op->seq);
	case OP_BROADCAST:
	case OP_SCATTER: return rooted_entry_ns(op, op_space(op), true);
	case OP_REDUCE:
	case OP_GATHER: return rooted_entry_ns(op, op_space(op), false);
	case OP_RECV: return entry_of(p2p_match(op));
	default: /* a Send may be over when its bytes are in a buffer; AlltoAll is Send and Recv */ return 0;
	}
}
