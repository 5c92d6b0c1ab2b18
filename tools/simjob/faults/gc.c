// SPDX-License-Identifier: Apache-2.0
/*
 * A garbage collector: now and then some rank's host is away for 20 to 150 ms before an operation, another time another
 * one's. Nobody is to blame for it.
 */
#include "tools/simjob/job/rank.h"

#define PAUSE_MIN_NS (20 * NSEC_PER_MSEC)
#define PAUSE_MAX_NS (150 * NSEC_PER_MSEC)

struct collection {
	int op; /* before which operation of the step; -1: none in this step */
	uint64_t pause_ns;
};

/* The same whenever it is asked for in a step. */
static struct collection collection_draw(const struct rank *rank, const struct fault *fault)
{
	struct random random = { .state = fault->draw ^ (uint64_t)rank->step << 32 ^ (uint64_t)rank->rank << 16 };
	struct collection collection = { .op = -1 };

	random_u64(&random);
	if (random_unit(&random) >= fault->rate)
		return collection;
	collection.op = rank->ops_last_step ? random_u64(&random) % rank->ops_last_step : 0;
	collection.pause_ns = PAUSE_MIN_NS + random_unit(&random) * (PAUSE_MAX_NS - PAUSE_MIN_NS);
	return collection;
}

void collections_before_op(struct rank *rank, const struct job_comm *comm, const struct op_call *call)
{
	const struct options *options = rank->options;
	int i;

	for (i = 0; i < options->nr_faults; i++) {
		const struct fault *fault = &options->faults[i];
		struct collection collection;

		if (fault->kind != FAULT_GC || rank->step < fault->step || rank->step >= fault->until_step)
			continue;
		collection = collection_draw(rank, fault);
		if (collection.op != rank->op_in_step)
			continue;
		fault_report(rank, fault, "begin", comm, call);
		spin_until(clock_now_ns() + collection.pause_ns);
		fault_report(rank, fault, "end", comm, call);
		rank->fault_begun[i] = true;
	}
}
