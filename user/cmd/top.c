/* SPDX-License-Identifier: Apache-2.0
 *
 * top.c - `ranktrace top`: the ranks of this node, of a cluster, or of a recording, in a terminal.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/confine.h"
#include "base/log.h"
#include "bus/bus_options.h"
#include "cmd/cluster/top_cluster.h"
#include "cmd/help.h"
#include "cmd/recording_feed.h"
#include "command.h"
#include "notify/state.h"
#include "session/args.h"
#include "session/config/config_file.h"
#include "top/run.h"
#include "top/screen.h"

#define RAISE_NS 60000000000ull
#define BATCH_NS 4000000000ull /* of a live session: three samples */
#define BATCH_COLS 200

struct top_args {
	struct session_args session;
	const char *file;   /* NULL: this node, or a cluster */
	struct bus_cfg bus; /* url NULL: no cluster */
	const char *notify_dir;
	bool batch, at_given;
	double at_s;
};

enum { OPT_NO_RAISE = 2000, OPT_AT, OPT_NOTIFY, OPT_FLIGHT };

static const struct argp_option top_options[] = {
	{ "pid", 'p', "PID", 0, "this process and its descendants (may repeat)", HELP_WHAT },
	{ "job", 'J', "JOB", 0, "the processes of this job ('ranktrace ps' has its name); of a cluster that job",
	  HELP_WHAT },
	{ "at", OPT_AT, "SEC", 0, "of a recording: begin at that second (its end)", HELP_WHAT },
	{ "batch", 'b', 0, 0, "print the table once, as text", HELP_OUTPUT },
	{ "no-raise", OPT_NO_RAISE, 0, 0, "never attach probes, neither by a finding nor by key t", HELP_PROBES },
	{ "flight", OPT_FLIGHT, "DIR", OPTION_ARG_OPTIONAL,
	  "flight recorder, for key d: keep the last seconds, write them to DIR (" FLIGHT_DIR ")", HELP_FLIGHT },
	{ "notify-state", OPT_NOTIFY, "DIR", 0,
	  "state of a 'ranktrace notify', to which key a acknowledges (" NOTIFY_DIR ")", HELP_MESSAGES },
	{ 0 },
};

static void setting(struct argp_state *state, const char *name, const char *value)
{
	char error[256];

	if (session_args_set(state->input, name, value, error, sizeof(error)))
		argp_error(state, "--%s: %s", name, error);
}

static void at_set(struct argp_state *state, struct top_args *a, const char *text)
{
	char *end;

	a->at_s = strtod(text, &end);
	a->at_given = true;
	if (end == text || *end || !(a->at_s >= 0) || a->at_s > 1e9)
		argp_error(state, "--at: '%s' is not a number of seconds", text);
}

static void ends_check(struct argp_state *state, const struct top_args *a)
{
	if (a->file && (a->session.session.n_pids || a->session.session.job || a->session.session.flight.dir))
		argp_error(state, "--pid, --job and --flight are for a live session, not for %s", a->file);
	if (a->bus.url && (a->file || a->session.session.n_pids || a->session.session.flight.dir))
		argp_error(state,
			   "--nats shows a cluster: it goes with --job, not with --pid, --flight or a recording");
	if (a->at_given && (!a->file || !strcmp(a->file, "-")))
		argp_error(state, "--at goes with a recording");
}

static error_t top_option(int key, char *arg, struct argp_state *state)
{
	struct top_args *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = &a->bus; return 0;
	case 'p': setting(state, "pid", arg); return 0;
	case 'J': setting(state, "job", arg); return 0;
	case 'b': a->batch = true; return 0;
	case OPT_AT: at_set(state, a, arg); return 0;
	case OPT_NO_RAISE: a->session.session.no_raise = true; return 0;
	case OPT_FLIGHT: setting(state, "flight", arg ? arg : "yes"); return 0;
	case OPT_NOTIFY: a->notify_dir = arg; return 0;
	case ARGP_KEY_ARG:
		if (a->file)
			argp_error(state, "one recording at a time");
		a->file = arg;
		return 0;
	case ARGP_KEY_END: ends_check(state, a); return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* --- a finding in hand: a line for `ranktrace notify`, by the user who may write there --- */

struct ack_file {
	const char *dir;
	int fd; /* -1: no relay keeps its state there, or this user may not */
};

static struct ack_file ack_open(const char *dir)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/" NOTIFY_ACKS, dir);
	return (struct ack_file){ dir, open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW) };
}

