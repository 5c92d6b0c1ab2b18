/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_duty.c - a rank whose GPU has become the slowest, by how busy the GPUs are and by no probe. All ranks make
 * equally many steps, so what one does in a step is its activity over the others'. That quotient cancels the step rate;
 * a slow GPU's rises against its own past, as its peers wait more. Tensor and SM activity must agree: a kernel that
 * spins on one SM leaves tensor activity together and turns the sign of the other (docs/field-notes.md, 1), so no rank
 * is named for it. That the peers wait is read from their own activity, which falls. Where they are a communicator of
 * their own in a larger job the slack of a pipeline may hide that; there its clock must have fallen (decision 799).
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "detect/detect.h"
#include "detect/rank/forget.h"
#include "detect/gpu/gpu_cause.h"
#include "detect/gpu/gpu_group.h"
#include "detect/gpu/gpu_rounds.h"

#define BEFORE_MIN 8            /* rounds of the past, */
#define BEFORE_NS 8000000000ull /* over so long */
#define NOW_NS 1500000000ull    /* the present, at least */
#define RISE_TENSOR 0.04        /* of the quotient: at least, and */
#define RISE_SM 0.03
#define SURE 6.0        /* standard errors of the two means, by the quotient's own scatter in the past */
#define FALL_SHARE 0.25 /* the others' activity must have fallen by that share of the rise: the step rate did */
/* Where a stage's slack hides it the step rate stays, and the ranks of that stage wait in every operation all the same:
 * more is wanted of the quotient of matrix work, and less of SMs, which are nearly as busy while they wait. In a group
 * that shards parameters or shares experts a rank with heavier data looks the same, but its clock stays. */
#define RISE_TENSOR_SHARED 0.06
#define SURE_SHARED 12.0
#define RISE_SM_SHARED 0.02
#define SURE_SM_SHARED 4.0   /* a kernel that spins turns its sign */
#define RISE_SHARED_MOST 0.3 /* no slack hides more: then the others do less, or they have stopped */
/* The clock, over the others', must have fallen by that share of the rise, beyond noise: at the power cap it goes up
 * and down by 6 %, and the peers' rises by a third of what they do less (docs/measurements/gpu.md). */
#define CLOCK_SHARE 0.35
#define SURE_CLOCK 4.0
#define PAUSED 0.25 /* the others do less than that of their usual work: no training step goes on */

struct slow {                        /* a rank that is named */
	uint64_t since_ns;           /* 0 not */
	double before[ROUND_VALUES]; /* frozen, by enum gpu_round_value */
};

struct duty_job {           /* of one host */
	struct keyed keyed; /* by the job and the number of the host */
	const struct job_id *job;
	int n_now;
	uint64_t procs_now[GPU_ROUND_RANKS_MAX]; /* as of this tick */
	const struct gpu *gpus_now[GPU_ROUND_RANKS_MAX];
	struct gpu_rounds rounds;
	bool shared; /* its ranks are a communicator of their own in a larger job */
	struct slow slow[GPU_ROUND_RANKS_MAX];
};

struct gpu_duty {
	struct keyed_table jobs;
	struct forgetting forgetting;
};

/* --- the verdict --- */

struct wanted { /* of a rise: at least, and in standard errors */
	double floor, sure;
};

/* Of the quotient's noise, between the mean of the newest `k` rounds and that of the past, in its own unit. */
static double standard_error(const struct gpu_rounds *g, int r, uint64_t k, enum gpu_round_value v)
{
	uint64_t all = gpu_rounds_kept(g);

	return gpu_rounds_deviation(g, k, all, v, r) * sqrt(1.0 / k + 1.0 / (all - k));
}

