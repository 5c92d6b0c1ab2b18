/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.c - see metrics.h.
 */
#include "metrics/metrics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "metrics/server.h"
#include "metrics/share.h"
#include "metrics/web_config.h"
#include "pipeline/pipeline.h"

#define PUBLISH_EVERY_NS 1000000000ull

struct metrics {
	struct sink sink;
	struct tally tally;
	struct page page;
	struct share *share;
	struct server server;
	uint64_t published_ns;
	bool ended; /* the server, which was said */
};

static int metrics_op(struct sink *s, const struct op *op, const struct model *m)
{
	(void)m;
	return tally_op(&((struct metrics *)s)->tally, op);
}

static int metrics_incident(struct sink *s, const struct incident *i, const struct model *m)
{
	(void)m;
	return tally_incident(&((struct metrics *)s)->tally, i);
}

static void metrics_free(struct metrics *m)
{
	server_stop(&m->server);
	share_free(m->share);
	page_free(&m->page);
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

/* This process has the key and the hashes only as long as that takes. */
static int secured_start(struct metrics *m, const char *address, const char *config, char *error, size_t size)
{
	struct web_config web = { 0 };
	int err = config ? web_config_read(config, &web, error, size) : 0;

	err = err ? err : web_config_load(&web, error, size);
	err = err ? err : server_start(&m->server, address, &web, &m->share, error, size);
	web_config_free(&web);
	return err;
}

int metrics_serve(const char *address, const char *config, struct pipeline *p, struct metrics **ret, char *error,
		  size_t size)
{
	struct metrics *m = calloc(1, sizeof(*m));
	int err;

	snprintf(error, size, "--metrics: out of memory");
	if (!m)
		return -ENOMEM;
	m->sink.class = &metrics_class;
	err = secured_start(m, address, config, error, size);
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
	return now_ns - m->published_ns >= PUBLISH_EVERY_NS;
}

static void server_check(struct metrics *m)
{
	if (m->ended || !server_ended(&m->server))
		return;
	m->ended = true;
	log_warn("the server of the metrics ended: %s are not served until a restart", m->server.url);
}

void metrics_publish(struct metrics *m, const struct model *model, const struct incidents *open,
		     const struct own_health *own, uint64_t now_ns)
{
	struct page *p = &m->page;

	m->published_ns = now_ns;
	if (tally_turn(&m->tally, model))
		return;
	page_clear(p);
	write_ranks(p, &m->tally, model);
	write_findings(p, open, &m->tally, model);
	write_gpus(p, &m->tally, model);
	write_network(p, &m->tally, model);
	write_own(p, own, model);
	share_publish(m->share, p, now_ns);
	server_check(m);
}
