/* SPDX-License-Identifier: Apache-2.0
 *
 * incidents.c - `ranktrace incidents`: what the hubs of a cluster found, read from the logs of its jobs. The newest
 * state of each incident, then, with --follow, every change; and `incidents ack`, `incidents silence`.
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/clock.h"
#include "base/log.h"
#include "bus/bus_options.h"
#include "cmd/cluster/bus_open.h"
#include "cmd/cluster/windows_gather.h"
#include "cmd/help.h"
#include "cmd/cluster/incidents_print.h"
#include "command.h"
#include "hub/incident_log.h"
#include "session/outputs.h"

#define FETCH_MS 500
#define CONNECT_TRIES 10
#define PAST_S (30 * 86400)

#define SILENCE_S 3600
#define WAIT_NS 20000000000ull
#define SILENCE_MAX_S (30 * 86400)

enum { OPT_ALL = 4000, OPT_NOTE, OPT_FOR, OPT_WAIT };
enum action { ACTION_SHOW, ACTION_ACK, ACTION_SILENCE, ACTION_FETCH };

struct incidents_args {
	struct bus_cfg bus;
	const char *job, *id, *note;
	enum action action;
	uint64_t silence_s, wait_ns;
	struct outputs outputs; /* fetch */
	bool json, follow, all;
};

struct shown { /* the newest entry of an incident */
	char id[FINDING_ID_MAX];
	bool closes;
	char *line;
	UT_hash_handle hh;
};

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static const struct argp_option incidents_options[] = {
	{ "job", 'J', "JOB", 0, "only this job's", HELP_WHAT },
	{ "all", OPT_ALL, 0, 0, "also those that are silenced or over, of 30 days", HELP_WHAT },
	{ "follow", 'f', 0, 0, "then wait, and print each change", HELP_WHAT },
	{ "note", OPT_NOTE, "TEXT", 0, "ack, silence: what others should know", HELP_WHAT },
	{ "for", OPT_FOR, "TIME", 0, "silence: 90s, 30m, 2h, 7d (default 1h; 0: it is over)", HELP_WHAT },
	{ "wait", OPT_WAIT, "SEC", 0, "fetch: for hosts that have not delivered yet (20)", HELP_LIMITS },
	{ "output", 'o', "FILE", 0,
	  "fetch: write FILE, by suffix: .pftrace timeline, .rtr recording, .html page, .jsonl findings (may repeat)",
	  HELP_OUTPUT },
	{ "json", 'j', 0, 0, "JSON lines (schemas/incident.schema.json)", HELP_OUTPUT },
	{ "quiet", 'q', 0, 0, "only errors and warnings on standard error", HELP_MESSAGES },
	{ 0 },
};

/* "30m"; false: no time, or too long. */
static bool time_read(const char *text, uint64_t *ret_s)
{
	static const struct {
		char name;
		double s;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 }, { '\0', 1 } };
	char *end;
	double n = strtod(text, &end);

	for (size_t i = 0; end != text && i < sizeof(units) / sizeof(units[0]); i++)
		if (*end == units[i].name && (!*end || !end[1]) && n >= 0 && n * units[i].s <= SILENCE_MAX_S) {
			*ret_s = (uint64_t)(n * units[i].s);
			return true;
		}
	return false;
}

static error_t argument(struct incidents_args *a, const char *arg, struct argp_state *state)
{
	if (a->action == ACTION_SHOW && !strcmp(arg, "ack"))
		a->action = ACTION_ACK;
	else if (a->action == ACTION_SHOW && !strcmp(arg, "silence"))
		a->action = ACTION_SILENCE;
	else if (a->action == ACTION_SHOW && !strcmp(arg, "fetch"))
		a->action = ACTION_FETCH;
	else if (a->action != ACTION_SHOW && !a->id)
		a->id = arg;
	else
		argp_error(state, "'%s': 'ack ID', 'silence ID', 'fetch ID' or nothing expected", arg);
	return 0;
}

static void wait_read(struct incidents_args *a, const char *arg, struct argp_state *state)
{
	char *end;
	double s = strtod(arg, &end);

	if (end == arg || *end || !(s >= 0) || s > 3600)
		argp_error(state, "--wait: '%s' is not a number of seconds from 0 to 3600", arg);
	a->wait_ns = (uint64_t)(s * 1e9);
}

