/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.c - see settings.h.
 */
#include "cluster/settings.h"

#include <stdio.h>
#include <string.h>

static const char *const known[] = { "hang-limit", "busy-limit", "dstate-limit", "budget", "budget-node",
				     "raise",      "raise-for",  "tier",         "paused" };
#define N_KNOWN (sizeof(known) / sizeof(known[0]))

bool setting_is_known(const char *name)
{
	for (size_t i = 0; i < N_KNOWN; i++)
		if (!strcmp(known[i], name))
			return true;
	return false;
}

const char *settings_names(void)
{
	static char names[256];
	size_t at = 0;

	for (size_t i = 0; i < N_KNOWN && !names[sizeof(names) - 2]; i++)
		at += snprintf(names + at, sizeof(names) - at, "%s%s", i ? ", " : "", known[i]);
	return names;
}

int settings_each(const char *text, int (*set)(void *of, const char *name, const char *value), void *of)
{
	char line[SETTINGS_BYTES];
	int err = 0;

	while (*text && !err) {
		size_t len = strcspn(text, "\n");
		char *value;

		snprintf(line, sizeof(line), "%.*s", (int)(len < sizeof(line) ? len : sizeof(line) - 1), text);
		text += len + (text[len] == '\n');
		value = strchr(line, '=');
		if (!value)
			continue;
		*value = 0;
		if (setting_is_known(line))
			err = set(of, line, value + 1);
	}
	return err;
}

static bool is_line_of(const char *line, const char *name)
{
	size_t len = strlen(name);

	return !strncmp(line, name, len) && line[len] == '=';
}

bool setting_put(char text[SETTINGS_BYTES], const char *name, const char *value)
{
	char next[SETTINGS_BYTES] = "";
	size_t at = 0, n;

	for (const char *line = text; *line; line += n + (line[n] == '\n')) {
		n = strcspn(line, "\n");
		if (n && !is_line_of(line, name))
			at += snprintf(next + at, sizeof(next) - at, "%.*s\n", (int)n, line);
	}
	if (value && (strchr(value, '\n') || at + strlen(name) + strlen(value) + 3 > sizeof(next)))
		return false;
	next[at] = 0;
	if (value)
		snprintf(next + at, sizeof(next) - at, "%s=%s\n", name, value);
	memcpy(text, next, sizeof(next));
	return true;
}
