/* SPDX-License-Identifier: Apache-2.0
 *
 * args.c - see args.h. One table of settings serves the command line (argp) and the configuration file.
 */
#include "session/args.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "session/argument.h"
#include "session/parts/phases.h"
#include "base/log.h"
#include "command.h"
#include "inspect/discover/privilege.h"
#include "metrics/metrics.h"
#include "metrics/web/web_config.h"
#include "inspect/reader/reader.h"

#define RING_BYTES_MIN 65536u /* the largest page of a kernel we run on */
#define RING_BYTES_MAX (1u << 30)
#define BUDGET_MIN 0.01 /* percent of a core */
#define BUDGET_MAX 10000.0
#define PPM_PER_PERCENT 10000u
/* What a host-bound job can lose of its steps at most. DDP of 5 ms steps and FSDP2 of 45 ms steps pay 0.8 % for traps
 * (docs/measurements/gpu.md) and as much again for our programs, at most, so that real jobs keep all groups; what calls
 * more is watched with fewer. */
#define BUDGET_PERCENT 2
#define BUDGET_BURST_PERCENT 25 /* for a user who asks for every launch */
#define BUDGET_NODE_TIMES 10    /* times the budget of one process: a node has eight ranks, and some helpers */

struct out {
	char *text;
	size_t size;
}; /* where an error message goes */

#define SAY(out, ...) (snprintf((out)->text, (out)->size, __VA_ARGS__), -EINVAL)

/* --- values --- */

static int seconds_set(uint64_t *to, const char *text, struct out *error)
{
	char *end;
	double sec = strtod(text, &end);

	if (end == text || *end || !(sec > 0) || sec > 1e9)
		return SAY(error, "'%s' is not a number of seconds above 0", text);
	*to = sec * 1e9;
	return 0;
}

static int flag_set(bool *to, const char *text, struct out *error)
{
	if (strcmp(text, "yes") && strcmp(text, "no"))
		return SAY(error, "'%s' is neither 'yes' nor 'no'", text);
	*to = !strcmp(text, "yes");
	return 0;
}

static int set_duration(struct session_args *a, const char *v, struct out *e)
{
	return seconds_set(&a->session.duration_ns, v, e);
}
static int set_dstate(struct session_args *a, const char *v, struct out *e)
{
	return seconds_set(&a->session.dstate_limit_ns, v, e);
}
static int set_hang(struct session_args *a, const char *v, struct out *e)
{
	return seconds_set(&a->session.hang_floor_ns, v, e);
}
static int set_busy(struct session_args *a, const char *v, struct out *e)
{
	return seconds_set(&a->session.busy_limit_ns, v, e);
}
static int set_fail_on(struct session_args *a, const char *v, struct out *e)
{
	return argument_fail_on_set(v, &a->fail_on, e->text, e->size);
}
static int set_json(struct session_args *a, const char *v, struct out *e)
{
	return flag_set(&a->json, v, e);
}
static int set_metrics(struct session_args *a, const char *v, struct out *e)
{
	return argument_metrics_set(v, &a->metrics, e->text, e->size);
}
static int set_metrics_config(struct session_args *a, const char *v, struct out *e)
{
	(void)e;
	a->metrics_config = strcmp(v, "no") ? v : NULL;
	return 0;
}
static int set_quiet(struct session_args *a, const char *v, struct out *e)
{
	(void)a;
	return flag_set(&log_quiet, v, e);
}
static int set_verbose(struct session_args *a, const char *v, struct out *e)
{
	(void)a;
	return flag_set(log_verbose ? &log_debugging : &log_verbose, v, e);
}

static int set_ring(struct session_args *a, const char *v, struct out *e)
{
	char *end;
	unsigned long long bytes = strtoull(v, &end, 10);

	if (end == v || *end)
		return SAY(e, "'%s' is not a number of bytes", v);
	if (bytes & (bytes - 1))
		return SAY(e, "%s is not a power of two; the kernel accepts no other size", v);
	if (bytes < (size_t)RING_BYTES_MIN || bytes > RING_BYTES_MAX)
		return SAY(e, "%s is not between %u and %u (records are up to %d bytes; usual: %u)", v, RING_BYTES_MIN,
			   RING_BYTES_MAX, WIRE_SIZE_MAX, SESSION_RING_BYTES);
	a->session.ring_bytes = bytes;
	return 0;
}

