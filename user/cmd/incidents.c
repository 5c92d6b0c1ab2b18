/* SPDX-License-Identifier: Apache-2.0
 *
 * incidents.c - `ranktrace incidents`: what the hubs of a cluster found, read from the logs of its jobs. The newest
 * state of each incident, then, with --follow, every change.
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/confine.h"
#include "base/log.h"
#include "base/utf8.h"
#include "bus/bus_options.h"
#include "cmd/help.h"
#include "command.h"
#include "hub/incident_log.h"

#define FETCH_MS 500
#define CONNECT_TRIES 10
#define PAST_S (30 * 86400)

enum { OPT_ALL = 4000 };

struct incidents_args {
	struct bus_cfg bus;
	const char *job;
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
	{ "all", OPT_ALL, 0, 0, "also those that are over, of the last 30 days", HELP_WHAT },
	{ "follow", 'f', 0, 0, "then wait, and print each change", HELP_WHAT },
	{ "json", 'j', 0, 0, "JSON lines (schemas/incident.schema.json)", HELP_OUTPUT },
	{ "quiet", 'q', 0, 0, "only errors and warnings on standard error", HELP_MESSAGES },
	{ 0 },
};

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
	case ARGP_KEY_ARG: argp_error(state, "'%s': no arguments expected", arg); return EINVAL;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child incidents_children[] = { { &bus_argp, 0, NULL, 0 }, { 0 } };
static const struct argp incidents_argp = {
	incidents_options, incidents_option, NULL, NULL, incidents_children, NULL, NULL
};
static const struct help incidents_help = { "incidents", "--nats URL [OPTIONS]",
					    "Shows what the hubs of a cluster found: the incidents that are open." };

/* --- printing --- */

static const char *text_of(const cJSON *o, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);

	return cJSON_IsString(item) ? item->valuestring : "";
}

/* "2026-11-24T17:06:48.123Z  CRITICAL  open    job llama: rank 5 has not entered ..." */
static void line_print(const char *line)
{
	cJSON *o = cJSON_Parse(line);
	const char *job = text_of(o, "job"), *host = text_of(o, "host"), *cause = text_of(o, "caused_by");
	char *text = NULL;

	if (asprintf(&text, "%s  %-8s  %-6s  %s%s%s%s%s%s\n    id %s%s%s", text_of(o, "time"), text_of(o, "severity"),
		     text_of(o, "phase"), *job ? "job " : "", job, *job && *host ? ", " : "", *host ? "host " : "",
		     host, *job || *host ? ": " : "", text_of(o, "id"), *cause ? ", a consequence of " : "",
		     cause) >= 0) {
		char *id = strchr(text, '\n');

		*id = 0;
		utf8_tame(text, "");
		printf("%s%s\n", text, text_of(o, "summary"));
		printf("%s\n", id + 1);
	}
	free(text);
	cJSON_Delete(o);
}

static void shown_print(const struct incidents_args *a, const char *line)
{
	if (a->json)
		printf("%s\n", line);
	else
		line_print(line);
	fflush(stdout);
}

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

static void all_print(const struct incidents_args *a, struct shown **all)
{
	struct shown *s, *next;

	HASH_ITER (hh, *all, s, next) {
		if (a->all || !s->closes)
			shown_print(a, s->line);
		HASH_DEL(*all, s);
		free(s->line);
		free(s);
	}
}

struct reading {
	const struct incidents_args *args;
	struct bus *bus;
	const char *token; /* of the job; NULL: all */
	struct bus_cursor *cursor;
	struct shown *all;
	bool past;     /* what the logs hold comes first */
	uint64_t last; /* entry that was read */
};

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

	r->last = msg->seq;
	if (log_entry_parse(msg->data, msg->len, &e) && e.is_incident) {
		if (r->past)
			err = shown_note(&r->all, &e);
		else
			shown_print(r->args, e.line);
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

/* What the logs hold, then what comes. */
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
			all_print(r->args, &r->all);
		}
	}
	all_print(r->args, &r->all);
	return err;
}

static int incidents_show(const struct incidents_args *a, struct bus *b)
{
	char token[BUS_TOKEN_MAX];
	struct reading r = { .args = a, .bus = b, .token = a->job ? token : NULL };
	int err;

	if (a->job)
		bus_token(a->job, token);
	err = log_follow(&r);
	if (!err)
		err = logs_read(&r);
	if (r.cursor)
		b->class->cursor_free(r.cursor);
	if (err)
		log_error("reading incidents: %s; does a hub run, and may this account read?",
			  err == -ENOTCONN ? "no connection"
			  : err == -ENOENT ? "there are none yet"
					   : strerror(-err));
	return err ? EXIT_INTERNAL : EXIT_CLEAN;
}

int cmd_incidents(int argc, char **argv)
{
	struct sigaction on = { .sa_handler = on_signal };
	struct incidents_args a = { .bus = { .name = "ranktrace incidents" } };
	struct bus *b = NULL;
	char error[1024] = "giving up rights";
	int code, err;

	command_line_parse(&incidents_argp, &incidents_help, argc, argv, 0, &a);
	code = bus_options_check(&a.bus);
	if (!code && !a.bus.url) {
		log_error("where is the bus? give --nats URL");
		code = EXIT_USAGE;
	}
	if (code)
		return code;
	sigaction(SIGINT, &on, NULL);
	sigaction(SIGTERM, &on, NULL);
	err = confine_bus();
	err = err ? err : confine_bus_calls();
	err = err ? err : bus_nats_open(&a.bus, &b, error, sizeof(error));
	if (err) {
		log_error("%s", error);
		return err == -ENOTSUP ? EXIT_UNSUPPORTED : err == -EINVAL ? EXIT_USAGE : EXIT_INTERNAL;
	}
	code = incidents_show(&a, b);
	b->class->close(b);
	return code;
}
