/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_duty.c - a rank whose GPU has become the slowest, by how busy the GPUs are and by no probe. All ranks make
 * equally many steps, so what one does in a step is its activity over the others'. That quotient cancels the step rate;
 * a slow GPU's rises against its own past, as its peers wait more. Tensor and SM activity must agree: a kernel that
 * spins on one SM leaves tensor activity together and turns the sign of the other (docs/field-notes.md, 1), so no rank
 * is named for it. That the peers wait is read from their own activity, which falls; where they are a tensor-parallel
 * group of a pipeline, it follows from what they share (decision 992).
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "base/sorted.h"
#include "detect/detect.h"
#include "detect/rank/forget.h"
#include "detect/gpu/gpu_cause.h"
#include "detect/gpu/gpu_group.h"

#define RANKS_MAX 16             /* of one job on one host, with a GPU each: no host has more */
#define ROUNDS 64                /* kept: half a minute at two a second */
#define TOGETHER_NS 400000000ull /* samples of one round lie within that */
#define BEFORE_MIN 8             /* rounds of the past, */
#define BEFORE_NS 8000000000ull  /* over so long */
#define NOW_NS 1500000000ull     /* the present, at least */
#define TENSOR_LEAST 2.0         /* percent: below that no matrix work is going on */
#define RISE_TENSOR 0.04         /* of the quotient: at least, and */
#define RISE_SM 0.03
#define SURE 6.0        /* standard errors of the two means, by the quotient's own scatter in the past */
#define FALL_SHARE 0.25 /* the others' activity must have fallen by that share of the rise: the step rate did */
/* Where a stage's slack hides it the step rate stays, and the ranks of that stage wait in every operation all the same:
 * more is wanted of the quotient of matrix work, and less of SMs, which are nearly as busy while they wait. */
#define RISE_TENSOR_SHARED 0.06
#define SURE_SHARED 12.0
#define RISE_SM_SHARED 0.02
#define SURE_SM_SHARED 4.0   /* a kernel that spins turns its sign */
#define RISE_SHARED_MOST 0.3 /* no slack hides more: then the others do less, or they have stopped */
#define PAUSED 0.25          /* the others do less than that of their usual work: no training step goes on */

struct round {
	uint64_t ts_ns;
	float tensor[RANKS_MAX], sm[RANKS_MAX], power_w[RANKS_MAX];
	float tensor_quotient[RANKS_MAX], sm_quotient[RANKS_MAX]; /* over the median of the others' */
};

struct excess {
	double tensor, sm;
}; /* quotient now over before, less 1 */

struct slow {               /* a rank that is named */
	uint64_t since_ns;  /* 0 not */
	struct excess past; /* quotients before, frozen */
	double tensor_before, sm_before, peers_tensor_before, peers_sm_before;
};

struct duty_job {           /* of one host */
	struct keyed keyed; /* by the job and the number of the host */
	const struct job_id *job;
	int n, n_now;
	uint64_t procs[RANKS_MAX], procs_now[RANKS_MAX]; /* as compared; as of this tick */
	struct round rounds[ROUNDS];                     /* number i at i % ROUNDS */
	uint64_t n_rounds, last_ns;
	bool shared; /* its ranks share each operation of a part of the job: a tensor-parallel group */
	struct slow slow[RANKS_MAX];
};

struct gpu_duty {
	struct keyed_table jobs;
	struct forgetting forgetting;
};

static const struct round *round_at(const struct duty_job *j, uint64_t i) /* i-th newest */
{
	return &j->rounds[(j->n_rounds - 1 - i) % ROUNDS];
}

static uint64_t rounds_kept(const struct duty_job *j)
{
	return j->n_rounds < ROUNDS ? j->n_rounds : ROUNDS;
}

/* --- rounds --- */

