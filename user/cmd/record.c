/* SPDX-License-Identifier: Apache-2.0
 *
 * record.c - `ranktrace record`: arguments, checks, outputs and the summary at the end. user/session/session.c does the
 * tracing.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/record_command.h"
#include "cmd/help.h"
#include "command.h"
#include "attach/probe_rows.h"
#include "session/args.h"

struct record_args {
	struct session_args session;
	bool all, exit_status_command, list_probes;
	struct record_command command;
};

enum { OPT_ALL = 2000, OPT_EXIT_STATUS, OPT_LIST };

static const struct argp_option record_options[] = {
	{ "all", OPT_ALL, 0, 0, "every training process of the host, also those that start later", HELP_WHAT },
	{ "tier", 'T', "TIER", 0,
	  "watch: no probe in the job; trace: calls and waits (default); burst: also every launch and asynchronous "
	  "copy",
	  HELP_PROBES },
	{ "list-probes", OPT_LIST, 0, 0,
	  "print every function that may be probed, its side and tier, and exit (with --json: as JSON lines)",
	  HELP_PROBES },
	{ "exit-status", OPT_EXIT_STATUS, "command", 0, "return CMD's exit status, whatever is found", HELP_MESSAGES },
	{ 0 },
};

static void ends_check(struct argp_state *state, struct record_args *a)
{
	int ways = !!a->session.session.n_pids + !!a->session.session.job + !!a->command.argv + a->all;

	if (a->list_probes)
		return;
	if (ways != 1)
		argp_error(state,
			   ways ? "give one of --pid, --job, --all or -- CMD"
				: "trace what? Give --pid PID, --job JOB, --all or -- CMD ('ranktrace ps' lists the "
				  "candidates)");
	if (a->exit_status_command && !a->command.argv)
		argp_error(state, "--exit-status=command needs -- CMD");
}

static error_t record_option(int key, char *arg, struct argp_state *state)
{
	struct record_args *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = &a->session; return 0;
	case OPT_ALL: a->all = true; return 0;
	case 'T':
		if (tier_parse(arg, &a->session.session.tier))
			argp_error(state, "--tier: '%s' is not a tier; use watch, trace or burst", arg);
		return 0;
	case OPT_LIST: a->list_probes = true; return 0;
	case OPT_EXIT_STATUS:
		if (strcmp(arg, "command"))
			argp_error(state, "--exit-status: only 'command' is possible");
		a->exit_status_command = true;
		return 0;
	case ARGP_KEY_ARGS: a->command.argv = state->argv + state->next; return 0;
	case ARGP_KEY_END: ends_check(state, a); return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* Blocked until the session reads it: a request for progress must not end a tracer that is still starting. */
static void progress_signal_hold(sigset_t *ret_before)
{
	sigset_t progress;

	sigemptyset(&progress);
	sigaddset(&progress, SIGUSR1);
	sigprocmask(SIG_BLOCK, &progress, ret_before);
}

/* Its failure counts where nothing else does. */
static int command_count(const struct record_args *a, int code, int status)
{
	int of_command = record_command_result(&a->command, status);

	if (of_command == EXIT_USAGE && WEXITSTATUS(status) != EXIT_USAGE) /* it could not start */
		return of_command;
	return code == EXIT_CLEAN || (code == EXIT_FINDING && a->exit_status_command) ? of_command : code;
}

static int record(struct record_args *a, struct reader *reader, struct pipeline *p)
{
	struct session_result r = { .child_status = -1 };
	int code = session_args_run(&a->session, reader, p, &r);

	if (a->command.argv && r.child_status == -1)
		record_command_kill(&a->command);
	if (!r.ran)
		return code;
	code = outputs_close(p, code);
	session_summary_say(&a->session, &r, p);
	return r.child_status == -1 ? code : command_count(a, code, r.child_status);
}

static int command_start(struct record_args *a, const sigset_t *signals)
{
	int err = 0;

	if (a->command.argv)
		err = record_command_fork(&a->command, signals,
					  a->session.json || outputs_take_stdout(&a->session.outputs));
	if (err)
		log_error("%s: %s", a->command.argv[0], strerror(-err));
	a->session.session.child = a->command.pid;
	a->session.session.child_go_fd = a->command.go_fd;
	return err ? EXIT_INTERNAL : EXIT_CLEAN;
}

/* What can be known before anything is touched. */
static int record_check(const struct record_args *a)
{
	int err = a->command.argv ? record_command_check(a->command.argv) : 0;

	if (!err)
		return session_args_check(&a->session);
	log_error("%s: cannot start: %s", a->command.argv[0], strerror(-err));
	return EXIT_USAGE;
}

int cmd_record(int argc, char **argv)
{
	static const struct argp_child children[] = { { &session_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = { record_options, record_option, NULL, NULL, children, NULL, NULL };
	static const struct help help = {
		"record", "[OPTIONS] --pid PID | --job JOB | --all\n[OPTIONS] -- CMD...",
		"Traces a job live; no restart and no change to it. Findings go to standard output as they open and "
		"close."
	};
	static struct record_args a;
	struct reader *reader = NULL;
	struct pipeline *p = NULL;
	sigset_t signals;
	int code, err;

	progress_signal_hold(&signals);
	session_args_init(&a.session, TIER_TRACE);
	command_line_parse(&argp, &help, argc, argv, ARGP_IN_ORDER, &a);
	if (a.list_probes) {
		probe_rows_print(a.session.json);
		return EXIT_CLEAN;
	}
	code = record_check(&a);
	if (code)
		return code;
	err = session_readers_open(&a.session, &reader);
	if (!err)
		p = pipeline_new();
	if (err || !p) {
		log_error("starting: %s", strerror(err ? -err : ENOMEM));
		return EXIT_INTERNAL;
	}
	code = session_outputs_open(&a.session, p);
	if (!code)
		code = command_start(&a, &signals);
	if (!code)
		code = record(&a, reader, p);
	pipeline_free(p);
	session_readers_free(&a.session, reader);
	return code;
}
