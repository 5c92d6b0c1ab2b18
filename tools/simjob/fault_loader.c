// SPDX-License-Identifier: Apache-2.0
/*
 * What befalls the dataloader child while its rank is well: D state on the frozen file system. The child is one batch
 * ahead, so the rank notices when it asks for the next, or not at all when it has batches in memory (wait=0).
 */
#include "rank.h"

/* The step that the next batch is for: the rank has taken all that were made. */
static int step_fed(const struct rank *rank, int nr_made)
{
	return rank->store->ranks[rank->rank].steps_done + (nr_made > 0);
}

static void child_block(struct rank *rank, int index)
{
	const struct fault *fault = &rank->options->faults[index];
	struct op_place nowhere = {NULL, NULL};

	rank->fault_done[index] = true;
	fault_block(rank, fault, index, &nowhere);
	fault_report(rank, fault, "end", NULL, NULL);
	atomic_store(&rank->store->loader_freed[index], 1);
}

void loader_faults(struct rank *rank, int nr_made)
{
	const struct options *options = rank->options;
	int i;

	rank->step = step_fed(rank, nr_made);
	for (i = 0; i < options->nr_faults; i++) {
		const struct fault *fault = &options->faults[i];

		if (fault->kind == FAULT_DSTATE_CHILD && fault->rank == rank->rank && rank->step >= fault->step &&
		    !rank->fault_done[i])
			child_block(rank, i);
	}
}

bool loader_is_bypassed(const struct rank *rank)
{
	const struct options *options = rank->options;
	int i;

	for (i = 0; i < options->nr_faults; i++) {
		const struct fault *fault = &options->faults[i];

		if (fault->kind == FAULT_DSTATE_CHILD && !fault->wait && fault->rank == rank->rank &&
		    rank->step >= fault->step && !atomic_load(&rank->store->loader_freed[i]))
			return true;
	}
	return false;
}
