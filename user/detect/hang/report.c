/* SPDX-License-Identifier: Apache-2.0
 *
 * report.c - fills the finding about one rank: what it lacks and who waits, and what its host, its threads and its
 * GPU calls show of the reason. The first evidence says most: room is limited.
 */
#include "detect/hang/report.h"

#include <errno.h>
#include <string.h>

#include "base/larger.h"
#include "base/hash.h"
#include "detect/rank/call_site.h"
#include "detect/hang/gpu_stall.h"
#include "detect/hang/p2p.h"
#include "detect/phrase.h"
#include "detect/rank/counters.h"
#include "detect/rank/seats.h"
#include "detect/transfer/stalled_transfer.h"
#include "detect/gpu/gpu_cause.h"

#define LOSS_WINDOW_NS 10000000000ull
#define CONFIDENCE_MIN 0.5
#define UNSURE_WARNING_NS 10000000000ull /* who it is is not known: a long step looks like that, for a while */

static double seconds(uint64_t ns)
{
	return ns * 1e-9;
}

static void note_last_op(struct finding *f, const struct model *m, const struct proc *p)
{
	const struct op *op = p->last_op;

	if (!op)
		return;
	finding_note_text(f, EVIDENCE_LAST_OP, op_kind_name(op->kind));
	finding_note(f, EVIDENCE_LAST_OP_SEQ, op->seq);
	finding_note(f, EVIDENCE_LAST_OP_COUNT, op->count);
	finding_note(f, EVIDENCE_LAST_OP_S_AGO, seconds(m->now_ns - op->call_ns));
}

static void note_end(struct finding *f, const struct model *m, const struct proc *p)
{
	if (!p->dead)
		return;
	finding_note(f, EVIDENCE_EXIT_CODE, p->exit_code);
	finding_note(f, EVIDENCE_EXIT_SIGNAL, p->exit_signal);
	finding_note(f, EVIDENCE_DEAD_S, seconds(m->now_ns - p->exit_ns));
}

/* What the host is in, and the last word of the driver: "in cuStreamSynchronize for 12 s". */
static void note_calls(struct finding *f, const struct model *m, const struct proc *p)
{
	const struct call *longest = p->calls;

	for (const struct call *c = p->calls; c; c = c->next)
		if (c->begin_ns < longest->begin_ns)
			longest = c;
	if (longest) {
		finding_note_text(f, EVIDENCE_IN_CALL,
				  *longest->name     ? longest->name
				  : longest->is_sync ? "wait for the GPU"
						     : "");
		finding_note(f, EVIDENCE_IN_CALL_S, seconds(m->now_ns - longest->begin_ns));
	}
	if (p->cuda_error) {
		finding_note_text(f, EVIDENCE_CUDA_ERROR, p->cuda_error_name);
		finding_note_text(f, EVIDENCE_CUDA_ERROR_CALL, p->cuda_error_call);
	}
}

static void note_children(struct finding *f, const struct model *m, const struct proc *p)
{
	int n = 0, n_dead = 0;

	for (const struct proc *c = m->procs; c; c = c->next) {
		n += c != p && c->leader == p;
		n_dead += c != p && c->leader == p && c->dead;
	}
	if (n)
		finding_note(f, EVIDENCE_N_CHILDREN, n);
	if (n_dead)
		finding_note(f, EVIDENCE_N_CHILDREN_DEAD, n_dead);
}

static void note_activity(struct finding *f, const struct rank_activity *a)
{
	if (a->task) {
		finding_note_text(f, EVIDENCE_STATE, task_state_name(a->task->state));
		finding_note_text(f, EVIDENCE_THREAD, a->task->name);
		finding_note(f, EVIDENCE_TID, a->task->tid);
		finding_note_text(f, EVIDENCE_WCHAN, a->task->blocked || a->task->at_ns ? a->task->wchan : "");
		finding_note_text(f, EVIDENCE_SYSCALL, a->task->at_ns ? a->task->syscall : "");
		finding_note_text(f, EVIDENCE_FILE, a->task->at_ns ? a->task->file : "");
		finding_note_text(f, EVIDENCE_KERNEL_STACK, a->task->blocked ? a->task->kernel_stack : "");
	}
	if (a->cpu_share >= 0) {
		finding_note(f, EVIDENCE_CPU_SHARE, a->cpu_share);
		finding_note(f, EVIDENCE_IO_BYTES_PER_S, a->io_bytes_s);
	}
}

/* Of operations that were not seen: which it may be, when there is a choice. */
static void note_kinds(struct finding *f, struct finding_list *found, const struct pending *l)
{
	char names[128] = "";

	if (!l->kinds)
		return;
	finding_note_text(f, EVIDENCE_KNOWN_FROM, "counters");
	if (!(l->kinds & (l->kinds - 1)))
		return;
	for (int k = 0; k < OP_KINDS_COUNTED; k++) {
		if (!(l->kinds & 1u << k))
			continue;
		phrase_add(names, sizeof(names), *names ? "," : "");
		phrase_add(names, sizeof(names), op_kind_name(k));
	}
	finding_note_text(f, EVIDENCE_OP_ONE_OF, finding_list_text(found, names));
}

