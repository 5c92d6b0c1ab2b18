/* SPDX-License-Identifier: Apache-2.0
 *
 * runlog.h - `--log F`: a run's windows and faults as JSON lines, appended as they end, so that a run that was cut off
 * goes on where it was (`--resume`).
 */
#ifndef STRESS_RUNLOG_H
#define STRESS_RUNLOG_H

#include "tools/stress/run.h"

struct runlog;

/* Opens the log; with `resume`, takes over what an earlier run measured and found on the same GPUs. STRESS_PASSED, or
 * STRESS_USAGE with `why`. */
int runlog_open(struct runlog **log, const char *path, bool resume, struct stress_run *run, char why[LIBRARY_WHY]);
/* What the window that has just ended measured of each GPU. */
void runlog_window(struct runlog *log, const struct stress_run *run, int measure);
void runlog_fault(struct runlog *log, const struct stress_run *run, const struct fault *fault);
/* 0 or -errno: a line could not be written. */
int runlog_close(struct runlog *log);

#endif
