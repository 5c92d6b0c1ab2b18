/* SPDX-License-Identifier: Apache-2.0
 *
 * bus_open.c - see bus_open.h.
 */
#include "cmd/cluster/bus_open.h"

#include <errno.h>

#include "base/confine.h"
#include "base/log.h"
#include "command.h"

int bus_open_confined(const struct bus_cfg *cfg, struct bus **ret)
{
	char error[1024] = "giving up rights";
	int err = confine_bus();

	err = err ? err : confine_bus_calls();
	err = err ? err : bus_nats_open(cfg, ret, error, sizeof(error));
	if (!err)
		return EXIT_CLEAN;
	log_error("%s", error);
	return err == -ENOTSUP ? EXIT_UNSUPPORTED : err == -EINVAL ? EXIT_USAGE : EXIT_INTERNAL;
}
