/* SPDX-License-Identifier: Apache-2.0
 *
 * argument.h - values of options that several commands take. What cannot be is an error of argp's: it says so and
 * ends the command with 2.
 */
#ifndef RANKTRACE_ARGUMENT_H
#define RANKTRACE_ARGUMENT_H

#include <argp.h>
#include <stdint.h>

/* Appends the process id in `text` to `pids`, which hold SESSION_PIDS_MAX. */
void argument_pid(struct argp_state *state, const char *text, uint32_t *pids, int *n);
/* The same for a value from anywhere: 0, or -EINVAL with what is wrong in `error`. */
int argument_pid_add(const char *text, uint32_t *pids, int *n, char *error, size_t size);

#endif
