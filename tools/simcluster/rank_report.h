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
	double read_s, before_s;          /* newest, the one before */
	double run_s, sleep_s, stopped_s; /* of the main thread */
	double state_s;                   /* in this state since */
	int state;
	unsigned generation;
};

#define OPEN_EACH 4 /* open operations of a communicator that an agent lists */

struct rank_parts { /* memory of one rank's part */
	Cluster__Process proc;
	Cluster__Member members[SIM_COMMS], *member_list[SIM_COMMS];
	Cluster__Thread thread, *thread_list[1];
	Cluster__Gpu gpu;
	uint32_t gpu_pid;
	Cluster__Finding blocked; /* its agent found it so; kind NULL: not */
	Cluster__Subject subject;
	Cluster__Evidence evidence[2], *evidence_list[2];
	char blocked_id[24];
	int32_t blocked_rank;
	Cluster__Peer peers[2], *peer_list[2];
	Cluster__Call calls[SIM_COMMS * OPEN_EACH], *call_list[SIM_COMMS * OPEN_EACH];
	Cluster__HostWait wait, *wait_list[1];
};

struct read_at { /* one reading of a rank */
	const struct cluster *c;
	const struct noise *noise;
	struct draw *draw;
	double at_s;   /* of the read */
	double now_s;  /* of the message */
	double host_s; /* the host's clock at the simulation's 0 */
};

static inline uint64_t read_age_ns(const struct read_at *r, double at_s)
{
	double s = r->now_s - at_s;

	return s > 0 ? (uint64_t)(s * (1 + r->noise->drift) * 1e9) : 0;
}

static inline uint64_t comm_addr(enum sim_comm comm)
{
	return 0x7f0000001000 + 0x10000 * (uint64_t)comm;
}

/* rank_report.c: of collectives, as NCCL counts. */
int count_kind(const struct sim_op *o);
/* calls_report.c, where probes are on. `since_s`: the read before; 0 none. */
void calls_numbers_put(const struct read_at *r, int rank, enum sim_comm comm, double since_s, Cluster__Member *to);
void calls_peers_put(const struct read_at *r, int rank, struct rank_parts *to, Cluster__Member *m);
void calls_open_put(const struct read_at *r, int rank, struct rank_parts *to);
void calls_wait_put(const struct read_at *r, int rank, struct rank_parts *to);

/* Reads it into `seen` and writes its part. False: no such process is there now. */
bool rank_report(const struct read_at *r, int rank, struct rank_seen *seen, struct rank_parts *to);

#endif
