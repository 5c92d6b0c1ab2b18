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
#include "tools/stress/confirm/confirm.h"
#include "tools/stress/nccl/collective.h"
#include "tools/stress/nccl/member.h"
#include "tools/stress/verbs/rdma.h"
#include "tools/stress/run.h"
#include "tools/stress/trace/trace.h"
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
	OPT_AGAIN,
	OPT_SELF_TEST,
	OPT_COLLECTIVES,
	OPT_TYPES,
	OPT_BYTES,
	OPT_ITERATIONS,
	OPT_SKIP,
	OPT_PLACE,
	OPT_SPLIT,
	OPT_BISECT,
	OPT_HOST,
	OPT_NCCL,
	OPT_LIMIT,
	OPT_SHAPES,
	OPT_OPERATIONS,
	OPT_MEASURES,
	OPT_DEVICES,
	OPT_HOSTS,
	OPT_GID_INDEX,
	OPT_NO_GPUS,
	OPT_VERBS,
	OPT_QUICK,
	OPT_FULL,
	OPT_QUIET,
	OPT_HTML,
	OPT_LINES,
	OPT_CONFIRM,
	OPT_TRACE,
};

#define SIZE_MIN 64
#define SIZE_MAX_TESTED 16000 /* sums stay finite in fp16: numbers.h */
#define SIZE_STEP 64
#define P2P_BYTES_MIN 65536
#define GIVEN_MAX 64
#define RDMA_BYTES_MAX (1u << 30)
#define GID_INDEX_MAX 255

struct stress_args {
	const char *test;
	struct stress_options options;
	bool timed, sized;
	const struct argp_option *given[GIVEN_MAX];
	int n_given;
	bool full;
	const char *confirm, *trace;
	struct confirmation confirmation;
};

