/* SPDX-License-Identifier: Apache-2.0
 *
 * live.c - see live.h.
 */
#include "top/live.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "command.h"

static int session_live(void *of, int control_fd)
{
	struct session_result r = { .child_status = -1 };
	struct session_args *a = of;
	struct reader *reader = NULL;
	struct pipeline *p = NULL;
	int err, code;

	a->outputs.paths[a->outputs.n++] = "-";
	a->session.control_fd = control_fd;
	err = session_readers_open(a, &reader);
	if (!err && !(p = pipeline_new()))
		err = -ENOMEM;
	if (err) {
		log_error("starting: %s", strerror(-err));
		return EXIT_INTERNAL;
	}
	code = session_outputs_open(a, p);
	if (!code)
		code = session_args_run(a, reader, p, &r);
	pipeline_free(p);
	session_readers_free(a, reader);
	return code;
}

int top_live_start(struct session_args *a, struct top_child *ret)
{
	return top_child_start(session_live, a, ret);
}

int top_live_ask(const struct top_child *c, enum session_wish wish, uint32_t pid)
{
	struct session_ask a = { .wish = wish, .pid = pid };

	return write(c->control_fd, &a, sizeof(a)) == sizeof(a) ? 0 : -errno;
}