/* Read once a second: which of several communicators it lacked first is not known where their peers did not move by
 * then. The named one comes first. */
static void note_comms(struct finding *f, struct finding_list *found, const struct pending *l)
{
	char names[256] = "";
	int n = 0;

	phrase_place(names, sizeof(names), l->member->comm->hash, l->seq);
	for (const struct member *mb = l->kinds ? l->member->proc->members : NULL; mb; mb = member_next_in_proc(mb)) {
		uint64_t seq = counters_pending_seq(mb),
			 since = mb == l->member || !counters_pending_kinds(mb) ? 0 : counters_since_ns(mb->comm, seq);

		if (!since || since > l->since_ns + SAMPLES_APART_NS || mb->device != l->member->device)
			continue;
		phrase_place(names, sizeof(names), mb->comm->hash, seq);
		n++;
	}
	if (n)
		finding_note_text(f, EVIDENCE_COMM_ONE_OF, finding_list_text(found, names));
}

/* Known by counters that did not move since they were read first. */
static bool waited_before(const struct pending *l)
{
	for (const struct member *mb = l->kinds ? l->member->comm->members : NULL; mb; mb = member_next_in_comm(mb))
		if (mb->samples.n && !mb->samples.after_ns && mb->samples.since_ns == l->since_ns)
			return true;
	return false;
}

static void note_waiting(struct finding *f, struct finding_list *found, const struct model *m, const struct pending *l)
{
	char ranks[256];

	pending_waiting_text(l, ranks, sizeof(ranks));
	finding_note(f, EVIDENCE_WAITING_S, seconds(m->now_ns - l->since_ns));
	if (waited_before(l))
		finding_note(f, EVIDENCE_WAITING_LONGER, 1);
	finding_note(f, EVIDENCE_N_WAITING, l->n_waiting);
	finding_note_text(f, EVIDENCE_WAITING_RANKS, finding_list_text(found, ranks));
}

void habit_note(struct finding *f, struct finding_list *found, const struct habit *h)
{
	char text[384];

	if (!h->phase)
		return;
	known_phase_text(h->phase, text, sizeof(text));
	finding_note_text(f, EVIDENCE_KNOWN_PHASE, finding_list_text(found, text));
	finding_note(f, EVIDENCE_PAUSES_BEFORE, h->phase->n);
	finding_note(f, EVIDENCE_LONGEST_PAUSE_S, seconds(h->phase->longest_ns));
}

/* Both ends of the transfer, and how often each called its side. */
static void note_pair(struct finding *f, const struct pending *l)
{
	const struct member *mb = l->member, *o = member_peer(mb, l->peer);
	bool recv = l->kind == OP_RECV;
	uint64_t mine = l->peer < mb->n_p2p ? mb->p2p[l->peer].entered[recv] : 0;
	uint64_t theirs = o && mb->rank >= 0 && mb->rank < o->n_p2p ? o->p2p[mb->rank].entered[!recv] : 0;

	finding_note_text(f, EVIDENCE_NOT_CALLED, op_kind_name(l->kind));
	finding_note(f, EVIDENCE_SENDER, recv ? comm_global_rank(mb->comm, l->peer) : member_rank(mb));
	finding_note(f, EVIDENCE_RECEIVER, recv ? member_rank(mb) : comm_global_rank(mb->comm, l->peer));
	finding_note(f, EVIDENCE_N_SENDS, recv ? theirs : mine);
	finding_note(f, EVIDENCE_N_RECVS, recv ? mine : theirs);
}

static void set_op(struct finding *f, const struct pending *l)
{
	f->has_op = true;
	f->comm = l->member->comm->hash;
	f->op = l->kind;
	f->seq = l->seq;
	f->peer = l->space == SPACE_P2P ? comm_global_rank(l->member->comm, l->peer) : -1;
	f->since_ns = l->since_ns;
	if (l->op && l->op->seq_from_attach)
		finding_note(f, EVIDENCE_SEQ_FROM_ATTACH, 1);
}

uint64_t standing_key(const struct finding_list *found, uint64_t blocked, uint64_t proc)
{
	const struct finding *f = blocked ? finding_list_of(found, FINDING_D_STATE, blocked) : NULL;

	f = f ? f : finding_list_of(found, FINDING_IO_STALL, proc);
	return f ? (f->caused_by_key ? f->caused_by_key : f->key) : gpu_stop_key(found, proc);
}

