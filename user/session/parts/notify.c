/* SPDX-License-Identifier: Apache-2.0
 *
 * notify.c - see notify.h.
 */
#include "session/parts/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define EARLY 3 /* a turn that is late by half of the limit is no failure */

static int socket_to(const char *path)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	socklen_t len = offsetof(struct sockaddr_un, sun_path) + strlen(path);
	int fd;

	if (strlen(path) >= sizeof(to.sun_path) || (*path != '/' && *path != '@'))
		return -1;
	memcpy(to.sun_path, path, strlen(path));
	if (*path == '@')
		to.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, len)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Of a watchdog that is meant for another process of the service: 0. */
static uint64_t watchdog_ns(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

	return usec && (!pid || atol(pid) == getpid()) ? strtoull(usec, NULL, 10) * 1000 : 0;
}

void notify_open(struct notify *n)
{
	const char *path = getenv("NOTIFY_SOCKET");

	*n = (struct notify){ .fd = path ? socket_to(path) : -1, .every_ns = watchdog_ns() / EARLY };
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

void notify_close(struct notify *n)
{
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
}

void notify_say(const struct notify *n, const char *state)
{
	if (n->fd >= 0)
		send(n->fd, state, strlen(state), MSG_NOSIGNAL);
}

void notify_turn(struct notify *n, uint64_t now_ns)
{
	if (!n->every_ns || now_ns < n->last_ns + n->every_ns)
		return;
	n->last_ns = now_ns;
	notify_say(n, "WATCHDOG=1");
}
