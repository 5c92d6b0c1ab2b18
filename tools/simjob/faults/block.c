// SPDX-License-Identifier: Apache-2.0
/*
 * Uninterruptible sleep. dstate: a file is created on a frozen file system. dstate-mm: one thread writes to a mapped
 * page of it, another is in munmap of the same mapping and so holds or awaits mmap_lock, and the main thread blocks on
 * that; whoever reads /proc/PID/maps blocks, too. Without a frozen file system: the parent of a vfork.
 */
#include "frozen_fs.h"
#include "tools/simjob/job/rank.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MAPPED_BYTES (16 * 4096UL)
#define ENTER_NS (100 * NSEC_PER_MSEC) /* enough for a thread to be inside its system call */

/* False when the guardian cannot. On success the file system is frozen for @duration_s from now. */
static bool freeze_and_wait(struct rank *rank, int index, double duration_s)
{
	const char *fd_text = getenv("SIMJOB_FREEZE_FD");
	struct freeze_request request = { .fault_index = index, .duration_s = duration_s };
	_Atomic uint32_t *state = &rank->store->freezes[index];

	atomic_store(state, FREEZE_IDLE);
	if (!fd_text || write(atoi(fd_text), &request, sizeof(request)) != sizeof(request))
		return false;
	while (atomic_load(state) == FREEZE_IDLE)
		futex_wait(state, FREEZE_IDLE, 0);
	return atomic_load(state) != FREEZE_FAILED;
}

static void file_path(char *ret_path, size_t size, int index, const char *name)
{
	const char *base = getenv("SIMJOB_FREEZE_PATH");

	snprintf(ret_path, size, "%s/%d/%s", base ? base : "/nonexistent", index, name);
}

static bool block_in_create(struct rank *rank, const struct fault *fault, int index, const struct op_place *place)
{
	char path[300], name[32];
	int fd;

	/* A new one each time: opening a file that is there does not block. */
	snprintf(name, sizeof(name), "checkpoint-%d.pt", rank->step);
	file_path(path, sizeof(path), index, name);
	if (!freeze_and_wait(rank, index, fault->duration_s))
		return false;
	fault_report(rank, fault, "begin", place->comm, place->call);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
	return true;
}

struct mapped_file {
	char *base;
	_Atomic uint32_t go_write, go_unmap; /* futexes */
};

static void gate_wait(_Atomic uint32_t *gate)
{
	while (!atomic_load(gate))
		futex_wait(gate, 0, 0);
}

static void gate_open(_Atomic uint32_t *gate)
{
	atomic_store(gate, 1);
	futex_wake_all(gate);
	sleep_until(clock_now_ns() + ENTER_NS);
}

static void *writer_thread(void *arg)
{
	struct mapped_file *file = arg;

	prctl(PR_SET_NAME, "pt_mmap_writer");
	gate_wait(&file->go_write);
	*(volatile char *)file->base = 1;
	return NULL;
}

/* Not the writer's page: it would fault for good if the unmap overtook its store. */
static void *unmapper_thread(void *arg)
{
	struct mapped_file *file = arg;

	prctl(PR_SET_NAME, "pt_mmap_unmap");
	gate_wait(&file->go_unmap);
	munmap(file->base + MAPPED_BYTES / 2, MAPPED_BYTES / 2);
	return NULL;
}

static bool file_map(struct mapped_file *file, int index)
{
	char path[300];
	int fd;

	file_path(path, sizeof(path), index, "activations.bin");
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	file->base = MAP_FAILED;
	if (ftruncate(fd, MAPPED_BYTES) == 0)
		file->base = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (file->base == MAP_FAILED)
		return false;
	/* Present and clean, so that the later write faults for the right to write only. */
	return *(volatile char *)file->base == 0;
}

static bool block_in_mmap(struct rank *rank, const struct fault *fault, int index, const struct op_place *place)
{
	struct mapped_file file = { 0 };
	pthread_t writer, unmapper;
	void *page;

	if (!file_map(&file, index))
		return false;
	/* Threads first: making one needs the lock that is about to be taken. */
	if (pthread_create(&writer, NULL, writer_thread, &file) ||
	    pthread_create(&unmapper, NULL, unmapper_thread, &file)) {
		fprintf(stderr, "simjob: rank %d: cannot start threads\n", rank->rank);
		exit(1);
	}
	if (!freeze_and_wait(rank, index, fault->duration_s))
		fprintf(stderr, "simjob: rank %d: the file system would not freeze; nothing blocks\n", rank->rank);
	fault_report(rank, fault, "begin", place->comm, place->call);
	gate_open(&file.go_write);
	gate_open(&file.go_unmap);
	page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(page, 4096);
	pthread_join(writer, NULL);
	pthread_join(unmapper, NULL);
	munmap(file.base, MAPPED_BYTES / 2);
	return true;
}

/* The parent of a vfork sleeps uninterruptibly until its child ends. */
static void block_in_vfork(struct rank *rank, const struct fault *fault, const struct op_place *place)
{
	struct timespec duration = timespec_from_ns(fault->duration_s * NSEC_PER_SEC);
	int pid;

	if (!rank->fault_begun[fault - rank->options->faults])
		fprintf(stderr, "simjob: rank %d: no frozen file system for %s: D state by vfork\n", rank->rank,
			fault_name(fault));
	fault_report(rank, fault, "begin", place->comm, place->call);
	pid = vfork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

void fault_block(struct rank *rank, const struct fault *fault, int index, const struct op_place *place)
{
	bool blocked = fault->kind == FAULT_DSTATE_MM ? block_in_mmap(rank, fault, index, place)
						      : block_in_create(rank, fault, index, place);

	if (!blocked)
		block_in_vfork(rank, fault, place);
}
