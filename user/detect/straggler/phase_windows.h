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
#define PHASE_RANKS 16   /* that are listed */

struct phase_windows { /* zeroed at first */
	struct keyed_table ranks;
	struct forgetting forgetting;
};

enum phase_who { WHO_EVERYBODY, WHO_RANKS, WHO_TURNS };

struct phase_verdict {
	struct phase_reason reason; /* of the rank that shows it most; of ranks that take turns all together */
	enum phase_who who;
	char ranks[PHASE_RANKS * 12]; /* "3,7": those of WHO_RANKS; else "" */
	uint64_t proc;                /* of one rank alone; else 0 */
	uint64_t worker;              /* of that rank's data wait: the process that makes it wait; 0 not known */
	bool computes;                /* of PHASE_GPU_WAIT: it is no wait for communication */
};

/* Window number `n` of the job ends now, from 1. 0 or -ENOMEM. */
int phase_windows_push(struct phase_windows *s, const struct model *m, const struct job_id *job, uint64_t n);
/* The `base` windows before the `recent` last ones are what the ranks' steps are compared with from now on. */
void phase_windows_compare(struct phase_windows *s, const struct model *m, const struct job_id *job, uint64_t recent,
			   uint64_t base);
/* Why training steps of the `recent` last windows are longer than those that they are compared with. reason.phase -1:
 * they are not, no phase explains it, or none is known. */
struct phase_verdict phase_windows_judge(const struct phase_windows *s, const struct model *m, const struct job_id *job,
					 uint64_t recent);
bool phase_verdicts_alike(const struct phase_verdict *a, const struct phase_verdict *b);
/* As evidence: what and whose. */
void phase_verdict_note(struct finding *f, const struct model *m, const struct phase_verdict *v);
void phase_windows_free(struct phase_windows *s);

#endif
