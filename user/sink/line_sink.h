/* SPDX-License-Identifier: Apache-2.0
 *
 * line_sink.h - a sink that is a file of lines and nothing else: json and ops.
 */
#ifndef RANKTRACE_LINE_SINK_H
#define RANKTRACE_LINE_SINK_H

#include "sink/lines_out.h"
#include "sink/sink.h"

struct line_sink {
	struct sink base;
	struct lines_out out;
};

/* For sink_class.open, .flush and .close of such a sink. */
int line_sink_open(const struct sink_class *class, const char *path, struct sink **ret_sink);
int line_sink_flush(struct sink *base);
int line_sink_close(struct sink *base, const struct model *m);

#endif
