// SPDX-License-Identifier: Apache-2.0
/*
 * The dataloader: a forked child that makes batches and feeds them through a pipe, as torch's worker processes do. It
 * inherits the libraries' mappings and touches neither; a tracer has to see that it belongs to its rank.
 */
#include "tools/simjob/job/rank.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static void batch_make(char *batch, struct random *random)
{
	size_t i;

	for (i = 0; i + sizeof(uint64_t) <= BATCH_BYTES; i += sizeof(uint64_t)) {
		uint64_t token = random_u64(random);

		memcpy(batch + i, &token, sizeof(token));
	}
}

/* The step that the next batch is for: the rank has taken all that were made, and each worker makes every nth. */
static int step_fed(const struct rank *rank, int nr_made)
{
	int nr = rank->options->workers;

	return nr > 1 ? nr_made * nr + rank->next_worker
		      : (int)rank->store->ranks[rank->rank].steps_done + (nr_made > 0);
}

/* Imports, opening of files: some of it the CPU's. */
static void loader_begin(const struct rank *rank)
{
	uint64_t now_ns = clock_now_ns();

	if (!rank->loader_start_ns)
		return;
	spin_until(now_ns + rank->loader_start_ns / 5);
	sleep_until(now_ns + rank->loader_start_ns);
}

/* @rank is the child's own copy. */
static void loader_run(struct rank *rank, int worker, int fd)
{
	struct random random = { .state = rank->options->seed ^ (0xda7aULL + rank->rank + 256 * worker) << 20 };
	int nr_made;
	size_t done;
	ssize_t n;

	prctl(PR_SET_NAME, "pt_data_worker");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_DFL);
	rank->pid = getpid();
	rank->next_worker = worker;
	loader_begin(rank);
	for (nr_made = 0;; nr_made++) {
		rank->step = step_fed(rank, nr_made);
		hooks_before_batch(rank);
		batch_make(rank->batch, &random);
		for (done = 0; done < BATCH_BYTES; done += n) {
			n = write(fd, rank->batch + done, BATCH_BYTES - done);
			if (n <= 0)
				_exit(0);
		}
	}
}

/* Later children hold the reading ends of earlier ones' pipes: with them a child would not learn that its rank is gone.
 */
static void readers_close(const struct rank *rank, int nr)
{
	int i;

	for (i = 0; i < nr; i++)
		close(rank->batch_fds[i]);
}

static void worker_start(struct rank *rank, int worker)
{
	int fds[2];

	if (pipe(fds) < 0) {
		perror("simjob: cannot set up the dataloader");
		exit(1);
	}
	rank->loader_pids[worker] = fork();
	if (rank->loader_pids[worker] < 0) {
		perror("simjob: cannot fork the dataloader");
		exit(1);
	}
	if (rank->loader_pids[worker] == 0) {
		close(fds[0]);
		readers_close(rank, worker);
		loader_run(rank, worker, fds[1]);
	}
	close(fds[1]);
	rank->batch_fds[worker] = fds[0];
}

void dataloader_start(struct rank *rank)
{
	int i;

	rank->batch_fds[0] = -1;
	rank->next_worker = 0;
	rank->batch = malloc(BATCH_BYTES);
	if (!rank->batch) {
		fprintf(stderr, "simjob: rank %d: out of memory\n", rank->rank);
		exit(1);
	}
	for (i = 0; rank->options->dataloader && i < rank->options->workers; i++)
		worker_start(rank, i);
}

static void batch_read(struct rank *rank, int worker)
{
	size_t done;
	ssize_t n;

	for (done = 0; done < BATCH_BYTES; done += n) {
		n = read(rank->batch_fds[worker], rank->batch + done, BATCH_BYTES - done);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0) {
			fprintf(stderr, "simjob: rank %d: its dataloader, pid %d, is gone\n", rank->rank,
				rank->loader_pids[worker]);
			exit(1);
		}
	}
}

static void batch_take(struct rank *rank)
{
	if (rank->batch_fds[0] < 0 || hooks_skip_loader(rank)) {
		batch_make(rank->batch, &rank->random);
		return;
	}
	batch_read(rank, rank->next_worker);
	rank->next_worker = (rank->next_worker + 1) % rank->options->workers;
}

void dataloader_next(struct rank *rank)
{
	part_begin(rank, PART_DATA_WAIT);
	batch_take(rank);
	part_end(rank, PART_DATA_WAIT);
}

void dataloader_stop(struct rank *rank)
{
	int i;

	for (i = 0; rank->batch_fds[0] >= 0 && i < rank->options->workers; i++)
		close(rank->batch_fds[i]);
	for (i = 0; rank->batch_fds[0] >= 0 && i < rank->options->workers; i++)
		waitpid(rank->loader_pids[i], NULL, 0);
	free(rank->batch);
}
