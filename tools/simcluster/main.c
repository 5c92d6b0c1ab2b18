/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - `ranktrace sim cluster`: command line.
 */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/simcluster/durations.h"
#include "tools/simcluster/publish.h"
#include "tools/simcluster/trial.h"

enum { EXIT_BAD_USAGE = 2, EXIT_FAILED = 4 };

enum {
	OPT_TP = 256,
	OPT_PP,
	OPT_MICRO,
	OPT_STEP,
	OPT_VARIATION,
	OPT_AHEAD,
	OPT_SKEW,
	OPT_ERROR,
	OPT_LOSS,
	OPT_LAG,
	OPT_CALLS,
	OPT_ASLEEP,
	OPT_CAPPED,
	OPT_LATE,
	OPT_HUB_LATE,
	OPT_UPGRADE,
	OPT_SEVERITY,
	OPT_WARM,
	OPT_WATCH,
	OPT_LIFE,
	OPT_RATE,
	OPT_FAULTS,
	OPT_DURATIONS,
	OPT_NATS,
};

struct options {
	int ranks;
	struct shape shape;
	struct noise noise;
	struct trials trials;
	double warm_s, life_h, rate, hub_late_s;
	const char *durations, *nats;
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "The job:", 1 },
	{ "ranks", 'n', "N", 0, "of the whole job, 8 a host (10240)", 0 },
	{ "tp", OPT_TP, "N", 0, "tensor parallel ranks (8); 1 with --pp 1: FSDP", 0 },
	{ "pp", OPT_PP, "N", 0, "pipeline stages (16)", 0 },
	{ "micro", OPT_MICRO, "N", 0, "microbatches a step (16)", 0 },
	{ "step", OPT_STEP, "SEC", 0, "a step takes so long (2)", 0 },
	{ "variation", OPT_VARIATION, "SHARE", 0, "natural, of a step (0.03)", 0 },
	{ "run-ahead", OPT_AHEAD, "SEC", 0, "a host calls so far ahead at most (0.5)", 0 },
	{ "rate", OPT_RATE, "N", 0, "ordinary life, N times as often (1); 0 none", 0 },
	{ NULL, 0, NULL, 0, "What agents see:", 2 },
	{ "skew", OPT_SKEW, "SEC", 0, "of hosts' clocks and ways (0.01)", 0 },
	{ "error", OPT_ERROR, "SEC", 0, "of an inferred end (0.001); inf: none known", 0 },
	{ "loss", OPT_LOSS, "SHARE", 0, "of messages (0)", 0 },
	{ "lag", OPT_LAG, "SEC", 0, "an agent is late by that at most (0)", 0 },
	{ "calls", OPT_CALLS, NULL, 0, "probes are on: entered, reached, completed", 0 },
	{ "asleep", OPT_ASLEEP, NULL, 0, "hosts sleep in waits for GPUs, not spin", 0 },
	{ "late", OPT_LATE, "SEC", 0, "they are started so long after the fault struck (before the job)", 0 },
	{ "upgrade", OPT_UPGRADE, "SEC", 0, "they are started anew so long after the fault struck (never)", 0 },
	{ "hub-late", OPT_HUB_LATE, "SEC", 0, "the hub is (before the job)", 0 },
	{ "capped", OPT_CAPPED, NULL, 0, "GPUs are at their power cap: clocks vary by 6 %, not 0.5", 0 },
	{ NULL, 0, NULL, 0, "What is run:", 3 },
	{ "fault", 'f', "KIND,...", 0, "one a trial (none); --faults lists them", 0 },
	{ "faults", OPT_FAULTS, NULL, 0, "list the faults", 0 },
	{ "severity", OPT_SEVERITY, "N", 0, "of slow and late: 1.1 is a tenth (1.1)", 0 },
	{ "trials", 't', "N", 0, "each in a copy of one warm run (1)", 0 },
	{ "jobs", 'j', "N", 0, "trials at once (2)", 0 },
	{ "warm", OPT_WARM, "SEC", 0, "without a fault before (60)", 0 },
	{ "watch", OPT_WATCH, "SEC", 0, "after the first peer waits (12)", 0 },
	{ "durations", OPT_DURATIONS, "FILE", 0, "judge these, and simulate nothing", 0 },
	{ "life", OPT_LIFE, "HOURS", 0, "of ordinary life instead of trials", 0 },
	{ "nats", OPT_NATS, "URL", 0, "agents report to that bus, as time goes by: one job, no judge", 0 },
	{ "seed", 's', "N", 0, "the same seed, the same run (1)", 0 },
	{ 0 }
};

static void faults_list(void)
{
#define X(id, name, help) printf("%-10s %s\n", name, help);
	FAULTS(X)
#undef X
	exit(0);
}

static double number_of(const char *text, double least, double most, struct argp_state *state)
{
	char *end;
	double v = strtod(text, &end);

	if (*end || end == text || !(v >= least && v <= most))
		argp_error(state, "%s: a number from %g to %g is wanted", text, least, most);
	return v;
}

static void faults_take(char *list, struct argp_state *state, struct trials *t)
{
	char *rest = NULL;

	t->n_kinds = 0;
	for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
		if (t->n_kinds == FAULT_KINDS || !fault_find(name, &t->kinds[t->n_kinds]))
			argp_error(state, "%s is no fault; --faults lists them", name);
		t->n_kinds++;
	}
}

