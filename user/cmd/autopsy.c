/* SPDX-License-Identifier: Apache-2.0
 *
 * autopsy.c - `ranktrace autopsy`: the command for a job that already hangs. Needs no BPF, only permission to read.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session/argument.h"
#include "autopsy/autopsy.h"
#include "autopsy/gpu_core_ask.h"
#include "autopsy/merge.h"
#include "base/log.h"
#include "bus/bus_options.h"
#include "cluster/ask.h"
#include "cmd/cluster/autopsy_cluster.h"
#include "cmd/help.h"
#include "command.h"
#include "session/outputs.h"
#include "session/session.h"
#include "autopsy/procs.h"
#include "inspect/discover/privilege.h"
#include "inspect/reader/reader.h"

#define TIMEOUT_DEFAULT UINT64_MAX
#define TIMEOUT_NS 6000000000ull
#define TIMEOUT_RAW_NS 2200000000ull /* one host alone cannot know when enough was seen */
#define GPU_CORE_WAIT_NS 30000000000ull
#define INTERVAL_MIN_S 0.45 /* a thread between two polls is known to wait after 0.4 s */

struct autopsy_args {
	struct autopsy_cfg cfg;
	uint32_t pids[SESSION_PIDS_MAX];
	struct outputs outputs;
	bool json, merge, own;
	uint64_t gpu_core_ns; /* how long core dumps are awaited; 0: none is asked for */
	struct bus_cfg bus;   /* url: of all hosts, by their agents */
	const char *raw;
	enum severity fail_on;
	char **files; /* after --merge; borrowed from the command line */
	int n_files;
};

enum { OPT_FAIL_ON = 2000, OPT_OWN, OPT_GPU_CORE };

static const struct argp_option autopsy_options[] = {
	{ "pid", 'p', "PID", 0, "PID and its descendants (may repeat); none: every job on this host", HELP_WHAT },
	{ "job", 'J', "JOB", 0, "the processes of one job ('ranktrace ps' has its name)", HELP_WHAT },
	{ "merge", 'm', 0, 0,
	  "the arguments are recordings that --raw (or -o FILE.rtr) wrote, one per host: one verdict over all",
	  HELP_WHAT },
	{ "own", OPT_OWN, 0, 0, "with --nats: only ranks of the user who asks, by uid", HELP_WHAT },
	{ "gpu-core", OPT_GPU_CORE, "SEC", OPTION_ARG_OPTIONAL,
	  "name the kernels on the GPUs: has CUDA write core dumps, which stop the GPUs of ranks that were started for "
	  "it; waits that long (30)",
	  HELP_WHAT },
	{ "interval", 'i', "SEC", 0, "between two samples (0.45, which is the least)", HELP_LIMITS },
	{ "timeout", 'P', "SEC", 0, "for samples, while nothing moves and no rank is behind (6)", HELP_LIMITS },
	{ "patience", 0, 0, OPTION_ALIAS | OPTION_HIDDEN, 0, 0 }, /* what --timeout was called */
	{ "find", 'f', "SEC", 0, "once every rank shows a communicator, search large memory for more for that long (2)",
	  HELP_LIMITS },
	{ "stacks", 'S', "SEC", 0, "time to read stacks, beside the samples (1.5; 0: none)", HELP_LIMITS },
	{ "output", 'o', "FILE", 0,
	  "also write FILE, by suffix: .rtr recording, .jsonl findings (may repeat); -: a recording on standard output",
	  HELP_OUTPUT },
	{ "json", 'j', 0, 0, "findings as JSON lines on standard output", HELP_OUTPUT },
	{ "raw", 'r', "FILE", 0,
	  "no verdict: only record the samples of this host to FILE (-: standard output), for --merge", HELP_OUTPUT },
	{ "fail-on", OPT_FAIL_ON, "SEVERITY", 0, FAIL_ON_HELP " (warning: who asks suspects a hang)", HELP_MESSAGES },
	{ "quiet", 'q', 0, 0, "only errors and warnings on standard error", HELP_MESSAGES },
	{ "verbose", 'v', 0, 0, "also how much was read in which time", HELP_MESSAGES },
	{ 0 },
};

static uint64_t seconds_parse(struct argp_state *state, const char *name, const char *text, double least)
{
	char *end;
	double sec = strtod(text, &end);

	if (end == text || *end || !(sec >= least) || sec > 3600)
		argp_error(state, "--%s: '%s' is not a number of seconds from %g to 3600", name, text, least);
	return sec * 1e9;
}

static void arguments_check(struct argp_state *state, const struct autopsy_args *a)
{
	if (a->bus.url && (!a->cfg.job || a->merge || a->cfg.n_pids || a->raw))
		argp_error(state, "--nats asks the agents of all hosts: for which --job, and nothing of this host");
	if (a->own && !a->bus.url)
		argp_error(state, "--own goes with --nats");
	if (a->merge && !a->n_files)
		argp_error(state, "--merge: which files? ranktrace autopsy --merge NODE1.rtr NODE2.rtr ...");
	if (a->merge && (a->cfg.n_pids || a->cfg.job || a->raw))
		argp_error(state, "--merge reads files: --pid, --job and --raw belong to the autopsy on each host");
	if (!a->merge && a->n_files)
		argp_error(state, "no arguments expected; --pid PID or --job JOB select what to sample");
	if (a->gpu_core_ns && (a->merge || a->bus.url || a->raw))
		argp_error(state, "--gpu-core asks the ranks of this host, beside its verdict");
	if (a->json && outputs_take_stdout(&a->outputs))
		argp_error(state, "--json and -o - both want standard output");
	if (a->raw && (a->json || a->outputs.n))
		argp_error(state, "--raw only records; without it, -o FILE.rtr records beside the verdict");
}

