/* SPDX-License-Identifier: Apache-2.0
 *
 * notify.h - reports to the service manager by sd_notify(3)'s protocol, a datagram of lines. It restarts a service
 * whose loop has no turn any more. Without $NOTIFY_SOCKET nothing happens.
 */
#ifndef RANKTRACE_NOTIFY_H
#define RANKTRACE_NOTIFY_H

#include <stdint.h>

struct notify {
	int fd;            /* -1: there is no manager */
	uint64_t every_ns; /* 0: no watchdog */
	uint64_t last_ns;
};

/* Takes $NOTIFY_SOCKET and $WATCHDOG_USEC out of the environment: no child speaks for us. */
void notify_open(struct notify *n);
void notify_close(struct notify *n);
/* "READY=1" and the like; a manager that does not listen misses it. */
void notify_say(const struct notify *n, const char *state);
/* The loop has its turn. */
void notify_turn(struct notify *n, uint64_t now_ns);

#endif
