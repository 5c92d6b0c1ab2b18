// SPDX-License-Identifier: Apache-2.0
/* SIGSTOP to itself, when all that the rank entered is under way. The launcher continues it. */
#include "tools/simjob/faults/faults.h"

#include "tools/simjob/job/rank.h"

static void stop(struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	/* What was entered before is the GPU's business, and a real GPU does not stop with its process. */
	rank->api.sim_device_settle(NSEC_PER_SEC);
	injection_report(rank, injection, "begin", place);
	rank_stop(rank, injection);
	injection_report(rank, injection, "end", place);
}

const struct fault fault_stop = {
	.keys = PLACE_KEYS | KEY_SEC,
	.default_s = FAULT_FOREVER,
	.strike = stop,
};
