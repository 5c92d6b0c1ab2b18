/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_record.c - `ranktrace record`: arguments, checks, outputs, and the words at the end. The trace is session.c.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "argument.h"
#include "base/log.h"
#include "command.h"
#include "outputs.h"
#include "probe_rows.h"
#include "session.h"
#include "target/privilege.h"
#include "target/reader.h"

struct record_args {
	struct session_cfg session;
	uint32_t pids[SESSION_PIDS_MAX];
	struct outputs outputs;
	bool json, all, exit_status_command, list_probes;
	char **command;
};

#define RING_BYTES_MIN 65536u /* the largest page of a kernel we run on */
#define RING_BYTES_MAX (1u << 30)

enum { OPT_JSON = 1000, OPT_DSTATE, OPT_HANG, OPT_BUSY, OPT_ALL, OPT_EXIT_STATUS, OPT_RING, OPT_LIST };

static const struct argp_option record_options[] = {
	{ "output", 'o', "FILE", 0, "write FILE, by suffix: .pftrace, .rtr, .jsonl (may repeat)", 0 },
	{ "pid", 'p', "PID", 0, "trace this process and its descendants (may repeat)", 0 },
	{ "job", 'J', "JOB", 0, "trace the processes of this job", 0 },
	{ "all", OPT_ALL, 0, 0, "trace every training process of the host, also later ones", 0 },
	{ "duration", 'd', "SEC", 0, "stop after SEC seconds", 0 },
	{ "tier", 'T', "TIER", 0, "trace: calls and waits (default); burst: also every launch and asynchronous copy", 0 },
	{ "json", OPT_JSON, 0, 0, "findings as JSON lines on stdout (CMD's stdout goes to stderr)", 0 },
	{ "dstate-limit", OPT_DSTATE, "SEC", 0, "report a D state past this (5)", 1 },
	{ "hang-limit", OPT_HANG, "SEC", 0, "shortest lag that is a hang (1.5)", 1 },
	{ "busy-limit", OPT_BUSY, "SEC", 0, "the same for a rank that burns CPU or moves bytes (90)", 1 },
	{ "ring-size", OPT_RING, "BYTES", 0, "each ring buffer between kernel and collector (one a NUMA node), a power of two (16777216)", 1 },
	{ "list-probes", OPT_LIST, 0, 0, "print every function that may be probed, its side and tier, and exit (with --json: as JSON lines)", 1 },
	{ "exit-status", OPT_EXIT_STATUS, "command", 0, "return CMD's exit status instead of the findings'", 1 },
	{ "quiet", 'q', 0, 0, "no talk on stderr but errors and warnings", 2 },
	{ "verbose", 'v', 0, 0, "also what libbpf says", 2 },
	{ 0 },
};

static uint64_t seconds_parse(struct argp_state *state, const char *name, const char *text)
{
	char *end;
	double sec = strtod(text, &end);

	if (end == text || *end || !(sec > 0) || sec > 1e9)
		argp_error(state, "--%s: '%s' is no number of seconds above 0", name, text);
	return sec * 1e9;
}

static void ring_parse(struct argp_state *state, struct record_args *a, const char *text)
{
	char *end;
	unsigned long long bytes = strtoull(text, &end, 10);

	if (end == text || *end)
		argp_error(state, "--ring-size: '%s' is no number of bytes", text);
	if (bytes & (bytes - 1))
		argp_error(state, "--ring-size: %s is no power of two, which the kernel asks for", text);
	if (bytes < (size_t)RING_BYTES_MIN || bytes > RING_BYTES_MAX)
		argp_error(state, "--ring-size: %s is not between %u and %u (records are up to %d bytes; usual: %u)", text,
			   RING_BYTES_MIN, RING_BYTES_MAX, WIRE_SIZE_MAX, SESSION_RING_BYTES);
	a->session.ring_bytes = bytes;
}

static void ends_check(struct argp_state *state, struct record_args *a)
{
	int ways = !!a->session.n_pids + !!a->session.job + !!a->command + a->all;

	if (a->list_probes)
		return;
	if (ways != 1)
		argp_error(state, ways ? "give one of --pid, --job, --all or -- CMD" :
			   "trace what? --pid PID, --job JOB, --all or -- CMD ('ranktrace ps' lists the candidates)");
	if (a->exit_status_command && !a->command)
		argp_error(state, "--exit-status=command needs -- CMD");
}

