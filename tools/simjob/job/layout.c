// SPDX-License-Identifier: Apache-2.0
/* See layout.h. */
#include "tools/simjob/job/layout.h"

struct layout_position layout_position(const struct options *options, int rank)
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
