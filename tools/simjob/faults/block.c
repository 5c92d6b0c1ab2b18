// SPDX-License-Identifier: Apache-2.0
/* See block.h. */
#include "tools/simjob/faults/block.h"

#include "tools/simjob/faults/frozen_fs.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MAPPED_BYTES (16 * 4096UL)
#define ENTER_NS (100 * NSEC_PER_MSEC) /* enough for a thread to be inside its system call */

static bool file_create(struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	char path[300], name[32];
	int fd;

	/* A new one each time: opening a file that is there does not block. */
	snprintf(name, sizeof(name), "checkpoint-%d.pt", rank->step);
	frozen_fs_path(injection, name, path, sizeof(path));
	if (!frozen_fs_freeze(rank, injection))
		return false;
	injection_report(rank, injection, "begin", place);
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

static bool file_map(struct mapped_file *file, const struct injection *injection)
{
	char path[300];
	int fd;

	frozen_fs_path(injection, "activations.bin", path, sizeof(path));
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

static bool mmap_lock_hold(struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	struct mapped_file file = { 0 };
	pthread_t writer, unmapper;
	void *page;

	if (!file_map(&file, injection))
		return false;
	/* Threads first: making one needs the lock that is about to be taken. */
	if (pthread_create(&writer, NULL, writer_thread, &file) ||
	    pthread_create(&unmapper, NULL, unmapper_thread, &file)) {
		fprintf(stderr, "simjob: rank %d: cannot start threads\n", rank->rank);
		exit(1);
	}
	if (!frozen_fs_freeze(rank, injection))
		fprintf(stderr, "simjob: rank %d: the file system would not freeze; nothing blocks\n", rank->rank);
	injection_report(rank, injection, "begin", place);
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
static void vfork_wait(struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	struct timespec duration = timespec_from_ns(injection->duration_s * NSEC_PER_SEC);
	int pid;

	if (!injection_state(rank, injection)->begun)
		fprintf(stderr, "simjob: rank %d: no frozen file system for %s: D state by vfork\n", rank->rank,
			injection->name);
	injection_report(rank, injection, "begin", place);
	pid = vfork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

void block_in_create(struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	if (!file_create(rank, injection, place))
		vfork_wait(rank, injection, place);
}

void block_in_mmap(struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	if (!mmap_lock_hold(rank, injection, place))
		vfork_wait(rank, injection, place);
}
