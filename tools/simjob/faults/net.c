// SPDX-License-Identifier: Apache-2.0
/*
 * Faults in the middle of a collective that travels over the network (--net): the rank's proxy stops there, its whole
 * process does, or the network between it and the next rank of the ring delivers nothing any more. They are armed
 * before the call and strike when half of what the rank sends on one channel is on its way. A starved proxy is so from
 * the call on: the lowest class of scheduling, and hogs on the one core that it may use.
 */
#include "tools/simjob/libnccl/proxy.h"
#include "tools/simjob/job/rank.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

bool net_carries(const struct rank *rank, const struct job_comm *comm, const struct op_call *call)
{
	bool alone = call->kind == OP_SEND || call->kind == OP_RECV || call->kind == OP_ALL_TO_ALL ||
		     call->kind == OP_GATHER || call->kind == OP_SCATTER;

	/* What a graph runs was fixed at its capture. */
	return !alone && !rank->launching && comm->size > 1;
}

/* The job's rank that is @member of the communicator. */
static int job_rank(const struct rank *rank, const struct job_comm *comm, int member)
{
	const struct options *o = rank->options;
	struct layout_position p = rank->position;

	if (comm == &rank->dp)
		p.dp = member;
	else if (comm == &rank->tp)
		p.tp = member;
	else if (comm == &rank->pp)
		p.pp = member;
	else
		return member;
	return p.tp + o->tp * (p.dp + o->dp * p.pp);
}

/* One of the cores that the process may use. */
static int core_draw(const struct fault *fault)
{
	cpu_set_t cores;
	int core, left;

	if (sched_getaffinity(0, sizeof(cores), &cores) < 0 || CPU_COUNT(&cores) == 0)
		return 0;
	left = fault->draw / NET_CHANNELS % CPU_COUNT(&cores);
	for (core = 0; core < CPU_SETSIZE - 1; core++) {
		if (CPU_ISSET(core, &cores) && left-- == 0)
			break;
	}
	return core;
}

static void thread_starve(struct rank *rank, int index, int tid)
{
	const struct sched_param none = { 0 };
	int core = core_draw(&rank->options->faults[index]);
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	if (sched_setaffinity(tid, sizeof(set), &set) || sched_setscheduler(tid, SCHED_IDLE, &none)) {
		perror("simjob: cannot starve the proxy's thread");
		exit(1);
	}
	atomic_store(&rank->store->hog_cores[index], core + 1);
	futex_wake_all(&rank->store->hog_cores[index]);
}

static enum net_fault what_strikes(const struct fault *fault)
{
	if (fault->kind == FAULT_INSIDE)
		return NET_FAULT_EATEN;
	return fault->how == PROXY_STOP      ? NET_FAULT_STOP
	       : fault->how == PROXY_SIGSTOP ? NET_FAULT_SIGSTOP
					     : NET_FAULT_NONE;
}

void net_fault_arm(struct rank *rank, int index, const struct op_place *place)
{
	static const char *const hows[] = { "stop", "starve", "sigstop" };
	const struct fault *fault = &rank->options->faults[index];
	const struct job_comm *comm = place->comm;
	int tid = comm->api->sim_net_thread(comm->comm);
	int channel = comm->api->sim_net_fault(comm->comm, what_strikes(fault), fault->draw);
	char facts[512];

	snprintf(facts, sizeof(facts),
		 ",\"op\":\"%s\",\"comm\":\"0x%016" PRIx64 "\",\"seq\":%" PRIu64
		 ",\"how\":\"%s\",\"sender\":%d,\"receiver\":%d,\"channel\":%d,\"tid\":%d",
		 op_name(place->call->kind), comm->hash,
		 comm_next_seq(rank, (struct job_comm *)comm, place->call, false),
		 fault->kind == FAULT_INSIDE ? "network" : hows[fault->how], rank->rank,
		 job_rank(rank, comm, (comm->rank + 1) % comm->size), channel, tid);
	fault_report_with(rank, fault, "begin", facts);
	if (fault->kind == FAULT_PROXY && fault->how == PROXY_STARVE)
		thread_starve(rank, index, tid);
}
