// SPDX-License-Identifier: Apache-2.0
/*
 * Kernels that take longer from step= until until=: a slow rank's (slow), or those of ranks that have more to compute,
 * which is no rank's fault (imbalance): always the last pipeline stage, or each replica as it comes.
 */
#include "tools/simjob/faults/faults.h"

#include "tools/simjob/job/injection.h"
#include "tools/simjob/job/rank.h"

/* Whether it is on for this rank now; asked for each kernel. A rank that @reports it does so at its two ends. */
static bool is_on(struct rank *rank, const struct injection *injection, bool reports)
{
	struct injection_state *state = injection_state(rank, injection);
	bool is_mine = injection->rank == RANK_ALL || injection->rank == rank->rank;
	bool now = is_mine && rank->step >= injection->step && rank->step < injection->until_step;

	if (reports && now && !state->begun)
		injection_report(rank, injection, "begin", NULL);
	if (reports && !now && state->begun && !state->done)
		injection_report(rank, injection, "end", NULL);
	state->done |= !now && state->begun;
	state->begun |= now;
	return now;
}

static double slow_factor(struct rank *rank, const struct injection *injection)
{
	return is_on(rank, injection, true) ? 1.0 + injection->percent / 100.0 : 1.0;
}

const struct fault fault_slow = {
	.keys = KEY_RANK | KEY_STEP | KEY_UNTIL | KEY_PERCENT,
	.default_percent = 50,
	.kernel_factor = slow_factor,
};

enum imbalance_what { IMBALANCE_STAGE, IMBALANCE_SEQUENCE };

static int imbalance_check(const struct options *options, const struct injection *injection, struct reason *reason)
{
	if (injection->what == IMBALANCE_STAGE && options->pp < 2)
		return refuse(reason, "there is no pipeline with a last stage, pp is 1; ask for one by "
				      "--layout pp=2 or more");
	return 0;
}

/* Sequences are as long in all ranks that work on the same batch: they share the place in the data-parallel group. */
static double sequence_factor(const struct rank *rank, const struct injection *injection)
{
	struct random random = { .state = injection->draw ^ (uint64_t)rank->step << 32 ^ rank->position.dp };

	random_u64(&random);
	return 1.0 + injection->percent / 100.0 * random_unit(&random);
}

static double imbalance_factor(struct rank *rank, const struct injection *injection)
{
	bool is_last_stage = rank->position.pp == rank->options->pp - 1;

	/* It is everybody's; one rank reports it. */
	if (!is_on(rank, injection, rank->rank == 0))
		return 1.0;
	if (injection->what == IMBALANCE_SEQUENCE)
		return sequence_factor(rank, injection);
	return is_last_stage ? 1.0 + injection->percent / 100.0 : 1.0;
}

const struct fault fault_imbalance = {
	.keys = KEY_STEP | KEY_UNTIL | KEY_WHAT | KEY_PERCENT,
	.required = KEY_WHAT,
	.what = WORDS("stage", "sequence"),
	.default_percent = 40,
	.is_of_job = true,
	.check = imbalance_check,
	.kernel_factor = imbalance_factor,
};
