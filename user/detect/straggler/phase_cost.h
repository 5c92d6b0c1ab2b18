/* SPDX-License-Identifier: Apache-2.0
 *
 * phase_cost.h - in which phase of a step the host of a rank takes longer than it should: than its peers' hosts, or
 * than it did itself. A phase is named only where that makes up nearly all of the wait in question. Waits for the GPU
 * are no host's time: in them a rank waits for its peers, too. Steps whose borders are known in another way have other
 * phases, and are compared with none.
 */
#ifndef RANKTRACE_PHASE_COST_H
#define RANKTRACE_PHASE_COST_H

#include <stdbool.h>

#include "finding.h"
#include "model/ahead.h"

#define PHASE_EXPLAINS 0.8 /* of the wait; TraceML's rule, too */

#define PHASE_GPU_WAIT PHASES_AND_OTHER /* no phase, but what a step may be longer for: the host waits for its GPU */

struct phase_mean { /* of one training step of a rank, in seconds */
	bool known; /* else nothing below is */
	enum steps_by by;
	double host_s[PHASES_AND_OTHER];
	double step_s, gpu_wait_s, exposed_most_s;
	double storage_s[PHASES_AND_OTHER]; /* of host_s: blocked in calls on files */
	uint32_t storage_at;                /* where it was for longest, STORAGE_AT(); 0 nowhere */
};

struct phase_reason {
	int phase;             /* enum step_phase, PHASE_OTHER, PHASE_GPU_WAIT; -1: none explains it */
	double own_s, usual_s; /* in it, of a step */
	double part;           /* of the wait that the difference makes up, 1 at most; 0: none explains it */
	double storage_s;      /* blocked in calls on files, where that explains the phase; else 0 */
	uint32_t storage_at;   /* where, STORAGE_AT() */
};

/* Over the steps that ended between the two; not known where none did, or not all of them are of one kind. */
struct phase_mean phase_mean(const struct phase_totals *then, const struct phase_totals *now);
/* Of each figure the median of those that are known, and of that kind; not known if none is. */
struct phase_mean phase_median(const struct phase_mean *all, int n, enum steps_by by);
/* Why a step of `own` is `wait_s` longer than one of `usual`. */
struct phase_reason phase_reason(const struct phase_mean *own, const struct phase_mean *usual, double wait_s);
/* As evidence; nothing where none explains it. mount: of r->storage_at, "" not known. */
void phase_reason_note(struct finding *f, const struct phase_reason *r, const char *mount);
/* What it is as a cause; CAUSE_NONE where none explains it. */
enum finding_cause phase_reason_cause(const struct phase_reason *r);
/* Of a rank that waits for its data the process that makes it wait: the one that alone works or is blocked while its
 * others have nothing to do. Its key; 0: none stands out, as where it sleeps. */
uint64_t data_worker_find(const struct model *m, const struct proc *p);
/* How many processes it started, and that one. */
void data_worker_note(struct finding *f, const struct model *m, const struct proc *p, uint64_t worker);

#endif
