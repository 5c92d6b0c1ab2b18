/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu_starved.c - a CPU quota that delays training: the cgroup of a rank is throttled and the threads that call NCCL
 * wait for a CPU because of it, for seconds on end. Said of every rank it hits, for a quota on the whole job makes no
 * straggler; a rank that makes its peers wait is the straggler detector's. Waiting without a quota is reported only of
 * a straggler: on a busy machine everybody waits.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "detect/straggler/cause.h"
#include "detect/detect.h"
#include "detect/rank/forget.h"
#include "detect/straggler/history.h"

#define THROTTLED_SHARE 0.1 /* of the time, over a scan */
#define WAITS_SHARE 0.1     /* of the time a thread that calls NCCL is without a CPU */
#define HOLDS_NS 5000000000ull
#define SAMPLE_NS 1000000000ull

struct starved { /* a rank */
	struct keyed proc;
	uint64_t since_ns, sampled_ns; /* throttled since; 0 not */
	struct cost_rates rates;       /* of the last second */
};

struct cpu_starved {
	struct keyed_table ranks;
	struct keyed_table costs;
	struct forgetting forgetting;
};

/* Once a second, with the scans. */
static int rank_sample(struct cpu_starved *s, const struct model *m, const struct proc *p)
{
	struct starved *r = keyed_get(&s->ranks, p->key, 0, sizeof(*r));

	if (!r)
		return -ENOMEM;
	if (m->now_ns < r->sampled_ns + SAMPLE_NS)
		return 0;
	r->rates = cost_rates(&s->costs, m, p, m->now_ns - SAMPLE_NS);
	r->rates.behind = NULL; /* kept for longer than that text is good */
	if (r->rates.throttled < THROTTLED_SHARE || r->rates.cost[COST_RUNQ] < WAITS_SHARE)
		r->since_ns = 0;
	else if (!r->since_ns)
		r->since_ns = r->sampled_ns ? r->sampled_ns : m->now_ns;
	r->sampled_ns = m->now_ns;
	return cost_push(&s->costs, m, p);
}

/* What a straggler finding says of a rank is not said twice: the time until it ends does not count here. */
static void leave_to_straggler(struct starved *r, const struct model *m, const struct finding_list *found)
{
	const struct finding *slow = finding_list_of(found, FINDING_STRAGGLER, r->proc.a);

	if (r->since_ns && slow && slow->n_ranks == 1)
		r->since_ns = m->now_ns;
}

/* Throttled now and a rank of the job. */
static bool is_starved(const struct model *m, const struct starved *r, const struct job_id *job)
{
	const struct proc *p = model_proc(m, r->proc.a);

	return r->since_ns && p && !p->dead && p->job == job;
}

/* One finding a job, once the first of its ranks is throttled for long. */
static int job_report(struct cpu_starved *s, const struct model *m, const struct proc *first,
		      struct finding_list *found)
{
	const struct starved *worst = NULL, *r;
	uint64_t since_ns = UINT64_MAX;
	struct finding *f;

	for (r = s->ranks.all; r; r = r->proc.next) {
		if (!is_starved(m, r, first->job))
			continue;
		since_ns = r->since_ns < since_ns ? r->since_ns : since_ns;
		if (!worst || r->rates.cost[COST_RUNQ] > worst->rates.cost[COST_RUNQ])
			worst = r;
	}
	if (!worst || m->now_ns < since_ns + HOLDS_NS)
		return 0;
	f = finding_list_add(found);
	if (!f)
		return -ENOMEM;
	f->kind = FINDING_CPU_STARVED;
	f->subject = subject_job(first->job->name, first->job->nth, first->job->shown);
	finding_identify(f, "cpu_starved", 0, 0);
	f->cause = CAUSE_CGROUP_QUOTA;
	f->since_ns = since_ns;
	f->confidence = 0.95;
	for (r = s->ranks.all; r; r = r->proc.next)
		if (is_starved(m, r, first->job))
			finding_add_rank(f, proc_rank(model_proc(m, r->proc.a)), r->proc.a);
	finding_note(f, EVIDENCE_THROTTLED_SHARE, worst->rates.throttled);
	finding_note(f, EVIDENCE_QUOTA_CORES, worst->rates.quota_cores);
	finding_note(f, EVIDENCE_RUNQUEUE_WAIT_SHARE, worst->rates.cost[COST_RUNQ]);
	return 0;
}

static int cpu_starved_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct cpu_starved *s = state;
	const struct proc *p, *q;
	struct starved *r;
	int err = 0;

	procs_forget(&s->forgetting, &s->ranks, &s->costs, m);
	for (p = m->procs; p != m->past && !err; p = proc_next(p))
		if (p->throttle_seen_ns && rank_has_clock(p))
			err = rank_sample(s, m, p);
	for (r = s->ranks.all; r; r = r->proc.next)
		leave_to_straggler(r, m, found);
	for (p = m->procs; p && s->ranks.n && !err; p = proc_next(p)) {
		for (q = m->procs; q != p && q->job != p->job; q = q->next)
			;
		if (q == p) /* the first of its job */
			err = job_report(s, m, p, found);
	}
	return err;
}

static void cpu_starved_release(void *state)
{
	struct cpu_starved *s = state;

	keyed_free(&s->ranks);
	keyed_free(&s->costs);
}

const struct detector detector_cpu_starved = {
	.name = "cpu_starved",
	.help = "ranks that a CPU quota of their cgroup delays",
	.state_bytes = sizeof(struct cpu_starved),
	.release = cpu_starved_release,
	.tick = cpu_starved_tick,
};
