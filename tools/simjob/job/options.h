/* SPDX-License-Identifier: Apache-2.0 */
/* The command line, parsed alike by the launcher and, from the same arguments, by every rank. */
#ifndef SIMJOB_OPTIONS_H
#define SIMJOB_OPTIONS_H

#include "tools/simjob/job/fault.h"

#include <stdbool.h>
#include <stdint.h>

#define MAX_RANKS 256
#define MAX_WORKERS 16

enum sync_mode {
	SYNC_NAN_CHECK, /* the host waits for the gradients before they are communicated, and again for the loss */
	SYNC_STEP,      /* the host runs ahead and waits for the loss only */
};

enum graph_mode {
	GRAPH_NONE,
	GRAPH_STEP,   /* all of a step that is the GPU's, but for reading the loss */
	GRAPH_LAYERS, /* forward and backward of each layer */
};

enum thread_mode {               /* of several ranks in a process */
		   THREADS_EACH, /* a thread for each */
		   THREADS_ONE,  /* one drives them all */
};

struct options {
	int nr_ranks;
	int ranks_per_process;
	enum thread_mode threads;
	bool threads_given;
	int nr_steps;
	uint64_t seed;
	int tp, dp, pp; /* sizes of the tensor-, data- and pipeline-parallel groups; their product is nr_ranks */
	double step_ms, host_ms; /* of a step: the work of the GPU, and of the CPU to feed it */
	int buckets;
	int layers;
	int microbatches;
	int port;
	int cuda_events;   /* in a step, beside those of the communicators' streams */
	double watchdog_s; /* 0: never */
	double poll_hz;    /* of the watchdog */
	double linger_s;   /* how long the others live on after a rank has died; -1: not said */
	enum sync_mode sync;
	enum graph_mode graph;
	bool zero;
	bool sharded; /* each layer's parameters, as FSDP does it */
	bool extra_ops;
	bool timing;
	const char *net;   /* what data of collectives travel over; NULL: not over a network */
	const char *netns; /* prefix of the ranks' network namespaces; NULL: the launcher's */
	bool expandable_segments;
	bool dataloader;
	int workers;       /* of the dataloader */
	bool torch;        /* marks the phases of its steps, as PyTorch does */
	int script_ranges; /* of its own, in each step */
	bool quiet;
	const char *log_path, *step_log_path, *fault_log_path, *scratch_dir, *job_id, *nccl_path, *nccl_path2,
		*rank_exe, *result_path, *start_path;
	const char *life;  /* names of its phases; "" all of them, NULL: no life */
	double life_scale; /* of how long they take */
	struct injection injections[MAX_INJECTIONS];
	int nr_injections;
};

/* Does not return on a usage error: prints object, cause and remedy and exits with 2. */
void options_parse(struct options *options, int argc, char **argv);

/* launcher.c stands for torchrun: starts the ranks, passes signals on, waits, sums up. The process's exit status: 0
 * when all ranks exited with 0, else 1. */
int launcher_main(const struct options *options, char **argv);

#endif
