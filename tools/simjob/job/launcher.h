/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher: stands for torchrun. Starts the ranks, passes signals on, waits, sums up. */
#ifndef SIMJOB_LAUNCHER_H
#define SIMJOB_LAUNCHER_H

#include "tools/simjob/job/options.h"

/* The process's exit status: 0 when all ranks exited with 0, else 1. */
int launcher_main(const struct options *options, char **argv);

#endif
