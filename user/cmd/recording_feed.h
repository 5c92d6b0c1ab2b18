/* SPDX-License-Identifier: Apache-2.0
 *
 * recording_feed.h - a recording goes to the pipeline, as `replay` and `report` do it: opened before rights are given
 * up, fed to its end, and what was wrong with it is said.
 */
#ifndef RANKTRACE_CMD_RECORDING_FEED_H
#define RANKTRACE_CMD_RECORDING_FEED_H

#include "pipeline/pipeline.h"

struct recording_reader;

/* "-": standard input. EXIT_CLEAN, or EXIT_USAGE after logging why. */
int recording_feed_open(const char *path, struct recording_reader **ret);
/* To the end, or until no output is left; flushes the outputs. EXIT_CLEAN, also of a torn one, whose whole records were
 * used; EXIT_INTERNAL. Logs what was wrong. */
int recording_feed(struct recording_reader *r, const char *path, struct pipeline *p);

#endif