static int set_output(struct session_args *a, const char *v, struct out *e)
{
	if (a->outputs.n == OUTPUTS_MAX)
		return SAY(e, "at most %d outputs", OUTPUTS_MAX);
	if (!pipeline_output_known(v))
		return SAY(
			e,
			"'%s': unknown suffix; use .pftrace, .rtr, .html or .jsonl, or - for a recording on standard "
			"output",
			v);
	a->outputs.paths[a->outputs.n++] = v;
	return 0;
}

static int set_rotate(struct session_args *a, const char *v, struct out *e)
{
	return argument_rotate_set(v, &a->outputs.rules, e->text, e->size);
}
static int set_keep(struct session_args *a, const char *v, struct out *e)
{
	return argument_keep_set(v, &a->outputs.rules, e->text, e->size);
}

static int set_pid(struct session_args *a, const char *v, struct out *e)
{
	return argument_pid_add(v, a->pids, &a->session.n_pids, e->text, e->size);
}

static int set_job(struct session_args *a, const char *v, struct out *e)
{
	(void)e;
	a->session.job = v;
	return 0;
}

/* A limit without --flight switches the recorder on: the limit would be pointless otherwise. */
static int set_flight(struct session_args *a, const char *v, struct out *e)
{
	(void)e;
	a->session.flight.dir = !strcmp(v, "no") ? NULL : !strcmp(v, "yes") ? FLIGHT_DIR : v;
	return 0;
}

static int flight_count_set(struct session_args *a, unsigned long *to, const char *v, unsigned long max, struct out *e)
{
	char *end;

	*to = strtoul(v, &end, 10);
	if (end == v || *end || !*to || *to > max || *v == '-')
		return SAY(e, "'%s' is not a number from 1 to %lu", v, max);
	if (!a->session.flight.dir)
		a->session.flight.dir = FLIGHT_DIR;
	return 0;
}

static int set_flight_seconds(struct session_args *a, const char *v, struct out *e)
{
	unsigned long sec;
	int err = flight_count_set(a, &sec, v, 1000000, e);

	a->session.flight.window_ns = err ? 0 : sec * 1000000000ull;
	return err;
}

static int set_flight_mb(struct session_args *a, const char *v, struct out *e)
{
	unsigned long mb;
	int err = flight_count_set(a, &mb, v, 1ul << 20, e);

	a->session.flight.bytes_max = err ? 0 : mb * 1000000;
	return err;
}

static int set_flight_keep(struct session_args *a, const char *v, struct out *e)
{
	unsigned long n;
	int err = flight_count_set(a, &n, v, 100000, e);

	a->session.flight.keep = err ? 0 : n;
	return err;
}

static int set_budget(struct session_args *a, const char *v, struct out *e)
{
	a->budget_given = true;
	return argument_percent_set(v, &a->session.budget_ppm, e->text, e->size);
}
static int set_budget_node(struct session_args *a, const char *v, struct out *e)
{
	a->budget_node_given = true;
	return argument_percent_set(v, &a->session.budget_node_ppm, e->text, e->size);
}

static int set_shared_probes(struct session_args *a, const char *v, struct out *e)
{
	return flag_set(&a->session.shared_probes, v, e);
}

static int set_phases(struct session_args *a, const char *v, struct out *e)
{
	(void)e;
	a->phases_given = true;
	a->session.phases = strcmp(v, "no") ? v : NULL;
	return 0;
}

