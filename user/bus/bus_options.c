/* SPDX-License-Identifier: Apache-2.0
 *
 * bus_options.c - see bus_options.h. Passwords stand in files, which a list of processes does not show.
 */
#include "bus/bus_options.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/log.h"
#include "command.h"

/* clang-format off */
#define SETTINGS(X) \
	X("nats", 3000, "URL", "the cluster's bus: nats://HOST:4222, tls://HOST:4222; several with commas", url) \
	X("nats-creds", 3001, "FILE", "credentials of this account (JWT and seed)", credentials) \
	X("nats-ca", 3002, "FILE", "TLS: whom to trust (PEM)", ca) \
	X("nats-cert", 3003, "FILE", "TLS: our certificate (PEM), with --nats-key", cert) \
	X("nats-key", 3004, "FILE", "TLS: its key (PEM)", key)
/* clang-format on */

static const struct argp_option options[] = {
#define X(name, key, arg, help, field) { name, key, arg, 0, help, HELP_BUS },
	SETTINGS(X)
#undef X
		{ 0 }
};

int bus_option_set(struct bus_cfg *cfg, const char *name, const char *value)
{
#define X(its, key_, arg, help, field) \
	if (!strcmp(name, its)) { \
		cfg->field = value; \
		return 0; \
	}
	SETTINGS(X)
#undef X
	return -ENOENT;
}

size_t bus_option_names(const char **to, size_t max)
{
	size_t n = 0;

	for (; options[n].name && n < max; n++)
		to[n] = options[n].name;
	return n;
}

static error_t option(int key, char *arg, struct argp_state *state)
{
	for (const struct argp_option *o = options; o->name; o++)
		if (o->key == key)
			return bus_option_set(state->input, o->name, arg);
	return ARGP_ERR_UNKNOWN;
}

const struct argp bus_argp = { options, option, 0, 0, 0, 0, 0 };

int bus_options_check(const struct bus_cfg *cfg)
{
	const char *what = NULL;

	if (!cfg->url && (cfg->credentials || cfg->ca || cfg->cert || cfg->key))
		what = "--nats-creds, --nats-ca, --nats-cert and --nats-key say how to talk to a bus: name it with "
		       "--nats URL";
	else if (!cfg->cert != !cfg->key)
		what = "a certificate and its key go together: give --nats-cert and --nats-key";
	if (what)
		log_error("%s", what);
	return what ? EXIT_USAGE : EXIT_CLEAN;
}

static bool texts_differ(const char *a, const char *b)
{
	return !a != !b || (a && strcmp(a, b));
}

bool bus_options_differ(const struct bus_cfg *a, const struct bus_cfg *b)
{
#define X(name, key_, arg, help, field) \
	if (texts_differ(a->field, b->field)) \
		return true;
	SETTINGS(X)
#undef X
	return false;
}
