/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.h - a session as Prometheus metrics: a sink counts operations and findings, and once a second the session
 * has a page of them served (endpoint.h).
 */
#ifndef RANKTRACE_METRICS_H
#define RANKTRACE_METRICS_H

#include "metrics/write.h"
#include "sink/sink.h"

struct metrics;
struct pipeline;

/* As metrics_endpoint_open(). The sink is the pipeline's, which closes it. */
int metrics_serve(const char *address, const char *config, struct pipeline *p, struct metrics **ret, char *error,
		  size_t size);
/* A page is due. */
bool metrics_due(const struct metrics *m, uint64_t now_ns);
/* Writes it; says once that the server has ended. */
void metrics_publish(struct metrics *m, const struct model *model, const struct incidents *open,
		     const struct own_health *own, uint64_t now_ns);

#endif
