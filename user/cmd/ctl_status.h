/* SPDX-License-Identifier: Apache-2.0
 *
 * ctl_status.h - how the agents of a cluster stand, by the newest report of each.
 */
#ifndef RANKTRACE_CMD_CTL_STATUS_H
#define RANKTRACE_CMD_CTL_STATUS_H

#include <stdbool.h>

#include "bus/bus.h"

/* Prints a line for each host (`host` NULL: all), then what does not agree. 0 or -errno of the bus. */
int ctl_status(struct bus *b, const char *host, bool json);

#endif
