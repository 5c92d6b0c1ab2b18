/* SPDX-License-Identifier: Apache-2.0
 *
 * format.c - see format.h.
 */
#include "metrics/format.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_MAX 768 /* of a metric: HELP, TYPE, UNIT */

static const char *const types[] = { "counter", "gauge", "info", "histogram" }; /* by enum metric_type */

const char *format_content_type(enum metrics_format f)
{
	return f == FORMAT_OPENMETRICS ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
				       : "text/plain; version=0.0.4; charset=utf-8";
}

enum metrics_format format_wanted(const char *accept)
{
	return accept && strstr(accept, "application/openmetrics-text") ? FORMAT_OPENMETRICS : FORMAT_TEXT;
}

/* OpenMetrics knows a family by its name without what its samples end with. */
static int family_len(const struct metric *m)
{
	const char *end = m->type == METRIC_COUNTER ? "_total" : m->type == METRIC_INFO ? "_info" : "";

	return (int)(strlen(m->name) - strlen(end));
}

static size_t head_put(char *to, size_t room, const struct metric *m, enum metrics_format f)
{
	bool open = f == FORMAT_OPENMETRICS;
	const char *type = open || m->type != METRIC_INFO ? types[m->type] : "gauge";
	int len = open ? family_len(m) : (int)strlen(m->name);
	int n = snprintf(to, room, "# HELP %.*s %s\n# TYPE %.*s %s\n", len, m->name, m->help, len, m->name, type);

	if (open && *m->unit && n > 0 && (size_t)n < room)
		n += snprintf(to + n, room - (size_t)n, "# UNIT %.*s %s\n", len, m->name, m->unit);
	return n > 0 && (size_t)n < room ? (size_t)n : 0;
}

char *format_page(const struct shared_page *p, enum metrics_format f, size_t *ret_len)
{
	size_t most = METRICS * HEAD_MAX + sizeof("# EOF\n"), len = 0;
	char *text;

	for (size_t i = 0; i < METRICS; i++)
		most += p->of[i].len;
	text = malloc(most + 1);
	if (!text)
		return NULL;
	for (size_t i = 0; i < METRICS; i++) {
		if (!p->of[i].len)
			continue;
		len += head_put(text + len, HEAD_MAX, metric_of((enum metric_id)i), f);
		memcpy(text + len, p->text + p->of[i].at, p->of[i].len);
		len += p->of[i].len;
	}
	if (f == FORMAT_OPENMETRICS)
		len = (size_t)(stpcpy(text + len, "# EOF\n") - text);
	text[len] = 0;
	*ret_len = len;
	return text;
}
