/* SPDX-License-Identifier: Apache-2.0
 *
 * slow_ranks.c - see slow_ranks.h. In a collective all end together, so the one whose operations are the shortest came
 * last: the others waited for it by what theirs were longer. Where it waited in another communicator or a Recv
 * meanwhile, it came late for that, and as much of it is not its own. That is the blame walk of a node, in sums over
 * seconds: own time is what is in no operation, and a rank is to blame for what its own time is more than its peers'.
 *
 * A pause is no habit: the sums are cut in three, and it is slow in each. Where several came late together (a stage of
 * a pipeline that has more to do, in the communicator of all), it is how the job is built, and no rank is named; but
 * for the ranks of one host, which are late together where that host is slow.
 */
#include "hub/slow_ranks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/larger.h"
#include "base/sorted.h"

#define PARTS 3
#define PART_LEAST 3 /* sums in a part, of a second each, */
#define PART_MOST 15 /* more where operations are rare, and then sums of several seconds: */
#define WIDTH_MOST 64
#define SUMS (PARTS * PART_MOST)
#define OPS_LEAST 8             /* of a member, in all parts */
#define OLD_NS 8000000000ull    /* reports that are older say nothing of now */
#define WINDOW_NS 3000000000ull /* between two reports, at most */
#define JUDGE_NS 1000000000ull
#define SLOW_SHARE 0.05  /* of the time, as on a node */
#define PART_SHARE 0.025 /* of each part */
#define STILL_SHARE 0.03 /* what was reported stays so */
#define ALONE 0.5        /* the next one is late by less than that share of it */
#define SLOW_OF_LAST 2   /* judgements, all of them */
#define STILL_OF_LAST 2  /* of the last five */
#define LAST 5
#define HELD_NS 600000000000ull /* what was reported and is not seen any more: probes go after a minute */

struct sum { /* of one report, or of all within the width */
	uint64_t at_ns, n, sum_ns, error_ns, recv_ns, window_ns;
};

struct slow_member { /* by process and address of the communicator */
	struct keyed keyed;
	uint64_t comm, raw_ns;
	int nranks, rank; /* of the communicator; the process' global one */
	struct sum *sums; /* [SUMS], a ring */
	uint64_t n_sums;
	bool growing; /* its newest sum is not whole */
	struct slow_proc *proc;
	struct slow_member *next, *next_of_proc; /* of its communicator */
	/* as last judged: how many operations a second; of each part and of all, how long one takes on average, and the
	 * share of the time that its process was in operations of any communicator */
	double a_second;
	struct bounds {
		double most, least; /* ends are seen late: true ones lie before by up to their error */
	} mean_s[PARTS + 1], in_ops[PARTS + 1];
	bool ended_in_each; /* part */
};

struct slow_comm { /* by its hash */
	struct keyed keyed;
	struct slow_member *members;
	int n, nranks;
};

struct slow_proc { /* by its key */
	struct keyed keyed;
	struct slow_member *members;
	double blame;       /* share of the time, of the communicator where it is most; 0: not to blame now */
	double seen, gap_s; /* the newest there was: share, and an operation: others wait for it so long */
	uint64_t comm, since_ns, judged_ns;
	int rank;
	unsigned int slow; /* a bit for each of the last judgements, the newest lowest */
	bool open, listed;
};

static void sums_free(const struct slow_ranks *s)
{
	for (struct slow_member *o = s->members.all; o; o = o->keyed.next)
		free(o->sums);
}

void slow_ranks_free(struct slow_ranks *s)
{
	sums_free(s);
	keyed_free(&s->members);
	keyed_free(&s->comms);
	keyed_free(&s->procs);
}

/* --- in --- */

static uint64_t width_ns(const struct slow_ranks *s)
{
	return (s->width_s ? s->width_s : 1) * 1000000000ull;
}

static void sum_join(struct sum *to, const struct sum *one)
{
	to->at_ns = one->at_ns > to->at_ns ? one->at_ns : to->at_ns;
	to->n += one->n;
	to->sum_ns += one->sum_ns;
	to->error_ns += one->error_ns;
	to->recv_ns += one->recv_ns;
	to->window_ns += one->window_ns;
}

