/* SPDX-License-Identifier: Apache-2.0
 *
 * phase_windows.h - how long the hosts of a job's ranks were in each phase, window by window, and which phase of whom
 * explains that the job's steps became longer: everybody's, some ranks', or now one rank's and now another's.
 */
#ifndef RANKTRACE_PHASE_WINDOWS_H
#define RANKTRACE_PHASE_WINDOWS_H

#include "base/keyed.h"
#include "detect/detect.h"
#include "detect/rank/forget.h"
#include "detect/straggler/phase_cost.h"

#define PHASE_WINDOWS 51 /* boundaries that are kept */

struct phase_windows { /* zeroed at first */
	struct keyed_table ranks;
	struct forgetting forgetting;
};

enum phase_who { WHO_EVERYBODY, WHO_RANKS, WHO_TURNS };

struct phase_verdict {
	struct phase_reason reason; /* of the rank that shows it most; phase PHASE_GPU_WAIT, too */
	enum phase_who who;
	bool computes; /* of PHASE_GPU_WAIT: it is no wait for communication */
};

/* Window number `n` of the job ends now, from 1. 0 or -ENOMEM. */
int phase_windows_push(struct phase_windows *s, const struct model *m, const struct job_id *job, uint64_t n);
/* The `base` windows before the `recent` last ones are what the ranks' steps are compared with from now on. */
void phase_windows_compare(struct phase_windows *s, const struct model *m, const struct job_id *job, uint64_t recent,
			  uint64_t base);
/* Why steps of the `recent` last windows are `wait_s` longer. reason.phase -1: no phase explains it, or none is known.
 */
struct phase_verdict phase_windows_judge(const struct phase_windows *s, const struct model *m, const struct job_id *job,
					uint64_t recent, double wait_s);
/* As evidence: what and whose. `found` owns the texts. */
void phase_windows_note(const struct phase_windows *s, const struct model *m, const struct job_id *job, uint64_t recent,
		       double wait_s, const struct phase_verdict *v, struct finding *f, struct finding_list *found);
void phase_windows_free(struct phase_windows *s);

#endif
