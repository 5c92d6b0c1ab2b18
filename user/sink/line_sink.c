/* SPDX-License-Identifier: Apache-2.0
 *
 * line_sink.c - see line_sink.h.
 */
#include "sink/line_sink.h"

#include <errno.h>
#include <stdlib.h>

#include "sink/sink_io.h"

int line_sink_open(const struct sink_class *class, const char *path, struct sink **ret_sink)
{
	struct line_sink *s = calloc(1, sizeof(*s));
	int fd;

	if (!s)
		return -ENOMEM;
	fd = open_output(path);
	if (fd < 0) {
		free(s);
		return fd;
	}
	*s = (struct line_sink){ .base.class = class, .fd = fd };
	*ret_sink = &s->base; /* lint: returned by the address of its first member */
	return 0;
}

int line_sink_close(struct sink *base, const struct model *m)
{
	struct line_sink *s = (struct line_sink *)base;
	int err = close_output(s->fd);

	(void)m;
	free(s);
	return err;
}
