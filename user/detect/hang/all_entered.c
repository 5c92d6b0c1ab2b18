/* SPDX-License-Identifier: Apache-2.0
 *
 * all_entered.c - the oldest operation that every member entered and that is seen not to end. The host runs ahead of
 * the GPU, so "entered" is not "reached": this is told late, without a culprit, and with low confidence. But where a
 * member died meanwhile nobody needs to guess why.
 */
#include "detect/hang/all_entered.h"

#include <errno.h>

#include "detect/hang/report.h"
#include "detect/transfer/link_cause.h"

#define FLOOR_NS 10000000000ull
#define CONFIDENCE 0.4
#define CONFIDENCE_UNPOLLED 0.2 /* nobody sees polls any more: an older operation may have ended, unseen */
#define CONFIDENCE_DEAD 0.9
#define POLLED_NS 2000000000ull /* a query said "not ready" that recently */

static uint64_t limit_ns(const struct member *mb)
{
	const struct comm *c = mb->comm;
	uint64_t own = (uint64_t)(5e9 * c->duration_p999_s);

	if (c->n_ended < COMM_WARMUP_OPS || !mb->proc->steps->period_ops) /* the first steps compile, load and tune */
		return 2 * COMM_WARMUP_NS;
	return own > FLOOR_NS ? own : FLOOR_NS;
}

/* Enqueue of the last member; 0: not everybody entered, or not everybody is seen. */
static uint64_t last_entry_ns(const struct op *op)
{
	const struct comm *c = op->member->comm;
	const struct op *other;
	int space = op_space(op);
	uint64_t last = 0;

	if (!c->by_rank || c->n_seen < c->nranks || space < 0)
		return 0;
	for (int r = 0; r < c->nranks; r++) {
		other = member_comparable(c->by_rank[r], space) ? member_op(c->by_rank[r], space, op->seq) : NULL;
		if (!other || !other->enqueue_ns)
			return 0;
		last = other->enqueue_ns > last ? other->enqueue_ns : last;
	}
	return last;
}

/* The host sits in a wait since long, or the watchdog polls it in vain. */
static bool seen_open(const struct model *m, const struct op *op, uint64_t limit)
{
	for (const struct call *c = op->member->proc->calls; c; c = c->next)
		if (c->is_sync && c->begin_ns >= op->enqueue_ns && m->now_ns - c->begin_ns > limit)
			return true;
	return op->not_done_ns && m->now_ns - op->not_done_ns < POLLED_NS;
}

/* It died of something, and not with the whole job. */
static bool fell(const struct model *m, const struct proc *p)
{
	return p->dead && (p->exit_signal || p->exit_code) && !death_is_teardown(m, p);
}

/* The last death among its members; 0: none. */
static uint64_t fell_ns(const struct model *m, const struct comm *c)
{
	uint64_t last = 0;

	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm)
		if (fell(m, mb->proc) && mb->proc->exit_ns > last)
			last = mb->proc->exit_ns;
	return last;
}

/* Since the death somebody asked for it, and it was not over. */
static bool dead_waits(const struct model *m, const struct op *op, uint64_t *since)
{
	uint64_t died_ns = fell_ns(m, op->member->comm);

	*since = died_ns > *since ? died_ns : *since;
	return died_ns && op->not_done_ns > *since + m->hang_floor_ns;
}

static const struct op *open_op(const struct model *m, const struct proc *p, uint64_t *ret_since)
{
	const struct op *best = NULL;

	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc) {
		const struct op *op = mb->gone ? NULL : mb->first_open;
		uint64_t since = op ? last_entry_ns(op) : 0, limit = limit_ns(mb);

		if (!since || (best && best->id < op->id))
			continue;
		if (!dead_waits(m, op, &since) && (m->now_ns < since + limit || !seen_open(m, op, limit)))
			continue;
		best = op;
		*ret_since = since;
	}
	return best;
}

static uint64_t mismatch_key(const struct finding_list *found, uint64_t comm)
{
	for (size_t i = 0; i < found->n; i++)
		if (found->items[i].kind == FINDING_MISMATCH && found->items[i].comm == comm)
			return found->items[i].key;
	return 0;
}

static uint64_t port_key(const struct model *m, const struct finding_list *found, const struct comm *c)
{
	uint64_t key = 0;

	for (int r = 0; r < c->nranks && !key; r++)
		key = link_cause_key(m, found, c->by_rank[r]->proc);
	return key;
}

/* Whoever still calls gets on: what looked stuck was held up by it, and is about to go on. */
static bool all_quiet(const struct model *m, uint64_t limit)
{
	for (const struct proc *p = m->procs; p; p = p->next)
		if (p->members && !p->dead && m->now_ns - p->last_call_ns < limit)
			return false;
	return true;
}

static void dead_name(struct finding *f, const struct model *m, const struct comm *c)
{
	f->class = HANG_PROCESS_DEAD;
	f->cause = CAUSE_DEAD;
	f->confidence = CONFIDENCE_DEAD;
	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm) {
		if (!fell(m, mb->proc))
			continue;
		finding_add_rank(f, proc_rank(mb->proc), mb->proc->key);
		finding_note(f, EVIDENCE_EXIT_CODE, mb->proc->exit_code);
		finding_note(f, EVIDENCE_EXIT_SIGNAL, mb->proc->exit_signal);
		finding_note(f, EVIDENCE_DEAD_S, (m->now_ns - mb->proc->exit_ns) * 1e-9);
	}
}

static void all_entered_fill(struct finding *f, const struct model *m, const struct op *op, uint64_t since_ns,
			     const struct finding_list *found)
{
	const struct comm *c = op->member->comm;

	f->kind = FINDING_HANG;
	f->class = HANG_UNKNOWN;
	f->cause = CAUSE_ALL_ENTERED;
	f->has_op = true;
	f->comm = c->hash;
	f->op = op->kind;
	f->seq = op->seq;
	f->since_ns = since_ns;
	f->key = finding_key(FINDING_HANG, f->comm, f->seq, 1000);
	f->confidence = op->member->proc->shed >> PROBES_POLLS & 1 ? CONFIDENCE_UNPOLLED : CONFIDENCE;
	if (fell_ns(m, c))
		dead_name(f, m, c);
	f->caused_by_key = mismatch_key(found, f->comm);
	if (!f->caused_by_key && !f->n_ranks)
		f->caused_by_key = port_key(m, found, c);
	finding_note(f, EVIDENCE_WAITING_S, (m->now_ns - since_ns) * 1e-9);
	finding_note(f, EVIDENCE_N_MEMBERS, c->nranks);
	finding_note(f, EVIDENCE_COUNT, op->count);
}

int all_entered_report(const struct model *m, struct finding_list *found)
{
	const struct op *best = NULL;
	uint64_t best_since = 0, since = 0;
	struct finding *f;

	for (const struct proc *p = m->procs; p; p = p->next) {
		const struct op *op = p->dead ? NULL : open_op(m, p, &since);

		if (op && (!best || since < best_since)) {
			best = op;
			best_since = since;
		}
	}
	if (!best || !all_quiet(m, fell_ns(m, best->member->comm) ? m->hang_floor_ns : limit_ns(best->member)))
		return 0;
	f = finding_list_add(found);
	if (!f)
		return -ENOMEM;
	all_entered_fill(f, m, best, best_since, found);
	return 0;
}
