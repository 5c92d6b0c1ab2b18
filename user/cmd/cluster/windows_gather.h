/* SPDX-License-Identifier: Apache-2.0
 *
 * windows_gather.h - the windows of hosts' flight recorders, from the bus, and as one stream through a pipeline.
 */
#ifndef RANKTRACE_CMD_WINDOWS_GATHER_H
#define RANKTRACE_CMD_WINDOWS_GATHER_H

#include <stddef.h>
#include <stdint.h>

#include "autopsy/window_merge.h"
#include "cluster/ask.h"

struct windows_gathered {
	struct window *all;
	size_t n;
};

/* Of these hosts (tokens), which have until `until_ns` (CLOCK_MONOTONIC) to deliver; what one has not is said. 0: one
 * at least is there; -ENODATA; or of the bus. */
int windows_gather(struct bus *b, int64_t user, const char *id, const char (*hosts)[BUS_TOKEN_MAX], size_t n,
		   uint64_t until_ns, struct windows_gathered *ret);
/* An exit code; says how well clocks are known, and what goes wrong. */
int windows_gathered_feed(struct windows_gathered *g, struct pipeline *p);
void windows_gathered_free(struct windows_gathered *g);

#endif
