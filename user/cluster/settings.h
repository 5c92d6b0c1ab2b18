/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.h - what `ranktrace ctl` sets for agents: lines "name=value" in the table of settings, under the host's
 * token and, for all hosts, under "all". The state that is wanted, no commands: an agent that was away gets it when it
 * is back. What a host has of its own wins.
 */
#ifndef RANKTRACE_CLUSTER_SETTINGS_H
#define RANKTRACE_CLUSTER_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SETTINGS_BYTES 1024
#define SETTINGS_ALL "=all" /* a key that is no host's token */

struct agent_settings {
	uint64_t revision; /* of both values together; 0: nothing was ever set */
	char text[2 * SETTINGS_BYTES];
};

/* The settings that may be set so: "hang-limit". */
bool setting_is_known(const char *name);
/* For help: "hang-limit, busy-limit, ..." */
const char *settings_names(void);
/* Calls `set` for each line in order, until it returns other than 0, which is returned. Lines that are none are passed
 * over. */
int settings_each(const char *text, int (*set)(void *of, const char *name, const char *value), void *of);
/* Sets the line of that name, or (value NULL) takes it out. False: no room, or a value with a line break. */
bool setting_put(char text[SETTINGS_BYTES], const char *name, const char *value);

#endif