/* By how much the quotient of the newest `k` rounds is above the past beyond noise and floor; 0 not. */
static double rise_over(const struct gpu_rounds *g, int r, uint64_t k, enum gpu_round_value v, struct wanted w)
{
	uint64_t all = gpu_rounds_kept(g), half = k + (all - k) / 2;
	double before = gpu_rounds_mean(g, k, all, v, r), rise = gpu_rounds_mean(g, 0, k, v, r) / before - 1;
	double limit;

	if (!(rise > w.floor)) /* as with nearly all */
		return 0;
	limit = fmax(w.floor, w.sure * standard_error(g, r, k, v) / before);
	if (rise <= limit)
		return 0;
	for (uint64_t i = 0; i < 3; i++) /* and it is so still, not by one round of the few */
		if (gpu_round_at(g, i)->of[v][r] / before - 1 < limit / 2)
			return 0;
	if (fabs(gpu_rounds_mean(g, k, half, v, r) / gpu_rounds_mean(g, half, all, v, r) - 1) > rise / 2)
		return 0; /* the past was no steady state */
	return rise;
}

static bool rises_and_others_fall(const struct gpu_rounds *g, int r, uint64_t k, double fall)
{
	static const struct wanted tensor = { RISE_TENSOR, SURE }, sm = { RISE_SM, SURE };
	double rise = rise_over(g, r, k, ROUND_TENSOR_QUOTIENT, tensor);

	return rise > 0 && fall >= FALL_SHARE * rise && rise_over(g, r, k, ROUND_SM_QUOTIENT, sm) > 0;
}

/* Over the others', since the past; none falls where no clock is known. */
static bool clock_falls(const struct gpu_rounds *g, int r, uint64_t k, double least)
{
	double before = gpu_rounds_mean(g, k, gpu_rounds_kept(g), ROUND_CLOCK_QUOTIENT, r);
	double fall = before - gpu_rounds_mean(g, 0, k, ROUND_CLOCK_QUOTIENT, r);

	return fall - SURE_CLOCK * standard_error(g, r, k, ROUND_CLOCK_QUOTIENT) >= least * before && before > 0;
}

static bool rises_where_shared(const struct gpu_rounds *g, int r, uint64_t k)
{
	static const struct wanted tensor = { RISE_TENSOR_SHARED, SURE_SHARED };
	static const struct wanted sm = { RISE_SM_SHARED, SURE_SM_SHARED };
	double rise = rise_over(g, r, k, ROUND_TENSOR_QUOTIENT, tensor);

	return rise > 0 && rise < RISE_SHARED_MOST && clock_falls(g, r, k, CLOCK_SHARE * rise) &&
	       rise_over(g, r, k, ROUND_SM_QUOTIENT, sm) > 0;
}

/* Neither rule names a rank whose matrix work over the others' has risen by less, and nearly none's has. */
static bool may_be_slow(const struct gpu_rounds *g, int r, uint64_t k)
{
	return gpu_rounds_mean(g, 0, k, ROUND_TENSOR_QUOTIENT, r) >
	       (1 + RISE_TENSOR) * gpu_rounds_mean(g, k, gpu_rounds_kept(g), ROUND_TENSOR_QUOTIENT, r);
}

/* Sets since_ns where it is, by the newest `k` rounds against the others. */
static void slow_since(struct duty_job *j, int r, uint64_t k)
{
	const struct gpu_rounds *g = &j->rounds;
	uint64_t all = gpu_rounds_kept(g);
	struct slow *s = &j->slow[r];
	double peers_before, peers_now;

	if (all < k + BEFORE_MIN || gpu_round_at(g, k)->ts_ns - gpu_round_at(g, all - 1)->ts_ns < BEFORE_NS ||
	    gpu_round_at(g, 0)->ts_ns - gpu_round_at(g, k)->ts_ns < NOW_NS || !may_be_slow(g, r, k))
		return;
	peers_before = gpu_rounds_mean(g, k, all, ROUND_PEERS_TENSOR, r);
	peers_now = gpu_rounds_mean(g, 0, k, ROUND_PEERS_TENSOR, r);
	if (peers_now < PAUSED * peers_before || (!rises_and_others_fall(g, r, k, 1 - peers_now / peers_before) &&
						  !(j->shared && rises_where_shared(g, r, k))))
		return;
	for (int v = 0; v < ROUND_VALUES; v++)
		s->before[v] = gpu_rounds_mean(g, k, all, v, r);
	s->since_ns = gpu_round_at(g, k - 1)->ts_ns;
}