static error_t autopsy_option(int key, char *arg, struct argp_state *state)
{
	struct autopsy_args *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT: state->child_inputs[0] = &a->bus; return 0;
	case OPT_OWN: a->own = true; return 0;
	case OPT_GPU_CORE: a->gpu_core_ns = arg ? seconds_parse(state, "gpu-core", arg, 1) : GPU_CORE_WAIT_NS; return 0;
	case 'p': argument_pid(state, arg, a->pids, &a->cfg.n_pids); return 0;
	case 'J': a->cfg.job = arg; return 0;
	case 'i': a->cfg.interval_ns = seconds_parse(state, "interval", arg, INTERVAL_MIN_S); return 0;
	case 'P': a->cfg.timeout_ns = seconds_parse(state, "timeout", arg, 0); return 0;
	case 'f': a->cfg.find_ns = seconds_parse(state, "find", arg, 0); return 0;
	case 'S': a->cfg.stacks_ns = seconds_parse(state, "stacks", arg, 0); return 0;
	case 'o':
		if (a->outputs.n == OUTPUTS_MAX)
			argp_error(state, "at most %d outputs", OUTPUTS_MAX);
		a->outputs.paths[a->outputs.n++] = arg;
		return 0;
	case 'j': a->json = true; return 0;
	case 'q': log_quiet = true; return 0;
	case 'v': log_verbose = true; return 0;
	case OPT_FAIL_ON: argument_fail_on(state, arg, &a->fail_on); return 0;
	case 'r': a->raw = arg; return 0;
	case 'm': a->merge = true; return 0;
	case ARGP_KEY_ARGS:
		a->files = state->argv + state->next;
		a->n_files = state->argc - state->next;
		return 0;
	case ARGP_KEY_END: arguments_check(state, a); return 0;
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

/* Reports what could not be seen, and why. */
static void limits_say(const struct autopsy_result *r)
{
	if (r->n_denied)
		log_warn("%d processes may not be read: run as root, or with CAP_SYS_PTRACE", r->n_denied);
	if (r->n_no_layout)
		log_warn("%d processes use an NCCL without debug information (DWARF), or before 2.21: the place of its "
			 "counters is unknown, and ranktrace does not guess; NCCL's own wheels have debug information",
			 r->n_no_layout);
	if (r->n_held)
		log_warn("%d processes hold their memory map's lock (mmap_lock): their communicators cannot be read",
			 r->n_held);
	if (r->n_cut)
		log_warn("INCOMPLETE: the memory of %d processes was not searched to its end in %.1f s: communicators "
			 "in the rest are not in this verdict; --find SEC gives it more time",
			 r->n_cut, r->found_ns / 1e9);
	if (r->n_unread)
		log_warn("the stacks of %d processes were not read: --stacks SEC gives it more time", r->n_unread);
	if (r->n_uncounted)
		log_warn(
			"limited: %d processes use an NCCL that does not count its collectives (before 2.26): the rank "
			"that is behind cannot be named",
			r->n_uncounted);
}

/* Nothing to examine is no all-clear. One idle host of many is: --merge says so. */
static int none_say(const struct autopsy_args *a)
{
	char denied[1024];
	bool limited = privilege_reading(denied, sizeof(denied));

	if (a->cfg.job)
		log_error("no process of job '%s' was found: 'ranktrace ps' lists the jobs", a->cfg.job);
	else
		log_error("no training process %s: nothing with NCCL's symbols mapped and no RANK in an environment "
			  "('ranktrace ps' lists the candidates)",
			  a->cfg.n_pids ? "in the selection" : "found");
	if (limited)
		log_error("%s", denied);
	return limited ? EXIT_UNSUPPORTED : a->raw ? EXIT_CLEAN : EXIT_USAGE;
}

/* The samples of one host of several make no verdict: with --raw the samples are enough. */
static int exit_code(const struct autopsy_args *a, const struct autopsy_result *r, const struct pipeline *p)
{
	if (outputs_exit_code(p, a->fail_on) == EXIT_FINDING)
		return a->raw ? EXIT_CLEAN : EXIT_FINDING;
	if (!r->n_ranks)
		return none_say(a);
	return !r->n_comms && (r->n_denied || r->n_no_layout) ? EXIT_UNSUPPORTED : EXIT_CLEAN;
}

/* One reader for each process sampled at the same time; only the first must start. */
static int readers_open(struct reader **readers, size_t *ret_n)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	size_t want = cpus < 1 ? 1 : cpus < AUTOPSY_READERS_MAX ? (size_t)cpus : AUTOPSY_READERS_MAX;
	int err = 0;

	for (*ret_n = 0; !err && *ret_n < want; *ret_n += !err)
		err = reader_open(&readers[*ret_n]);
	return *ret_n ? 0 : err;
}