static double others_median(const float *of, int n, int r)
{
	double v[RANKS_MAX];
	int k = 0;

	for (int i = 0; i < n; i++)
		if (i != r)
			v[k++] = of[i];
	doubles_sort(v, k);
	return k % 2 ? v[k / 2] : (v[k / 2 - 1] + v[k / 2]) / 2;
}

static bool usable(const struct gpu_sampled *l, uint64_t ts_ns)
{
	return l && l->s.window_ns && l->s.tensor_bp != GPU_NO_VALUE && l->s.sm_bp != GPU_NO_VALUE &&
	       l->ts_ns + TOGETHER_NS > ts_ns && l->ts_ns < ts_ns + TOGETHER_NS;
}

/* The newest sample of every rank's GPU, if it is one round and new, and all of them train. */
static bool round_take(const struct duty_job *j, const struct model *m, struct round *to, uint64_t *ret_newest_ns)
{
	*ret_newest_ns = 0;
	for (int i = 0; i < j->n; i++) {
		const struct gpu *g = proc_gpu(model_proc(m, j->procs[i]));
		const struct gpu_sampled *l = g ? gpu_sample(g, 0) : NULL;

		if (!l || l->ts_ns <= j->last_ns)
			return false;
		if (!i)
			to->ts_ns = l->ts_ns;
		if (!usable(l, to->ts_ns) || gpu_percent(l->s.tensor_bp) < TENSOR_LEAST)
			return false;
		if (l->ts_ns > *ret_newest_ns)
			*ret_newest_ns = l->ts_ns;
		to->tensor[i] = gpu_percent(l->s.tensor_bp);
		to->sm[i] = gpu_percent(l->s.sm_bp);
		to->power_w[i] = l->s.power_mw == GPU_NO_VALUE ? 0 : l->s.power_mw / 1e3;
	}
	for (int i = 0; i < j->n; i++) {
		to->tensor_quotient[i] = to->tensor[i] / others_median(to->tensor, j->n, i);
		to->sm_quotient[i] = to->sm[i] / fmax(others_median(to->sm, j->n, i), 1);
	}
	return true;
}

static double mean(const struct duty_job *j, uint64_t from, uint64_t to,
		   double (*of)(const struct duty_job *, const struct round *, int), int r)
{
	double sum = 0;

	for (uint64_t i = from; i < to; i++)
		sum += of(j, round_at(j, i), r);
	return to > from ? sum / (to - from) : 0;
}

static double deviation(const struct duty_job *j, uint64_t from, uint64_t to,
			double (*of)(const struct duty_job *, const struct round *, int), int r)
{
	double m = mean(j, from, to, of, r), sum = 0;

	for (uint64_t i = from; i < to; i++) {
		double d = of(j, round_at(j, i), r) - m;

		sum += d * d;
	}
	return to > from + 1 ? sqrt(sum / (to - from - 1)) : INFINITY;
}

static double tensor_of(const struct duty_job *j, const struct round *o, int r)
{
	(void)j;
	return o->tensor[r];
}
static double sm_of(const struct duty_job *j, const struct round *o, int r)
{
	(void)j;
	return o->sm[r];
}
static double power_of(const struct duty_job *j, const struct round *o, int r)
{
	(void)j;
	return o->power_w[r];
}
static double peers_tensor(const struct duty_job *j, const struct round *o, int r)
{
	return others_median(o->tensor, j->n, r);
}
static double peers_sm(const struct duty_job *j, const struct round *o, int r)
{
	return others_median(o->sm, j->n, r);
}
static double peers_power(const struct duty_job *j, const struct round *o, int r)
{
	return others_median(o->power_w, j->n, r);
}
static double tensor_quotient(const struct duty_job *j, const struct round *o, int r)
{
	(void)j;
	return o->tensor_quotient[r];
}
static double sm_quotient(const struct duty_job *j, const struct round *o, int r)
{
	(void)j;
	return o->sm_quotient[r];
}

/* --- the verdict --- */

