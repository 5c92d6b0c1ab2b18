/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.c - `ranktrace watch`: the node daemon.
 *
 * A session of tier watch over the jobs of the host. Settings come from a file and from the command line, which wins.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "bus/bus_options.h"
#include "cluster/agent.h"
#include "cluster/publisher.h"
#include "cmd/help.h"
#include "cmd/watch_reload.h"
#include "command.h"
#include "session/args.h"
#include "session/config/config_file.h"
#include "session/parts/phases.h"

#define RAISE_S 60
#define RAISE_MAX_S 3600
#define WATCH_FLIGHT_MB 16 /* beside 20 MB for all else: a daemon on every node stays below 40 MB */

struct watch_args {
	struct session_args session;
	struct bus_cfg bus;        /* url NULL: this node is in no cluster */
	char flight_dir[PATH_MAX]; /* of a reload: its own copy */
};

struct service { /* what a reload needs */
	int argc;
	char **argv;
	const char *config;
	struct watch_args *now;
	struct sink *agent;             /* NULL: this node is in no cluster */
	struct agent_settings settings; /* of ranktrace ctl */
	bool by_ctl;                    /* what the next reload is for; else SIGHUP */
};

enum { OPT_CONFIG = 'c', OPT_RAISE_FOR = 2000, OPT_NO_RAISE, OPT_CHECK_CONFIG, OPT_CLOCK_OFFSET };

static const struct argp_option watch_options[] = {
	{ "config", OPT_CONFIG, "FILE", 0,
	  "'key = value' lines, keys as the long options here, flags yes or no; the command line wins", HELP_WHAT },
	{ "check-config", OPT_CHECK_CONFIG, "FILE", 0,
	  "say what is wrong in FILE as a --config, each with line and what is allowed, and end", HELP_WHAT },
	{ "raise-for", OPT_RAISE_FOR, "SEC", 0, "how long the ranks of a finding get probes (60)", HELP_PROBES },
	{ "no-raise", OPT_NO_RAISE, 0, 0, "never attach probes, whatever is found (in a file: raise = no)",
	  HELP_PROBES },
	{ "clock-offset", OPT_CLOCK_OFFSET, "MS", OPTION_HIDDEN, "for tests: its clock is wrong", HELP_LIMITS },
	{ 0 },
};

static int raise_for_set(struct watch_args *a, const char *value, char *error, size_t size)
{
	char *end;
	double sec = strtod(value, &end);

	if (end == value || *end || !(sec >= 1) || sec > RAISE_MAX_S) {
		snprintf(error, size, "'%s' is not a number of seconds from 1 to %d", value, RAISE_MAX_S);
		return -EINVAL;
	}
	a->session.session.raise_ns = sec * 1e9;
	return 0;
}

/* Keys of the file that only `watch` has. */
static int watch_set(void *of, const char *name, const char *value, char *error, size_t size)
{
	struct watch_args *a = of;

	if (!bus_option_set(&a->bus, name, value))
		return 0;
	if (!strcmp(name, "raise-for"))
		return raise_for_set(a, value, error, size);
	if (strcmp(name, "raise"))
		return -ENOENT;
	if (strcmp(value, "yes") && strcmp(value, "no")) {
		snprintf(error, size, "'%s' is neither 'yes' nor 'no'", value);
		return -EINVAL;
	}
	a->session.session.no_raise = !strcmp(value, "no");
	return 0;
}

static error_t watch_option(int key, char *arg, struct argp_state *state)
{
	struct watch_args *a = state->input;
	char error[256];

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->session;
		state->child_inputs[1] = &a->bus;
		return 0;
	case OPT_CONFIG:
	case OPT_CHECK_CONFIG: return 0; /* option_find() saw it before all others */
	case OPT_RAISE_FOR:
		if (raise_for_set(a, arg, error, sizeof(error)))
			argp_error(state, "--raise-for: %s", error);
		return 0;
	case OPT_CLOCK_OFFSET: a->session.session.clock_offset_ns = (int64_t)(strtod(arg, NULL) * 1e6); return 0;
	case OPT_NO_RAISE: a->session.session.no_raise = true; return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s': no arguments expected; --pid PID or --job JOB select what to watch", arg);
		return EINVAL;
	}
	return ARGP_ERR_UNKNOWN;
}