static const struct argp_option stress_options[] = {
	{ "gpus", OPT_GPUS, "LIST", 0,
	  "CUDA's numbers, as 0,2-3, or a UUID or PCI address (all); inventory: it has to be there", HELP_WHAT },
	{ "only", OPT_ONLY, "LIST", 0, "gpu: of fp64,fp32,tf32,bf16,fp16,fp8,int8,memory (all)", HELP_WHAT },
	{ "time", 't', "TIME", 0,
	  "how long, as 90, 15m, 24h (gpu: 60 s; nccl, p2p: each once; rdma: each measurement, 0.25 s)", HELP_WHAT },
	{ "size", OPT_SIZE, "N", 0, "gpu: of the matrices, a multiple of 64 (8192)", HELP_WHAT },
	{ "memory", OPT_MEMORY, "PERCENT", 0, "gpu: of free memory under test (90)", HELP_WHAT },
	{ "collectives", OPT_COLLECTIVES, "LIST", 0,
	  "nccl: of all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall, sendrecv, with a comma "
	  "between (all)",
	  HELP_WHAT },
	{ "types", OPT_TYPES, "LIST", 0,
	  "nccl: of fp32, bf16, fp16, fp64, fp8e4m3, fp8e5m2, int8, uint8, int32, uint32, int64, uint64, all "
	  "(fp32,bf16)",
	  HELP_WHAT },
	{ "bytes", OPT_BYTES, "FROM-TO:FACTOR", 0,
	  "nccl, p2p, rdma: sizes, as 1M, 1K-1G, 8-128M:2 (1M-1G:4; p2p: 512M, rdma: of a message, 64K)", HELP_WHAT },
	{ "iterations", OPT_ITERATIONS, "N", 0,
	  "nccl, rdma: timed operations of a case (20), round trips of a latency (1000)", HELP_WHAT },
	{ "skip", OPT_SKIP, "N", 0, "nccl: operations before these, which are not timed (5)", HELP_WHAT },
	{ "place", OPT_PLACE, "in|out|both", 0, "nccl: receive where the operands are, elsewhere (both)", HELP_WHAT },
	{ "split", OPT_SPLIT, "rails|inside", 0,
	  "nccl: groups of the GPUs of one number of all hosts, or of each host by itself", HELP_WHAT },
	{ "bisect", OPT_BISECT, 0, 0, "nccl: which hosts are bad, by groups of hosts that run one case side by side",
	  HELP_WHAT },
	{ "host", OPT_HOST, "ADDRESS[:PORT]", 0, "nccl, rdma: where rank 0 is, if the launcher does not say",
	  HELP_WHAT },
	{ "nccl", OPT_NCCL, "FILE", 0, "nccl: libnccl, if it is not found by itself", HELP_WHAT },
	{ "shapes", OPT_SHAPES, "LIST", 0,
	  "rdma: of loopback, nic-to-nic, pair, ring, mesh: which ports have a link, with a comma between "
	  "(loopback,nic-to-nic)",
	  HELP_WHAT },
	{ "operations", OPT_OPERATIONS, "LIST", 0, "rdma: of write, read, send (all)", HELP_WHAT },
	{ "measures", OPT_MEASURES, "LIST", 0, "rdma: of bandwidth, latency, rate (all)", HELP_WHAT },
	{ "devices", OPT_DEVICES, "LIST", 0,
	  "rdma: mlx5_0,mlx5_1:1, which have to be up; ^mlx5_2: all but these (all that are up)", HELP_WHAT },
	{ "hosts", OPT_HOSTS, "LIST", 0, "rdma: as node1,node2[:PORT]: the same command on each of these", HELP_WHAT },
	{ "gid-index", OPT_GID_INDEX, "N", 0, "rdma: of RoCE ports (RoCE v2, IPv4 before IPv6)", HELP_WHAT },
	{ "no-gpus", OPT_NO_GPUS, 0, 0, "rdma: no memory of GPUs", HELP_WHAT },
	{ "verbs", OPT_VERBS, "FILE", 0, "rdma: libibverbs, if it is not found by itself", HELP_WHAT },
	{ "limit", OPT_LIMIT, "TIME", 0,
	  "nccl, rdma: after which an operation hangs, or a rank is missing (60 s; rdma: 20 s)", HELP_LIMITS },
	{ "quick", OPT_QUICK, 0, 0, "all: 45 s at most: few types, sizes and patterns", HELP_WHAT },
	{ "full", OPT_FULL, 0, 0, "all: each test whole; --time is that of stress gpu (5 m)", HELP_WHAT },
	{ "confirm", OPT_CONFIRM, "FILE[#ID]", 0,
	  "the test that would confirm a finding of ranktrace (JSON lines; the last one, or ID), where it is",
	  HELP_WHAT },
	{ "seed", OPT_SEED, "N", 0, "of the random operands (1)", HELP_WHAT },
	{ "force", OPT_FORCE, 0, 0, "test a GPU or port that others use, too", HELP_WHAT },
	{ "cublaslt", OPT_CUBLASLT, "FILE", 0, "gpu: libcublasLt, if it is not found by itself", HELP_WHAT },
	{ "json", OPT_JSON, 0, 0, "JSON lines", HELP_OUTPUT },
	{ "trace", OPT_TRACE, "FILE.pftrace", 0,
	  "nccl: record the test, too (root): its timeline, FILE.rtr, and whether each operation is in it",
	  HELP_OUTPUT },
	{ "html", OPT_HTML, "FILE", 0, "all: the report as a page of one file", HELP_OUTPUT },
	{ "lines", OPT_LINES, "FILE", 0, "all: the JSON lines, besides what is printed", HELP_OUTPUT },
	{ "quiet", OPT_QUIET, 0, 0, "all: print a line a fault, and nothing if there is none", HELP_OUTPUT },
	{ "log", OPT_LOG, "FILE", 0, "gpu: append what was measured and found, so that a long run can be resumed",
	  HELP_OUTPUT },
	{ "resume", OPT_RESUME, 0, 0, "gpu: go on with the run in --log", HELP_OUTPUT },
	{ "save-baseline", OPT_SAVE_BASELINE, "FILE", 0, "write the rates of a run that passed", HELP_OUTPUT },
	{ "baseline", OPT_BASELINE, "FILE", 0, "least rates: 92 % of these, in place of the table", HELP_LIMITS },
	{ "again", OPT_AGAIN, "N", 0, "times at most to measure again what is below its least rate (4)", HELP_LIMITS },
	{ "inject", OPT_INJECT, "FAULT", 0,
	  "gpu, p2p: a fault on purpose, as flip:gpu=0,row=5,col=7,bit=0[,always], mem:gpu=0,at=4096,bit=3, or (p2p) "
	  "nopeer:gpu=0,to=1",
	  HELP_LIMITS },
	{ "self-test", OPT_SELF_TEST, "N", OPTION_ARG_OPTIONAL,
	  "gpu: flip bits on each GPU, N times (3): is each found where it is?", HELP_LIMITS },
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

/* The last one given holds: a user's overrides a finding's. */
static void gpus_take(struct argp_state *state, const char *arg, struct stress_options *o)
{
	o->gpus = 0;
	o->gpu = strchr(arg, ':') || !strncasecmp(arg, "GPU-", 4) || !strncasecmp(arg, "MIG-", 4) ? arg : NULL;
	if (!o->gpu && gpus_parse(arg, &o->gpus))
		argp_error(state, "--gpus: '%s' is no list of numbers below %d: 0,2-3", arg, STRESS_GPUS_MAX);
}

static void list_take(struct argp_state *state, int key, const char *arg, struct stress_options *o)
{
	if (key == 't' && time_parse(arg, &o->time_ns))
		argp_error(state, "--time: '%s' is no time: 90, 90s, 15m, 24h", arg);
	if (key == OPT_GPUS)
		gpus_take(state, arg, o);
	if (key == OPT_ONLY && measures_parse(arg, &o->measures))
		argp_error(state, "--only: '%s' is none of fp64,fp32,tf32,bf16,fp16,fp8,int8,memory", arg);
	if (key == OPT_INJECT && inject_parse(arg, &o->inject))
		argp_error(state,
			   "--inject: '%s' is none of flip:gpu=0,row=5,col=7,bit=0[,always], mem:gpu=0,at=4096,bit=3 "
			   "and nopeer:gpu=0,to=1",
			   arg);
}

/* "gpu, nccl" */
static const char *test_names(void)
{
#define STRESS(id, name, help) ", " name
	static const char names[] =
#include "tools/stress/tests.def"
		"";
#undef STRESS

	return names + 2;
}

static void nccl_take(struct argp_state *state, int key, const char *arg, struct nccl_options *o)
{
	if (key == OPT_COLLECTIVES && collectives_parse(arg, &o->collectives))
		argp_error(state,
			   "--collectives: '%s' is none of all_reduce,all_gather,reduce_scatter,broadcast,reduce,"
			   "alltoall,sendrecv",
			   arg);
	if (key == OPT_TYPES && types_parse(arg, &o->types))
		argp_error(state,
			   "--types: '%s' is none of fp32,bf16,fp16,fp64,fp8e4m3,fp8e5m2,int8,uint8,int32,uint32,"
			   "int64,uint64",
			   arg);
	if (key == OPT_BYTES && bytes_parse(arg, o))
		argp_error(state, "--bytes: '%s' is no FROM-TO:FACTOR, as 1M, 1K-1G, 8-128M:2", arg);
	if (key == OPT_LIMIT && time_parse(arg, &o->limit_ns))
		argp_error(state, "--limit: '%s' is no time: 90, 90s, 15m", arg);
	if (key == OPT_PLACE && strcmp(arg, "in") && strcmp(arg, "out") && strcmp(arg, "both"))
		argp_error(state, "--place: '%s' is not in, out or both", arg);
	if (key == OPT_SPLIT && strcmp(arg, "rails") && strcmp(arg, "inside"))
		argp_error(state, "--split: '%s' is not rails or inside", arg);
	if (key == OPT_PLACE) {
		o->in_place = strcmp(arg, "out");
		o->out_of_place = strcmp(arg, "in");
	}
	if (key == OPT_SPLIT)
		o->split = strcmp(arg, "rails") ? SPLIT_INSIDE : SPLIT_RAILS;
}

/* "nccl, rdma: what it is" is of these two; a line that begins with no test is of all. */
static bool is_of(const struct argp_option *option, const char *test)
{
	const char *end = strstr(option->doc, ": ");
	char tests[64], *rest = tests, *word;
	bool found = false;

	if (!end || end - option->doc >= (int)sizeof(tests))
		return true;
	snprintf(tests, sizeof(tests), "%.*s", (int)(end - option->doc), option->doc);
	while ((word = strsep(&rest, ","))) {
		word += strspn(word, " ");
		if (!stress_find(word))
			return true;
		found |= !strcmp(word, test);
	}
	return found;
}

static void owners_check(struct argp_state *state, const struct stress_args *a)
{
	for (int i = 0; i < a->n_given; i++)
		if (!is_of(a->given[i], a->test))
			argp_error(state, "--%s is an option of stress %.*s", a->given[i]->name,
				   (int)strcspn(a->given[i]->doc, ":"), a->given[i]->doc);
}

static bool is_given(const struct stress_args *a, int key)
{
	bool found = false;

	for (int i = 0; i < a->n_given; i++)
		found |= a->given[i]->key == key;
	return found;
}

static void nccl_check(struct argp_state *state, struct stress_args *a)
{
	struct nccl_options *o = &a->options.nccl;

	if (o->bisect && o->split)
		argp_error(state, "--bisect finds hosts, --split says which layer: one after the other");
	if (o->bisect && (a->options.baseline || a->options.save_baseline))
		argp_error(state, "--bisect compares groups of hosts with each other, a baseline is of all ranks: run "
				  "stress nccl with it, without --bisect");
	if (!o->out_of_place && !(o->collectives & 0x1f))
		argp_error(state, "--place in: alltoall and sendrecv cannot be in place");
	if (!a->timed)
		a->options.time_ns = 0; /* each case once */
}

static void p2p_check(struct argp_state *state, struct stress_args *a)
{
	if (a->options.inject.kind && a->options.inject.kind != INJECT_NO_PEER)
		argp_error(state, "--inject: of stress p2p is nopeer:gpu=0,to=1 alone");
	if (!a->timed)
		a->options.time_ns = 0; /* each link once */
	if (a->sized)
		a->options.p2p_bytes = a->options.nccl.bytes_max & ~4095ull;
	if (a->sized && a->options.p2p_bytes < P2P_BYTES_MIN)
		argp_error(state, "--bytes: at least %d for stress p2p", P2P_BYTES_MIN);
}

/* Its sizes, times and limits are those that all share, with defaults of its own. */
static void rdma_check(struct argp_state *state, struct stress_args *a)
{
	struct rdma_options *o = &a->options.rdma;

	if (a->sized && (a->options.nccl.bytes_max > RDMA_BYTES_MAX || a->options.nccl.bytes_max < 1))
		argp_error(state, "--bytes: from 1 to %u for stress rdma", RDMA_BYTES_MAX);
	if (a->sized)
		o->bytes = a->options.nccl.bytes_max;
	if (a->timed)
		o->time_ns = a->options.time_ns;
	if (is_given(a, OPT_ITERATIONS))
		o->iterations = a->options.nccl.iterations;
	if (is_given(a, OPT_LIMIT))
		o->limit_ns = a->options.nccl.limit_ns;
	if (o->hosts && a->options.nccl.host)
		argp_error(state, "--hosts names where rank 0 is, too: leave --host out");
}

static void all_check(struct argp_state *state, struct stress_args *a)
{
	struct all_options *o = &a->options.all;

	if (a->trace)
		argp_error(state, "--trace is an option of stress nccl");
	if (o->quick == a->full)
		argp_error(state, "how thorough? --quick (45 s) or --full");
	if (a->options.baseline || a->options.save_baseline || a->options.log)
		argp_error(state, "baselines and --log are of one test: run stress gpu, p2p, nccl or rdma with them");
	if (o->quiet && a->options.json)
		argp_error(state, "--quiet prints faults as text, --json everything: one of them");
	o->timed = a->timed;
	o->sized = a->sized;
}

static void args_check(struct argp_state *state, struct stress_args *a)
{
	const struct stress_options *o = &a->options;

	if (!a->test && a->confirm)
		return; /* the finding says */
	if (!a->test)
		argp_error(state, "which test? %s", test_names());
	if (!strcmp(a->test, "all")) { /* lint: argp_error() does not return */
		all_check(state, a);
		return;
	}
	owners_check(state, a);
	if (!strcmp(a->test, "rdma")) {
		rdma_check(state, a);
		return;
	}
	if (!strcmp(a->test, "inventory") && (a->timed || a->sized))
		argp_error(state, "--time and --bytes are of tests: stress inventory uses no device");
	if (!strcmp(a->test, "nccl")) {
		nccl_check(state, a);
		return;
	}
	if (!strcmp(a->test, "p2p")) {
		p2p_check(state, a);
		return;
	}
	if (o->size % SIZE_STEP)
		argp_error(state, "--size: %u is no multiple of %d", o->size, SIZE_STEP);
	if (o->resume && !o->log)
		argp_error(state, "--resume: which run? it needs --log FILE");
	if (o->inject.kind == INJECT_NO_PEER)
		argp_error(state, "--inject: nopeer:... is of stress p2p");
	if (o->inject.kind == INJECT_FLIP && (o->inject.row >= o->size || o->inject.column >= o->size))
		argp_error(state, "--inject: row and column lie below %u (--size)", o->size);
}

static void given_note(struct stress_args *a, int key)
{
	const struct argp_option *option = stress_options;

	while (option->name && option->key != key)
		option++;
	if (option->name && a->n_given < GIVEN_MAX)
		a->given[a->n_given++] = option;
}

static void rdma_take(struct argp_state *state, int key, const char *arg, struct rdma_options *o)
{
	if (key == OPT_SHAPES && rdma_shapes_parse(arg, &o->shapes))
		argp_error(state, "--shapes: '%s' is none of loopback,nic-to-nic,pair,ring,mesh", arg);
	if (key == OPT_OPERATIONS && rdma_operations_parse(arg, &o->operations))
		argp_error(state, "--operations: '%s' is none of write,read,send", arg);
	if (key == OPT_MEASURES && rdma_measures_parse(arg, &o->measures))
		argp_error(state, "--measures: '%s' is none of bandwidth,latency,rate", arg);
	if (key == OPT_DEVICES)
		o->devices = arg;
	if (key == OPT_HOSTS)
		o->hosts = arg;
	if (key == OPT_VERBS)
		o->library = arg;
	if (key == OPT_GID_INDEX)
		o->gid_index = number_take(state, "gid-index", arg, 0, GID_INDEX_MAX);
	if (key == OPT_NO_GPUS)
		o->no_gpus = true;
}

static void all_take(int key, const char *arg, struct stress_args *a)
{
	struct all_options *o = &a->options.all;

	if (key == OPT_HTML)
		o->html = arg;
	if (key == OPT_LINES)
		o->lines = arg;
	o->quick |= key == OPT_QUICK;
	o->quiet |= key == OPT_QUIET;
	a->full |= key == OPT_FULL;
}

static void self_test_take(struct argp_state *state, const char *arg, struct stress_options *o)
{
	o->self_test = true;
	if (arg)
		o->self_tests = number_take(state, "self-test", arg, 1, 1000);
}

static error_t stress_option(int key, char *arg, struct argp_state *state)
{
	struct stress_args *a = state->input;
	struct stress_options *o = &a->options;

	given_note(a, key);
	switch (key) {
	case OPT_COLLECTIVES:
	case OPT_TYPES:
	case OPT_LIMIT:
	case OPT_PLACE:
	case OPT_SPLIT: nccl_take(state, key, arg, &o->nccl); return 0;
	case OPT_BYTES:
		a->sized = true;
		nccl_take(state, key, arg, &o->nccl);
		return 0;
	case OPT_ITERATIONS: o->nccl.iterations = number_take(state, "iterations", arg, 1, 100000); return 0;
	case OPT_SKIP: o->nccl.skip = number_take(state, "skip", arg, 0, 100000); return 0;
	case OPT_BISECT: o->nccl.bisect = true; return 0;
	case OPT_HOST: o->nccl.host = arg; return 0;
	case OPT_NCCL: o->nccl.library = arg; return 0;
	case OPT_SHAPES:
	case OPT_OPERATIONS:
	case OPT_MEASURES:
	case OPT_DEVICES:
	case OPT_HOSTS:
	case OPT_VERBS:
	case OPT_GID_INDEX:
	case OPT_NO_GPUS: rdma_take(state, key, arg, &o->rdma); return 0;
	case 't': a->timed = true; /* fallthrough */
	case OPT_GPUS:
	case OPT_ONLY:
	case OPT_INJECT: list_take(state, key, arg, o); return 0;
	case OPT_SIZE: o->size = number_take(state, "size", arg, SIZE_MIN, SIZE_MAX_TESTED); return 0;
	case OPT_MEMORY: o->memory_share = number_take(state, "memory", arg, 1, 95) / 100.0; return 0;
	case OPT_AGAIN: o->again = number_take(state, "again", arg, 0, JUDGE_TURNS - 1); return 0;
	case OPT_SEED: o->seed = number_take(state, "seed", arg, 0, UINT32_MAX); return 0;
	case OPT_TRACE: a->trace = arg; return 0;
	case OPT_CONFIRM: a->confirm = arg; return 0;
	case OPT_QUICK:
	case OPT_FULL:
	case OPT_QUIET:
	case OPT_HTML:
	case OPT_LINES: all_take(key, arg, a); return 0;
	case OPT_FORCE: o->force = true; return 0;
	case OPT_JSON: o->json = true; return 0;
	case OPT_BASELINE: o->baseline = arg; return 0;
	case OPT_SAVE_BASELINE: o->save_baseline = arg; return 0;
	case OPT_LOG: o->log = arg; return 0;
	case OPT_RESUME: o->resume = true; return 0;
	case OPT_CUBLASLT: o->cublaslt = arg; return 0;
	case OPT_SELF_TEST: self_test_take(state, arg, o); return 0;
	case ARGP_KEY_ARG:
		if (a->test || !stress_find(arg))
			argp_error(state, "'%s' is no test; there are: %s", arg, test_names());
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

#define WORDS_MAX 64

/* The command line that the finding asks for: its test's, then what the user gave, which overrides. */
static int confirm_line(const struct confirmation *c, int argc, char **argv, char *words[WORDS_MAX])
{
	char *text = strdup(c->command), *rest = text;
	int n = 0;

	if (!text)
		abort();
	words[n++] = argv[0];
	while (rest && n < WORDS_MAX / 2)
		words[n++] = strsep(&rest, " ");
	if (c->one && c->gpu[0]) {
		words[n++] = "--gpus";
		words[n++] = (char *)c->gpu;
	}
	for (int i = 1; i < argc && n < WORDS_MAX - 1; i++)
		if (!strcmp(argv[i], "--confirm"))
			i++;
		else if (strncmp(argv[i], "--confirm=", 10))
			words[n++] = argv[i];
	words[n] = NULL;
	return n;
}

static int test_run(const struct stress_args *a, struct stress_result *result)
{
	enum report_mode mode = a->options.json ? REPORT_JSON : isatty(STDOUT_FILENO) ? REPORT_TERMINAL : REPORT_PLAIN;
	int status = a->options.self_test ? stress_self_test(&a->options, result)
					  : stress_run_test(a->test, &a->options, mode, result);

	if (result->why[0])
		log_error("stress %s: %s", a->test, result->why);
	if (a->confirmation.command)
		confirm_say(&a->confirmation, status, result, mode);
	return status;
}

int cmd_stress(int argc, char **argv)
{
	static const struct argp argp = { stress_options, stress_option, NULL, NULL, NULL, NULL, NULL };
	static const struct help help = {
		"stress", "all|gpu|inventory|nccl|p2p|rdma [OPTIONS]\n--confirm FILE[#ID] [OPTIONS]",
		"Active tests: they use the devices fully, and fail on a bad one. gpu: all GPUs at once, each "
		"result of matrix multiplications compared bit by bit, memory patterns, rates, health. p2p: links "
		"between the GPUs of this host and to its memory, the odd one named. nccl: collectives over all GPUs "
		"of this host, or of many under torchrun, mpirun or srun, each element checked, and whose fault a "
		"wrong or missing one is. rdma: write, read and send over the ports of this host, or of "
		"many, data checked, the port or link that is slow, loses packets or is not set as the others named. "
		"inventory: versions, and who holds a GPU. all: these one after the other, "
		"one report. Never changes clocks, power or modes. Exit status 0: all passed; 1: a "
		"device failed, named; 2: usage; 3: not possible here, or a GPU is in use."
	};
	static struct stress_result result;
	struct stress_args a = { .options = STRESS_DEFAULTS };
	const char *member = getenv(MEMBER_VARIABLE);
	char *words[WORDS_MAX], why[LIBRARY_WHY] = "";

	if (member)
		return member_main(member);
	command_line_parse(&argp, &help, argc, argv, 0, &a);
	if (a.confirm && !a.test) {
		struct confirmation c;

		if (confirm_find(a.confirm, a.options.force, &c, why)) {
			log_error("stress %s", why);
			return STRESS_USAGE;
		}
		a = (struct stress_args){ .options = STRESS_DEFAULTS, .confirmation = c };
		argc = confirm_line(&a.confirmation, argc, argv, words);
		command_line_parse(&argp, &help, argc, words, 0, &a);
	}
	/* what is given by hand overrides it */
	a.options.gpu_was_there = a.options.gpu && !strcmp(a.options.gpu, a.confirmation.gpu);
	if (a.trace)
		return trace_run(a.trace, argc, argv, a.options.json);
	signals_take();
	return test_run(&a, &result);
}
