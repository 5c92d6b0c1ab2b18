/* SPDX-License-Identifier: Apache-2.0
 *
 * stalled_op.c - see stalled_op.h. The host runs ahead of the GPU, so "entered" is not "reached": an operation that all
 * entered is reported late, without a culprit, and with low confidence. But where a member died meanwhile the reason is
 * plain.
 */
#include "detect/hang/stalled_op.h"

#include <errno.h>

#include "base/larger.h"
#include "detect/gpu/gpu_cause.h"
#include "detect/gpu/gpu_role.h"
#include "detect/hang/gpu_stall.h"
#include "detect/hang/report.h"
#include "detect/rank/activity.h"
#include "detect/rank/entered.h"
#include "detect/rank/teardown.h"
#include "detect/transfer/link_cause.h"
#include "detect/transfer/stalled_transfer.h"

#define CONFIDENCE_RANK 0.9
#define CONFIDENCE_LINK 0.8

#define ALL_ENTERED_NS 10000000000ull /* at least: a long operation, or a GPU that is far behind its host */
#define CONFIDENCE_ENTERED 0.4
#define CONFIDENCE_UNPOLLED 0.2 /* polls are not seen any more: an older operation may have ended, unseen */
#define CONFIDENCE_DEAD 0.9
#define POLLED_NS 2000000000ull /* a query said "not ready" that recently */
#define LONGEST_TIMES 3         /* times the longest operation of the job that ended by itself, whichever it was */

struct stalled_ops_job {
	struct keyed keyed; /* by the job */
	const struct job_id *job;
	uint64_t seen_ns;
	bool lives;                               /* some process of it had a communicator at that tick */
	uint64_t proc_key, comm, op_id, since_ns; /* what all had entered for longest at that tick; op_id 0: nothing */
	uint64_t longest_ns;                      /* that ended by itself */
};

/* --- a transfer that is proven to stall --- */

static const enum finding_cause side_causes[] = { CAUSE_GPU, CAUSE_SENDER, CAUSE_NETWORK, CAUSE_RECEIVER };

static const enum finding_cause causes[] = {
	[PROXY_ASLEEP] = CAUSE_PROXY_ASLEEP,
	[PROXY_BLOCKED] = CAUSE_PROXY_BLOCKED,
	[PROXY_DEAD] = CAUSE_DEAD,
};

static uint64_t cause_key(const struct finding_list *found, const struct stalled_transfer *t)
{
	uint64_t proc = t->culprit->proc->key;

	return t->why == PROXY_STOPPED ? 0 : standing_key(found, proc, proc);
}

static uint64_t end_key(const struct model *m, const struct finding_list *found, const struct member *end)
{
	uint64_t key = link_cause_key(m, found, end->proc);

	return key ? key : gpu_stop_key(found, end->proc->key);
}

/* Of a pair without a culprit: a port or the GPU of one of the two. */
static uint64_t link_key(const struct model *m, const struct finding_list *found, const struct transfer_link *l)
{
	uint64_t key = l->from ? end_key(m, found, l->from) : 0;

	return key || !l->from ? key : end_key(m, found, l->to);
}

static void transfer_fill(struct finding *f, const struct stalled_transfer *t)
{
	f->kind = FINDING_HANG;
	f->class = t->why == PROXY_STOPPED ? HANG_STOPPED
		   : t->why == PROXY_DEAD  ? HANG_PROCESS_DEAD
					   : HANG_INSIDE_NETWORK;
	f->cause = !t->culprit               ? side_causes[t->link.side]
		   : t->why == PROXY_STOPPED ? proc_stop_cause(t->culprit->proc)
					     : causes[t->why];
	f->has_op = t->coll < OP_KINDS_COUNTED;
	f->op = f->has_op ? (enum op_kind)t->coll : OP_ALLREDUCE;
	f->comm = t->comm->hash;
	f->seq = t->seq;
	f->peer = -1;
	f->since_ns = t->since_ns;
	f->confidence = t->culprit ? CONFIDENCE_RANK : CONFIDENCE_LINK;
	f->subject = subject_comm(f->comm, 0);
	finding_identify(f, "stalled_transfer", 0, f->seq);
	if (t->culprit)
		finding_add_rank(f, member_rank(t->culprit), t->culprit->proc->key);
}

