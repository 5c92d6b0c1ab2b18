/* SPDX-License-Identifier: Apache-2.0
 *
 * steps.c - `ranktrace steps F.rtr`: ranks by phases as a table, of a whole recording, or every few seconds of one that
 * goes on: record -o - | ranktrace steps -.
 */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/help.h"
#include "cmd/recording_feed.h"
#include "command.h"
#include "compare/collect.h"
#include "compare/steps_table.h"
#include "pipeline/pipeline.h"
#include "recording/recording.h"
#include "session/outputs.h"

#define EVERY_S 5 /* of one that goes on */
#define EVERY_MAX_S 86400

struct steps_args {
	const char *file;
	double every_s; /* -1: not given */
	bool json;
};

static const struct argp_option steps_options[] = {
	{ "every", 'e', "SECONDS", 0,
	  "a table of each so many seconds of the recording (standard input: 5; a file: 0, one table of all)",
	  HELP_WHAT },
	{ "json", 'j', 0, 0, "each step of each rank as a JSON line, as 'replay --steps'", HELP_OUTPUT },
	{ "quiet", 'q', 0, 0, "only errors and warnings on standard error", HELP_MESSAGES },
	{ "verbose", 'v', 0, 0, "also what the recording holds", HELP_MESSAGES },
	{ 0 },
};

static double every_of(struct argp_state *state, const char *text)
{
	char *end;
	double s = strtod(text, &end);

	if (end == text || *end || !(s >= 0 && s <= EVERY_MAX_S))
		argp_error(state, "--every: '%s' is no number of seconds from 0 to %d", text, EVERY_MAX_S);
	return s;
}

static error_t steps_option(int key, char *arg, struct argp_state *state)
{
	struct steps_args *a = state->input;

	switch (key) {
	case 'e': a->every_s = every_of(state, arg); return 0;
	case 'j': a->json = true; return 0;
	case 'q': log_quiet = true; return 0;
	case 'v': log_verbose = true; return 0;
	case ARGP_KEY_ARG:
		if (a->file)
			argp_error(state, "one recording at a time");
		a->file = arg;
		return 0;
	case ARGP_KEY_END:
		if (!a->file)
			argp_error(state, "which recording? ranktrace steps FILE.rtr (-: standard input)");
		if (a->every_s < 0)
			a->every_s = strcmp(a->file, "-") ? 0 : EVERY_S; /* lint: argp_error() does not return */
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* --- the table --- */

static void cell_print(const struct steps_table *t, size_t row, int column)
{
	double s = t->rows[row].median_s[column];

	if (s < 0)
		printf(" %11s ", "-");
	else
		printf(" %11.1f%c", s * 1e3, t->slowest[column] == (int)row ? '*' : ' ');
}

static const char *heading(int column)
{
	const char *name = steps_column_name(column);

	return strcmp(name, "exposed_most") ? name : "exposed";
}

static void table_print(const struct steps_table *t)
{
	printf("%5s %6s", "rank", "steps");
	for (int k = 0; k < STEPS_COLUMNS; k++)
		if (t->phases || !steps_column_is_phase(k))
			printf(" %11s ", heading(k));
	putchar('\n');
	for (size_t i = 0; i < t->n; i++) {
		printf("%5d %6zu", t->rows[i].rank, t->rows[i].n_steps);
		for (int k = 0; k < STEPS_COLUMNS; k++)
			if (t->phases || !steps_column_is_phase(k))
				cell_print(t, i, k);
		putchar('\n');
	}
}

/* --- the recording --- */

struct table_sink { /* a listener: at the ticks of the recording a table may be due */
	struct sink base;
	struct collector *collector;
	struct steps_table table;
	uint64_t every_ns, begin_ns; /* 0: no table before the end; of the present table */
	bool screen, any;
	int err;
};

static bool has_steps(const struct steps_table *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->rows[i].n_steps)
			return true;
	return false;
}

static void table_show(struct table_sink *s, uint64_t now_ns)
{
	struct collected c;

	s->err = collector_take(s->collector, &c);
	if (!s->err)
		s->err = steps_table_set(&s->table, &c.measures);
	measures_free(&c.measures);
	if (s->err || !s->table.n)
		return;
	s->any |= has_steps(&s->table);
	printf("%s%.1f s; medians in ms, *: slower than the other ranks\n", s->screen ? "\033[H\033[J" : "",
	       (double)(now_ns - s->begin_ns) / 1e9);
	table_print(&s->table);
	if (s->every_ns && !s->screen)
		putchar('\n');
	fflush(stdout);
}

static int table_event(struct sink *base, const struct event *e, const struct model *m)
{
	struct table_sink *s = (struct table_sink *)base;

	if (!s->begin_ns)
		s->begin_ns = m->start_ns ? m->start_ns : m->now_ns;
	if (e->kind != EV_TICK || !s->every_ns || m->now_ns < s->begin_ns + s->every_ns || s->err)
		return 0;
	table_show(s, m->now_ns);
	s->begin_ns = m->now_ns;
	return 0;
}

static int table_close(struct sink *base, const struct model *m)
{
	(void)base;
	(void)m;
	return 0;
}

static int tables(const struct steps_args *a, struct recording_reader *r, struct pipeline *p, bool screen)
{
	static const struct sink_class class = { .name = "table", .event = table_event, .close = table_close };
	struct table_sink s = { .base = { .class = &class },
				.collector = collector_new(),
				.every_ns = (uint64_t)(a->every_s * 1e9),
				.screen = screen && a->every_s > 0 };
	int code;

	if (!s.collector) {
		log_error("starting: %s", strerror(ENOMEM));
		return EXIT_INTERNAL;
	}
	pipeline_add_listener(p, collector_sink(s.collector)); /* a new pipeline has room for two */
	pipeline_add_listener(p, &s.base);
	code = recording_feed(r, a->file, p);
	if (!s.err && !code)
		table_show(&s, pipeline_model(p)->now_ns);
	if (s.err)
		log_error("measuring: %s", strerror(-s.err));
	else if (!code && !s.any)
		log_warn(
			"no step of a rank was seen: steps take tier trace, and a few iterations until they are known");
	pipeline_free(p); /* closes `s`, too */
	steps_table_free(&s.table);
	return s.err ? EXIT_INTERNAL : code;
}

static int lines(const struct steps_args *a, struct recording_reader *r, struct pipeline *p)
{
	int code = outputs_close(p, recording_feed(r, a->file, p));

	pipeline_free(p);
	return code;
}

int cmd_steps(int argc, char **argv)
{
	static const struct argp argp = { steps_options, steps_option, NULL, NULL, NULL, NULL, NULL };
	static const struct help help = {
		"steps", "[OPTIONS] FILE.rtr (-: standard input)",
		"Shows how long the steps of each rank take, by phases, and which rank is slower than the others. "
		"Follows a session: ranktrace record -o - --pid PID | ranktrace steps -"
	};
	const struct outputs none = { 0 };
	struct recording_reader *r = NULL;
	struct steps_args a = { .every_s = -1 };
	bool screen = isatty(STDOUT_FILENO);
	struct pipeline *p;
	int code;

	command_line_parse(&argp, &help, argc, argv, 0, &a);
	code = recording_feed_open(a.file, &r);
	if (code)
		return code;
	p = pipeline_new();
	code = p ? outputs_open(p, a.json ? "steps" : NULL, &none) : EXIT_INTERNAL;
	if (!code)
		code = outputs_confine(p, &none, false);
	if (code)
		pipeline_free(p);
	else
		code = a.json ? lines(&a, r, p) : tables(&a, r, p, screen);
	recording_reader_free(r);
	return code;
}
