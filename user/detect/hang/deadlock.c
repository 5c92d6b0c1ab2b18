/* SPDX-License-Identifier: Apache-2.0
 *
 * deadlock.c - a cycle as one finding: all its ranks, the communicators, and a shortest way round as evidence. Those
 * held in the operation that fewer ranks are in come first: as a rule they are the ones with another order.
 */
#include "detect/hang/deadlock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/larger.h"
#include "detect/hang/comm_init.h"
#include "detect/hang/p2p.h"
#include "detect/rank/call_site.h"
#include "detect/hang/report.h"
#include "detect/phrase.h"
#include "detect/rank/counters.h"
#include "detect/rank/seat_activity.h"
#include "detect/rank/seats.h"

#define LOSS_WINDOW_NS 10000000000ull

static void begin(struct deadlocks *d)
{
	for (int i = 0; i < d->n; i++)
		d->all[i].seen = false;
}

static void end(struct deadlocks *d)
{
	int n = 0;

	for (int i = 0; i < d->n; i++)
		if (d->all[i].seen)
			d->all[n++] = d->all[i];
	d->n = n;
}

/* The first tick that sees it. A stream that begins with a snapshot and a tick has no ticks before: it stands since the
 * last of its ranks called the operation that it is held in. */
static uint64_t seen_since_ns(const struct model *m, const struct wait_cycle *c)
{
	uint64_t last = 0;

	if (m->now_ns != m->resumed_ns)
		return m->now_ns;
	for (int i = 0; i < c->n_ranks; i++) {
		const struct op *op = c->ranks[i].in.op;

		if (!op)
			return m->now_ns;
		last = larger(last, op->enqueue_ns);
	}
	return last ? last : m->now_ns;
}

static const struct known_cycle *match(struct deadlocks *d, const struct wait_cycle *c, const struct model *m)
{
	for (int i = 0; i < d->n; i++)
		for (int k = 0; k < c->n_fingerprints; k++)
			if (d->all[i].fingerprint == c->fingerprints[k]) {
				d->all[i].seen = true;
				return &d->all[i];
			}
	if (d->n == CYCLES_MAX || !c->n_fingerprints)
		return NULL;
	d->all[d->n] = (struct known_cycle){ c->fingerprints[0], seen_since_ns(m, c), true };
	return &d->all[d->n++];
}

/* Known by counters alone, a cycle stands as long as its communicators' ranks are used to wait for each other: hosts
 * that run ahead of their GPUs, each in another place, look like one. */
static uint64_t limit_ns(const struct model *m, const struct wait_cycle *c)
{
	uint64_t limit = m->hang_floor_ns, one;

	for (int i = 0; c->stood_ns && i < c->n_hops; i++) {
		one = c->hops[i].in.comm ? comm_lag_limit_ns(m, c->hops[i].in.comm) : 0;
		limit = one > limit ? one : limit;
	}
	return limit;
}

/* --- the finding --- */

/* False: it was not seen, and counters do not say. */
static bool op_of(const struct awaited *in, enum op_kind *ret)
{
	if (in->op)
		*ret = in->op->kind;
	return in->op || (in->space == SEQ_COLL && counters_op(in->comm, in->seq, ret));
}

static void place_text(char *buf, size_t cap, const struct awaited *in)
{
	enum op_kind kind;

	if (in->init) {
		phrase_add(buf, cap, comm_init_kind_name(in->init->kind));
	} else {
		phrase_add(buf, cap, op_of(in, &kind) ? op_kind_name(kind) : "operation");
		phrase_add(buf, cap, " #");
		phrase_number(buf, cap, in->seq);
	}
	phrase_add(buf, cap, in->init && in->init->parent ? " of parent " : " of ");
	/* lint: a wait of that space has its init */
	phrase_comm(buf, cap, in->comm ? in->comm->hash : in->init->id_hash);
}

/* Its number; of a thread those of all ranks that it calls for: it keeps them all. */
static void numbers_add(char *buf, size_t cap, const struct rank_node *r)
{
	struct seats s = { .n = 0 };

	if (!r->tid)
		phrase_list(buf, cap, proc_rank(r->proc));
	else
		seats_of_thread(r->proc, r->tid, &s);
	for (int i = 0; i < s.n; i++)
		phrase_list(buf, cap, member_rank(s.all[i]));
}

/* "rank 3"; "rank 3 (gpu_3, tid 834)" */
static void rank_text(char *buf, size_t cap, const struct rank_node *r)
{
	const struct task *t = seat_task(r->proc, r->tid);
	char list[96] = "";

	numbers_add(list, sizeof(list), r);
	phrase_add(buf, cap, strchr(list, ',') ? "ranks " : "rank ");
	phrase_add(buf, cap, list);
	if (!r->tid)
		return;
	phrase_add(buf, cap, " (");
	phrase_add(buf, cap, t ? t->name : "");
	phrase_add(buf, cap, t && *t->name ? ", tid " : "tid ");
	phrase_number(buf, cap, r->tid);
	phrase_add(buf, cap, ")");
}

