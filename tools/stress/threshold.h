/* SPDX-License-Identifier: Apache-2.0
 *
 * threshold.h - which least rate a measurement is held to, and the judgement.
 *
 * Three rules. An own baseline (--baseline) takes the place of the table. The comparison with the node's other GPUs of
 * the same kind is made always, besides. Each that applies has to hold; the judgement names the one that failed, else
 * the first that applied.
 *
 * What is below its bound is measured again, as one short measurement dips where others use the host: a turn measures
 * all that is below once more, and only what was below in each turn is a fault (docs/decisions/stress.md).
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

/* How far from a like value a measurement may be. */
struct tolerance {
	double factor, more;
};
#define TOLERANCE_RATE ((struct tolerance){ 1 - THRESHOLD_TOLERANCE, 0 })
#define TOLERANCE_TIME ((struct tolerance){ 1 + THRESHOLD_LATENCY, 0 })

/* What a measurement is held to: each that is there has to hold. */
struct bounds {
	enum better better;
	struct tolerance near, near_own; /* of the others, of the own baseline */
	const char *unit;
	const struct baseline *baseline; /* in place of the row; NULL: none */
	struct baseline_line own;
	double *others; /* they are sorted */
	int n_others;
	bool quartile;                    /* the upper one of the others, of a time the lower; not the median */
	const char *others_are, *besides; /* "the node's "; ", in software" */
	double least;                     /* of a row of a table; 0: none */
	char row[JUDGE_RULE];
};

/* Keeps the rule that failed, else the first. False: there is a baseline, and it has none of this. */
bool judgement_hold(struct judgement *j, const struct bounds *bounds);
/* Another turn of what was below its bound, or was measured beside that: the best one counts. */
void judgement_turn(struct judgement *j, enum better better, double value);
/* Below its bound, and no median of many: another turn may show that it was a dip. */
bool judgement_is_open(const struct judgement *j);
/* It was below its bound first, and not in each turn. */
bool judgement_is_unsteady(const struct judgement *j);

#define AGAIN_QUICK_NS 3000000000ull /* of a test of `stress all --quick`, which has to end within 45 s */
#define AGAIN_PAUSE_NS 200000000ull  /* before the first turn, twice as long before each next: a dip may last */
#define AGAIN_ENOUGH 3               /* a median of so many rounds has had its turns */

struct again {
	uint32_t left; /* turns */
	uint64_t pause_ns, end_ns;
};

/* The time begins here: options->again turns, none after options->again_ns. */
void again_begin(struct again *again, const struct stress_options *options);
/* Pauses; true: there is another turn. False: all have been, the time is over, or a signal came. */
bool again_next(struct again *again);
/* Within a turn: no time is left, or a signal came. */
bool again_is_over(const struct again *again);

#define JUDGE_TEXT (JUDGE_RULE + 64 + 12 * JUDGE_TURNS)
/* "12.5 GB/s, less than 18.4 (RULE); measured 3 times: 12.1, 12.5, 11.9" of one that failed; "12.1, 24.9 GB/s:
 * unsteady, at first less than 18.4 (RULE)" of one that did not in each turn. */
const char *judgement_text(const struct judgement *j, enum better better, const char *unit, char *text, size_t size);
/* The rate of a window: of a round, or of another turn. */
void run_window_take(struct stress_gpu *gpu, int measure, double rate);
/* Takes what all rounds came to. */
void run_measured(struct stress_run *run);
/* Holds each to its bounds; may be called again after further turns. */
void run_hold(struct stress_run *run, const struct baseline *baseline);
/* A fault of each that failed or was not measured. */
void run_judge(struct stress_run *run);

#endif
