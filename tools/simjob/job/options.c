// SPDX-License-Identifier: Apache-2.0
/*
 * Command line. A usage error names the object, the cause and the remedy and ends with status 2, as all of ranktrace.
 */
#include "tools/simjob/job/injection.h"

#include <argp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum option_key {
	OPT_RANKS = 256,
	OPT_STEPS,
	OPT_SEED,
	OPT_LOG,
	OPT_LAYOUT,
	OPT_STEP_MS,
	OPT_HOST_MS,
	OPT_BUCKETS,
	OPT_LAYERS,
	OPT_MICROBATCHES,
	OPT_FAULT,
	OPT_FAULT_LOG,
	OPT_WATCHDOG_SEC,
	OPT_POLL_HZ,
	OPT_LINGER_SEC,
	OPT_DATALOADER,
	OPT_NO_DATALOADER,
	OPT_WORKERS,
	OPT_TORCH,
	OPT_SCRIPT_RANGES,
	OPT_STEP_LOG,
	OPT_SCRATCH,
	OPT_SYNC,
	OPT_GRAPH,
	OPT_TIMING,
	OPT_EXPANDABLE_SEGMENTS,
	OPT_CUDA_EVENTS,
	OPT_ZERO,
	OPT_SHARDED,
	OPT_EXTRA_OPS,
	OPT_JOB_ID,
	OPT_PORT,
	OPT_NCCL_LIB,
	OPT_NCCL_LIB2,
	OPT_RANK_EXE,
	OPT_RESULT,
	OPT_NET,
	OPT_NETNS,
	OPT_RANKS_PER_PROCESS,
	OPT_THREADS,
	OPT_START_FILE,
	OPT_LIFE,
	OPT_LIFE_SCALE,
	OPT_FAULT_ROW, /* and above: that many rows behind the first fault */
};

