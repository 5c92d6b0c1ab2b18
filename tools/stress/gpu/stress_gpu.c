/* SPDX-License-Identifier: Apache-2.0
 *
 * stress_gpu.c - `stress gpu`: windows of each number type and of memory in turn on all GPUs at once, in rounds until
 * the time is over; then the judgement. Design: README.md.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tools/stress/gpu/gemm.h"
#include "tools/stress/gpu/memory.h"
#include "tools/stress/health.h"
#include "tools/stress/runlog.h"
#include "tools/stress/stress.h"
#include "tools/stress/threshold.h"

#define ROUND_NS 300000000000ull /* the longest: in a day each type has its turn every five minutes */
#define MEMORY_SHARE_OF_TIME 0.4
#define AGAIN_WINDOW_NS 2000000000ull

struct plan {
	struct stress_run *run;
	int n_measures, measures[N_MEASURES], rounds, round, next;
	uint64_t round_ns;
	bool over;
	const struct baseline *baseline;
	struct again again;
	uint32_t open; /* measures that are left of a turn */
};

static void plan_make(struct plan *plan, struct stress_run *run, const struct baseline *baseline)
{
	uint64_t whole_ns = run->options->time_ns;
	uint64_t left_ns = whole_ns > run->elapsed_before_ns ? whole_ns - run->elapsed_before_ns : 0;

	*plan = (struct plan){ .run = run, .baseline = baseline };
	for (int i = 0; i < N_MEASURES; i++)
		if (run->options->measures >> i & 1)
			plan->measures[plan->n_measures++] = i;
	plan->rounds = (left_ns + ROUND_NS - 1) / ROUND_NS;
	plan->over = !left_ns;
	plan->round_ns = plan->rounds ? left_ns / plan->rounds : 0;
}

static uint64_t window_ns(const struct plan *plan, int measure)
{
	bool with_memory = plan->run->options->measures >> MEASURE_MEMORY & 1;
	int gemms = plan->n_measures - with_memory;
	double memory = !with_memory ? 0 : gemms ? MEMORY_SHARE_OF_TIME : 1;

	return plan->round_ns * (measure == MEASURE_MEMORY ? memory : (1 - memory) / gemms);
}

static void window_begin(struct plan *plan, int measure, uint64_t ns)
{
	plan->run->measure_now = measure;
	plan->run->window_ns = ns;
	/* windows end by the clock of the whole, so that set-ups do not add up */
	plan->run->window_end_ns = clock_monotonic_ns() + ns;
	report_window(plan->run->report, plan->run, plan->round + 1);
}

static uint32_t open_measures(const struct stress_run *run)
{
	uint32_t open = 0;

	for (int i = 0; i < run->n_gpus * N_MEASURES; i++)
		if (judgement_is_open(&run->gpus[i / N_MEASURES].judged[i % N_MEASURES]) &&
		    !run->gpus[i / N_MEASURES].lost)
			open |= 1u << i % N_MEASURES;
	return open;
}

/* Behind the rounds: what is below its bound on any GPU, on all of them at once, as before. False: nothing is left. */
static bool turn_plan(struct plan *plan)
{
	struct stress_run *run = plan->run;
	uint64_t ns;
	int measure;

	if (!run->again) {
		run->again = true;
		run_measured(run);
		again_begin(&plan->again, run->options);
	}
	if (!plan->open || again_is_over(&plan->again)) {
		run_hold(run, plan->baseline);
		plan->open = open_measures(run);
		if (!plan->open || !again_next(&plan->again))
			return false;
	}
	measure = __builtin_ctz(plan->open);
	plan->open &= plan->open - 1;
	ns = window_ns(plan, measure);
	window_begin(plan, measure, ns < AGAIN_WINDOW_NS ? ns : AGAIN_WINDOW_NS);
	return true;
}

/* The meeting before each window: what comes next, for all. */
static void window_plan(void *arg)
{
	struct plan *plan = arg;
	struct stress_run *run = plan->run;
	int measure;

	if (run->log && (plan->next || plan->round))
		runlog_window(run->log, run, run->measure_now);
	if (plan->next == plan->n_measures) {
		plan->next = 0;
		plan->round++;
	}
	if (run_stopping(run) || plan->round >= plan->rounds) {
		plan->over = run->stopped || !turn_plan(plan);
		return;
	}
	measure = plan->measures[plan->next++];
	window_begin(plan, measure, window_ns(plan, measure));
}

struct member {
	struct stress_gpu *gpu;
	struct plan *plan;
	pthread_t thread;
};

static void *member_main(void *arg)
{
	struct member *m = arg;
	struct stress_run *run = m->gpu->run;

	gpu_try(m->gpu, run->cuda.context_set(m->gpu->context), "its context");
	while (!m->gpu->lost) {
		crew_meet(&run->crew, window_plan, m->plan);
		if (m->plan->over)
			return NULL;
		if (run->measure_now == MEASURE_MEMORY)
			memory_window(m->gpu);
		else
			gemm_window(m->gpu, run->measure_now);
	}
	crew_leave(&run->crew);
	return NULL;
}

static int members_run(struct stress_run *run, struct plan *plan, char why[LIBRARY_WHY])
{
	struct member members[STRESS_GPUS_MAX];

	crew_init(&run->crew, run->n_gpus);
	for (int i = 0; i < run->n_gpus; i++) {
		members[i] = (struct member){ .gpu = &run->gpus[i], .plan = plan };
		if (pthread_create(&members[i].thread, NULL, member_main, &members[i])) {
			snprintf(why, LIBRARY_WHY,
				 "no thread can be started: raise the limit of processes (ulimit -u)");
			exit(STRESS_IMPOSSIBLE); /* others may wait for it: there is nothing to clean up yet */
		}
	}
	for (int i = 0; i < run->n_gpus; i++)
		pthread_join(members[i].thread, NULL);
	return STRESS_PASSED;
}

