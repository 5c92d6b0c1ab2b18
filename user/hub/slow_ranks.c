/* SPDX-License-Identifier: Apache-2.0
 *
 * slow_ranks.c - see slow_ranks.h. In a collective all end together, so the one whose operations are the shortest came
 * last: the others waited for it by what theirs were longer. Where it waited in another communicator meanwhile, it came
 * late for that, and as much of it is not its own. That is the blame walk of a node, in sums over seconds.
 *
 * Where several came late together (a stage of a pipeline that has more to do, in the communicator of all), it is how
 * the job is built, and no rank is named.
 */
#include "hub/slow_ranks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"

#define SECONDS 5               /* that are summed up */
#define OLD_NS 8000000000ull    /* reports that are older say nothing of now */
#define WINDOW_NS 3000000000ull /* between two reports, at most */
#define JUDGE_NS 1000000000ull
#define OPS_LEAST 5      /* of a member, in that time */
#define SLOW_SHARE 0.05  /* of the time, as on a node */
#define STILL_SHARE 0.03 /* what was reported stays so */
#define ALONE 0.5        /* the next one is late by less than that share of it */
#define SLOW_OF_LAST 4   /* of the last five judgements */
#define STILL_OF_LAST 2

struct second { /* one report */
	uint64_t at_ns, n, sum_ns, error_ns, window_ns;
};

struct slow_member { /* by process and address of the communicator */
	struct keyed keyed;
	uint64_t comm, raw_ns;
	int nranks, rank; /* of the communicator; the process' global one */
	struct second seconds[SECONDS];
	uint64_t n_seconds;
	double mean_s, error_s, n, window_s; /* of an operation; as last judged */
	struct slow_member *next;            /* of its communicator */
};

struct slow_comm { /* by its hash */
	struct keyed keyed;
	struct slow_member *members;
	int n, nranks;
};

struct slow_proc { /* by its key */
	struct keyed keyed;
	double late, waited; /* shares of the time: most in one communicator; in all */
	double late_waited;  /* of it, in that one */
	double gap_s, op_s;  /* an operation there: others wait for it; they last */
	uint64_t comm, since_ns;
	int rank;
	unsigned int slow; /* a bit for each of the last judgements, the newest lowest */
	bool open, seen;
};

void slow_ranks_free(struct slow_ranks *s)
{
	keyed_free(&s->members);
	keyed_free(&s->comms);
	keyed_free(&s->procs);
}

/* --- in --- */

static int member_take(struct slow_ranks *s, const struct host *h, const Cluster__NodeReport *r,
		       const Cluster__Process *p, const Cluster__Member *mb)
{
	struct slow_member *o = keyed_get(&s->members, proc_key(h->number, p->pid), mb->addr, sizeof(*o));
	uint64_t window_ns;

	if (!o)
		return -ENOMEM;
	window_ns = r->now_ns > o->raw_ns ? r->now_ns - o->raw_ns : 0;
	if (o->comm != mb->hash || window_ns > WINDOW_NS)
		o->n_seconds = 0;
	o->comm = mb->hash;
	o->nranks = mb->nranks;
	o->rank = p->rank;
	o->raw_ns = r->now_ns;
	if (window_ns <= WINDOW_NS)
		o->seconds[o->n_seconds++ % SECONDS] =
			(struct second){ h->at_ns, mb->ended, mb->ended_ns, mb->ended_error_ns, window_ns };
	return 0;
}

int slow_ranks_take(struct slow_ranks *s, const struct host *h, const Cluster__NodeReport *r, const char *job)
{
	int err = 0;

	for (size_t i = 0; i < r->n_processes; i++) {
		const Cluster__Process *p = r->processes[i];

		if (strcmp(p->job ? p->job : "", job) || p->dead)
			continue;
		for (size_t k = 0; k < p->n_comms && !err; k++)
			if (p->comms[k]->has_ended)
				err = member_take(s, h, r, p, p->comms[k]);
	}
	return err;
}

/* --- a communicator --- */

