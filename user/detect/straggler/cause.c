/* SPDX-License-Identifier: Apache-2.0
 *
 * cause.c - the host's part in a rank's slowness. A cost counts when it exceeds the median of the healthy peers of the
 * role by 5 times their spread, and is the cause when that excess makes up a good part of the blame: on a loaded
 * machine every rank waits for CPUs.
 */
#include "detect/straggler/cause.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "model/storage/storage.h"
#define MADS 5.0
#define GAP_PART_NOTED 0.01 /* of the blame: worth a line of evidence */
#define GAP_PART_CAUSE 0.3  /* of the blame: the cause */
#define IO_FACTOR 3.0       /* times the peers' median, and at least: */
#define IO_BYTES_S 10e6
#define PERIOD_SEEN_MAX 512 /* operations read for who calls */
#define PEERS_MAX 8         /* to compare with: of more the first so many */
#define THROTTLED_PART 0.5
#define PRESSURE_NOTED 0.1 /* of the time some task waited */

static const struct {
	enum finding_cause cause;
	enum evidence_id own, usual;
} costs[COST_MAX] = {
	[COST_RUNQ] = { CAUSE_CPU_STARVED, EVIDENCE_RUNQUEUE_WAIT_SHARE, EVIDENCE_RUNQUEUE_WAIT_SHARE_PEERS },
	[COST_DISK] = { CAUSE_D_STATE, EVIDENCE_D_STATE_SHARE, EVIDENCE_D_STATE_SHARE_PEERS },
	[COST_STOPPED] = { CAUSE_STOPPED, EVIDENCE_STOPPED_SHARE, EVIDENCE_STOPPED_SHARE_PEERS },
	[COST_ALLOC] = { CAUSE_MEMORY_ALLOC, EVIDENCE_MEMORY_ALLOC_SHARE, EVIDENCE_MEMORY_ALLOC_SHARE_PEERS },
	[COST_FREE] = { CAUSE_MEMORY_FREE, EVIDENCE_MEMORY_FREE_SHARE, EVIDENCE_MEMORY_FREE_SHARE_PEERS },
	[COST_MODULE] = { CAUSE_MODULE_LOAD, EVIDENCE_MODULE_LOAD_SHARE, EVIDENCE_MODULE_LOAD_SHARE_PEERS },
	[COST_GRAPH] = { CAUSE_GRAPH_INSTANTIATE, EVIDENCE_GRAPH_INSTANTIATE_SHARE,
			 EVIDENCE_GRAPH_INSTANTIATE_SHARE_PEERS },
};

static const enum call_class class_of[COST_MAX] = {
	[COST_ALLOC] = CALL_ALLOC,
	[COST_FREE] = CALL_FREE,
	[COST_MODULE] = CALL_MODULE,
	[COST_GRAPH] = CALL_GRAPH,
};

/* --- sampling --- */

static void thread_take(struct cost_sample *s, const struct proc *p, uint32_t tid)
{
	const struct task *t = p->tasks;

	for (int i = 0; i < s->n_threads; i++)
		if (s->threads[i].tid == tid)
			return;
	while (t && t->tid != tid)
		t = t->next;
	if (!t || !t->seen_ns || s->n_threads == COST_CALLERS)
		return;
	s->threads[s->n_threads++] = (struct cost_thread){
		.tid = tid,
		.seen_ns = t->seen_ns,
		.preempted = t->preempted,
		.behind = t->preempted_by,
		.ns = { [COST_RUNQ] = t->wait_ns, [COST_DISK] = t->disk_ns, [COST_STOPPED] = t->stopped_ns },
	};
}

static struct cost_sample sample_of(const struct model *m, const struct proc *p)
{
	struct cost_sample s = { .at_ns = m->now_ns,
				 .ready_ns = p->ready_ns,
				 .io_bytes = p->io_bytes,
				 .io_seen_ns = p->io_seen_ns,
				 .throttled_ns = p->throttled_ns,
				 .throttle_seen_ns = p->throttle_seen_ns,
				 .quota_cores = p->quota_cores,
				 .phases = p->phase_totals };
	const struct op *op = p->last_op;

	memcpy(s.call_ns, p->call_ns, sizeof(s.call_ns));
	thread_take(&s, p, p->tgid);
	for (size_t i = 0; op && i < p->steps->period_ops && i < PERIOD_SEEN_MAX; i++, op = op->prev_in_proc)
		thread_take(&s, p, op->tid);
	return s;
}

int cost_push(struct keyed_table *histories, const struct model *m, const struct proc *p)
{
	struct cost_history *h = keyed_get(histories, p->key, 0, sizeof(*h));

	if (!h)
		return -ENOMEM;
	memmove(h->samples + 1, h->samples, (COSTS_KEPT - 1) * sizeof(*h->samples));
	h->samples[0] = sample_of(m, p);
	for (int i = 0; i < COST_CALLERS; i++)
		h->samples[0].threads[i].behind = NULL; /* a text of the model's: good in this tick alone */
	h->n += h->n < COSTS_KEPT;
	return 0;
}

/* --- rates --- */

