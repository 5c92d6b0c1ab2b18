/* SPDX-License-Identifier: Apache-2.0
 *
 * canvas.c - see canvas.h.
 */
#include "top/canvas.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/larger.h"
#include "base/utf8.h"

#define TEXT_MAX 1024 /* of one put: no screen is wider */

int canvas_begin(struct canvas *c, int rows, int cols)
{
	size_t n;

	rows = rows < 1 ? 1 : rows > CANVAS_ROWS_MAX ? CANVAS_ROWS_MAX : rows;
	cols = cols < 1 ? 1 : cols > CANVAS_COLS_MAX ? CANVAS_COLS_MAX : cols;
	n = (size_t)rows * cols;
	if (rows != c->rows || cols != c->cols) {
		free(c->cells);
		c->cells = malloc(n * sizeof(*c->cells));
		c->rows = c->cells ? rows : 0;
		c->cols = c->cells ? cols : 0;
		if (!c->cells)
			return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++)
		c->cells[i] = (struct cell){ .c = ' ' };
	return 0;
}

void canvas_free(struct canvas *c)
{
	free(c->cells);
	*c = (struct canvas){ 0 };
}

/* The character at *at as one byte, and *at behind it. */
static char next_byte(const char **at)
{
	unsigned char byte = (unsigned char)**at;
	size_t n = utf8_len(*at);

	*at += n ? n : 1;
	return n == 1 && byte >= ' ' && byte < 127 ? (char)byte : '?';
}

int canvas_put(struct canvas *c, int row, int col, int width, enum ink ink, const char *text)
{
	int end = col + width < c->cols ? col + width : c->cols;

	if (row < 0 || row >= c->rows || col < 0)
		return col;
	while (*text && col < end) {
		struct cell *to = &c->cells[(size_t)row * c->cols + col++];

		*to = (struct cell){ .c = next_byte(&text), .ink = ink, .reverse = to->reverse };
		if (col == end && *text)
			to->c = '~';
	}
	return col;
}

int canvas_putf(struct canvas *c, int row, int col, int width, enum ink ink, const char *format, ...)
{
	char text[TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return canvas_put(c, row, col, width, ink, text);
}

void canvas_put_right(struct canvas *c, int row, int col, int width, enum ink ink, const char *text)
{
	int len = (int)smaller(strlen(text), (uint64_t)width);

	canvas_put(c, row, col + width - len, len, ink, text);
}

void canvas_mark(struct canvas *c, int row)
{
	if (row >= 0 && row < c->rows)
		for (int i = 0; i < c->cols; i++)
			c->cells[(size_t)row * c->cols + i].reverse = true;
}

void canvas_line(const struct canvas *c, int row, char *to)
{
	int len = 0;

	for (int i = 0; row >= 0 && row < c->rows && i < c->cols; i++) {
		to[i] = c->cells[(size_t)row * c->cols + i].c;
		len = to[i] != ' ' ? i + 1 : len;
	}
	to[len] = 0;
}
