/* SPDX-License-Identifier: Apache-2.0
 *
 * mismatch.c - members of one communicator that call its n-th operation with different arguments. Compared as soon
 * as two have called it, before anything hangs. The minority is named; of two, the one that breaks its own habit.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/keyed.h"
#include "detect/detect.h"

#define HOLD_NS \
	30000000000ull /* reported that long after the last mismatch of the communicator, when the job goes on */
#define VALUES_MAX 8

struct checked {
	struct keyed keyed; /* by the communicator and the space */
	int space;
	uint64_t upto, open_seq, open_since_ns, last_ns, n;
	bool seen, open;
};
struct mismatch {
	struct keyed_table spaces;
};

struct vote {
	uint64_t signature;
	const struct op *op;
	int n;
};

static struct checked *checked_of(struct mismatch *s, uint64_t comm, int space)
{
	struct checked *c = keyed_get(&s->spaces, comm, space, sizeof(*c));

	if (c)
		c->space = space;
	return c;
}

/* The member's n-th operation of that space; NULL: not called, or its number may have slipped by lost records. */
static const struct op *nth_op(const struct model *m, const struct member *mb, int space, uint64_t seq)
{
	const struct op *op = member_comparable(mb, space) ? member_op(mb, space, seq) : NULL;

	return op && op_number_sure(m, op) ? op : NULL;
}

static int votes_count(const struct model *m, const struct comm *c, int space, uint64_t seq, struct vote *v)
{
	int n = 0, i;

	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb)) {
		const struct op *op = nth_op(m, mb, space, seq);

		for (i = 0; op && i < n && v[i].signature != op->signature; i++)
			;
		if (!op || i == VALUES_MAX)
			continue;
		if (i == n)
			v[n++] = (struct vote){ op->signature, op, 0 };
		v[i].n++;
	}
	return n;
}

/* Does the operation repeat what its rank did one iteration before? -1: no iteration known. */
static int habitual(const struct op *op)
{
	const struct steps *s = member_steps(op->member);
	const struct op *old = op;

	if (!s->period_ops)
		return -1;
	for (size_t i = 0; old && i < s->period_ops; i++)
		old = op_before(old);
	return old ? old->signature == op->signature : -1;
}

/* Index of what counts as right; -1: no saying which. */
static int right_one(const struct vote *v, int n, double *ret_confidence)
{
	int best = 0, second = -1;

	for (int i = 1; i < n; i++)
		if (v[i].n > v[best].n)
			best = i;
	for (int i = 0; i < n; i++)
		if (i != best && (second < 0 || v[i].n > v[second].n))
			second = i;
	*ret_confidence = 0.99;
	if (v[best].n > v[second].n)
		return best;
	*ret_confidence = 0.9;
	if (n == 2 && habitual(v[0].op) == 1 && habitual(v[1].op) != 1)
		return 0;
	if (n == 2 && habitual(v[1].op) == 1 && habitual(v[0].op) != 1)
		return 1;
	*ret_confidence = 0.5;
	return -1;
}

static void note_difference(struct finding *f, const struct op *a, const struct op *b)
{
	if (a->kind != b->kind) {
		finding_note_text(f, EVIDENCE_OP_EXPECTED, op_kind_name(a->kind));
		finding_note_text(f, EVIDENCE_OP_FOUND, op_kind_name(b->kind));
	}
	if (a->count != b->count) {
		finding_note(f, EVIDENCE_COUNT_EXPECTED, a->count);
		finding_note(f, EVIDENCE_COUNT_FOUND, b->count);
	}
	if (a->dtype != b->dtype) {
		finding_note_text(f, EVIDENCE_DTYPE_EXPECTED, dtype_name(a->dtype));
		finding_note_text(f, EVIDENCE_DTYPE_FOUND, dtype_name(b->dtype));
	}
	if (a->redop != b->redop) {
		finding_note(f, EVIDENCE_REDOP_EXPECTED, a->redop);
		finding_note(f, EVIDENCE_REDOP_FOUND, b->redop);
	}
	if (a->root != b->root) {
		finding_note(f, EVIDENCE_ROOT_EXPECTED, a->root);
		finding_note(f, EVIDENCE_ROOT_FOUND, b->root);
	}
}

static enum finding_cause what_differs(const struct op *a, const struct op *b)
{
	return a->kind != b->kind     ? CAUSE_OP
	       : a->count != b->count ? CAUSE_COUNT
	       : a->dtype != b->dtype ? CAUSE_DTYPE
	       : a->redop != b->redop ? CAUSE_REDOP
				      : CAUSE_ROOT;
}

static void name_ranks(struct finding *f, const struct model *m, const struct comm *c, int space, uint64_t seq,
		       uint64_t right)
{
	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb)) {
		const struct op *op = nth_op(m, mb, space, seq);

		if (op && op->signature != right)
			finding_add_rank(f, member_rank(mb), mb->proc->key);
	}
}

