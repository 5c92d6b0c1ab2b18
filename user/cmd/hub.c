/* SPDX-License-Identifier: Apache-2.0
 *
 * hub.c - `ranktrace hub`: one hub of a cluster.
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "bus/bus_options.h"
#include "cmd/cluster/bus_open.h"
#include "cmd/help.h"
#include "command.h"
#include "hub/hub.h"
#include "metrics/endpoint.h"
#include "session/argument.h"

enum { OPT_METRICS = 2100, OPT_METRICS_CONFIG };

struct hub_args {
	struct bus_cfg bus;
	const char *metrics, *metrics_config; /* NULL: none */
};

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static const struct argp_option hub_options[] = {
	{ "metrics", OPT_METRICS, "[ADDR:]PORT", 0,
	  "serve Prometheus metrics at http://ADDR:PORT/metrics (ADDR 127.0.0.1; docs/operate.md)", HELP_OUTPUT },
	{ "metrics-config", OPT_METRICS_CONFIG, "FILE", 0,
	  "TLS and passwords of --metrics, as in the web configuration file of Prometheus' exporters", HELP_OUTPUT },
	{ "quiet", 'q', 0, 0, "only errors and warnings on standard error", HELP_MESSAGES },
	{ 0 },
};

static void metrics_set(struct hub_args *a, const char *text, struct argp_state *state)
{
	char error[256];

	if (argument_metrics_set(text, &a->metrics, error, sizeof(error)))
		argp_error(state, "--metrics: %s", error);
}

static error_t hub_option(int key, char *arg, struct argp_state *state)
{
	struct hub_args *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = &a->bus; return 0;
	case OPT_METRICS: metrics_set(a, arg, state); return 0;
	case OPT_METRICS_CONFIG: a->metrics_config = arg; return 0;
	case 'q': log_quiet = true; return 0;
	case ARGP_KEY_ARG: argp_error(state, "'%s': no arguments expected", arg); return EINVAL;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child hub_children[] = { { &bus_argp, 0, NULL, 0 }, { 0 } };
static const struct argp hub_argp = { hub_options, hub_option, NULL, NULL, hub_children, NULL, NULL };
static const struct help hub_help = {
	"hub", "--nats URL [OPTIONS]",
	"Judges the jobs of a cluster by what the agents of its hosts report (ranktrace watch --nats URL): who waits "
	"for whom over all hosts. Any number of hubs may run: a job is one hub's, and another one takes it over. "
	"'ranktrace incidents' shows what they find."
};

/* Who we are: distinguishes this run from others on this host. */
static void name_make(char *to, size_t size)
{
	char host[32] = "";

	gethostname(host, sizeof(host) - 1);
	for (char *c = host; *c; c++)
		*c = *c == '"' || *c == '\\' || *c < ' ' ? '_' : *c;
	snprintf(to, size, "%s-%d-%04x", host, (int)getpid(), (unsigned int)(clock_realtime_offset_ns() & 0xffff));
}

/* First the server of the metrics, which is another process of another user. */
static int hub_open(const struct hub_args *a, struct metrics_endpoint *metrics, struct bus **ret)
{
	char error[1024];
	int err = a->metrics ? metrics_endpoint_open(metrics, a->metrics, a->metrics_config, error, sizeof(error)) : 0;

	if (!err)
		return bus_open_confined(&a->bus, ret);
	log_error("%s", error);
	return EXIT_USAGE;
}

static int args_check(const struct hub_args *a)
{
	int code = bus_options_check(&a->bus);

	if (!code && !a->bus.url) {
		log_error("where is the bus? give --nats URL");
		code = EXIT_USAGE;
	}
	if (!code && a->metrics_config && !a->metrics)
		log_warn("--metrics-config without --metrics: none are served; --metrics 9979 serves them");
	return code;
}

int cmd_hub(int argc, char **argv)
{
	struct sigaction on = { .sa_handler = on_signal };
	struct hub_args a = { .bus = { .owns_streams = true } };
	struct metrics_endpoint metrics = { .published_ns = 0 };
	struct bus *b = NULL;
	char name[64];
	int code, err;

	command_line_parse(&hub_argp, &hub_help, argc, argv, 0, &a);
	code = args_check(&a);
	name_make(name, sizeof(name));
	a.bus.name = name;
	sigaction(SIGINT, &on, NULL);
	sigaction(SIGTERM, &on, NULL);
	code = code ? code : hub_open(&a, &metrics, &b);
	if (code)
		return code;
	log_info("hub %s: follows the reports of all hosts", name);
	err = hub_run(b, name, a.metrics ? &metrics : NULL, &stop);
	if (err)
		log_error("the hub ended early: %s", strerror(-err));
	b->class->close(b);
	metrics_endpoint_close(&metrics);
	return err ? EXIT_INTERNAL : EXIT_CLEAN;
}