static int transfer_report(const struct model *m, const struct stalled_transfer *t, struct finding_list *found)
{
	struct finding *f = finding_list_add(found);

	if (!f)
		return -ENOMEM;
	transfer_fill(f, t);
	f->caused_by_key = t->culprit ? cause_key(found, t) : link_key(m, found, &t->link);
	finding_note(f, EVIDENCE_WAITING_S, (m->now_ns - f->since_ns) * 1e-9);
	finding_note(f, EVIDENCE_N_WAITING, t->comm->nranks - f->n_ranks);
	stalled_transfer_note_link(f, found, t);
	finding_note(f, EVIDENCE_N_LINKS_HELD, t->n_delayed);
	if (t->culprit)
		proxy_thread_note(f, t->culprit);
	finding_note(f, EVIDENCE_PROXY_OP_COUNT, t->op_count);
	finding_note_text(f, EVIDENCE_KNOWN_FROM, "proxies");
	return 0;
}

/* --- all entered --- */

static uint64_t limit_ns(const struct stalled_ops *s, const struct member *mb)
{
	const struct stalled_ops_job *j = keyed_find(&s->jobs, (uintptr_t)mb->proc->job, 0);
	const struct comm *c = mb->comm;
	uint64_t own = larger((uint64_t)(5e9 * c->duration_p999_s), ALL_ENTERED_NS);

	if (c->n_ended < COMM_WARMUP_OPS || !member_steps(mb)->period_ops) /* the first steps compile, load and tune */
		own = 2 * COMM_WARMUP_NS;
	return larger(own, j ? LONGEST_TIMES * j->longest_ns : 0);
}

static bool waits_since(const struct model *m, const struct op *op, uint64_t limit)
{
	for (const struct call *c = op->member->proc->calls; c; c = c->next)
		if (c->is_sync && c->begin_ns >= op->enqueue_ns && m->now_ns - c->begin_ns > limit)
			return true;
	return false;
}

/* Without the probes on CUDA events an operation may be over since long, whatever its host waits for now; but not while
 * a GPU of the job waits in NCCL. */
static bool end_is_to_come(const struct model *m, const struct op *op)
{
	const struct proc *p = op->member->proc;

	return !(p->shed >> PROBES_EVENTS & 1) || gpu_odd_find(m, p->job, op->enqueue_ns).n_in_nccl;
}

/* The host sits in a wait since long, or the watchdog polls it unanswered. */
static bool seen_open(const struct model *m, const struct op *op, uint64_t limit)
{
	return (waits_since(m, op, limit) && end_is_to_come(m, op)) ||
	       (op->not_done_ns && m->now_ns - op->not_done_ns < POLLED_NS);
}

/* Since the death the operation was polled, and was not over; or its host waits all the time. */
static bool dead_waits(struct entered *e, const struct op *op, uint64_t *since)
{
	uint64_t died_ns = entered_crashed_ns(e, op->member->comm), due_ns;
	const struct model *m = e->m;

	*since = larger(died_ns, *since);
	due_ns = *since + m->hang_floor_ns;
	return died_ns && (op->not_done_ns > due_ns || (m->now_ns > due_ns && waits_since(m, op, m->hang_floor_ns)));
}

static const struct op *open_op(const struct stalled_ops *s, struct entered *e, const struct proc *p,
				uint64_t *ret_since)
{
	const struct model *m = e->m;
	const struct op *best = NULL;
	bool due = false; /* what comes behind one that may take its time yet waits for that */

	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb)) {
		const struct op *op = mb->gone ? NULL : mb->first_open;
		uint64_t since = op ? entered_last_ns(e, op) : 0, limit;
		bool dead;

		if (!since || (best && best->id < op->id))
			continue;
		limit = limit_ns(s, mb);
		dead = dead_waits(e, op, &since);
		if (!dead && !seen_open(m, op, limit))
			continue;
		best = op;
		due = dead || m->now_ns >= since + limit;
		*ret_since = since;
	}
	return due ? best : NULL;
}

