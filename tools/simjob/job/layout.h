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

struct layout_position layout_position(const struct options *options, int rank);

#endif
