/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c - see text.h.
 */
#include "sink/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/sink_io.h"

#define FOLD_INDENT 10 /* below the text of a block's lines */

static bool text_reserve(struct text *t, size_t more)
{
	size_t cap = t->cap ? t->cap : 1024;
	char *grown;

	if (t->len + more <= t->cap)
		return true;
	while (cap < t->len + more)
		cap *= 2;
	grown = realloc(t->data, cap);
	if (!grown)
		return false; /* a shorter message */
	t->data = grown;
	t->cap = cap;
	return true;
}

void text_add(struct text *t, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (n < 0 || !text_reserve(t, (size_t)n + 1))
		return;
	va_start(args, fmt);
	t->len += (size_t)vsnprintf(t->data + t->len, (size_t)n + 1, fmt, args);
	va_end(args);
}

void text_colour(struct text *t, const char *code)
{
	if (t->colour)
		text_add(t, "%s", code);
}

void text_foreign(struct text *t, const char *s, const char *line_break)
{
	while (*s) { /* lint: callers have a text */
		size_t n = utf8_len(s);

		if (*s == '\n' && line_break)
			text_add(t, "%s", s[1] ? line_break : "");
		else if (!n || utf8_is_control(s))
			text_add(t, "?");
		else
			text_add(t, "%.*s", (int)n, s);
		s += n ? n : 1;
	}
}

/* Bytes of what takes no column at `s`: an escape sequence, or the later bytes of a character; 0: it takes one. */
static size_t zero_width(const char *s)
{
	size_t n = 1;

	if (*s != '\033')
		return ((unsigned char)*s & 0xc0) == 0x80;
	while (s[n] && s[n] != 'm')
		n++;
	return n + (s[n] == 'm');
}

/* Behind the last comma of a word within `room` columns, and how wide that is; `end`: there is none. */
static const char *comma_within(const char *word, const char *end, int room, int *ret_width)
{
	const char *found = end;
	int width = 0;

	for (const char *at = word; at < end && width < room;) {
		size_t none = zero_width(at);

		width += !none;
		at += none ? none : 1;
		if (at[-1] == ',' && at < end) {
			found = at;
			*ret_width = width;
		}
	}
	return found;
}

/* One line, from `s` to `end`: its words, each with the spaces in front of it. A list that is wider than a line goes on
 * behind a comma. */
static void line_fold(struct text *to, const char *s, const char *end, int columns)
{
	int column = 0;

	while (s < end) {
		const char *word = s, *at;
		int width = 0;

		while (word < end && *word == ' ')
			word++;
		for (at = word; at < end && *at != ' ';) {
			size_t none = zero_width(at);

			width += !none;
			at += none ? none : 1;
		}
		if (column && column + (int)(word - s) + width > columns) {
			text_add(to, "\n%*s", FOLD_INDENT, "");
			column = FOLD_INDENT;
			s = word;
		}
		if (column + (int)(word - s) + width > columns)
			at = comma_within(word, at, columns - column - (int)(word - s), &width);
		text_add(to, "%.*s", (int)(at - s), s);
		column += (int)(word - s) + width;
		s = at;
	}
}

void text_fold(struct text *t, int columns)
{
	struct text folded = { .colour = t->colour };

	if (!t->data || columns < 4 * FOLD_INDENT)
		return;
	for (const char *s = t->data, *end; *s; s = end + (*end == '\n')) {
		end = s + strcspn(s, "\n");
		line_fold(&folded, s, end, columns);
		text_add(&folded, *end ? "\n" : "");
	}
	free(t->data);
	*t = folded;
}

void text_duration(struct text *t, double s)
{
	if (s >= 600)
		text_add(t, "%.0f min", s / 60);
	else if (s >= 0.1 || s <= 0)
		text_add(t, "%.1f s", s);
	else
		text_add(t, "%.3g ms", s * 1e3);
}