static void arguments_check(const struct incidents_args *a, struct argp_state *state)
{
	if (a->action != ACTION_SHOW && !a->id)
		argp_error(state, "which one? give its id");
	if ((a->action == ACTION_FETCH) != (a->outputs.n > 0))
		argp_error(state, "%s",
			   a->outputs.n ? "--output: of fetch" : "fetch: to which file? -o FILE.pftrace, say");
	if (outputs_take_stdout(&a->outputs) && a->json)
		argp_error(state, "--json and -o - both want standard output");
}

static error_t incidents_option(int key, char *arg, struct argp_state *state)
{
	struct incidents_args *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = &a->bus; return 0;
	case 'J': a->job = arg; return 0;
	case OPT_ALL: a->all = true; return 0;
	case 'f': a->follow = true; return 0;
	case 'j': a->json = true; return 0;
	case 'q': log_quiet = true; return 0;
	case OPT_NOTE: a->note = arg; return 0;
	case OPT_FOR:
		if (!time_read(arg, &a->silence_s))
			argp_error(state, "--for: '%s' is no time of at most 30d: 90s, 30m, 2h, 7d", arg);
		return 0;
	case ARGP_KEY_ARG: return argument(a, arg, state);
	case OPT_WAIT: wait_read(a, arg, state); return 0;
	case 'o':
		if (a->outputs.n == OUTPUTS_MAX)
			argp_error(state, "at most %d outputs", OUTPUTS_MAX);
		a->outputs.paths[a->outputs.n++] = arg;
		return 0;
	case ARGP_KEY_END: arguments_check(a, state); return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child incidents_children[] = { { &bus_argp, 0, NULL, 0 }, { 0 } };
static const struct argp incidents_argp = {
	incidents_options, incidents_option, NULL, NULL, incidents_children, NULL, NULL
};
static const struct help incidents_help = {
	"incidents",
	"--nats URL [OPTIONS]\nack ID --nats URL [--note TEXT]\nsilence ID --nats URL [--for TIME]\n"
	"fetch ID --nats URL -o FILE",
	"Shows what the hubs of a cluster found: the incidents that are open. 'ack' says that you have one in hand; "
	"'silence' hides one, and the same fault when it comes again; 'fetch' writes what the flight recorders of its "
	"hosts held, on one clock. Of an ID its end is enough."
};

/* --- reading --- */

static int shown_note(struct shown **all, struct log_entry *e)
{
	struct shown *s;

	HASH_FIND_STR(*all, e->id, s);
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return -ENOMEM;
		memcpy(s->id, e->id, sizeof(s->id));
		HASH_ADD_STR(*all, id, s);
		if (!s->hh.tbl) {
			free(s);
			return -ENOMEM;
		}
	}
	free(s->line);
	s->line = e->line;
	s->closes = e->closes;
	e->line = NULL;
	return 0;
}

struct reading {
	const struct incidents_args *args;
	struct bus *bus;
	const char *token; /* of the job; NULL: all */
	struct bus_cursor *cursor;
	struct shown *all;
	bool past;     /* what the logs hold comes first */
	bool no_marks; /* they cannot be read, which was said */
	uint64_t last; /* entry that was read */
};

/* Of what is silenced, whether it is shown. */
static void shown_print(struct reading *r, const char *line)
{
	struct incident_marks marks = { 0 };
	int err = r->no_marks ? 0 : incident_marks_read(r->bus, line, &marks);

	if (err && err != -ENOTCONN) { /* each question would take its time */
		log_warn("what people said of incidents cannot be read (%s): may this account?", strerror(-err));
		r->no_marks = true;
	}

	if (r->args->all || !marks.silence.at_s)
		incident_line_print(line, &marks, r->args->json);
}

static void all_print(struct reading *r)
{
	struct shown *s, *next;

	HASH_ITER (hh, r->all, s, next)
		if (r->args->all || !s->closes)
			shown_print(r, s->line);
}

static void all_free(struct reading *r)
{
	struct shown *s, *next;

	HASH_ITER (hh, r->all, s, next) {
		HASH_DEL(r->all, s);
		free(s->line);
		free(s);
	}
}

/* The connection is made in the background; and who follows waits for the first hub. Again after a cut, behind the last
 * entry. */
