/* SPDX-License-Identifier: Apache-2.0
 *
 * threshold.c - see threshold.h.
 */
#include "tools/stress/threshold.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct threshold thresholds[] = {
#define THRESHOLD(...) { __VA_ARGS__ },
#include "tools/stress/thresholds.def"
#undef THRESHOLD
};
const int n_thresholds = sizeof(thresholds) / sizeof(thresholds[0]);

static bool row_fits(const struct threshold *t, double limit_w, uint32_t size)
{
	return (t->limit_w == 0 || limit_w >= t->limit_w) && (t->size == 0 || size == t->size);
}

const struct threshold *threshold_find(const char *device, const char *measure, double limit_w, uint32_t size)
{
	for (int i = 0; i < n_thresholds; i++)
		if (!fnmatch(thresholds[i].device, device, 0) && !strcmp(thresholds[i].measure, measure))
			return row_fits(&thresholds[i], limit_w, size) ? &thresholds[i] : NULL;
	return NULL;
}

void judgement_hold(struct judgement *j, enum better better, double bound, const char *rule)
{
	bool failed = better == BETTER_LESS ? !(j->value <= bound) : !(j->value >= bound);

	if (j->failed || (j->judged && !failed))
		return;
	j->judged = true;
	j->failed = failed;
	j->bound = bound;
	snprintf(j->rule, sizeof(j->rule), "%s", rule);
}

void judgement_hold_near(struct judgement *j, enum better better, double of, const char *whose)
{
	double share = better == BETTER_LESS ? 1 + THRESHOLD_LATENCY : 1 - THRESHOLD_TOLERANCE;
	char rule[JUDGE_RULE];

	snprintf(rule, sizeof(rule), "%.0f %% of the %s, %.4g", 100 * share, whose, of);
	judgement_hold(j, better, of * share, rule);
}

bool judgement_hold_own(struct judgement *j, enum better better, const struct baseline *baseline,
			const struct baseline_line *of)
{
	const char *date = "";
	double own = baseline_find(baseline, of->uuid, of->device, of->measure, of->size, &date);
	char whose[48];

	if (isnan(own))
		return false;
	snprintf(whose, sizeof(whose), "own baseline of %s", date);
	judgement_hold_near(j, better, own, whose);
	return true;
}

const char *judgement_text(const struct judgement *j, enum better better, const char *unit, char *text, size_t size)
{
	snprintf(text, size, "%.4g %s, %s than %.4g (%s)", j->value, unit, better == BETTER_LESS ? "more" : "less",
		 j->bound, j->rule);
	return text;
}

static int value_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double values_quartile(double *values, int n, enum better better)
{
	qsort(values, n, sizeof(*values), value_compare);
	return better == BETTER_LESS ? values[n / 4] : values[n - 1 - n / 4];
}

/* Rates of matrices of one size say nothing of another. */
static uint32_t size_of(const struct stress_gpu *gpu, int measure)
{
	return measure < N_NUMBERS ? gpu->run->options->size : 0;
}

static void hold_baseline(struct stress_run *run, struct stress_gpu *gpu, int measure, const struct baseline *baseline)
{
	const struct baseline_line of = {
		.uuid = gpu->uuid, .device = gpu->name, .measure = measure_name(measure), .size = size_of(gpu, measure)
	};

	if (!judgement_hold_own(&gpu->judged[measure], BETTER_MORE, baseline, &of))
		run_note(run, "%s: the baseline has no %s of this --size", gpu->name, measure_name(measure));
}

static void hold_others(struct stress_run *run, struct stress_gpu *gpu, int measure)
{
	double others[STRESS_GPUS_MAX];
	char whose[64];
	int n = 0;

	for (int i = 0; i < run->n_gpus; i++)
		if (i != gpu->index && run->gpus[i].class == gpu->class && run->gpus[i].judged[measure].measured)
			others[n++] = run->gpus[i].judged[measure].value;
	if (!n)
		return;
	snprintf(whose, sizeof(whose), "median of the node's %d other%s", n, n > 1 ? "s" : "");
	judgement_hold_near(&gpu->judged[measure], BETTER_MORE, values_median(others, n), whose);
}

static void hold_table(struct stress_gpu *gpu, int measure)
{
	const struct threshold *row =
		threshold_find(gpu->name, measure_name(measure), gpu->health.limit_w, gpu->run->options->size);
	char rule[JUDGE_RULE];

	if (!row)
		return;
	snprintf(rule, sizeof(rule), "table, %s: %s, %s", row->device, row->source, row->date);
	judgement_hold(&gpu->judged[measure], BETTER_MORE, row->least, rule);
}

static void judged_fault(struct stress_gpu *gpu, int measure)
{
	const struct judgement *j = &gpu->judged[measure];
	struct fault fault = {
		.kind = FAULT_SLOW, .gpu = gpu->index, .measure = measure, .held = *j, .unit = measure_unit(measure)
	};
	char text[JUDGE_TEXT];

	snprintf(fault.text, sizeof(fault.text), "%s: %s", measure_name(measure),
		 judgement_text(j, BETTER_MORE, fault.unit, text, sizeof(text)));
	run_fault(gpu->run, &fault);
}

static void missing_fault(struct stress_gpu *gpu, int measure)
{
	struct fault fault = { .kind = FAULT_MISSING, .gpu = gpu->index, .measure = measure };

	snprintf(fault.text, sizeof(fault.text), "%s was not measured%s%.200s", measure_name(measure),
		 gpu->why[0] ? ": " : "", gpu->why);
	run_fault(gpu->run, &fault);
}

static void trend_fault(struct stress_gpu *gpu, int measure)
{
	struct fault fault = { .kind = FAULT_TREND, .gpu = gpu->index, .measure = measure };
	double change;

	if (!series_trend(&gpu->series[measure], &change) || change > -THRESHOLD_TOLERANCE)
		return;
	snprintf(fault.text, sizeof(fault.text),
		 "%s became slower by %.1f %% from the first third of the run to the last", measure_name(measure),
		 -100 * change);
	run_fault(gpu->run, &fault);
}

static bool is_wanted(const struct stress_run *run, const struct stress_gpu *gpu, int measure)
{
	return run->options->measures >> measure & 1 && !gpu->unsupported[measure];
}

void run_judge(struct stress_run *run, const struct baseline *baseline)
{
	for (int i = 0; i < run->n_gpus * N_MEASURES; i++) {
		struct stress_gpu *gpu = &run->gpus[i / N_MEASURES];
		struct judgement *j = &gpu->judged[i % N_MEASURES];

		j->value = series_median(&gpu->series[i % N_MEASURES]);
		j->measured = !isnan(j->value) && is_wanted(run, gpu, i % N_MEASURES);
	}
	for (int i = 0; i < run->n_gpus * N_MEASURES; i++) {
		struct stress_gpu *gpu = &run->gpus[i / N_MEASURES];
		int measure = i % N_MEASURES;

		if (!is_wanted(run, gpu, measure))
			continue;
		if (!gpu->judged[measure].measured) {
			/* stopped by hand, or lost, which is said: not a fault of its own */
			if (!run->stopped && !gpu->lost)
				missing_fault(gpu, measure);
			continue;
		}
		if (baseline)
			hold_baseline(run, gpu, measure, baseline);
		hold_others(run, gpu, measure);
		if (!baseline)
			hold_table(gpu, measure);
		if (gpu->judged[measure].failed)
			judged_fault(gpu, measure);
		trend_fault(gpu, measure);
	}
}
