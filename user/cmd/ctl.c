/* SPDX-License-Identifier: Apache-2.0
 *
 * ctl.c - `ranktrace ctl`: the agents of a cluster: how each stands, and what is set for them. Status is read from
 * their reports; settings are the state that is wanted, in a table that agents read. Who may do what is the bus'
 * accounts' affair.
 */
#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "bus/bus_options.h"
#include "cluster/settings.h"
#include "cmd/ctl_status.h"
#include "cmd/cluster/bus_open.h"
#include "cmd/help.h"
#include "command.h"
#include "session/args.h"
#include "session/config/config_file.h"

#define CONNECT_TRIES 10
#define TRIES 3

enum { OPT_HOST = 4100, OPT_JOB };
enum action { CTL_STATUS, CTL_SHOW, CTL_SET, CTL_UNSET, CTL_PAUSE, CTL_RESUME, CTL_ACTIONS };
static const char *const actions[CTL_ACTIONS] = { "status", "show", "set", "unset", "pause", "resume" };

struct ctl_args {
	struct bus_cfg bus;
	const char *host; /* NULL: all */
	const char *job;  /* of the tier; NULL: all */
	enum action action;
	bool has_action, json;
	const char *name, *value; /* set, unset, pause, resume */
};

static const struct argp_option ctl_options[] = {
	{ "host", OPT_HOST, "HOST", 0, "only this host (default: all)", HELP_WHAT },
	{ "job", OPT_JOB, "JOB", 0, "set tier: only the ranks of this job (default: all)", HELP_WHAT },
	{ "json", 'j', 0, 0, "status: a JSON line for each host", HELP_OUTPUT },
	{ "quiet", 'q', 0, 0, "only errors and warnings on standard error", HELP_MESSAGES },
	{ 0 },
};

/* As an agent would take it, so that what is wrong is said here, and now. */
static void value_check(const struct ctl_args *a, struct argp_state *state)
{
	static struct session_args scratch;
	char error[256] = "";
	int err;

	if (!strcmp(a->name, "tier")) {
		if (strcmp(a->value, "trace") && strcmp(a->value, "watch"))
			argp_error(state, "tier: '%s' is neither 'trace' nor 'watch'", a->value);
		return;
	}
	if (!strcmp(a->name, "raise-for") || !strcmp(a->name, "raise") || !strcmp(a->name, "paused")) {
		if (strcmp(a->name, "raise-for") && strcmp(a->value, "yes") && strcmp(a->value, "no"))
			argp_error(state, "%s: '%s' is neither 'yes' nor 'no'", a->name, a->value);
		return;
	}
	session_args_init(&scratch, TIER_WATCH);
	err = session_args_set(&scratch, a->name, a->value, error, sizeof(error));
	if (err)
		argp_error(state, "%s: %s", a->name, error);
	config_values_free(&scratch);
}

/* "hang-limit=2" */
static void setting_argument(struct ctl_args *a, char *arg, struct argp_state *state)
{
	char *value = a->action == CTL_SET ? strchr(arg, '=') : NULL;

	if (a->name || (a->action != CTL_SET && a->action != CTL_UNSET))
		argp_error(state, "'%s': one argument too many", arg);
	if (a->action == CTL_SET && !value)
		argp_error(state, "'%s': NAME=VALUE expected", arg);
	if (value)
		*value = 0;
	if (!setting_is_known(arg))
		argp_error(state, "'%s' cannot be set so; what can: %s", arg, settings_names());
	a->name = arg;
	a->value = value ? value + 1 : NULL;
	if (value)
		value_check(a, state);
}

static void action_argument(struct ctl_args *a, const char *arg, struct argp_state *state)
{
	int i = 0;

	while (i < CTL_ACTIONS && strcmp(actions[i], arg))
		i++;
	if (i == CTL_ACTIONS)
		argp_error(state, "'%s': status, show, set, unset, pause or resume expected", arg);
	a->action = (enum action)i;
	a->has_action = true;
	if (a->action == CTL_PAUSE || a->action == CTL_RESUME)
		a->name = "paused";
	a->value = a->action == CTL_PAUSE ? "yes" : a->action == CTL_RESUME ? "no" : NULL;
}

