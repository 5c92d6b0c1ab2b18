/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulated GPUs do, in a file that libcuda's stand-in writes and libnvidia-ml's reads: SIM_GPU_STATE=FILE,
 * made by the process that comes first. When each GPU computes is the simulation's own truth; faults of its hardware
 * are bits.
 */
#ifndef SIMJOB_GPU_STATE_H
#define SIMJOB_GPU_STATE_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIM_GPUS_MAX 64
#define SIM_GPU_SPANS 4096

enum sim_gpu_fault {
	SIM_GPU_THERMAL = 1 << 0,
	SIM_GPU_POWER_BRAKE = 1 << 1,
	SIM_GPU_ECC = 1 << 2,
	SIM_GPU_ROWS = 1 << 3,
	SIM_GPU_NVLINK = 1 << 4,
	SIM_GPU_NVLINK_DOWN = 1 << 5,
	SIM_GPU_PCIE = 1 << 6,
	SIM_GPU_LOST = 1 << 7,
	SIM_GPU_SILENT = 1 << 8, /* no call about it returns */
	SIM_GPU_INFOROM = 1 << 9,
	SIM_GPU_XID = 1 << 10, /* XID 79, once */
};

/* What takes the GPU's place in the job's work: a kernel that never ends, on one SM or on all, or nothing at all while
 * its stream waits for the host. */
enum sim_gpu_load { SIM_GPU_LOAD_NONE, SIM_GPU_SPIN_ONE, SIM_GPU_SPIN_ALL, SIM_GPU_HELD };

struct sim_gpu_span {
	_Atomic uint64_t begin_ns, end_ns;
};

struct sim_gpu_spans {
	_Atomic uint64_t nr; /* written so far; span i is at i % SIM_GPU_SPANS */
	struct sim_gpu_span spans[SIM_GPU_SPANS];
};

struct sim_gpu {
	_Atomic uint32_t pid;    /* that has a context on it; 0: none */
	_Atomic uint32_t faults; /* enum sim_gpu_fault */
	_Atomic uint64_t fault_ns;
	_Atomic uint32_t load; /* enum sim_gpu_load, from load_ns on */
	_Atomic uint64_t load_ns, load_end_ns;
	struct sim_gpu_spans compute, nccl; /* kernels of the job; NCCL's, from their start to their end */
};

struct sim_gpus {
	_Atomic uint32_t nr_gpus;
	struct sim_gpu gpus[SIM_GPUS_MAX];
};

/* NULL: it was not asked for, or the file cannot be had. */
static inline struct sim_gpus *sim_gpus_map(void)
{
	const char *path = getenv("SIM_GPU_STATE");
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	void *at = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, sizeof(struct sim_gpus)))
		at = mmap(NULL, sizeof(struct sim_gpus), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	return at == MAP_FAILED ? NULL : at;
}

/* The same for who may not write. */
static inline const struct sim_gpus *sim_gpus_look(void)
{
	const char *path = getenv("SIM_GPU_STATE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *at = MAP_FAILED;

	if (fd >= 0 && lseek(fd, 0, SEEK_END) >= (off_t)sizeof(struct sim_gpus))
		at = mmap(NULL, sizeof(struct sim_gpus), PROT_READ, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	return at == MAP_FAILED ? NULL : at;
}

#endif