/* The command line wins over the file, so read the file first. `name`: "--config"; `letter`: "-c" or NULL. */
static const char *option_find(int argc, char **argv, const char *name, const char *letter)
{
	const char *found = NULL;
	size_t len = strlen(name);

	for (int i = 1; i < argc; i++) {
		/* lint: of the first argc none is NULL */
		if ((!strcmp(argv[i], name) || (letter && !strcmp(argv[i], letter))) && i + 1 < argc)
			found = argv[++i];
		else if (!strncmp(argv[i], name, len) && argv[i][len] == '=')
			found = argv[i] + len + 1;
		else if (letter && !strncmp(argv[i], letter, 2) && argv[i][2])
			found = argv[i] + 2;
	}
	return found;
}

/* Then SIGHUP says that the terminal is gone, and the session with it. */
static bool has_terminal(void)
{
	int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static int watch(struct watch_args *a, struct reader *reader, struct pipeline *p)
{
	struct session_result r = {};
	int code = session_args_run(&a->session, reader, p, &r);

	if (!r.ran)
		return code;
	code = outputs_close(p, code);
	session_summary_say(&a->session, &r, p);
	return code;
}

/* *ret_fd: -1 where this node is in no cluster. */
static int publisher_open(const struct watch_args *a, int *ret_fd)
{
	struct bus_cfg cfg = a->bus;
	char host[256] = "", token[BUS_TOKEN_MAX], error[1024];
	int err;

	*ret_fd = -1;
	if (!cfg.url)
		return EXIT_CLEAN;
	gethostname(host, sizeof(host) - 1);
	bus_token(host, token);
	cfg.name = host;
	err = publisher_start(&cfg, token, ret_fd, error, sizeof(error));
	if (!err)
		return EXIT_CLEAN;
	log_error("%s", error);
	return err == -ENOTSUP ? EXIT_UNSUPPORTED : err == -EINVAL ? EXIT_USAGE : EXIT_INTERNAL;
}

static int agent_open(struct pipeline *p, int fd, struct sink **ret)
{
	struct sink *agent = fd < 0 ? NULL : agent_new(fd, clock_monotonic_ns());
	int err = fd < 0 ? 0 : agent ? pipeline_add_listener(p, agent) : -ENOMEM;

	if (fd >= 0 && !agent)
		close(fd);
	*ret = err ? NULL : agent;
	return err;
}

static int watch_open(struct watch_args *a, struct reader **ret_reader, struct pipeline **ret, struct sink **ret_agent)
{
	int fd, code = publisher_open(a, &fd), err = code ? 0 : session_readers_open(&a->session, ret_reader);

	if (code)
		return code;
	*ret = err ? NULL : pipeline_new();
	err = err ? err : *ret ? agent_open(*ret, fd, ret_agent) : -ENOMEM;
	if (err) {
		log_error("starting: %s", strerror(-err));
		return EXIT_INTERNAL;
	}
	return session_outputs_open(&a->session, *ret);
}

static const struct argp_child watch_children[] = { { &session_argp, 0, NULL, 0 }, { &bus_argp, 0, NULL, 0 }, { 0 } };
static const struct argp watch_argp = { watch_options, watch_option, NULL, NULL, watch_children, NULL, NULL };
static const struct help watch_help = {
	"watch", "[OPTIONS]",
	"Watches the training jobs of this host (all, or those of --pid, --job) without a probe: samples NCCL's own "
	"counters in their memory and what their threads do. When it reports a finding, it probes the ranks concerned "
	"for a while."
};

static struct config_keys config_keys(struct watch_args *a)
{
	struct config_keys keys = { .set = watch_set, .of = a, .names = { "raise", "raise-for" }, .n_names = 2 };

	keys.n_names += bus_option_names(keys.names + 2, CONFIG_NAMES_MAX - 2);
	return keys;
}

static void defaults_set(struct watch_args *a)
{
	session_args_init(&a->session, TIER_WATCH);
	a->session.session.reopens = !has_terminal();
	a->session.session.raise_ns = RAISE_S * 1000000000ull;
	a->session.session.flight.dir = FLIGHT_DIR;
	a->session.session.flight.bytes_max = WATCH_FLIGHT_MB * 1000000ull;
}

/* The file, then the command line, which wins. 0, or -errno with the message in `error`. */
static int settings_read(struct watch_args *a, const struct service *s, char *error, size_t size)
{
	struct config_keys keys = config_keys(a);
	int err;

	defaults_set(a);
	err = s->config ? config_file_read(&a->session, s->config, &keys, error, size) : 0;
	if (err)
		return err;
	command_line_parse(&watch_argp, &watch_help, s->argc, s->argv, 0, a);
	if (!a->session.phases_given)
		a->session.session.phases = phases_path_default();
	session_args_settle(&a->session);
	return 0;
}

static void wrong_say(void *of, const char *message)
{
	(void)of;
	log_error("%s", message);
}

/* --check-config: all that is wrong in it, and what does not go together. The rest of the command line does not count,
 * and nothing is opened but the file, and that of metrics-config. */
static int config_check(struct watch_args *a, const char *path)
{
	struct config_keys keys = config_keys(a);
	char error[1200];
	int apart, code = EXIT_CLEAN;

	keys.wrong = wrong_say;
	defaults_set(a);
	if (config_file_read(&a->session, path, &keys, error, sizeof(error)))
		code = EXIT_USAGE;
	apart = outputs_rules_check(&a->session.outputs);
	apart |= bus_options_check(&a->bus);
	if (apart) {
		log_error("%s: these settings do not go together", path);
		code = EXIT_USAGE;
	}
	if (session_metrics_check(&a->session))
		code = EXIT_USAGE;
	if (!code)
		printf("%s: nothing is wrong in it\n", path);
	config_values_free(&a->session);
	return stdout_check(code);
}

/* --- ranktrace ctl --- */

static bool settings_arrived(void *of)
{
	struct service *s = of;
	const struct agent_settings *next = s->agent ? agent_settings(s->agent) : NULL;

	if (next)
		s->settings = *next;
	s->by_ctl = next != NULL;
	return s->by_ctl;
}

/* --- what the cluster asks for --- */

static bool window_wanted(void *of, struct window_wish *ret)
{
	struct service *s = of;
	struct agent_ask ask;

	if (!s->agent || !agent_asked(s->agent, &ask))
		return false;
	*ret = (struct window_wish){ .number = ask.number, .look = ask.look, .user = ask.user };
	memcpy(ret->job, ask.job, sizeof(ret->job));
	return true;
}

static void window_given(void *of, uint64_t number, const char *host, int fd, const char *error)
{
	agent_answer(((struct service *)of)->agent, number, host, fd, error);
}

/* lint: two headers' numbers, which must be equal */
_Static_assert(WINDOW_ANY_USER == ASK_ANY_USER && sizeof(((struct window_wish *)0)->job) == ASK_TEXT_MAX,
	       "one struct is copied into the other");

struct setting { /* one line */
	struct watch_args *a;
	char *error;
	size_t size;
};

/* "trace JOB", "trace" of all jobs, "watch". Who started it with --no-raise wants no probes here. */
static int tier_take(struct session_cfg *cfg, const char *value, char *error, size_t size)
{
	bool trace = !strncmp(value, "trace", 5) && (!value[5] || value[5] == ' ');

	if (!trace && strcmp(value, "watch")) {
		snprintf(error, size, "'%s' is neither 'trace' nor 'watch'", value);
		return -EINVAL;
	}
	if (trace && cfg->no_raise) {
		snprintf(error, size, "this agent attaches no probes (--no-raise)");
		return -EPERM;
	}
	cfg->holds_trace = trace;
	snprintf(cfg->held_job, sizeof(cfg->held_job), "%s", trace && value[5] ? value + 6 : "");
	return 0;
}

static int setting_take(void *of, const char *name, const char *value)
{
	struct setting *to = of;
	char why[256] = "";
	int err;

	if (!strcmp(name, "paused")) {
		to->a->session.session.paused = !strcmp(value, "yes");
		return 0;
	}
	err = !strcmp(name, "tier") ? tier_take(&to->a->session.session, value, why, sizeof(why))
				    : watch_set(to->a, name, value, why, sizeof(why));
	if (err == -ENOENT)
		err = session_args_set(&to->a->session, name, value, why, sizeof(why));
	if (err && !*to->error)
		snprintf(to->error, to->size, "%s: %s", name, why);
	return 0;
}

/* Over the file and the command line: what is set for the cluster is set on purpose, and now. */
static void settings_overlay(struct service *s, struct watch_args *a)
{
	char error[256] = "";
	struct setting to = { a, error, sizeof(error) };

	settings_each(s->settings.text, setting_take, &to);
	if (*error)
		log_warn("ranktrace ctl: %s; this one stays as it was", error);
	if (s->agent)
		agent_settled(s->agent, &(struct agent_mode){ .paused = a->session.session.paused,
							      .traces = a->session.session.holds_trace,
							      .error = error });
}

/* What the session has now, as far as it may change; the directory's name outlives what it was read into. */
static void settings_keep(struct watch_args *now, struct session_cfg *next)
{
	if (next->flight.dir) {
		snprintf(now->flight_dir, sizeof(now->flight_dir), "%s", next->flight.dir);
		next->flight.dir = now->flight_dir;
	}
	now->session.session = *next;
}

struct log_level {
	bool verbose, debugging, quiet;
};

/* Reading settings sets it; returns what it was. */
static struct log_level log_level_set(struct log_level to)
{
	struct log_level before = { log_verbose, log_debugging, log_quiet };

	log_verbose = to.verbose;
	log_debugging = to.debugging;
	log_quiet = to.quiet;
	return before;
}

/* The session keeps no pointer into what is read here, but the directory of flights as long as it runs. */
static bool watch_reload(void *of, struct pipeline *p, struct session_cfg *next)
{
	struct log_level before = log_level_set((struct log_level){ 0 });
	struct watch_args *a = calloc(1, sizeof(*a));
	struct service *s = of;
	char error[1200] = "out of memory", source[PATH_MAX + 16] = "ranktrace ctl";
	bool ok = a && !settings_read(a, s, error, sizeof(error));

	if (!s->by_ctl)
		snprintf(source, sizeof(source), "SIGHUP: %s", s->config ? s->config : "command line");
	s->by_ctl = false;
	if (!ok) {
		log_level_set(before);
		log_error("%s: %s; nothing was changed", source, error);
	} else {
		settings_overlay(s, a);
		ok = settings_change(&s->now->session, &a->session, p, next, source);
	}
	if (ok && bus_options_differ(&s->now->bus, &a->bus))
		log_warn("%s: nats: needs a restart, stays as it was", source);
	if (ok)
		settings_keep(s->now, next);
	if (a)
		config_values_free(&a->session);
	free(a);
	return ok;
}

int cmd_watch(int argc, char **argv)
{
	static struct watch_args a;
	static struct service service;
	struct reader *reader = NULL;
	struct pipeline *p = NULL;
	const char *check = option_find(argc, argv, "--check-config", NULL);
	char error[1200];
	int code;

	if (check)
		return config_check(&a, check);
	service = (struct service){
		.argc = argc, .argv = argv, .config = option_find(argc, argv, "--config", "-c"), .now = &a
	};
	if (settings_read(&a, &service, error, sizeof(error))) {
		log_error("%s", error);
		config_values_free(&a.session);
		return EXIT_USAGE;
	}
	if (service.config || a.bus.url) {
		a.session.session.reload_of = &service;
		a.session.session.reload = watch_reload;
		a.session.session.reload_wanted = settings_arrived;
	}
	a.session.session.windows =
		(struct window_asker){ .wanted = window_wanted, .given = window_given, .of = &service };
	a.session.outputs.inputs = &service.config;
	a.session.outputs.n_inputs = !!service.config;
	code = bus_options_check(&a.bus);
	code = code ? code : session_args_check(&a.session);
	if (code) {
		config_values_free(&a.session);
		return code;
	}
	code = watch_open(&a, &reader, &p, &service.agent);
	if (!code)
		code = watch(&a, reader, p);
	pipeline_free(p);
	session_readers_free(&a.session, reader);
	config_values_free(&a.session);
	return code;
}
