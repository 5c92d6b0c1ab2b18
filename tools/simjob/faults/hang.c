// SPDX-License-Identifier: Apache-2.0
/* The main thread does not come to its next operation: it sleeps in clock_nanosleep, spins, or a signal stopped it. */
#include "tools/simjob/faults/faults.h"

#include "tools/simjob/job/rank.h"

static void wait_out(struct rank *rank, const struct injection *injection, const struct op_place *place,
		     void (*wait_until)(uint64_t deadline_ns))
{
	injection_report(rank, injection, "begin", place);
	wait_until(clock_now_ns() + (uint64_t)(injection->duration_s * NSEC_PER_SEC));
	injection_report(rank, injection, "end", place);
}

static void hang(struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	wait_out(rank, injection, place, sleep_until);
}

static void hang_busy(struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	wait_out(rank, injection, place, spin_until);
}

const struct fault fault_hang = {
	.keys = PLACE_KEYS | KEY_SEC,
	.default_s = FAULT_FOREVER,
	.strike = hang,
};

const struct fault fault_hang_busy = {
	.keys = PLACE_KEYS | KEY_SEC,
	.default_s = FAULT_FOREVER,
	.strike = hang_busy,
};

/* SIGSTOP to itself, when all that the rank entered is under way. The launcher continues it. */
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
