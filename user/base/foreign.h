/* SPDX-License-Identifier: Apache-2.0
 *
 * foreign.h - how commands print what targets say of themselves.
 */
#ifndef RANKTRACE_CMD_FOREIGN_H
#define RANKTRACE_CMD_FOREIGN_H

#include <cjson/cJSON.h>

/* As printf(); what of it is no character or controls a terminal becomes '?', but for the line breaks that end the
 * format. */
__attribute__((format(printf, 1, 2))) void foreign_print(const char *format, ...);
/* A text of a JSON object, as valid UTF-8. */
void foreign_json(cJSON *o, const char *name, const char *text);

#endif
