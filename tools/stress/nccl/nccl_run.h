/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_run.h - one run of `stress nccl`: the ranks, the groups, what was measured, what is wrong with whom.
 */
#ifndef STRESS_NCCL_RUN_H
#define STRESS_NCCL_RUN_H

#include "tools/stress/nccl/trial.h"
#include "tools/stress/report.h"
#include "tools/stress/threshold.h"

#define NCCL_FAULTS_MAX 256

/* A rate, of a group's largest size: what is judged. */
struct nccl_rate {
	int group;
	struct nccl_case of;
	double p99; /* of single operations, in s: the largest of all sweeps */
	uint64_t bytes;
	struct judgement judged; /* bus bandwidth in GB/s; the first turn: the median of all sweeps */
	double values[64];
	int n_values;
};

struct nccl_run {
	const struct stress_options *options;
	enum report_mode mode;
	uint64_t begin_ns;
	struct coordinator c;
	struct trial_group *groups;
	int n_groups;
	struct nccl_rate *rates; /* every case of every group */
	int n_rates;
	struct fault faults[NCCL_FAULTS_MAX]; /* fault.gpu: the rank; -1: no single one could be named */
	uint32_t n_faults;
	struct notes notes;
	uint32_t n_measured, n_left; /* cases of groups */
	uint32_t n_compared;         /* of --bisect: tests whose rate was held to that of others */
	bool uncompared;             /* of --bisect: there was one that had too few others */
	char lacks[LIBRARY_WHY];     /* what NCCL lacks of a host: then there is no verdict */
	bool again;                  /* cases are turns of what was below its bound, no sweep */
};

void nccl_fault(struct nccl_run *run, enum fault_kind kind, int rank, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* The same for what was held to a bound. */
void nccl_fault_take(struct nccl_run *run, struct fault *fault);
void nccl_note(struct nccl_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Of a group with CASE_SYSTEM: no fault of a GPU, and no pass. */
void nccl_lacks(struct nccl_run *run, const struct trial_group *g);
double nccl_elapsed_s(const struct nccl_run *run);
/* "has wrong elements", "hangs": what a case of a group came to; false: all is well. */
bool group_is_bad(const struct trial_group *g);

/* nccl_isolate.c: whose fault it is that this case went wrong in this group: all pairs of its ranks try it, a round of
 * disjoint pairs at a time. Leaves the faults. */
void nccl_isolate(struct nccl_run *run, const struct trial_group *g, const struct nccl_case *of);

/* stress_nccl.c: the case on all groups that are whole; keeps their rates, and looks for whose fault it is. */
void nccl_case_run(struct nccl_run *run, const struct nccl_case *of);

/* nccl_judge.c: rates of the sweeps against a baseline, the other groups, the table; the cases that are below their
 * bound again, turn by turn. Then the faults. */
void nccl_hold(struct nccl_run *run, const struct baseline *baseline);
void nccl_judge(struct nccl_run *run);
bool nccl_same_case(const struct nccl_case *a, const struct nccl_case *b);
bool nccl_has_nvls(const struct coordinator *c);
/* "all_reduce fp32 in 8x1": the measure of a baseline; its size is in KiB. */
void nccl_measure_name(const struct nccl_run *run, const struct nccl_rate *rate, char *text, size_t size);

/* Of a run that passed only. The exit status. */
int nccl_baseline_save(struct nccl_run *run, int status, char why[LIBRARY_WHY]);

/* nccl_scaling.c: how each size compares with the others of its collective, type and place: a table, or lines. */
void nccl_scaling_report(const struct nccl_run *run);

/* nccl_report.c */
void nccl_report_begin(const struct nccl_run *run);
void nccl_report_case(const struct nccl_run *run, const struct trial_group *g, const struct nccl_case *of);
void nccl_report_fault(const struct nccl_run *run, const struct fault *fault);
void nccl_report_end(const struct nccl_run *run, int status, const char *partial);

#endif
