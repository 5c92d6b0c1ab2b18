/* SPDX-License-Identifier: Apache-2.0
 *
 * threshold.h - which least rate a measurement is held to, and the judgement.
 *
 * Three rules. An own baseline (--baseline) takes the place of the table. The comparison with the node's other GPUs of
 * the same kind is made always, besides. Each that applies has to hold; the judgement names the one that failed, else
 * the first that applied.
 */
#ifndef STRESS_THRESHOLD_H
#define STRESS_THRESHOLD_H

#include "tools/stress/run.h"

/* Healthy GPUs of one node differ by 5 %: a limit there raises false alarms. */
#define THRESHOLD_TOLERANCE 0.08
#define THRESHOLD_LATENCY 0.25 /* times are noisier than rates */

struct threshold {
	const char *device, *measure;
	double least;
	const char *unit, *source, *date;
	double limit_w;
	uint32_t size;
	const char *condition;
};

extern const struct threshold thresholds[];
extern const int n_thresholds;

/* NULL: none fits. limit_w < 0: it is not known, then rows that need one do not apply. */
const struct threshold *threshold_find(const char *device, const char *measure, double limit_w, uint32_t size);

/* Own earlier measurements, of a file of JSON lines. */
struct baseline;
/* 0, -errno of reading, -EINVAL: line *line is none of a baseline. */
int baseline_read(const char *path, struct baseline **of, int *line);
/* What --baseline and --save-baseline name, before a run. STRESS_PASSED, or STRESS_USAGE with `why`. */
int baseline_open(const struct stress_options *options, struct baseline **of, char why[LIBRARY_WHY]);
/* The one of this GPU, else of one of this name, of this size (of matrices, KiB of an operation); NAN: none. */
double baseline_find(const struct baseline *of, const char *uuid, const char *device, const char *measure,
		     uint32_t size, const char **date);
void baseline_free(struct baseline *of);
/* 0 or -errno: whether it could be written, asked before a long run. */
int baseline_writable(const char *path);
struct baseline_line {
	const char *uuid, *device, *measure, *unit;
	uint32_t size;
	double value;
};
/* 0 or -errno. */
int baseline_lines_write(const char *path, const struct baseline_line *lines, int n);
int baseline_write(const char *path, const struct stress_run *run);

enum better { BETTER_MORE, BETTER_LESS }; /* rates, times */

/* Held to `bound`: keeps the rule that failed, else the first. */
void judgement_hold(struct judgement *j, enum better better, double bound, const char *rule);
/* Held to 92 % of a like value (of a time to 125 %); `whose`: "median of the 3 others". */
void judgement_hold_near(struct judgement *j, enum better better, double of, const char *whose);
/* Held to the own earlier value that `of` names. False: the baseline has none. */
bool judgement_hold_own(struct judgement *j, enum better better, const struct baseline *baseline,
			const struct baseline_line *of);
#define JUDGE_TEXT (JUDGE_RULE + 64)
/* "12.5 GB/s, less than 18.4 (RULE)" of one that failed. */
const char *judgement_text(const struct judgement *j, enum better better, const char *unit, char *text, size_t size);
/* The value that a quarter of these are at least as good as; n > 0, sorts them. */
double values_quartile(double *values, int n, enum better better);
/* Fills gpus[].judged and leaves a fault for each that failed or was not measured. */
void run_judge(struct stress_run *run, const struct baseline *baseline);

#endif
