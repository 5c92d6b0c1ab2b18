/* SPDX-License-Identifier: Apache-2.0
 *
 * all.h - one run of `stress all`: the other tests as stages, each in a process of its own that writes JSON lines, so
 * that a call of the driver that never returns holds nothing up. All that is reported is made from these lines.
 */
#ifndef STRESS_ALL_H
#define STRESS_ALL_H

#include <stdio.h>
#include <sys/types.h>

#include "tools/stress/report.h"
#include "tools/stress/stress.h"

struct cJSON;

enum stage_status { STAGE_PASSED, STAGE_FAILED, STAGE_REFUSED, STAGE_CUT, STAGE_LEFT_OUT, N_STAGE_STATUS };

struct stage {
	const char *name;
	int gpus, nics, quick_s;
	enum stage_status status;
	double elapsed_s;
	uint32_t n_faults;
	char text[LIBRARY_WHY]; /* why it was refused, left out or cut; what is missing of it */
};

#define STAGES_MAX 8

struct all {
	const struct stress_options *options;
	enum report_mode mode;
	uint64_t begin_ns, end_ns; /* end_ns: of the whole, ~0: none */
	struct stage stages[STAGES_MAX];
	int n_stages;
	struct cJSON *lines;            /* of all stages, an array */
	int n_samples, step, n_skipped; /* every step-th sample is kept */
	int n_gpus, n_nics;
	int n_ports, n_ports_up; /* RDMA ports, as the stage said that tests them */
	uint32_t n_faults;
	FILE *copy; /* --lines */
	bool stopped;
};

/* all_stage.c: runs one to its end or its deadline, and takes its lines. */
void stage_run(struct all *all, struct stage *stage);
/* all.c: a line of a stage; keeps it, prints it. */
void all_take(struct all *all, struct stage *stage, struct cJSON *line);
/* What the host has of it could not be tested, and that is no fault. */
bool stage_is_untested(const struct stage *stage);
const char *stage_status_name(enum stage_status status);

/* all_text.c: the report for people. */
void all_stage_print(const struct all *all, const struct stage *stage);
void all_print(const struct all *all, int status);
/* "GPU 2", "link GPU 0 to GPU 1", "rank 3 on HOST", "node HOST" */
const char *subject_text(const struct cJSON *line, char *text, size_t size);
const char *line_text(const struct cJSON *line, const char *key); /* "": it has none */
double line_number(const struct cJSON *line, const char *key);    /* NAN */

/* all_page.c: 0 or -errno. */
int all_page_write(const struct all *all, int status, const char *path);

#endif
