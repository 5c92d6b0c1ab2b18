/* SPDX-License-Identifier: Apache-2.0
 *
 * diff_print.h - a comparison of two recordings, for people and as JSON lines, on standard output.
 */
#ifndef RANKTRACE_DIFF_PRINT_H
#define RANKTRACE_DIFF_PRINT_H

#include <stdbool.h>

#include "compare/compare.h"

/* `all`: also what did not change. Ranks whose same phase changed alike are one line. */
void diff_print_text(const struct comparison *c, const char *const names[2], bool all);
/* Each measure a line, then one of the whole. */
void diff_print_json(const struct comparison *c, const char *const names[2]);

#endif
