/* SPDX-License-Identifier: Apache-2.0
 *
 * straggler.c - cuts the job into iterations, walks the blame of each and names who earns it again and again. Blame on
 * most of a role is structure, not a culprit; iterations in which something hung or was blocked do not count.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "detect/detect.h"
#include "detect/gpu/gpu_cause.h"
#include "detect/rank/forget.h"
#include "detect/rank/seats.h"
#include "detect/straggler/history.h"

#define USUAL_OVER 50 /* iterations */
#define WINDOW_S \
	0.2 /* shorter iterations are summed up to that: single ones are the host's jitter, and a name takes 1 s */
#define NOTHING_SHARE 1e-4
/* A set of which no rank is known to be the one: what is over before somebody has read it is no help. */
#define SET_HELD_NS 3000000000ull

struct straggler {
	struct keyed_table jobs;
	struct forgetting forgetting;
	uint64_t disturbed_from_ns, disturbed_to_ns;
	struct blames scratch;
};

static void history_clear(struct job_clock *j)
{
	struct blamed *b;

	while ((b = j->blamed)) {
		j->blamed = b->next;
		blamed_free(b);
	}
	keyed_free(&j->costs);
	j->n = 0;
	j->window_open = false;
	j->last_ns = 0;
}

static void clock_release(void *entry)
{
	history_clear(entry);
}

static struct job_clock *job_of(struct straggler *s, const struct job_id *job)
{
	struct job_clock *j = keyed_get(&s->jobs, (uintptr_t)job, 0, sizeof(*j));

	if (j)
		j->job = job;
	return j;
}

/* --- one iteration --- */

static struct blamed *blamed_of(struct job_clock *j, const struct blames *all, const struct blame *b)
{
	struct blamed *d;

	for (d = j->blamed; d; d = d->next)
		if (d->key == b->key)
			return d;
	d = blamed_new(all, b);
	if (!d)
		return NULL;
	d->next = j->blamed;
	j->blamed = d;
	return d;
}

/* Who earned nothing in the whole history is not named. */
static void blamed_prune(struct job_clock *j)
{
	struct blamed **link = &j->blamed, *d;
	double sum;

	while ((d = *link)) {
		sum = 0;
		for (int i = 0; i < HISTORY; i++)
			sum += d->share[i];
		if (sum > 0 || d->usual_share > NOTHING_SHARE || d->open_since_ns) {
			link = &d->next;
			continue;
		}
		*link = d->next;
		blamed_free(d);
	}
}

static bool disturbed(const struct straggler *s, uint64_t begin, uint64_t end)
{
	return s->disturbed_to_ns >= begin && s->disturbed_from_ns <= end;
}

/* The blame of one iteration joins the open window. */
static void window_add(struct job_clock *j, const struct blames *b, double step_s, int at)
{
	struct blamed *d;

	j->step_s[at] += step_s;
	j->iterations[at]++;
	for (int i = 0; i < b->n; i++) {
		d = blamed_of(j, b, &b->items[i]);
		if (!d)
			continue;
		d->gap_s[at] += b->items[i].gap_s;
		d->n_slow += b->items[i].gap_s >= SLOW_SHARE * step_s;
	}
}

static void window_begin(struct job_clock *j, uint64_t begin_ns, int at)
{
	j->window_open = true;
	j->iterations[at] = 0;
	j->step_s[at] = 0;
	j->begin_ns[at] = begin_ns;
	for (struct blamed *d = j->blamed; d; d = d->next) {
		d->share[at] = d->gap_s[at] = d->n_slow = 0;
		d->slow[at] = false;
	}
	blamed_prune(j);
}

static int window_end(struct job_clock *j, const struct model *m, int at)
{
	int err = 0;

	j->window_open = false;
	for (struct blamed *d = j->blamed; d; d = d->next) {
		d->share[at] = d->gap_s[at] / j->step_s[at];
		d->slow[at] = 2 * d->n_slow > j->iterations[at] && d->share[at] >= SLOW_SHARE;
		if (!d->open_since_ns)
			d->usual_share += (d->share[at] - d->usual_share) / (j->n < USUAL_OVER ? j->n + 1 : USUAL_OVER);
	}
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p))
		if (rank_has_clock(p) && p->job == j->job)
			err = err ? err : cost_push(&j->costs, m, p);
	j->n++;
	return err;
}

