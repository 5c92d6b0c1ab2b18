/* SPDX-License-Identifier: Apache-2.0
 *
 * stress.c - `ranktrace stress TEST`: the active tests of tools/stress.
 */
#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/help.h"
#include "command.h"
#include "tools/stress/run.h"
#include "tools/stress/stress.h"

enum {
	OPT_GPUS = 1000,
	OPT_ONLY,
	OPT_SIZE,
	OPT_MEMORY,
	OPT_FORCE,
	OPT_JSON,
	OPT_BASELINE,
	OPT_SAVE_BASELINE,
	OPT_LOG,
	OPT_RESUME,
	OPT_SEED,
	OPT_CUBLASLT,
	OPT_INJECT,
	OPT_SELF_TEST,
};

#define SIZE_MIN 64
#define SIZE_MAX_TESTED 16000 /* sums stay finite in fp16: numbers.h */
#define SIZE_STEP 64

struct stress_args {
	const char *test;
	struct stress_options options;
};

static const struct argp_option stress_options[] = {
	{ "gpus", OPT_GPUS, "LIST", 0, "CUDA's numbers, as 0,2-3 (all)", HELP_WHAT },
	{ "only", OPT_ONLY, "LIST", 0, "of fp64,fp32,tf32,bf16,fp16,fp8,int8,memory (all)", HELP_WHAT },
	{ "time", 't', "TIME", 0, "how long, as 90, 15m, 24h (60 s)", HELP_WHAT },
	{ "size", OPT_SIZE, "N", 0, "of the matrices, a multiple of 64 (8192)", HELP_WHAT },
	{ "memory", OPT_MEMORY, "PERCENT", 0, "of free memory under test (90)", HELP_WHAT },
	{ "seed", OPT_SEED, "N", 0, "of the random operands (1)", HELP_WHAT },
	{ "force", OPT_FORCE, 0, 0, "test a GPU that others use, too", HELP_WHAT },
	{ "cublaslt", OPT_CUBLASLT, "FILE", 0, "libcublasLt, if it is not found by itself", HELP_WHAT },
	{ "json", OPT_JSON, 0, 0, "JSON lines", HELP_OUTPUT },
	{ "log", OPT_LOG, "FILE", 0, "append what was measured and found, so that a long run can be resumed",
	  HELP_OUTPUT },
	{ "resume", OPT_RESUME, 0, 0, "go on with the run in --log", HELP_OUTPUT },
	{ "save-baseline", OPT_SAVE_BASELINE, "FILE", 0, "write the rates of a run that passed", HELP_OUTPUT },
	{ "baseline", OPT_BASELINE, "FILE", 0, "least rates: 92 % of these, in place of the table", HELP_LIMITS },
	{ "inject", OPT_INJECT, "FAULT", 0,
	  "a fault on purpose, as flip:gpu=0,row=5,col=7,bit=0[,always] or mem:gpu=0,at=4096,bit=3", HELP_LIMITS },
	{ "self-test", OPT_SELF_TEST, "N", OPTION_ARG_OPTIONAL,
	  "flip bits on each GPU, N times (3): is each found where it is?", HELP_LIMITS },
	{ 0 },
};

static uint64_t number_take(struct argp_state *state, const char *name, const char *arg, uint64_t least, uint64_t most)
{
	char *end;
	uint64_t n = strtoull(arg, &end, 0);

	if (end == arg || *end || *arg == '-' || n < least || n > most)
		argp_error(state, "--%s: '%s' is not a number from %llu to %llu", name, arg, (unsigned long long)least,
			   (unsigned long long)most);
	return n;
}

static void list_take(struct argp_state *state, int key, const char *arg, struct stress_options *o)
{
	if (key == 't' && time_parse(arg, &o->time_ns))
		argp_error(state, "--time: '%s' is no time: 90, 90s, 15m, 24h", arg);
	if (key == OPT_GPUS && gpus_parse(arg, &o->gpus))
		argp_error(state, "--gpus: '%s' is no list of numbers below %d: 0,2-3", arg, STRESS_GPUS_MAX);
	if (key == OPT_ONLY && measures_parse(arg, &o->measures))
		argp_error(state, "--only: '%s' is none of fp64,fp32,tf32,bf16,fp16,fp8,int8,memory", arg);
	if (key == OPT_INJECT && inject_parse(arg, &o->inject))
		argp_error(state,
			   "--inject: '%s' is neither flip:gpu=0,row=5,col=7,bit=0[,always] nor "
			   "mem:gpu=0,at=4096,bit=3",
			   arg);
}