#define OPT_FLIGHT 1005 /* its argument is optional */
/* clang-format off */
#define SETTINGS(X) \
	X("pid", 'p', "PID", "this process and its descendants (may repeat)", HELP_WHAT, set_pid) \
	X("job", 'J', "JOB", "the processes of this job ('ranktrace ps' has its name)", HELP_WHAT, set_job) \
	X("duration", 'd', "SEC", "stop after SEC seconds", HELP_WHAT, set_duration) \
	X("output", 'o', "FILE", \
	  "write FILE, by suffix: .rtr recording, .pftrace timeline, .html page, .jsonl findings (may repeat); -: a " \
	  "recording on standard output, and the findings go to standard error", HELP_OUTPUT, set_output) \
	X("rotate", 1013, "SIZE|TIME", \
	  "begin a new FILE when it has that size (500M, 2G) or age (30min, 12h, 7d; or one of each); the old " \
	  "one becomes FILE.1, the one before it FILE.2, and each can be read alone", HELP_OUTPUT, set_rotate) \
	X("keep", 1014, "N", "with --rotate, files beside the newest; older ones are removed (5)", HELP_OUTPUT, \
	  set_keep) \
	X("json", 'j', 0, "findings as JSON lines on standard output", HELP_OUTPUT, set_json) \
	X("metrics", 1016, "[ADDR:]PORT", \
	  "serve Prometheus metrics at http://ADDR:PORT/metrics (ADDR 127.0.0.1; docs/operate.md)", HELP_OUTPUT, \
	  set_metrics) \
	X("metrics-config", 1017, "FILE", \
	  "TLS and passwords of --metrics, as in the web configuration file of Prometheus' exporters: " \
	  "tls_server_config, basic_auth_users; no: none", HELP_OUTPUT, set_metrics_config) \
	X("hang-limit", 1002, "SEC", "shortest lag that is a hang (1.5)", HELP_LIMITS, set_hang) \
	X("busy-limit", 1003, "SEC", "the same for a rank that burns CPU or moves bytes (90)", HELP_LIMITS, set_busy) \
	X("dstate-limit", 1001, "SEC", "report a D state past this (5)", HELP_LIMITS, set_dstate) \
	X("phases", 1012, "FILE", \
	  "keep known phases of jobs (checkpoints, evaluations) in FILE, and read those of earlier sessions; " \
	  "no: none (watch: " PHASES_NAME " in $STATE_DIRECTORY or " FLIGHT_DIR ")", HELP_LIMITS, set_phases) \
	X("budget", 1009, "PERCENT", \
	  "CPU time, in percent of a core, that probe hits (traps, and programs in them) may cost a process; above " \
	  "it ranktrace removes the probes that it needs least (2; with --tier burst 25; no: no limit)", \
	  HELP_PROBES, set_budget) \
	X("budget-node", 1010, "PERCENT", \
	  "the same for all processes together (10 times --budget)", HELP_PROBES, set_budget_node) \
	X("shared-probes", 1015, 0, \
	  "before kernel 6.6, probe also what processes of other users map: all of these pay for it", HELP_PROBES, \
	  set_shared_probes) \
	X("ring-size", 1004, "BYTES", \
	  "each ring buffer between kernel and collector (one per NUMA node), a power of two", HELP_PROBES, set_ring) \
	X("flight", OPT_FLIGHT, "DIR", \
	  "flight recorder: keep the last seconds in memory and write them to DIR (" FLIGHT_DIR ") on a finding, on " \
	  "SIGUSR1 and on 'ranktrace dump'; --flight=no: none", HELP_FLIGHT, set_flight) \
	X("flight-seconds", 1006, "SEC", "keep that many seconds (120)", HELP_FLIGHT, set_flight_seconds) \
	X("flight-mb", 1007, "MB", \
	  "and at most that many megabytes, compressed (64; watch: 16)", HELP_FLIGHT, set_flight_mb) \
	X("flight-keep", 1008, "N", "dumps in DIR; older ones are removed (20)", HELP_FLIGHT, set_flight_keep) \
	X("fail-on", 1011, "SEVERITY", FAIL_ON_HELP " (critical)", HELP_MESSAGES, set_fail_on) \
	X("quiet", 'q', 0, "only errors and warnings on standard error", HELP_MESSAGES, set_quiet) \
	X("verbose", 'v', 0, \
	  "also progress, and what it saw and cost at the end; twice: the messages of libbpf", HELP_MESSAGES, \
	  set_verbose)
/* clang-format on */

static const struct setting {
	const char *name;
	int key;
	int (*set)(struct session_args *a, const char *value, struct out *error);
} settings[] = {
#define X(name, key, arg, help, group, set) { name, key, set },
	SETTINGS(X)
#undef X
};
#define N_SETTINGS (sizeof(settings) / sizeof(settings[0]))