/* What of a whole run is missing, in words; "": nothing. A quick run is short on purpose: that is no defect of it. */
static void partial_say(struct stress_run *run, char partial[160])
{
	const char *cut = NULL;

	for (int i = 0; i < run->n_gpus; i++)
		if (run->options->measures >> MEASURE_MEMORY & 1 && !run->gpus[i].lost && !run->gpus[i].memory_turns)
			cut = "not all memory patterns had their turn: give it more time";
	partial[0] = 0;
	if (run->stopped)
		snprintf(partial, 160, "stopped by a signal after %.0f of %.0f s", run_elapsed_s(run),
			 run->options->time_ns * 1e-9);
	else if (cut && !run->options->all.quick)
		snprintf(partial, 160, "%s", cut);
}

static bool is_unmeasured(const struct stress_run *run)
{
	for (int i = 0; i < run->n_gpus; i++)
		for (int measure = 0; measure < N_MEASURES; measure++)
			if (run->options->measures >> measure & 1 && !run->gpus[i].unsupported[measure] &&
			    !run->gpus[i].judged[measure].measured)
				return true;
	return false;
}

static bool nothing_supported(const struct stress_run *run)
{
	for (int i = 0; i < run->n_gpus; i++)
		for (int measure = 0; measure < N_MEASURES; measure++)
			if (run->options->measures >> measure & 1 && !run->gpus[i].unsupported[measure])
				return false;
	return true;
}

/* 1 before 3: a device that failed is named, whatever else could not be done. */
static int status_of(struct stress_run *run, char why[LIBRARY_WHY])
{
	if (run->n_faults_all)
		return STRESS_FAILED;
	for (int i = 0; i < run->n_gpus; i++) {
		if (!run->gpus[i].impossible)
			continue;
		snprintf(why, LIBRARY_WHY, "%s", run->gpus[i].why);
		return STRESS_IMPOSSIBLE;
	}
	if (nothing_supported(run)) {
		snprintf(why, LIBRARY_WHY,
			 "%s: nothing of what --only asks for is there on this GPU and in this cuBLASLt, or fits into "
			 "--quick: leave --only out",
			 run->gpus[0].name);
		return STRESS_IMPOSSIBLE;
	}
	if (run->stopped && is_unmeasured(run)) {
		snprintf(why, LIBRARY_WHY, "stopped before everything had its turn: no verdict");
		return STRESS_IMPOSSIBLE;
	}
	return STRESS_PASSED;
}

static int run_test(struct stress_run *run, const struct baseline *baseline, struct stress_result *result)
{
	struct health_thread health;
	struct plan plan;
	int status;

	plan_make(&plan, run, baseline);
	if (plan.over) {
		snprintf(result->why, sizeof(result->why),
			 "--resume: the log has all of the time already: a longer --time");
		return STRESS_USAGE;
	}
	if (health_start(&health, run, result->why))
		return STRESS_IMPOSSIBLE;
	report_begin(run->report, run);
	members_run(run, &plan, result->why);
	health_stop(&health);
	if (run->gpus[0].impossible && !run->n_faults_all)
		return status_of(run, result->why);
	if (!run->again)
		run_measured(run);
	run_hold(run, baseline);
	run_judge(run);
	partial_say(run, result->partial);
	status = status_of(run, result->why);
	report_end(run->report, run, status, result->partial);
	stress_result_fill(result, run);
	return status;
}

/* Of a run that passed only: a bad GPU must not become the measure. */
static int baseline_save(struct stress_run *run, int status, char why[LIBRARY_WHY])
{
	int err = status ? 0 : baseline_write(run->options->save_baseline, run);

	if (status)
		run_note(run, "--save-baseline: not written, as not all passed");
	if (!err)
		return status;
	snprintf(why, LIBRARY_WHY, "--save-baseline: %.200s: %s", run->options->save_baseline, strerror(-err));
	return STRESS_USAGE;
}

int stress_gpu(const struct stress_options *options, enum report_mode mode, struct stress_result *result)
{
	struct stress_run *run = calloc(1, sizeof(*run));
	struct report report = { .mode = mode };
	struct baseline *baseline = NULL;
	int status, err = 0;

	if (!run)
		abort();
	memset(result, 0, sizeof(*result));
	run->report = &report;
	run->classes = calloc(STRESS_GPUS_MAX, sizeof(struct gemm_class));
	status = baseline_open(options, &baseline, result->why);
	status = status ? status : run_open(run, options, result->why);
	if (!status && options->log)
		status = runlog_open(&run->log, options->log, options->resume, run, result->why);
	status = status ? status : run_test(run, baseline, result);
	if (options->save_baseline && status != STRESS_USAGE && run->n_gpus)
		status = baseline_save(run, status, result->why);
	if (run->log)
		err = runlog_close(run->log);
	if (err && !status) {
		snprintf(result->why, sizeof(result->why), "--log: %.200s: %s", options->log, strerror(-err));
		status = STRESS_USAGE;
	}
	run_close(run);
	baseline_free(baseline);
	gemm_classes_reset(run);
	free(run->classes);
	free(run);
	return status;
}