static error_t record_option(int key, char *arg, struct argp_state *state)
{
	struct record_args *a = state->input;

	switch (key) {
	case 'o':
		if (a->outputs.n == OUTPUTS_MAX)
			argp_error(state, "at most %d outputs", OUTPUTS_MAX);
		a->outputs.paths[a->outputs.n++] = arg;
		return 0;
	case 'p': argument_pid(state, arg, a->pids, &a->session.n_pids); return 0;
	case 'J': a->session.job = arg; return 0;
	case OPT_ALL: a->all = true; return 0;
	case 'd': a->session.duration_ns = seconds_parse(state, "duration", arg); return 0;
	case 'T':
		switch (tier_parse(arg, &a->session.tier)) {
		case 0: return 0;
		case -ENOTSUP: argp_error(state, "--tier: '%s' is not built yet; 'trace' and 'burst' are", arg); return EINVAL;
		default: argp_error(state, "--tier: '%s' is no tier; 'trace' and 'burst' are", arg); return EINVAL;
		}
	case OPT_LIST: a->list_probes = true; return 0;
	case OPT_JSON: a->json = true; return 0;
	case OPT_DSTATE: a->session.dstate_limit_ns = seconds_parse(state, "dstate-limit", arg); return 0;
	case OPT_HANG: a->session.hang_floor_ns = seconds_parse(state, "hang-limit", arg); return 0;
	case OPT_BUSY: a->session.busy_limit_ns = seconds_parse(state, "busy-limit", arg); return 0;
	case OPT_RING: ring_parse(state, a, arg); return 0;
	case OPT_EXIT_STATUS:
		if (strcmp(arg, "command"))
			argp_error(state, "--exit-status: only 'command'");
		a->exit_status_command = true;
		return 0;
	case 'q': log_quiet = true; return 0;
	case 'v': log_verbose = true; return 0;
	case ARGP_KEY_ARGS:
		a->command = state->argv + state->next;
		return 0;
	case ARGP_KEY_END: ends_check(state, a); return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static int privileges_check(const struct record_args *a)
{
	char error[1024];

	if (!privilege_check(a->pids, a->session.n_pids, error, sizeof(error)))
		return EXIT_CLEAN;
	log_error("%s", error);
	return EXIT_UNSUPPORTED;
}

/* Held until the session reads it: a question for progress must not end a tracer that is still starting. */
static void progress_signal_hold(sigset_t *ret_before)
{
	sigset_t progress;

	sigemptyset(&progress);
	sigaddset(&progress, SIGUSR1);
	sigprocmask(SIG_BLOCK, &progress, ret_before);
}

/* CMD starts stopped at a pipe, so that it is a target before its first instruction; if we end before it is let go, it
 * never starts. */
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
		if (a->json)
			dup2(STDERR_FILENO, STDOUT_FILENO);
		execvp(a->command[0], a->command);
		log_error("%s: %s", a->command[0], strerror(errno));
		_exit(127);
	}
	close(go[0]);
	a->session.child = pid;
	a->session.child_go_fd = go[1];
	return 0;
}

static void command_kill(const struct record_args *a)
{
	if (!a->session.child)
		return;
	kill(a->session.child, SIGTERM);
	waitpid(a->session.child, NULL, 0);
}

static uint64_t ring_bytes_of(const struct record_args *a)
{
	return a->session.ring_bytes ? a->session.ring_bytes : SESSION_RING_BYTES;
}

static void losses_say(const struct session_result *r, const struct record_args *a)
{
	static const char *const what[RING_CLASSES] = {
		[RING_CRITICAL] = "process starts and exits", [RING_NORMAL] = "calls and waits", [RING_BULK] = "launches and copies",
	};

	for (int i = 0; i < RING_CLASSES; i++)
		if (r->lost[i] && i == RING_CRITICAL)
			log_warn("%" PRIu64 " records (%s) found no room: the collector could not run; give it CPU time", r->lost[i],
				 what[i]);
		else if (r->lost[i])
			log_warn("%" PRIu64 " records (%s) found no room in a ring of %" PRIu64 " bytes%s; record with --ring-size %"
				 PRIu64, r->lost[i], what[i], ring_bytes_of(a),
				 i == RING_BULK ? "" : ", so absences prove less", 4 * ring_bytes_of(a));
	if (r->late)
		log_warn("%" PRIu64 " records came too late to be put in order", r->late);
}

