/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_again.c - cases below their bound are run again, on all groups side by side as before: what was below in each
 * turn only is a fault.
 */
#include "tools/stress/nccl/nccl_run.h"

/* The first open one of a case runs it for all groups. */
static bool is_first_open(const struct nccl_run *run, int rate)
{
	for (int i = 0; i < rate; i++)
		if (judgement_is_open(&run->rates[i].judged) && nccl_same_case(&run->rates[i].of, &run->rates[rate].of))
			return false;
	return judgement_is_open(&run->rates[rate].judged);
}

static bool any_open(const struct nccl_run *run)
{
	for (int i = 0; i < run->n_rates; i++)
		if (judgement_is_open(&run->rates[i].judged) && run->groups[run->rates[i].group].joined)
			return true;
	return false;
}

void nccl_again(struct nccl_run *run, const struct baseline *baseline)
{
	struct again again;
	uint64_t seed = run->options->seed << 20 | 1u << 19; /* operands that no sweep had */

	nccl_measured(run);
	nccl_hold(run, baseline);
	run->again = true;
	again_begin(&again, run->options);
	while (any_open(run) && again_next(&again)) {
		for (int i = 0; i < run->n_rates && !run->c.stopped && !again_is_over(&again); i++) {
			struct nccl_case of = run->rates[i].of;

			of.seed = seed++;
			if (is_first_open(run, i))
				nccl_case_run(run, &of);
		}
		nccl_hold(run, baseline);
	}
}