static void note_cycle(struct finding *f, struct finding_list *found, const struct wait_cycle *c)
{
	char text[2048] = "", line[256];

	for (int i = 0; i < c->n_hops; i++) {
		line[0] = 0;
		rank_text(line, sizeof(line), &c->hops[i].rank);
		phrase_add(line, sizeof(line), strncmp(line, "ranks", 5) ? " waits in " : " wait in ");
		place_text(line, sizeof(line), &c->hops[i].in);
		phrase_add(line, sizeof(line), " for ");
		rank_text(line, sizeof(line), &c->hops[(i + 1) % c->n_hops].rank);
		phrase_add(line, sizeof(line), i + 1 < c->n_hops ? "\n" : "");
		phrase_add(text, sizeof(text), line);
	}
	finding_note_text(f, EVIDENCE_CYCLE, finding_list_text(found, text));
}

/* A thread with several ranks may be held by its own others: the way round has one communicator then. */
static void note_comms(struct finding *f, struct finding_list *found, const struct wait_cycle *c)
{
	uint64_t comms[CYCLE_COMMS_MAX];
	char text[512] = "";
	int n = 0;

	for (int i = 0; i < c->n_hops; i++)
		n = cycle_comm_add(comms, n, awaited_comm(&c->hops[i].in));
	for (int i = 0; i < c->n_comms; i++)
		n = cycle_comm_add(comms, n, c->comms[i]);
	for (int i = 0; i < n; i++) {
		phrase_add(text, sizeof(text), i ? "," : "");
		phrase_comm(text, sizeof(text), comms[i]);
	}
	finding_note_text(f, EVIDENCE_COMMS, finding_list_text(found, text));
	finding_note(f, EVIDENCE_N_COMMS, n);
}

/* Where the hosts of a way round are, a line each. */
static void note_places(struct finding *f, struct finding_list *found, const struct wait_cycle *c)
{
	char text[2048] = "", line[512], place[384];

	for (int i = 0; i < c->n_hops; i++) {
		place[0] = line[0] = 0;
		call_site_line(place, sizeof(place), c->hops[i].rank.proc, c->hops[i].rank.tid);
		if (!*place)
			continue;
		rank_text(line, sizeof(line), &c->hops[i].rank);
		phrase_add(line, sizeof(line), " in ");
		phrase_add(line, sizeof(line), place);
		phrase_add(text, sizeof(text), *text ? "\n" : "");
		phrase_add(text, sizeof(text), line);
	}
	finding_note_text(f, EVIDENCE_WAITING_IN, finding_list_text(found, text));
}