static double now_of(const struct duty_job *j, enum gpu_round_value v, int r)
{
	return gpu_rounds_mean(&j->rounds, 0, 4, v, r);
}

/* Named ranks are slow until their quotient is back half way. */
static bool slow_still(const struct duty_job *j, int r)
{
	const struct slow *s = &j->slow[r];

	return now_of(j, ROUND_TENSOR_QUOTIENT, r) / s->before[ROUND_TENSOR_QUOTIENT] - 1 > RISE_TENSOR / 2 &&
	       now_of(j, ROUND_SM_QUOTIENT, r) / s->before[ROUND_SM_QUOTIENT] - 1 >
		       (j->shared ? RISE_SM_SHARED : RISE_SM) / 2;
}

static void decide(struct duty_job *j)
{
	static const uint64_t spans[] = { 4, 6, 8, 12, 16 };
	int named = 0;

	for (int r = 0; r < j->rounds.n; r++) {
		struct slow *s = &j->slow[r];

		if (s->since_ns && !slow_still(j, r))
			s->since_ns = 0;
		for (size_t i = 0; !s->since_ns && i < sizeof(spans) / sizeof(spans[0]); i++)
			slow_since(j, r, spans[i]);
		named += s->since_ns != 0;
	}
	if (2 * named > j->rounds.n) /* most are busier: that is no culprit */
		for (int r = 0; r < j->rounds.n; r++)
			j->slow[r].since_ns = 0;
}

static struct finding *straggler_of(struct finding_list *found, uint64_t proc)
{
	for (size_t i = 0; i < found->n; i++)
		if (found->items[i].kind == FINDING_STRAGGLER && found->items[i].n_ranks == 1 &&
		    finding_proc(&found->items[i], 0) == proc)
			return &found->items[i];
	return NULL;
}

static bool cause_open(const struct finding *f)
{
	return f->cause == CAUSE_NONE || f->cause == CAUSE_GPU_OR_UNKNOWN;
}

static bool cause_of_gpu(enum finding_cause cause)
{
	return cause == CAUSE_GPU || cause == CAUSE_GPU_XID || cause == CAUSE_GPU_THROTTLED ||
	       cause == CAUSE_GPU_UNHEALTHY;
}

/* Share of a step that the others wait for it now and did not before. */
static double blame_of(const struct duty_job *j, int r)
{
	return 1 - now_of(j, ROUND_PEERS_TENSOR, r) / j->slow[r].before[ROUND_PEERS_TENSOR];
}

static void evidence_note(const struct duty_job *j, int r, struct finding *f)
{
	static const struct {
		enum gpu_round_value value;
		enum evidence_id now, before;
	} notes[] = {
		{ ROUND_SM, EVIDENCE_SM_PERCENT, EVIDENCE_SM_PERCENT_BEFORE },
		{ ROUND_PEERS_SM, EVIDENCE_SM_PERCENT_PEERS, EVIDENCE_SM_PERCENT_PEERS_BEFORE },
		{ ROUND_TENSOR, EVIDENCE_TENSOR_PERCENT, EVIDENCE_TENSOR_PERCENT_BEFORE },
		{ ROUND_PEERS_TENSOR, EVIDENCE_TENSOR_PERCENT_PEERS, EVIDENCE_TENSOR_PERCENT_PEERS_BEFORE },
	};

	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
		finding_note(f, notes[i].now, now_of(j, notes[i].value, r));
		finding_note(f, notes[i].before, j->slow[r].before[notes[i].value]);
	}
	if (now_of(j, ROUND_PEERS_POWER, r) > 0) {
		finding_note(f, EVIDENCE_POWER_W, now_of(j, ROUND_POWER, r));
		finding_note(f, EVIDENCE_POWER_W_PEERS, now_of(j, ROUND_PEERS_POWER, r));
	}
	if (now_of(j, ROUND_CLOCK, r) > 0) {
		finding_note(f, EVIDENCE_SM_CLOCK_MHZ, now_of(j, ROUND_CLOCK, r));
		finding_note(f, EVIDENCE_SM_CLOCK_MHZ_BEFORE, j->slow[r].before[ROUND_CLOCK]);
		finding_note(f, EVIDENCE_SM_CLOCK_MHZ_PEERS, now_of(j, ROUND_PEERS_CLOCK, r));
	}
}

