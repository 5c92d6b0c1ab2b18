// SPDX-License-Identifier: Apache-2.0
/* What rank 0 does alone while the others sit in a barrier: a checkpoint, whose upload it awaits, and an evaluation. */
#include "tools/simjob/life/life.h"

#include "tools/simjob/faults/object_store.h"

#define EVALUATED_NS (20 * NSEC_PER_MSEC) /* a batch */

/* torch.save(), then put_object(): in recv() for the answer. */
static void checkpoint_run(struct rank *rank, const struct life_event *event)
{
	struct object_store store;

	if (rank->rank == 0) {
		spin_until(clock_now_ns() + life_ns(event) / 20);
		store = object_store_ask(life_ns(event), NULL);
		object_store_await(&store);
	}
	world_barrier(rank);
}

static void evaluation_run(struct rank *rank, const struct life_event *event)
{
	uint64_t end_ns = clock_now_ns() + life_ns(event);

	while (rank->rank == 0 && clock_now_ns() < end_ns) {
		compute_launch(rank, EVALUATED_NS);
		compute_synchronize(rank);
		spin_until(clock_now_ns() + EVALUATED_NS / 4); /* metrics, in Python */
	}
	world_barrier(rank);
}

const struct life_phase life_checkpoint = {
	.name = "checkpoint", .every = 100, .min_s = 2, .max_s = 10, .run = checkpoint_run
};
const struct life_phase life_evaluation = {
	.name = "evaluation", .every = 310, .min_s = 5, .max_s = 150, .run = evaluation_run
};
