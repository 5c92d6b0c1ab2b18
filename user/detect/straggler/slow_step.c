/* SPDX-License-Identifier: Apache-2.0
 *
 * slow_step.c - the job's iterations take longer than before, and stay so. On a host that runs ahead of its GPU all
 * ranks enqueue alike and no rank can be named: then this is all that can be said. Where steps have phases, it says
 * which phase became longer, and whose. It is no proof of a fault; where a straggler is named, or a quota that
 * throttles the job, it is that one's consequence.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "base/sorted.h"
#include "detect/detect.h"
#include "detect/rank/forget.h"
#include "detect/straggler/history.h"
#include "detect/straggler/phase_windows.h"

#define WINDOW_S 0.2 /* iterations are summed up to that: single short ones are the host's jitter */
#define WINDOWS 10   /* that must all be slow */
#define BASE 40      /* windows before those */
#define BASE_MIN 20
#define HIGH_OF_BASE 0.9 /* every recent window above that share of the base: by chance once in 10^10 windows */
#define SLOWER 1.10      /* and their median that much above the base's */
#define UNLIKE 10        /* windows in a row that show another phase: it is that one */
#define OVER 1.05        /* the median below that: it is over */
#define KEPT (WINDOWS + BASE)
_Static_assert(KEPT < PHASE_WINDOWS, "a boundary more than windows");

struct series {             /* iterations of one job, as its lowest rank makes them */
	struct keyed keyed; /* by the job */
	const struct job_id *job;
	const struct proc *lowest; /* lower_anchor() of this tick; NULL none */
	uint64_t anchor;
	size_t period;
	uint64_t done_n, last_ns;
	double sum_s; /* open window */
	int n_in_window;
	uint64_t window_ns;
	double mean_s[KEPT]; /* mean iteration of each window, ring of n */
	uint64_t begin_ns[KEPT], n;
	double base_s; /* while open: as it was */
	uint64_t open_since_ns, explained_by;
	struct phase_verdict said; /* while open */
	int n_unlike;              /* windows in a row of another verdict */
};

struct slow_step {
	struct keyed_table jobs;
	struct phase_windows phases;
	uint64_t disturbed_ns;
	struct forgetting forgetting;
};

/* The `n` windows that end `back` windows ago, sorted. */
static void windows_sorted(const struct series *s, size_t back, size_t n, double *to)
{
	for (size_t i = 0; i < n; i++)
		to[i] = s->mean_s[(s->n - back - 1 - i) % KEPT];
	doubles_sort(to, n);
}

static void series_restart(struct series *s, const struct proc *p)
{
	s->anchor = p->key;
	s->period = p->steps->period_ops;
	s->done_n = p->n_ops;
	s->last_ns = s->open_since_ns = s->n = s->n_in_window = 0;
	s->sum_s = 0;
}

static void decide(struct series *s)
{
	double recent[WINDOWS], base[BASE];
	size_t n = s->n > KEPT ? BASE : s->n > WINDOWS ? s->n - WINDOWS : 0;

	if (n < BASE_MIN)
		return;
	windows_sorted(s, 0, WINDOWS, recent);
	if (s->open_since_ns) {
		if (recent[WINDOWS / 2] < OVER * s->base_s)
			s->open_since_ns = 0;
		return;
	}
	windows_sorted(s, WINDOWS, n, base);
	if (recent[0] <= base[(size_t)(HIGH_OF_BASE * n)] || recent[WINDOWS / 2] < SLOWER * base[n / 2])
		return;
	s->base_s = base[n / 2];
	s->open_since_ns = s->begin_ns[(s->n - WINDOWS) % KEPT];
	s->explained_by = 0;
}

static void iteration_add(struct series *s, uint64_t begin_ns, uint64_t end_ns)
{
	if (!s->n_in_window)
		s->window_ns = begin_ns;
	s->sum_s += (end_ns - begin_ns) * 1e-9;
	s->n_in_window++;
	if (s->sum_s < WINDOW_S)
		return;
	s->mean_s[s->n % KEPT] = s->sum_s / s->n_in_window;
	s->begin_ns[s->n % KEPT] = s->window_ns;
	s->n++;
	s->sum_s = s->n_in_window = 0;
	decide(s);
}

/* New iterations of the anchor: from one operation at the iteration's begin to the next. */
static void iterations_take(struct series *s, const struct proc *p, uint64_t disturbed_ns)
{
	const struct op *op = p->last_op;

	while (op && op->nth > s->done_n && op->prev_in_proc)
		op = op->prev_in_proc;
	for (; op; op = op->next_in_proc) {
		if (op->nth < s->done_n || op->nth % s->period != p->steps->phase % s->period)
			continue;
		if (s->last_ns > disturbed_ns && op->call_ns > s->last_ns)
			iteration_add(s, s->last_ns, op->call_ns);
		s->last_ns = op->call_ns;
	}
	s->done_n = p->n_ops;
}

static struct series *series_of(struct slow_step *st, const struct job_id *job)
{
	struct series *s = keyed_get(&st->jobs, (uintptr_t)job, 0, sizeof(*s));

	if (s)
		s->job = job;
	return s;
}

/* Of the job's operations that are over: what the host knows of their ends, at the median. */
static double end_error_s(const struct proc *p)
{
	double errors[64];
	size_t n = 0;

	for (const struct op *op = p->last_op; op && n < 64; op = op->prev_in_proc)
		if (op->end_ns)
			errors[n++] = op->end_error_ns * 1e-9;
	return n ? doubles_nth(errors, n, n / 2) : -1;
}