static int report(const struct model *m, const struct comm *c, struct checked *k, struct finding_list *found)
{
	struct vote v[VALUES_MAX];
	int n = votes_count(m, c, k->space, k->open_seq, v), right;
	double confidence;
	struct finding *f;

	if (n < 2 || !(f = finding_list_add(found)))
		return n < 2 ? 0 : -ENOMEM;
	right = right_one(v, n, &confidence);
	f->kind = FINDING_MISMATCH;
	f->subject = subject_comm(c->hash, 0);
	finding_identify(f, "mismatch", k->space, k->open_seq);
	f->has_op = true;
	f->comm = c->hash;
	f->op = v[right == 1].op->kind;
	f->seq = k->open_seq;
	f->since_ns = k->open_since_ns;
	f->confidence = confidence;
	f->cause = what_differs(v[0].op, v[1].op);
	name_ranks(f, m, c, k->space, k->open_seq, right < 0 ? 0 : v[right].signature);
	note_difference(f, v[right == 1].op, v[right != 1].op);
	finding_note(f, EVIDENCE_N_MISMATCHES, k->n);
	return 0;
}

/* When the second of the differing calls came; 0: none differs. */
static uint64_t differs_ns(const struct model *m, const struct comm *c, int space, uint64_t seq)
{
	struct vote v[VALUES_MAX];

	if (votes_count(m, c, space, seq, v) < 2)
		return 0;
	return v[0].op->call_ns > v[1].op->call_ns ? v[0].op->call_ns : v[1].op->call_ns;
}

static void span(const struct comm *c, int space, uint64_t *ret_low, uint64_t *ret_high)
{
	*ret_low = UINT64_MAX;
	*ret_high = 0;
	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb)) {
		if (!member_comparable(mb, space) || mb->proc->dead)
			continue;
		*ret_low = mb->next_seq[space] < *ret_low ? mb->next_seq[space] : *ret_low;
		*ret_high = mb->next_seq[space] > *ret_high ? mb->next_seq[space] : *ret_high;
	}
}

/* Calls of two members are known: where only counters are, there is nothing to compare. */
static bool calls_known(const struct comm *c)
{
	int n = 0;

	for (const struct member *mb = c->members; mb && n < 2; mb = member_next_in_comm(mb))
		n += mb->ops_tail != NULL;
	return n > 1;
}

static void comm_check(const struct model *m, const struct comm *c, struct checked *k)
{
	uint64_t low, high;

	span(c, k->space, &low, &high);
	if (high > MODEL_OPS_KEPT && k->upto < high - MODEL_OPS_KEPT)
		k->upto = high - MODEL_OPS_KEPT;
	for (uint64_t seq = calls_known(c) ? k->upto : high; seq < high; seq++) {
		uint64_t ns = differs_ns(m, c, k->space, seq);

		if (!ns)
			continue;
		if (!k->open) {
			k->open = true;
			k->open_seq = seq;
			k->open_since_ns = ns;
			k->n = 0;
		}
		k->n += seq < low;
		k->last_ns = m->now_ns;
	}
	if (low != UINT64_MAX && low > k->upto)
		k->upto = low;
	if (k->open && m->now_ns - k->last_ns > HOLD_NS && low > k->open_seq + 1)
		k->open = false;
}

static bool alive(const struct comm *c)
{
	int n = 0;

	for (const struct member *mb = c->members; mb && n < 2; mb = member_next_in_comm(mb))
		n += !mb->gone && !mb->proc->dead;
	return n > 1;
}

static bool was_seen(void *entry, const void *arg)
{
	struct checked *k = entry;
	bool seen = k->seen;

	(void)arg;
	k->seen = false;
	return seen;
}

static int space_tick(struct mismatch *s, const struct model *m, const struct comm *c, int space,
		      struct finding_list *found)
{
	struct checked *k = checked_of(s, c->hash, space);

	if (!k)
		return -ENOMEM;
	k->seen = true;
	comm_check(m, c, k);
	return k->open ? report(m, c, k, found) : 0;
}

static int mismatch_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct mismatch *s = state;
	int err = 0;

	for (const struct comm *c = m->comms; c && !err; c = c->next) {
		if (!c->hash || !alive(c))
			continue;
		for (int space = 0; space < SEQ_SPACES && !err; space++)
			if (c->highest_seq[space])
				err = space_tick(s, m, c, space, found);
	}
	keyed_keep(&s->spaces, was_seen, NULL);
	return err;
}

static void mismatch_release(void *state)
{
	struct mismatch *s = state;

	keyed_free(&s->spaces);
}

const struct detector detector_mismatch = {
	.name = "mismatch",
	.help = "ranks call one operation of a communicator with different arguments",
	.state_bytes = sizeof(struct mismatch),
	.release = mismatch_release,
	.tick = mismatch_tick,
};
