/* SPDX-License-Identifier: Apache-2.0
 *
 * job_uneven.c - the work that ranks of a healthy scripted job have more or less of: stages and sequence lengths.
 */
#include "tests/unit/job/job_state.h"

/* Of the sequences that this replica got in this step: the same on all its ranks and stages. */
static double length_factor(const struct job *j, int r, int step)
{
	int replica = r / j->o.tp % j->o.dp;
	uint64_t rng = j->o.seed * 1000003 + (uint64_t)step * 4099 + replica;

	return 1 + j->o.lengths * (2 * ((double)random_next(&rng) / (double)(1ull << 31)) - 1);
}

/* Work that is no fault: who has more of it has it by how the job is built, or by luck. */
double uneven_work(const struct job *j, int r, int step)
{
	double t = j->o.lengths > 0 ? length_factor(j, r, step) : 1;

	return r / (j->o.tp * j->o.dp) == j->o.pp - 1 && j->o.pp > 1 ? t * (1 + j->o.last_stage) : t;
}
