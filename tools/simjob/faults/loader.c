// SPDX-License-Identifier: Apache-2.0
/*
 * The dataloader child while its rank is well: in D state, once for long (dstate-child) or shortly, now here and now
 * there, as slow storage has it (io); or one of several that is slow over each batch (loader). The child is one batch
 * ahead, so the rank notices when it asks for the next, or not at all when it has batches in memory (wait=0).
 */
#include "tools/simjob/faults/faults.h"

#include "tools/simjob/faults/block.h"
#include "tools/simjob/job/injection.h"

#include <stdio.h>

static int check(const struct options *options, const struct injection *injection, struct reason *reason)
{
	(void)injection;
	if (!options->dataloader)
		return refuse(reason, "there is no dataloader child; leave --no-dataloader out");
	return 0;
}

/* The word that it shares with its child: 1, the child is past its D state. */
static _Atomic uint32_t *child_is_free(const struct rank *rank, const struct injection *injection)
{
	return &injection_shared(rank, injection)->fault;
}

static void child_block(struct rank *rank, const struct injection *injection)
{
	struct injection_state *state = injection_state(rank, injection);

	if (injection->rank != rank->rank || rank->step < injection->step || state->done)
		return;
	state->done = true;
	block_in_create(rank, injection, NULL);
	injection_report(rank, injection, "end", NULL);
	atomic_store(child_is_free(rank, injection), 1);
}

static bool skips_loader(const struct rank *rank, const struct injection *injection)
{
	return !injection->wait && injection->rank == rank->rank && rank->step >= injection->step &&
	       !atomic_load(child_is_free(rank, injection));
}

const struct fault fault_dstate_child = {
	.keys = KEY_RANK | KEY_STEP | KEY_SEC | KEY_WAIT,
	.default_s = 7,
	.resource = &resource_frozen_fs,
	.check = check,
	.skips_loader = skips_loader,
	.before_batch = child_block,
};

static void io_complete(struct injection *injection)
{
	injection->duration_s = injection->ms / 1000;
}

/*
 * Whose batch for this step is late, or -1; each time another one's. Every other step, as the next batch is made while
 * this one is late, and there is one file system to freeze.
 */
static int late_rank(const struct rank *rank, const struct injection *injection)
{
	struct random random = { .state = injection->draw ^ (uint64_t)rank->step << 32 };
	int nr_ranks = rank->options->nr_ranks;

	random_u64(&random);
	if (rank->step % 2 || random_unit(&random) >= injection->rate)
		return -1;
	return (rank->step / 2 + injection->draw % nr_ranks) % nr_ranks;
}

static void storage_wait(struct rank *rank, const struct injection *injection)
{
	if (rank->step < injection->step || rank->step >= injection->until_step ||
	    late_rank(rank, injection) != rank->rank)
		return;
	block_in_create(rank, injection, NULL);
	injection_report(rank, injection, "end", NULL);
	injection_state(rank, injection)->begun = true;
}

const struct fault fault_io = {
	.keys = KEY_STEP | KEY_UNTIL | KEY_RATE | KEY_MS,
	.default_rate = 0.7,
	.resource = &resource_frozen_fs,
	.is_of_job = true,
	.recurs = true,
	.complete = io_complete,
	.check = check,
	.before_batch = storage_wait,
};

enum loader_how { LOADER_SLEEP, LOADER_BUSY };

static int slow_worker(const struct rank *rank, const struct injection *injection)
{
	return injection->given & KEY_N ? injection->n : (int)(injection->draw % rank->options->workers);
}

static void worker_slow(struct rank *rank, const struct injection *injection)
{
	struct injection_state *state = injection_state(rank, injection);
	uint64_t end_ns = clock_now_ns() + (uint64_t)(injection->ms * NSEC_PER_MSEC);
	char facts[32];

	if (injection->rank != rank->rank || rank->next_worker != slow_worker(rank, injection) ||
	    rank->step < injection->step || rank->step >= injection->until_step)
		return;
	snprintf(facts, sizeof(facts), ",\"worker\":%d", rank->next_worker);
	if (!state->begun)
		injection_report_with(rank, injection, "begin", facts);
	state->begun = true;
	if (injection->how == LOADER_BUSY)
		spin_until(end_ns);
	else
		sleep_until(end_ns);
}

static int loader_check(const struct options *options, const struct injection *injection, struct reason *reason)
{
	if (injection->given & KEY_N && injection->n >= options->workers)
		return refuse(reason, "n=%d: workers are 0 to %d; give --workers", injection->n, options->workers - 1);
	return check(options, injection, reason);
}

const struct fault fault_loader = {
	.keys = KEY_RANK | KEY_STEP | KEY_UNTIL | KEY_MS | KEY_N | KEY_HOW,
	.how = WORDS("sleep", "busy"),
	.check = loader_check,
	.before_batch = worker_slow,
};
