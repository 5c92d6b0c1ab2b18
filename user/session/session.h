/* SPDX-License-Identifier: Apache-2.0
 *
 * session.h - a live trace: loader and target set feed one loop, which feeds the pipeline.
 */
#ifndef RANKTRACE_SESSION_H
#define RANKTRACE_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "flight/flight.h"
#include "pipeline/pipeline.h"
#include "schemas/wire.h"
#include "session/parts/laps.h"
#include "session/parts/windows.h"
#include "tracer.h"

#define SESSION_PIDS_MAX 1024
#define SESSION_RING_BYTES \
	(16u << 20) /* of each ring when ring_bytes is 0; tier watch: 1 MiB, as it emits few records */

struct metrics;
struct reader;

struct session_cfg {
	const uint32_t *pids; /* these processes and their descendants; with no pid and no job: every job of the host */
	int n_pids;
	const char *job;      /* NULL: any */
	uint64_t duration_ns; /* 0: until the job ends or a signal comes */
	uint64_t dstate_limit_ns, hang_floor_ns, busy_limit_ns;
	uint64_t ring_bytes; /* of each normal and bulk ring; 0: default */
	enum tier tier;
	uint64_t raise_ns;  /* tier watch: how long ranks of a finding stay escalated; 0: never escalate */
	bool shared_probes; /* where probes are not one process' alone: also in files that other users' processes map */
	bool holds_trace;   /* tier watch: ranks have the probes of tier trace all the same, as long as this is set; */
	char held_job[128]; /* of this job; "": of all */
	bool no_raise;      /* never escalate, whatever raise_ns says */
	uint32_t budget_ppm, budget_node_ppm; /* limit on the cost of probe hits in millionths of a core: per process,
						 all together; 0: no limit */
	bool reopens; /* SIGHUP begins outputs anew whose files were moved away, and reloads; false: it ends the
			 session */
	/* SIGHUP: *next is a copy of this struct, in which what may change is set as it is wanted now. False: that is
	 * not known, which was said, and nothing changes. NULL: settings stay as they are. */
	bool (*reload)(void *of, struct pipeline *p, struct session_cfg *next);
	/* Asked at every turn: reload now, as for SIGHUP, but for outputs. NULL: never. */
	bool (*reload_wanted)(void *of);
	void *reload_of;
	struct window_asker windows; /* who wants the flight recorder's window elsewhere */
	int64_t clock_offset_ns;     /* for tests: this host's clock goes wrong by so much */
	int control_fd;              /* a user's wishes come here (struct session_ask), its end ends the session;
					0: none */
	bool paused;                 /* samples nothing and attaches nothing; what it escalated ends */
	pid_t child;                 /* started by `-- CMD`, waits at child_go_fd; 0: none */
	int child_go_fd;             /* a byte lets the child start, end-of-file ends it */
	const char *phases;          /* file of known phases; NULL: none is read or kept */
	struct flight_cfg flight;    /* dir NULL: no flight recorder */
	struct metrics *metrics;     /* the pipeline's; NULL: none are served */
	struct reader *stack_reader; /* reads the stacks of a hang's ranks, used by nothing else; borrowed. NULL: read
					no stacks */
};

enum session_wish { SESSION_RAISE, SESSION_STACKS, SESSION_DUMP };
struct session_ask {        /* a message of a SOCK_SEQPACKET; the answer is a line of the log */
	uint32_t wish, pid; /* pid: of SESSION_RAISE, SESSION_STACKS */
};

struct session_budget { /* cost of probes; hits 0: there were none, or they were not counted */
	uint64_t hits, paid_ns;
	double peak_ns_per_s;
	uint32_t peak_tgid, n_shed, n_back;
	bool assumed;
};

struct session_result {
	uint64_t records, ops;
	uint64_t lost[RING_CLASSES];
	uint64_t late; /* records that came too late to be sorted */
	uint32_t processes, probes;
	struct laps laps; /* the longest gap between two ticks */
	uint64_t ring_bytes_mapped;
	struct session_budget budget;
	int child_status; /* wait status; -1: no child */
	bool ran;         /* the session was opened; otherwise the other fields mean nothing */
	bool job_ended, interrupted;
};

struct session;

uint64_t session_ring_bytes(enum tier tier); /* default size of each ring */
/* Loads the programs, attaches nothing yet. Borrows reader and pipeline. Returns 0 or -errno with the message (object,
 * cause, remedy) in `error`; -EPERM, -ENOENT and -ENOTSUP mean exit code 3. */
int session_open(const struct session_cfg *cfg, struct reader *reader, struct pipeline *p, struct session **ret,
		 char *error, size_t error_size);
/* Attaches, runs until the end, detaches. Returns 0 or -errno. */
int session_run(struct session *s, struct session_result *ret);
void session_free(struct session *s);

#endif