static double rate(uint64_t now, uint64_t then, uint64_t now_ns, uint64_t then_ns)
{
	return then_ns && now_ns > then_ns && now >= then ? (double)(now - then) / (now_ns - then_ns) : -1;
}

static void add(double *to, double one)
{
	if (one >= 0)
		*to = *to < 0 ? one : *to + one;
}

static const struct cost_thread *thread_in(const struct cost_sample *s, uint32_t tid)
{
	for (int i = 0; i < s->n_threads; i++)
		if (s->threads[i].tid == tid)
			return &s->threads[i];
	return NULL;
}

/* `longest`: the wait of the thread that waited most so far; it says behind whom. */
static void thread_rates(struct cost_rates *r, const struct cost_thread *now, const struct cost_thread *then,
			 double *longest)
{
	double one;

	for (int k = COST_RUNQ; k <= COST_STOPPED; k++)
		add(&r->cost[k], rate(now->ns[k], then->ns[k], now->seen_ns, then->seen_ns));
	one = rate(now->preempted, then->preempted, now->seen_ns, then->seen_ns);
	add(&r->preempted_per_s, one < 0 ? -1 : 1e9 * one);
	one = rate(now->ns[COST_RUNQ], then->ns[COST_RUNQ], now->seen_ns, then->seen_ns);
	if (one > *longest) {
		*longest = one;
		r->behind = now->behind;
	}
}

/* Reported from the first time a quota is seen, as a total since the process was: nothing reported is nothing
 * throttled. */
static double throttled_rate(const struct cost_sample *now, const struct cost_sample *then)
{
	uint64_t from_ns = then->throttle_seen_ns ? then->throttle_seen_ns : then->at_ns;

	return now->throttle_seen_ns ? rate(now->throttled_ns, then->throttled_ns, now->throttle_seen_ns, from_ns) : -1;
}

/* The newest sample that lies before `since_ns` by the scans in it; the oldest one if none does. */
static const struct cost_sample *sample_before(const struct cost_history *h, uint64_t since_ns)
{
	for (int i = 0; i < h->n; i++)
		if (h->samples[i].n_threads && h->samples[i].threads[0].seen_ns <= since_ns)
			return &h->samples[i];
	return h->n ? &h->samples[h->n - 1] : NULL;
}

/* All the time since then? Without its probes a rank that makes such calls looks as if it made none. */
static bool calls_seen(const struct proc *p, uint64_t since_ns)
{
	return !(p->shed >> PROBES_CALLS & 1) && p->calls_shed_ns <= since_ns;
}

struct cost_rates cost_rates(const struct keyed_table *histories, const struct model *m, const struct proc *p,
			     uint64_t since_ns)
{
	struct cost_rates r = {
		.throttled = -1,
		.preempted_per_s = -1,
		.io_bytes_s = -1,
		.ready = -1,
		.quota_cores = p->quota_cores,
	};
	const struct cost_history *h = keyed_find(histories, p->key, 0);
	const struct cost_sample *then = h ? sample_before(h, since_ns) : NULL, now = sample_of(m, p);
	double longest = 0;

	for (int k = 0; k < COST_MAX; k++)
		r.cost[k] = -1;
	if (!then)
		return r;
	for (int i = 0; i < now.n_threads; i++) {
		const struct cost_thread *old = thread_in(then, now.threads[i].tid);

		if (old)
			thread_rates(&r, &now.threads[i], old, &longest);
	}
	for (int k = COST_ALLOC; k < COST_MAX && calls_seen(p, then->at_ns); k++)
		r.cost[k] = rate(now.call_ns[class_of[k]], then->call_ns[class_of[k]], now.at_ns, then->at_ns);
	r.phases = phase_mean(&then->phases, &now.phases);
	r.throttled = throttled_rate(&now, then);
	r.ready = rate(now.ready_ns, then->ready_ns, now.at_ns, then->at_ns);
	r.io_bytes_s = rate(now.io_bytes, then->io_bytes, now.io_seen_ns, then->io_seen_ns);
	r.io_bytes_s = r.io_bytes_s < 0 ? -1 : 1e9 * r.io_bytes_s;
	return r;
}

/* --- comparison --- */

/* By how much `mine` stands out from what is usual; 0: it does not. Without anybody to compare with nothing does. */
static double excess_of(double mine, double *usual, int n, double *ret_median)
{
	double mad;

	*ret_median = -1;
	if (mine < 0 || !n)
		return 0;
	*ret_median = doubles_median(usual, n);
	for (int i = 0; i < n; i++)
		usual[i] = usual[i] > *ret_median ? usual[i] - *ret_median : *ret_median - usual[i];
	mad = doubles_median(usual, n);
	return mine > *ret_median + MADS * mad ? mine - *ret_median : 0;
}

static double cost_excess(const struct cost_rates *own, const struct cost_rates *peers, int n_peers, int k,
			  double *ret_median)
{
	double usual[PEERS_MAX];
	int n = 0;

	for (int i = 0; i < n_peers && n < PEERS_MAX; i++)
		if (peers[i].cost[k] >= 0)
			usual[n++] = peers[i].cost[k];
	return excess_of(own->cost[k], usual, n, ret_median);
}

