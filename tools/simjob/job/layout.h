/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who belongs to which parallel group. Megatron's order: tensor-parallel neighbours are adjacent ranks, then data
 * parallel, then pipeline stages: rank = tp + TP * (dp + DP * pp).
 */
#ifndef SIMJOB_LAYOUT_H
#define SIMJOB_LAYOUT_H

#include "tools/simjob/job/options.h"

struct layout_position {
	int tp, dp, pp;                   /* place in each group, from 0 */
	int tp_group, dp_group, pp_group; /* number of each group, from 0: the color of its Split */
};

static inline struct layout_position layout_position(const struct options *options, int rank)
{
	struct layout_position position = {
		.tp = rank % options->tp,
		.dp = rank / options->tp % options->dp,
		.pp = rank / (options->tp * options->dp),
	};

	position.tp_group = position.dp + options->dp * position.pp;
	position.dp_group = position.tp + options->tp * position.pp;
	position.pp_group = position.tp + options->tp * position.dp;
	return position;
}

#endif