static void readers_free(struct reader **readers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		reader_free(readers[i]);
}

static int autopsy(struct autopsy_args *a, struct reader *const *readers, size_t n, struct pipeline *p)
{
	struct autopsy_result r = {};
	char denied[1024];
	int code, err = autopsy_run(&a->cfg, readers, n, p, &r);

	if (err) {
		log_error("sampling the job: %s", strerror(-err));
		return EXIT_INTERNAL;
	}
	limits_say(&r);
	if (r.n_ranks && privilege_reading(denied, sizeof(denied)))
		log_warn("%s", denied);
	log_detail("%d processes, %d communicators found in %.2f s, sampled for %.2f s", r.n_procs, r.n_comms,
		   r.found_ns / 1e9, r.sampled_ns / 1e9);
	code = exit_code(a, &r, p);
	if (a->gpu_core_ns)
		gpu_cores_take(readers[0], pipeline_model(p), a->gpu_core_ns);
	else if (code == EXIT_FINDING)
		gpu_cores_offer(readers[0], pipeline_model(p));
	return code;
}

static int outputs_begin(const struct autopsy_args *a, struct pipeline *p)
{
	struct outputs raw = { .paths = { a->raw }, .n = 1, .all_recordings = true };

	return a->raw ? outputs_open(p, NULL, &raw) : outputs_open(p, a->json ? "json" : "autopsy", &a->outputs);
}

/* Needs no privilege and no host: reads files only. */
static int merge(const struct autopsy_args *a)
{
	struct pipeline *p = pipeline_new();
	int code;

	if (!p) {
		log_error("starting: %s", strerror(ENOMEM));
		return EXIT_INTERNAL;
	}
	code = outputs_begin(a, p);
	if (!code)
		code = outputs_confine(p, &a->outputs, true);
	if (!code)
		code = autopsy_merge((const char *const *)a->files, a->n_files, p);
	if (!code)
		code = outputs_exit_code(p, a->fail_on);
	code = outputs_close(p, code);
	pipeline_free(p);
	return code;
}

/* Of all hosts; needs no privilege. */
static int cluster(const struct autopsy_args *a)
{
	struct pipeline *p = pipeline_new();
	int code = bus_options_check(&a->bus);

	if (!p)
		return EXIT_INTERNAL;
	code = code ? code : outputs_begin(a, p);
	if (!code && pipeline_keep(p, NULL, 0))
		code = EXIT_INTERNAL;
	code = code ? code : autopsy_cluster(&a->bus, a->cfg.job, a->own ? (int64_t)getuid() : ASK_ANY_USER, p);
	if (!code)
		code = outputs_exit_code(p, a->fail_on);
	code = outputs_close(p, code);
	pipeline_free(p);
	return code;
}

int cmd_autopsy(int argc, char **argv)
{
	static const struct argp_child children[] = { { &bus_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = { autopsy_options, autopsy_option, NULL, NULL, children, NULL, NULL };
	static const struct help help = {
		"autopsy", "[OPTIONS]\n[OPTIONS] --raw FILE\n[OPTIONS] --merge FILE...\n--job JOB --nats URL [OPTIONS]",
		"Names what blocks a hanging job, from outside: reads NCCL's own counters in the ranks' memory and "
		"what their threads do. No probe, no ptrace, no signal."
	};
	struct autopsy_args a = { .fail_on = SEVERITY_WARNING,
				  .bus = { .name = "ranktrace autopsy" },
				  .cfg = { .interval_ns = 450000000ull,
					   .timeout_ns = TIMEOUT_DEFAULT,
					   .stacks_ns = 1500000000ull,
					   .find_ns = 2000000000ull } };
	struct reader *readers[AUTOPSY_READERS_MAX] = {};
	struct pipeline *p = NULL;
	size_t n = 0;
	int code, err;

	command_line_parse(&argp, &help, argc, argv, 0, &a);
	a.cfg.pids = a.pids;
	a.outputs.inputs = (const char *const *)a.files;
	a.outputs.n_inputs = a.n_files;
	if (a.merge)
		return merge(&a);
	if (a.bus.url)
		return cluster(&a);
	a.cfg.raw = a.raw != NULL;
	if (a.cfg.timeout_ns == TIMEOUT_DEFAULT)
		a.cfg.timeout_ns = a.raw ? TIMEOUT_RAW_NS : TIMEOUT_NS;
	code = privileges_check(&a);
	if (code)
		return code;
	err = readers_open(readers, &n);
	if (!err)
		p = pipeline_new();
	if (err || !p) {
		log_error("starting: %s", strerror(err ? -err : ENOMEM));
		readers_free(readers, n);
		return EXIT_INTERNAL;
	}
	code = outputs_begin(&a, p);
	if (!code)
		code = outputs_close(p, autopsy(&a, readers, n, p));
	pipeline_free(p);
	readers_free(readers, n);
	return code;
}
