/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU hogs: processes of the launcher, n for each injection that needs them, that spin on one core while the injection
 * asks for it, and sleep otherwise.
 */
#ifndef SIMJOB_HOGS_H
#define SIMJOB_HOGS_H

#include "tools/simjob/job/rank.h"

#include <sched.h>

/* The @left-th of the cores that the process may use, counted around. */
int core_choose(uint64_t left);
void hogs_start(const struct rank *rank, const struct injection *injection, int core);
void hogs_stop(const struct rank *rank, const struct injection *injection);

#endif
