/* SPDX-License-Identifier: Apache-2.0
 *
 * report.c - `ranktrace report F.rtr -o report.html`: a recording, or the merge of several, as one HTML page. The way
 * of replay and of autopsy --merge; only the sink is another.
 */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "autopsy/merge.h"
#include "base/log.h"
#include "cmd/help.h"
#include "cmd/recording_feed.h"
#include "command.h"
#include "pipeline/pipeline.h"
#include "recording/recording.h"
#include "session/argument.h"
#include "session/outputs.h"

#define DEFAULT_PAGE "report.html"

struct report_args {
	struct outputs outputs;
	char **files; /* borrowed from the command line */
	int n_files;
	enum severity fail_on;
};

enum { OPT_FAIL_ON = 2000 };

static const struct argp_option report_options[] = {
	{ "output", 'o', "FILE", 0, "write FILE.html (" DEFAULT_PAGE " in this folder; may repeat, and be any output)",
	  HELP_OUTPUT },
	{ "fail-on", OPT_FAIL_ON, "SEVERITY", 0, FAIL_ON_HELP " (critical)", HELP_MESSAGES },
	{ "quiet", 'q', 0, 0, "only errors and warnings on standard error", HELP_MESSAGES },
	{ "verbose", 'v', 0, 0, "also what the recording holds, and what findings cost", HELP_MESSAGES },
	{ 0 },
};

static error_t report_option(int key, char *arg, struct argp_state *state)
{
	struct report_args *a = state->input;

	switch (key) {
	case 'o':
		if (a->outputs.n == OUTPUTS_MAX)
			argp_error(state, "at most %d outputs", OUTPUTS_MAX);
		a->outputs.paths[a->outputs.n++] = arg;
		return 0;
	case 'q': log_quiet = true; return 0;
	case 'v': log_verbose = true; return 0;
	case OPT_FAIL_ON: argument_fail_on(state, arg, &a->fail_on); return 0;
	case ARGP_KEY_ARGS:
		a->files = state->argv + state->next;
		a->n_files = state->argc - state->next;
		return 0;
	case ARGP_KEY_END:
		if (!a->n_files)
			argp_error(state, "which recording? ranktrace report FILE.rtr... (-: standard input)");
		if (!a->outputs.n)
			a->outputs.paths[a->outputs.n++] = DEFAULT_PAGE;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* Several: as autopsy --merge reads them, with one verdict over all. */
static int several(const struct report_args *a, struct pipeline *p)
{
	int code = outputs_open(p, NULL, &a->outputs);

	if (!code)
		code = outputs_confine(p, &a->outputs, true);
	if (!code)
		code = autopsy_merge((const char *const *)a->files, (size_t)a->n_files, p);
	if (!code)
		code = outputs_exit_code(p, a->fail_on);
	return code;
}

static int one(const struct report_args *a, struct pipeline *p)
{
	struct recording_reader *r = NULL;
	int code = recording_feed_open(a->files[0], &r);

	if (!code)
		code = outputs_open(p, NULL, &a->outputs);
	if (!code)
		code = outputs_confine(p, &a->outputs, false);
	if (!code)
		code = recording_feed(r, a->files[0], p);
	if (!code)
		code = outputs_exit_code(p, a->fail_on);
	recording_reader_free(r);
	return code;
}

int cmd_report(int argc, char **argv)
{
	static const struct argp argp = { report_options, report_option, NULL, NULL, NULL, NULL, NULL };
	static const struct help help = {
		"report", "[OPTIONS] FILE.rtr... (-: standard input)",
		"Makes one HTML page of a recording, or of the merge of what 'autopsy --raw' wrote on several hosts: "
		"what happened, findings, ranks and steps, who waits for whom, stacks. It loads nothing from anywhere."
	};
	struct report_args a = { .fail_on = SEVERITY_CRITICAL };
	struct pipeline *p;
	int code;

	command_line_parse(&argp, &help, argc, argv, 0, &a);
	a.outputs.inputs = (const char *const *)a.files;
	a.outputs.n_inputs = a.n_files;
	p = pipeline_new();
	if (!p) {
		log_error("starting: %s", strerror(ENOMEM));
		return EXIT_INTERNAL;
	}
	code = a.n_files > 1 ? several(&a, p) : one(&a, p);
	code = outputs_close(p, code);
	if (code <= EXIT_FINDING)
		outputs_say(&a.outputs, p);
	outputs_costs_say(p);
	pipeline_free(p);
	return code;
}
