/* SPDX-License-Identifier: Apache-2.0
 *
 * rank_report.h - one rank as its agent sees it, as a part of the host's message. Private to agent.c and
 * rank_report.c.
 */
#ifndef RANKTRACE_SIMCLUSTER_RANK_REPORT_H
#define RANKTRACE_SIMCLUSTER_RANK_REPORT_H

#include "cluster/report.h"
#include "tools/simcluster/agent.h"

#define KINDS 5 /* of collectives that NCCL counts, Broadcast first */

struct comm_seen { /* what the agent read of one communicator of one rank */
	uint64_t counters[KINDS];
	double same_s, read_s, before_s; /* first read that showed these counters, newest one, the one before `same` */
	bool read;
};

struct rank_seen {
	struct comm_seen comms[SIM_COMMS];
	double read_s;                    /* newest */
	double run_s, sleep_s, stopped_s; /* of the main thread */
	double state_s;                   /* in this state since */
	int state;
	unsigned generation;
};

struct rank_parts { /* memory of one rank's part */
	Cluster__Process proc;
	Cluster__Member members[SIM_COMMS], *member_list[SIM_COMMS];
	Cluster__Thread thread, *thread_list[1];
	Cluster__Gpu gpu;
	uint32_t gpu_pid;
};

struct read_at { /* one reading of a rank */
	const struct cluster *c;
	const struct noise *noise;
	struct draw *draw;
	double at_s;   /* of the read */
	double now_s;  /* of the message */
	double host_s; /* the host's clock at the simulation's 0 */
};

/* Reads it into `seen` and writes its part. False: no such process is there now. */
bool rank_report(const struct read_at *r, int rank, struct rank_seen *seen, struct rank_parts *to);

#endif