/* The kernel's high-water mark of this process counts the rings it maps; they are told apart. */
static void memory_say(const struct session_result *r)
{
	FILE *f = fopen("/proc/self/status", "re");
	uint64_t peak_kib = 0, rings_kib = r->ring_bytes_mapped / 1024;
	char line[128];

	while (f && !peak_kib && fgets(line, sizeof(line), f))
		sscanf(line, "VmHWM: %" SCNu64, &peak_kib);
	if (f)
		fclose(f);
	if (peak_kib > rings_kib)
		log_info("peak memory %.1f MiB beside %.1f MiB of mapped rings", (peak_kib - rings_kib) / 1024.0,
			 rings_kib / 1024.0);
}

static void summary_say(const struct session_result *r, struct pipeline *p, const struct record_args *a)
{
	uint64_t lost = r->lost[RING_CRITICAL] + r->lost[RING_NORMAL] + r->lost[RING_BULK];

	log_info("%u processes, %" PRIu64 " records, %" PRIu64 " operations, %" PRIu64 " lost, %" PRIu64
		 " findings; longest gap between two looks %.2f s", r->processes, r->records, r->ops, lost,
		 incidents_opened(pipeline_incidents(p)), r->longest_tick_gap_ns / 1e9);
	outputs_costs_say(p);
	losses_say(r, a);
	memory_say(r);
	for (int i = 0; i < a->outputs.n; i++)
		log_info("wrote %s", a->outputs.paths[i]);
	if (r->child_status != -1 && WIFEXITED(r->child_status))
		log_info("%s exited with status %d", a->command[0], WEXITSTATUS(r->child_status));
	else if (r->child_status != -1)
		log_info("%s was killed by signal %d", a->command[0], WTERMSIG(r->child_status));
}

static int exit_code(const struct session_result *r, const struct pipeline *p, const struct record_args *a)
{
	if (a->exit_status_command && r->child_status != -1)
		return WIFEXITED(r->child_status) ? WEXITSTATUS(r->child_status) : 128 + WTERMSIG(r->child_status);
	return incidents_counted(pipeline_incidents(p)) ? EXIT_FINDING : EXIT_CLEAN;
}

/* 64 ranks take 1,000 files of ours, 1,100 in the burst tier, and the usual soft limit is 1024. After CMD
 * was forked, whose limit stays as it is. */
static void files_limit_raise(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

static int record(struct record_args *a, struct reader *reader, struct pipeline *p)
{
	struct session_result result = {};
	struct session *s = NULL;
	char error[1024];
	int err;

	files_limit_raise();
	err = session_open(&a->session, reader, p, &s, error, sizeof(error));

	if (err) {
		log_error("%s", error);
		command_kill(a);
		return err == -EPERM || err == -ENOENT || err == -ENOTSUP ? EXIT_UNSUPPORTED : EXIT_INTERNAL;
	}
	err = session_run(s, &result);
	if (err)
		log_error("the trace ended early: %s", strerror(-err));
	session_free(s);
	if (a->session.child && result.child_status == -1)
		command_kill(a);
	summary_say(&result, p, a);
	return err ? EXIT_INTERNAL : exit_code(&result, p, a);
}

int cmd_record(int argc, char **argv)
{
	static const struct argp argp = { record_options, record_option, "[-- CMD...]",
		"Traces a job live; no restart and no change to it. Findings go to stdout as they open and close.", 0, 0, 0 };
	struct record_args a = { .session = { .dstate_limit_ns = 5000000000ull, .hang_floor_ns = 1500000000ull,
					      .busy_limit_ns = 90000000000ull, .child_go_fd = -1 } };
	struct reader *reader = NULL;
	struct pipeline *p = NULL;
	sigset_t signals;
	int code, err;

	progress_signal_hold(&signals);
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, 0, &a);
	if (a.list_probes) {
		probe_rows_print(a.json);
		return EXIT_CLEAN;
	}
	a.session.pids = a.pids;
	code = privileges_check(&a);
	if (code)
		return code;
	err = reader_open(&reader);
	if (!err)
		p = pipeline_new();
	if (err || !p) {
		log_error("starting: %s", strerror(err ? -err : ENOMEM));
		return EXIT_INTERNAL;
	}
	code = EXIT_USAGE;
	if (!outputs_open(p, a.json ? "json" : "terminal", &a.outputs)) {
		err = a.command ? command_fork(&a, &signals) : 0;
		code = err ? EXIT_INTERNAL : record(&a, reader, p);
	}
	err = pipeline_free(p);
	if (err)
		log_error("closing the outputs: %s", strerror(-err));
	reader_free(reader);
	return err && code <= EXIT_FINDING ? EXIT_INTERNAL : code;
}
