/* SPDX-License-Identifier: Apache-2.0
 *
 * argument.c - see argument.h.
 */
#include "session/argument.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "metrics/server.h"
#include "session/session.h"

#define BUDGET_MIN 0.01 /* percent of a core */
#define BUDGET_MAX 10000.0

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

/* --- files that follow each other --- */

#define ROTATE_BYTES_MIN 100e3
#define ROTATE_BYTES_MAX 1e15 /* both fit into what holds them, with room */
#define ROTATE_SEC_MAX (3650 * 86400.0)

static int refuse(char *error, size_t size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error, size, format, args);
	va_end(args);
	return -EINVAL;
}

int argument_rotate_set(const char *v, struct output_rules *to, char *error, size_t size)
{
	static const struct {
		const char *names[2];
		double bytes, sec;
	} units[] = {
		{ { "k", "kB" }, 1e3, 0 },     { { "M", "MB" }, 1e6, 0 },     { { "G", "GB" }, 1e9, 0 },
		{ { "T", "TB" }, 1e12, 0 },    { { "s", "sec" }, 0, 1 },      { { "min", "m" }, 0, 60 },
		{ { "h", "hours" }, 0, 3600 }, { { "d", "days" }, 0, 86400 },
	};
	char *unit;
	double n = strtod(v, &unit);

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]) && unit != v; i++) {
		if (strcmp(unit, units[i].names[0]) && strcmp(unit, units[i].names[1]))
			continue;
		if (!(n * units[i].bytes >= ROTATE_BYTES_MIN || n * units[i].sec >= 1))
			return refuse(error, size, "'%s' is less than 100k or 1s", v);
		if (n * units[i].bytes > ROTATE_BYTES_MAX || n * units[i].sec > ROTATE_SEC_MAX)
			return refuse(error, size, "'%s' is more than 1000T or 3650d", v);
		if (units[i].bytes > 0)
			to->rotate_bytes = n * units[i].bytes;
		else
			to->rotate_ns = n * units[i].sec * 1e9;
		return 0;
	}
	return refuse(error, size, "'%s' is neither a size (500M, 2G) nor a time (30min, 12h, 7d)", v);
}

int argument_keep_set(const char *v, struct output_rules *to, char *error, size_t size)
{
	char *end;
	unsigned long n = strtoul(v, &end, 10);

	if (end == v || *end || !n || n > OUTPUT_FILES_MAX || *v == '-')
		return refuse(error, size, "'%s' is not a number from 1 to %d", v, OUTPUT_FILES_MAX);
	to->keep = n;
	return 0;
}

int argument_percent_set(const char *text, uint32_t *to_ppm, char *error, size_t size)
{
	char *end;
	double percent = strtod(text, &end);

	*to_ppm = 0;
	if (!strcmp(text, "no"))
		return 0;
	if (end == text || *end || !(percent >= BUDGET_MIN) || percent > BUDGET_MAX) {
		snprintf(error, size, "'%s' is neither 'no' nor a percentage of a core from %g to %g", text, BUDGET_MIN,
			 BUDGET_MAX);
		return -EINVAL;
	}
	*to_ppm = percent * PPM_PER_PERCENT + 0.5;
	return 0;
}

int argument_metrics_set(const char *text, const char **to, char *error, size_t size)
{
	struct sockaddr_storage at;
	socklen_t len;

	*to = strcmp(text, "no") ? text : NULL;
	return *to ? server_address(text, &at, &len, error, size) : 0;
}
