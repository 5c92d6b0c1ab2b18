// SPDX-License-Identifier: Apache-2.0
/*
 * The parts of a step. With --torch each lies between the marks that PyTorch passes there, and the step log says how
 * long each was by this process's own clock: stamps are taken right outside of the marks. What lies between a forward
 * and its backward is the forward's, as the loss is. Collections of garbage are in none of them.
 */
#include "tools/simjob/job/job_log.h"
#include "tools/simjob/job/rank.h"
#include "tools/simjob/libpython/gc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const char *const part_names[NR_STEP_PARTS] = {
	[PART_DATA_WAIT] = "data_wait", [PART_FORWARD] = "forward", [PART_BACKWARD] = "backward",
	[PART_OPTIMIZER] = "optimizer", [PART_OTHER] = "other",
};

static const char *const ranges[NR_STEP_PARTS] = {
	[PART_DATA_WAIT] = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
	[PART_FORWARD] = "DistributedDataParallel.forward",
	[PART_OPTIMIZER] = "Optimizer.step#AdamW.step",
};

/* What FSDP2 does on the host before its first gather: 0.8 to 2 ms on H100s (docs/measurements/phases.md). */
#define SHARDED_HOOKS_NS 2000000ull

static const char zero_grad[] = "Optimizer.zero_grad#AdamW.zero_grad";

/* --- the log --- */

/* How often this thread lost its CPU; where it did between stamp and mark, the two differ by that. */
static long preemptions(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nivcsw;
}

/* Read on both sides of the clock: one right beside the stamp spoils what lies on either side. */
static struct step_stamp stamp_now(void)
{
	struct step_stamp now = { .before = preemptions() };

	now.ns = clock_now_ns();
	now.behind = preemptions();
	now.gc_ns = sim_python_collected_ns();
	return now;
}

static void part_add(struct step_log *log, enum step_part part, const struct step_stamp *from,
		     const struct step_stamp *to)
{
	log->part_ns[part] += to->ns - from->ns - (to->gc_ns - from->gc_ns);
	log->is_preempted[part] |= to->behind > from->before;
}

static void step_log_write(struct rank *rank, const struct step_stamp *end)
{
	struct step_log *log = &rank->step_log;
	uint64_t gc_ns = end->gc_ns - log->gc_ns, other_ns = end->ns - log->step_ns - gc_ns;
	bool is_preempted = false;
	char text[640];
	int i, length = snprintf(text, sizeof(text),
				 "{\"rank\":%d,\"pid\":%d,\"begin_ns\":%" PRIu64 ",\"end_ns\":%" PRIu64
				 ",\"backwards\":%d",
				 rank->rank, rank->pid, log->step_ns, end->ns, log->nr_backwards);

	for (i = 0; i < NR_STEP_PARTS; i++) {
		log->part_ns[i] = i == PART_OTHER ? other_ns : log->part_ns[i];
		other_ns -= log->part_ns[i];
		is_preempted |= log->is_preempted[i];
		length += snprintf(text + length, sizeof(text) - length, ",\"%s_ns\":%" PRIu64 "%s%s%s", part_names[i],
				   log->part_ns[i], log->is_preempted[i] ? ",\"" : "",
				   log->is_preempted[i] ? part_names[i] : "",
				   log->is_preempted[i] ? "_preempted\":true" : "");
	}
	length += snprintf(text + length, sizeof(text) - length, ",\"gc_ns\":%" PRIu64 "%s}\n", gc_ns,
			   is_preempted ? ",\"gc_preempted\":true" : "");
	job_log_line_write(log->fd, rank->rank, text, length);
}

/* A forward that no backward follows is over with its own mark. */
static void forward_close(struct step_log *log, const struct step_stamp *at)
{
	if (log->forward.ns)
		part_add(log, PART_FORWARD, &log->forward, at);
	log->forward.ns = 0;
}

/* The next batch is asked for: a step is over. */
static void step_log_next(struct rank *rank, const struct step_stamp *now)
{
	struct step_log *log = &rank->step_log;
	int fd = log->fd;

	forward_close(log, &log->forward_end);
	if (log->step_ns)
		step_log_write(rank, now);
	*log = (struct step_log){ .fd = fd, .step_ns = now->ns, .gc_ns = now->gc_ns };
}