/* A mismatch in a communicator of this rank explains whatever follows; so does what keeps it from going on. */
static uint64_t cause_key(const struct finding_list *found, const struct culprit *c)
{
	for (const struct member *mb = c->proc->members; mb; mb = member_next_in_proc(mb))
		for (size_t i = 0; i < found->n; i++)
			if (found->items[i].kind == FINDING_MISMATCH && found->items[i].comm == mb->comm->hash &&
			    !mb->gone)
				return found->items[i].key;
	return standing_key(found, c->activity.what == ACTIVITY_BLOCKED ? c->activity.task->proc->key : 0,
			    c->proc->key);
}

static double confidence_of(const struct model *m, const struct culprit *c)
{
	const struct comm *comm = c->pending.member->comm;
	double conf = c->confidence;

	if (comm->n_seen < comm->nranks) /* who is on other nodes may be late too */
		conf *= 0.9;
	if (c->class != HANG_MISSING_ENTER && c->class != HANG_P2P_UNMATCHED)
		return conf;
	if (m->last_loss_ns && m->last_loss_ns + LOSS_WINDOW_NS > c->pending.since_ns)
		conf *= 0.4; /* its entry may be among the lost */
	return conf;
}

void pending_identify(struct finding *f, const struct proc *p, const struct comm *c, uint64_t what, uint64_t seq)
{
	f->subject = subject_rank(proc_rank(p), p->key);
	finding_identify(f, "pending", what, hash_mix(hash_mix(0, c->hash), seq));
}

static uint64_t what_is_pending(const struct pending *l)
{
	return l->space >= 0 ? (uint64_t)l->space : 16 + 2 * (uint64_t)l->peer + (l->kind == OP_RECV);
}

/* Several ranks of one process are several subjects. */
static void seat_identify(struct finding *f, const struct culprit *c, uint64_t what)
{
	const struct member *mb = c->seats->all[0];
	uint64_t place = hash_mix(hash_mix(0, c->pending.member->comm->hash), c->pending.seq);

	f->subject = subject_rank(member_rank(mb), c->proc->key);
	finding_identify(f, "pending", what, hash_mix(place, (uint64_t)member_rank(mb) + 1));
}

/* What its thread is in: the stack of another thread would say something of another rank. */
static void note_host(struct finding *f, const struct model *m, const struct culprit *c, struct finding_list *found)
{
	if (!c->seats || c->tid || c->whole)
		call_site_note(f, found, c->proc, c->tid);
	if (!c->seats)
		call_site_note_others(f, found, m);
}

static void add_ranks(struct finding *f, struct finding_list *found, const struct culprit *c)
{
	if (c->seats)
		seats_note(f, found, c->seats, c->pending.member->comm);
	else
		finding_add_rank(f, proc_rank(c->proc), c->proc->key);
}

/* For that long it has not moved; twice its limit where lags are usual, as far as is known by now. */
static uint64_t unsure_warning_ns(const struct culprit *c)
{
	return c->habit.moved_for_ns + larger(UNSURE_WARNING_NS, 2 * c->pending.usual_ns);
}

int culprit_report(const struct model *m, const struct culprit *c, struct finding_list *found)
{
	struct finding *f = finding_list_add(found);

	if (!f)
		return -ENOMEM;
	f->kind = c->kind;
	if (c->seats)
		seat_identify(f, c, what_is_pending(&c->pending));
	else
		pending_identify(f, c->proc, c->pending.member->comm, what_is_pending(&c->pending), c->pending.seq);
	f->class = c->class;
	f->cause = c->cause;
	set_op(f, &c->pending);
	f->confidence = confidence_of(m, c);
	f->warning_after_ns = c->habit.warning_after_ns;
	if (f->confidence < CONFIDENCE_MIN) {
		f->class = HANG_UNKNOWN;
		if (!model_is_autopsy(m)) /* that was asked and says what it knows */
			f->warning_after_ns = larger(f->warning_after_ns, unsure_warning_ns(c));
	}
	f->critical_after_ns = c->habit.critical_after_ns;
	f->caused_by_key = c->kind == FINDING_HANG ? cause_key(found, c) : 0;
	add_ranks(f, found, c);
	note_waiting(f, found, m, &c->pending);
	habit_note(f, found, &c->habit);
	note_kinds(f, found, &c->pending);
	note_comms(f, found, &c->pending);
	if (c->kind == FINDING_HANG && !c->seats)
		gpu_stall_explain(f, m, c->proc, found);
	if (c->class == HANG_PROCESS_DEAD && c->pending.kinds)
		finding_note_text(
			f, EVIDENCE_SEQ_IS,
			"the last that peers entered; the dead rank may lack earlier ones too, or have entered it");
	if (c->activity.what == ACTIVITY_STOPPED || c->activity.what == ACTIVITY_BLOCKED)
		stalled_transfer_note(f, found, m, c->proc);
	note_end(f, m, c->proc);
	note_host(f, m, c, found);
	if (c->pending.space == SPACE_P2P)
		note_pair(f, &c->pending);
	if (!c->seats)
		note_calls(f, m, c->proc);
	note_activity(f, &c->activity);
	if (!c->seats)
		note_last_op(f, m, c->proc);
	note_children(f, m, c->proc);
	finding_note(f, EVIDENCE_LIMIT_S, seconds(c->pending.limit_ns));
	if (c->kind == FINDING_HANG && c->habit.critical_after_ns)
		finding_note(f, EVIDENCE_CRITICAL_AFTER_S, seconds(c->habit.critical_after_ns));
	return 0;
}

