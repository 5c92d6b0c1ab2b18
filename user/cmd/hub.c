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
#include "base/confine.h"
#include "base/log.h"
#include "bus/bus_options.h"
#include "cmd/help.h"
#include "command.h"
#include "hub/hub.h"

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static const struct argp_option hub_options[] = {
	{ "quiet", 'q', 0, 0, "only errors and warnings on standard error", HELP_MESSAGES },
	{ 0 },
};

static error_t hub_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = state->input; return 0;
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

static int hub_open(const struct bus_cfg *cfg, struct bus **ret)
{
	char error[1024] = "giving up rights";
	int err = confine_bus();

	err = err ? err : confine_bus_calls();
	err = err ? err : bus_nats_open(cfg, ret, error, sizeof(error));
	if (!err)
		return EXIT_CLEAN;
	log_error("%s", error);
	return err == -ENOTSUP ? EXIT_UNSUPPORTED : err == -EINVAL ? EXIT_USAGE : EXIT_INTERNAL;
}

int cmd_hub(int argc, char **argv)
{
	struct sigaction on = { .sa_handler = on_signal };
	struct bus_cfg cfg = { .owns_streams = true };
	struct bus *b = NULL;
	char name[64];
	int code, err;

	command_line_parse(&hub_argp, &hub_help, argc, argv, 0, &cfg);
	code = bus_options_check(&cfg);
	if (!code && !cfg.url) {
		log_error("where is the bus? give --nats URL");
		code = EXIT_USAGE;
	}
	name_make(name, sizeof(name));
	cfg.name = name;
	sigaction(SIGINT, &on, NULL);
	sigaction(SIGTERM, &on, NULL);
	code = code ? code : hub_open(&cfg, &b);
	if (code)
		return code;
	log_info("hub %s: follows the reports of all hosts", name);
	err = hub_run(b, name, &stop);
	if (err)
		log_error("the hub ended early: %s", strerror(-err));
	b->class->close(b);
	return err ? EXIT_INTERNAL : EXIT_CLEAN;
}
