// SPDX-License-Identifier: Apache-2.0
/*
 * A communicator whose creation one rank misses. All others are inside ncclCommInitRank or ncclCommSplit and wait for
 * it there: at the start of the job, or in a later step that makes one more communicator, uses it once, and ends it.
 */
#include "tools/simjob/job/rank.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ARRIVE_NS (5 * NSEC_PER_SEC)
#define ENTER_NS (200 * NSEC_PER_MSEC) /* enough to go from the count into the call */

/* The unique id leads to a file of rank 0's process: who dies must not do so before the others have found it. */
static void peers_await(const struct rank *rank, int index)
{
	uint64_t deadline_ns = clock_now_ns() + ARRIVE_NS;
	uint32_t nr_peers = rank->options->nr_ranks - 1;

	while (atomic_load(&rank->store->init_arrived[index]) < nr_peers && clock_now_ns() < deadline_ns)
		sleep_until(clock_now_ns() + 10 * NSEC_PER_MSEC);
	sleep_until(clock_now_ns() + ENTER_NS);
}

static void creation_miss(struct rank *rank, int index)
{
	const struct fault *fault = &rank->options->faults[index];
	uint64_t end_ns = clock_now_ns() + (uint64_t)(fault->duration_s * NSEC_PER_SEC);

	switch ((enum init_how)fault->how) {
	case INIT_SLEEP: sleep_until(end_ns); break;
	case INIT_STOP: fault_stop(rank, index); break;
	case INIT_BUSY: spin_until(end_ns); break;
	case INIT_DEAD: peers_await(rank, index); _exit(1);
	}
}

void init_fault_strike(struct rank *rank, int index)
{
	const struct fault *fault = &rank->options->faults[index];
	char facts[128] = ",\"op\":\"CommInitRank\"";

	if (fault->rank != rank->rank) {
		atomic_fetch_add(&rank->store->init_arrived[index], 1);
		return;
	}
	/* A split has a parent to be found by; what is made from an id has no name before it exists. */
	if (fault->what == INIT_SPLIT)
		snprintf(facts, sizeof(facts), ",\"op\":\"CommSplit\",\"comm\":\"0x%016" PRIx64 "\"", rank->world.hash);
	fault_report_with(rank, fault, "begin", facts);
	creation_miss(rank, index);
	fault_report_with(rank, fault, "end", facts);
}

void init_faults_at_start(struct rank *rank)
{
	int i;

	for (i = 0; i < rank->options->nr_faults; i++) {
		if (rank->options->faults[i].kind == FAULT_INIT && rank->options->faults[i].what == INIT_START)
			init_fault_strike(rank, i);
	}
}

static void extra_comm_run(struct rank *rank, int index)
{
	struct op_call call = { .kind = OP_ALL_REDUCE, .count = 1, .datatype = ncclFloat32 };
	struct job_comm comm;

	comm_extra_create(rank, &comm, index);
	op_run(rank, &comm, &call);
	compute_synchronize(rank);
	watchdog_drain(rank);
	comm_destroy(rank, &comm);
}

void init_faults_before_step(struct rank *rank)
{
	int i;

	for (i = 0; i < rank->options->nr_faults; i++) {
		const struct fault *fault = &rank->options->faults[i];

		if (fault->kind == FAULT_INIT && fault->what != INIT_START && fault->step == rank->step)
			extra_comm_run(rank, i);
	}
}
