/* SPDX-License-Identifier: Apache-2.0
 *
 * run.h - one run of a test: its libraries, its GPUs, what is measured and found. Made by run_open(), passed to all.
 */
#ifndef STRESS_RUN_H
#define STRESS_RUN_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/stress/crew.h"
#include "tools/stress/fault.h"
#include "tools/stress/lib/libraries.h"
#include "tools/stress/numbers.h"
#include "tools/stress/options.h"
#include "tools/stress/series.h"

enum kernel_id {
	KERNEL_FILL,
	KERNEL_HASH,
	KERNEL_SUMS,
	KERNEL_MEM_WRITE,
	KERNEL_MEM_CHECK,
	KERNEL_MEM_MOVE,
	KERNEL_PART_FILL,
	KERNEL_PART_CHECK,
	KERNEL_SPIN,
	KERNEL_COPY,
	KERNEL_CHASE,
	N_KERNELS
};

/* What NVML says of a GPU; negative: it cannot say. Written by the thread of health.c. */
struct health {
	double temperature_c, temperature_max_c, memory_temperature_c, power_w, power_max_w, limit_w, sm_mhz,
		sm_mhz_min, mem_mhz;
	uint64_t reasons, reasons_seen; /* NVML_REASON_* */
	uint32_t samples, samples_slowed, samples_hot;
	int64_t ecc_corrected, ecc_uncorrected, rows_pending, rows_failed;
	int64_t ecc_corrected_begin, ecc_uncorrected_begin, rows_pending_begin, rows_failed_begin;
};

struct stress_gpu {
	struct stress_run *run;
	int index, ordinal, device, class; /* class: GPUs that are alike, the index of its first one */
	char name[96], pci[32], uuid[64];
	int sm_count, cc;
	cuda_handle context, stream, module, kernels[N_KERNELS];
	size_t free_bytes, total_bytes;
	void *nvml;
	bool lost;       /* its thread has left, with a fault */
	bool impossible; /* no memory and the like: `why` */
	char why[LIBRARY_WHY];
	struct health health;
	struct series series[N_MEASURES]; /* a value a window */
	uint64_t checked[N_MEASURES];     /* results hashed, bytes read */
	uint32_t windows[N_MEASURES];
	bool unsupported[N_MEASURES];     /* this GPU or library has no such type, or it is too slow for --quick */
	double checksum_share[N_NUMBERS]; /* largest difference of a row's sum, of its bound */
	struct judgement judged[N_MEASURES];
	uint64_t memory_bytes; /* under test */
	uint32_t memory_turns; /* how often all patterns had their turn */
	uint32_t n_faults;
	uint64_t work_ns; /* what is enqueued should take, as measured before; 0: not known */
	_Atomic double rate_now;
};

#define RUN_FAULTS_MAX 1024
#define RUN_FAULTS_GPU_MAX 64 /* kept of one GPU and measure; all are counted */

struct report;
struct runlog;
struct gemm;
struct gemm_class;

struct stress_run {
	const struct stress_options *options;
	struct cuda cuda;
	struct nvml nvml;
	struct cublaslt lt;
	int n_gpus;
	struct stress_gpu gpus[STRESS_GPUS_MAX];
	struct crew crew;
	uint64_t begin_ns, elapsed_before_ns; /* of an earlier run that this one resumes */
	uint64_t window_ns, window_end_ns;
	int measure_now;
	bool again;           /* windows are turns of what was below its bound, no rounds */
	bool choices_settled; /* each class has its algorithm, or has none */
	atomic_bool stopped;  /* by a signal */
	pthread_mutex_t lock; /* of what follows */
	struct fault faults[RUN_FAULTS_MAX];
	uint32_t n_faults, n_faults_all, faults_of[STRESS_GPUS_MAX][N_MEASURES + 1];
	struct notes notes;
	struct report *report;
	struct runlog *log;
	struct gemm_class *classes;          /* a window's, STRESS_GPUS_MAX of them */
	struct gemm *gemms[STRESS_GPUS_MAX]; /* of the window that is on: for a GPU that wants a tile of another's */
};

extern volatile sig_atomic_t run_signal; /* set by the handler of the command */

/* Opens libraries and GPUs and refuses what cannot be tested. STRESS_PASSED, or STRESS_IMPOSSIBLE or STRESS_USAGE with
 * `why`: object, cause, remedy. */
int run_open(struct stress_run *run, const struct stress_options *options, char why[LIBRARY_WHY]);
void run_close(struct stress_run *run);
/* How many GPUs CUDA shows here; to be asked in a process that tests none. STRESS_PASSED or STRESS_IMPOSSIBLE. */
int run_count(const struct stress_options *options, int *n, char why[LIBRARY_WHY]);
double run_elapsed_s(const struct stress_run *run);
bool run_stopping(struct stress_run *run);

/* Keeps, prints and logs a fault; fault->at_s is set here. */
void run_fault(struct stress_run *run, struct fault *fault);
void run_note(struct stress_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- one GPU; errors leave a fault and mark it lost, so that the caller only returns --- */

/* 0, or -EIO after a fault FAULT_LOST that names `what` and the error. */
int gpu_try(struct stress_gpu *gpu, int error, const char *what);
/* Waits until the stream is through. 0 or -EIO; FAULT_STALLED after 30 s without an end, or four
 * times gpu->work_ns where that is longer. */
int gpu_wait(struct stress_gpu *gpu);
int gpu_wait_event(struct stress_gpu *gpu, cuda_handle event);
int gpu_launch(struct stress_gpu *gpu, enum kernel_id kernel, unsigned int gx, unsigned int gy, unsigned int block,
	       void **params);
/* A copy from memory of the host: it is there. The call alone, cuMemcpyHtoD() too, may return before, and then no other
 * stream, GPU or NIC waits for it. 0 or -EIO. The GPU's context has to be the thread's. */
int gpu_put(struct stress_gpu *gpu, cuda_ptr to, const void *from, size_t bytes);
/* -ENOMEM without a fault. */
int gpu_alloc(struct stress_gpu *gpu, size_t bytes, cuda_ptr *at);

#endif