static int log_follow(struct reading *r)
{
	int err = -ENOTCONN;

	for (int i = 0; err && !stop && (i < CONNECT_TRIES || r->args->follow); i++) {
		if (i)
			usleep(BUS_WAIT_MS * 1000 / 4);
		err = r->bus->class->follow(r->bus, BUS_INCIDENTS, r->token, r->last ? r->last + 1 : 0, PAST_S,
					    &r->cursor);
		if (err == -EACCES || err == -ENOMEM || (err == -ENOENT && !r->args->follow))
			break;
	}
	return err;
}

static int entry_take(struct reading *r, const struct bus_message *msg)
{
	struct log_entry e;
	int err = 0;

	if (msg->seq <= r->last) /* a consumer that the library made anew may begin where the first one did */
		return 0;
	r->last = msg->seq;
	if (log_entry_parse(msg->data, msg->len, &e) && e.is_incident) {
		if (r->past)
			err = shown_note(&r->all, &e);
		else
			shown_print(r, e.line);
	}
	log_entry_free(&e);
	return err;
}

/* A cut: who follows waits until the bus is there again. */
static int log_again(struct reading *r, int err)
{
	if (!r->args->follow)
		return err;
	log_warn("reading incidents: %s; waiting for the bus", strerror(-err));
	r->bus->class->cursor_free(r->cursor);
	r->cursor = NULL;
	err = log_follow(r);
	return stop ? 0 : err;
}

/* What the logs hold; then, for who follows, what comes. */
static int logs_read(struct reading *r)
{
	int err = 0;

	r->past = true;
	while (!err && !stop && (r->past || r->args->follow)) {
		struct bus_message msg;
		int n = r->bus->class->fetch(r->cursor, FETCH_MS, &msg);

		if (n < 0)
			err = log_again(r, n);
		else if (n)
			err = entry_take(r, &msg);
		if (r->past && (n == 0 || (n == 1 && !msg.n_behind))) {
			r->past = false;
			if (r->args->action == ACTION_SHOW)
				all_print(r);
		}
	}
	return err;
}

/* --- marks --- */

static bool is_meant(const struct shown *s, const char *id)
{
	size_t len = strlen(id), of = strlen(s->id);

	return !strcmp(s->id, id) || (len >= 4 && len < of && !strcmp(s->id + of - len, id));
}

/* The only one of that id, or whose id ends so; NULL, which was said. */
static const struct shown *shown_find(const struct reading *r)
{
	const struct shown *found = NULL;
	int n = 0;

	for (const struct shown *s = r->all; s; s = s->hh.next)
		if (is_meant(s, r->args->id)) {
			found = s;
			n++;
		}
	if (n != 1)
		log_error("%s: %s; 'ranktrace incidents --all' lists them", r->args->id,
			  n ? "the ids of several incidents end so" : "there is no such incident");
	return n == 1 ? found : NULL;
}

static int mark_set(struct reading *r)
{
	const struct incidents_args *a = r->args;
	const struct shown *s = shown_find(r);
	bool silence = a->action == ACTION_SILENCE;
	char *of = s ? incident_line_text(s->line, silence ? "fingerprint" : "id") : NULL;
	struct incident_mark m = { .at_s = (uint64_t)time(NULL) };
	int err = of ? 0 : s ? -ENOMEM : -EINVAL;

	m.until_s = silence ? m.at_s + a->silence_s : 0;
	incident_mark_sign(&m);
	snprintf(m.note, sizeof(m.note), "%s", a->note ? a->note : "");
	if (!err)
		err = incident_mark_write(r->bus, silence ? MARK_SILENCED : MARK_ACKNOWLEDGED, of, &m);
	free(of);
	if (!err && !silence)
		log_info("%s: acknowledged", s->id);
	else if (!err)
		log_info("%s: %s", s->id,
			 a->silence_s ? "silenced, and the same fault when it comes again" : "no longer silenced");
	return err;
}

/* --- fetch --- */

/* What was asked of whom, as the hub noted it. */
static int asked_read(struct bus *b, const char *incident, struct ask *ret)
{
	char key[BUS_KEY_MAX], bytes[ASK_BYTES_MAX];
	size_t len;
	int err;

	file_key(key, ASK_ANY_USER, incident, ASK_ASKED, 0);
	err = b->class->piece_get(b, key, bytes, sizeof(bytes), &len);
	if (err)
		return err;
	return ask_unpack(ASK_ALL, bytes, len, ret) ? 0 : -EBADMSG;
}

