/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_autopsy.c - `ranktrace autopsy`: the command for a job that already hangs. Needs no BPF: only leave to read.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "argument.h"
#include "autopsy.h"
#include "base/log.h"
#include "command.h"
#include "outputs.h"
#include "session.h"
#include "target/privilege.h"
#include "target/reader.h"

#define INTERVAL_MIN_S 0.5 /* a thread is at rest, and no longer between two polls, after 0.4 s */

struct autopsy_args {
	struct autopsy_cfg cfg;
	uint32_t pids[SESSION_PIDS_MAX];
	struct outputs outputs;
	bool json;
};

static const struct argp_option autopsy_options[] = {
	{ "pid", 'p', "PID", 0, "look at PID and its descendants (may repeat); none: every job on this host", 0 },
	{ "job", 'J', "JOB", 0, "look at the processes of one job ('ranktrace ps' shows its name)", 0 },
	{ "interval", 'i', "SEC", 0, "between two looks (0.5, which is the least)", 0 },
	{ "patience", 'P', "SEC", 0, "while nothing moves and nobody is behind, go on looking for that long (6)", 0 },
	{ "output", 'o', "FILE", 0, "also write FILE, by suffix: .rtr, .jsonl (may repeat)", 0 },
	{ "json", 'j', 0, 0, "findings as JSON lines on stdout, as 'record' writes them", 0 },
	{ "quiet", 'q', 0, 0, "no talk on stderr but errors", 0 },
	{ 0 },
};

static uint64_t seconds_parse(struct argp_state *state, const char *name, const char *text, double least)
{
	char *end;
	double sec = strtod(text, &end);

	if (end == text || *end || !(sec >= least) || sec > 3600)
		argp_error(state, "--%s: '%s' is no number of seconds from %g to 3600", name, text, least);
	return sec * 1e9;
}

static error_t autopsy_option(int key, char *arg, struct argp_state *state)
{
	struct autopsy_args *a = state->input;

	switch (key) {
	case 'p': argument_pid(state, arg, a->pids, &a->cfg.n_pids); return 0;
	case 'J': a->cfg.job = arg; return 0;
	case 'i': a->cfg.interval_ns = seconds_parse(state, "interval", arg, INTERVAL_MIN_S); return 0;
	case 'P': a->cfg.patience_ns = seconds_parse(state, "patience", arg, 0); return 0;
	case 'o':
		if (a->outputs.n == OUTPUTS_MAX)
			argp_error(state, "at most %d outputs", OUTPUTS_MAX);
		a->outputs.paths[a->outputs.n++] = arg;
		return 0;
	case 'j': a->json = true; return 0;
	case 'q': log_quiet = true; return 0;
	case ARGP_KEY_ARG: argp_error(state, "no arguments expected; --pid PID or --job JOB choose what to look at");
	}
	return ARGP_ERR_UNKNOWN;
}

static int privileges_check(const struct autopsy_args *a)
{
	char error[1024];
	enum privilege_problem problem = privilege_namespaces(error, sizeof(error));

	for (int i = 0; !problem && i < a->cfg.n_pids; i++)
		problem = privilege_process(a->pids[i], error, sizeof(error));
	if (problem)
		log_error("%s", error);
	return problem ? EXIT_UNSUPPORTED : EXIT_CLEAN;
}

/* What stayed in the dark, and why. */
static void limits_say(const struct autopsy_result *r)
{
	if (r->n_denied)
		log_warn("%d processes may not be looked at: run as root, or with CAP_SYS_PTRACE", r->n_denied);
	if (r->n_no_layout)
		log_warn("%d processes use an NCCL without debug information (DWARF): where it keeps its counters is unknown, and "
			 "not guessed; NCCL's own wheels carry it", r->n_no_layout);
	if (r->n_held)
		log_warn("%d processes hold their memory map's lock (mmap_lock): their communicators cannot be read", r->n_held);
	if (r->n_uncounted)
		log_warn("%d processes use an NCCL that keeps no count of its collectives (before 2.26): who is behind is unknown",
			 r->n_uncounted);
}

static int exit_code(const struct autopsy_result *r, const struct pipeline *p)
{
	if (incidents_counted(pipeline_incidents(p)))
		return EXIT_FINDING;
	if (!r->n_ranks)
		log_error("no training process %s: nothing with NCCL's symbols mapped and no RANK in an environment ('ranktrace "
			  "ps' lists what there is)", r->n_procs ? "among those asked for" : "found");
	return !r->n_ranks || (!r->n_comms && (r->n_denied || r->n_no_layout)) ? EXIT_UNSUPPORTED : EXIT_CLEAN;
}

static int autopsy(struct autopsy_args *a, struct reader *reader, struct pipeline *p)
{
	struct autopsy_result r = {};
	int err = autopsy_run(&a->cfg, reader, p, &r), out = outputs_errors_say(p);

	if (err) {
		log_error("looking at the job: %s", strerror(-err));
		return EXIT_INTERNAL;
	}
	limits_say(&r);
	log_info("%d processes, %d communicators found in %.2f s, looked at for %.2f s", r.n_procs, r.n_comms, r.found_ns / 1e9,
		 r.looked_ns / 1e9);
	return out ? EXIT_INTERNAL : exit_code(&r, p);
}

int cmd_autopsy(int argc, char **argv)
{
	static const struct argp argp = { autopsy_options, autopsy_option, 0,
		"Says who holds up a job that hangs, from outside: NCCL's own counters in the ranks' memory, and what their "
		"threads do. No probe, no ptrace, no signal.", 0, 0, 0 };
	struct autopsy_args a = { .cfg = { .interval_ns = 500000000ull, .patience_ns = 6000000000ull } };
	struct reader *reader = NULL;
	struct pipeline *p = NULL;
	int code, err;

	argp_parse(&argp, argc, argv, 0, 0, &a);
	a.cfg.pids = a.pids;
	code = privileges_check(&a);
	if (code)
		return code;
	err = reader_open(&reader);
	if (!err)
		p = pipeline_new();
	if (err || !p) {
		log_error("starting: %s", strerror(err ? -err : ENOMEM));
		reader_free(reader);
		return EXIT_INTERNAL;
	}
	code = outputs_open(p, a.json ? "json" : "autopsy", &a.outputs) ? EXIT_USAGE : autopsy(&a, reader, p);
	err = pipeline_free(p);
	if (err)
		log_error("closing the outputs: %s", strerror(-err));
	reader_free(reader);
	return err && code <= EXIT_FINDING ? EXIT_INTERNAL : code;
}
