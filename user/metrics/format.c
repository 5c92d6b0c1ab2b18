/* SPDX-License-Identifier: Apache-2.0
 *
 * format.c - see format.h.
 */
#include "metrics/format.h"

#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HEAD_MAX 768 /* of a metric: HELP, TYPE, UNIT */
/* Measured of 8 ranks: 19 KB become 2.8 KB in 0.06 ms; level 6 takes 0.15 ms for 2.5 KB. */
#define GZIP_LEVEL 1

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

/* One of the list: "gzip", "br;q=0.5". Its length, without what follows the name. */
static size_t coding_len(const char *item)
{
	return strcspn(item, " \t;,");
}

static bool coding_is(const char *item, const char *name)
{
	return coding_len(item) == strlen(name) && !strncasecmp(item, name, strlen(name));
}

/* A weight of 0 refuses it. */
static bool coding_taken(const char *item)
{
	const char *q = item + coding_len(item);

	q += strspn(q, " \t;");
	return strncasecmp(q, "q=", 2) || strtod(q + 2, NULL) > 0;
}

bool format_takes_gzip(const char *accept_encoding)
{
	bool any = false;

	for (const char *at = accept_encoding; at && *at; at += strcspn(at, ",")) {
		at += strspn(at, ", \t");
		if (coding_is(at, "gzip") || coding_is(at, "x-gzip"))
			return coding_taken(at);
		if (coding_is(at, "*"))
			any = coding_taken(at);
	}
	return any;
}

char *format_gzip(const char *text, size_t len, size_t *ret_len)
{
	struct libdeflate_compressor *c = libdeflate_alloc_compressor(GZIP_LEVEL);
	size_t most = c ? libdeflate_gzip_compress_bound(c, len) : 0;
	char *packed = c ? malloc(most) : NULL;

	*ret_len = packed ? libdeflate_gzip_compress(c, text, len, packed, most) : 0;
	libdeflate_free_compressor(c);
	if (*ret_len)
		return packed;
	free(packed);
	return NULL;
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
