/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoint.c - see endpoint.h.
 */
#include "metrics/endpoint.h"

#include "base/log.h"
#include "metrics/share.h"
#include "metrics/web_config.h"

#define PUBLISH_EVERY_NS 1000000000ull

/* This process has the key and the hashes only as long as that takes. */
int metrics_endpoint_open(struct metrics_endpoint *e, const char *address, const char *config, char *error, size_t size)
{
	struct web_config web = { 0 };
	int err = config ? web_config_read(config, &web, error, size) : 0;

	err = err ? err : web_config_load(&web, error, size);
	err = err ? err : server_start(&e->server, address, &web, &e->share, error, size);
	web_config_free(&web);
	return err;
}

void metrics_endpoint_close(struct metrics_endpoint *e)
{
	server_stop(&e->server);
	share_free(e->share);
	page_free(&e->page);
}

bool metrics_endpoint_due(const struct metrics_endpoint *e, uint64_t now_ns)
{
	return now_ns - e->published_ns >= PUBLISH_EVERY_NS;
}

struct page *metrics_endpoint_page(struct metrics_endpoint *e, uint64_t now_ns)
{
	e->published_ns = now_ns;
	page_clear(&e->page);
	return &e->page;
}

void metrics_endpoint_publish(struct metrics_endpoint *e)
{
	share_publish(e->share, &e->page, e->published_ns);
	if (e->ended || !server_ended(&e->server))
		return;
	e->ended = true;
	log_warn("the server of the metrics ended: %s are not served until a restart", e->server.url);
}
