/* SPDX-License-Identifier: Apache-2.0
 *
 * diff.c - `ranktrace diff A.rtr B.rtr`: what became slower from one recording to another: each goes through the
 * pipeline, whose steps and operations are measured; the comparison is compare/compare.c.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cmd/diff/diff_print.h"
#include "cmd/help.h"
#include "cmd/recording_feed.h"
#include "command.h"
#include "compare/collect.h"
#include "compare/compare.h"
#include "pipeline/pipeline.h"
#include "recording/recording.h"
#include "session/outputs.h"

#define PERCENT_MAX 1000

struct diff_args {
	const char *files[2];
	int n_files;
	double share;
	bool json;
};

enum { OPT_AT_LEAST = 2000 };

static const struct argp_option diff_options[] = {
	{ "at-least", OPT_AT_LEAST, "PERCENT", 0,
	  "a change counts from so much of the thing itself on, and a third of that of the step (3)", HELP_WHAT },
	{ "json", 'j', 0, 0, "every median and its verdict as a JSON line, then one of the whole", HELP_OUTPUT },
	{ "quiet", 'q', 0, 0, "only errors and warnings on standard error", HELP_MESSAGES },
	{ "verbose", 'v', 0, 0, "also what did not change, and what the recordings hold", HELP_MESSAGES },
	{ 0 },
};

static double share_of(struct argp_state *state, const char *text)
{
	char *end;
	double percent = strtod(text, &end);

	if (end == text || *end || !(percent >= 0 && percent <= PERCENT_MAX))
		argp_error(state, "--at-least: '%s' is no percentage from 0 to %d", text, PERCENT_MAX);
	return percent / 100;
}

static error_t diff_option(int key, char *arg, struct argp_state *state)
{
	struct diff_args *a = state->input;

	switch (key) {
	case OPT_AT_LEAST: a->share = share_of(state, arg); return 0;
	case 'j': a->json = true; return 0;
	case 'q': log_quiet = true; return 0;
	case 'v': log_verbose = true; return 0;
	case ARGP_KEY_ARG:
		if (a->n_files == 2)
			argp_error(state, "two recordings, not more");
		a->files[a->n_files++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (a->n_files < 2)
			argp_error(state, "which recordings? ranktrace diff BEFORE.rtr AFTER.rtr (-: standard input)");
		if (!strcmp(a->files[0], "-") && !strcmp(a->files[1], "-"))
			argp_error(state, "one recording can come from standard input, not both");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* --- one recording --- */

static const char *shown(const char *path)
{
	return strcmp(path, "-") ? path : "standard input";
}

static void collected_say(const struct collected *c, const char *path)
{
	if (c->rivals)
		log_warn("%s: two living processes have the same rank, and were measured as one: record one job at a "
			 "time (--job)",
			 shown(path));
	if (c->n_vague)
		log_detail("%s: %" PRIu64 " of %" PRIu64
			   " operations were seen to be over with a later one only, and are "
			   "not compared",
			   shown(path), c->n_vague, c->n_ops);
}

static int measure(struct pipeline *p, struct recording_reader *r, const char *path, struct collected *ret)
{
	struct collector *c = collector_new();
	int code = EXIT_INTERNAL;

	if (!c || pipeline_add_listener(p, collector_sink(c))) {
		free(c);
		log_error("measuring %s: %s", shown(path), strerror(ENOMEM));
		return code;
	}
	code = recording_feed(r, path, p);
	if (!code && collector_take(c, ret)) {
		log_error("measuring %s: %s", shown(path), strerror(ENOMEM));
		code = EXIT_INTERNAL;
	}
	if (!code)
		collected_say(ret, path);
	return code;
}

/* --- both --- */

static int compare(const struct diff_args *a, const struct collected both[2])
{
	const char *const names[] = { shown(a->files[0]), shown(a->files[1]) };
	struct comparison c;
	int code;

	if (comparison_make(&both[0].measures, &both[1].measures, a->share, &c)) {
		log_error("comparing: %s", strerror(ENOMEM));
		return EXIT_INTERNAL;
	}
	if (a->json && c.n_compared)
		diff_print_json(&c, names);
	else if (c.n_compared)
		diff_print_text(&c, names, log_verbose);
	code = c.n_slower ? EXIT_FINDING : EXIT_CLEAN;
	if (!c.n_compared) {
		log_error("nothing to compare: %s has %d ranks with steps, %s has %d, and no rank or communicator has "
			  "%d values in both; record both for longer, with --tier trace",
			  names[0], both[0].n_ranks, names[1], both[1].n_ranks, COMPARE_VALUES_MIN);
		code = EXIT_USAGE;
	}
	comparison_free(&c);
	return code;
}

static int measure_both(const struct diff_args *a, struct recording_reader *const readers[2])
{
	struct collected both[2] = { 0 };
	int code = EXIT_CLEAN;

	for (int i = 0; !code && i < 2; i++) {
		struct pipeline *p = pipeline_new();

		code = p ? EXIT_CLEAN : EXIT_INTERNAL;
		if (!code && !i) /* no output and no further input: the same for both */
			code = outputs_confine(p, &(struct outputs){ 0 }, false);
		if (!code)
			code = measure(p, readers[i], a->files[i], &both[i]);
		pipeline_free(p);
	}
	if (!code)
		code = compare(a, both);
	measures_free(&both[0].measures);
	measures_free(&both[1].measures);
	return code;
}

int cmd_diff(int argc, char **argv)
{
	static const struct argp argp = { diff_options, diff_option, NULL, NULL, NULL, NULL, NULL };
	static const struct help help = {
		"diff", "[OPTIONS] BEFORE.rtr AFTER.rtr (-: standard input)",
		"Says what became slower from one recording of a job to another: steps, phases, operations, and which "
		"ranks are late. Medians are compared; a change within the noise of both is none. Exits with 1 if "
		"something became slower."
	};
	struct diff_args a = { .share = COMPARE_SHARE_DEFAULT };
	struct recording_reader *readers[2] = { NULL, NULL };
	int code = EXIT_CLEAN;

	command_line_parse(&argp, &help, argc, argv, 0, &a);
	for (int i = 0; !code && i < 2; i++)
		code = recording_feed_open(a.files[i], &readers[i]);
	if (!code)
		code = measure_both(&a, readers);
	for (int i = 0; i < 2; i++)
		recording_reader_free(readers[i]);
	return code;
}