/* --- what the job is used to --- */

/* Of the process: what all entered first and is not over. */
static const struct op *oldest_entered(struct entered *e, const struct proc *p, uint64_t *ret_since)
{
	const struct op *best = NULL;

	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb)) {
		const struct op *op = mb->gone ? NULL : mb->first_open;
		uint64_t since = op ? entered_last_ns(e, op) : 0;

		if (!since || (best && *ret_since <= since))
			continue;
		best = op;
		*ret_since = since;
	}
	return best;
}

/* Not what ended with its rank or its communicator: a watchdog may have ended that. */
static bool went_on(const struct stalled_ops_job *j, const struct proc *p)
{
	if (!j->op_id || p->key != j->proc_key)
		return false;
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		if (mb->comm->hash == j->comm && !mb->gone)
			return !mb->first_open || mb->first_open->id > j->op_id;
	return false;
}

static void job_learn(struct stalled_ops_job *j, struct entered *e, const struct proc *p)
{
	uint64_t since = 0;
	const struct op *op;

	if (went_on(j, p))
		j->longest_ns = larger(j->longest_ns, j->seen_ns - j->since_ns);
	op = oldest_entered(e, p, &since);
	j->proc_key = p->key;
	j->comm = op ? op->member->comm->hash : 0;
	j->op_id = op ? op->id : 0;
	j->since_ns = since;
	j->seen_ns = e->m->now_ns;
}

static int proc_learn(struct stalled_ops *s, struct entered *e, const struct proc *p)
{
	struct stalled_ops_job *j = p->is_child ? keyed_find(&s->jobs, (uintptr_t)p->job, 0)
						: keyed_get(&s->jobs, (uintptr_t)p->job, 0, sizeof(*j));

	if (!j)
		return p->is_child ? 0 : -ENOMEM;
	j->lives = true;
	if (p->is_child || j->seen_ns == e->m->now_ns) /* a rank is enough: what all entered ends for all */
		return 0;
	j->job = p->job;
	job_learn(j, e, p);
	return 0;
}

int stalled_ops_refresh(struct stalled_ops *s, const struct model *m)
{
	struct entered e = { .m = m };
	int err = 0;

	jobs_forget(&s->forgetting, &s->jobs, m, NULL);
	for (struct stalled_ops_job *j = s->jobs.all; j; j = j->keyed.next)
		j->lives = false;
	for (const struct proc *p = m->procs; p != m->past && !err; p = proc_next(p))
		if (!p->dead && p->members)
			err = proc_learn(s, &e, p);
	return err;
}

void stalled_ops_free(struct stalled_ops *s)
{
	keyed_free(&s->jobs);
}

static uint64_t mismatch_key(const struct finding_list *found, uint64_t comm)
{
	for (size_t i = 0; i < found->n; i++)
		if (found->items[i].kind == FINDING_MISMATCH && found->items[i].comm == comm)
			return found->items[i].key;
	return 0;
}

static uint64_t port_or_gpu_key(const struct model *m, const struct finding_list *found, const struct comm *c)
{
	uint64_t key = 0;

	for (int r = 0; r < c->nranks && !key; r++)
		key = end_key(m, found, c->by_rank[r]);
	return key;
}

/* A rank that still calls gets on: what looks stalled waited for it, and is about to go on. */
static bool all_quiet(const struct model *m, const struct job_id *job, uint64_t limit)
{
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		if (p->job == job && p->members && !p->dead && m->now_ns - p->last_call_ns < limit)
			return false;
	return true;
}

static void name_dead(struct finding *f, struct entered *e, const struct comm *c)
{
	f->class = HANG_PROCESS_DEAD;
	f->cause = CAUSE_DEAD;
	f->confidence = CONFIDENCE_DEAD;
	for (const struct member *mb = c->members; mb; mb = member_next_in_comm(mb)) {
		if (!death_is_fault_of(&e->deaths, e->m, mb->proc))
			continue;
		finding_add_rank(f, member_rank(mb), mb->proc->key);
		finding_note(f, EVIDENCE_EXIT_CODE, mb->proc->exit_code);
		finding_note(f, EVIDENCE_EXIT_SIGNAL, mb->proc->exit_signal);
		finding_note(f, EVIDENCE_DEAD_S, (e->m->now_ns - mb->proc->exit_ns) * 1e-9);
	}
}