struct wanted { /* of a rise: at least, and in standard errors */
	double floor, sure;
};

/* By how much the quotient of the newest `k` rounds is above the past beyond noise and floor; 0 not. */
static double rise_over(const struct duty_job *j, int r, uint64_t k,
			double (*of)(const struct duty_job *, const struct round *, int), struct wanted w,
			double *ret_before)
{
	uint64_t all = rounds_kept(j), half = k + (all - k) / 2;
	double before = mean(j, k, all, of, r), now = mean(j, 0, k, of, r), rise = now / before - 1;
	double noise = deviation(j, k, all, of, r) / before * sqrt(1.0 / k + 1.0 / (all - k));
	double limit = fmax(w.floor, w.sure * noise);

	*ret_before = before;
	if (!(rise > limit))
		return 0;
	for (uint64_t i = 0; i < 3; i++) /* and it is so still, not by one round of the few */
		if (of(j, round_at(j, i), r) / before - 1 < limit / 2)
			return 0;
	if (fabs(mean(j, k, half, of, r) / mean(j, half, all, of, r) - 1) > rise / 2) /* the past was no steady state */
		return 0;
	return rise;
}

static bool rises_and_others_fall(struct duty_job *j, int r, uint64_t k, double fall)
{
	static const struct wanted tensor = { RISE_TENSOR, SURE }, sm = { RISE_SM, SURE };
	struct excess *past = &j->slow[r].past;
	double rise = rise_over(j, r, k, tensor_quotient, tensor, &past->tensor);

	return rise > 0 && fall >= FALL_SHARE * rise && rise_over(j, r, k, sm_quotient, sm, &past->sm) > 0;
}

static bool rises_where_shared(struct duty_job *j, int r, uint64_t k)
{
	static const struct wanted tensor = { RISE_TENSOR_SHARED, SURE_SHARED };
	static const struct wanted sm = { RISE_SM_SHARED, SURE_SM_SHARED };
	struct excess *past = &j->slow[r].past;
	double rise = j->shared ? rise_over(j, r, k, tensor_quotient, tensor, &past->tensor) : 0;

	return rise > 0 && rise < RISE_SHARED_MOST && rise_over(j, r, k, sm_quotient, sm, &past->sm) > 0;
}

/* Sets since_ns where it is, by the newest `k` rounds against the others. */
static void slow_since(struct duty_job *j, int r, uint64_t k)
{
	uint64_t all = rounds_kept(j);
	struct slow *s = &j->slow[r];
	double peers_before, peers_now;

	if (all < k + BEFORE_MIN || round_at(j, k)->ts_ns - round_at(j, all - 1)->ts_ns < BEFORE_NS ||
	    round_at(j, 0)->ts_ns - round_at(j, k)->ts_ns < NOW_NS)
		return;
	peers_before = mean(j, k, all, peers_tensor, r);
	peers_now = mean(j, 0, k, peers_tensor, r);
	if (peers_now < PAUSED * peers_before ||
	    (!rises_and_others_fall(j, r, k, 1 - peers_now / peers_before) && !rises_where_shared(j, r, k)))
		return;
	s->tensor_before = mean(j, k, all, tensor_of, r);
	s->sm_before = mean(j, k, all, sm_of, r);
	s->peers_tensor_before = peers_before;
	s->peers_sm_before = mean(j, k, all, peers_sm, r);
	s->since_ns = round_at(j, k - 1)->ts_ns;
}

/* Named ranks are slow until their quotient is back half way. */
static bool slow_still(const struct duty_job *j, int r)
{
	const struct slow *s = &j->slow[r];

	return mean(j, 0, 4, tensor_quotient, r) / s->past.tensor - 1 > RISE_TENSOR / 2 &&
	       mean(j, 0, 4, sm_quotient, r) / s->past.sm - 1 > (j->shared ? RISE_SM_SHARED : RISE_SM) / 2;
}

