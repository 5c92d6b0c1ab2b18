/* SPDX-License-Identifier: Apache-2.0
 *
 * merge.h - several nodes' samples as one: the recordings that `autopsy --raw` made go through one pipeline, round
 * by round. Each host's records follow a RECORD_NODE; clocks of different hosts are never compared: every host's first
 * round counts as the same moment.
 */
#ifndef RANKTRACE_AUTOPSY_MERGE_H
#define RANKTRACE_AUTOPSY_MERGE_H

#include "pipeline/pipeline.h"

/* Says on stderr what is wrong with which file. Returns an exit code: 0; EXIT_USAGE: these files make no sense
 * together. */
int autopsy_merge(const char *const *paths, size_t n, struct pipeline *p);

#endif
