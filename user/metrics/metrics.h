/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.h - a session as Prometheus metrics. A sink counts operations and findings; once a second the session has a
 * page written into shared memory, and a process without rights (server.h) serves it. So no client, however slow or
 * hostile, has anything to do with the loop.
 */
#ifndef RANKTRACE_METRICS_H
#define RANKTRACE_METRICS_H

#include "metrics/write.h"
#include "sink/sink.h"

struct metrics;
struct pipeline;

/* Binds "[ADDR:]PORT" and starts the server; while this process has one thread. `config`: its web configuration file
 * (web_config.h), or NULL. The sink is the pipeline's, which closes it. 0, or -errno with object, cause and remedy in
 * `error`. */
int metrics_serve(const char *address, const char *config, struct pipeline *p, struct metrics **ret, char *error,
		  size_t size);
/* A page is due. */
bool metrics_due(const struct metrics *m, uint64_t now_ns);
/* Writes it; says once that the server has ended. */
void metrics_publish(struct metrics *m, const struct model *model, const struct incidents *open,
		     const struct own_health *own, uint64_t now_ns);

#endif