/* --- ranks that cannot be distinguished --- */

static bool is_guess(const struct finding *f)
{
	bool asleep = f->kind == FINDING_HANG && f->cause == CAUSE_ASLEEP;
	bool busy = f->kind == FINDING_OBSERVATION && f->cause == CAUSE_BUSY;

	return f->class == HANG_UNKNOWN && (asleep || busy) && f->n_ranks_all == 1 && !f->caused_by_key;
}

/* The job of the one rank that this finding guesses at; NULL: it is no such guess. */
static const struct job_id *guess_job(const struct finding *f, const struct model *m)
{
	const struct proc *p = is_guess(f) ? model_proc(m, finding_proc(f, 0)) : NULL;

	return p && !p->shared ? p->job : NULL;
}

static bool joins(const struct finding *f, enum finding_kind kind, const struct job_id *job, const struct model *m)
{
	return f->kind == kind && guess_job(f, m) == job;
}

/* The first of them to be warned of, or to be critical, decides for all. */
static void guess_add(struct finding *all, const struct finding *f)
{
	uint64_t later_ns = f->since_ns - all->since_ns;

	finding_add_rank(all, f->ranks[0], finding_proc(f, 0));
	if (later_ns + f->warning_after_ns < all->warning_after_ns)
		all->warning_after_ns = later_ns + f->warning_after_ns;
	if (later_ns + f->critical_after_ns < all->critical_after_ns)
		all->critical_after_ns = later_ns + f->critical_after_ns;
}

/* That of the rank whose peers have waited longest, its ranks still to be added. */
static struct finding guess_of_job(const struct finding_list *found, size_t first, const struct job_id *job,
				   const struct model *m)
{
	struct finding all = found->items[first];

	for (size_t i = first + 1; i < found->n; i++)
		if (joins(&found->items[i], all.kind, job, m) && found->items[i].since_ns < all.since_ns)
			all = found->items[i];
	all.n_ranks = all.n_ranks_all = 0;
	all.subject = subject_job(job->name, job->nth, job->shown);
	finding_identify(&all, "guess", 0, 0);
	return all;
}

static void guesses_join(struct finding_list *found, size_t first, const struct job_id *job, const struct model *m)
{
	struct finding all = guess_of_job(found, first, job, m);
	size_t n = first + 1;

	guess_add(&all, &found->items[first]);
	for (size_t i = first + 1; i < found->n; i++) {
		if (joins(&found->items[i], all.kind, job, m))
			guess_add(&all, &found->items[i]);
		else
			found->items[n++] = found->items[i];
	}
	if (all.n_ranks_all > 1 && all.kind == FINDING_HANG)
		finding_note(&all, EVIDENCE_ONE_OF, all.n_ranks_all);
	if (all.n_ranks_all > 1)
		found->items[first] = all;
	found->n = n;
}

void guesses_report(const struct model *m, struct finding_list *found, size_t first)
{
	for (; first < found->n; first++) {
		const struct job_id *job = guess_job(&found->items[first], m);

		if (job)
			guesses_join(found, first, job, m);
	}
}

void comm_waiting_note(struct finding *f, struct finding_list *found, const struct comm *c)
{
	char ranks[256] = "";

	for (int r = 0; r < c->nranks; r++)
		if (c->by_rank[r])
			phrase_list(ranks, sizeof(ranks), member_rank(c->by_rank[r]));
	finding_note(f, EVIDENCE_N_WAITING, c->n_seen);
	finding_note_text(f, EVIDENCE_WAITING_RANKS, finding_list_text(found, ranks));
	finding_note_text(f, EVIDENCE_KNOWN_FROM, "counters");
}

bool hang_is_reported(const struct finding_list *found, const struct model *m, const struct job_id *job)
{
	for (size_t i = 0; i < found->n; i++) {
		const struct finding *f = &found->items[i];
		const struct proc *p = f->n_ranks ? model_proc(m, finding_proc(f, 0)) : NULL;

		if (f->kind == FINDING_HANG && (p ? p->job == job : !f->job || !strcmp(f->job, job->shown)))
			return true;
	}
	return false;
}
