/* SPDX-License-Identifier: Apache-2.0
 *
 * life_job.h - a healthy job's life as a session sees it that only samples (tier watch), with a clock of its own. Eight
 * ranks, in pairs of tensor parallelism and of data parallelism; steps of any length, and phases as simjob --life has
 * them. All is drawn from a seed. The model and the detectors are given what a session would give them, each half
 * second.
 */
#ifndef RANKTRACE_LIFE_JOB_H
#define RANKTRACE_LIFE_JOB_H

#include "tests/unit/job/job_script.h"

#define LIFE_RANKS 8
#define LIFE_ROUND_NS (500 * MSEC) /* samples and a tick */

enum life_comm { LIFE_WORLD, LIFE_TP, LIFE_DP, LIFE_COMMS };
enum life_work { LIFE_STEP, LIFE_SLEEPS, LIFE_WORKS, LIFE_STOPPED, LIFE_BLOCKED, LIFE_DEAD };

struct life_rank {
	uint32_t tgid, child; /* child 0: none yet */
	uint64_t entered[LIFE_COMMS], run_ns, since_ns;
	double own_s; /* of the step under way: so long it does something else than wait */
	enum life_work work;
	const char *site; /* where it is then; NULL: in a step */
};

struct life {
	struct model *m;
	struct detectors *d;
	struct finding_list list;
	uint64_t now, rng, generation, n_pids;
	uint64_t n_steps, n_pauses; /* since communicators were made anew */
	double longest_s;           /* of these pauses */
	struct life_rank ranks[LIFE_RANKS];
	double step_s, bubble;
	void (*said)(struct life *l);                           /* after each tick: l->list is what it found; or NULL */
	void (*phase_begins)(struct life *l, const char *site); /* or NULL */
	void *arg;
};

/* All but `said`, `phase_begins` and `arg`, which the caller sets before. Exits on failure. */
void life_begin(struct life *l, uint64_t seed);
void life_end(struct life *l);
double life_between(struct life *l, double lo, double hi); /* drawn, log-uniform */
/* Another job on the same host, of the same code: other processes, other steps; what was learnt stays known. */
void life_job_begin(struct life *l, double step_s);
void life_steps(struct life *l); /* up to 12 steps of a second and more, or up to a minute of shorter ones */
void life_phase(struct life *l); /* one of the phases, drawn */
/* Samples of all ranks, half a second, a tick. waits: whether a rank sits in a wait for its peers. */
void life_round(struct life *l, bool waits(const struct life_rank *r, double t), double t);
bool life_waits(const struct life_rank *r, double t); /* it is through with what is its own */
void life_rank_ends(struct life *l, struct life_rank *r, int signal);
struct event life_event(const struct life *l, enum event_kind kind, const struct life_rank *r);
void life_give(struct life *l, struct event e);
/* Gives the rank a child, a data worker, if it has none. */
void life_child(struct life *l, struct life_rank *r);
/* The rank's stack is read, as a session does of those that a finding names. */
void life_stack(struct life *l, const struct life_rank *r);

#endif
