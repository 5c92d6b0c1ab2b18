/* SPDX-License-Identifier: Apache-2.0
 *
 * replay.c - `ranktrace replay F.rtr`: feeds a recording to the pipeline of a live session, so it gives the same
 * findings; writes outputs as asked for.
 */
#include <argp.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "cmd/help.h"
#include "cmd/recording_feed.h"
#include "command.h"
#include "session/argument.h"
#include "session/outputs.h"
#include "pipeline/pipeline.h"
#include "cmd/qps_print.h"
#include "recording/recording.h"

struct replay_args {
	const char *file;
	struct outputs outputs;
	bool ops, json, steps, qps;
	enum severity fail_on;
};

enum { OPT_FAIL_ON = 2000 };

static const struct argp_option replay_options[] = {
	{ "output", 'o', "FILE", 0,
	  "write FILE, by suffix: .rtr recording, .pftrace timeline, .html page, .jsonl findings (may repeat); -: a "
	  "recording on standard output, and the findings go to standard error",
	  HELP_OUTPUT },
	{ "json", 'j', 0, 0, "findings as JSON lines on standard output", HELP_OUTPUT },
	{ "ops", 'O', 0, 0, "instead of the findings, every operation as a JSON line", HELP_OUTPUT },
	{ "steps", 'S', 0, 0,
	  "instead of the findings, each step of each rank with its phases, and each rank's iteration clock, as "
	  "JSON lines",
	  HELP_OUTPUT },
	{ "qps", 'Q', 0, 0, "instead of the findings, each RDMA queue pair as a JSON line", HELP_OUTPUT },
	{ "fail-on", OPT_FAIL_ON, "SEVERITY", 0, FAIL_ON_HELP " (critical)", HELP_MESSAGES },
	{ "quiet", 'q', 0, 0, "only errors and warnings on standard error", HELP_MESSAGES },
	{ "verbose", 'v', 0, 0, "also what the recording holds, and what findings cost", HELP_MESSAGES },
	{ 0 },
};

static error_t replay_option(int key, char *arg, struct argp_state *state)
{
	struct replay_args *a = state->input;

	switch (key) {
	case 'o':
		if (a->outputs.n == OUTPUTS_MAX)
			argp_error(state, "at most %d outputs", OUTPUTS_MAX);
		a->outputs.paths[a->outputs.n++] = arg;
		return 0;
	case 'O': a->ops = true; return 0;
	case 'S': a->steps = true; return 0;
	case 'Q': a->qps = true; return 0;
	case 'j': a->json = true; return 0;
	case 'q': log_quiet = true; return 0;
	case 'v': log_verbose = true; return 0;
	case OPT_FAIL_ON: argument_fail_on(state, arg, &a->fail_on); return 0;
	case ARGP_KEY_ARG:
		if (a->file)
			argp_error(state, "one recording at a time");
		a->file = arg;
		return 0;
	case ARGP_KEY_END:
		if (!a->file)
			argp_error(state, "which recording? ranktrace replay FILE.rtr (-: standard input)");
		if (outputs_take_stdout(&a->outputs) && (a->ops || a->steps || a->qps || a->json))
			argp_error(state, "-o - and --ops, --steps, --qps or --json both want standard output");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const char *sink_of(const struct replay_args *a)
{
	return a->ops ? "ops" : a->json ? "json" : a->steps ? "steps" : a->qps ? NULL : "terminal";
}

static int replay(const struct replay_args *a, struct recording_reader *r, struct pipeline *p)
{
	int code = recording_feed(r, a->file, p);

	if (a->qps)
		qps_print(pipeline_model(p));
	outputs_costs_say(p);
	return code ? code : outputs_exit_code(p, a->fail_on);
}

int cmd_replay(int argc, char **argv)
{
	static const struct argp argp = { replay_options, replay_option, NULL, NULL, NULL, NULL, NULL };
	static const struct help help = {
		"replay", "[OPTIONS] FILE.rtr (-: standard input)",
		"Feeds a recording to model, detectors and outputs; gives exactly the findings of the live run."
	};
	struct recording_reader *r = NULL;
	struct replay_args a = { .fail_on = SEVERITY_CRITICAL };
	struct pipeline *p;
	int code;

	command_line_parse(&argp, &help, argc, argv, 0, &a);
	a.outputs.inputs = &a.file;
	a.outputs.n_inputs = 1;
	code = recording_feed_open(a.file, &r);
	if (code)
		return code;
	p = pipeline_new();
	code = p ? outputs_open(p, sink_of(&a), &a.outputs) : EXIT_INTERNAL;
	if (!code)
		code = outputs_confine(p, &a.outputs, false);
	if (!code)
		code = outputs_close(p, replay(&a, r, p));
	pipeline_free(p);
	recording_reader_free(r);
	return code;
}