/* The blame walk may have named it already: then this is its cause, unless the host is. */
static int report(const struct duty_job *j, const struct model *m, int r, struct finding_list *found)
{
	const struct proc *p = model_proc(m, j->rounds.procs[r]);
	struct finding *f = straggler_of(found, j->rounds.procs[r]);

	if (f && !cause_open(f) && !cause_of_gpu(f->cause))
		return 0;
	if (!f) {
		f = finding_list_add(found);
		if (!f)
			return -ENOMEM;
		f->kind = FINDING_STRAGGLER;
		f->subject = subject_rank(proc_rank(p), p->key);
		finding_identify(f, "gpu_duty", 0, j->slow[r].since_ns);
		f->since_ns = j->slow[r].since_ns;
		f->confidence = 0.9;
		finding_add_rank(f, proc_rank(p), p->key);
		finding_note(f, EVIDENCE_BLAME_PERCENT, 100 * fmax(0, blame_of(j, r)));
		f->cause = CAUSE_GPU;
		gpu_cause_set(m, found, f);
	}
	if (cause_open(f))
		f->cause = CAUSE_GPU;
	evidence_note(j, r, f);
	return 0;
}

/* --- jobs --- */

static bool is_subject(const struct proc *p)
{
	return !p->dead && !p->is_child;
}

/* Ranks are compared with those of their host: samples of several hosts are no round. */
static struct duty_job *job_of(struct gpu_duty *d, const struct proc *p)
{
	struct duty_job *j = keyed_get(&d->jobs, (uintptr_t)p->job, p->node->number, sizeof(*j));

	if (j)
		j->job = p->job;
	return j;
}

static int ranks_sort(struct gpu_duty *d, const struct model *m)
{
	for (struct duty_job *j = d->jobs.all; j; j = j->keyed.next)
		j->n_now = 0;
	for (const struct proc *p = m->procs; p != m->past; p = proc_next(p)) {
		const struct gpu *gpu = is_subject(p) ? proc_gpu(p) : NULL;
		struct duty_job *j;

		if (!gpu)
			continue;
		j = job_of(d, p);
		if (!j)
			return -ENOMEM;
		if (j->n_now < GPU_ROUND_RANKS_MAX) {
			j->gpus_now[j->n_now] = gpu;
			j->procs_now[j->n_now++] = p->key;
		}
	}
	return 0;
}

/* A change of the ranks begins anew. */
static int job_tick(struct duty_job *j, const struct model *m, struct finding_list *found)
{
	struct gpu_rounds *g = &j->rounds;
	int err = 0;

	if (gpu_rounds_ranks(g, j->procs_now, j->n_now))
		memset(j->slow, 0, sizeof(j->slow));
	if (g->n < 2)
		return 0;
	if (gpu_rounds_take(g, j->gpus_now)) {
		j->shared = gpu_group_is_own(m, g->procs, g->n);
		if (gpu_rounds_kept(g) >= 4)
			decide(j);
	}
	for (int r = 0; r < g->n && !err; r++)
		if (j->slow[r].since_ns)
			err = report(j, m, r, found);
	return err;
}

static int gpu_duty_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct gpu_duty *d = state;
	int err = ranks_sort(d, m);

	jobs_forget(&d->forgetting, &d->jobs, m, NULL);
	for (struct duty_job *j = d->jobs.all; j && !err; j = j->keyed.next)
		err = job_tick(j, m, found);
	return err;
}

static void gpu_duty_release(void *state)
{
	struct gpu_duty *d = state;

	keyed_free(&d->jobs);
}

const struct detector detector_gpu_duty = {
	.name = "gpu_duty",
	.help = "a rank whose GPU stays busy while its peers' wait, by NVML's activity counters",
	.state_bytes = sizeof(struct gpu_duty),
	.release = gpu_duty_release,
	.tick = gpu_duty_tick,
};
