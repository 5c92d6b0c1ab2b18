/* SPDX-License-Identifier: Apache-2.0
 *
 * slow_link.c - one way between two ranks on which data take much longer than on all others, while the job goes on: a
 * port or a link that is slow and loses nothing, so that no counter shows it. Where another way of one of the two ranks
 * is slow, too, it is that rank's port, else the link between the two. All ways slow alike is a busy network, and
 * reported by no rank. docs/findings.md.
 */
#include <errno.h>
#include <string.h>

#include "detect/detect.h"
#include "detect/transfer/stalled_transfer.h"
#include "detect/transfer/link_cause.h"
#include "detect/transfer/path_share.h"

#define SAMPLES_MIN 8
#define SLOW 0.2           /* of the time: a job that computes a lot has little under way even so */
#define SLOW_STILL 0.15    /* what was reported stays so */
#define REST 0.3           /* of ways that have to do with neither */
#define REST_FACTOR 6      /* and so many times less: */
#define REST_FACTOR_FULL 3 /* where data are under way nearly all the time it cannot be more by as much */
#define FULL 0.7
#define CHANCE 26               /* path_samples_differ() */
#define HALF 0.5                /* of the slowest: slow, too */
#define STANDS_NS 2000000000ull /* a job that does not move is a hang's */
#define RANKS_MIN 3             /* of two ranks none can be compared */
#define PORTS_COMPARED 256      /* of more ranks' ports the first so many */
#define SHARED_FACTOR 1.5       /* a port moves that much more than its peers': others use it */
#define SHARED_MIN_PER_S 1000000
#define CONFIDENCE_PORT 0.8
#define CONFIDENCE_LINK 0.7

struct reported {
	const struct comm *comm;
	const struct member *from, *to, *port;
	uint64_t since_ns;
};
struct slow_link {
	struct paths paths;
	struct reported reported;
};

struct verdict {
	const struct path *slow;
	const struct member *port; /* whose port it is; NULL: the link's */
	double share, rest;        /* the most of those that have to do with neither */
};

static bool touches(const struct path *p, const struct member *mb)
{
	return p->from == mb || p->to == mb;
}

/* All other ways of this rank are slow, too. */
static bool all_slow(const struct paths *s, const struct path *slow, const struct member *end, double share,
		     uint64_t now_ns)
{
	int n = 0;

	for (const struct path *p = paths_of(s, end->comm); p; p = p->next) {
		if (p == slow || !touches(p, end))
			continue;
		if (path_share(p, now_ns, SAMPLES_MIN) < HALF * share)
			return false;
		n++;
	}
	return n;
}

static const struct path *slowest(const struct paths *s, const struct comm *c, uint64_t now_ns)
{
	const struct path *best = NULL;
	double most = 0, share;

	for (const struct path *p = paths_of(s, c); p; p = p->next) {
		share = path_share(p, now_ns, SAMPLES_MIN);
		if (share < 0)
			return NULL;
		if (share > most) {
			most = share;
			best = p;
		}
	}
	return best;
}

static double rest_limit(double share)
{
	double limit = share / (share >= FULL ? REST_FACTOR_FULL : REST_FACTOR);

	return limit < REST ? limit : REST;
}

/* Ways that have to do with neither rank; and of those that have, one at least must be as it should: else all are slow.
 */
static bool others_well(const struct paths *s, struct verdict *v, uint64_t now_ns)
{
	bool one = false;
	double share, limit = rest_limit(v->share);

	for (const struct path *p = paths_of(s, v->slow->from->comm); p; p = p->next) {
		if (p == v->slow)
			continue;
		share = path_share(p, now_ns, SAMPLES_MIN);
		one |= share <= limit;
		if (touches(p, v->slow->from) || touches(p, v->slow->to))
			continue;
		v->rest = share > v->rest ? share : v->rest;
	}
	return one && v->rest <= limit;
}

/* The slow way, or those of the slow port, against all the others. */
static double differ(const struct paths *s, const struct verdict *v, uint64_t now_ns)
{
	struct path_samples sorts[2] = { 0 }, l;

	for (const struct path *p = paths_of(s, v->slow->from->comm); p; p = p->next) {
		bool slow = v->port ? touches(p, v->port) : p == v->slow;

		l = path_samples(p, now_ns);
		sorts[slow].n += l.n;
		sorts[slow].busy += l.busy;
	}
	return path_samples_differ(sorts[true], sorts[false]);
}