static const struct argp_option option_list[] = {
	{ "ranks", OPT_RANKS, "N", 0, "Number of ranks, a process each (default 8)", 0 },
	{ "steps", OPT_STEPS, "N", 0, "Number of training steps (default 100)", 0 },
	{ "seed", OPT_SEED, "N", 0, "Seed of jitter and of all that a fault leaves open (default 1)", 0 },
	{ "layout", OPT_LAYOUT, "SPEC", 0, "Parallel groups, as tp=2,dp=2,pp=2 (default dp=N)", 0 },
	{ "step-ms", OPT_STEP_MS, "MS", 0, "Modelled GPU compute time of a step (default 60)", 0 },
	{ "host-ms", OPT_HOST_MS, "MS", 0,
	  "CPU time that a rank's host spends on a step, spread over its launches, as Python does (default 0)", 0 },
	{ "buckets", OPT_BUCKETS, "N", 0, "Gradient buckets a step (default 4)", 0 },
	{ "layers", OPT_LAYERS, "N", 0, "Layers a pipeline stage (default 4)", 0 },
	{ "microbatches", OPT_MICROBATCHES, "N", 0, "Micro-batches a step (default 1, with pp > 1: 2 x pp)", 0 },
	{ "zero", OPT_ZERO, 0, 0, "ReduceScatter and AllGather instead of AllReduce for the gradients", 0 },
	{ "sharded", OPT_SHARDED, 0, 0,
	  "As FSDP: each layer's parameters are gathered before it runs, forward and backward, and its gradients "
	  "reduce-scattered behind its backward",
	  0 },
	{ "extra-ops", OPT_EXTRA_OPS, 0, 0, "Every few steps some of each other operation, and nested groups", 0 },
	{ "sync", OPT_SYNC, "MODE", 0,
	  "nan-check: the host waits for the gradients before they are communicated; step: it runs ahead to the "
	  "end of the step (default nan-check)",
	  0 },
	{ "graph", OPT_GRAPH, "PIECE", 0,
	  "CUDA graphs, after three eager steps: step (all but reading the loss is one graph) or layers (one each for "
	  "forward and backward of each layer)",
	  0 },
	{ "net", OPT_NET, "TRANSPORT", OPTION_ARG_OPTIONAL,
	  "The data of collectives go round a ring, moved by NCCL's proxy threads, as between nodes: over unix sockets "
	  "(default), tcp (NCCL_SOCKET_IFNAME chooses the interface) or verbs (RDMA; rank N takes the N-th device of "
	  "NCCL_IB_HCA)",
	  0 },
	{ "ranks-per-process", OPT_RANKS_PER_PROCESS, "N", 0,
	  "N ranks in a process, a GPU each: no RANK in the environment, no dataloader (default 1). How: --threads",
	  0 },
	{ "threads", OPT_THREADS, "each|one", OPTION_ARG_OPTIONAL,
	  "How the ranks of a process run: each in a thread of its own, as in JAX and nccl-tests -t N (default), or "
	  "one thread drives them all with ncclGroupStart and ncclGroupEnd around its calls, as nccl-tests -g N",
	  0 },
	{ "netns", OPT_NETNS, "PREFIX", 0, "Rank N runs in the network namespace PREFIXN (ip netns), a host of its own",
	  0 },
	{ "timing", OPT_TIMING, 0, 0,
	  "A start event for each operation and its duration asked for, as TORCH_NCCL_ENABLE_TIMING does", 0 },
	{ "cuda-events", OPT_CUDA_EVENTS, "N", 0,
	  "So many calls of cuEventRecord and cuStreamWaitEvent in each step more, as JAX makes them between its "
	  "streams (default 0)",
	  0 },
	{ "expandable-segments", OPT_EXPANDABLE_SEGMENTS, 0, 0,
	  "Grow device memory by mapping pages, as PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True does", 0 },
	{ "fault", OPT_FAULT, "NAME:KEY=VALUE,...", 0,
	  "Inject a fault; repeatable. The names are listed below, each with its keys; rank, step and op are drawn "
	  "from the seed when they are left out",
	  0 },
	{ "life", OPT_LIFE, "PHASES", OPTION_ARG_OPTIONAL,
	  "Phases of a healthy job's life come again and again, drawn from the seed: all, or those named, between "
	  "commas: elastic, abort, evaluation, checkpoint, epoch, recompile, long_step, accumulation, collection, "
	  "experts",
	  0 },
	{ "life-scale", OPT_LIFE_SCALE, "X", 0, "They take X times as long (default 1: up to 150 s)", 0 },
	{ "log", OPT_LOG, "FILE", 0, "Write one JSON line per rank and operation", 0 },
	{ "result", OPT_RESULT, "FILE", 0,
	  "Write what the job has computed, one JSON line a rank: the same for the same seed and options, whatever the "
	  "timing",
	  0 },
	{ "start-file", OPT_START_FILE, "FILE", 0,
	  "Ranks wait for this file between mapping their libraries and the first call of them, as a slow import does",
	  0 },
	{ "fault-log", OPT_FAULT_LOG, "FILE", 0, "Write one JSON line for each beginning and end of a fault", 0 },
	{ "poll-hz", OPT_POLL_HZ, "HZ", 0, "The watchdog polls what is in flight that often in a second (default 10)",
	  0 },
	{ "watchdog-sec", OPT_WATCHDOG_SEC, "SEC", 0,
	  "An operation older than this makes its rank abort, as PyTorch's watchdog does (default 0: never)", 0 },
	{ "linger-sec", OPT_LINGER_SEC, "SEC", 0,
	  "Time for which the others live on after a rank has died (default 0; 60 with a fault that ends a rank)", 0 },
	{ "dataloader", OPT_DATALOADER, 0, 0, "Feed each rank from a child process (default)", 0 },
	{ "no-dataloader", OPT_NO_DATALOADER, 0, 0, "Make batches in the rank itself", 0 },
	{ "workers", OPT_WORKERS, "N", 0, "Child processes that feed each rank in turns (default 1)", 0 },
	{ "torch", OPT_TORCH, 0, 0,
	  "Map a stand-in for libtorch_cpu.so and call what PyTorch calls around the phases of a step", 0 },
	{ "script-ranges", OPT_SCRIPT_RANGES, "N", 0,
	  "So many ranges of the script's own in each step; implies --torch (default 0)", 0 },
	{ "step-log", OPT_STEP_LOG, "FILE", 0,
	  "Write one JSON line per rank and step: how long it was in each phase; implies --torch", 0 },
	{ "scratch", OPT_SCRATCH, "DIR", 0,
	  "Existing directory for checkpoints, and mount point of the frozen file system, in a mount namespace of "
	  "the job's own (default /tmp and /mnt)",
	  0 },
	{ "job-id", OPT_JOB_ID, "ID", 0, "TORCHELASTIC_RUN_ID (default simjob-PID)", 0 },
	{ "port", OPT_PORT, "N", 0, "MASTER_PORT (default 29500)", 0 },
	{ "nccl-lib", OPT_NCCL_LIB, "FILE", 0, "Another build of the libnccl stand-in", 0 },
	{ "nccl-lib2", OPT_NCCL_LIB2, "FILE", 0,
	  "A second copy of libnccl in each rank, in which the data-parallel groups are", 0 },
	{ "rank-exe", OPT_RANK_EXE, "FILE", 0, "Another build of this binary for the ranks, as simjob-static", 0 },
	{ "quiet", 'q', 0, 0, "No progress and no summary", 0 },
	{ 0 },
};