static void ack_write(void *of, const char *id, char *answer, size_t size)
{
	const struct ack_file *to = of;
	char line[FINDING_ID_MAX + 1];
	int len = snprintf(line, sizeof(line), "%s\n", id);

	if (to->fd < 0)
		snprintf(answer, size, "not offered: no 'ranktrace notify' keeps its state in %s", to->dir);
	else if (write(to->fd, line, (size_t)len) != len)
		snprintf(answer, size, "could not be written: is the disk full?");
	else
		snprintf(answer, size, "acknowledged: %s", id);
}

/* --- parts --- */

/* What draws reads what others wrote: it keeps no right but the terminal, and what is open. */
static int confine_all(bool screen)
{
	int err;

	setenv("TZ", "UTC0", 1); /* else libc wants a file of it later */
	tzset();
	err = confine_replay();
	err = err ? err : screen ? confine_screen_calls() : confine_replay_calls();
	if (err)
		log_error("giving up rights: %s", strerror(-err));
	return err ? EXIT_UNSUPPORTED : EXIT_CLEAN;
}

static int failed(int err)
{
	if (!err)
		return EXIT_CLEAN;
	log_error("%s", err == -EBADMSG ? "a record is damaged" : strerror(-err));
	return EXIT_INTERNAL;
}

static int begin_seek(struct top_run *r, const struct top_args *a)
{
	uint64_t to_ns = r->source.begin_ns + (uint64_t)(a->at_s * 1e9);

	return a->at_given ? failed(top_feed_seek(r->file, to_ns)) : EXIT_CLEAN;
}

static int screen_begin(void)
{
	char error[256];
	int err = screen_open(error, sizeof(error));

	if (!err)
		return EXIT_CLEAN;
	log_error("%s", error);
	return EXIT_UNSUPPORTED;
}

static int shown(struct top_run *r)
{
	int code = failed(top_run(r));

	screen_close();
	return code;
}

/* --- a recording --- */

static int recording_show(const struct top_args *a, struct top_run *r, struct top_feed *f)
{
	int code = a->batch ? EXIT_CLEAN : screen_begin();

	code = code ? code : confine_all(!a->batch);
	code = code ? code : failed(top_feed_index(f));
	r->file = f;
	r->source.seekable = true;
	r->source.begin_ns = f->begin_ns;
	r->source.end_ns = f->end_ns;
	r->source.opened_ns = f->opened_ns;
	r->source.n_opened = f->n_opened;
	code = code ? code : begin_seek(r, a);
	if (code || a->batch)
		return code ? code : failed(top_print(r, BATCH_COLS));
	return shown(r);
}

static int stream_show(const struct top_args *a, struct top_run *r, struct top_feed *f)
{
	int code = a->batch ? EXIT_CLEAN : screen_begin();

	r->stream_fd = STDIN_FILENO;
	code = code ? code : confine_all(!a->batch);
	if (!code && a->batch)
		code = failed(top_feed_index(f));
	if (code || a->batch)
		return code ? code : failed(top_print(r, BATCH_COLS));
	return shown(r);
}

static int file_top(const struct top_args *a, struct top_run *r)
{
	bool streams = !strcmp(a->file, "-");
	struct recording_reader *reader = NULL;
	struct top_feed f = { .reader = NULL };
	int code = recording_feed_open(a->file, &reader);

	if (code)
		return code;
	for (size_t i = 0; i < sizeof(r->refusals) / sizeof(r->refusals[0]); i++)
		r->refusals[i] = streams ? "this stream's session takes no requests" : "a recording: no session to ask";
	r->source.name = streams ? "standard input" : a->file;
	code = failed(top_feed_open(&f, reader));
	r->origin = top_feed_origin(&f);
	if (!code)
		code = streams ? stream_show(a, r, &f) : recording_show(a, r, &f);
	if (f.torn)
		log_warn("%s ends in a torn chunk; all records before it were used", r->source.name);
	screen_close();
	top_run_free(r);
	top_feed_free(&f);
	return code;
}

/* --- this node --- */

static int batch_wait(struct top_feed *f)
{
	uint64_t end_ns = clock_monotonic_ns() + BATCH_NS;
	int err = 0;

	while (!err && !f->ended && clock_monotonic_ns() < end_ns)
		err = top_feed_take(f);
	return failed(err);
}

/* It ended by itself: why, it said. */
static void child_say(const struct top_child *c)
{
	char text[4096];
	ssize_t n = read(c->log_fd, text, sizeof(text));

	if (n > 0)
		(void)!write(STDERR_FILENO, text, (size_t)n);
}

