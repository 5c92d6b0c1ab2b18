/* SPDX-License-Identifier: Apache-2.0
 *
 * outputs.h - opens the outputs of a command (-o, stdout) and reports those that failed.
 */
#ifndef RANKTRACE_OUTPUTS_H
#define RANKTRACE_OUTPUTS_H

#include "pipeline/pipeline.h"

#define OUTPUTS_MAX 8 /* -o options of one command */

struct outputs {
	const char *paths[OUTPUTS_MAX];
	int n;
};

/* Opens `sink` (by name; NULL: none) on standard output, then one file per path. Returns 0 or -errno after logging
 * it. */
int outputs_open(struct pipeline *p, const char *sink, const struct outputs *o);
/* Logs each output that failed since the last call. Returns the last -errno; 0: none failed. */
int outputs_errors_say(struct pipeline *p);
/* Logs which faults cost the job most time, the most expensive first. */
void outputs_costs_say(struct pipeline *p);

#endif
