/* SPDX-License-Identifier: Apache-2.0
 *
 * threshold.c - see threshold.h.
 */
#include "tools/stress/threshold.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "tools/stress/lib/gpu_name.h"

#define AGAIN_STEP_NS 20000000ll /* a signal ends a pause */

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
		if (gpu_row_fits(thresholds[i].device, device) && !strcmp(thresholds[i].measure, measure))
			return row_fits(&thresholds[i], limit_w, size) ? &thresholds[i] : NULL;
	return NULL;
}

/* Keeps the rule that failed, else the first. */
static void bound_take(struct judgement *j, enum better better, double bound, const char *rule)
{
	bool failed = better == BETTER_LESS ? !(j->value <= bound) : !(j->value >= bound);

	if (j->failed || (j->judged && !failed))
		return;
	j->judged = true;
	j->failed = failed;
	j->bound = bound;
	snprintf(j->rule, sizeof(j->rule), "%s", rule);
}

/* "92 % of the own baseline of 2026-11-27, 55.1", "2 times the lower quartile of 3 others, 1.5, and 10 us more". */
static void hold_near(struct judgement *j, const struct bounds *b, struct tolerance near, double of, const char *whose,
		      const char *besides)
{
	char rule[JUDGE_RULE], factor[24], more[32] = "";

	if (near.factor >= 2)
		snprintf(factor, sizeof(factor), "%.0f times", near.factor);
	else
		snprintf(factor, sizeof(factor), "%.0f %% of", 100 * near.factor);
	if (near.more > 0)
		snprintf(more, sizeof(more), ", and %.0f %s more", near.more, b->unit);
	snprintf(rule, sizeof(rule), "%s the %s, %.4g%s%s", factor, whose, of, more, besides);
	bound_take(j, b->better, near.factor * of + near.more, rule);
}

static bool hold_own(struct judgement *j, const struct bounds *b)
{
	const char *date = "";
	double own = baseline_find(b->baseline, b->own.uuid, b->own.device, b->own.measure, b->own.size, &date);
	char whose[48];

	if (isnan(own))
		return false;
	snprintf(whose, sizeof(whose), "own baseline of %s", date);
	hold_near(j, b, b->near_own, own, whose, "");
	return true;
}

static int value_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The value that a quarter of these are at least as good as; n > 0, sorts them. */
static double values_quartile(double *values, int n, enum better better)
{
	qsort(values, n, sizeof(*values), value_compare);
	return better == BETTER_LESS ? values[n / 4] : values[n - 1 - n / 4];
}

static void hold_others(struct judgement *j, const struct bounds *b)
{
	const char *more = b->n_others > 1 ? "s" : "";
	char whose[80];

	if (b->quartile)
		snprintf(whose, sizeof(whose), "%s quartile of %d other%s of its kind",
			 b->better == BETTER_LESS ? "lower" : "upper", b->n_others, more);
	else
		snprintf(whose, sizeof(whose), "median of %s%d other%s", b->others_are, b->n_others, more);
	hold_near(j, b, b->near,
		  b->quartile ? values_quartile(b->others, b->n_others, b->better)
			      : values_median(b->others, b->n_others),
		  whose, b->besides ? b->besides : "");
}

bool judgement_hold(struct judgement *j, const struct bounds *bounds)
{
	bool found = true;

	j->judged = j->failed = false;
	if (bounds->baseline)
		found = hold_own(j, bounds);
	if (bounds->n_others)
		hold_others(j, bounds);
	if (!bounds->baseline && bounds->least > 0)
		bound_take(j, bounds->better, bounds->least, bounds->row);
	return found;
}

void judgement_turn(struct judgement *j, enum better better, double value)
{
	if (!(value > 0))
		return;
	if (j->failed && !j->n_turns)
		j->turns[j->n_turns++] = j->value;
	if (j->failed && j->n_turns < JUDGE_TURNS)
		j->turns[j->n_turns++] = value;
	if (better == BETTER_LESS ? value < j->value : value > j->value)
		j->value = value;
}

bool judgement_is_open(const struct judgement *j)
{
	return j->failed && j->n_rounds < AGAIN_ENOUGH;
}

bool judgement_is_unsteady(const struct judgement *j)
{
	return j->judged && !j->failed && j->n_turns > 0;
}

void again_begin(struct again *again, const struct stress_options *options)
{
	*again = (struct again){ .left = options->again,
				 .pause_ns = AGAIN_PAUSE_NS,
				 .end_ns = clock_monotonic_ns() + options->again_ns };
}

bool again_is_over(const struct again *again)
{
	return run_signal || clock_monotonic_ns() >= again->end_ns;
}

bool again_next(struct again *again)
{
	uint64_t until_ns = clock_monotonic_ns() + again->pause_ns;

	if (!again->left || until_ns >= again->end_ns)
		return false;
	again->left--;
	again->pause_ns *= 2;
	while (!run_signal && clock_monotonic_ns() < until_ns)
		nanosleep(&(struct timespec){ .tv_nsec = AGAIN_STEP_NS }, NULL);
	return !run_signal;
}