/* Bytes show no time: only where nothing else explains the blame, and far beyond what peers move. */
static bool moves_more(const struct cost_rates *own, const struct cost_rates *peers, int n_peers, double *ret_median)
{
	double usual[PEERS_MAX], excess;
	int n = 0;

	for (int i = 0; i < n_peers && n < PEERS_MAX; i++)
		if (peers[i].io_bytes_s >= 0)
			usual[n++] = peers[i].io_bytes_s;
	excess = excess_of(own->io_bytes_s, usual, n, ret_median);
	return excess > 0 && own->io_bytes_s > IO_FACTOR * *ret_median && own->io_bytes_s > IO_BYTES_S;
}

static struct phase_reason phase_of(const struct cost_rates *own, const struct cost_rates *peers, int n_peers,
				    double blame_share)
{
	struct phase_mean others[PEERS_MAX], usual;
	int n = 0;

	for (; n < n_peers && n < PEERS_MAX; n++)
		others[n] = peers[n].phases;
	usual = phase_median(others, n, own->phases.by);
	return phase_reason(&own->phases, &usual, blame_share * own->phases.step_s);
}

struct host_cause host_cause(const struct cost_rates *own, const struct cost_rates *peers, int n_peers,
			     double blame_share)
{
	struct host_cause c = { .own = *own, .phase = phase_of(own, peers, n_peers, blame_share) };
	double excess;

	for (int k = 0; k < COST_MAX; k++) {
		excess = cost_excess(own, peers, n_peers, k, &c.usual.cost[k]);
		if (excess < GAP_PART_NOTED * blame_share && k != COST_RUNQ)
			c.own.cost[k] = -1;
		if (excess >= GAP_PART_CAUSE * blame_share && excess > c.excess) {
			c.excess = excess;
			c.cause = costs[k].cause;
		}
	}
	if (!moves_more(own, peers, n_peers, &c.usual.io_bytes_s))
		c.own.io_bytes_s = -1;
	else if (!c.cause)
		c.cause = CAUSE_IO;
	if (!c.cause)
		c.cause = phase_reason_cause(&c.phase);
	return c;
}

bool cost_may_be_luck(const struct cost_rates *own, double blame_share)
{
	return own->ready >= GAP_PART_CAUSE * blame_share;
}

void host_cause_note(struct finding *f, const struct host_cause *c, const struct proc *p)
{
	phase_reason_note(f, &c->phase, p ? storage_mount(p, c->phase.storage_at) : "");
	for (int k = 0; k < COST_MAX; k++) {
		if (c->own.cost[k] < 0)
			continue;
		finding_note(f, costs[k].own, c->own.cost[k]);
		if (c->usual.cost[k] >= 0)
			finding_note(f, costs[k].usual, c->usual.cost[k]);
	}
	if (c->own.preempted_per_s > 0)
		finding_note(f, EVIDENCE_PREEMPTED_PER_S, c->own.preempted_per_s);
	if (c->own.throttled <
	    THROTTLED_PART * c->own.cost[COST_RUNQ]) /* else it waited for its quota, not behind a task */
		finding_note_text(f, EVIDENCE_PREEMPTED_BY, c->own.behind);
	if (c->own.throttled > 0)
		finding_note(f, EVIDENCE_THROTTLED_SHARE, c->own.throttled);
	if (c->own.quota_cores > 0)
		finding_note(f, EVIDENCE_QUOTA_CORES, c->own.quota_cores);
	if (c->own.io_bytes_s > 0)
		finding_note(f, EVIDENCE_IO_BYTES_PER_S, c->own.io_bytes_s);
}

static double pressure_share(const struct pressure *p, int resource)
{
	if (!p->prev_ns || p->ts_ns <= p->prev_ns || !(p->now.known >> 2 * resource & 1) ||
	    p->now.stall_ns[resource][0] < p->prev.stall_ns[resource][0])
		return 0;
	return (double)(p->now.stall_ns[resource][0] - p->prev.stall_ns[resource][0]) / (p->ts_ns - p->prev_ns);
}

void pressure_note(struct finding *f, const struct proc *p)
{
	static const enum evidence_id host[] = { EVIDENCE_HOST_CPU_PRESSURE_SHARE, EVIDENCE_HOST_MEMORY_PRESSURE_SHARE,
						 EVIDENCE_HOST_IO_PRESSURE_SHARE };
	static const enum evidence_id cgroup[] = { EVIDENCE_CGROUP_CPU_PRESSURE_SHARE,
						   EVIDENCE_CGROUP_MEMORY_PRESSURE_SHARE,
						   EVIDENCE_CGROUP_IO_PRESSURE_SHARE };

	for (int r = 0; r < 3; r++) {
		if (pressure_share(&p->node->pressure, r) > PRESSURE_NOTED)
			finding_note(f, host[r], pressure_share(&p->node->pressure, r));
		if (pressure_share(&p->pressure, r) > PRESSURE_NOTED)
			finding_note(f, cgroup[r], pressure_share(&p->pressure, r));
	}
}
