/* SPDX-License-Identifier: Apache-2.0
 *
 * text.h - a message for a terminal, put together in memory and printed with one write. Without memory it comes
 * out shorter, never broken.
 */
#ifndef RANKTRACE_TEXT_H
#define RANKTRACE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct text {
	char *data; /* free() it; NULL while empty */
	size_t len, cap;
	bool colour;
};

__attribute__((format(printf, 2, 3))) void text_add(struct text *t, const char *fmt, ...);
/* An escape sequence, only where colours are wanted. */
void text_colour(struct text *t, const char *code);
/* Bytes of the target: what is no character, or controls the terminal, becomes '?'. A line break becomes
 * `line_break`, except at the very end; with NULL it is a control character like others. */
void text_foreign(struct text *t, const char *s, const char *line_break);
/* Folds its lines between words at that column, where it stands on a screen; what goes on is indented. */
void text_fold(struct text *t, int columns);
/* "2.7 s", "35 ms", "12 min" */
void text_duration(struct text *t, double s);

#endif
