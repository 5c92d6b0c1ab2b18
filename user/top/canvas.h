/* SPDX-License-Identifier: Apache-2.0
 *
 * canvas.h - what a screen is to show, as cells in memory: `top` is drawn here, and a test reads it here; screen.c only
 * copies it to a terminal. Texts are cut at their column and at the edge. A cell is one byte of ASCII: any other
 * character of a foreign text takes one cell as '?'. Pure.
 */
#ifndef RANKTRACE_TOP_CANVAS_H
#define RANKTRACE_TOP_CANVAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CANVAS_ROWS_MAX 1000
#define CANVAS_COLS_MAX 1000

enum ink { INK_PLAIN, INK_DIM, INK_HEAD, INK_GOOD, INK_WARNING, INK_BAD, INKS };

struct cell {
	char c;
	uint8_t ink;  /* enum ink */
	bool reverse; /* of the row that is selected, and of bars */
};

struct canvas { /* zeroed at first */
	int rows, cols;
	struct cell *cells;
};

/* Sets the size, and every cell blank. 0 or -ENOMEM, and it has no cells. */
int canvas_begin(struct canvas *c, int rows, int cols);
void canvas_free(struct canvas *c);
/* Writes into at most `width` columns from `col` on; what is too long ends in '~'. Returns the column behind it. */
int canvas_put(struct canvas *c, int row, int col, int width, enum ink ink, const char *text);
__attribute__((format(printf, 6, 7))) int canvas_putf(struct canvas *c, int row, int col, int width, enum ink ink,
						      const char *format, ...);
/* The same, ending at the last of `width` columns. */
void canvas_put_right(struct canvas *c, int row, int col, int width, enum ink ink, const char *text);
/* The whole row in reverse. */
void canvas_mark(struct canvas *c, int row);
/* The row as text, without blanks at its end: `to` has room for cols + 1. */
void canvas_line(const struct canvas *c, int row, char *to);

#endif
