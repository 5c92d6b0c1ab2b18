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
#define SAMPLE_MAX (NAME_MAX_BYTES + (METRIC_LABELS_MAX + 1) * LABEL_BYTES + VALUE_MAX_BYTES)

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

static char *label_put(char *to, char before, const char *name, size_t len, const char *value)
{
	*to++ = before;
	memcpy(to, name, len);
	to += len;
	*to++ = '=';
	*to++ = '"';
	to = value_escape(to, value);
	*to++ = '"';
	return to;
}

/* `le`: the bound of a bucket, or NULL. */
static char *labels_put(char *to, const char *names, const char *const *values, const char *le)
{
	char before = '{';

	for (; *names; values++) {
		size_t len = strcspn(names, ",");

		to = label_put(to, before, names, len, *values); /* lint: there are as many as names */
		before = ',';
		names += len + (names[len] == ',');
	}
	if (le) {
		to = label_put(to, before, "le", 2, le);
		before = ',';
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

/* `end`: behind the metric's name. */
static bool sample_put(struct page *p, enum metric_id id, const char *end, const char *const *labels, const char *le,
		       double value)
{
	const struct metric *m = metric_of(id);
	struct page_family *f = &p->of[id];
	char sample[SAMPLE_MAX], *to = stpcpy(stpcpy(sample, m->name), end);

	to = value_put(labels_put(to, m->labels, labels, le), value);
	if (f->n >= m->series_max || !room_make(f, (size_t)(to - sample)))
		return false;
	memcpy(f->text + f->len, sample, (size_t)(to - sample));
	f->len += (size_t)(to - sample);
	f->n++;
	return true;
}

static void labels_take(const char **to, enum metric_id id, va_list values)
{
	for (const char *names = metric_of(id)->labels; *names; names += *names == ',') {
		*to++ = va_arg(values, const char *);
		names += strcspn(names, ",");
	}
}

void page_put(struct page *p, enum metric_id id, double value, ...)
{
	const char *labels[METRIC_LABELS_MAX];
	va_list values;

	if (!isfinite(value))
		return;
	va_start(values, value);
	labels_take(labels, id, values);
	va_end(values);
	if (!sample_put(p, id, "", labels, NULL, value))
		p->left_out++;
}

static bool histogram_put(struct page *p, enum metric_id id, const struct histogram *h, const char *const *labels)
{
	uint64_t n = 0;
	bool ok = true;

	for (int i = 0; i < HISTOGRAM_BOUNDS && ok; i++) {
		n += h->counts[i];
		ok = sample_put(p, id, "_bucket", labels, histogram_bound(i), (double)n);
	}
	n += h->counts[HISTOGRAM_BOUNDS];
	return ok && sample_put(p, id, "_bucket", labels, "+Inf", (double)n) &&
	       sample_put(p, id, "_sum", labels, NULL, (double)h->sum_ns * 1e-9) &&
	       sample_put(p, id, "_count", labels, NULL, (double)n);
}

void page_put_histogram(struct page *p, enum metric_id id, const struct histogram *h, ...)
{
	struct page_family *f = &p->of[id];
	size_t len = f->len, n = f->n;
	const char *labels[METRIC_LABELS_MAX];
	va_list values;

	va_start(values, h);
	labels_take(labels, id, values);
	va_end(values);
	if (histogram_put(p, id, h, labels))
		return;
	f->len = len;
	f->n = n;
	p->left_out += HISTOGRAM_SERIES;
}
