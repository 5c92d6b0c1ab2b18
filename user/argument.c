/* SPDX-License-Identifier: Apache-2.0
 *
 * argument.c - see argument.h.
 */
#include "argument.h"

#include <stdlib.h>

#include "session.h"

void argument_pid(struct argp_state *state, const char *text, uint32_t *pids, int *n)
{
	char *end;
	unsigned long pid = strtoul(text, &end, 10);

	if (end == text || *end || !pid || pid > INT32_MAX)
		argp_error(state, "--pid: '%s' is no process id", text);
	if (*n == SESSION_PIDS_MAX)
		argp_error(state, "--pid: at most %d; use --job or a common parent", SESSION_PIDS_MAX);
	pids[(*n)++] = pid;
}