static int number_cmp(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* How many of these, sorted, are less than `v`. */
static int n_below(const uint64_t *sorted, int n, uint64_t v)
{
	int from = 0;

	while (n > 0) {
		int half = n / 2;

		if (sorted[from + half] < v) {
			from += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return from;
}

/* Ranks that an operation takes: a transfer two, whatever the size of its communicator. */
static int awaited_size(const struct wait_cycle *c, const struct awaited *in)
{
	return in->space == SPACE_P2P ? 2 : in->comm && in->comm->nranks > 0 ? in->comm->nranks : c->n_ranks;
}

/* The operation that the fewest of its ranks are in, the first one of several, and how many these are. A rank alone in
 * a Recv is nothing odd; alone in an operation of a thousand it is. */
static uint64_t fewest(const struct wait_cycle *c, int *ret_n)
{
	uint64_t *sorted = calloc(c->n_ranks, sizeof(*sorted)), best = c->ranks[0].fingerprint;
	int64_t best_size = 1;

	*ret_n = c->n_ranks + 1;
	for (int i = 0; sorted && i < c->n_ranks; i++)
		sorted[i] = c->ranks[i].fingerprint;
	if (sorted)
		qsort(sorted, c->n_ranks, sizeof(*sorted), number_cmp);
	for (int i = 0; sorted && i < c->n_ranks; i++) {
		uint64_t one = c->ranks[i].fingerprint;
		int n = n_below(sorted, c->n_ranks, one + 1) - n_below(sorted, c->n_ranks, one);
		int size = awaited_size(c, &c->ranks[i].in);

		if (n * best_size >= *ret_n * (int64_t)size)
			continue;
		best = one;
		best_size = size;
		*ret_n = n;
	}
	free(sorted);
	return best;
}

static void rank_add(struct finding *f, const struct rank_node *r)
{
	struct seats s = { .n = 0 };

	if (!r->tid)
		finding_add_rank(f, proc_rank(r->proc), r->proc->key);
	else
		seats_of_thread(r->proc, r->tid, &s);
	for (int i = 0; i < s.n; i++)
		finding_add_rank(f, member_rank(s.all[i]), r->proc->key);
}

static void name_ranks(struct finding *f, struct finding_list *found, const struct wait_cycle *c)
{
	char text[256] = "";
	int n_few;
	uint64_t few = fewest(c, &n_few);

	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < c->n_ranks; i++)
			if ((c->ranks[i].fingerprint == few) == !pass)
				rank_add(f, &c->ranks[i].rank);
	for (int i = 0; i < c->n_ranks; i++)
		if (c->ranks[i].fingerprint == few)
			numbers_add(text, sizeof(text), &c->ranks[i].rank);
	if (2 * n_few < c->n_ranks)
		finding_note_text(f, EVIDENCE_OTHER_ORDER_RANKS, finding_list_text(found, text));
	finding_note(f, EVIDENCE_N_IN_CYCLE, f->n_ranks_all);
}

static uint64_t mismatch_key(const struct finding_list *found, const struct wait_cycle *c)
{
	for (size_t i = 0; i < found->n; i++)
		for (int k = 0; k < c->n_hops && found->items[i].kind == FINDING_MISMATCH; k++)
			if (found->items[i].comm == awaited_comm(&c->hops[k].in))
				return found->items[i].key;
	return 0;
}

static int cycle_report(const struct model *m, const struct wait_cycle *c, uint64_t fingerprint,
			struct finding_list *found)
{
	struct finding *f = c->n_ranks && c->n_hops ? finding_list_add(found) : NULL;

	if (!f)
		return c->n_ranks && c->n_hops ? -ENOMEM : 0;
	f->kind = FINDING_HANG;
	f->class = HANG_DEADLOCK;
	f->cause = CAUSE_ORDER;
	f->subject = subject_ranks(fingerprint);
	finding_identify(f, "deadlock", 0, 0);
	f->caused_by_key = mismatch_key(found, c);
	f->comm = awaited_comm(&c->hops[0].in);
	f->has_op = op_of(&c->hops[0].in, &f->op);
	f->seq = f->has_op ? c->hops[0].in.seq : 0;
	f->since_ns = c->since_ns;
	f->confidence = c->hops[0].in.op || c->hops[0].in.init
				? 0.95
				: 0.8; /* by counters: that each host waits is an inference */
	if (m->last_loss_ns && m->last_loss_ns + LOSS_WINDOW_NS > f->since_ns) {
		f->confidence = 0.4;
		f->class = HANG_UNKNOWN;
	}
	note_cycle(f, found, c);
	note_comms(f, found, c);
	note_places(f, found, c);
	name_ranks(f, found, c);
	finding_note(f, EVIDENCE_WAITING_S, (m->now_ns - f->since_ns) * 1e-9);
	return 0;
}

/* The rank that went on without its side of a transfer: it will not come, and no other order would help. */
static int skipped_report(const struct model *m, const struct wait_cycle *c, struct finding_list *found)
{
	const struct proc *p = c->skipped.proc;
	struct seats seats = { .all = { c->pending.member }, .n = 1 };
	struct culprit one = { .proc = p,
			       .seats = c->skipped.tid ? &seats : NULL,
			       .tid = c->skipped.tid,
			       .pending = c->pending,
			       .kind = FINDING_HANG,
			       .class = HANG_P2P_UNMATCHED,
			       .cause = CAUSE_WENT_ON,
			       .confidence = 0.95 };

	one.pending.limit_ns = m->hang_floor_ns;
	one.activity = c->skipped.tid ? seats_activity(m, p, c->skipped.tid, false, c->pending.since_ns)
				      : rank_activity(m, p, c->pending.since_ns);
	return culprit_report(m, &one, found);
}

int deadlocks_report(struct deadlocks *d, const struct model *m, const struct wait_roots *roots,
		     struct finding_list *found)
{
	int err = 0;

	begin(d);
	for (int i = 0; i < roots->n_cycles && !err; i++) {
		const struct wait_cycle *c = &roots->cycles[i];
		const struct known_cycle *k = match(d, c, m);

		if (!k ||
		    m->now_ns < (c->stood_ns && c->stood_ns < k->since_ns ? c->stood_ns : k->since_ns) + limit_ns(m, c))
			continue;
		err = c->skipped.proc ? skipped_report(m, c, found) : cycle_report(m, c, k->fingerprint, found);
	}
	end(d);
	return err;
}
