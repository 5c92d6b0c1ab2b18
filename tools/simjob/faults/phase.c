// SPDX-License-Identifier: Apache-2.0
/*
 * Unusual phases of a healthy job: evaluation, checkpoint, compilation, a slow first step, an elastic restart, a rank
 * that logs more. A tracer must name nobody in any of them.
 */
#include "tools/simjob/job/rank.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (1 << 20)
#define CHUNK_NS (50 * NSEC_PER_MSEC) /* 20 MB/s a rank: a busy shared file system */
#define RANK0_LOG_INTERVAL 5          /* steps */

/* The number of batches is the same on all ranks: tensor-parallel neighbours meet in each. */
static void evaluate(struct rank *rank, const struct fault *fault)
{
	double batch_s = rank->options->step_ms / 1000 / 3 / rank->options->microbatches;
	int i, nr_batches = fault->duration_s / batch_s + 1;

	for (i = 0; i < nr_batches; i++) {
		dataloader_next(rank);
		forward_run(rank);
		compute_synchronize(rank);
	}
	world_barrier(rank);
}

static int scratch_open(const struct rank *rank)
{
	const char *dir = rank->options->scratch_dir ? rank->options->scratch_dir : "/tmp";
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0) {
		fprintf(stderr, "simjob: rank %d cannot make a nameless file in %s: %s; choose another --scratch\n",
			rank->rank, dir, strerror(errno));
		exit(1);
	}
	return fd;
}

static void checkpoint_write(struct rank *rank, double duration_s)
{
	uint64_t now_ns = clock_now_ns(), end_ns = now_ns + (uint64_t)(duration_s * NSEC_PER_SEC);
	char *chunk = malloc(CHUNK_BYTES);
	int fd = scratch_open(rank);
	off_t offset = 0;

	for (; chunk && now_ns < end_ns; now_ns += CHUNK_NS) {
		memset(chunk, offset / CHUNK_BYTES, CHUNK_BYTES);
		if (pwrite(fd, chunk, CHUNK_BYTES, offset) != CHUNK_BYTES ||
		    pread(fd, chunk, CHUNK_BYTES, offset) != CHUNK_BYTES) {
			fprintf(stderr, "simjob: rank %d cannot write its checkpoint: %s\n", rank->rank,
				strerror(errno));
			exit(1);
		}
		offset += CHUNK_BYTES;
		sleep_until(now_ns + CHUNK_NS);
	}
	close(fd);
	free(chunk);
}

static void checkpoint(struct rank *rank, const struct fault *fault)
{
	if (fault->rank < 0 || fault->rank == rank->rank)
		checkpoint_write(rank, fault->duration_s);
	world_barrier(rank);
}

/* What a compiler does as seen from outside: all of a CPU, and memory that comes and goes. */
static void compile(const struct fault *fault)
{
	uint64_t end_ns = clock_now_ns() + (uint64_t)(fault->duration_s * NSEC_PER_SEC);
	struct random random = { .state = fault->draw };
	size_t i;

	while (clock_now_ns() < end_ns) {
		uint64_t *code = malloc(CHUNK_BYTES);

		for (i = 0; code && i < CHUNK_BYTES / sizeof(*code); i++)
			code[i] = random_u64(&random);
		free(code);
	}
}

/* Autotuning and lazy loading: work for the GPU of all ranks, and some for each host. */
static void warm_up(struct rank *rank, const struct fault *fault)
{
	double duration_ns = fault->duration_s * NSEC_PER_SEC;
	int i;

	for (i = 0; i < 20; i++) {
		compute_launch(rank, duration_ns * 0.9 / 20);
		spin_until(clock_now_ns() + (uint64_t)(duration_ns * 0.1 / 20 * random_unit(&rank->random)));
	}
	compute_synchronize(rank);
}

static void restart(struct rank *rank, const struct fault *fault)
{
	world_barrier(rank);
	watchdog_drain(rank);
	comms_destroy(rank);
	sleep_until(clock_now_ns() + (uint64_t)(fault->duration_s * NSEC_PER_SEC * random_unit(&rank->random)));
	rank->generation++;
	comms_create(rank);
	params_broadcast(rank);
}

static void log_more(struct rank *rank, const struct fault *fault)
{
	int fd = scratch_open(rank);

	spin_until(clock_now_ns() + (uint64_t)(fault->duration_s * NSEC_PER_SEC));
	if (write(fd, rank->batch, BATCH_BYTES) != BATCH_BYTES)
		perror("simjob: cannot write the extra log");
	close(fd);
}

static void phase_run(struct rank *rank, const struct fault *fault)
{
	bool is_mine = fault->rank < 0 || fault->rank == rank->rank;

	switch ((enum phase_kind)fault->what) {
	case PHASE_EVAL: evaluate(rank, fault); break;
	case PHASE_CHECKPOINT: checkpoint(rank, fault); break;
	case PHASE_COMPILE:
		if (is_mine)
			compile(fault);
		break;
	case PHASE_WARMUP: warm_up(rank, fault); break;
	case PHASE_RESTART: restart(rank, fault); break;
	case PHASE_RANK0LOG:
		if (is_mine)
			log_more(rank, fault);
		break;
	case NR_PHASE_KINDS: break;
	}
}

static bool phase_is_due(const struct rank *rank, const struct fault *fault)
{
	if (fault->kind != FAULT_PHASE)
		return false;
	if (fault->what == PHASE_RANK0LOG)
		return rank->step >= fault->step && (rank->step - fault->step) % RANK0_LOG_INTERVAL == 0;
	return rank->step == fault->step;
}

void phases_before_step(struct rank *rank)
{
	const struct options *options = rank->options;
	int i;

	for (i = 0; i < options->nr_faults; i++) {
		const struct fault *fault = &options->faults[i];
		bool reports = rank->rank == (fault->rank < 0 ? 0 : fault->rank);

		if (!phase_is_due(rank, fault))
			continue;
		if (reports && !rank->fault_begun[i])
			fault_report(rank, fault, "begin", NULL, NULL);
		phase_run(rank, fault);
		if (reports && fault->what != PHASE_RANK0LOG)
			fault_report(rank, fault, "end", NULL, NULL);
		rank->fault_begun[i] = true;
	}
}