static void all_entered_fill(struct finding *f, struct entered *e, const struct op *op, uint64_t since_ns,
			     uint64_t limit, struct finding_list *found)
{
	const struct model *m = e->m;
	const struct comm *c = op->member->comm;

	f->kind = FINDING_HANG;
	f->class = HANG_UNKNOWN;
	f->cause = CAUSE_ALL_ENTERED;
	f->has_op = true;
	f->comm = c->hash;
	f->op = op->kind;
	f->seq = op->seq;
	f->since_ns = since_ns;
	f->subject = subject_comm(f->comm, 0);
	finding_identify(f, "all_entered", 0, f->seq);
	f->critical_after_ns = 3 * limit;
	f->confidence = op->member->proc->shed >> PROBES_POLLS & 1 ? CONFIDENCE_UNPOLLED : CONFIDENCE_ENTERED;
	if (entered_crashed_ns(e, c))
		name_dead(f, e, c);
	f->caused_by_key = mismatch_key(found, f->comm);
	if (!f->caused_by_key && !f->n_ranks)
		f->caused_by_key = port_or_gpu_key(m, found, c);
	finding_note(f, EVIDENCE_WAITING_S, (m->now_ns - since_ns) * 1e-9);
	finding_note(f, EVIDENCE_N_MEMBERS, c->nranks);
	finding_note(f, EVIDENCE_COUNT, op->count);
	if (!f->n_ranks && !f->caused_by_key)
		gpu_stall_name(f, m, op->member->proc->job, found);
}

/* Of a job: what all entered first, and is due. */
static const struct op *job_open_op(const struct stalled_ops *s, struct entered *e, const struct job_id *job,
				    uint64_t *ret_since)
{
	const struct model *m = e->m;
	const struct op *best = NULL;
	uint64_t since = 0;

	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p)) {
		const struct op *op = p->dead || p->job != job ? NULL : open_op(s, e, p, &since);

		if (op && (!best || since < *ret_since)) {
			best = op;
			*ret_since = since;
		}
	}
	return best;
}

/* Ranks were taken down since: the job ends, and with it what was under way. */
static bool job_ends(const struct model *m, const struct job_id *job, uint64_t since)
{
	const struct proc *last = NULL;

	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		if (p->dead && p->job == job && p->members && p->exit_ns >= since &&
		    (!last || p->exit_ns > last->exit_ns))
			last = p;
	return last && death_is_teardown(m, last);
}

static int job_report(const struct stalled_ops *s, const struct model *m, const struct job_id *job,
		      struct finding_list *found)
{
	uint64_t since = 0;
	struct entered e = { .m = m };
	const struct op *op = job_open_op(s, &e, job, &since);
	uint64_t limit = op ? limit_ns(s, op->member) : 0;
	struct finding *f;

	if (!op || job_ends(m, job, since) ||
	    !all_quiet(m, job, entered_crashed_ns(&e, op->member->comm) ? m->hang_floor_ns : limit))
		return 0;
	f = finding_list_add(found);
	if (!f)
		return -ENOMEM;
	all_entered_fill(f, &e, op, since, limit, found);
	return 0;
}

static int all_entered_report(const struct stalled_ops *s, const struct model *m, const struct wait_roots *roots,
			      struct finding_list *found)
{
	int err = 0;

	for (const struct stalled_ops_job *j = s->jobs.all; j && !err; j = j->keyed.next)
		if (j->lives && !wait_roots_explain(roots, j->job) && roots->missing != j->job)
			err = job_report(s, m, j->job, found);
	return err;
}

int stalled_op_report(const struct stalled_ops *s, const struct model *m, const struct wait_roots *roots,
		      struct finding_list *found)
{
	struct stalled_transfer t;

	if (!stalled_transfer_proven(m, &t) || wait_roots_explain(roots, t.comm->members->proc->job))
		return all_entered_report(s, m, roots, found);
	t.seq = stalled_transfer_seq(&t);
	return transfer_report(m, &t, found);
}
