/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoint.h - where a process's metrics are served: once a second it writes a page into shared memory, and a process
 * without rights (server.h) serves that. So no client, however slow or hostile, has anything to do with its loop.
 */
#ifndef RANKTRACE_METRICS_ENDPOINT_H
#define RANKTRACE_METRICS_ENDPOINT_H

#include "metrics/page.h"
#include "metrics/server.h"
#include "metrics/web/web_watch.h"

struct metrics_endpoint { /* zeroed at first */
	struct page page;
	struct share *share;
	struct server server;
	struct web_watch web; /* of the configuration file; empty without one */
	uint64_t published_ns;
	bool ended; /* the server, which was said */
};

/* Binds "[ADDR:]PORT" and starts the server; while this process has one thread. `config`: its web configuration file
 * (web_config.h), or NULL. 0, or -errno with object, cause and remedy in `error`. */
int metrics_endpoint_open(struct metrics_endpoint *e, const char *address, const char *config, char *error,
			  size_t size);
void metrics_endpoint_close(struct metrics_endpoint *e);
/* A page is due; `now_ns`: CLOCK_MONOTONIC. */
bool metrics_endpoint_due(const struct metrics_endpoint *e, uint64_t now_ns);
/* The page to write, empty; then it is published. Says once that the server has ended. A web configuration, certificate
 * or key that was written anew goes to the server, which is said, too. */
struct page *metrics_endpoint_page(struct metrics_endpoint *e, uint64_t now_ns);
void metrics_endpoint_publish(struct metrics_endpoint *e);

#endif