/* --- the marks --- */

bool parts_are_marked(const struct rank *rank)
{
	return rank->options->torch;
}

struct sim_range *range_open(const struct rank *rank, const char *name)
{
	return parts_are_marked(rank) ? rank->api.sim_torch_enter(name) : NULL;
}

void range_close(const struct rank *rank, struct sim_range *range)
{
	if (range)
		rank->api.sim_torch_leave(range);
}

static void range_enter(struct rank *rank, const char *name)
{
	rank->range = range_open(rank, name);
}

static void range_leave(struct rank *rank)
{
	range_close(rank, rank->range);
	rank->range = NULL;
}

/* A range lies around DDP's forward; of a sharded model only its beginning, and each layer, have one. */
static void forward_enter(struct rank *rank)
{
	if (rank->options->sharded) {
		range_close(rank, range_open(rank, "FSDP::root_pre_forward"));
		spin_until(clock_now_ns() + SHARDED_HOOKS_NS);
		return;
	}
	range_enter(rank, ranges[PART_FORWARD]);
	if (parts_are_marked(rank))
		rank->api.sim_torch_ddp_forward();
}

static void optimizer_enter(struct rank *rank)
{
	range_enter(rank, ranges[PART_OPTIMIZER]);
	if (parts_are_marked(rank))
		rank->api.sim_torch_optimizer_begin();
}

void part_begin(struct rank *rank, enum step_part part)
{
	struct step_stamp now;

	if (rank->step_log.fd >= 0) {
		now = stamp_now();
		if (part == PART_DATA_WAIT)
			step_log_next(rank, &now);
		rank->step_log.begin = now;
	}
	if (part == PART_FORWARD)
		forward_enter(rank);
	else if (part == PART_OPTIMIZER)
		optimizer_enter(rank);
	else
		range_enter(rank, ranges[part]);
	hooks_in_part(rank, part);
}

void part_end(struct rank *rank, enum step_part part)
{
	struct step_log *log = &rank->step_log;
	struct step_stamp now;

	if (part == PART_FORWARD && parts_are_marked(rank) && !rank->options->sharded)
		rank->api.sim_torch_ddp_backward();
	range_leave(rank);
	if (log->fd < 0)
		return;
	now = stamp_now();
	if (part != PART_FORWARD) {
		part_add(log, part, &log->begin, &now);
		return;
	}
	log->forward = log->forward.ns ? log->forward : log->begin;
	log->forward_end = now;
}

void optimizer_call(struct rank *rank, void (*update)(void *rank))
{
	if (parts_are_marked(rank))
		rank->api.sim_torch_optimizer_update(update, rank);
	else
		update(rank);
}

void gradients_zero(struct rank *rank, void (*zero)(struct rank *rank))
{
	struct step_stamp begin = { 0 }, now;

	if (rank->step_log.fd >= 0)
		begin = stamp_now();
	range_enter(rank, zero_grad);
	zero(rank);
	range_leave(rank);
	if (rank->step_log.fd < 0)
		return;
	now = stamp_now();
	part_add(&rank->step_log, PART_OPTIMIZER, &begin, &now);
}

/* What the engine runs. */
struct graph {
	struct rank *rank;
	void (*run)(struct rank *rank);
};

static void graph_run_backward(void *arg)
{
	struct graph *graph = arg;

	hooks_in_part(graph->rank, PART_BACKWARD);
	graph->run(graph->rank);
}

void backward_call(struct rank *rank, void (*run)(struct rank *rank))
{
	struct graph graph = { rank, run };
	struct step_log *log = &rank->step_log;
	struct step_stamp begin = { 0 }, now;

	if (log->fd >= 0) {
		begin = stamp_now();
		forward_close(log, &begin);
		log->nr_backwards++;
	}
	if (parts_are_marked(rank))
		rank->api.sim_torch_backward(graph_run_backward, &graph);
	else
		graph_run_backward(&graph);
	if (log->fd < 0)
		return;
	now = stamp_now();
	part_add(log, PART_BACKWARD, &begin, &now);
}
