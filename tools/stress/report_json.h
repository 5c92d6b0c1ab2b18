/* SPDX-License-Identifier: Apache-2.0
 *
 * report_json.h - a run as JSON lines: schemas/stress.schema.json has all kinds of them. Times are `t_ns` on the
 * tracer's clock (CLOCK_MONOTONIC), so that a line can be laid beside a recording. What incidents have, too, has the
 * same name here: time, host, kind, severity, summary, remedy, subject.
 */
#ifndef STRESS_REPORT_JSON_H
#define STRESS_REPORT_JSON_H

#include "tools/stress/run.h"

void json_begin(const struct stress_run *run);
void json_window(const struct stress_run *run, int round);
void json_sample(const struct stress_run *run);
void json_fault(const struct stress_run *run, const struct fault *fault);
void json_end(const struct stress_run *run, int status, const char *partial);

/* Which test the lines of this process are of, from now on. */
void json_lines_of(const char *test);
/* A line of any kind: its type, test, host and time; printed and freed. */
struct cJSON *json_line_begin(const char *type);
void json_line_end(struct cJSON *line);

/* {"type":"gpu","host":...}; more is added by the caller. `key` is where in the line: "subject". */
struct cJSON *json_subject_add(struct cJSON *line, const char *type);
void json_subject_gpu(struct cJSON *line, const struct stress_gpu *gpu);
/* A line "fault"; the subject is to be added. */
struct cJSON *json_fault_begin(const struct fault *fault);
/* "value", "unit", and, where it was judged, "bound", "rule", "failed". */
void json_judged_add(struct cJSON *line, const struct judgement *j, const char *unit);
struct cJSON *json_end_make(int status, const char *partial, double elapsed_s);
/* The last line. */
void json_end_line(int status, const char *partial, double elapsed_s, const struct notes *notes);
/* Why a test was not done, or gave no verdict. */
void json_refused(int status, const char *why);

/* The fault as the object that the line is; the caller frees it. */
struct cJSON *json_of_fault(const struct stress_run *run, const struct fault *fault);

#endif
