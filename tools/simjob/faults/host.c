// SPDX-License-Identifier: Apache-2.0
/*
 * The host takes its time in a part of the step: in each step as long (slow-host), in each longer than in the one
 * before (grow), or once for long (compile).
 */
#include "tools/simjob/faults/faults.h"

#include "tools/simjob/job/rank.h"

#define PART_WORDS WORDS("backward", "forward", "optimizer", "data", "other")

/* In the order of the words. */
static const enum step_part parts[] = { PART_BACKWARD, PART_FORWARD, PART_OPTIMIZER, PART_DATA_WAIT, PART_OTHER };

static bool is_mine(const struct rank *rank, const struct injection *injection)
{
	return injection->rank == RANK_ALL || injection->rank == rank->rank;
}

/* Whether it is on in this step and part. Says when it begins and ends: one rank does where it is everybody's. */
static bool is_on(struct rank *rank, const struct injection *injection, enum step_part part)
{
	struct injection_state *state = injection_state(rank, injection);
	bool now = rank->step >= injection->step && rank->step < injection->until_step;
	bool reports = injection->rank == RANK_ALL ? rank->rank == 0 : true;

	if (!is_mine(rank, injection) || part != parts[injection->what])
		return false;
	if (reports && now && !state->begun)
		injection_report(rank, injection, "begin", NULL);
	if (reports && !now && state->begun && !state->done)
		injection_report(rank, injection, "end", NULL);
	state->done |= !now && state->begun;
	state->begun |= now;
	return now;
}

static void slow_in_part(struct rank *rank, const struct injection *injection, enum step_part part)
{
	if (is_on(rank, injection, part))
		sleep_until(clock_now_ns() + (uint64_t)(injection->ms * NSEC_PER_MSEC));
}

static void grow_in_part(struct rank *rank, const struct injection *injection, enum step_part part)
{
	double ms = injection->ms * (rank->step - injection->step + 1);

	if (is_on(rank, injection, part))
		sleep_until(clock_now_ns() + (uint64_t)(ms * NSEC_PER_MSEC));
}

/* torch.compile compiles where the code is first called with a new shape. */
static void compile_in_part(struct rank *rank, const struct injection *injection, enum step_part part)
{
	struct injection_state *state = injection_state(rank, injection);

	if (!is_mine(rank, injection) || part != PART_FORWARD || rank->step < injection->step || state->done)
		return;
	state->done = true;
	injection_report(rank, injection, "begin", NULL);
	spin_until(clock_now_ns() + (uint64_t)(injection->duration_s * NSEC_PER_SEC));
	injection_report(rank, injection, "end", NULL);
}

const struct fault fault_slow_host = {
	.keys = KEY_RANK | KEY_STEP | KEY_UNTIL | KEY_MS | KEY_WHAT,
	.what = PART_WORDS,
	.in_part = slow_in_part,
};

const struct fault fault_grow = {
	.keys = KEY_RANK | KEY_STEP | KEY_UNTIL | KEY_MS | KEY_WHAT,
	.what = PART_WORDS,
	.is_of_job = true,
	.in_part = grow_in_part,
};

const struct fault fault_compile = {
	.keys = KEY_RANK | KEY_STEP | KEY_SEC,
	.default_s = 8,
	.in_part = compile_in_part,
};
