/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.c - see metrics.h.
 */
#include "metrics/metrics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "metrics/endpoint.h"
#include "pipeline/pipeline.h"

struct metrics {
	struct sink sink;
	struct tally tally;
	struct metrics_endpoint endpoint;
};

static int metrics_op(struct sink *s, const struct op *op, const struct model *m)
{
	(void)m;
	return tally_op(&((struct metrics *)s)->tally, op);
}

static int metrics_incident(struct sink *s, const struct incident *i, const struct model *m)
{
	(void)m;
	return tally_incident(&((struct metrics *)s)->tally.findings, i);
}

static void metrics_free(struct metrics *m)
{
	metrics_endpoint_close(&m->endpoint);
	tally_free(&m->tally);
	free(m);
}

static int metrics_close(struct sink *s, const struct model *m)
{
	(void)m;
	metrics_free((struct metrics *)s);
	return 0;
}

static const struct sink_class metrics_class = {
	.name = "metrics",
	.help = "Prometheus metrics over HTTP",
	.op = metrics_op,
	.incident = metrics_incident,
	.close = metrics_close,
};

int metrics_serve(const char *address, const char *config, struct pipeline *p, struct metrics **ret, char *error,
		  size_t size)
{
	struct metrics *m = calloc(1, sizeof(*m));
	int err;

	snprintf(error, size, "--metrics: out of memory");
	if (!m)
		return -ENOMEM;
	m->sink.class = &metrics_class;
	err = metrics_endpoint_open(&m->endpoint, address, config, error, size);
	if (!err) {
		err = pipeline_add_listener(p, &m->sink);
		if (err)
			snprintf(error, size, "--metrics: no room beside the other listeners of the session");
	}
	if (err)
		metrics_free(m);
	else
		*ret = m;
	return err;
}

bool metrics_due(const struct metrics *m, uint64_t now_ns)
{
	return metrics_endpoint_due(&m->endpoint, now_ns);
}

void metrics_publish(struct metrics *m, const struct model *model, const struct incidents *open,
		     const struct own_health *own, uint64_t now_ns)
{
	struct page *p = metrics_endpoint_page(&m->endpoint, now_ns);

	if (tally_turn(&m->tally, model))
		return;
	write_ranks(p, &m->tally, model);
	write_findings(p, open, &m->tally, model);
	write_gpus(p, &m->tally, model);
	write_network(p, &m->tally, model);
	write_own(p, own, model);
	metrics_endpoint_publish(&m->endpoint);
}
