/* SPDX-License-Identifier: Apache-2.0
 *
 * dump.c - `ranktrace dump`: asks the flight recorder of a running session for its window, and waits for the files.
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "session/argument.h"
#include "base/clock.h"
#include "base/log.h"
#include "cmd/help.h"
#include "command.h"
#include "flight/flight_state.h"

struct dump_args {
	uint32_t pid;
	int n_pids;
	uint64_t timeout_ns;
};

enum { OPT_TIMEOUT = 1000 };

static const struct argp_option dump_options[] = {
	{ "pid", 'p', "PID", 0, "process id of the recording ranktrace, if several record", HELP_WHAT },
	{ "timeout", OPT_TIMEOUT, "SEC", 0, "timeout for the files (60)", HELP_LIMITS },
	{ 0 },
};

static error_t dump_option(int key, char *arg, struct argp_state *state)
{
	struct dump_args *a = state->input;
	char *end;

	switch (key) {
	case 'p':
		a->n_pids = 0;
		argument_pid(state, arg, &a->pid, &a->n_pids);
		return 0;
	case OPT_TIMEOUT:
		a->timeout_ns = strtod(arg, &end) * 1e9;
		if (end == arg || *end || !(strtod(arg, NULL) > 0) || strtod(arg, NULL) > 1e6)
			argp_error(state, "--timeout: '%s' is not a number of seconds above 0", arg);
		return 0;
	case ARGP_KEY_ARG: argp_error(state, "dump takes no argument '%s'", arg); return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* The selected session; 0: none, after logging why. */
static pid_t session_choose(const struct dump_args *a)
{
	static struct flight_session all[FLIGHT_SESSIONS_MAX];
	int n = flight_sessions(all);

	for (int i = 0; i < n && a->n_pids; i++)
		if (all[i].pid == (pid_t)a->pid)
			return all[i].pid;
	if (a->n_pids) {
		log_error("process %u is no ranktrace with a flight recorder: start one with 'ranktrace record "
			  "--flight'",
			  a->pid);
		return 0;
	}
	if (n == 1)
		return all[0].pid;
	if (!n)
		log_error("no ranktrace with a flight recorder runs on this host: start one with 'ranktrace record "
			  "--flight'");
	else
		log_error("%d sessions with a flight recorder run: select one with --pid", n);
	for (int i = 0; i < n; i++)
		log_error("  --pid %d writes to %s", all[i].pid, all[i].dir);
	return 0;
}

static int answer_wait(pid_t pid, int token, uint64_t timeout_ns)
{
	uint64_t end_ns = clock_monotonic_ns() + timeout_ns;
	char said[1024];
	int answer;

	while (!(answer = flight_state_answer(pid, token, said, sizeof(said))) && clock_monotonic_ns() < end_ns)
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	if (answer == 1) {
		printf("%s.pftrace\n%s.rtr\n%s.jsonl\n", said, said, said);
		return EXIT_CLEAN;
	}
	log_error("no dump: %s",
		  answer ? said : "the session did not write it in time (it still may); --timeout waits longer");
	return EXIT_INTERNAL;
}

int cmd_dump(int argc, char **argv)
{
	static const struct argp argp = { dump_options, dump_option, NULL, NULL, NULL, NULL, NULL };
	static const struct help help = {
		"dump", "[OPTIONS]",
		"Writes the window of a running session's flight recorder (record --flight) and prints the files' "
		"paths."
	};
	struct dump_args a = { .timeout_ns = 60000000000ull };
	pid_t pid;
	int token = getpid();

	command_line_parse(&argp, &help, argc, argv, 0, &a);
	pid = session_choose(&a);
	if (!pid)
		return EXIT_USAGE;
	if (sigqueue(pid, SIGUSR1, (union sigval){ .sival_int = token })) {
		log_error("process %d: %s%s", pid, strerror(errno),
			  errno == EPERM ? ": run as the user that records (root)" : "");
		return errno == EPERM ? EXIT_UNSUPPORTED : EXIT_INTERNAL;
	}
	return answer_wait(pid, token, a.timeout_ns);
}
