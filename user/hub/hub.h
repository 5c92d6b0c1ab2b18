/* SPDX-License-Identifier: Apache-2.0
 *
 * hub.h - one hub of a cluster: follows the reports of all hosts, judges all jobs, and writes the incidents of those
 * that it has.
 */
#ifndef RANKTRACE_HUB_H
#define RANKTRACE_HUB_H

#include <signal.h>

#include "bus/bus.h"

struct metrics_endpoint;

/* Until *stop is set. `name`: who we are, for leases, logs and people. `metrics`: where they are served, or NULL. 0 or
 * -errno. */
int hub_run(struct bus *b, const char *name, struct metrics_endpoint *metrics, const volatile sig_atomic_t *stop);

#endif