static void decide(struct duty_job *j)
{
	static const uint64_t spans[] = { 4, 6, 8, 12, 16 };
	int named = 0;

	for (int r = 0; r < j->n; r++) {
		struct slow *s = &j->slow[r];

		if (s->since_ns && !slow_still(j, r))
			s->since_ns = 0;
		for (size_t i = 0; !s->since_ns && i < sizeof(spans) / sizeof(spans[0]); i++)
			slow_since(j, r, spans[i]);
		named += s->since_ns != 0;
	}
	if (2 * named > j->n) /* most are busier: that is no culprit */
		for (int r = 0; r < j->n; r++)
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
	return 1 - mean(j, 0, 4, peers_tensor, r) / j->slow[r].peers_tensor_before;
}

static void evidence_note(const struct duty_job *j, int r, struct finding *f)
{
	const struct slow *s = &j->slow[r];

	finding_note(f, EVIDENCE_SM_PERCENT, mean(j, 0, 4, sm_of, r));
	finding_note(f, EVIDENCE_SM_PERCENT_PEERS, mean(j, 0, 4, peers_sm, r));
	finding_note(f, EVIDENCE_TENSOR_PERCENT, mean(j, 0, 4, tensor_of, r));
	finding_note(f, EVIDENCE_TENSOR_PERCENT_PEERS, mean(j, 0, 4, peers_tensor, r));
	finding_note(f, EVIDENCE_SM_PERCENT_BEFORE, s->sm_before);
	finding_note(f, EVIDENCE_SM_PERCENT_PEERS_BEFORE, s->peers_sm_before);
	finding_note(f, EVIDENCE_TENSOR_PERCENT_BEFORE, s->tensor_before);
	finding_note(f, EVIDENCE_TENSOR_PERCENT_PEERS_BEFORE, s->peers_tensor_before);
	if (mean(j, 0, 4, peers_power, r) > 0) {
		finding_note(f, EVIDENCE_POWER_W, mean(j, 0, 4, power_of, r));
		finding_note(f, EVIDENCE_POWER_W_PEERS, mean(j, 0, 4, peers_power, r));
	}
}

/* The blame walk may have named it already: then this is its cause, unless the host is. */
static int report(const struct duty_job *j, const struct model *m, int r, struct finding_list *found)
{
	const struct proc *p = model_proc(m, j->procs[r]);
	struct finding *f = straggler_of(found, j->procs[r]);

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
	return !p->dead && !p->is_child && proc_gpu(p);
}

/* The job's ranks with a GPU; a change of them begins anew. */
static void ranks_update(struct duty_job *j)
{
	if (j->n_now == j->n && !memcmp(j->procs_now, j->procs, j->n * sizeof(j->procs[0])))
		return;
	memcpy(j->procs, j->procs_now, sizeof(j->procs));
	j->n = j->n_now;
	j->n_rounds = 0;
	memset(j->slow, 0, sizeof(j->slow));
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
	for (const struct proc *p = m->procs; p; p = p->next) {
		struct duty_job *j = is_subject(p) ? job_of(d, p) : NULL;

		if (!j && is_subject(p))
			return -ENOMEM;
		if (j && j->n_now < RANKS_MAX)
			j->procs_now[j->n_now++] = p->key;
	}
	return 0;
}

static int job_tick(struct duty_job *j, const struct model *m, struct finding_list *found)
{
	struct round now;
	uint64_t newest_ns;
	int err = 0;

	ranks_update(j);
	if (j->n < 2)
		return 0;
	if (round_take(j, m, &now, &newest_ns)) {
		j->last_ns = newest_ns;
		j->rounds[j->n_rounds++ % ROUNDS] = now;
		j->shared = gpu_group_shares_ops(m, j->procs, j->n);
		if (rounds_kept(j) >= 4)
			decide(j);
	}
	for (int r = 0; r < j->n && !err; r++)
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
