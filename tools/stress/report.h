/* SPDX-License-Identifier: Apache-2.0
 *
 * report.h - what a run prints on standard output: a progress bar with live rates on a terminal, else a plain log; or
 * JSON lines (--json). At the end rows of rates, notes, and a verdict line a device.
 */
#ifndef STRESS_REPORT_H
#define STRESS_REPORT_H

#include <stdarg.h>

#include "tools/stress/run.h"

enum report_mode { REPORT_PLAIN, REPORT_TERMINAL, REPORT_JSON, REPORT_NONE };

struct report {
	enum report_mode mode;
	bool bar; /* a progress bar stands in the last line */
	double printed_s;
};

void report_begin(struct report *r, const struct stress_run *run);
/* A window of a measure begins; round from 1. */
void report_window(struct report *r, const struct stress_run *run, int round);
/* Twice a second, by the thread of health.c. */
void report_tick(struct report *r, const struct stress_run *run, uint64_t tick);
void report_fault(struct report *r, const struct stress_run *run, const struct fault *fault); /* under the run's lock */
void report_end(struct report *r, const struct stress_run *run, int status, const char *partial);

/* Each text once; what has no room is left out. */
void notes_add(struct notes *notes, const char *format, va_list args);
/* Why a run has no verdict: its last note says why nothing was measured. */
void notes_unmeasured(const struct notes *notes, char *why, size_t size);
void notes_print(const struct notes *notes); /* on standard output, a line each */

#endif