static void args_check(struct argp_state *state, const struct stress_args *a)
{
	const struct stress_options *o = &a->options;

	if (!a->test)
		argp_error(state, "which test? ranktrace stress gpu");
	if (o->size % SIZE_STEP)
		argp_error(state, "--size: %u is no multiple of %d", o->size, SIZE_STEP);
	if (o->resume && !o->log)
		argp_error(state, "--resume: which run? it needs --log FILE");
	if (o->inject.kind == INJECT_FLIP && (o->inject.row >= o->size || o->inject.column >= o->size))
		argp_error(state, "--inject: row and column lie below %u (--size)", o->size);
}

static error_t stress_option(int key, char *arg, struct argp_state *state)
{
	struct stress_args *a = state->input;
	struct stress_options *o = &a->options;

	switch (key) {
	case 't':
	case OPT_GPUS:
	case OPT_ONLY:
	case OPT_INJECT: list_take(state, key, arg, o); return 0;
	case OPT_SIZE: o->size = number_take(state, "size", arg, SIZE_MIN, SIZE_MAX_TESTED); return 0;
	case OPT_MEMORY: o->memory_share = number_take(state, "memory", arg, 1, 95) / 100.0; return 0;
	case OPT_SEED: o->seed = number_take(state, "seed", arg, 0, UINT32_MAX); return 0;
	case OPT_FORCE: o->force = true; return 0;
	case OPT_JSON: o->json = true; return 0;
	case OPT_BASELINE: o->baseline = arg; return 0;
	case OPT_SAVE_BASELINE: o->save_baseline = arg; return 0;
	case OPT_LOG: o->log = arg; return 0;
	case OPT_RESUME: o->resume = true; return 0;
	case OPT_CUBLASLT: o->cublaslt = arg; return 0;
	case OPT_SELF_TEST:
		o->self_test = true;
		if (arg)
			o->self_tests = number_take(state, "self-test", arg, 1, 1000);
		return 0;
	case ARGP_KEY_ARG:
		if (a->test || !stress_find(arg))
			argp_error(state, "'%s' is no test; there is: gpu", arg);
		a->test = arg;
		return 0;
	case ARGP_KEY_END: args_check(state, a); return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static void signal_note(int signal)
{
	run_signal = signal;
}

/* The second one ends the process at once, as by default. */
static void signals_take(void)
{
	struct sigaction action = { .sa_handler = signal_note, .sa_flags = SA_RESETHAND };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN); /* standard output is checked at the end */
}

int cmd_stress(int argc, char **argv)
{
	static const struct argp argp = { stress_options, stress_option, NULL, NULL, NULL, NULL, NULL };
	static const struct help help = {
		"stress", "gpu [OPTIONS]",
		"Active tests: they use the devices fully, and fail on a bad one. gpu: all GPUs at once, each "
		"result of matrix multiplications compared bit by bit, memory patterns, rates, health. Never changes "
		"clocks, power or modes. Exit status 0: all passed; 1: a device failed, named; 2: usage; 3: not "
		"possible here, or a GPU is in use."
	};
	static struct stress_result result;
	struct stress_args a = { .options = STRESS_DEFAULTS };
	enum report_mode mode;
	int status;

	command_line_parse(&argp, &help, argc, argv, 0, &a);
	mode = a.options.json ? REPORT_JSON : isatty(STDOUT_FILENO) ? REPORT_TERMINAL : REPORT_PLAIN;
	signals_take();
	status = a.options.self_test ? stress_self_test(&a.options, &result)
				     : stress_find(a.test)(&a.options, mode, &result);
	if (result.why[0])
		log_error("stress %s: %s", a.test, result.why);
	return status;
}
