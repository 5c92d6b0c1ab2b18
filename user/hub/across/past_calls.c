/* SPDX-License-Identifier: Apache-2.0
 *
 * past_calls.c - see past_calls.h. Two hashes are compared only if they are of the same 64 operations of the same
 * communicator, and made by agents of this very version: another one may hash something else. A member that did not see
 * all 64 sends none. Each second a member sends that of its newest 64 alone: where many more are called in a second,
 * most members say nothing of any one span, and it is not judged.
 */
#include "hub/across/past_calls.h"

#include <errno.h>
#include <string.h>

#include "command.h"

#define SPAN 64 /* operations under one hash: cluster.proto */
#define KEPT 8  /* hashes, of the newest of them */
#define VALUES_MAX 8
#define GATHER_NS 3000000000ull /* until all have said theirs: the first two that differ may be two of a minority */
#define HOLD_NS 30000000000ull  /* reported that long after the last difference, as on a node */
#define SILENT_NS 60000000000ull
#define MAJORITY 0.9
#define EVEN 0.5

struct span { /* of the operations before number `to`; to 0: none */
	uint64_t to, hash;
};

struct past_member { /* by process and address of the communicator */
	struct keyed keyed;
	uint64_t start_ns, seen_ns;
	struct past_comm *comm;
	int rank;
	bool odd;               /* of those that are reported */
	struct span said[KEPT]; /* number `to` at to / SPAN % KEPT */
};

struct past_comm { /* by its hash */
	struct keyed keyed;
	uint64_t seen_ns;
	int nranks;
	struct span first_said[KEPT];       /* by any of its members */
	uint64_t odd_to, since_ns, last_ns; /* of the first operations that differ; 0 none do */
	bool judged;
	int n_odd; /* ranks to be named; 0: none is */
	double confidence;
};

void past_calls_free(struct past_calls *s)
{
	keyed_free(&s->members);
	keyed_free(&s->comms);
}

static struct span *span_at(struct span *all, uint64_t to)
{
	return &all[to / SPAN % KEPT];
}

/* --- in --- */

static void span_compare(struct past_comm *c, const struct span *one, uint64_t now_ns)
{
	struct span *first = span_at(c->first_said, one->to);

	if (one->to > first->to)
		*first = *one;
	if (one->to != first->to || one->hash == first->hash)
		return;
	c->last_ns = now_ns;
	if (c->odd_to)
		return;
	c->odd_to = one->to;
	c->since_ns = now_ns;
	c->judged = false;
}

static int member_take(struct past_calls *s, uint32_t host, uint64_t at_ns, const Cluster__Process *p,
		       const Cluster__Member *mb)
{
	struct past_member *o = keyed_get(&s->members, proc_key(host, p->pid), mb->addr, sizeof(*o));
	struct past_comm *c = keyed_get(&s->comms, mb->hash, 0, sizeof(*c));
	struct span one = { mb->signatures_to, mb->signatures_hash };

	if (!o || !c)
		return -ENOMEM;
	if (o->comm != c ||
	    o->start_ns != p->start_ns) /* another process of that pid, or communicator of that address */
		memset(o->said, 0, sizeof(o->said));
	o->comm = c;
	o->start_ns = p->start_ns;
	o->rank = p->rank;
	c->nranks = mb->nranks > c->nranks ? mb->nranks : c->nranks; /* who claims fewer makes no majority of his own */
	o->seen_ns = c->seen_ns = at_ns;
	if (span_at(o->said, one.to)->to >= one.to) /* it says so each second */
		return 0;
	*span_at(o->said, one.to) = one;
	span_compare(c, &one, at_ns);
	return 0;
}

static bool is_comparable(const Cluster__Member *mb)
{
	return mb->has_signatures_to && mb->has_signatures_hash && mb->signatures_to && mb->signatures_to % SPAN == 0 &&
	       mb->hash && mb->nranks > 1;
}

int past_calls_take(struct past_calls *s, uint32_t host, uint64_t at_ns, const Cluster__NodeReport *r, const char *job)
{
	int err = 0;

	if (!r->program || strcmp(r->program, RANKTRACE_VERSION))
		return 0;
	for (size_t i = 0; i < r->n_processes; i++) {
		const Cluster__Process *p = r->processes[i];

		if (strcmp(p->job ? p->job : "", job) || p->dead)
			continue;
		for (size_t k = 0; k < p->n_comms && !err; k++)
			if (is_comparable(p->comms[k]))
				err = member_take(s, host, at_ns, p, p->comms[k]);
	}
	return err;
}

/* --- who is right --- */

struct vote {
	uint64_t hash;
	int n;
};

static uint64_t said_of(struct past_member *o, const struct past_comm *c)
{
	const struct span *one = o->comm == c ? span_at(o->said, c->odd_to) : NULL;

	return one && one->to == c->odd_to ? one->hash : 0;
}

