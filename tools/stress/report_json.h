/* SPDX-License-Identifier: Apache-2.0
 *
 * report_json.h - a run as JSON lines: begin, window, sample, fault, rate, verdict, end. Times are `t_ns` on the
 * tracer's clock (CLOCK_MONOTONIC), so that a line can be laid beside a recording.
 */
#ifndef STRESS_REPORT_JSON_H
#define STRESS_REPORT_JSON_H

#include "tools/stress/run.h"

void json_begin(const struct stress_run *run);
void json_window(const struct stress_run *run, int round);
void json_sample(const struct stress_run *run);
void json_fault(const struct stress_run *run, const struct fault *fault);
void json_end(const struct stress_run *run, int status, const char *partial);

/* A line of any kind: its type and time; printed and freed. */
struct cJSON *json_line_begin(const char *type);
void json_line_end(struct cJSON *line);

/* The fault as the object that the line is; the caller frees it. */
struct cJSON *json_of_fault(const struct stress_run *run, const struct fault *fault);

#endif
