/* SPDX-License-Identifier: Apache-2.0
 *
 * job_script.h - a small training job that exists only as events: N ranks in tp x dp x pp, hosts and GPU streams with
 * their own times, a watchdog that polls, a scheduler scan, and faults. It keeps the truth (when each operation was
 * really over) next to the events that the model gets to see.
 */
#ifndef RANKTRACE_JOB_SCRIPT_H
#define RANKTRACE_JOB_SCRIPT_H

#include "detect/detect.h"
#include "event.h"
#include "model/model.h"

#define SEC 1000000000ull
#define MSEC 1000000ull
#define JOB_T0 (100 * SEC)
#define JOB_FOREVER 1e6
#define JOB_FAULTS 16

enum fault_kind {
	FAULT_NONE,
	FAULT_STOP, /* SIGSTOP, for `seconds` */
	FAULT_KILL,
	FAULT_HANG,     /* sleeps before an operation */
	FAULT_BUSY,     /* the same, spinning */
	FAULT_IO,       /* the same, asleep but moving bytes */
	FAULT_MISMATCH, /* one element less in the last all-reduce of the step */
	FAULT_DSTATE,   /* D state of the main thread */
	FAULT_DSTATE_CHILD,
	FAULT_SLOW,      /* compute slower by `percent` from the step on */
	FAULT_EVAL,      /* all ranks: no collectives for `seconds` */
	FAULT_LOG,       /* `percent` of a step more, every 4th step */
	FAULT_RESTART,   /* all communicators destroyed and made again; rank unused */
	FAULT_ORDER,     /* the loss before the last gradient operation; not with `grouped` */
	FAULT_SKIP_SEND, /* leaves out the step's first Send */
	FAULT_SKIP_RECV,
	FAULT_INIT,     /* all others are in the creation of one more communicator, and this rank does not come */
	FAULT_LOSE_OPS, /* the records of `percent` percent of this rank's operations are lost, in that step */
};

struct fault {
	enum fault_kind kind;
	int rank, step;
	double percent, seconds;
	int at; /* instruction; 0 drawn */
};

struct job_opts {
	int ranks, tp, dp, pp; /* tp*dp*pp == ranks */
	int steps;
	uint64_t seed;
	double step_s;      /* compute of a step */
	double jitter;      /* relative, of each piece of compute */
	double first_s;     /* the first step takes longer by up to that much */
	bool run_ahead;     /* compute is on the GPU, the host only enqueues; else the host computes */
	bool check_sync;    /* with run_ahead: the host waits for the gradients before it reduces them */
	bool grouped;       /* gradient all-reduces in one group */
	bool block_each;    /* the host waits for each gradient operation */
	bool no_sync_probe; /* host waits are not seen, the watchdog is */
	bool no_watchdog;
	int attach_step; /* events from here on; communicators are met by COMM_SEEN */
	double tail_s;   /* ticks go on that long after the last event */
	double gc_share,
		gc_s; /* the share of steps in which a rank's host pauses, for up to that long: garbage collection */
	double last_stage; /* relative extra compute of the last pipeline stage */
	double lengths;    /* spread of sequence lengths: compute of a replica's step times 1 +- this, drawn */
	struct fault faults[JOB_FAULTS];
};

struct truth {
	int rank;
	uint64_t comm;
	int space;
	enum op_kind kind;
	int peer;
	uint64_t seq, enqueue_ns, end_ns;
};

struct job {
	struct job_opts o;
	struct event *events;
	size_t n_events, cap_events;
	struct truth *truths;
	size_t n_truths, cap_truths;
	uint64_t fault_ns[JOB_FAULTS];                          /* when each struck, 0 never */
	uint64_t fault_comm[JOB_FAULTS], fault_seq[JOB_FAULTS]; /* the operation the rank would have entered next */
	int fault_space[JOB_FAULTS];
	struct job_state *state;
};

uint64_t random_next(uint64_t *rng); /* for drawing ranks, steps and layouts in tests */

struct job *job_new(const struct job_opts *o);
void job_free(struct job *j);
/* A sensible job of that layout, 20 steps of 0.4 s: change what the story needs. */
struct job_opts job_usual(int tp, int dp, int pp, uint64_t seed);
/* An event of a rank's main thread, for hand-written streams. */
struct event job_event(enum event_kind kind, int rank, uint64_t ts_ns);
/* The process of a rank of a job on one host, for a script that makes its own events. */
struct event job_proc_event(int rank, int ranks, uint64_t ts_ns);
/* It calls NCCL: without a root, a peer, a kind of reduction. */
struct event job_call_event(int rank, enum op_kind kind, uint64_t comm, uint64_t stream, uint64_t count);
/* Its host begins to wait for a stream. */
struct event job_wait_event(int rank, uint64_t stream);
/* Its communicator is made; it was made before the attach. Its rank in it is that in the job. */
struct event job_ready_event(int rank, int ranks, uint64_t comm, uint64_t hash);
struct event job_seen_event(int rank, int ranks, uint64_t comm, uint64_t hash);
uint32_t job_pid(int rank);

struct seen_finding {
	struct finding f;
	uint64_t open_ns, last_ns;
	uint64_t warned_ns, critical_ns; /* 0: it was not */
	int n_ticks;
	enum severity worst;
};
struct verdicts {
	struct seen_finding *all;
	size_t n;
	struct model *m;
	struct detectors *d;
	struct finding_list list;
};

/* Plays the events into a fresh model with all detectors. Ops are drained and, when asked for, given to `each`. */
void job_play(const struct job *j, struct verdicts *v, void (*each)(void *arg, const struct op *op), void *arg);
void verdicts_free(struct verdicts *v);
void verdicts_print(const struct verdicts *v);
/* First finding of that kind; NULL none. */
const struct seen_finding *verdict_of(const struct verdicts *v, enum finding_kind kind);
/* Findings that were a warning or worse, and have no cause among the findings. */
int verdict_roots(const struct verdicts *v);
uint64_t test_seed(void); /* from SEED, else the time; printed */

#endif
