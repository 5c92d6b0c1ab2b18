// SPDX-License-Identifier: Apache-2.0
/*
 * A garbage collector: now and then some rank's host pauses for 20 to 150 ms before an operation, another time another
 * one's. No rank is to blame for it.
 */
#include "tools/simjob/faults/faults.h"

#include "tools/simjob/job/rank.h"
#include "tools/simjob/libpython/gc.h"

#define PAUSE_MIN_NS (20 * NSEC_PER_MSEC)
#define PAUSE_MAX_NS (150 * NSEC_PER_MSEC)

struct collection {
	int op; /* before which operation of the step; -1: none in this step */
	uint64_t pause_ns;
};

/* The same whenever it is asked for in a step. */
static struct collection collection_draw(const struct rank *rank, const struct injection *injection)
{
	struct random random = { .state = injection->draw ^ (uint64_t)rank->step << 32 ^ (uint64_t)rank->rank << 16 };
	struct collection collection = { .op = -1 };

	random_u64(&random);
	if (random_unit(&random) >= injection->rate)
		return collection;
	collection.op = rank->ops_last_step ? random_u64(&random) % rank->ops_last_step : 0;
	collection.pause_ns = PAUSE_MIN_NS + random_unit(&random) * (PAUSE_MAX_NS - PAUSE_MIN_NS);
	return collection;
}

static bool before_op(struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	struct collection collection;

	if (rank->step < injection->step || rank->step >= injection->until_step)
		return true;
	collection = collection_draw(rank, injection);
	if (collection.op != rank->op_in_step)
		return true;
	injection_report(rank, injection, "begin", place);
	sim_python_collect(collection.pause_ns);
	injection_report(rank, injection, "end", place);
	injection_state(rank, injection)->begun = true;
	return true;
}

const struct fault fault_gc = {
	.keys = KEY_STEP | KEY_UNTIL | KEY_RATE,
	.default_rate = 0.05,
	.is_of_job = true,
	.recurs = true,
	.before_op = before_op,
};
