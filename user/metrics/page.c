/* SPDX-License-Identifier: Apache-2.0
 *
 * page.c - see page.h.
 */
#include "metrics/page.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define NAME_MAX_BYTES 64
#define VALUE_MAX_BYTES 32
/* A label: its name, three bytes for each that is no character, twice that where all are escaped. */
#define LABEL_BYTES (NAME_MAX_BYTES + 2 * PAGE_LABEL_MAX + 8)
#define SAMPLE_MAX (NAME_MAX_BYTES + METRIC_LABELS_MAX * LABEL_BYTES + VALUE_MAX_BYTES)

void page_clear(struct page *p)
{
	for (size_t i = 0; i < METRICS; i++)
		p->of[i].len = p->of[i].n = 0;
	p->left_out = 0;
}

void page_free(struct page *p)
{
	for (size_t i = 0; i < METRICS; i++)
		free(p->of[i].text);
	*p = (struct page){ 0 };
}

static char *value_escape(char *to, const char *value)
{
	char clean[PAGE_LABEL_MAX + 1];

	utf8_copy(clean, sizeof(clean), value ? value : "");
	for (const char *c = clean; *c; c++) {
		if (*c == '\\' || *c == '"' || *c == '\n')
			*to++ = '\\';
		*to++ = *c == '\n' ? 'n' : *c;
	}
	return to;
}

static char *labels_put(char *to, const char *names, va_list values)
{
	char before = '{';

	while (*names) {
		size_t len = strcspn(names, ",");

		*to++ = before;
		memcpy(to, names, len);
		to += len;
		*to++ = '=';
		*to++ = '"';
		to = value_escape(to, va_arg(values, const char *));
		*to++ = '"';
		before = ',';
		names += len + (names[len] == ',');
	}
	if (before == ',')
		*to++ = '}';
	return to;
}

/* Whole numbers whole: a counter of bytes loses no digit. */
static char *value_put(char *to, double value)
{
	bool whole = value == floor(value) && fabs(value) < 9e15;

	return to + snprintf(to, VALUE_MAX_BYTES, whole ? " %.0f\n" : " %.13g\n", value);
}

static bool room_make(struct page_family *f, size_t len)
{
	size_t cap = f->cap ? 2 * f->cap : 1024;
	char *text;

	if (f->len + len <= f->cap)
		return true;
	while (cap < f->len + len)
		cap *= 2;
	text = realloc(f->text, cap);
	if (!text)
		return false;
	f->text = text;
	f->cap = cap;
	return true;
}

void page_put(struct page *p, enum metric_id id, double value, ...)
{
	const struct metric *m = metric_of(id);
	struct page_family *f = &p->of[id];
	char sample[SAMPLE_MAX], *end;
	va_list values;

	if (!isfinite(value))
		return;
	end = stpcpy(sample, m->name);
	va_start(values, value);
	end = labels_put(end, m->labels, values);
	va_end(values);
	end = value_put(end, value);
	if (f->n >= m->series_max || !room_make(f, (size_t)(end - sample))) {
		p->left_out++;
		return;
	}
	memcpy(f->text + f->len, sample, (size_t)(end - sample));
	f->len += (size_t)(end - sample);
	f->n++;
}