/* `was`: reported already. */
static bool judge(const struct paths *s, const struct comm *c, bool was, uint64_t now_ns, struct verdict *ret)
{
	bool from, to;

	*ret = (struct verdict){ .slow = slowest(s, c, now_ns) };
	if (!ret->slow)
		return false;
	ret->share = path_share(ret->slow, now_ns, SAMPLES_MIN);
	if (ret->share < (was ? SLOW_STILL : SLOW) || !others_well(s, ret, now_ns))
		return false;
	from = all_slow(s, ret->slow, ret->slow->from, ret->share, now_ns);
	to = all_slow(s, ret->slow, ret->slow->to, ret->share, now_ns);
	ret->port = from == to ? NULL : from ? ret->slow->from : ret->slow->to;
	return (!from || !to) && (was || differ(s, ret, now_ns) >= CHANCE);
}

/* A thread that has no CPU does not see that it is through. */
static bool thread_well(const struct member *mb)
{
	enum proxy_thread what = proxy_thread_judge(mb);

	return what != PROXY_STARVED && what != PROXY_ASLEEP && what != PROXY_BLOCKED && what != PROXY_STOPPED &&
	       what != PROXY_DEAD;
}

static bool goes_on(const struct model *m, const struct comm *c)
{
	uint64_t since_ns = transfers_unchanged_since(c, true);

	return !since_ns || m->now_ns < since_ns + STANDS_NS;
}

/* --- its port --- */

static bool has_queue_pair(const struct model *m, const struct port *port, const struct proc *p)
{
	for (const struct qp *q = m->qps.newest; q; q = q->next)
		if (q->proc == p && q->device == port->device && (!q->port || q->port == port->id.number) &&
		    q->dest_qpn && qp_alive(q))
			return true;
	return false;
}

/* The only one that the process has open, else (NCCL opens all) the only one on which it is connected; NULL: none, or
 * it is not known. */
static const struct port *port_of(const struct model *m, const struct member *mb)
{
	const struct port *open = NULL, *connected = NULL;
	int n_open = 0, n_connected = 0;

	for (const struct port *p = mb->proc->node->ports; p; p = p->next) {
		if (!port_has_proc(p, mb->proc))
			continue;
		n_open++;
		open = p;
		if (!has_queue_pair(m, p, mb->proc))
			continue;
		n_connected++;
		connected = p;
	}
	return n_open == 1 ? open : n_connected == 1 ? connected : NULL;
}

/* It may reach over RDMA: else what is under way is TCP's (tcp.c), of which others' traffic is known there. */
static bool on_rdma(const struct member *mb)
{
	for (const struct port *p = mb->proc->node->ports; p; p = p->next)
		if (port_has_proc(p, mb->proc) || !p->users.known)
			return true;
	return false;
}

static double bytes_per_s(const struct port *p)
{
	const struct port_sample *now = port_sample(p, 0),
				 *before = port_sample(
					 p, (p->n_samples < PORT_SAMPLES_KEPT ? p->n_samples : PORT_SAMPLES_KEPT) - 1);

	if (!now || !before || now->now.taken_ns <= before->now.taken_ns)
		return 0;
	return (port_grown(now, before, PORT_SENT_BYTES) + port_grown(now, before, PORT_RECEIVED_BYTES)) * 1e9 /
	       (now->now.taken_ns - before->now.taken_ns);
}

/* It moves more than any other port of the communicator's ranks: what is more is not this job's. */
static bool is_shared(const struct model *m, const struct comm *c, const struct member *mb, const struct member *peer)
{
	const struct port *mine = port_of(m, mb), *other;
	double most = 0, one;
	int n = 0;

	for (const struct member *o = c->members; mine && o && n < PORTS_COMPARED; o = o->next_in_comm, n++) {
		other = o == mb || o == peer || o->gone ? NULL : port_of(m, o);
		one = other && other != mine ? bytes_per_s(other) : 0;
		most = one > most ? one : most;
	}
	return mine && most > 0 && bytes_per_s(mine) >= SHARED_FACTOR * most && bytes_per_s(mine) >= SHARED_MIN_PER_S;
}

static void port_note(struct finding *f, const struct port *p)
{
	f->node = p->node->number;
	finding_note_text(f, EVIDENCE_DEVICE, p->device);
	finding_note(f, EVIDENCE_PORT, p->id.number);
	if (*p->netdev)
		finding_note_text(f, EVIDENCE_NETDEV, p->netdev);
	if (*p->pci)
		finding_note_text(f, EVIDENCE_PCI, p->pci);
}

/* --- emitting --- */

