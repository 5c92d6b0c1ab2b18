/* SPDX-License-Identifier: Apache-2.0
 *
 * seats.c - see seats.h.
 */
#include "detect/rank/seats.h"

#include "detect/phrase.h"

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
	for (const struct member *mb = p->members; mb && ret->n < SEATS_MAX; mb = mb->next_in_proc)
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

static void keep_thread(struct seats *s, uint32_t tid)
{
	int n = 0;

	for (int i = 0; i < s->n; i++)
		n += seat_tid(s->all[i]) == tid;
	if (!n)
		return;
	n = 0;
	for (int i = 0; i < s->n; i++)
		if (seat_tid(s->all[i]) == tid)
			s->all[n++] = s->all[i];
	s->n = n;
}

void proc_ranks_note(struct finding *f, struct finding_list *found, const struct proc *p, uint32_t tid)
{
	struct seats s;

	if (!p->shared) {
		finding_add_rank(f, proc_rank(p), p->key);
		return;
	}
	seats_of(p, &s);
	if (tid)
		keep_thread(&s, tid);
	seats_note(f, found, &s, NULL);
}
