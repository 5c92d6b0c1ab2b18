/* SPDX-License-Identifier: Apache-2.0
 *
 * argument.c - see argument.h.
 */
#include "session/argument.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int argument_fail_on_set(const char *text, enum severity *to, char *error, size_t size)
{
	for (enum severity s = SEVERITY_WARNING; s < SEVERITY_MAX; s++) {
		if (strcmp(text, severity_name(s)))
			continue;
		*to = s;
		return 0;
	}
	snprintf(error, size, "'%s' is neither 'warning' nor 'critical'", text);
	return -EINVAL;
}

void argument_fail_on(struct argp_state *state, const char *text, enum severity *to)
{
	char error[160];

	if (argument_fail_on_set(text, to, error, sizeof(error)))
		argp_error(state, "--fail-on: %s", error);
}
