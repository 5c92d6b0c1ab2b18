/* SPDX-License-Identifier: Apache-2.0
 *
 * escalation.h - decides which processes get a higher tier than the session's, and until when.
 *
 * Pure: findings and the time go in, tier changes come out. Bounded: a process is escalated for raise_ns, then left
 * alone for pause_ns, whatever is found meanwhile.
 */
#ifndef RANKTRACE_ESCALATION_H
#define RANKTRACE_ESCALATION_H

#include "tracer.h"

#define ESCALATION_PROCS_MAX 64 /* escalated at the same time; further processes stay in the session's tier */

struct escalation_cfg {
	uint64_t raise_ns;                 /* from the finding to the end of the escalation */
	uint64_t burst_after_ns, burst_ns; /* part of raise_ns that runs in tier burst: when it begins, how long it
					      lasts; the rest is tier trace */
	uint64_t pause_ns;
};

struct tier_change {
	uint32_t tgid;
	enum tier tier, before;
	uint64_t incident;
};

struct escalation;
struct escalation *escalation_new(const struct escalation_cfg *cfg);         /* NULL without memory */
void escalation_set(struct escalation *e, const struct escalation_cfg *cfg); /* other durations from now on */
void escalation_free(struct escalation *e);
/* A finding concerns the process. No effect while it is escalated or in its pause. Returns 0 or -ENOMEM. */
int escalation_note(struct escalation *e, uint32_t tgid, uint64_t incident, uint64_t now_ns);
/* The same because somebody asked for it: the pause ends. False: it is escalated already, or too many are. */
bool escalation_ask(struct escalation *e, uint32_t tgid, uint64_t now_ns);
/* It is kept in tier trace at least, until then; said again, for longer. 0 or -ENOMEM. */
int escalation_hold(struct escalation *e, uint32_t tgid, uint64_t until_ns, uint64_t now_ns);
/* Returns the next due change, which counts as made. False: none is due. */
bool escalation_next(struct escalation *e, uint64_t now_ns, struct tier_change *ret);
void escalation_forget(struct escalation *e, uint32_t tgid); /* the process is gone */
int escalation_raised(const struct escalation *e);           /* number of processes above tier watch */

#endif