__attribute__((noreturn, format(printf, 1, 2))) static void usage_error(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "simjob: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, " (simjob --help lists the options)\n");
	exit(2);
}

static double number_parse(const char *option, const char *text, double min, double max)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= min && value <= max))
		usage_error("--%s '%s': not a number from %g to %g", option, text, min, max);
	return value;
}

static int integer_parse(const char *option, const char *text, int min, int max)
{
	double value = number_parse(option, text, min, max);

	if (value != (int)value)
		usage_error("--%s '%s': not a whole number", option, text);
	return value;
}

static void layout_parse(struct options *options, const char *spec)
{
	char text[128], *rest = text, *pair;
	int *sizes[] = { &options->tp, &options->dp, &options->pp };
	static const char *const names[] = { "tp", "dp", "pp" };
	int i;

	snprintf(text, sizeof(text), "%s", spec);
	options->tp = options->pp = 1;
	options->dp = 0;
	while ((pair = strsep(&rest, ","))) {
		char *value = strchr(pair, '=');

		if (value)
			*value++ = '\0';
		for (i = 0; i < 3 && strcmp(pair, names[i]); i++)
			;
		if (i == 3 || !value)
			usage_error("--layout '%s': '%s' is not tp=N, dp=N or pp=N", spec, pair);
		*sizes[i] = integer_parse("layout", value, 1, MAX_RANKS);
	}
}

static void injection_add(struct options *options, const char *spec)
{
	char text[512];
	struct reason reason = { text, sizeof(text) };
	int index = options->nr_injections;

	if (index == MAX_INJECTIONS)
		usage_error("--fault '%s': more than %d faults; leave some out", spec, MAX_INJECTIONS);
	if (injection_parse(&options->injections[index], index, spec, &reason))
		usage_error("--fault '%s': %s", spec, text);
	options->nr_injections++;
}

static void life_parse(struct options *options, const char *phases)
{
	if (!options->life)
		injection_add(options, "life");
	options->life = phases ? phases : "";
}

static void sync_parse(struct options *options, const char *mode)
{
	if (!strcmp(mode, "step"))
		options->sync = SYNC_STEP;
	else if (!strcmp(mode, "nan-check"))
		options->sync = SYNC_NAN_CHECK;
	else
		usage_error("--sync '%s': neither nan-check nor step", mode);
}

static void graph_parse(struct options *options, const char *piece)
{
	if (!strcmp(piece, "step"))
		options->graph = GRAPH_STEP;
	else if (!strcmp(piece, "layers"))
		options->graph = GRAPH_LAYERS;
	else
		usage_error("--graph '%s': neither step nor layers", piece);
}

static void threads_parse(struct options *options, const char *which)
{
	options->threads_given = true;
	if (!which || !strcmp(which, "each"))
		options->threads = THREADS_EACH;
	else if (!strcmp(which, "one"))
		options->threads = THREADS_ONE;
	else
		usage_error("--threads='%s': neither each nor one", which);
}

static void net_parse(struct options *options, const char *transport)
{
	if (strcmp(transport, "unix") && strcmp(transport, "tcp") && strcmp(transport, "verbs"))
		usage_error("--net '%s': neither unix, tcp nor verbs", transport);
	options->net = transport;
}

