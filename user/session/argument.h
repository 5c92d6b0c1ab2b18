/* SPDX-License-Identifier: Apache-2.0
 *
 * argument.h - parses option values that several commands take. A bad value is an argp error: the command prints it and
 * exits with 2.
 */
#ifndef RANKTRACE_ARGUMENT_H
#define RANKTRACE_ARGUMENT_H

#include <argp.h>
#include <stdint.h>

/* Appends the process id in `text` to `pids`, which has room for SESSION_PIDS_MAX. */
void argument_pid(struct argp_state *state, const char *text, uint32_t *pids, int *n);
/* The same for a value of any origin. Returns 0, or -EINVAL with the reason in `error`. */
int argument_pid_add(const char *text, uint32_t *pids, int *n, char *error, size_t size);

#endif