/* Wider ones begin at the same times for all members. */
static void sum_put(const struct slow_ranks *s, struct slow_member *o, const struct sum *one)
{
	struct sum *last = o->n_sums ? &o->sums[(o->n_sums - 1) % SUMS] : NULL;

	if (last && s->width_s > 1 && last->at_ns / width_ns(s) == one->at_ns / width_ns(s))
		sum_join(last, one);
	else
		o->sums[o->n_sums++ % SUMS] = *one;
}

/* All that is kept, in sums of twice the width. */
static void sums_widen(struct slow_ranks *s)
{
	struct sum old[SUMS];

	if (s->width_s >= WIDTH_MOST)
		return;
	s->width_s = s->width_s > 1 ? 2 * s->width_s : 2;
	for (struct slow_member *o = s->members.all; o; o = o->keyed.next) {
		uint64_t n = o->n_sums < SUMS ? o->n_sums : SUMS, from = o->n_sums - n;

		for (uint64_t i = 0; i < n; i++)
			old[i] = o->sums[(from + i) % SUMS];
		o->n_sums = 0;
		for (uint64_t i = 0; i < n; i++)
			sum_put(s, o, &old[i]);
	}
}

static int member_take(struct slow_ranks *s, const struct host *h, const Cluster__NodeReport *r,
		       const Cluster__Process *p, const Cluster__Member *mb)
{
	struct slow_member *o = keyed_get(&s->members, proc_key(h->number, p->pid), mb->addr, sizeof(*o));
	uint64_t window_ns;

	if (o && !o->sums)
		o->sums = calloc(SUMS, sizeof(*o->sums));
	if (!o || !o->sums)
		return -ENOMEM;
	window_ns = r->now_ns > o->raw_ns ? r->now_ns - o->raw_ns : 0;
	if (o->comm != mb->hash || window_ns > WINDOW_NS)
		o->n_sums = 0;
	o->comm = mb->hash;
	o->nranks = mb->nranks;
	o->rank = p->rank;
	o->raw_ns = r->now_ns;
	if (window_ns <= WINDOW_NS)
		sum_put(s, o,
			&(struct sum){ h->at_ns, mb->ended, mb->ended_ns, mb->ended_error_ns, mb->transfers_ended_ns,
				       window_ns });
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

/* --- sums --- */

/* Of the `n` newest but the `from` newest. False: so many are not there. */
static bool sums_add(const struct slow_member *o, uint64_t from, uint64_t n, struct sum *ret)
{
	from += o->growing;
	*ret = (struct sum){ 0 };
	if (o->n_sums < from + n || from + n > SUMS)
		return false;
	for (uint64_t i = from; i < from + n; i++)
		sum_join(ret, &o->sums[(o->n_sums - 1 - i) % SUMS]);
	return ret->window_ns != 0;
}

static bool is_of_now(const struct slow_member *o, uint64_t now_ns)
{
	return o->n_sums && o->sums[(o->n_sums - 1) % SUMS].at_ns + OLD_NS >= now_ns;
}

/* Seconds of a part, for enough operations of this member; 0: too little is known of it. */
static uint64_t part_wanted(const struct slow_member *o, uint64_t now_ns)
{
	struct sum all;

	if (!is_of_now(o, now_ns))
		return 0;
	for (uint64_t n = PART_LEAST; n <= PART_MOST && sums_add(o, 0, PARTS * n, &all); n++)
		if (all.n >= OPS_LEAST)
			return n;
	return 0;
}

/* So many sums are there, and have too few operations. */
static bool is_too_rare(const struct slow_member *o)
{
	struct sum all;

	return o->n_sums > SUMS && sums_add(o, 0, SUMS - 1, &all) && all.n < OPS_LEAST;
}

/* Share of the time that its process was in operations of any communicator. False: not known of one. */
static bool in_ops_share(const struct slow_proc *p, uint64_t from, uint64_t n, struct bounds *ret)
{
	struct sum one;

	*ret = (struct bounds){ 0 };
	for (const struct slow_member *o = p->members; o; o = o->next_of_proc) {
		if (!sums_add(o, from, n, &one))
			return false;
		ret->most += (double)(one.sum_ns + one.recv_ns) / (double)one.window_ns;
		ret->least +=
			(double)(one.sum_ns - smaller(one.error_ns, one.sum_ns) + one.recv_ns) / (double)one.window_ns;
	}
	return true;
}

/* `k`: a part, or PARTS. */
static bool part_sum(struct slow_member *o, int k, uint64_t part)
{
	uint64_t from = k < PARTS ? k * part : 0, n = k < PARTS ? part : PARTS * part;
	struct sum all;

	if (!sums_add(o, from, n, &all) || !in_ops_share(o->proc, from, n, &o->in_ops[k]))
		return false;
	o->ended_in_each &= all.n != 0;
	o->mean_s[k] = (struct bounds){ 0 };
	if (all.n)
		o->mean_s[k] = (struct bounds){ all.sum_ns * 1e-9 / all.n,
						(all.sum_ns - smaller(all.error_ns, all.sum_ns)) * 1e-9 / all.n };
	o->a_second = all.n / (all.window_ns * 1e-9);
	return true;
}

/* All parts together last: how often is of these. */
static bool member_sum(struct slow_member *o, uint64_t part)
{
	o->ended_in_each = true;
	for (int k = 0; k <= PARTS; k++)
		if (!part_sum(o, k, part))
			return false;
	return o->a_second > 0;
}

/* --- a communicator --- */

static void lists_begin(struct slow_ranks *s)
{
	for (struct slow_comm *c = s->comms.all; c; c = c->keyed.next) {
		c->members = NULL;
		c->n = 0;
	}
	for (struct slow_proc *p = s->procs.all; p; p = p->keyed.next) {
		p->members = NULL;
		p->blame = 0;
		p->listed = false;
	}
}

static int comms_gather(struct slow_ranks *s, uint64_t now_ns)
{
	lists_begin(s);
	for (struct slow_member *o = s->members.all; o; o = o->keyed.next) {
		struct slow_comm *c;

		if (o->nranks < 2 || !is_of_now(o, now_ns))
			continue;
		c = keyed_get(&s->comms, o->comm, 0, sizeof(*c));
		o->proc = keyed_get(&s->procs, o->keyed.a, 0, sizeof(*o->proc));
		if (!c || !o->proc)
			return -ENOMEM;
		o->growing =
			s->width_s > 1 && o->sums[(o->n_sums - 1) % SUMS].at_ns / width_ns(s) == now_ns / width_ns(s);
		o->next = c->members;
		c->members = o;
		c->nranks = o->nranks;
		c->n++;
		o->next_of_proc = o->proc->members;
		o->proc->members = o;
		o->proc->listed = true;
		o->proc->rank = o->rank;
	}
	return 0;
}

/* Of all of it enough is known, for parts of one length. */
static bool comm_sum(const struct slow_comm *c, uint64_t now_ns)
{
	uint64_t part = 0, one;

	for (const struct slow_member *o = c->members; o; o = o->next) {
		one = part_wanted(o, now_ns);
		if (!one)
			return false;
		part = one > part ? one : part;
	}
	for (struct slow_member *o = c->members; o; o = o->next)
		if (!member_sum(o, part))
			return false;
	return true;
}

/* The median of all but the first: of the others, where that is the one that they are compared with. */
static double others_median(const double *sorted, int n)
{
	int at = 1 + (n - 1) / 2;

	return sorted[at < n ? at : n - 1];
}

/* By how much it is later than its peers, an operation. `surely`: the others waited for what theirs last at least, and
 * it for no more than its own last. `k`: a part, or PARTS. */
static double late_by(const struct slow_comm *c, const struct slow_member *who, int k, bool surely, double *room)
{
	int n = 0;

	for (const struct slow_member *o = c->members; o; o = o->next)
		if (o != who)
			room[n++] = surely ? o->mean_s[k].least : o->mean_s[k].most;
	return doubles_lower_median(room, n) - who->mean_s[k].most;
}

/* NULL: no single one is late. */
static struct slow_member *comm_latest(const struct slow_comm *c, double *sorted)
{
	struct slow_member *last = NULL;
	double median_s;
	int n = 0;

	for (struct slow_member *o = c->members; o; o = o->next) {
		sorted[n++] = o->mean_s[PARTS].most;
		if (!last || o->mean_s[PARTS].most < last->mean_s[PARTS].most)
			last = o;
	}
	doubles_sort(sorted, n);
	median_s = others_median(sorted, n);
	if (median_s <= sorted[0] || (n > 2 && median_s - sorted[1] > ALONE * (median_s - sorted[0])))
		return NULL;
	return last;
}

/* How much less of the time it is in operations than its peers; `surely`: at least. `k`: a part, or PARTS. */
static double own_more(const struct slow_comm *c, const struct slow_member *who, int k, bool surely, double *room)
{
	int n = 0;

	for (const struct slow_member *o = c->members; o; o = o->next)
		if (o != who)
			room[n++] = surely ? o->in_ops[k].least : o->in_ops[k].most;
	return doubles_lower_median(room, n) - who->in_ops[k].most;
}

/* Share of the time that it makes them wait. */
static double late_share(const struct slow_comm *c, const struct slow_member *who, int k, bool surely, double *room)
{
	double late = late_by(c, who, k, surely, room) * who->a_second, own = own_more(c, who, k, surely, room);

	return late < own ? late : own;
}

static bool is_late_in_each_part(const struct slow_comm *c, const struct slow_member *who, double *room)
{
	for (const struct slow_member *o = c->members; o; o = o->next)
		if (!o->ended_in_each)
			return false;
	for (int k = 0; k < PARTS; k++)
		if (late_share(c, who, k, true, room) < PART_SHARE)
			return false;
	return true;
}

/* To be named it must be sure, and so in each part; what was named stays so by what is seen. */
static void latest_judge(const struct slow_comm *c, const struct slow_member *who, double *room)
{
	struct slow_proc *p = who->proc;
	double blame = 0;

	if (p->open || is_late_in_each_part(c, who, room))
		blame = late_share(c, who, PARTS, !p->open, room);
	if (blame <= p->blame)
		return;
	p->blame = blame;
	p->seen = late_share(c, who, PARTS, false, room);
	p->gap_s = late_by(c, who, PARTS, false, room);
	p->comm = c->keyed.a;
}

/* *ret_judged: enough was known. */
static int comm_judge(const struct slow_comm *c, uint64_t now_ns, bool *ret_judged)
{
	struct slow_member *last;
	double *sorted;

	if (!c->n || c->n != c->nranks || !comm_sum(c, now_ns)) /* of some nothing is known: any of them may be late */
		return 0;
	*ret_judged = true;
	for (const struct slow_member *o = c->members; o; o = o->next)
		o->proc->judged_ns = now_ns;
	sorted = malloc((size_t)c->n * sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	last = comm_latest(c, sorted);
	if (last)
		latest_judge(c, last, sorted);
	free(sorted);
	return 0;
}

/* --- a rank --- */

static int count_last(unsigned int slow, int n)
{
	return __builtin_popcount(slow & ((1u << n) - 1));
}

static uint32_t host_of(const struct slow_proc *p)
{
	return (uint32_t)(p->keyed.a >> 32);
}

/* The host to blame: the most, and no other nearly as much, as where a replica of the job has longer sequences. 0:
 * none. */
static uint32_t host_alone(const struct slow_ranks *s)
{
	const struct slow_proc *most = NULL;

	for (const struct slow_proc *p = s->procs.all; p; p = p->keyed.next)
		if (p->blame > 0 && (!most || p->blame > most->blame))
			most = p;
	for (const struct slow_proc *p = s->procs.all; p && most; p = p->keyed.next)
		if (host_of(p) != host_of(most) && p->blame > ALONE * most->blame)
			return 0;
	return most ? host_of(most) : 0;
}

static void proc_judge(struct slow_proc *p, uint32_t host, uint64_t now_ns)
{
	if (p->judged_ns != now_ns && p->open) { /* nothing says that it is better */
		p->open = now_ns < p->judged_ns + HELD_NS;
		return;
	}
	p->slow = p->slow << 1 | (host_of(p) == host && p->blame >= (p->open ? STILL_SHARE : SLOW_SHARE));
	if (!p->open && count_last(p->slow, SLOW_OF_LAST) == SLOW_OF_LAST) {
		p->open = true;
		p->since_ns = now_ns - PARTS * PART_LEAST * JUDGE_NS;
	} else if (p->open && count_last(p->slow, LAST) < STILL_OF_LAST) {
		p->open = false;
	}
}

static bool is_fresh(void *entry, const void *arg)
{
	struct slow_member *o = entry;

	if (!o->n_sums || o->sums[(o->n_sums - 1) % SUMS].at_ns + 10 * OLD_NS > *(const uint64_t *)arg)
		return true;
	free(o->sums);
	return false;
}

static bool is_wanted(void *entry, const void *arg)
{
	const struct slow_proc *p = entry;
	const struct proc *of = model_proc(arg, p->keyed.a);

	return p->listed || (p->open && of && !of->dead);
}

static bool has_members(void *entry, const void *arg)
{
	(void)arg;
	return ((const struct slow_comm *)entry)->members != NULL;
}

static bool any_too_rare(const struct slow_ranks *s)
{
	for (const struct slow_member *o = s->members.all; o; o = o->keyed.next)
		if (o->nranks > 1 && is_too_rare(o))
			return true;
	return false;
}

static int all_judge(struct slow_ranks *s, const struct model *m)
{
	uint64_t now_ns = m->now_ns;
	int err = comms_gather(s, now_ns);
	bool judged = false;
	uint32_t host;

	for (const struct slow_comm *c = s->comms.all; c && !err; c = c->keyed.next)
		err = comm_judge(c, now_ns, &judged);
	if (!judged && any_too_rare(s))
		sums_widen(s);
	host = host_alone(s);
	for (struct slow_proc *p = s->procs.all; p; p = p->keyed.next)
		proc_judge(p, host, now_ns);
	keyed_keep(&s->members, is_fresh, &now_ns);
	keyed_keep(&s->comms, has_members, NULL);
	keyed_keep(&s->procs, is_wanted, m);
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

/* Ranks of one host that are slow together are one finding, and `first` is the first of them. */
static int report(const struct slow_ranks *s, const struct slow_proc *first, struct finding_list *found)
{
	struct finding *f = finding_list_add(found);

	if (!f)
		return -ENOMEM;
	f->kind = FINDING_STRAGGLER;
	f->subject = subject_rank(first->rank, first->keyed.a);
	finding_identify(f, "hub", 0, first->since_ns);
	f->cause = cause_of(found, first->keyed.a);
	f->since_ns = first->since_ns;
	f->confidence = 0.9;
	f->comm = first->comm;
	for (const struct slow_proc *p = s->procs.all; p; p = p->keyed.next)
		if (p->open && host_of(p) == host_of(first))
			finding_add_rank(f, p->rank, p->keyed.a);
	finding_note(f, EVIDENCE_BLAME_PERCENT, 100 * first->seen);
	finding_note(f, EVIDENCE_WHAT_IF_PERCENT, 100 * first->seen);
	finding_note(f, EVIDENCE_GAP_S, first->gap_s);
	finding_note(f, EVIDENCE_SLOW_OF_LAST_5, count_last(first->slow, LAST));
	finding_note_text(f, EVIDENCE_KNOWN_FROM, "durations");
	return 0;
}

/* The rank of least number that is slow on its host; NULL: what is found says something of the host's ranks already. */
static const struct slow_proc *first_of_host(const struct slow_ranks *s, const struct model *m, uint32_t host,
					     const struct finding_list *found)
{
	const struct slow_proc *first = NULL;

	for (const struct slow_proc *p = s->procs.all; p; p = p->keyed.next) {
		if (!p->open || host_of(p) != host)
			continue;
		if (!model_proc(m, p->keyed.a) || finding_list_of(found, FINDING_STRAGGLER, p->keyed.a) ||
		    finding_list_of(found, FINDING_HANG, p->keyed.a))
			return NULL;
		first = !first || p->rank < first->rank ? p : first;
	}
	return first;
}

int slow_ranks_find(struct slow_ranks *s, const struct model *m, struct finding_list *found)
{
	int err = 0;

	if (m->now_ns >= s->judged_ns + JUDGE_NS) {
		s->judged_ns = m->now_ns;
		err = all_judge(s, m);
	}
	for (const struct slow_proc *p = s->procs.all; p && !err; p = p->keyed.next)
		if (p->open && p == first_of_host(s, m, host_of(p), found))
			err = report(s, p, found);
	return err;
}
