/* SPDX-License-Identifier: Apache-2.0
 *
 * slow_while.h - what is slow by SIM_P2P_SLOW, SIM_HOST_SLOW, SIM_GPU_SLOW or SIM_NCCL_SLOW, does not come by
 * SIM_NCCL_HANG or is wrong by SIM_NCCL_WRONG is so only as long as the file SIM_SLOW_WHILE is there: a test that takes
 * it away makes a dip, on a machine of any pace.
 */
#ifndef SIM_SLOW_WHILE_H
#define SIM_SLOW_WHILE_H

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

static inline bool slow_now(void)
{
	const char *path = getenv("SIM_SLOW_WHILE");

	return !path || !access(path, F_OK);
}

#endif
