// SPDX-License-Identifier: Apache-2.0
/*
 * A communicator whose creation one rank misses. All others are inside ncclCommInitRank or ncclCommSplit and wait for
 * it there: at the start of the job, or in a later step that makes one more communicator, uses it once, and ends it.
 */
#include "tools/simjob/faults/faults.h"

#include "tools/simjob/job/injection.h"
#include "tools/simjob/job/rank.h"

#include <inttypes.h>
#include <stdio.h>

#define ARRIVE_NS (5 * NSEC_PER_SEC)
#define ENTER_NS (200 * NSEC_PER_MSEC) /* enough to go from the count into the call */

enum init_what { INIT_START, INIT_NEW, INIT_SPLIT };
enum init_how { INIT_SLEEP, INIT_STOP, INIT_BUSY, INIT_DEAD };

/* The unique id leads to a file of rank 0's process: who dies must not do so before the others have found it. */
static void peers_await(const struct rank *rank, const _Atomic uint32_t *nr_arrived)
{
	uint64_t deadline_ns = clock_now_ns() + ARRIVE_NS;
	uint32_t nr_peers = rank->options->nr_ranks - 1;

	while (atomic_load(nr_arrived) < nr_peers && clock_now_ns() < deadline_ns)
		sleep_until(clock_now_ns() + 10 * NSEC_PER_MSEC);
	sleep_until(clock_now_ns() + ENTER_NS);
}

static void creation_miss(struct rank *rank, const struct injection *injection)
{
	uint64_t end_ns = clock_now_ns() + (uint64_t)(injection->duration_s * NSEC_PER_SEC);

	switch ((enum init_how)injection->how) {
	case INIT_SLEEP: sleep_until(end_ns); break;
	case INIT_STOP: rank_stop(rank, injection); break;
	case INIT_BUSY: spin_until(end_ns); break;
	case INIT_DEAD: peers_await(rank, &injection_shared(rank, injection)->fault); _exit(1);
	}
}

/* On every rank, right before the creation. The word that ranks share counts those that have come to it. */
static void strike(struct rank *rank, const struct injection *injection)
{
	char facts[128] = ",\"op\":\"CommInitRank\"";

	if (injection->rank != rank->rank) {
		atomic_fetch_add(&injection_shared(rank, injection)->fault, 1);
		return;
	}
	/* A split has a parent to be found by; what is made from an id has no name before it exists. */
	if (injection->what == INIT_SPLIT)
		snprintf(facts, sizeof(facts), ",\"op\":\"CommSplit\",\"comm\":\"0x%016" PRIx64 "\"", rank->world.hash);
	injection_report_with(rank, injection, "begin", facts);
	creation_miss(rank, injection);
	injection_report_with(rank, injection, "end", facts);
}

static void before_world(struct rank *rank, const struct injection *injection)
{
	if (injection->what == INIT_START)
		strike(rank, injection);
}

/* One more over the whole world. */
static void comm_create(struct rank *rank, const struct injection *injection, struct job_comm *comm)
{
	const struct api *api = &rank->api;
	ncclUniqueId id;
	ncclComm_t handle;

	if (injection->what == INIT_SPLIT) {
		strike(rank, injection);
		comm_split(rank, comm, "extra", 0, rank->rank);
		return;
	}
	id_share(rank, api, injection_id_index(rank, injection), rank->rank == 0, &id);
	strike(rank, injection);
	group_join(rank);
	nccl_check(api, api->ncclCommInitRank(&handle, rank->options->nr_ranks, id, rank->rank), NULL,
		   "ncclCommInitRank");
	group_await(rank);
	comm_set_up(rank, api, comm, "extra", handle);
}

static void before_step(struct rank *rank, const struct injection *injection)
{
	struct op_call call = { .kind = OP_ALL_REDUCE, .count = 1, .datatype = ncclFloat32 };
	struct job_comm comm;

	if (injection->what == INIT_START || injection->step != rank->step)
		return;
	comm_create(rank, injection, &comm);
	op_run(rank, &comm, &call);
	compute_synchronize(rank);
	watchdog_drain(rank);
	comm_destroy(rank, &comm);
}

static void complete(struct injection *injection)
{
	if ((injection->given & KEY_STEP) && !(injection->given & KEY_WHAT))
		injection->what = INIT_NEW;
	if (injection->what == INIT_START && !(injection->given & KEY_STEP))
		injection->step = 0;
	injection->ends_rank = injection->how == INIT_DEAD;
}

static int check(const struct options *options, const struct injection *injection, struct reason *reason)
{
	(void)options;
	if (injection->what == INIT_START && (injection->given & KEY_STEP))
		return refuse(reason,
			      "what=start is before the first step; leave step= out or say what=new or what=split");
	if (injection->how == INIT_DEAD && (injection->given & KEY_SEC))
		return refuse(reason,
			      "the dead do not come back after sec=; leave it out, or say how=sleep, stop or busy");
	return 0;
}

const struct fault fault_init = {
	.keys = KEY_RANK | KEY_STEP | KEY_SEC | KEY_WHAT | KEY_HOW,
	.what = WORDS("start", "new", "split"),
	.how = WORDS("sleep", "stop", "busy", "dead"),
	.default_s = FAULT_FOREVER,
	.complete = complete,
	.check = check,
	.before_world = before_world,
	.before_step = before_step,
};
