/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoint.c - see endpoint.h.
 */
#include "metrics/endpoint.h"

#include <errno.h>

#include "base/log.h"
#include "metrics/share.h"
#include "metrics/web/web_config.h"

#define PUBLISH_EVERY_NS 1000000000ull

/* This process has the key and the hashes only as long as that takes. */
int metrics_endpoint_open(struct metrics_endpoint *e, const char *address, const char *config, char *error, size_t size)
{
	struct web_config web = { 0 };
	int err = config ? web_watch_read(&e->web, config, &web, error, size) : 0;

	err = err ? err : server_start(&e->server, address, &web, &e->share, error, size);
	web_config_free(&web);
	return err;
}

void metrics_endpoint_close(struct metrics_endpoint *e)
{
	server_stop(&e->server);
	share_free(e->share);
	page_free(&e->page);
	web_watch_free(&e->web);
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

static void refusal_say(const char *why)
{
	log_warn("%s; who may read the metrics stays as it was", why);
}

static void web_send(struct metrics_endpoint *e)
{
	struct web_config web;
	char error[1024];
	int err = web_watch_read(&e->web, e->web.config, &web, error, sizeof(error));

	err = err ? err : server_renew(&e->server, &web, error, sizeof(error));
	web_config_free(&web);
	if (err)
		refusal_say(error);
}

/* One at a time. */
static void web_renew(struct metrics_endpoint *e)
{
	char error[1024];
	int err = server_renewed(&e->server, error, sizeof(error));

	if (!err)
		log_info("%s: certificates and users are as it says now", e->web.config);
	else if (err != -EAGAIN)
		refusal_say(error);
	if (!e->server.asked && web_watch_changed(&e->web, e->published_ns))
		web_send(e);
}

void metrics_endpoint_publish(struct metrics_endpoint *e)
{
	share_publish(e->share, &e->page, e->published_ns);
	if (!e->ended)
		web_renew(e);
	if (e->ended || !server_ended(&e->server))
		return;
	e->ended = true;
	log_warn("the server of the metrics ended: %s are not served until a restart", e->server.url);
}
