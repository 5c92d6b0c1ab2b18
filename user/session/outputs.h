/* SPDX-License-Identifier: Apache-2.0
 *
 * outputs.h - the words commands share about a pipeline's outputs: opening those asked for, and telling which failed.
 */
#ifndef RANKTRACE_OUTPUTS_H
#define RANKTRACE_OUTPUTS_H

#include "pipeline/pipeline.h"

#define OUTPUTS_MAX 8 /* -o options of one command */

struct outputs {
	const char *paths[OUTPUTS_MAX];
	int n;
};

/* `sink` (by name; NULL none) on standard output, then a file for each path. 0 or -errno, which was told. */
int outputs_open(struct pipeline *p, const char *sink, const struct outputs *o);
/* Tells every output that failed since the last call. The last -errno, 0 none. */
int outputs_errors_say(struct pipeline *p);
/* Tells which faults cost the job time, the most expensive first. */
void outputs_costs_say(struct pipeline *p);

#endif
