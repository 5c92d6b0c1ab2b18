/* SPDX-License-Identifier: Apache-2.0
 *
 * bus_options.h - where the bus of a cluster is and who we are there: the same options for watch, hub and incidents.
 */
#ifndef RANKTRACE_BUS_OPTIONS_H
#define RANKTRACE_BUS_OPTIONS_H

#include <argp.h>
#include <stdbool.h>

#include "bus/bus.h"

/* As a child of a command's parser; its input is a struct bus_cfg. */
extern const struct argp bus_argp;
/* The same by name, "nats-ca"; `value` is kept, not copied. 0; -ENOENT no such setting. */
int bus_option_set(struct bus_cfg *cfg, const char *name, const char *value);
/* Names of all these; returns how many, at most `max`. */
size_t bus_option_names(const char **to, size_t max);
/* EXIT_CLEAN, or EXIT_USAGE after logging what lacks. */
int bus_options_check(const struct bus_cfg *cfg);
bool bus_options_differ(const struct bus_cfg *a, const struct bus_cfg *b);

#endif
