/* SPDX-License-Identifier: Apache-2.0
 *
 * classify.h - stage 3: why a root does not enter what its peers wait in. Takes a root of the wait-for graph and what
 * it has pending; gives a culprit with class and cause, or nothing while that is not clear. What the rank does decides:
 * dead, stopped, blocked and asleep are a hang at once; work is an observation until it outlasts every such phase seen.
 */
#ifndef RANKTRACE_CLASSIFY_H
#define RANKTRACE_CLASSIFY_H

#include "base/keyed.h"
#include "detect/detect.h"
#include "detect/hang/habit.h"
#include "detect/hang/pending.h"
#include "detect/hang/wait_roots.h"
#include "detect/rank/activity.h"
#include "detect/rank/forget.h"

struct suspect {       /* a root, for as long as this one operation is pending */
	uint64_t proc; /* its key */
	int seat;      /* of a process that is several ranks: the GPU of the first of them, and 1; else 0 */
	uint32_t tid;  /* and the thread that calls for them; 0 not known */
	struct pending pending;
	bool is_hang;           /* reported as one for not entering: stays one, whatever it does then */
	bool was_stopped;       /* meanwhile, for however long: what it took says nothing of the program */
	uint64_t busy_since_ns; /* reported as an observation */
	enum activity was;      /* what it did when that was clear, the last time */
	struct pause_place place;
	struct suspect *next;
};

struct suspects { /* from tick to tick */
	struct suspect *first;
	struct pauses pauses;    /* that ended by themselves */
	struct keyed_table jobs; /* the longest of each: a rank of it may take that long */
	struct forgetting forgetting;
};

struct culprit { /* a rank, and why it does not come; report.h makes a finding of it */
	const struct proc *proc;
	const struct seats *seats; /* the process is several ranks: those of them that do not come; else NULL */
	uint32_t tid;              /* with seats: the thread that calls for them; 0 not known */
	bool whole;                /* with seats: they are all that the process is */
	struct pending pending;    /* an operation, not an init */
	struct rank_activity activity;
	enum finding_kind kind; /* hang or observation */
	enum hang_class class;
	enum finding_cause cause;
	double confidence;
	struct habit habit;
};

/* Forgets the ranks that came, and refreshes the waiting peers of the others. */
void suspects_refresh(struct suspects *s, const struct model *m);
/* The suspect that this root is, made anew where it was none; NULL: nothing is pending, or no memory. */
struct suspect *suspects_get(struct suspects *s, const struct model *m, const struct proc *p);
/* The same of a seat (rank/seats.h): `device` of its process, and what it has pending. NULL: no memory. */
struct suspect *suspects_get_seat(struct suspects *s, const struct proc *p, int device, uint32_t tid,
				  const struct pending *pend);
void suspects_free(struct suspects *s);
/* Work of a rank of this job that takes longer is a hang. */
uint64_t suspects_busy_limit_ns(const struct suspects *s, const struct model *m, const struct job_id *job);
/* It ended by itself, and something came of it. */
void suspects_busy_learn(struct suspects *all, const struct job_id *job, uint64_t took_ns);
/* `found`: of this tick so far. False: nothing is to be reported (yet). */
bool suspect_classify(const struct suspects *all, struct suspect *s, const struct model *m, const struct wait_root *r,
		      const struct finding_list *found, struct culprit *ret);
/* The same for a culprit of which proc, tid, pending, activity and, of a process of several ranks, seats are set. */
bool seat_classify(const struct suspects *all, struct suspect *s, const struct model *m, struct culprit *c);

#endif
