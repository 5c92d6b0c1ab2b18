/* SPDX-License-Identifier: Apache-2.0
 *
 * foreign.c - see foreign.h.
 */
#include "base/foreign.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static size_t breaks_at_end(const char *s)
{
	size_t len = strlen(s), n = 0;

	while (n < len && s[len - 1 - n] == '\n')
		n++;
	return n;
}

void foreign_print(const char *format, ...)
{
	size_t breaks = breaks_at_end(format);
	va_list args;
	char *text;

	va_start(args, format);
	int n = vasprintf(&text, format, args);

	va_end(args);
	if (n < 0)
		return;
	text[(size_t)n - breaks] = '\0';
	utf8_tame(text, "");
	fputs(text, stdout);
	free(text);
	while (breaks--)
		putchar('\n');
}

void foreign_json(cJSON *o, const char *name, const char *text)
{
	char *clean = utf8_dup(text);

	if (clean)
		cJSON_AddStringToObject(o, name, clean);
	free(clean);
}
