/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - faults, notes and time of a run, and the calls about one GPU: see run.h.
 */
#include "tools/stress/run.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "tools/stress/report.h"
#include "tools/stress/runlog.h"

#define STALLED_NS 30000000000ull
#define STALLED_TIMES 4 /* as long as its work should take */
#define POLL_NS 50000

volatile sig_atomic_t run_signal;

#define CRITICAL "critical"
#define WARNING "warning"
static const struct {
	const char *name, *severity, *remedy;
} kinds[] = {
#define FAULT(id, name, severity, remedy) { name, severity, remedy },
#include "tools/stress/faults.def"
#undef FAULT
};

const char *fault_kind_name(enum fault_kind kind)
{
	return kinds[kind].name;
}

const char *fault_severity(enum fault_kind kind)
{
	return kinds[kind].severity;
}

const char *fault_remedy(enum fault_kind kind)
{
	return kinds[kind].remedy;
}

double run_elapsed_s(const struct stress_run *run)
{
	return (run->elapsed_before_ns + clock_monotonic_ns() - run->begin_ns) * 1e-9;
}

bool run_stopping(struct stress_run *run)
{
	if (run_signal)
		run->stopped = true;
	return run->stopped;
}

void run_fault(struct stress_run *run, struct fault *fault)
{
	int slot = fault->measure < 0 ? N_MEASURES : fault->measure;
	bool kept;

	pthread_mutex_lock(&run->lock);
	fault->at_s = run_elapsed_s(run);
	run->n_faults_all++;
	run->gpus[fault->gpu].n_faults++;
	kept = run->n_faults < RUN_FAULTS_MAX && run->faults_of[fault->gpu][slot]++ < RUN_FAULTS_GPU_MAX;
	if (kept)
		run->faults[run->n_faults++] = *fault;
	if (kept && run->report)
		report_fault(run->report, run, fault);
	if (kept && run->log)
		runlog_fault(run->log, run, fault);
	pthread_mutex_unlock(&run->lock);
}

void run_note(struct stress_run *run, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	pthread_mutex_lock(&run->lock);
	notes_add(&run->notes, format, args);
	pthread_mutex_unlock(&run->lock);
	va_end(args);
}

/* --- one GPU --- */

static int gpu_lose(struct stress_gpu *gpu, enum fault_kind kind, const char *what, const char *cause)
{
	struct fault fault = { .kind = kind, .gpu = gpu->index, .measure = gpu->run->measure_now };

	if (gpu->lost)
		return -EIO;
	gpu->lost = true;
	snprintf(fault.text, sizeof(fault.text),
		 "%s: %s: the device is out of the test; look at the kernel log (dmesg | grep -i xid) and drain the "
		 "node",
		 what, cause);
	run_fault(gpu->run, &fault);
	return -EIO;
}

int gpu_try(struct stress_gpu *gpu, int error, const char *what)
{
	return error ? gpu_lose(gpu, FAULT_LOST, what, cuda_error_text(&gpu->run->cuda, error)) : 0;
}

static uint64_t stalled_ns(const struct stress_gpu *gpu)
{
	uint64_t ns = STALLED_TIMES * gpu->work_ns;

	return ns > STALLED_NS ? ns : STALLED_NS;
}

static int stalled(struct stress_gpu *gpu)
{
	char cause[64];

	snprintf(cause, sizeof(cause), "it has not ended for %.0f s", stalled_ns(gpu) * 1e-9);
	return gpu_lose(gpu, FAULT_STALLED, "work on the device", cause);
}

static int query_wait(struct stress_gpu *gpu, int (*query)(cuda_handle), cuda_handle of)
{
	uint64_t end_ns = clock_monotonic_ns() + stalled_ns(gpu);
	int error;

	while ((error = query(of)) == CUDA_ERROR_NOT_READY) {
		if (clock_monotonic_ns() > end_ns)
			return stalled(gpu);
		nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
	}
	return gpu_try(gpu, error, "work on the device");
}

int gpu_wait(struct stress_gpu *gpu)
{
	return query_wait(gpu, gpu->run->cuda.stream_query, gpu->stream);
}

int gpu_wait_event(struct stress_gpu *gpu, cuda_handle event)
{
	return query_wait(gpu, gpu->run->cuda.event_query, event);
}

int gpu_launch(struct stress_gpu *gpu, enum kernel_id kernel, unsigned int gx, unsigned int gy, unsigned int block,
	       void **params)
{
	return gpu_try(
		gpu, gpu->run->cuda.launch(gpu->kernels[kernel], gx, gy, 1, block, 1, 1, 0, gpu->stream, params, NULL),
		"a launch");
}

int gpu_put(struct stress_gpu *gpu, cuda_ptr to, const void *from, size_t bytes)
{
	int error = gpu->run->cuda.to_device_async(to, from, bytes, gpu->stream);

	return gpu_try(gpu, error, "a copy to it") ? -EIO : gpu_wait(gpu);
}

int gpu_alloc(struct stress_gpu *gpu, size_t bytes, cuda_ptr *at)
{
	int error = gpu->run->cuda.alloc(at, bytes);

	if (error)
		*at = 0;
	return error == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : gpu_try(gpu, error, "an allocation");
}