static int iteration_take(struct straggler *s, struct job_clock *j, const struct model *m, const struct op *end)
{
	uint64_t begin = j->last_ns, now = end->enqueue_ns;
	double step_s = (now - begin) * 1e-9;
	const struct op *before = end;
	int at = j->n % HISTORY, err;

	for (size_t i = 0; before && i < j->period; i++)
		before = before->prev_in_proc;
	j->last_ns = now;
	if (!before || !begin || now <= begin || disturbed(s, begin, now)) {
		j->window_open = false;
		return 0;
	}
	err = blame_walk(m, before, end, step_s, &s->scratch);
	if (err)
		return err;
	if (!j->window_open)
		window_begin(j, begin, at);
	window_add(j, &s->scratch, step_s, at);
	return j->step_s[at] >= WINDOW_S ? window_end(j, m, at) : 0;
}

static uint64_t pause_ns(const struct op *op)
{
	return op->next_in_proc ? op->next_in_proc->call_ns - op->call_ns : 0;
}

/* Where to cut: behind the collective that most ranks take part in, of several the one with the longest pause behind.
 */
static uint64_t end_index_of(const struct proc *p)
{
	const struct op *op = p->last_op, *best = NULL;

	for (size_t i = 0; op && i < p->steps->period_ops + 1; i++, op = op->prev_in_proc) {
		if (!op_kind_counted(op->kind))
			continue;
		if (!best || op->member->comm->n_seen > best->member->comm->n_seen ||
		    (op->member->comm->n_seen == best->member->comm->n_seen && pause_ns(op) > pause_ns(best)))
			best = op;
	}
	/* lint: called with a period and an operation */
	return (best ? best : p->last_op)->nth % p->steps->period_ops;
}

static bool ends_iteration(const struct job_clock *j, const struct op *op)
{
	return op->nth % j->period == j->end_index;
}

/* New iterations of the anchor, oldest first. One whose end is not known yet waits, as long as no later one is over. */
static int iterations_take(struct straggler *s, struct job_clock *j, const struct model *m, const struct proc *p)
{
	const struct op *op = p->last_op, *newest_over = NULL;
	int err = 0;

	for (; op && op->nth >= j->done_n; op = op->prev_in_proc) {
		if (!newest_over && op->end_ns && ends_iteration(j, op))
			newest_over = op;
		if (!op->prev_in_proc)
			break;
	}
	if (!newest_over || newest_over->nth < j->done_n)
		return 0;
	for (; op; op = op->next_in_proc) {
		if (op->nth >= j->done_n && ends_iteration(j, op) && op->end_ns)
			err = err ? err : iteration_take(s, j, m, op);
		if (op == newest_over)
			break;
	}
	j->done_n = newest_over->nth + 1;
	return err;
}

/* --- the verdict --- */

static struct subject subject_of(const struct model *m, const struct blamed *d)
{
	const struct proc *p = d->n == 1 ? model_proc(m, d->procs[0]) : NULL;

	return d->n == 1 ? subject_rank(p ? proc_rank(p) : -1, d->procs[0]) : subject_ranks(d->key);
}

/* What the host of the one that is named does to it. `p` NULL: its process is not known any more. */
static void delayed_note(struct finding *f, const struct model *m, const struct proc *p, const struct host_cause *c)
{
	host_cause_note(f, c, p);
	if (p && phase_reason_cause(&c->phase) == CAUSE_DATA_WAIT)
		data_worker_note(f, m, p, data_worker_find(m, p));
	if (p)
		pressure_note(f, p);
}

static bool is_moment(const struct job_clock *j, const struct blamed *d)
{
	int newest = (j->n - 1) % HISTORY;

	return !d->said && (!d->slow[newest] || j->begin_ns[newest] < d->open_since_ns + SET_HELD_NS);
}

/* On a host without free CPUs it is late now, as another may be next; and nothing is known of its GPU. */
static bool is_busy_host(const struct job_clock *j, const struct model *m, const struct blamed *d,
			 const struct finding_list *found)
{
	const struct proc *p = d->n == 1 ? model_proc(m, d->procs[0]) : NULL;

	return !d->said && blame_may_be_luck(j, m, d) && !(p && gpu_is_ill(found, p));
}