static const struct argp_option session_options[] = {
#define X(name, key, arg, help, group, set) \
	{ name, key, arg, (key) == OPT_FLIGHT ? OPTION_ARG_OPTIONAL : 0, help, group },
	SETTINGS(X)
#undef X
		{ 0 }
};

void session_args_init(struct session_args *a, enum tier tier)
{
	a->session = (struct session_cfg){ .pids = a->pids,
					   .dstate_limit_ns = 5000000000ull,
					   .hang_floor_ns = 1500000000ull,
					   .busy_limit_ns = 90000000000ull,
					   .tier = tier,
					   .child_go_fd = -1 };
	a->fail_on = SEVERITY_CRITICAL;
}

int session_args_set(struct session_args *a, const char *name, const char *value, char *error, size_t size)
{
	struct out out = { error, size };

	for (size_t i = 0; i < N_SETTINGS; i++)
		if (!strcmp(settings[i].name, name))
			return settings[i].set(a, value, &out);
	return -ENOENT;
}

size_t session_args_names(const char **to, size_t max)
{
	size_t n = 0;

	for (; n < N_SETTINGS && n < max; n++)
		to[n] = settings[n].name;
	return n;
}

/* --- command line --- */

static error_t session_option(int key, char *arg, struct argp_state *state)
{
	char error[256];

	for (size_t i = 0; i < N_SETTINGS; i++) {
		struct out out = { error, sizeof(error) };

		if (settings[i].key != key)
			continue;
		if (settings[i].set(state->input, arg ? arg : "yes", &out))
			argp_error(state, "--%s: %s", settings[i].name, error);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

const struct argp session_argp = { session_options, session_option, 0, 0, 0, 0, 0 };

/* --- the run --- */

void session_args_settle(struct session_args *a)
{
	if (!a->budget_given)
		a->session.budget_ppm =
			(a->session.tier == TIER_BURST ? BUDGET_BURST_PERCENT : BUDGET_PERCENT) * PPM_PER_PERCENT;
	if (!a->budget_node_given)
		a->session.budget_node_ppm = BUDGET_NODE_TIMES * a->session.budget_ppm;
}

/* As for a command line that says --metrics=no over a file. */
static void metrics_unserved_say(const struct session_args *a)
{
	if (a->metrics_config && !a->metrics)
		log_warn("--metrics-config without --metrics: none are served; --metrics 9978 serves them");
}

int session_metrics_check(const struct session_args *a)
{
	struct web_config web = { 0 };
	char error[1024];
	int err = a->metrics_config ? web_config_read(a->metrics_config, &web, error, sizeof(error)) : 0;

	web_config_free(&web);
	metrics_unserved_say(a);
	if (err == -ENOENT)
		log_warn("metrics-config: %s is not on this host; it was not checked", a->metrics_config);
	else if (err)
		log_error("metrics-config: %s", error);
	return err && err != -ENOENT ? EXIT_USAGE : EXIT_CLEAN;
}

int session_args_check(const struct session_args *a)
{
	char error[1024];

	if (!privilege_check(a->pids, a->session.n_pids, error, sizeof(error)))
		return EXIT_CLEAN;
	log_error("%s", error);
	return EXIT_UNSUPPORTED;
}

/* 64 ranks take more than 1,000 files of the collector, and the usual soft limit is 1024. Called after the user's
 * command was forked, so its limit stays as it is. */
static void files_limit_raise(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

int session_readers_open(struct session_args *a, struct reader **ret)
{
	int err = reader_open(ret);

	return err ? err : reader_open(&a->session.stack_reader);
}

void session_readers_free(struct session_args *a, struct reader *r)
{
	reader_free(a->session.stack_reader);
	a->session.stack_reader = NULL;
	reader_free(r);
}

int session_outputs_open(struct session_args *a, struct pipeline *p)
{
	char error[1024];
	int code;

	if (outputs_rules_check(&a->outputs))
		return EXIT_USAGE;
	if (a->json && outputs_take_stdout(&a->outputs)) {
		log_error("--json and -o - both want standard output: write the findings with -o FILE.jsonl");
		return EXIT_USAGE;
	}
	metrics_unserved_say(a);
	a->outputs.live = true;
	code = outputs_open(p, a->json ? "json" : "terminal", &a->outputs);
	if (code || !a->metrics ||
	    !metrics_serve(a->metrics, a->metrics_config, p, &a->session.metrics, error, sizeof(error)))
		return code;
	log_error("%s", error);
	return EXIT_USAGE;
}

int session_args_run(struct session_args *a, struct reader *reader, struct pipeline *p, struct session_result *ret)
{
	struct session *s = NULL;
	char error[1024];
	int err;

	files_limit_raise();
	session_args_settle(a);
	err = session_open(&a->session, reader, p, &s, error, sizeof(error));
	if (err) {
		log_error("%s", error);
		return err == -EPERM || err == -ENOENT || err == -ENOTSUP ? EXIT_UNSUPPORTED : EXIT_INTERNAL;
	}
	err = session_run(s, ret);
	if (err)
		log_error("the trace ended early: %s", strerror(-err));
	session_free(s);
	return err ? EXIT_INTERNAL : outputs_exit_code(p, a->fail_on);
}

/* --- the end --- */

static uint64_t ring_bytes_of(const struct session_args *a)
{
	return a->session.ring_bytes ? a->session.ring_bytes : session_ring_bytes(a->session.tier);
}

static void losses_say(const struct session_result *r, const struct session_args *a)
{
	static const char *const what[RING_CLASSES] = {
		[RING_CRITICAL] = "process starts and exits",
		[RING_NORMAL] = "calls and waits",
		[RING_BULK] = "launches and copies",
	};

	for (int i = 0; i < RING_CLASSES; i++)
		if (r->lost[i] && i == RING_CRITICAL)
			log_warn("%" PRIu64
				 " records (%s) lost: the ring was full because the collector got no CPU time; give "
				 "it some",
				 r->lost[i], what[i]);
		else if (r->lost[i])
			log_warn("%" PRIu64 " records (%s) lost: they did not fit in a ring of %" PRIu64
				 " bytes%s; record with --ring-size %" PRIu64,
				 r->lost[i], what[i], ring_bytes_of(a),
				 i == RING_BULK ? "" : "; a missing record proves less now", 4 * ring_bytes_of(a));
	if (r->late)
		log_warn("%" PRIu64 " records came too late to be sorted", r->late);
}

static void budget_say(const struct session_budget *b)
{
	if (!b->hits)
		return;
	log_detail("%" PRIu64
		   " probe hits of %.1f us (%s): %.2f s of CPU time; in one process at most %.2f %% of a core (pid %u)",
		   b->hits, b->paid_ns / 1e3 / b->hits, b->assumed ? "assumed" : "measured", b->paid_ns * 1e-9,
		   b->peak_ns_per_s * 1e-7, b->peak_tgid);
	if (b->n_shed)
		log_warn("probe groups removed %u times because a process paid too much for them, given back %u times; "
			 "their records are missing in between (--budget)",
			 b->n_shed, b->n_back);
}

/* The kernel's high-water mark of this process includes the rings that it maps: print the two apart. */
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
		log_detail("peak memory %.1f MiB beside %.1f MiB of mapped rings", (peak_kib - rings_kib) / 1024.0,
			   rings_kib / 1024.0);
}

void session_summary_say(const struct session_args *a, const struct session_result *r, struct pipeline *p)
{
	uint64_t lost = r->lost[RING_CRITICAL] + r->lost[RING_NORMAL] + r->lost[RING_BULK];

	log_detail("%u processes, %" PRIu64 " records, %" PRIu64 " operations, %" PRIu64 " lost, %" PRIu64
		   " findings; longest gap between two polls %.2f s, %.2f s of it %s; %.2f s on a CPU, "
		   "%.2f s ready to run",
		   r->processes, r->records, r->ops, lost, incidents_opened(pipeline_incidents(p)),
		   r->laps.gap_ns / 1e9, r->laps.most_ns / 1e9, lap_name(r->laps.most), r->laps.gap_cpu.on_ns / 1e9,
		   r->laps.gap_cpu.ready_ns / 1e9);
	outputs_costs_say(p);
	losses_say(r, a);
	budget_say(&r->budget);
	memory_say(r);
	outputs_say(&a->outputs, p);
}
