/* SPDX-License-Identifier: Apache-2.0
 *
 * columns.h - the columns of a row of `top`, of a rank and of a group; which are shown follows from the width. Pure.
 */
#ifndef RANKTRACE_TOP_COLUMNS_H
#define RANKTRACE_TOP_COLUMNS_H

#include "top/canvas.h"
#include "top/view.h"

void top_titles_put(struct canvas *c, int line, const struct top_view *v);
void top_row_put(struct canvas *c, int line, const struct top_row *r);
void top_group_put(struct canvas *c, int line, const struct top_group *g);
enum ink top_severity_ink(const struct incident *i); /* NULL: plain */

#endif
