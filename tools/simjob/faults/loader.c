// SPDX-License-Identifier: Apache-2.0
/*
 * What befalls the dataloader child while its rank is well: D state on the frozen file system, once for long
 * (dstate-child) or shortly, now here and now there, as slow storage has it (io). The child is one batch ahead, so the
 * rank notices when it asks for the next, or not at all when it has batches in memory (wait=0).
 */
#include "tools/simjob/job/rank.h"

/* The step that the next batch is for: the rank has taken all that were made. */
static int step_fed(const struct rank *rank, int nr_made)
{
	return rank->store->ranks[rank->rank].steps_done + (nr_made > 0);
}

static void child_block(struct rank *rank, int index)
{
	const struct fault *fault = &rank->options->faults[index];
	struct op_place nowhere = { NULL, NULL };

	rank->fault_done[index] = true;
	fault_block(rank, fault, index, &nowhere);
	fault_report(rank, fault, "end", NULL, NULL);
	atomic_store(&rank->store->loader_freed[index], 1);
}

/*
 * Whose batch for this step is late, or -1; each time another one's. Every other step, as the next batch is made while
 * this one is late, and there is one file system to freeze.
 */
static int late_rank(const struct rank *rank, const struct fault *fault)
{
	struct random random = { .state = fault->draw ^ (uint64_t)rank->step << 32 };

	random_u64(&random);
	if (rank->step % 2 || random_unit(&random) >= fault->rate)
		return -1;
	return (rank->step / 2 + fault->draw % rank->options->nr_ranks) % rank->options->nr_ranks;
}

static void storage_wait(struct rank *rank, int index)
{
	const struct fault *fault = &rank->options->faults[index];
	struct op_place nowhere = { NULL, NULL };

	fault_block(rank, fault, index, &nowhere);
	fault_report(rank, fault, "end", NULL, NULL);
	rank->fault_begun[index] = true;
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
		if (fault->kind == FAULT_IO && rank->step >= fault->step && rank->step < fault->until_step &&
		    late_rank(rank, fault) == rank->rank)
			storage_wait(rank, i);
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