static error_t ctl_option(int key, char *arg, struct argp_state *state)
{
	struct ctl_args *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = &a->bus; return 0;
	case OPT_HOST: a->host = arg; return 0;
	case OPT_JOB: a->job = arg; return 0;
	case 'j': a->json = true; return 0;
	case 'q': log_quiet = true; return 0;
	case ARGP_KEY_ARG:
		if (a->has_action)
			setting_argument(a, arg, state);
		else
			action_argument(a, arg, state);
		return 0;
	case ARGP_KEY_END:
		if (!a->has_action)
			argp_error(state, "status, show, set, unset, pause or resume?");
		if ((a->action == CTL_SET || a->action == CTL_UNSET) && !a->name)
			argp_error(state, "what? One of %s", settings_names());
		/* lint: argp_error() does not return */
		if (a->job && (a->action != CTL_SET || strcmp(a->name, "tier") || strcmp(a->value, "trace")))
			argp_error(state, "--job: of 'set tier=trace'");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child ctl_children[] = { { &bus_argp, 0, NULL, 0 }, { 0 } };
static const struct argp ctl_argp = { ctl_options, ctl_option, NULL, NULL, ctl_children, NULL, NULL };
static const struct help ctl_help = {
	"ctl",
	"status --nats URL [--host HOST] [--json]\nshow --nats URL [--host HOST]\n"
	"set NAME=VALUE --nats URL [--host HOST]\n"
	"unset NAME --nats URL [--host HOST]\npause|resume --nats URL [--host HOST]",
	"The agents of a cluster (ranktrace watch --nats URL): how each of them stands, and what is set for them while "
	"they run, over their own settings: hang-limit, busy-limit, dstate-limit, budget, budget-node, raise, "
	"raise-for, tier (trace: ranks have probes until it is watch again). "
	"'pause' stops all sampling until 'resume'. One host's settings win over those of all."
};

/* --- settings --- */

static const char *who(const struct ctl_args *a)
{
	return a->host ? a->host : "all hosts";
}

static void key_make(const struct ctl_args *a, char to[BUS_TOKEN_MAX])
{
	if (a->host)
		bus_token(a->host, to);
	else
		snprintf(to, BUS_TOKEN_MAX, "%s", SETTINGS_ALL);
}

/* The connection is made in the background. */
static int settings_read(struct bus *b, const char *key, char text[SETTINGS_BYTES], uint64_t *ret_revision)
{
	int err = -ENOTCONN;

	for (int i = 0; i < CONNECT_TRIES && err == -ENOTCONN; i++) {
		if (i)
			usleep(BUS_WAIT_MS * 1000 / 4);
		err = b->class->table_read(b, BUS_SETTINGS, key, text, SETTINGS_BYTES, ret_revision);
	}
	return err;
}

static int settings_show(const struct ctl_args *a, struct bus *b)
{
	char key[BUS_TOKEN_MAX], text[SETTINGS_BYTES];
	uint64_t revision;
	int err;

	key_make(a, key);
	err = settings_read(b, key, text, &revision);
	if (!err)
		printf("%s", text);
	if (!err && !*text)
		log_info("%s: nothing is set", who(a));
	return err;
}

static int setting_write(const struct ctl_args *a, struct bus *b)
{
	char key[BUS_TOKEN_MAX], text[SETTINGS_BYTES], value[SETTINGS_BYTES];
	uint64_t revision;
	int err = -ESTALE;

	key_make(a, key);
	snprintf(value, sizeof(value), "%s%s%s", a->value ? a->value : "", a->job ? " " : "", a->job ? a->job : "");
	for (int i = 0; i < TRIES && err == -ESTALE; i++) {
		err = settings_read(b, key, text, &revision);
		if (!err && !setting_put(text, a->name, a->value ? value : NULL))
			err = -ENOSPC;
		err = err ? err : b->class->table_write(b, BUS_SETTINGS, key, text, revision, &revision);
	}
	if (!err)
		log_info("%s: %s %s%s; agents have it within 5 s", who(a), a->name,
			 a->value ? "is " : "is as they were started", a->value ? a->value : "");
	return err;
}

/* --- */

static int ctl_run(const struct ctl_args *a, struct bus *b)
{
	int err;

	switch (a->action) {
	case CTL_STATUS: err = ctl_status(b, a->host, a->json); break;
	case CTL_SHOW: err = settings_show(a, b); break;
	default: err = setting_write(a, b);
	}
	if (err)
		log_error("%s: %s; does a hub run, and may this account %s?", actions[a->action],
			  err == -ENOTCONN    ? "no connection"
			  : err == -ENOENT    ? "no hub has run there yet"
			  : err == -ETIMEDOUT ? "no answer"
					      : strerror(-err),
			  a->action <= CTL_SHOW ? "read" : "write settings");
	return err ? EXIT_INTERNAL : EXIT_CLEAN;
}

int cmd_ctl(int argc, char **argv)
{
	struct ctl_args a = { .bus = { .name = "ranktrace ctl" } };
	struct bus *b = NULL;
	int code;

	command_line_parse(&ctl_argp, &ctl_help, argc, argv, 0, &a);
	code = bus_options_check(&a.bus);
	if (!code && !a.bus.url) {
		log_error("where is the bus? give --nats URL");
		code = EXIT_USAGE;
	}
	code = code ? code : bus_open_confined(&a.bus, &b);
	if (code)
		return code;
	code = ctl_run(&a, b);
	b->class->close(b);
	return code;
}
