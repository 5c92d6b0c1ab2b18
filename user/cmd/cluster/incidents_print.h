/* SPDX-License-Identifier: Apache-2.0
 *
 * incidents_print.h - an incident of a log, and what people said of it, on standard output.
 */
#ifndef RANKTRACE_CMD_INCIDENTS_PRINT_H
#define RANKTRACE_CMD_INCIDENTS_PRINT_H

#include <stdbool.h>

#include "hub/mark/incident_mark.h"

struct incident_marks {
	struct incident_mark ack, silence; /* zero: none */
};

/* Of the incident of this line, as of now. 0 or as incident_mark_read(): then there are none. */
int incident_marks_read(struct bus *b, const char *line, struct incident_marks *ret);
/* `line` as it is in the log. */
void incident_line_print(const char *line, const struct incident_marks *marks, bool json);
/* A text of the line, to be freed; "" where it has none, NULL without memory. */
char *incident_line_text(const char *line, const char *name);

#endif
