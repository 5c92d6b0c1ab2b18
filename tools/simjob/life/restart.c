// SPDX-License-Identifier: Apache-2.0
/*
 * Communicators are made anew in the process. After a collective that one rank did not come to, whose Python raised an
 * error: all abort. Or the launcher ends one rank and starts it again, and the others, who are left in a collective,
 * abort and wait for it.
 */
#include "tools/simjob/life/life.h"

#include <signal.h>

/* The watchdog polls them until then. */
static void comms_abort(struct rank *rank)
{
	struct job_comm *comms[] = { &rank->pp, &rank->tp, &rank->dp, &rank->world };
	size_t i;

	pthread_mutex_lock(&rank->watchdog.lock);
	for (i = 0; i < sizeof(comms) / sizeof(comms[0]); i++) {
		if (comms[i]->comm)
			comm_abort(rank, comms[i]);
	}
	pthread_mutex_unlock(&rank->watchdog.lock);
	watchdog_drain(rank);
}

static void comms_renew(struct rank *rank)
{
	comms_abort(rank);
	rank->generation++;
	comms_create(rank);
	params_broadcast(rank);
}

static void wait_unanswered(struct rank *rank, uint64_t ns)
{
	struct op_call call = { .kind = OP_ALL_REDUCE, .count = 2, .datatype = ncclFloat32 };

	op_run(rank, &rank->world, &call);
	sleep_until(clock_now_ns() + ns);
}

static void abort_run(struct rank *rank, const struct life_event *event)
{
	watchdog_drain(rank);
	if (rank->rank == event->rank)
		sleep_until(clock_now_ns() + life_ns(event)); /* the error's report, the others' timeout */
	else
		wait_unanswered(rank, life_ns(event));
	comms_renew(rank);
}

static void elastic_run(struct rank *rank, const struct life_event *event)
{
	watchdog_drain(rank);
	if (rank->rank == event->rank)
		rank_resume_later(rank);
	wait_unanswered(rank, life_ns(event));
	comms_renew(rank);
}

const struct life_phase life_abort = { .name = "abort",
				       .every = 170,
				       .min_s = 1,
				       .max_s = 4,
				       .restarts_job = true,
				       .waits_alone = true,
				       .run = abort_run };
const struct life_phase life_elastic = {
	.name = "elastic",
	.every = 410,
	.min_s = 0.5,
	.max_s = 2,
	.restarts_job = true,
	.ends_process = true,
	.run = elastic_run,
};
