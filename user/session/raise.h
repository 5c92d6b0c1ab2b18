/* SPDX-License-Identifier: Apache-2.0
 *
 * session_raise.h - has the processes that a finding concerns probed, and lets them go again: the findings of the
 * pipeline on one side, the session's targets on the other, escalation.h in between.
 */
#ifndef RANKTRACE_SESSION_RAISE_H
#define RANKTRACE_SESSION_RAISE_H

#include "pipeline/pipeline.h"
#include "session/targets.h"

struct raiser;

/* Borrows everything. NULL without memory. */
struct raiser *raiser_new(const struct session_cfg *cfg, const struct pipeline *p, struct session_targets *t,
			  int (*emit)(void *to, const struct wire_hdr *rec), void *to);
void raiser_free(struct raiser *r);
/* At every tick. 0 or -errno. */
int raiser_tick(struct raiser *r, uint64_t now_ns);
int raiser_raised(const struct raiser *r); /* processes with probes now */

#endif