/* False: of the last seconds too little is known. */
static bool member_sum(struct slow_member *o, uint64_t now_ns)
{
	uint64_t n = 0, sum_ns = 0, error_ns = 0, window_ns = 0;

	if (o->n_seconds < SECONDS)
		return false;
	for (int i = 0; i < SECONDS; i++) {
		const struct second *one = &o->seconds[i];

		if (one->at_ns + OLD_NS < now_ns)
			return false;
		n += one->n;
		sum_ns += one->sum_ns;
		error_ns += one->error_ns;
		window_ns += one->window_ns;
	}
	if (n < OPS_LEAST || !window_ns)
		return false;
	o->n = (double)n;
	o->mean_s = sum_ns * 1e-9 / n;
	o->error_s = error_ns * 1e-9 / n;
	o->window_s = window_ns * 1e-9;
	return true;
}

static int comms_gather(struct slow_ranks *s, uint64_t now_ns)
{
	for (struct slow_comm *c = s->comms.all; c; c = c->keyed.next) {
		c->members = NULL;
		c->n = 0;
	}
	for (struct slow_member *o = s->members.all; o; o = o->keyed.next) {
		struct slow_comm *c;

		if (o->nranks < 2 || !member_sum(o, now_ns))
			continue;
		c = keyed_get(&s->comms, o->comm, 0, sizeof(*c));
		if (!c)
			return -ENOMEM;
		o->next = c->members;
		c->members = o;
		c->nranks = o->nranks;
		c->n++;
	}
	return 0;
}

struct late { /* the last arriver of a communicator */
	const struct slow_member *who;
	double by_s;     /* an operation */
	double median_s; /* the others' */
};

/* *ret_sorted: mean durations, ascending. who NULL: no single one is late beyond what is known. */
static struct late comm_latest(const struct slow_comm *c, double *sorted)
{
	struct late l = { 0 };
	double error_s = 0;
	int n = 0;

	for (const struct slow_member *o = c->members; o; o = o->next) {
		sorted[n++] = o->mean_s;
		error_s = o->error_s > error_s ? o->error_s : error_s;
		if (!l.who || o->mean_s < l.who->mean_s)
			l.who = o;
	}
	doubles_sort(sorted, n);
	l.median_s = sorted[1 + (n - 1) / 2 < n ? 1 + (n - 1) / 2 : n - 1]; /* of all but the first */
	l.by_s = l.median_s - sorted[0];
	if (l.by_s <= 2 * error_s || (n > 2 && l.median_s - sorted[1] > ALONE * l.by_s))
		l.who = NULL;
	return l;
}

static int comm_judge(struct slow_ranks *s, const struct slow_comm *c)
{
	double *sorted = c->n == c->nranks ? malloc(c->n * sizeof(*sorted)) : NULL;
	struct late l;
	int err = 0;

	if (!sorted)
		return c->n == c->nranks ? -ENOMEM : 0; /* of some nothing is known: any of them may be late */
	l = comm_latest(c, sorted);
	for (const struct slow_member *o = c->members; o && !err; o = o->next) {
		struct slow_proc *p = keyed_get(&s->procs, o->keyed.a, 0, sizeof(*p));
		double late = o == l.who ? l.by_s * o->n / o->window_s : 0;
		double waited = p ? (o->mean_s - sorted[0]) * o->n / o->window_s : 0;

		err = p ? 0 : -ENOMEM;
		if (err)
			break;
		p->seen = true;
		p->rank = o->rank;
		p->waited += waited;
		if (late <= p->late)
			continue;
		p->late = late;
		p->late_waited = waited;
		p->gap_s = l.by_s;
		p->op_s = l.median_s;
		p->comm = o->comm;
	}
	free(sorted);
	return err;
}

/* --- a rank --- */

static int count_last(unsigned int slow)
{
	return __builtin_popcount(slow & ((1u << SECONDS) - 1));
}

/* What it waited for others elsewhere is not its own. */
static double blame(const struct slow_proc *p)
{
	return p->late - (p->waited - p->late_waited);
}

