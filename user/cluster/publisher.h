/* SPDX-License-Identifier: Apache-2.0
 *
 * publisher.h - the process that speaks to the bus for an agent. What the tracer has to do with it is one send that
 * never waits: the network, TLS and a library of others are on the other side, without the tracer's rights.
 */
#ifndef RANKTRACE_CLUSTER_PUBLISHER_H
#define RANKTRACE_CLUSTER_PUBLISHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/bus.h"
#include "cluster/settings.h"

struct publisher_frame { /* in front of a message on the way to it; with the host what the message is known by */
	uint64_t agent, sequence;
};

/* Forks it: early, while this process is small and has one thread. `token`: of the host. 0, or -errno with the message
 * in `error`: its library is not there, a file cannot be read. A server need not answer yet. *ret_fd: where frames go,
 * each with its message, in one send(); closed: it sends what it has, for two seconds, and ends. */
int publisher_start(const struct bus_cfg *cfg, const char *token, int *ret_fd, char *error, size_t error_size);

/* What comes back on that descriptor: settings, when they changed (user/cluster/settings.h). False: none, yet. */
bool publisher_settings(int fd, struct agent_settings *ret);

/* What it does, until the other end of `fd` is closed. For tests: on any bus, in this process. */
struct spool;
void publisher_run(struct bus *b, const char *token, int fd, struct spool *s);

#endif
