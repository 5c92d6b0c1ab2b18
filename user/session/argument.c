/* SPDX-License-Identifier: Apache-2.0
 *
 * argument.c - see argument.h.
 */
#include "session/argument.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "session/session.h"

int argument_pid_add(const char *text, uint32_t *pids, int *n, char *error, size_t size)
{
	char *end;
	unsigned long pid = strtoul(text, &end, 10);

	if (end == text || *end || !pid || pid > INT32_MAX) {
		snprintf(error, size, "'%s' is not a process id", text);
		return -EINVAL;
	}
	if (*n == SESSION_PIDS_MAX) {
		snprintf(error, size, "at most %d; use --job or a common parent", SESSION_PIDS_MAX);
		return -EINVAL;
	}
	pids[(*n)++] = pid;
	return 0;
}

void argument_pid(struct argp_state *state, const char *text, uint32_t *pids, int *n)
{
	char error[160];

	if (argument_pid_add(text, pids, n, error, sizeof(error)))
		argp_error(state, "--pid: %s", error);
}
