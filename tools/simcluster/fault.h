/* SPDX-License-Identifier: Apache-2.0
 *
 * fault.h - what is done to the simulated job: one injected fault, and the ordinary life of a job, which is none.
 */
#ifndef RANKTRACE_SIMCLUSTER_FAULT_H
#define RANKTRACE_SIMCLUSTER_FAULT_H

#include "tools/simcluster/cluster.h"

/* id, name, what is to be said of it */
#define FAULTS(X) \
	X(NONE, "none", "nothing") \
	X(STOP, "stop", "one rank is stopped (F1)") \
	X(KILL, "kill", "one rank is killed (F2)") \
	X(HANG, "hang", "one rank sleeps in a pass of its pipeline and never calls (F3, F6)") \
	X(BUSY, "busy", "the same, spinning on a CPU (F3)") \
	X(DEADLOCK, "deadlock", "one rank calls two communicators in the other order (F4)") \
	X(DSTATE, "dstate", "one rank's main thread is in D state without end (F8)") \
	X(SUSPEND, "suspend", "the job is suspended: all ranks are stopped, a host after the other, within a step") \
	X(RESUME, "resume", "the same, and goes on after 15 s, a host after the other") \
	X(TWO, "two", "two ranks sleep, of different replicas (F19)") \
	X(HOST, "host", "a host is gone, with its agent") \
	X(UPGRADE, "upgrade", "all agents are started anew, each for itself within 20 s; ranks train on") \
	X(CUT, "cut", "an eighth of the agents reaches no bus for 60 s, and sends all of it then; ranks train on") \
	X(REPLACE, "replace", "a host is gone, and after a minute the job goes on without it, on a spare") \
	X(AGENT, "agent", "an agent is gone, its ranks train on (F20)") \
	X(SLOW, "slow", "one GPU takes longer (F11)") \
	X(LATE, "late", "a rank of the first stage begins each step late: slow input (F10)") \
	X(TRAFFIC, "traffic", "a shared link is slow, for a host after the other (F13)") \
	X(IMBALANCE, "imbalance", "the last stage is a fifth heavier, sequences vary by a tenth (F16)")

enum fault_kind {
#define X(id, name, help) FAULT_##id,
	FAULTS(X)
#undef X
		FAULT_KINDS
};

struct fault {
	enum fault_kind kind;
	double severity; /* of SLOW and LATE: 1.1 is a tenth of the step */
	int rank, rank2; /* -1 none */
	int op;          /* it begins there, in the next step */
	bool struck;     /* that step was run */
	double silent_s; /* its host's agent says nothing from then on; INFINITY: it does */
	double spoken_s; /* of REPLACE: the agent of the host in its place speaks from then on */
	double first_s;  /* the first peer waits; INFINITY: none does (yet) */
	double begin_s;  /* of the first step that has it */
};

const char *fault_name(enum fault_kind kind);
bool fault_find(const char *name, enum fault_kind *ret);
void fault_draw(struct fault *f, enum fault_kind kind, double severity, const struct cluster *c, struct draw *d);
/* Before a step: what it does in it. After the step: what followed. */
void fault_before(struct fault *f, struct cluster *c, struct draw *d);
void fault_after(struct fault *f, const struct cluster *c);
/* While a step never ends: what follows by the clock. */
void fault_turn(struct fault *f, struct cluster *c, double now_s);

#define STALLS_KEPT 16

struct life {        /* each 0: never. In steps, at the mean */
	double rate; /* times as often as a real job has it */
	struct draw draw;
	/* so many were */
	unsigned long checkpoints, evaluations, stalls, restarts, garbage, compiles, logs, traffic, sequences;
	int evaluating, busy_link, uneven; /* steps that are left */
	double variation;                  /* of the job, where its sequences are even; 0 not known yet */
	struct life_stall {                /* its input ran dry for so long */
		int rank;
		double begin_s, s;
	} stalled[STALLS_KEPT]; /* the newest ones, each at its number of them */
};

/* Another host every step: its operations across hosts take three times as long. */
void link_slow_somewhere(struct cluster *c, struct draw *d);
#define UNEVEN_VARIATION 0.1 /* of steps whose sequences differ in length */
#define HEAVY_STAGE 1.2      /* of the last stage, where it has more to do than the others */

/* Before a step, and after it. */
void life_before(struct life *l, struct cluster *c);
void life_after(struct life *l, const struct cluster *c);

#endif
