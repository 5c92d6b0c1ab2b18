/* SPDX-License-Identifier: Apache-2.0
 *
 * bus_open.h - the bus of a command, which gives up its rights before it speaks to it.
 */
#ifndef RANKTRACE_CMD_BUS_OPEN_H
#define RANKTRACE_CMD_BUS_OPEN_H

#include "bus/bus.h"

/* EXIT_CLEAN, or an exit code after logging why. For good: what the command writes it has open already. */
int bus_open_confined(const struct bus_cfg *cfg, struct bus **ret);

#endif
