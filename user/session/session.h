/* SPDX-License-Identifier: Apache-2.0
 *
 * session.h - a live trace: loader and target set on the left, pipeline on the right, one loop in between.
 */
#ifndef RANKTRACE_SESSION_H
#define RANKTRACE_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "flight/flight.h"
#include "pipeline/pipeline.h"
#include "schemas/wire.h"
#include "tracer.h"

#define SESSION_PIDS_MAX 1024
#define SESSION_RING_BYTES (16u << 20) /* of each ring when ring_bytes is 0; tier watch: 1 MiB, as few records pass */

struct reader;

struct session_cfg {
	const uint32_t *pids; /* these and their descendants; none and no job: every job of the host */
	int n_pids;
	const char *job;      /* NULL any */
	uint64_t duration_ns; /* 0 until the job ends or a signal */
	uint64_t dstate_limit_ns, hang_floor_ns, busy_limit_ns;
	uint64_t ring_bytes; /* of each normal and bulk ring; 0 default */
	enum tier tier;
	uint64_t raise_ns; /* tier watch: how long a finding has ranks probed; 0 never */
	bool no_raise;     /* never, whatever raise_ns says */
	uint32_t budget_ppm,
		budget_node_ppm; /* millionths of a core that probe hits may cost a process, all together; 0 no limit */
	pid_t child;             /* our own `-- CMD`, waiting to be let go; 0 none */
	int child_go_fd;         /* a byte lets it go, an end ends it */
	struct flight_cfg flight;    /* dir NULL: no flight recorder */
	struct reader *stack_reader; /* of the session alone, for the stacks of a hang's ranks; NULL: none are read.
					Borrowed */
};

struct session_budget { /* what probes cost; hits 0: there were none, or nobody counted */
	uint64_t hits, paid_ns;
	double peak_ns_per_s;
	uint32_t peak_tgid, n_shed, n_back;
	bool assumed;
};

struct session_result {
	uint64_t records, ops;
	uint64_t lost[RING_CLASSES];
	uint64_t late; /* records that came too late to be put in order */
	uint32_t processes, probes;
	uint64_t longest_tick_gap_ns;
	uint64_t ring_bytes_mapped;
	struct session_budget budget;
	int child_status; /* wait status; -1 none */
	bool ran;         /* it was opened: the rest means something */
	bool job_ended, interrupted;
};

struct session;

uint64_t session_ring_bytes(enum tier tier); /* of each ring when none is given */
/* Load, attach nothing yet. On failure the message (object, cause, remedy) is in `error`. 0 or -errno:
 * -EPERM, -ENOENT, -ENOTSUP: exit code 3. The reader and the pipeline are borrowed. */
int session_open(const struct session_cfg *cfg, struct reader *reader, struct pipeline *p, struct session **ret,
		 char *error, size_t error_size);
/* Attach, run until the end, detach. 0 or -errno. */
int session_run(struct session *s, struct session_result *ret);
void session_free(struct session *s);

#endif
