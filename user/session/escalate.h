/* SPDX-License-Identifier: Apache-2.0
 *
 * escalate.h - tier escalation: attaches probes to the processes that a finding concerns, and removes them later.
 *
 * Findings come from the pipeline, escalation.h decides, the session's targets get the new tier. Each change is emitted
 * as a RECORD_TIER record.
 */
#ifndef RANKTRACE_ESCALATE_H
#define RANKTRACE_ESCALATE_H

#include "pipeline/pipeline.h"
#include "session/targets.h"

struct escalator;

/* Borrows all arguments. NULL: out of memory. */
struct escalator *escalator_new(const struct session_cfg *cfg, const struct pipeline *p, struct session_targets *t,
				int (*emit)(void *to, const struct wire_hdr *rec), void *to);
/* Other durations, also of what is escalated now. */
void escalator_set(struct escalator *r, const struct session_cfg *cfg);
/* A user wants probes in this process for a while. False: it has them, or too many do. */
bool escalator_ask(struct escalator *r, uint32_t tgid, uint64_t now_ns);
void escalator_free(struct escalator *r);
/* Call it at every tick. Returns 0 or -errno. */
int escalator_tick(struct escalator *r, uint64_t now_ns);

#endif