static int report(const struct job_clock *j, const struct model *m, struct blamed *d, struct finding_list *found)
{
	double share = recent_mean(j, d->share), iterations = recent_mean(j, j->iterations);
	struct finding *f;
	struct host_cause c;
	int one = blame_cause(j, m, d, &c);

	if ((one < 0 && (d->n > NAMES_MAX || is_moment(j, d))) || is_busy_host(j, m, d, found))
		return 0;
	f = finding_list_add(found);
	if (!f)
		return -ENOMEM;
	d->said = true;
	f->kind = FINDING_STRAGGLER;
	f->subject = subject_of(m, d);
	finding_identify(f, "straggler", 0, d->open_since_ns);
	f->cause = d->cause ? d->cause : CAUSE_GPU_OR_UNKNOWN;
	f->since_ns = d->open_since_ns;
	f->confidence = one >= 0 ? 0.95 : 0.95 / d->n;
	for (int i = 0; i < d->n; i++)
		if ((one < 0 || i == one) && model_proc(m, d->procs[i]))
			proc_ranks_note(f, found, model_proc(m, d->procs[i]), 0);
	if (d->n > 1)
		finding_note(f, EVIDENCE_ONE_OF, d->n);
	finding_note(f, EVIDENCE_BLAME_PERCENT, 100 * share);
	finding_note(f, EVIDENCE_WHAT_IF_PERCENT, 100 * share);
	finding_note(f, EVIDENCE_GAP_S, recent_mean(j, d->gap_s) / iterations);
	finding_note(f, EVIDENCE_STEP_S, recent_mean(j, j->step_s) / iterations);
	finding_note(f, EVIDENCE_SLOW_OF_LAST_5, times_slow(j, d, RECENT));
	finding_note(f, EVIDENCE_SLOW_OF_LAST_20, times_slow(j, d, HISTORY));
	if (one >= 0)
		delayed_note(f, m, model_proc(m, d->procs[one]), &c);
	if (!d->cause)
		gpu_cause_set(m, found, f);
	return 0;
}

static int job_tick(struct straggler *s, struct job_clock *j, const struct model *m, struct finding_list *found)
{
	const struct proc *p = j->lowest;
	uint64_t before = j->n;
	int err = 0;

	if (!p)
		return 0;
	if (p->key != j->anchor || p->steps->period_ops != j->period) {
		history_clear(j);
		j->anchor = p->key;
		j->period = p->steps->period_ops;
		j->end_index = end_index_of(p);
		j->done_n = p->n_ops;
	}
	err = iterations_take(s, j, m, p);
	for (struct blamed *d = j->blamed; d && j->n != before; d = d->next)
		slow_decide(j, m, d);
	for (struct blamed *d = j->blamed; d && !err; d = d->next)
		if (d->open_since_ns && !blame_structural(j, m, d) && !blame_named_better(j, d))
			err = report(j, m, d, found);
	return err;
}

static void disturbance_note(struct straggler *s, const struct model *m, const struct finding_list *found)
{
	uint64_t probes_ns = probes_change_since_ns(m), from = probes_ns ? probes_ns : UINT64_MAX;

	for (size_t i = 0; i < found->n; i++) {
		enum finding_kind k = found->items[i].kind;

		if ((k == FINDING_HANG || k == FINDING_D_STATE || k == FINDING_STOPPED || k == FINDING_OBSERVATION) &&
		    found->items[i].since_ns < from)
			from = found->items[i].since_ns;
	}
	if (from == UINT64_MAX)
		return;
	s->disturbed_from_ns = from;
	s->disturbed_to_ns = m->now_ns;
}

static int lowest_find(struct straggler *s, const struct model *m)
{
	for (struct job_clock *j = s->jobs.all; j; j = j->keyed.next)
		j->lowest = NULL;
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p)) {
		struct job_clock *j = rank_has_clock(p) ? job_of(s, p->job) : NULL;

		if (j)
			j->lowest = lower_anchor(j->lowest, p);
		else if (rank_has_clock(p))
			return -ENOMEM;
	}
	return 0;
}

static int straggler_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct straggler *s = state;
	int err, one;

	disturbance_note(s, m, found);
	jobs_forget(&s->forgetting, &s->jobs, m, clock_release);
	err = lowest_find(s, m);
	for (struct job_clock *j = err ? NULL : s->jobs.all; j; j = j->keyed.next) {
		one = job_tick(s, j, m, found);
		err = err ? err : one;
	}
	return err;
}

static void straggler_release(void *state)
{
	struct straggler *s = state;

	for (struct job_clock *j = s->jobs.all; j; j = j->keyed.next)
		history_clear(j);
	keyed_free(&s->jobs);
	blames_free(&s->scratch);
}

const struct detector detector_straggler = {
	.name = "straggler",
	.help = "a rank that makes its peers wait, iteration after iteration (blame walk)",
	.state_bytes = sizeof(struct straggler),
	.release = straggler_release,
	.tick = straggler_tick,
};
