// SPDX-License-Identifier: Apache-2.0
/*
 * simjob: a simulated distributed training job. One binary, two roles: the launcher starts it again, with the same
 * arguments and torchrun's environment, once per rank.
 */
#include "tools/simjob/job/rank.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
	static struct options options;

	options_parse(&options, argc, argv);
	if (getenv("SIMJOB_STORE_FD"))
		return rank_main(&options);
	return launcher_main(&options, argv);
}
