/* SPDX-License-Identifier: Apache-2.0
 *
 * history.h - the blame of a job's last iterations, and what it adds up to: who is slow, beyond natural variation, and
 * why.
 */
#ifndef RANKTRACE_BLAME_HISTORY_H
#define RANKTRACE_BLAME_HISTORY_H

#include "base/keyed.h"
#include "detect/straggler/blame.h"
#include "detect/straggler/cause.h"
#include "detect/detect.h"

#define HISTORY 20
#define RECENT 5

#define SLOW_SHARE 0.05 /* blame of that share of the step is slow */
#define NAMES_MAX 8     /* a larger set is no name: only the one in it that the host delayed is reported */

struct blamed { /* a rank or a set, over the last iterations */
	uint64_t key;
	int n;
	uint64_t *procs, *sorted;              /* proc_key(), as they were found and by their value */
	double share[HISTORY], gap_s[HISTORY]; /* of the window's time */
	bool slow[HISTORY];                    /* in most of the window's iterations its blame was SLOW_SHARE or more */
	int n_slow;                            /* such iterations of the open window */
	double usual_share;                    /* running mean over some 50 iterations */
	uint64_t open_since_ns;                /* 0: not named */
	enum finding_cause cause;              /* found since it is open */
	int delayed;                           /* 1 + index of the one in it that the cause is of; 0 none */
	bool said;                             /* reported since it is open */
	struct blamed *next;
};

struct job_clock {
	struct keyed keyed; /* by the job */
	const struct job_id *job;
	const struct proc *lowest; /* lower_anchor() of this tick; NULL none */
	uint64_t anchor;           /* the rank whose iterations are counted */
	size_t period;
	uint64_t end_index;         /* the iteration is cut behind the operation with nth % period == this */
	uint64_t done_n;            /* its operations read */
	uint64_t last_ns;           /* arrival of the last iteration's end */
	uint64_t n;                 /* windows that count: iterations, short ones summed up */
	bool window_open;           /* slot n % HISTORY is being summed */
	double iterations[HISTORY]; /* in each window */
	double step_s[HISTORY];     /* of all of its iterations */
	uint64_t begin_ns[HISTORY];
	struct blamed *blamed;
	struct keyed_table costs;
};

struct blamed *blamed_new(const struct blames *all, const struct blame *b); /* NULL without memory */
void blamed_free(struct blamed *d);

/* A rank whose iterations are known. */
bool rank_has_clock(const struct proc *p);
/* Of two of a job the lower rank whose iterations are known: those are the job's. `best` NULL: none yet. */
const struct proc *lower_anchor(const struct proc *best, const struct proc *p);
/* Of the whole job; NULL none. It reads all processes: who asks for every job keeps what lower_anchor() says of each.
 */
const struct proc *job_anchor(const struct model *m, const struct job_id *job);
/* Probes of a rank go or come right now, for what they cost: how long its steps take meanwhile is the tracer's fault.
 * Since when; 0: none do. */
uint64_t probes_change_since_ns(const struct model *m);
/* The finding of this tick that says who, or what, makes the job slow: its key; 0 none. */
uint64_t slow_cause_key(const struct model *m, const struct finding_list *found, const struct job_id *job);
/* Iterations of the last `last` in which it earned 5 % of the step or more. */
int times_slow(const struct job_clock *j, const struct blamed *d, int last);
double recent_mean(const struct job_clock *j, const double *of);
/* After a new iteration: sets or clears open_since_ns. */
void slow_decide(struct job_clock *j, const struct model *m, struct blamed *d);
/* More than half of a role, or of the job, is slow: that is how the job is built. */
bool blame_structural(const struct job_clock *j, const struct model *m, const struct blamed *d);
/* What the host did to it. Of a set that blame cannot distinguish the one that the host delayed is the one: its index
 * in `d`; -1: none, or several. */
int blame_cause(const struct job_clock *j, const struct model *m, struct blamed *d, struct host_cause *ret);
/* No cause is found, but its ranks wait for CPUs, and it has not lasted for longer than luck does. */
bool blame_may_be_luck(const struct job_clock *j, const struct model *m, const struct blamed *d);
/* Part of it is named by a smaller set. */
bool blame_named_better(const struct job_clock *j, const struct blamed *d);

#endif