static int live_show(const struct top_args *a, struct top_run *r, struct top_child *c)
{
	struct recording_reader *reader = NULL;
	struct top_feed f = { .reader = NULL };
	int fd = fcntl(c->data_fd, F_DUPFD_CLOEXEC, 3), err = fd < 0 ? -errno : recording_open_fd(fd, &reader), code;

	if (err) /* it ended before it began, and said why */
		return EXIT_INTERNAL;
	r->child = c;
	r->stream_fd = c->data_fd;
	code = failed(top_feed_open(&f, reader));
	r->origin = top_feed_origin(&f);
	if (!code && !a->batch)
		code = screen_begin();
	code = code ? code : confine_all(true);
	if (!code && a->batch)
		code = batch_wait(&f);
	if (!code)
		code = a->batch ? failed(top_print(r, BATCH_COLS)) : shown(r);
	screen_close();
	top_run_free(r);
	top_feed_free(&f);
	return code;
}

static int child_ended(const struct top_child *c, int code, int ended)
{
	if (code == EXIT_INTERNAL || ended > EXIT_FINDING)
		child_say(c);
	return code == EXIT_INTERNAL && ended > EXIT_FINDING ? ended : code;
}

static int node_top(struct top_args *a, struct top_run *r)
{
	struct top_child live = { .control_fd = -1, .data_fd = -1 };
	int code = session_args_check(&a->session), err;

	if (code)
		return code;
	session_args_settle(&a->session);
	err = top_live_start(&a->session, &live);
	if (err) {
		log_error("starting a session: %s", strerror(-err));
		return EXIT_INTERNAL;
	}
	r->source.name = "this node";
	r->source.tier = "watch";
	r->source.takes_requests = true;
	code = live_show(a, r, &live);
	return child_ended(&live, code, top_child_end(&live));
}

/* --- a cluster --- */

static int cluster_batch(struct top_cluster *c, struct top_run *r)
{
	int err = top_cluster_catch_up(c);

	if (err == -ENODATA) {
		log_error("no host reports: does 'ranktrace watch --nats URL' run, and a hub?");
		return EXIT_INTERNAL;
	}
	if (err == -ETIMEDOUT)
		log_warn("reports come faster than this machine judges them: this is the past");
	return failed(err && err != -ETIMEDOUT ? err : top_print(r, BATCH_COLS));
}

static int cluster_top(const struct top_args *a, struct top_run *r)
{
	struct top_bus_cfg cfg = { .bus = a->bus, .job = a->session.session.job };
	struct top_child child = { .control_fd = -1, .data_fd = -1 };
	struct top_cluster c = { .len = 0 };
	int code = bus_options_check(&a->bus);

	code = code ? code : failed(top_child_start(top_bus_run, &cfg, &child));
	if (code)
		return code;
	code = failed(top_cluster_open(&c, cfg.job, &child, r));
	if (!code && !a->batch)
		code = screen_begin();
	code = code ? code : confine_all(true);
	if (!code)
		code = a->batch ? cluster_batch(&c, r) : shown(r);
	screen_close();
	top_run_free(r);
	return child_ended(&c.child, code, top_cluster_close(&c));
}

int cmd_top(int argc, char **argv)
{
	static const struct argp_child children[] = { { &bus_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = { top_options, top_option, NULL, NULL, children, NULL, NULL };
	static const struct help help = {
		"top", "[OPTIONS]\n--nats URL [--job JOB]\n[OPTIONS] FILE.rtr (-: standard input)",
		"Shows the ranks of this node, or of all hosts of a cluster, as they are now, or those of a recording "
		"at any time: what each does, who is late, what is found. Key ? lists the keys. Of another node: ssh "
		"NODE ranktrace record --all --tier watch -o - | ranktrace top -"
	};
	static struct top_args a = { .bus = { .name = "ranktrace top" } };
	struct top_run r = { .stream_fd = -1, .acknowledge = ack_write };
	struct ack_file acks;
	int code;

	session_args_init(&a.session, TIER_WATCH);
	a.session.session.raise_ns = RAISE_NS;
	a.notify_dir = NOTIFY_DIR;
	command_line_parse(&argp, &help, argc, argv, 0, &a);
	acks = ack_open(a.notify_dir);
	r.acknowledge_of = &acks;
	code = a.file ? file_top(&a, &r) : a.bus.url ? cluster_top(&a, &r) : node_top(&a, &r);
	config_values_free(&a.session);
	return code;
}
