/* SPDX-License-Identifier: Apache-2.0
 *
 * escalation.h - which processes are probed above the session's tier, and until when. Pure: told of findings and of the
 * time, it says what is to be changed. Bounded: a process is raised for raise_ns, then left alone for pause_ns,
 * whatever is found.
 */
#ifndef RANKTRACE_ESCALATION_H
#define RANKTRACE_ESCALATION_H

#include "tracer.h"

#define ESCALATION_PROCS_MAX 64 /* raised at once; more are left alone */

struct escalation_cfg {
	uint64_t raise_ns;                 /* from the finding to the end */
	uint64_t burst_after_ns, burst_ns; /* of it: burst from then, for so long; else trace */
	uint64_t pause_ns;
};

struct tier_change {
	uint32_t tgid;
	enum tier tier, before;
	uint64_t incident;
};

struct escalation;
struct escalation *escalation_new(const struct escalation_cfg *cfg); /* NULL without memory */
void escalation_free(struct escalation *e);
/* A finding concerns the process. Nothing happens to one that is raised, or in its pause. 0 or -ENOMEM. */
int escalation_note(struct escalation *e, uint32_t tgid, uint64_t incident, uint64_t now_ns);
/* The next change that is due: it counts as made. False: none. */
bool escalation_next(struct escalation *e, uint64_t now_ns, struct tier_change *ret);
void escalation_forget(struct escalation *e, uint32_t tgid); /* it is gone */
int escalation_raised(const struct escalation *e);           /* processes above watch now */

#endif
