/* SPDX-License-Identifier: Apache-2.0
 *
 * replay.c - `ranktrace replay F.rtr`: feeds a recording to the pipeline of a live session, so it gives the same
 * findings; writes outputs as asked for.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cmd/cluster/windows_gather.h"
#include "cmd/help.h"
#include "cmd/recording_feed.h"
#include "command.h"
#include "session/argument.h"
#include "session/outputs.h"
#include "pipeline/pipeline.h"
#include "cmd/qps_print.h"
#include "recording/recording.h"

struct replay_args {
	char **files; /* one, but for --merge; borrowed from the command line */
	int n_files;
	struct outputs outputs;
	bool merge, ops, json, steps, storage, qps;
	enum severity fail_on;
};

enum { OPT_FAIL_ON = 2000, OPT_STORAGE };

static const struct argp_option replay_options[] = {
	{ "output", 'o', "FILE", 0,
	  "write FILE, by suffix: .rtr recording, .pftrace timeline, .html page, .jsonl findings (may repeat); -: a "
	  "recording on standard output, and the findings go to standard error",
	  HELP_OUTPUT },
	{ "json", 'j', 0, 0, "findings as JSON lines on standard output", HELP_OUTPUT },
	{ "merge", 'm', 0, 0,
	  "the arguments are recordings of several hosts, at the same time: one stream, on the first one's clock",
	  HELP_WHAT },
	{ "ops", 'O', 0, 0, "instead of the findings, every operation as a JSON line", HELP_OUTPUT },
	{ "steps", 'S', 0, 0,
	  "instead of the findings, each step of each rank with its phases, and each rank's iteration clock, as "
	  "JSON lines",
	  HELP_OUTPUT },
	{ "storage", OPT_STORAGE, 0, 0,
	  "instead of the findings, how long each rank was blocked on which file system, as JSON lines", HELP_OUTPUT },
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
	case OPT_STORAGE: a->storage = true; return 0;
	case 'Q': a->qps = true; return 0;
	case 'j': a->json = true; return 0;
	case 'q': log_quiet = true; return 0;
	case 'v': log_verbose = true; return 0;
	case OPT_FAIL_ON: argument_fail_on(state, arg, &a->fail_on); return 0;
	case 'm': a->merge = true; return 0;
	case ARGP_KEY_ARGS:
		a->files = state->argv + state->next;
		a->n_files = state->argc - state->next;
		return 0;
	case ARGP_KEY_END:
		if (!a->n_files)
			argp_error(state, "which recording? ranktrace replay FILE.rtr (-: standard input)");
		if (a->n_files > 1 && !a->merge)
			argp_error(state, "one recording at a time; --merge takes those of several hosts as one");
		if (outputs_take_stdout(&a->outputs) && (a->ops || a->steps || a->storage || a->qps || a->json))
			argp_error(state,
				   "-o - and --ops, --steps, --storage, --qps or --json both want standard output");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const char *sink_of(const struct replay_args *a)
{
	return a->ops       ? "ops"
	       : a->json    ? "json"
	       : a->steps   ? "steps"
	       : a->storage ? "storage"
	       : a->qps     ? NULL
			    : "terminal";
}

/* The outputs, behind the inputs, which are open; then all rights go. */
static int replay_begin(const struct replay_args *a, struct pipeline *p)
{
	int code = outputs_open(p, sink_of(a), &a->outputs);

	return code ? code : outputs_confine(p, &a->outputs, false);
}

static void costs_say(const struct replay_args *a, struct pipeline *p)
{
	if (a->qps)
		qps_print(pipeline_model(p));
	outputs_costs_say(p);
}

static int replay(const struct replay_args *a, struct pipeline *p)
{
	struct recording_reader *r = NULL;
	int code = recording_feed_open(a->files[0], &r);

	if (code)
		return code;
	code = replay_begin(a, p);
	code = code ? code : recording_feed(r, a->files[0], p);
	recording_reader_free(r);
	return code;
}

/* Opened before rights are given up. */
static int files_open(const struct replay_args *a, struct windows_gathered *ret)
{
	*ret = (struct windows_gathered){ .all = calloc((size_t)a->n_files, sizeof(*ret->all)) };
	for (int i = 0; ret->all && i < a->n_files; i++) {
		int fd = open(a->files[i], O_RDONLY | O_CLOEXEC);

		if (fd < 0) {
			log_error("%s: %s", a->files[i], strerror(errno));
			return EXIT_USAGE;
		}
		ret->all[ret->n++] = (struct window){ .path = a->files[i], .fd = fd };
	}
	return ret->all ? EXIT_CLEAN : EXIT_INTERNAL;
}

static int merge(const struct replay_args *a, struct pipeline *p)
{
	struct windows_gathered g;
	int code = files_open(a, &g);

	code = code ? code : replay_begin(a, p);
	code = code ? code : windows_gathered_feed(&g, p);
	windows_gathered_free(&g);
	return code;
}

int cmd_replay(int argc, char **argv)
{
	static const struct argp argp = { replay_options, replay_option, NULL, NULL, NULL, NULL, NULL };
	static const struct help help = {
		"replay", "[OPTIONS] FILE.rtr (-: standard input)\n--merge [OPTIONS] FILE.rtr...",
		"Feeds a recording to model, detectors and outputs; gives exactly the findings of the live run."
	};
	struct replay_args a = { .fail_on = SEVERITY_CRITICAL };
	struct pipeline *p;
	int code;

	command_line_parse(&argp, &help, argc, argv, 0, &a);
	a.outputs.inputs = (const char *const *)a.files;
	a.outputs.n_inputs = a.n_files;
	p = pipeline_new();
	if (!p)
		return EXIT_INTERNAL;
	code = a.merge ? merge(&a, p) : replay(&a, p);
	if (pipeline_records(p))
		costs_say(&a, p);
	code = outputs_close(p, code ? code : outputs_exit_code(p, a.fail_on));
	pipeline_free(p);
	return code;
}