/* Which phase of whom. Once it is known it stays, until another one holds in several windows in a row. */
static void phase_judge(const struct slow_step *st, struct series *s, const struct model *m)
{
	struct phase_verdict v = phase_windows_judge(&st->phases, m, s->job, WINDOWS);

	if (v.reason.phase < 0 || phase_verdicts_alike(&v, &s->said)) {
		s->n_unlike = 0;
	} else if (s->said.reason.phase >= 0 && ++s->n_unlike < UNLIKE) {
		return;
	}
	if (v.reason.phase >= 0 && phase_verdicts_alike(&v, &s->said) && !v.worker)
		v.worker = s->said.worker;
	if (v.reason.phase < 0)
		return;
	s->said = v;
	s->n_unlike = 0;
}

static void phase_note(const struct series *s, const struct model *m, struct finding *f)
{
	phase_verdict_note(f, m, &s->said);
	if (s->said.reason.phase == PHASE_GPU_WAIT)
		f->cause = s->said.computes ? CAUSE_GPU : CAUSE_GPU_OR_UNKNOWN;
	else if (s->said.reason.phase >= 0)
		f->cause = phase_reason_cause(&s->said.reason);
}

static int report(struct series *s, const struct model *m, const struct proc *p, struct finding_list *found)
{
	uint64_t cause = slow_cause_key(m, found, s->job);
	struct finding *f = finding_list_add(found);
	double recent[WINDOWS];

	if (!f)
		return -ENOMEM;
	windows_sorted(s, 0, WINDOWS, recent);
	s->explained_by = cause ? cause : s->explained_by;
	f->kind = FINDING_SLOW_STEP;
	f->subject = subject_job(s->job->name, s->job->nth, s->job->shown);
	finding_identify(f, "slow_step", 0, s->open_since_ns);
	f->caused_by_key = s->explained_by;
	f->cause = CAUSE_GPU_OR_UNKNOWN;
	f->job = s->job->shown;
	f->since_ns = s->open_since_ns;
	f->confidence = 0.9;
	finding_note(f, EVIDENCE_STEP_S, recent[WINDOWS / 2]);
	finding_note(f, EVIDENCE_STEP_BEFORE_S, s->base_s);
	finding_note(f, EVIDENCE_SLOWER_PERCENT, 100 * (recent[WINDOWS / 2] / s->base_s - 1));
	finding_note(f, EVIDENCE_END_ERROR_S, end_error_s(p));
	phase_note(s, m, f);
	return 0;
}

/* What came since the last tick, and what the ranks' phases were meanwhile. */
static int windows_take(struct slow_step *st, struct series *s, const struct model *m, const struct proc *p)
{
	uint64_t before = s->n, was_open = s->open_since_ns;
	int err = 0;

	iterations_take(s, p, st->disturbed_ns);
	for (uint64_t n = before; n < s->n && !err; n++)
		err = phase_windows_push(&st->phases, m, s->job, n + 1);
	if (s->open_since_ns && !was_open) {
		s->said = (struct phase_verdict){ .reason.phase = -1 };
		s->n_unlike = 0;
		phase_windows_compare(&st->phases, m, s->job, WINDOWS, BASE);
	}
	if (s->open_since_ns && s->n > before)
		phase_judge(st, s, m);
	return err;
}

static int job_tick(struct slow_step *st, struct series *s, const struct model *m, struct finding_list *found)
{
	const struct proc *p = s->lowest;
	int err;

	if (!p)
		return 0;
	if (p->key != s->anchor || p->steps->period_ops != s->period)
		series_restart(s, p);
	err = windows_take(st, s, m, p);
	return err ? err : s->open_since_ns ? report(s, m, p, found) : 0;
}

/* While something hangs, is blocked or works for long, or probes go, an iteration says nothing of the pace. */
static void disturbance_note(struct slow_step *st, const struct model *m, const struct finding_list *found)
{
	if (probes_change_since_ns(m))
		st->disturbed_ns = m->now_ns;
	for (size_t i = 0; i < found->n; i++) {
		enum finding_kind k = found->items[i].kind;

		if (k == FINDING_HANG || k == FINDING_D_STATE || k == FINDING_STOPPED || k == FINDING_OBSERVATION)
			st->disturbed_ns = m->now_ns;
	}
}

static int lowest_find(struct slow_step *st, const struct model *m)
{
	for (struct series *s = st->jobs.all; s; s = s->keyed.next)
		s->lowest = NULL;
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p)) {
		struct series *s = rank_has_clock(p) ? series_of(st, p->job) : NULL;

		if (s)
			s->lowest = lower_anchor(s->lowest, p);
		else if (rank_has_clock(p))
			return -ENOMEM;
	}
	return 0;
}

static int slow_step_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct slow_step *st = state;
	int err;

	disturbance_note(st, m, found);
	jobs_forget(&st->forgetting, &st->jobs, m, NULL);
	err = lowest_find(st, m);
	for (struct series *s = st->jobs.all; s && !err; s = s->keyed.next)
		err = job_tick(st, s, m, found);
	return err;
}

static void slow_step_release(void *state)
{
	struct slow_step *st = state;

	keyed_free(&st->jobs);
	phase_windows_free(&st->phases);
}

const struct detector detector_slow_step = {
	.name = "slow_step",
	.help = "iterations that take longer than before, whichever rank delays them",
	.state_bytes = sizeof(struct slow_step),
	.release = slow_step_release,
	.tick = slow_step_tick,
};