static error_t parse_text_option(struct options *options, int key, char *arg)
{
	switch (key) {
	case OPT_LOG: options->log_path = arg; return 0;
	case OPT_FAULT_LOG: options->fault_log_path = arg; return 0;
	case OPT_STEP_LOG:
		options->step_log_path = arg;
		options->torch = true;
		return 0;
	case OPT_SCRATCH: options->scratch_dir = arg; return 0;
	case OPT_JOB_ID: options->job_id = arg; return 0;
	case OPT_NCCL_LIB: options->nccl_path = arg; return 0;
	case OPT_NCCL_LIB2: options->nccl_path2 = arg; return 0;
	case OPT_START_FILE: options->start_path = arg; return 0;
	case OPT_RESULT: options->result_path = arg; return 0;
	case OPT_RANK_EXE: options->rank_exe = arg; return 0;
	case OPT_LAYOUT: layout_parse(options, arg); return 0;
	case OPT_FAULT: injection_add(options, arg); return 0;
	case OPT_LIFE: life_parse(options, arg); return 0;
	case OPT_GRAPH: graph_parse(options, arg); return 0;
	case OPT_NET: net_parse(options, arg ? arg : "unix"); return 0;
	case OPT_NETNS: options->netns = arg; return 0;
	case OPT_RANKS_PER_PROCESS:
		options->ranks_per_process = integer_parse("ranks-per-process", arg, 1, MAX_RANKS);
		return 0;
	case OPT_THREADS: threads_parse(options, arg); return 0;
	case OPT_SYNC: sync_parse(options, arg); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_flag_option(struct options *options, int key)
{
	switch (key) {
	case OPT_ZERO: options->zero = true; return 0;
	case OPT_SHARDED: options->sharded = true; return 0;
	case OPT_TIMING: options->timing = true; return 0;
	case OPT_EXPANDABLE_SEGMENTS: options->expandable_segments = true; return 0;
	case OPT_EXTRA_OPS: options->extra_ops = true; return 0;
	case OPT_DATALOADER:
	case OPT_NO_DATALOADER: options->dataloader = key == OPT_DATALOADER; return 0;
	case OPT_TORCH: options->torch = true; return 0;
	case 'q': options->quiet = true; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_number_option(struct options *options, int key, char *arg)
{
	switch (key) {
	case OPT_RANKS: options->nr_ranks = integer_parse("ranks", arg, 1, MAX_RANKS); return 0;
	case OPT_STEPS: options->nr_steps = integer_parse("steps", arg, 1, 1000000000); return 0;
	case OPT_SEED: options->seed = number_parse("seed", arg, 0, 9007199254740992.0); return 0;
	case OPT_STEP_MS: options->step_ms = number_parse("step-ms", arg, 0.1, 1e6); return 0;
	case OPT_HOST_MS: options->host_ms = number_parse("host-ms", arg, 0, 1e6); return 0;
	case OPT_BUCKETS: options->buckets = integer_parse("buckets", arg, 1, 64); return 0;
	case OPT_LAYERS: options->layers = integer_parse("layers", arg, 1, 256); return 0;
	case OPT_MICROBATCHES: options->microbatches = integer_parse("microbatches", arg, 1, 256); return 0;
	case OPT_WORKERS: options->workers = integer_parse("workers", arg, 1, MAX_WORKERS); return 0;
	case OPT_POLL_HZ: options->poll_hz = number_parse("poll-hz", arg, 0.1, 1e5); return 0;
	case OPT_WATCHDOG_SEC: options->watchdog_s = number_parse("watchdog-sec", arg, 0, 1e6); return 0;
	case OPT_LIFE_SCALE: options->life_scale = number_parse("life-scale", arg, 0.001, 100); return 0;
	case OPT_LINGER_SEC: options->linger_s = number_parse("linger-sec", arg, 0, 1e6); return 0;
	case OPT_CUDA_EVENTS: options->cuda_events = integer_parse("cuda-events", arg, 0, 10000000); return 0;
	case OPT_SCRIPT_RANGES:
		options->script_ranges = integer_parse("script-ranges", arg, 0, 1000000);
		options->torch = true;
		return 0;
	case OPT_PORT: options->port = integer_parse("port", arg, 1, 65535); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	if (key == ARGP_KEY_ARG)
		usage_error("'%s': there are only options", arg);
	if (parse_flag_option(options, key) == 0 || parse_text_option(options, key, arg) == 0)
		return 0;
	return parse_number_option(options, key, arg);
}

static void layout_check(struct options *options)
{
	int others = options->tp * options->pp;

	if (!options->dp && options->nr_ranks % others == 0)
		options->dp = options->nr_ranks / others;
	if (others * options->dp != options->nr_ranks)
		usage_error("--layout: tp=%d times dp=%d times pp=%d is not the number of ranks, %d; "
			    "make the product equal or leave dp out",
			    options->tp, options->dp, options->pp, options->nr_ranks);
}

static void sharded_check(const struct options *options)
{
	if (options->sharded && options->dp == 1)
		usage_error("--sharded: the data-parallel group has one rank; give more ranks or another --layout");
	if (options->sharded && (options->graph || options->zero))
		usage_error("--sharded: not with --graph or --zero; leave these out");
}

static void processes_check(struct options *options)
{
	if (options->ranks_per_process == 1 && options->threads_given)
		usage_error("--threads: a process has one rank; say --ranks-per-process=N, too");
	if (options->ranks_per_process == 1)
		return;
	if (options->nr_ranks % options->ranks_per_process)
		usage_error("--ranks-per-process %d: %d ranks cannot be shared out; choose a divisor",
			    options->ranks_per_process, options->nr_ranks);
	if (options->netns || options->graph || options->net)
		usage_error("--ranks-per-process %d: not with --netns, --net or --graph; leave these out",
			    options->ranks_per_process);
	if (options->torch)
		usage_error("--ranks-per-process %d: PyTorch has a process for each rank; leave --torch and --step-log "
			    "out",
			    options->ranks_per_process);
	if (options->threads == THREADS_ONE && options->nccl_path2)
		usage_error("--threads=one: a group is of one libnccl; leave --nccl-lib2 out");
	options->dataloader = false;
}

static void netns_check(const struct options *options)
{
	if (options->netns && options->net && !strcmp(options->net, "unix"))
		usage_error("--netns '%s': sockets of --net=unix do not reach another network namespace; say --net=tcp",
			    options->netns);
}

static bool rank_is_taken(const struct options *options, int index, int rank)
{
	int i;

	for (i = 0; i < options->nr_injections; i++) {
		bool is_settled = i < index || (options->injections[i].given & KEY_RANK);

		if (i != index && is_settled && options->injections[i].rank == rank)
			return true;
	}
	return false;
}

/* Injections whose rank was left open strike different ranks, as long as there are some. */
static void rank_set_apart(struct options *options, struct injection *injection)
{
	int tries;

	if ((injection->given & KEY_RANK) || injection->rank < 0)
		return;
	for (tries = 0; tries < options->nr_ranks && rank_is_taken(options, injection->index, injection->rank); tries++)
		injection->rank = (injection->rank + 1) % options->nr_ranks;
}

static void injections_check(struct options *options)
{
	char text[512];
	struct reason reason = { text, sizeof(text) };
	bool ends_rank = false;
	int i;

	for (i = 0; i < options->nr_injections; i++) {
		struct injection *injection = &options->injections[i];

		if (injection_check(options, injection, &reason))
			usage_error("--fault %s: %s", injection->name, text);
		injection_draw(injection, options->seed, options->nr_ranks, options->nr_steps);
		rank_set_apart(options, injection);
		ends_rank |= injection->ends_rank;
	}
	if (options->linger_s < 0)
		options->linger_s = ends_rank ? 60 : 0;
}

#define NR_OPTIONS (sizeof(option_list) / sizeof(option_list[0]) - 1)

/* The options, and behind them a line for each fault. */
static const struct argp_option *options_with_faults(void)
{
	/* lint: added to NULL, and not used */
	struct argp_option *all = calloc(NR_OPTIONS + 1 + nr_fault_rows + 1, sizeof(*all)), *next = all + NR_OPTIONS;
	int i;

	if (!all)
		usage_error("out of memory");
	memcpy(all, option_list, NR_OPTIONS * sizeof(*all));
	*next++ = (struct argp_option){ .doc = "Faults, and the keys that each takes:", .group = 1 };
	for (i = 0; i < nr_fault_rows; i++)
		*next++ = (struct argp_option){ .name = fault_rows[i].name,
						.key = OPT_FAULT_ROW + i,
						.flags = OPTION_DOC,
						.doc = fault_rows[i].help,
						.group = 1 };
	return all;
}

/* Argp asks here for each text before it prints it, and frees what is not the text itself. */
static char *help_complete(int key, const char *text, void *input)
{
	char keys[256], *whole;

	(void)input;
	if (key < OPT_FAULT_ROW || key >= OPT_FAULT_ROW + nr_fault_rows)
		return (char *)text;
	fault_keys_print(fault_rows[key - OPT_FAULT_ROW].fault, keys, sizeof(keys));
	return asprintf(&whole, "%s (%s)", text, keys) < 0 ? (char *)text : whole;
}

void options_parse(struct options *options, int argc, char **argv)
{
	const struct argp argp = {
		.options = options_with_faults(),
		.parser = parse_option,
		.help_filter = help_complete,
		.doc = "Runs a simulated distributed training job: a process for each rank, with stand-ins for "
		       "libnccl.so.2 and libcuda.so.1 that a tracer cannot distinguish from the real libraries.",
	};

	*options = (struct options){ .nr_ranks = 8,
				     .ranks_per_process = 1,
				     .nr_steps = 100,
				     .seed = 1,
				     .tp = 1,
				     .pp = 1,
				     .step_ms = 60,
				     .buckets = 4,
				     .layers = 4,
				     .port = 29500,
				     .linger_s = -1,
				     .poll_hz = 10,
				     .life_scale = 1,
				     .dataloader = true,
				     .workers = 1 };
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, options);
	free((void *)argp.options);
	layout_check(options);
	sharded_check(options);
	processes_check(options);
	netns_check(options);
	injections_check(options);
	if (!options->microbatches)
		options->microbatches = options->pp > 1 ? 2 * options->pp : 1;
}
