// SPDX-License-Identifier: Apache-2.0
/* An epoch ends: data workers start anew, and one of them slowly; its rank waits for the first batch. */
#include "tools/simjob/life/life.h"

static void epoch_run(struct rank *rank, const struct life_event *event)
{
	struct random random = { .state = event->draw + rank->rank };
	double share = rank->rank == event->rank ? 1 : 0.3 * random_unit(&random);

	dataloader_stop(rank);
	rank->loader_start_ns = life_ns(event) * share;
	dataloader_start(rank);
	rank->loader_start_ns = 0;
}

const struct life_phase life_epoch = { .name = "epoch", .every = 80, .min_s = 0.3, .max_s = 5, .run = epoch_run };
