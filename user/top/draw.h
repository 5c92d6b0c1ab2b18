/* SPDX-License-Identifier: Apache-2.0
 *
 * draw.h - the whole screen of `top` on a canvas: the source, a line of counts, the gravest finding, of a
 * recording its time; the page; what keys do. Pure.
 */
#ifndef RANKTRACE_TOP_DRAW_H
#define RANKTRACE_TOP_DRAW_H

#include "top/canvas.h"
#include "top/view.h"

#define TOP_ROWS_MIN 8 /* on fewer rows or columns it says so, and nothing else */
#define TOP_COLS_MIN 40

/* What is shown of the view on a screen of that size: after a key, so that the next one is about that. */
void top_settle(struct top_view *v, struct top_table *t, const struct top_source *s, int rows, int cols);
/* Settles the view for this size, then draws. */
void top_draw(struct canvas *c, struct top_view *v, struct top_table *t, const struct top_source *s);

#endif
