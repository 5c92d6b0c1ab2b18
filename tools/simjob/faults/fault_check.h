/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a job with these options can have a fault at all: what a fault needs beyond its own keys. */
#ifndef SIMJOB_FAULT_CHECK_H
#define SIMJOB_FAULT_CHECK_H

#include "tools/simjob/job/options.h"

/* 0, or -EINVAL with cause and remedy in @ret_reason, for options->faults[@index]. */
int fault_check(const struct options *options, int index, char *ret_reason, int reason_size);

#endif
