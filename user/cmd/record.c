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
#include "command.h"
#include "attach/probe_rows.h"
#include "session/args.h"

struct record_args {
	struct session_args session;
	bool all, exit_status_command, list_probes;
	char **command;
};

enum { OPT_ALL = 2000, OPT_EXIT_STATUS, OPT_LIST };

static const struct argp_option record_options[] = {
	{ "all", OPT_ALL, 0, 0, "trace every training process of the host, also those that start later", 0 },
	{ "tier", 'T', "TIER", 0,
	  "watch: no probe in the job; trace: calls and waits (default); burst: also every launch and asynchronous "
	  "copy",
	  0 },
	{ "list-probes", OPT_LIST, 0, 0,
	  "print every function that may be probed, its side and tier, and exit (with --json: as JSON lines)", 1 },
	{ "exit-status", OPT_EXIT_STATUS, "command", 0, "return CMD's exit status instead of that of the findings", 1 },
	{ 0 },
};

static void ends_check(struct argp_state *state, struct record_args *a)
{
	int ways = !!a->session.session.n_pids + !!a->session.session.job + !!a->command + a->all;

	if (a->list_probes)
		return;
	if (ways != 1)
		argp_error(state,
			   ways ? "give one of --pid, --job, --all or -- CMD"
				: "trace what? Give --pid PID, --job JOB, --all or -- CMD ('ranktrace ps' lists the "
				  "candidates)");
	if (a->exit_status_command && !a->command)
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
	case ARGP_KEY_ARGS: a->command = state->argv + state->next; return 0;
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

/* CMD waits at a pipe, so that it is a target before its first instruction. If this process ends before it lets CMD go,
 * CMD never starts. */
static int command_fork(struct record_args *a, const sigset_t *signals)
{
	int go[2];
	char byte;
	ssize_t n;
	pid_t pid;

	if (pipe2(go, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid) {
		close(go[1]);
		sigprocmask(SIG_SETMASK, signals, NULL);
		while ((n = read(go[0], &byte, 1)) < 0 && errno == EINTR)
			;
		if (n != 1)
			_exit(127);
		if (a->session.json)
			dup2(STDERR_FILENO, STDOUT_FILENO);
		execvp(a->command[0], a->command);
		log_error("%s: %s", a->command[0], strerror(errno));
		_exit(127);
	}
	close(go[0]);
	a->session.session.child = pid;
	a->session.session.child_go_fd = go[1];
	return 0;
}

static void command_kill(const struct record_args *a)
{
	pid_t child = a->session.session.child;

	if (!child)
		return;
	kill(child, SIGTERM);
	waitpid(child, NULL, 0);
}

static void child_say(const struct session_result *r, const struct record_args *a)
{
	if (r->child_status != -1 && WIFEXITED(r->child_status))
		log_info("%s exited with status %d", a->command[0], WEXITSTATUS(r->child_status));
	else if (r->child_status != -1)
		log_info("%s was killed by signal %d", a->command[0], WTERMSIG(r->child_status));
}

static int record(struct record_args *a, struct reader *reader, struct pipeline *p)
{
	struct session_result r = { .child_status = -1 };
	int code = session_args_run(&a->session, reader, p, &r);

	if (r.child_status == -1)
		command_kill(a);
	if (!r.ran)
		return code;
	session_summary_say(&a->session, &r, p);
	child_say(&r, a);
	if (code > EXIT_FINDING || !a->exit_status_command || r.child_status == -1)
		return code;
	return WIFEXITED(r.child_status) ? WEXITSTATUS(r.child_status) : 128 + WTERMSIG(r.child_status);
}

int cmd_record(int argc, char **argv)
{
	static const struct argp_child children[] = { { &session_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		record_options,
		record_option,
		"[-- CMD...]",
		"Traces a job live; no restart and no change to it. Findings go to stdout as they open and close.",
		children,
		0,
		0
	};
	static struct record_args a;
	struct reader *reader = NULL;
	struct pipeline *p = NULL;
	sigset_t signals;
	int code, err;

	progress_signal_hold(&signals);
	session_args_init(&a.session, TIER_TRACE);
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, 0, &a);
	if (a.list_probes) {
		probe_rows_print(a.session.json);
		return EXIT_CLEAN;
	}
	code = session_args_check(&a.session);
	if (code)
		return code;
	err = session_readers_open(&a.session, &reader);
	if (!err)
		p = pipeline_new();
	if (err || !p) {
		log_error("starting: %s", strerror(err ? -err : ENOMEM));
		return EXIT_INTERNAL;
	}
	code = EXIT_USAGE;
	if (!outputs_open(p, a.session.json ? "json" : "terminal", &a.session.outputs)) {
		err = a.command ? command_fork(&a, &signals) : 0;
		code = err ? EXIT_INTERNAL : record(&a, reader, p);
	}
	err = pipeline_free(p);
	if (err)
		log_error("closing the outputs: %s", strerror(-err));
	session_readers_free(&a.session, reader);
	return err && code <= EXIT_FINDING ? EXIT_INTERNAL : code;
}
