// SPDX-License-Identifier: Apache-2.0
/* Uninterruptible sleep of the main thread before an operation. */
#include "tools/simjob/faults/faults.h"

#include "tools/simjob/faults/block.h"

static void dstate(struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	block_in_create(rank, injection, place);
	injection_report(rank, injection, "end", place);
}

static void dstate_mm(struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	block_in_mmap(rank, injection, place);
	injection_report(rank, injection, "end", place);
}

const struct fault fault_dstate = {
	.keys = PLACE_KEYS | KEY_SEC,
	.default_s = 7,
	.resource = &resource_frozen_fs,
	.strike = dstate,
};

const struct fault fault_dstate_mm = {
	.keys = PLACE_KEYS | KEY_SEC,
	.default_s = 7,
	.resource = &resource_frozen_fs,
	.strike = dstate_mm,
};
