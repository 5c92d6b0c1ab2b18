/* SPDX-License-Identifier: Apache-2.0
 *
 * line_sink.c - see line_sink.h.
 */
#include "sink/line_sink.h"

#include <errno.h>
#include <stdlib.h>

int line_sink_open(const struct sink_class *class, const char *path, struct sink **ret_sink)
{
	struct line_sink *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->base.class = class;
	err = lines_out_open(&s->out, path);
	if (err) {
		free(s);
		return err;
	}
	*ret_sink = &s->base; /* lint: returned by the address of its first member */
	return 0;
}

int line_sink_flush(struct sink *base)
{
	return lines_out_flush(&((struct line_sink *)base)->out);
}

int line_sink_close(struct sink *base, const struct model *m)
{
	struct line_sink *s = (struct line_sink *)base;
	int err = lines_out_close(&s->out);

	(void)m;
	free(s);
	return err;
}