static void evidence_add(struct finding *f, const struct model *m, const struct verdict *v)
{
	const struct path *p = v->slow;
	const struct port *port = port_of(m, v->port ? v->port : p->from), *far = v->port ? NULL : port_of(m, p->to);

	if (port)
		port_note(f, port);
	if (far && far != port)
		finding_note_text(f, EVIDENCE_FAR_DEVICE, far->device);
	if (v->port)
		finding_note(f, EVIDENCE_RANK_USING, proc_rank(v->port->proc));
	finding_note(f, EVIDENCE_SENDER, proc_rank(p->from->proc));
	finding_note(f, EVIDENCE_RECEIVER, proc_rank(p->to->proc));
	finding_note(f, EVIDENCE_BUSY_PERCENT, 100 * v->share);
	finding_note(f, EVIDENCE_BUSY_PERCENT_ELSEWHERE, 100 * v->rest);
	finding_note_text(f, EVIDENCE_REMEDY,
			  "compare the rate and the errors of both ends' ports and the switch's; test the pair alone "
			  "(ib_write_bw)");
}

static struct subject subject_of(const struct model *m, const struct verdict *v)
{
	const struct proc *from = v->slow->from->proc, *to = v->slow->to->proc, *who;
	const struct port *p;

	if (!v->port)
		return subject_path_of_ranks(proc_rank(from), from->key, proc_rank(to), to->key);
	who = v->port->proc;
	p = port_of(m, v->port);
	return subject_port(who->node->number, p ? p->device : "", p ? p->id.number : 0, proc_rank(who), who->key);
}

static int report(const struct model *m, const struct reported *t, const struct verdict *v, struct finding_list *found)
{
	bool shared =
		is_shared(m, t->comm, v->slow->from, v->slow->to) || is_shared(m, t->comm, v->slow->to, v->slow->from);
	uint64_t cause = link_cause_key(m, found, v->slow->from->proc);
	struct finding *f;

	if (!cause)
		cause = link_cause_key(m, found, v->slow->to->proc);
	f = finding_list_add(found);
	if (!f)
		return -ENOMEM;
	f->kind = shared ? FINDING_OBSERVATION : FINDING_LINK;
	f->cause = shared ? CAUSE_SHARED_PORT : v->port ? CAUSE_SLOW_PORT : CAUSE_SLOW_PATH;
	f->comm = t->comm->hash;
	f->peer = -1;
	f->since_ns = t->since_ns;
	f->subject = subject_of(m, v);
	finding_identify(f, "slow_link", t->comm->hash, t->since_ns);
	f->caused_by_key = cause;
	f->confidence = v->port ? CONFIDENCE_PORT : CONFIDENCE_LINK;
	evidence_add(f, m, v);
	return 0;
}

/* Slow since: the oldest sample of the window at which something was on its way. */
static uint64_t since_of(const struct path *p, uint64_t now_ns)
{
	uint64_t since = now_ns;

	for (uint64_t i = 0; i < p->n_samples && i < PATH_SAMPLES; i++)
		if (p->busy[i] && p->samples_ns[i] + PATH_WINDOW_NS >= now_ns && p->samples_ns[i] < since)
			since = p->samples_ns[i];
	return since;
}

static bool is_same(const struct reported *t, const struct verdict *v)
{
	return t->from == v->slow->from && t->to == v->slow->to && t->port == v->port;
}

static int comm_tick(struct slow_link *s, const struct model *m, const struct comm *c, struct finding_list *found)
{
	bool was = s->reported.comm == c;
	struct verdict v;

	if (!goes_on(m, c) || !judge(&s->paths, c, was, m->now_ns, &v) || !thread_well(v.slow->from) ||
	    !thread_well(v.slow->to) || !on_rdma(v.slow->from)) {
		if (was)
			s->reported = (struct reported){ 0 };
		return 0;
	}
	if (s->reported.comm && !was) /* one is reported at a time: another communicator's ranks go the same ways */
		return 0;
	if (!was || !is_same(&s->reported, &v))
		s->reported = (struct reported){ c, v.slow->from, v.slow->to, v.port, since_of(v.slow, m->now_ns) };
	return report(m, &s->reported, &v, found);
}

static int slow_link_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct slow_link *s = state;
	bool still_there = false;
	int err = 0;

	paths_forget(&s->paths, m);
	for (const struct comm *c = m->comms; c; c = c->next)
		still_there |= c == s->reported.comm;
	if (!still_there)
		s->reported = (struct reported){ 0 };
	for (const struct comm *c = m->comms; c && !err; c = c->next) {
		if (c->nranks < RANKS_MIN || c->n_seen != c->nranks)
			continue;
		err = paths_take(&s->paths, c);
		err = err ? err : comm_tick(s, m, c, found);
	}
	return err;
}

static void slow_link_release(void *state)
{
	struct slow_link *s = state;

	paths_free(&s->paths);
}

const struct detector detector_slow_link = {
	.name = "slow_link",
	.help = "a port or a link on which data take much longer than between other ranks, by NCCL's proxies",
	.state_bytes = sizeof(struct slow_link),
	.release = slow_link_release,
	.tick = slow_link_tick,
};
