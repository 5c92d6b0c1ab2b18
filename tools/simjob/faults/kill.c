// SPDX-License-Identifier: Apache-2.0
/* The process ends here and now; what it has entered and not reached its GPU is lost with it. */
#include "tools/simjob/faults/faults.h"

#include "tools/simjob/job/rank.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

enum kill_how { KILL_BY_SIGKILL, KILL_BY_EXIT, KILL_BY_SEGV };

static void complete(struct injection *injection)
{
	injection->ends_rank = true;
}

static void die(struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	volatile int *volatile nowhere = NULL; /* or the compiler sees that nothing reads it, and drops the store */

	injection_report(rank, injection, "begin", place);
	switch ((enum kill_how)injection->how) {
	case KILL_BY_SIGKILL: kill(rank->pid, SIGKILL); break;
	case KILL_BY_EXIT: exit(1);
	case KILL_BY_SEGV:
		prctl(PR_SET_DUMPABLE, 0); /* no core file of a crash that was asked for */
		*nowhere = 1;              /* lint: it is to crash here */
		break;
	}
}

const struct fault fault_kill = {
	.keys = PLACE_KEYS | KEY_HOW,
	.how = WORDS("kill", "exit", "segv"),
	.complete = complete,
	.strike = die,
};