const char *judgement_text(const struct judgement *j, enum better better, const char *unit, char *text, size_t size)
{
	const char *than = better == BETTER_LESS ? "more" : "less";
	char turns[12 * JUDGE_TURNS] = "";

	for (int i = 0, at = 0; i < j->n_turns; i++)
		at += snprintf(turns + at, sizeof(turns) - at, "%s%.4g", i ? ", " : "", j->turns[i]);
	if (!j->failed)
		snprintf(text, size, "unsteady: %s %s in %d measurements, the first %s than %.4g (%s)", turns, unit,
			 j->n_turns, than, j->bound, j->rule);
	else if (j->n_turns)
		snprintf(text, size, "%.4g %s at best of %d measurements (%s), %s than %.4g (%s)", j->value, unit,
			 j->n_turns, turns, than, j->bound, j->rule);
	else
		snprintf(text, size, "%.4g %s, %s than %.4g (%s)", j->value, unit, than, j->bound, j->rule);
	return text;
}

/* Rates of matrices of one size say nothing of another. */
static uint32_t size_of(const struct stress_gpu *gpu, int measure)
{
	return measure < N_NUMBERS ? gpu->run->options->size : 0;
}

static int others_of(const struct stress_gpu *gpu, int measure, double *others)
{
	const struct stress_run *run = gpu->run;
	int n = 0;

	for (int i = 0; i < run->n_gpus; i++)
		if (i != gpu->index && run->gpus[i].class == gpu->class && run->gpus[i].judged[measure].measured)
			others[n++] = run->gpus[i].judged[measure].value;
	return n;
}

static void gpu_hold(struct stress_gpu *gpu, int measure, const struct baseline *baseline)
{
	const struct threshold *row =
		threshold_find(gpu->name, measure_name(measure), gpu->health.limit_w, gpu->run->options->size);
	double others[STRESS_GPUS_MAX];
	struct bounds b = { .better = BETTER_MORE,
			    .near = TOLERANCE_RATE,
			    .near_own = TOLERANCE_RATE,
			    .baseline = baseline,
			    .own = { .uuid = gpu->uuid,
				     .device = gpu->name,
				     .measure = measure_name(measure),
				     .size = size_of(gpu, measure) },
			    .others = others,
			    .n_others = others_of(gpu, measure, others),
			    .others_are = "the node's " };

	if (row) {
		b.least = row->least;
		snprintf(b.row, sizeof(b.row), "table, %s: %s, %s", row->device, row->source, row->date);
	}
	if (!judgement_hold(&gpu->judged[measure], &b))
		run_note(gpu->run, "%s: the baseline has no %s of this --size", gpu->name, measure_name(measure));
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

void run_window_take(struct stress_gpu *gpu, int measure, double rate)
{
	if (gpu->run->again) {
		judgement_turn(&gpu->judged[measure], BETTER_MORE, rate);
		return;
	}
	gpu->windows[measure]++;
	series_add(&gpu->series[measure], rate);
}

void run_measured(struct stress_run *run)
{
	for (int i = 0; i < run->n_gpus * N_MEASURES; i++) {
		struct stress_gpu *gpu = &run->gpus[i / N_MEASURES];
		int measure = i % N_MEASURES;
		struct judgement *j = &gpu->judged[measure];

		j->value = series_median(&gpu->series[measure]);
		j->n_rounds = (int)gpu->series[measure].n;
		j->measured = !isnan(j->value) && is_wanted(run, gpu, measure);
	}
}

void run_hold(struct stress_run *run, const struct baseline *baseline)
{
	for (int i = 0; i < run->n_gpus * N_MEASURES; i++)
		if (run->gpus[i / N_MEASURES].judged[i % N_MEASURES].measured)
			gpu_hold(&run->gpus[i / N_MEASURES], i % N_MEASURES, baseline);
}

static void unsteady_note(struct stress_gpu *gpu, int measure)
{
	char text[JUDGE_TEXT];

	run_note(gpu->run, "GPU %d: %s: %s", gpu->ordinal, measure_name(measure),
		 judgement_text(&gpu->judged[measure], BETTER_MORE, measure_unit(measure), text, sizeof(text)));
}

void run_judge(struct stress_run *run)
{
	for (int i = 0; i < run->n_gpus * N_MEASURES; i++) {
		struct stress_gpu *gpu = &run->gpus[i / N_MEASURES];
		int measure = i % N_MEASURES;
		const struct judgement *j = &gpu->judged[measure];

		if (!is_wanted(run, gpu, measure))
			continue;
		/* stopped by hand, or lost, which is said: not a fault of its own */
		if (!j->measured && !run->stopped && !gpu->lost)
			missing_fault(gpu, measure);
		if (!j->measured)
			continue;
		if (j->failed)
			judged_fault(gpu, measure);
		if (judgement_is_unsteady(j))
			unsteady_note(gpu, measure);
		trend_fault(gpu, measure);
	}
}