static error_t job_parse(int key, char *arg, struct argp_state *state, struct options *o)
{
	switch (key) {
	case 'n': o->ranks = (int)number_of(arg, PER_HOST, 1 << 18, state); return 0;
	case OPT_TP: o->shape.tp = (int)number_of(arg, 1, 64, state); return 0;
	case OPT_PP: o->shape.pp = (int)number_of(arg, 1, STAGES_MAX, state); return 0;
	case OPT_MICRO: o->shape.micro = (int)number_of(arg, 1, MICRO_MAX, state); return 0;
	case OPT_STEP: o->shape.step_s = number_of(arg, 0.1, 100, state); return 0;
	case OPT_VARIATION: o->shape.variation = number_of(arg, 0, 0.3, state); return 0;
	case OPT_AHEAD: o->shape.run_ahead_s = number_of(arg, 0, 10, state); return 0;
	case OPT_RATE: o->rate = number_of(arg, 0, 1000, state); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static error_t noise_parse(int key, char *arg, struct argp_state *state, struct options *o)
{
	switch (key) {
	case OPT_SKEW: o->noise.skew_s = o->trials.skew_s = number_of(arg, 0, 5, state); return 0;
	case OPT_ERROR: o->noise.error_s = number_of(arg, 0, INFINITY, state); return 0;
	case OPT_LOSS: o->noise.loss = number_of(arg, 0, 0.5, state); return 0;
	case OPT_LAG: o->noise.lag_s = number_of(arg, 0, 5, state); return 0;
	case OPT_CALLS: o->noise.calls = true; return 0;
	case OPT_LATE: o->noise.late_s = number_of(arg, 0, 1e6, state); return 0;
	case OPT_UPGRADE: o->noise.upgrade_s = number_of(arg, 0, 1e6, state); return 0;
	case OPT_HUB_LATE: o->hub_late_s = number_of(arg, 0, 1e6, state); return 0;
	case OPT_ASLEEP: o->noise.asleep = true; return 0;
	case OPT_CAPPED: o->noise.capped = true; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static error_t option_parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'f': faults_take(arg, state, &o->trials); return 0;
	case OPT_FAULTS: faults_list(); return 0;
	case OPT_SEVERITY: o->trials.severity = number_of(arg, 1, 10, state); return 0;
	case 't': o->trials.n = (int)number_of(arg, 1, 100000, state); return 0;
	case 'j': o->trials.jobs = (int)number_of(arg, 1, 256, state); return 0;
	case OPT_WARM: o->warm_s = number_of(arg, 1, 1e6, state); return 0;
	case OPT_WATCH: o->trials.watch_s = number_of(arg, 1, 1e6, state); return 0;
	case OPT_DURATIONS: o->durations = arg; return 0;
	case OPT_NATS: o->nats = arg; return 0;
	case OPT_LIFE: o->life_h = number_of(arg, 0.001, 10000, state); return 0;
	case 's': o->trials.seed = (uint64_t)number_of(arg, 0, 1e15, state); return 0;
	case ARGP_KEY_ARG: argp_error(state, "%s: no argument is known", arg); return 0;
	default: return job_parse(key, arg, state, o) && noise_parse(key, arg, state, o) ? ARGP_ERR_UNKNOWN : 0;
	}
}

static int work(struct options *o)
{
	struct run r;
	int err;

	if (o->life_h && o->trials.seed % 2) /* half of all jobs have a last stage with more to do (F16) */
		o->shape.last_stage_factor = HEAVY_STAGE;
	err = run_init(&r, &o->shape, &o->noise, o->rate, o->trials.seed);
	if (err) {
		fprintf(stderr, "sim cluster: %s\n", strerror(-err));
		return EXIT_FAILED;
	}
	r.hub_late_s = o->hub_late_s;
	err = o->nats ? publish_run(&r, &o->trials, o->nats, o->warm_s) : run_until(&r, o->warm_s);
	if (!err && !o->nats)
		err = o->life_h ? life_run(&r, o->life_h * 3600) : trials_run(&r, &o->trials);
	run_free(&r);
	if (err)
		fprintf(stderr, "sim cluster: %s\n",
			err == -EPROTO ? "the hub's library refused a message: a mistake of the simulator"
				       : strerror(-err));
	return err ? EXIT_FAILED : 0;
}

static int durations_work(const char *path)
{
	int err = durations_judge(path);

	if (err)
		fprintf(stderr, "sim cluster: %s: %s\n", path,
			err == -EINVAL ? "a line is not SECOND RANK COMM NRANKS ENDED ENDED_NS ERROR_NS RECVS RECVS_NS"
				       : strerror(-err));
	return err ? EXIT_FAILED : 0;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = option_parse,
		.doc = "Simulates a training job of thousands of ranks, what the agents of its hosts report, and has "
		       "the hub's library judge it, in scripted time. Facts on stdout, a JSON object a line.",
	};
	struct options o = { .ranks = 10240,
			     .shape = { 8, 16, 0, 16, 2, 0.03, 0.5, 1.05 },
			     .noise = { .skew_s = 0.01, .drift = 20e-6, .error_s = 1e-3 },
			     .trials = { .n_kinds = 1,
					 .severity = 1.1,
					 .n = 1,
					 .jobs = 2,
					 .watch_s = 12,
					 .seed = 1,
					 .skew_s = 0.01 },
			     .warm_s = 60,
			     .rate = 1 };

	argp_err_exit_status = EXIT_BAD_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &o))
		return EXIT_BAD_USAGE;
	if (o.durations)
		return durations_work(o.durations);
	o.shape.dp = o.ranks / (o.shape.tp * o.shape.pp);
	if (o.shape.dp < 1 || o.shape.dp * o.shape.tp * o.shape.pp != o.ranks || o.ranks % PER_HOST) {
		fprintf(stderr, "sim cluster: %d ranks are no multiple of tp %d x pp %d, or of 8 a host\n", o.ranks,
			o.shape.tp, o.shape.pp);
		return EXIT_BAD_USAGE;
	}
	return work(&o);
}