static int asked_wait(struct bus *b, const char *incident, uint64_t until_ns, struct ask *ret)
{
	int err;

	while ((err = asked_read(b, incident, ret)) == -ENOENT && clock_monotonic_ns() < until_ns && !stop)
		usleep(BUS_WAIT_MS * 1000 / 4);
	if (err == -ENOENT)
		log_error("%s: no flight recorder was asked for it, or that is more than a day ago", incident);
	return err == -ENOENT ? -EINVAL : err;
}

static int fetch(struct reading *r, struct pipeline *p)
{
	uint64_t until_ns = clock_monotonic_ns() + r->args->wait_ns;
	const struct shown *s = shown_find(r);
	struct windows_gathered g = { 0 };
	struct ask ask;
	int err = s ? asked_wait(r->bus, s->id, until_ns, &ask) : -EINVAL;

	if (!err)
		err = windows_gather(r->bus, ask.user, ask.id, (const char(*)[BUS_TOKEN_MAX])ask.hosts, ask.n_hosts,
				     until_ns, &g);
	if (err == -ENODATA || err == -ENOENT) {
		log_error("%s: none of %zu hosts has a window for it", s->id, ask.n_hosts);
		err = -EINVAL;
	}
	if (!err && windows_gathered_feed(&g, p))
		err = -EINVAL;
	windows_gathered_free(&g);
	return err;
}

/* --- */

static void error_say(const struct incidents_args *a, int err)
{
	log_error("%s incidents: %s; does a hub run, and may this account %s?",
		  a->action == ACTION_ACK || a->action == ACTION_SILENCE ? "marking" : "reading",
		  err == -ENOTCONN ? "no connection"
		  : err == -ENOENT ? "there are none yet"
				   : strerror(-err),
		  a->action == ACTION_ACK || a->action == ACTION_SILENCE ? "write marks" : "read");
}

static int incidents_run(const struct incidents_args *a, struct bus *b, struct pipeline *p)
{
	char token[BUS_TOKEN_MAX];
	struct reading r = { .args = a, .bus = b, .token = a->job ? token : NULL };
	int err;

	if (a->job)
		bus_token(a->job, token);
	err = log_follow(&r);
	if (!err)
		err = logs_read(&r);
	if (!err && a->action == ACTION_FETCH)
		err = fetch(&r, p);
	else if (!err && a->action != ACTION_SHOW)
		err = mark_set(&r);
	if (r.cursor)
		b->class->cursor_free(r.cursor);
	all_free(&r);
	if (err && err != -EINVAL)
		error_say(a, err);
	return err == -EINVAL ? EXIT_USAGE : err ? EXIT_INTERNAL : EXIT_CLEAN;
}

/* Outputs before rights are given up: what is read comes from other hosts. */
static int fetch_begin(const struct incidents_args *a, struct pipeline **ret)
{
	int code;

	if (a->action != ACTION_FETCH)
		return EXIT_CLEAN;
	*ret = pipeline_new();
	code = *ret ? outputs_open(*ret, NULL, &a->outputs) : EXIT_INTERNAL;
	if (!code && pipeline_keep(*ret, NULL, 0))
		code = EXIT_INTERNAL;
	return code;
}

static int incidents(const struct incidents_args *a, struct pipeline *p)
{
	struct bus *b = NULL;
	int code = bus_open_confined(&a->bus, &b);

	if (code)
		return code;
	code = incidents_run(a, b, p);
	b->class->close(b);
	return code;
}

int cmd_incidents(int argc, char **argv)
{
	struct sigaction on = { .sa_handler = on_signal };
	static struct incidents_args a = { .bus = { .name = "ranktrace incidents" },
					   .silence_s = SILENCE_S,
					   .wait_ns = WAIT_NS };
	struct pipeline *p = NULL;
	int code;

	command_line_parse(&incidents_argp, &incidents_help, argc, argv, 0, &a);
	a.follow &= a.action == ACTION_SHOW;
	code = bus_options_check(&a.bus);
	if (!code && !a.bus.url) {
		log_error("where is the bus? give --nats URL");
		code = EXIT_USAGE;
	}
	if (code)
		return code;
	sigaction(SIGINT, &on, NULL);
	sigaction(SIGTERM, &on, NULL);
	code = fetch_begin(&a, &p);
	code = code ? code : incidents(&a, p);
	if (p) {
		code = outputs_close(p, code);
		if (!code)
			outputs_say(&a.outputs, p);
		pipeline_free(p);
	}
	return code;
}
