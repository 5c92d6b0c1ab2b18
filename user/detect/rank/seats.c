/* SPDX-License-Identifier: Apache-2.0
 *
 * seats.c - see seats.h.
 */
#include "detect/rank/seats.h"

#include "detect/phrase.h"

#define OWN_CALLS 16 /* of each of its communicators */

const struct member *seat_next(const struct member *seat, const struct member *last)
{
	const struct member *mb = last ? last->next_in_proc : seat->proc->members;

	while (mb && (mb->gone || mb->device != seat->device))
		mb = mb->next_in_proc;
	return mb;
}

uint32_t seat_tid(const struct member *seat)
{
	const struct op *newest = NULL;

	for (const struct member *mb = seat_next(seat, NULL); mb; mb = seat_next(seat, mb))
		if (mb->ops_tail && (!newest || mb->ops_tail->call_ns > newest->call_ns))
			newest = mb->ops_tail;
	return newest ? newest->tid : 0;
}

/* Of the newest operations of a member: *tid, or that of the first where it is 0. False: several threads. */
static bool alone_calls(const struct member *mb, uint32_t *tid)
{
	const struct op *op = mb->ops_tail;

	for (int i = 0; op && i < OWN_CALLS; i++, op = op->prev) {
		*tid = *tid ? *tid : op->tid;
		if (op->tid != *tid)
			return false;
	}
	return true;
}

uint32_t seat_own_tid(const struct member *seat)
{
	uint32_t tid = 0;

	for (const struct member *mb = seat_next(seat, NULL); mb; mb = seat_next(seat, mb))
		if (!alone_calls(mb, &tid))
			return 0;
	return tid;
}

uint32_t rank_own_tid(const struct proc *p, int rank)
{
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		if (!mb->gone && member_rank(mb) == rank)
			return seat_own_tid(mb);
	return 0;
}

uint32_t rank_ref_tid(const struct rank_ref *r)
{
	return r->seat ? seat_own_tid(r->seat) : 0;
}

bool rank_node_waits(const struct rank_node *r)
{
	if (!r->tid)
		return proc_waits(r->proc);
	for (const struct call *c = r->proc->calls; c; c = c->next)
		if (c->is_sync && c->tid == r->tid)
			return true;
	return false;
}

const struct task *seat_task(const struct proc *p, uint32_t tid)
{
	const struct task *t = tid ? p->tasks : NULL;

	while (t && t->tid != tid)
		t = t->next;
	return t;
}

const struct member *seat_in(const struct member *seat, const struct comm *c)
{
	const struct member *mb = seat_next(seat, NULL);

	while (mb && mb->comm != c)
		mb = seat_next(seat, mb);
	return mb;
}

static bool is_first_of_seat(const struct member *mb)
{
	return !mb->gone && seat_next(mb, NULL) == mb;
}

static const struct member *in_largest(const struct member *seat)
{
	const struct member *best = seat;

	for (const struct member *mb = seat_next(seat, NULL); mb; mb = seat_next(seat, mb))
		if (mb->comm->nranks > best->comm->nranks)
			best = mb;
	return best;
}

static void seat_insert(struct seats *s, const struct member *mb)
{
	int at = s->n++;

	for (; at && s->all[at - 1]->rank > mb->rank; at--)
		s->all[at] = s->all[at - 1];
	s->all[at] = mb;
}

void seats_of(const struct proc *p, struct seats *ret)
{
	ret->n = 0;
	for (const struct member *mb = p->members; mb && ret->n < SEATS_MAX; mb = member_next_in_proc(mb))
		if (is_first_of_seat(mb))
			seat_insert(ret, in_largest(mb));
}

/* --- as text --- */

/* ", GPU 1", ", GPUs 0,1" */
static void list_open(char *buf, size_t cap, const char *one, int n)
{
	phrase_add(buf, cap, ", ");
	phrase_add(buf, cap, one);
	phrase_add(buf, cap, n > 1 ? "s " : " ");
}

static void list_add(char *buf, size_t cap, int i, int number)
{
	phrase_add(buf, cap, i ? "," : "");
	phrase_number(buf, cap, (uint64_t)number);
}

static void gpus_add(char *buf, size_t cap, const struct seats *s)
{
	for (int i = 0; i < s->n; i++)
		if (member_gpu(s->all[i]) < 0)
			return;
	list_open(buf, cap, "GPU", s->n);
	for (int i = 0; i < s->n; i++)
		list_add(buf, cap, i, member_gpu(s->all[i]));
}

static void ranks_add(char *buf, size_t cap, const struct seats *s, const struct comm *c)
{
	int n = 0, k = 0;

	for (int i = 0; i < s->n; i++)
		n += seat_in(s->all[i], c) != NULL;
	list_open(buf, cap, "rank", n);
	for (int i = 0; i < s->n; i++)
		if (seat_in(s->all[i], c))
			list_add(buf, cap, k++, seat_in(s->all[i], c)->rank);
	phrase_add(buf, cap, " of ");
	phrase_number(buf, cap, (uint64_t)c->nranks);
	phrase_add(buf, cap, " in ");
	phrase_comm(buf, cap, c->hash);
}

void seats_note(struct finding *f, struct finding_list *found, const struct seats *s, const struct comm *c)
{
	char text[256] = "pid ";
	const struct proc *p;

	if (!s->n)
		return;
	p = s->all[0]->proc;
	c = c ? c : s->all[0]->comm;
	for (int i = 0; i < s->n; i++)
		finding_add_rank(f, member_rank(s->all[i]), p->key);
	phrase_number(text, sizeof(text), p->tgid);
	gpus_add(text, sizeof(text), s);
	ranks_add(text, sizeof(text), s, c);
	finding_note_text(f, EVIDENCE_MEMBER, finding_list_text(found, text));
	if (s->n > 1)
		return;
	if (member_gpu(s->all[0]) >= 0)
		finding_note(f, EVIDENCE_GPU, member_gpu(s->all[0]));
	if (seat_in(s->all[0], c))
		finding_note(f, EVIDENCE_COMM_RANK, seat_in(s->all[0], c)->rank);
}

void seats_of_thread(const struct proc *p, uint32_t tid, struct seats *ret)
{
	int n = 0;

	seats_of(p, ret);
	for (int i = 0; i < ret->n; i++)
		if (seat_tid(ret->all[i]) == tid)
			ret->all[n++] = ret->all[i];
	ret->n = n;
}

void proc_ranks_note(struct finding *f, struct finding_list *found, const struct proc *p, uint32_t tid)
{
	struct seats s = { .n = 0 };

	if (!p->shared) {
		finding_add_rank(f, proc_rank(p), p->key);
		return;
	}
	if (tid)
		seats_of_thread(p, tid, &s);
	if (!s.n)
		seats_of(p, &s);
	seats_note(f, found, &s, NULL);
}
