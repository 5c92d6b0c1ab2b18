/* SPDX-License-Identifier: Apache-2.0
 *
 * log.c - see log.h.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

bool log_verbose, log_debugging, log_quiet;

static void log_line(const char *prefix, const char *format, va_list args)
{
	char text[2048];
	int n = vsnprintf(text, sizeof(text), format, args);

	/* Paths and names of targets are among the arguments: no line break but the message's own. */
	if (n >= 0)
		utf8_tame(text, strchr(format, '\n') || !strcmp(format, "%s") ? "\n\t" : "");
	if (n >= 0)
		fprintf(stderr, "ranktrace: %s%s\n", prefix, text);
}

#define LOG_FUNCTION(name, prefix, wanted) \
	void name(const char *format, ...) \
	{ \
		va_list args; \
\
		if (!(wanted)) \
			return; \
		va_start(args, format); \
		log_line(prefix, format, args); \
		va_end(args); \
	}

LOG_FUNCTION(log_error, "error: ", true)
LOG_FUNCTION(log_warn, "warning: ", true)
LOG_FUNCTION(log_info, "", !log_quiet)
LOG_FUNCTION(log_detail, "", log_verbose && !log_quiet)
LOG_FUNCTION(log_debug, "debug: ", log_debugging)
