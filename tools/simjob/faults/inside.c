// SPDX-License-Identifier: Apache-2.0
/*
 * Faults in the middle of a collective that travels over the network (--net): the rank's proxy stops there, its whole
 * process does, or the network between it and the next rank of the ring delivers nothing any more. They are armed
 * before the call and strike when half of what the rank sends on one channel is on its way. A starved proxy is so from
 * the call on: the lowest class of scheduling, and hogs on the one core that it may use.
 */
#include "tools/simjob/faults/faults.h"

#include "tools/simjob/faults/hogs.h"
#include "tools/simjob/job/injection.h"
#include "tools/simjob/libnccl/proxy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum proxy_how { PROXY_STOP, PROXY_STARVE, PROXY_SIGSTOP };

static const char *const proxy_hows[] = { "stop", "starve", "sigstop", NULL };

/* It travels over the network. */
static bool fits_op(const struct rank *rank, const struct op_place *place)
{
	enum op_kind kind = place->call->kind;
	bool alone =
		kind == OP_SEND || kind == OP_RECV || kind == OP_ALL_TO_ALL || kind == OP_GATHER || kind == OP_SCATTER;

	/* What a graph runs was fixed at its capture. */
	return !alone && !rank->launching && place->comm->size > 1;
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

static void thread_starve(struct rank *rank, const struct injection *injection, int tid)
{
	const struct sched_param none = { 0 };
	int core = core_choose(injection->draw / NET_CHANNELS);
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	if (sched_setaffinity(tid, sizeof(set), &set) || sched_setscheduler(tid, SCHED_IDLE, &none)) {
		perror("simjob: cannot starve the proxy's thread");
		exit(1);
	}
	hogs_start(rank, injection, core);
}

/* Arms @net_fault, and says where it will strike. The progress thread's tid. */
static int arm(struct rank *rank, const struct injection *injection, const struct op_place *place,
	       enum net_fault net_fault, const char *how)
{
	const struct job_comm *comm = place->comm;
	int tid = comm->api->sim_net_thread(comm->comm);
	int channel = comm->api->sim_net_fault(comm->comm, net_fault, injection->draw);
	char facts[512];

	snprintf(facts, sizeof(facts),
		 ",\"op\":\"%s\",\"comm\":\"0x%016" PRIx64 "\",\"seq\":%" PRIu64
		 ",\"how\":\"%s\",\"sender\":%d,\"receiver\":%d,\"channel\":%d,\"tid\":%d",
		 op_name(place->call->kind), comm->hash, comm_next_seq(rank, place->comm, place->call, false), how,
		 rank->rank, job_rank(rank, comm, (comm->rank + 1) % comm->size), channel, tid);
	injection_report_with(rank, injection, "begin", facts);
	return tid;
}

static void network_stop(struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	arm(rank, injection, place, NET_FAULT_EATEN, "network");
}

static void proxy_complete(struct injection *injection)
{
	if (injection->how == PROXY_STARVE)
		injection->resource = &resource_hogs;
}

static void proxy_strike(struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	static const enum net_fault net_faults[] = {
		[PROXY_STOP] = NET_FAULT_STOP,
		[PROXY_STARVE] = NET_FAULT_NONE,
		[PROXY_SIGSTOP] = NET_FAULT_SIGSTOP,
	};
	int tid = arm(rank, injection, place, net_faults[injection->how], proxy_hows[injection->how]);

	if (injection->how == PROXY_STARVE)
		thread_starve(rank, injection, tid);
}

static int check(const struct options *options, const struct injection *injection, struct reason *reason)
{
	(void)injection;
	if (!options->net || options->nr_ranks < 2)
		return refuse(reason, "no data travel over a network; say --net, and 2 ranks or more");
	if (options->graph == GRAPH_STEP)
		return refuse(reason, "with --graph step all but one operation are captured; use --graph layers");
	return 0;
}

const struct fault fault_inside = {
	.keys = PLACE_KEYS,
	.check = check,
	.fits_op = fits_op,
	.strike = network_stop,
};

const struct fault fault_proxy = {
	.keys = PLACE_KEYS | KEY_HOW | KEY_N,
	.how = proxy_hows,
	.complete = proxy_complete,
	.check = check,
	.fits_op = fits_op,
	.strike = proxy_strike,
};
