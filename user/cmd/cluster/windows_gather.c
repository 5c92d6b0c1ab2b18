/* SPDX-License-Identifier: Apache-2.0
 *
 * windows_gather.c - see windows_gather.h.
 */
#include "cmd/cluster/windows_gather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cluster/file_fetch.h"
#include "command.h"

#define AGAIN_US 200000

static const char *why(int err)
{
	switch (err) {
	case -ENOENT: return "it has not delivered its window; does its agent run?";
	case -EBADMSG: return "its window is not whole any more: newer ones took its room";
	case -EACCES: return "this account may not read it";
	default: return strerror(-err);
	}
}

static int window_get(struct bus *b, int64_t user, const char *id, const char *host, uint64_t until_ns, int *ret_fd)
{
	struct file_head head = { .error = "" };
	int err;

	while ((err = file_fetch(b, user, id, host, &head, ret_fd)) == -ENOENT && clock_monotonic_ns() < until_ns)
		usleep(AGAIN_US);
	if (err)
		log_warn("%s: %s", host, why(err));
	else if (*head.error)
		log_warn("%s: %s", host, head.error);
	return err;
}

int windows_gather(struct bus *b, int64_t user, const char *id, const char (*hosts)[BUS_TOKEN_MAX], size_t n,
		   uint64_t until_ns, struct windows_gathered *ret)
{
	int err = 0;

	*ret = (struct windows_gathered){ .all = calloc(n + 1, sizeof(*ret->all)) };
	if (!ret->all)
		return -ENOMEM;
	for (size_t i = 0; i < n && err != -ENOTCONN && err != -ENOMEM; i++) {
		int fd = -1;

		err = window_get(b, user, id, hosts[i], until_ns, &fd);
		if (fd >= 0)
			ret->all[ret->n++] = (struct window){ .path = hosts[i], .fd = fd };
	}
	return ret->n ? 0 : err ? err : -ENODATA;
}

int windows_gathered_feed(struct windows_gathered *g, struct pipeline *p)
{
	int err = windows_merge(g->all, g->n, p);

	pipeline_flush(p);
	if (!err)
		window_clocks_say(g->all, g->n);
	else if (err != -EINVAL)
		log_error("merging: %s", strerror(-err));
	return err == -EINVAL ? EXIT_USAGE : err ? EXIT_INTERNAL : EXIT_CLEAN;
}

void windows_gathered_free(struct windows_gathered *g)
{
	for (size_t i = 0; i < g->n; i++)
		close(g->all[i].fd);
	free(g->all);
	*g = (struct windows_gathered){ 0 };
}