static void proc_judge(struct slow_proc *p, uint64_t now_ns)
{
	p->slow = p->slow << 1 | (blame(p) >= (p->open ? STILL_SHARE : SLOW_SHARE));
	if (!p->open && count_last(p->slow) >= SLOW_OF_LAST) {
		p->open = true;
		p->since_ns = now_ns - SECONDS * JUDGE_NS;
	} else if (p->open && count_last(p->slow) < STILL_OF_LAST) {
		p->open = false;
	}
}

static bool is_fresh(void *entry, const void *arg)
{
	const struct slow_member *o = entry;

	return !o->n_seconds || o->seconds[(o->n_seconds - 1) % SECONDS].at_ns + 10 * OLD_NS > *(const uint64_t *)arg;
}

static bool was_seen(void *entry, const void *arg)
{
	(void)arg;
	return ((const struct slow_proc *)entry)->seen;
}

static bool has_members(void *entry, const void *arg)
{
	(void)arg;
	return ((const struct slow_comm *)entry)->members != NULL;
}

static int all_judge(struct slow_ranks *s, uint64_t now_ns)
{
	int err = comms_gather(s, now_ns);

	for (struct slow_proc *p = s->procs.all; p; p = p->keyed.next) {
		p->late = p->waited = p->late_waited = 0;
		p->seen = false;
	}
	for (struct slow_comm *c = s->comms.all; c && !err; c = c->keyed.next)
		err = comm_judge(s, c);
	for (struct slow_proc *p = s->procs.all; p; p = p->keyed.next)
		proc_judge(p, now_ns);
	keyed_keep(&s->members, is_fresh, &now_ns);
	keyed_keep(&s->comms, has_members, NULL);
	keyed_keep(&s->procs, was_seen, NULL);
	return err;
}

/* --- out --- */

/* A node's finding says why, where there is one. */
static enum finding_cause cause_of(const struct finding_list *found, uint64_t proc)
{
	return finding_list_of(found, FINDING_D_STATE, proc)       ? CAUSE_D_STATE
	       : finding_list_of(found, FINDING_CPU_STARVED, proc) ? CAUSE_CPU_STARVED
	       : finding_list_of(found, FINDING_IO_STALL, proc)    ? CAUSE_IO
	       : finding_list_of(found, FINDING_XID, proc)         ? CAUSE_GPU_XID
								   : CAUSE_GPU_OR_UNKNOWN;
}

static int report(const struct slow_proc *p, struct finding_list *found)
{
	struct finding *f = finding_list_add(found);
	uint64_t key = p->keyed.a;

	if (!f)
		return -ENOMEM;
	f->kind = FINDING_STRAGGLER;
	f->subject = subject_rank(p->rank, key);
	finding_identify(f, "hub", 0, p->since_ns);
	f->cause = cause_of(found, key);
	f->since_ns = p->since_ns;
	f->confidence = 0.9;
	f->comm = p->comm;
	finding_add_rank(f, p->rank, key);
	finding_note(f, EVIDENCE_BLAME_PERCENT, 100 * blame(p));
	finding_note(f, EVIDENCE_WHAT_IF_PERCENT, 100 * blame(p));
	finding_note(f, EVIDENCE_GAP_S, p->gap_s);
	finding_note(f, EVIDENCE_SLOW_OF_LAST_5, count_last(p->slow));
	finding_note_text(f, EVIDENCE_KNOWN_FROM, "durations");
	return 0;
}

int slow_ranks_find(struct slow_ranks *s, const struct model *m, struct finding_list *found)
{
	int err = 0;

	if (m->now_ns >= s->judged_ns + JUDGE_NS) {
		s->judged_ns = m->now_ns;
		err = all_judge(s, m->now_ns);
	}
	for (const struct slow_proc *p = s->procs.all; p && !err; p = p->keyed.next)
		if (p->open && model_proc(m, p->keyed.a) && !finding_list_of(found, FINDING_STRAGGLER, p->keyed.a) &&
		    !finding_list_of(found, FINDING_HANG, p->keyed.a))
			err = report(p, found);
	return err;
}
