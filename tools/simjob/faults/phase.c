// SPDX-License-Identifier: Apache-2.0
/*
 * Unusual phases of a healthy job: evaluation, checkpoint, compilation, a slow first step, an elastic restart, a rank
 * that logs more. A tracer must name no rank in any of them.
 */
#include "tools/simjob/faults/faults.h"

#include "tools/simjob/job/rank.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (1 << 20)
#define CHUNK_NS (50 * NSEC_PER_MSEC) /* 20 MB/s a rank: a busy shared file system */
#define RANK0_LOG_INTERVAL 5          /* steps */

static bool is_mine(const struct rank *rank, const struct injection *injection)
{
	return injection->rank == RANK_ALL || injection->rank == rank->rank;
}

/* The number of batches is the same on all ranks: tensor-parallel neighbours meet in each. */
static void evaluate(struct rank *rank, const struct injection *injection)
{
	double batch_s = rank->options->step_ms / 1000 / 3 / rank->options->microbatches;
	int i, nr_batches = injection->duration_s / batch_s + 1;

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
		memset(chunk, offset / CHUNK_BYTES, CHUNK_BYTES); /* lint: the loop runs with a chunk only */
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

static void checkpoint(struct rank *rank, const struct injection *injection)
{
	if (is_mine(rank, injection))
		checkpoint_write(rank, injection->duration_s);
	world_barrier(rank);
}

/* What a compiler does as seen from outside: all of a CPU, and memory that comes and goes. */
static void compile(struct rank *rank, const struct injection *injection)
{
	uint64_t end_ns = clock_now_ns() + (uint64_t)(injection->duration_s * NSEC_PER_SEC);
	struct random random = { .state = injection->draw };
	size_t i;

	while (is_mine(rank, injection) && clock_now_ns() < end_ns) {
		uint64_t *code = malloc(CHUNK_BYTES);

		for (i = 0; code && i < CHUNK_BYTES / sizeof(*code); i++)
			code[i] = random_u64(&random);
		free(code);
	}
}

/* Autotuning and lazy loading: work for the GPU of all ranks, and some for each host. */
static void warm_up(struct rank *rank, const struct injection *injection)
{
	double duration_ns = injection->duration_s * NSEC_PER_SEC;
	int i;

	for (i = 0; i < 20; i++) {
		compute_launch(rank, duration_ns * 0.9 / 20);
		spin_until(clock_now_ns() + (uint64_t)(duration_ns * 0.1 / 20 * random_unit(&rank->random)));
	}
	compute_synchronize(rank);
}

static void restart(struct rank *rank, const struct injection *injection)
{
	world_barrier(rank);
	watchdog_drain(rank);
	comms_destroy(rank);
	sleep_until(clock_now_ns() + (uint64_t)(injection->duration_s * NSEC_PER_SEC * random_unit(&rank->random)));
	rank->generation++;
	comms_create(rank);
	params_broadcast(rank);
}

static void log_more(struct rank *rank, const struct injection *injection)
{
	int fd;

	if (!is_mine(rank, injection))
		return;
	fd = scratch_open(rank);
	spin_until(clock_now_ns() + (uint64_t)(injection->duration_s * NSEC_PER_SEC));
	if (write(fd, rank->batch, BATCH_BYTES) != BATCH_BYTES)
		perror("simjob: cannot write the extra log");
	close(fd);
}

/* In the order of the words of what=. */
enum phase_kind { PHASE_EVAL, PHASE_CHECKPOINT, PHASE_COMPILE, PHASE_WARMUP, PHASE_RESTART, PHASE_RANK0LOG };

struct phase {
	const char *full_name;
	double default_s;
	int default_rank;
	void (*run)(struct rank *rank, const struct injection *injection);
};

static const struct phase phases[] = {
	[PHASE_EVAL] = { "phase-eval", 5, RANK_ALL, evaluate },
	[PHASE_CHECKPOINT] = { "phase-checkpoint", 4, RANK_ALL, checkpoint },
	[PHASE_COMPILE] = { "phase-compile", 60, RANK_DRAWN, compile },
	[PHASE_WARMUP] = { "phase-warmup", 4, RANK_ALL, warm_up },
	[PHASE_RESTART] = { "phase-restart", 2, RANK_ALL, restart },
	[PHASE_RANK0LOG] = { "phase-rank0log", 0.02, 0, log_more },
};

static void complete(struct injection *injection)
{
	const struct phase *phase = &phases[injection->what];

	injection->name = phase->full_name;
	injection->nr_restarts = injection->what == PHASE_RESTART;
	if (!(injection->given & KEY_SEC))
		injection->duration_s = phase->default_s;
	if (!(injection->given & KEY_RANK))
		injection->rank = phase->default_rank;
	if (injection->what == PHASE_WARMUP && !(injection->given & KEY_STEP))
		injection->step = 0;
}

static bool is_due(const struct rank *rank, const struct injection *injection)
{
	if (injection->what == PHASE_RANK0LOG)
		return rank->step >= injection->step && (rank->step - injection->step) % RANK0_LOG_INTERVAL == 0;
	return rank->step == injection->step;
}

static void before_step(struct rank *rank, const struct injection *injection)
{
	struct injection_state *state = injection_state(rank, injection);
	bool reports = rank->rank == (injection->rank < 0 ? 0 : injection->rank);

	if (!is_due(rank, injection))
		return;
	if (reports && !state->begun)
		injection_report(rank, injection, "begin", NULL);
	phases[injection->what].run(rank, injection);
	if (reports && injection->what != PHASE_RANK0LOG)
		injection_report(rank, injection, "end", NULL);
	state->begun = true;
}

const struct fault fault_phase = {
	.keys = KEY_RANK | KEY_STEP | KEY_SEC | KEY_WHAT,
	.required = KEY_WHAT,
	.what = WORDS("eval", "checkpoint", "compile", "warmup", "restart", "rank0log"),
	.complete = complete,
	.before_step = before_step,
};