static int votes_count(const struct past_calls *s, const struct past_comm *c, struct vote *v)
{
	int n = 0, i;

	for (struct past_member *o = s->members.all; o; o = o->keyed.next) {
		uint64_t hash = said_of(o, c);

		for (i = 0; hash && i < n && v[i].hash != hash; i++)
			;
		if (!hash || i == VALUES_MAX)
			continue;
		if (i == n)
			v[n++] = (struct vote){ .hash = hash };
		v[i].n++;
	}
	return n;
}

/* What more than half of the communicator say; 0: nothing. */
static uint64_t right_of(const struct past_comm *c, const struct vote *v, int n)
{
	for (int i = 0; i < n; i++)
		if (2 * v[i].n > c->nranks)
			return v[i].hash;
	return 0;
}

static int voters(const struct vote *v, int n)
{
	int sum = 0;

	for (int i = 0; i < n; i++)
		sum += v[i].n;
	return sum;
}

/* Once: the hashes go with time. Where half of the ranks have not said theirs it is not known who is right: it is
 * another span's turn, unless all have spoken and are at odds. Where more have spoken than the communicator has, some
 * only claim to be of it (any user's process may), and no rank is named. */
static void comm_judge(const struct past_calls *s, struct past_comm *c)
{
	struct vote v[VALUES_MAX];
	int n = votes_count(s, c, v), n_said = voters(v, n);
	uint64_t right = right_of(c, v, n);

	c->judged = n_said == c->nranks || (right && n_said < c->nranks);
	c->confidence = right ? MAJORITY : EVEN;
	c->n_odd = 0;
	if (!c->judged)
		c->odd_to = 0;
	for (struct past_member *o = s->members.all; o; o = o->keyed.next) {
		uint64_t hash = said_of(o, c);

		if (o->comm != c)
			continue;
		o->odd = c->judged && hash && hash != right;
		c->n_odd += o->odd;
	}
}

/* --- out --- */

static bool is_reported(const struct finding_list *found, uint64_t comm)
{
	for (size_t i = 0; i < found->n; i++)
		if (found->items[i].kind == FINDING_MISMATCH && found->items[i].comm == comm)
			return true;
	return false;
}

/* Where its environment does not say it, its communicators do. */
static int rank_of(const struct model *m, const struct past_member *o)
{
	const struct proc *p = model_proc(m, o->keyed.a);

	return p ? proc_rank(p) : o->rank;
}

static int report(const struct past_calls *s, const struct model *m, const struct past_comm *c,
		  struct finding_list *found)
{
	struct finding *f = finding_list_add(found);

	if (!f)
		return -ENOMEM;
	f->kind = FINDING_MISMATCH;
	f->subject = subject_comm(c->keyed.a, 0);
	finding_identify(f, "past_calls", 0, c->odd_to);
	f->comm = c->keyed.a;
	f->seq = c->odd_to - SPAN;
	f->since_ns = c->since_ns;
	f->confidence = c->confidence;
	f->cause = CAUSE_PAST_CALLS;
	for (const struct past_member *o = s->members.all; o; o = o->keyed.next)
		if (o->comm == c && o->odd)
			finding_add_rank(f, rank_of(m, o), o->keyed.a);
	finding_note_text(f, EVIDENCE_SEQ_IS, "the first of 64 operations, of which at least one differs");
	finding_note_text(f, EVIDENCE_KNOWN_FROM, "signatures");
	return 0;
}

static bool member_is_fresh(void *entry, const void *arg)
{
	return ((const struct past_member *)entry)->seen_ns + SILENT_NS > *(const uint64_t *)arg;
}

static bool comm_is_fresh(void *entry, const void *arg)
{
	return ((const struct past_comm *)entry)->seen_ns + SILENT_NS > *(const uint64_t *)arg;
}

/* A communicator is as fresh as its freshest member: none is left that points to one that is gone. */
static void forget(struct past_calls *s, uint64_t now_ns)
{
	if (now_ns < s->swept_ns + SILENT_NS)
		return;
	s->swept_ns = now_ns;
	keyed_keep(&s->members, member_is_fresh, &now_ns);
	keyed_keep(&s->comms, comm_is_fresh, &now_ns);
}

int past_calls_find(struct past_calls *s, const struct model *m, struct finding_list *found)
{
	const struct past_comm *first = NULL;

	forget(s, m->now_ns);
	for (struct past_comm *c = s->comms.all; c; c = c->keyed.next) {
		if (c->odd_to && m->now_ns > c->last_ns + HOLD_NS)
			c->odd_to = 0;
		if (c->odd_to && !c->judged && m->now_ns >= c->since_ns + GATHER_NS)
			comm_judge(s, c);
		if (c->odd_to && c->judged && c->n_odd && (!first || c->since_ns < first->since_ns))
			first = c;
	}
	return first && !is_reported(found, first->keyed.a) ? report(s, m, first, found) : 0;
}
