/* SPDX-License-Identifier: Apache-2.0
 *
 * rdma_again.c - rounds with a link below its bound are run again, whole: a link may be slow only while the others of
 * its round send. What was below in each turn only is a fault.
 */
#include "tools/stress/rdma/rates.h"
#include "tools/stress/rdma/rdma_run.h"

static bool round_is_open(const struct rdma_run *run, int round)
{
	for (int i = 0; i < run->n_measured; i++)
		if (run->measured[i].round == round && judgement_is_open(&run->measured[i].judged) &&
		    !link_has_failed(run, run->measured[i].from, run->measured[i].to))
			return true;
	return false;
}

static bool any_open(const struct rdma_run *run)
{
	for (int i = 0; i < run->n_rounds; i++)
		if (round_is_open(run, i))
			return true;
	return false;
}

void rdma_again(struct rdma_run *run, const struct baseline *baseline)
{
	struct again again;

	rates_measured(run);
	rates_hold(run, baseline);
	again_begin(&again, run->options);
	while (any_open(run) && again_next(&again)) {
		for (int i = 0; i < run->n_rounds && !run->fleet.stopped && !again_is_over(&again); i++)
			if (round_is_open(run, i))
				links_again(run, i);
		rates_hold(run, baseline);
	}
}
