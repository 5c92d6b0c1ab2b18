/* SPDX-License-Identifier: Apache-2.0
 *
 * run_open.c - libraries, GPUs and kernels of a run, and the refusals: no GPU, no driver, one too old, a busy GPU. What
 * cannot be found out counts as a refusal, too: a test that did not look is no pass.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/stress/kernels/kernels.h"
#include "tools/stress/lib/gpu_name.h"
#include "tools/stress/run.h"
#include "tools/stress/stress.h"

#define BUSY_PERCENT 5
#define CALM_NS 3000000000ull
#define CALM_POLL_NS 200000000
#define FREE_SHARE_MIN 0.9
#define LOG_BYTES 1024
#define PROCESSES_MAX 64

static int impossible(char why[LIBRARY_WHY], const char *object, const char *cause, const char *remedy)
{
	char text[LIBRARY_WHY];

	snprintf(text, sizeof(text), "%.120s: %.220s: %.160s", object, cause, remedy);
	snprintf(why, LIBRARY_WHY, "%s", text);
	return STRESS_IMPOSSIBLE;
}

static int driver_open(struct stress_run *run, char why[LIBRARY_WHY])
{
	char cause[128];
	int n = 0, error, version = 0;

	if (libraries_cuda(&run->cuda, why) || libraries_nvml(&run->nvml, why))
		return STRESS_IMPOSSIBLE;
	if (run->options->measures & ((1u << N_NUMBERS) - 1) &&
	    libraries_cublaslt(&run->lt, run->options->cublaslt, why))
		return STRESS_IMPOSSIBLE;
	error = run->cuda.init(0);
	if (!error)
		error = run->cuda.device_count(&n);
	if (!error && !n)
		error = CUDA_ERROR_NO_DEVICE;
	run->cuda.driver_version(&version);
	snprintf(cause, sizeof(cause), "%s; the driver supports CUDA %d.%d", cuda_error_text(&run->cuda, error),
		 version / 1000, version % 1000 / 10);
	if (error)
		return impossible(
			why, "no GPU can be used", cause,
			error == CUDA_ERROR_NO_DEVICE
				? "look at nvidia-smi and at CUDA_VISIBLE_DEVICES"
				: "nvidia-smi -q says more; the kernel's driver and libcuda must be of one version");
	error = run->nvml.init();
	snprintf(cause, sizeof(cause), "NVML error %d", error);
	return error ? impossible(why, "NVML cannot be used", cause, "nvidia-smi -q says more") : STRESS_PASSED;
}

static int gpu_identify(struct stress_gpu *gpu, char why[LIBRARY_WHY])
{
	const struct cuda *cuda = &gpu->run->cuda;
	const struct nvml *nvml = &gpu->run->nvml;
	int major = 0, minor = 0, error = cuda->device_get(&gpu->device, gpu->ordinal);
	char object[32];

	error = error ? error : cuda->device_name(gpu->name, sizeof(gpu->name), gpu->device);
	error = error ? error : cuda->device_pci(gpu->pci, sizeof(gpu->pci), gpu->device);
	error = error ? error : cuda->device_attribute(&gpu->sm_count, CU_ATTRIBUTE_SM_COUNT, gpu->device);
	error = error ? error : cuda->device_attribute(&major, CU_ATTRIBUTE_CC_MAJOR, gpu->device);
	error = error ? error : cuda->device_attribute(&minor, CU_ATTRIBUTE_CC_MINOR, gpu->device);
	gpu->cc = 10 * major + minor;
	snprintf(object, sizeof(object), "GPU %d", gpu->ordinal);
	if (error)
		return impossible(why, object, cuda_error_text(cuda, error), "nvidia-smi -q says more");
	error = nvml->by_pci(gpu->pci, &gpu->nvml);
	error = error ? error : nvml->uuid(gpu->nvml, gpu->uuid, sizeof(gpu->uuid));
	if (error)
		return impossible(why, object,
				  error == NVML_ERROR_GPU_IS_LOST ? "it is lost (NVML)" : "NVML does not know it",
				  "nvidia-smi -q says more; a lost GPU needs a reset or a reboot");
	return STRESS_PASSED;
}

/* NVML's is of the last second, in which a test before this one may have ended: so it is asked for again for a while.
 */
static int gpu_works(struct stress_gpu *gpu, char cause[160])
{
	uint64_t end_ns = clock_monotonic_ns() + CALM_NS;
	struct nvml_utilization rates = { 0 };
	int error;

	do {
		error = gpu->run->nvml.utilization(gpu->nvml, &rates);
		if (error == NVML_ERROR_NOT_SUPPORTED) /* a MIG device: it has no utilization, but processes */
			return 0;
		if (!error && rates.gpu <= BUSY_PERCENT)
			return 0;
		nanosleep(&(struct timespec){ .tv_nsec = CALM_POLL_NS }, NULL);
	} while (!error && clock_monotonic_ns() < end_ns);
	snprintf(cause, 160, error ? "NVML cannot say how busy it is (error %d)" : "it is busy for %d %% of the time",
		 error ? error : (int)rates.gpu);
	return -EBUSY;
}

static void users_say(unsigned int pid, int others, char cause[160])
{
	if (others > 1)
		snprintf(cause, 160, "process %u and %d other%s have a context on it", pid, others - 1,
			 others > 2 ? "s" : "");
	else
		snprintf(cause, 160, "process %u has a context on it", pid);
}

/* Others' processes and work. Nothing of ours runs there yet. */
static int gpu_busy(struct stress_gpu *gpu, char cause[160])
{
	const struct nvml *nvml = &gpu->run->nvml;
	struct nvml_process list[PROCESSES_MAX];
	unsigned int n = PROCESSES_MAX, first = 0;
	int error = nvml->processes(gpu->nvml, &n, list), others = 0;

	for (unsigned int i = 0; !error && i < n; i++)
		if (list[i].pid != (unsigned int)getpid() && !others++)
			first = list[i].pid;
	if (error == NVML_ERROR_INSUFFICIENT_SIZE)
		snprintf(cause, 160, "more than %d processes have a context on it", PROCESSES_MAX);
	else if (error)
		snprintf(cause, 160, "NVML cannot say who uses it (error %d)", error);
	else if (others)
		users_say(first, others, cause);
	return error || others ? -EBUSY : gpu_works(gpu, cause);
}

static int gpu_refuse_busy(struct stress_gpu *gpu, char why[LIBRARY_WHY])
{
	char cause[160], object[32];

	if (gpu->run->options->force || !gpu_busy(gpu, cause))
		return STRESS_PASSED;
	snprintf(object, sizeof(object), "GPU %d is in use", gpu->ordinal);
	return impossible(why, object, cause,
			  "a test would disturb that work, and be disturbed: wait until it is over, leave this GPU out "
			  "(--gpus), or --force");
}

/* The driver compiles the PTX here; what it says when it cannot is what the user needs. */
static int gpu_kernels(struct stress_gpu *gpu, char why[LIBRARY_WHY])
{
	static const char *const names[N_KERNELS] = { "stress_fill",      "stress_hash",       "stress_sums",
						      "stress_mem_write", "stress_mem_check",  "stress_mem_move",
						      "stress_part_fill", "stress_part_check", "stress_spin",
						      "stress_copy",      "stress_chase" };
	const struct cuda *cuda = &gpu->run->cuda;
	char log[LOG_BYTES] = "", cause[LIBRARY_WHY], object[64];
	int options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES }, version = 0;
	void *values[] = { log, (void *)(uintptr_t)sizeof(log) };
	int error = cuda->module_load(&gpu->module, kernels_ptx, 2, options, values);

	for (int i = 0; !error && i < N_KERNELS; i++)
		error = cuda->function_get(&gpu->kernels[i], gpu->module, names[i]);
	if (!error)
		return STRESS_PASSED;
	cuda->driver_version(&version);
	snprintf(object, sizeof(object), "GPU %d: the test's kernels (PTX 6.5, sm_52)", gpu->ordinal);
	log[sizeof(log) - 1] = 0;
	log[strcspn(log, "\n")] = 0;
	snprintf(cause, sizeof(cause), "%s from the driver for CUDA %d.%d%s%.120s", cuda_error_text(cuda, error),
		 version / 1000, version % 1000 / 10, *log ? ": " : "", log);
	return impossible(why, object, cause,
			  error == CUDA_ERROR_UNSUPPORTED_PTX_VERSION
				  ? "the driver is too old: 440.33 or newer (CUDA 10.2) is needed"
				  : "a driver with libnvidia-ptxjitcompiler is needed");
}

static int gpu_open(struct stress_gpu *gpu, char why[LIBRARY_WHY])
{
	const struct cuda *cuda = &gpu->run->cuda;
	char object[32];
	int error = cuda->context_retain(&gpu->context, gpu->device), status;

	error = error ? error : cuda->context_set(gpu->context);
	error = error ? error : cuda->stream_create(&gpu->stream, CU_STREAM_NON_BLOCKING);
	error = error ? error : cuda->memory(&gpu->free_bytes, &gpu->total_bytes);
	snprintf(object, sizeof(object), "GPU %d", gpu->ordinal);
	if (error)
		return impossible(why, object, cuda_error_text(cuda, error),
				  error == CUDA_ERROR_OUT_OF_MEMORY ? "its memory is full: nvidia-smi says by whom"
								    : "nvidia-smi -q says more");
	status = gpu_kernels(gpu, why);
	if (!status && !gpu->run->options->force && gpu->free_bytes < FREE_SHARE_MIN * gpu->total_bytes) {
		char cause[96];

		snprintf(cause, sizeof(cause), "only %zu of %zu MiB of its memory are free", gpu->free_bytes >> 20,
			 gpu->total_bytes >> 20);
		return impossible(why, object, cause, "nvidia-smi says who holds it; --force tests what is free");
	}
	return status;
}

/* GPUs of one name and size vote together. */
static void classes_find(struct stress_run *run)
{
	for (int i = 0; i < run->n_gpus; i++)
		for (int j = i; j >= 0; j--)
			if (!strcmp(run->gpus[i].name, run->gpus[j].name) &&
			    run->gpus[i].sm_count == run->gpus[j].sm_count)
				run->gpus[i].class = j;
}

/* Of those that there are, the one of that name alone. */
static int gpu_keep(struct stress_run *run, const char *name, char why[LIBRARY_WHY])
{
	struct gpu_id ids[STRESS_GPUS_MAX];
	int found;

	for (int i = 0; i < run->n_gpus; i++)
		ids[i] = (struct gpu_id){ .uuid = run->gpus[i].uuid, .pci = run->gpus[i].pci };
	found = gpu_name_find(ids, run->n_gpus, name);
	if (found < 0) {
		gpu_name_why(found, name, why);
		return STRESS_USAGE;
	}
	run->gpus[0] = run->gpus[found];
	run->gpus[0].index = 0;
	run->n_gpus = 1;
	return STRESS_PASSED;
}

static int gpus_choose(struct stress_run *run, char why[LIBRARY_WHY])
{
	uint64_t wanted = run->options->gpus;
	int n = 0, status = STRESS_PASSED;

	run->cuda.device_count(&n);
	n = n < STRESS_GPUS_MAX ? n : STRESS_GPUS_MAX;
	if (run->options->member) /* a launcher may show each process its own GPU only */
		wanted = 1ull << ((run->options->member - 1) % n);
	if (wanted >> (n - 1) >> 1) {
		snprintf(why, LIBRARY_WHY, "--gpus: this host has %d (0 to %d; CUDA_VISIBLE_DEVICES counts)", n, n - 1);
		return STRESS_USAGE;
	}
	for (int i = 0; i < n && !status; i++) {
		struct stress_gpu *gpu = &run->gpus[run->n_gpus];

		if (wanted && !(wanted >> i & 1))
			continue;
		*gpu = (struct stress_gpu){ .run = run, .index = run->n_gpus, .ordinal = i };
		status = gpu_identify(gpu, why);
		run->n_gpus += !status;
	}
	if (!status && run->options->gpu)
		status = gpu_keep(run, run->options->gpu, why);
	for (int i = 0; i < run->n_gpus && !status; i++)
		status = gpu_refuse_busy(&run->gpus[i], why);
	return status;
}

static bool is_under_test(const struct stress_run *run, int ordinal)
{
	for (int i = 0; i < run->n_gpus; i++)
		if (run->gpus[i].ordinal == ordinal)
			return true;
	return false;
}

static int inject_check(const struct stress_run *run, char why[LIBRARY_WHY])
{
	const struct inject *inject = &run->options->inject;
	int missing = -1;

	if (inject->kind && !is_under_test(run, inject->gpu))
		missing = inject->gpu;
	else if (inject->kind == INJECT_NO_PEER && !is_under_test(run, inject->to))
		missing = inject->to;
	if (missing < 0)
		return STRESS_PASSED;
	snprintf(why, LIBRARY_WHY, "--inject: GPU %d is not under test", missing);
	return STRESS_USAGE;
}

int run_open(struct stress_run *run, const struct stress_options *options, char why[LIBRARY_WHY])
{
	int status;

	run->options = options;
	run->begin_ns = clock_monotonic_ns();
	pthread_mutex_init(&run->lock, NULL);
	status = driver_open(run, why);
	status = status ? status : gpus_choose(run, why);
	for (int i = 0; !status && i < run->n_gpus; i++)
		status = gpu_open(&run->gpus[i], why);
	if (!status)
		status = inject_check(run, why);
	classes_find(run);
	return status;
}

int run_count(const struct stress_options *options, int *n, char why[LIBRARY_WHY])
{
	struct stress_run *run = calloc(1, sizeof(*run));
	int status;

	if (!run)
		abort();
	run->options = options;
	status = driver_open(run, why);
	if (!status)
		run->cuda.device_count(n);
	free(run);
	return status;
}

void run_close(struct stress_run *run)
{
	for (int i = 0; i < run->n_gpus; i++) {
		struct stress_gpu *gpu = &run->gpus[i];

		if (!gpu->context ||
		    gpu->lost) /* calls about a lost one may not return: the kernel frees what it has */
			continue;
		run->cuda.context_set(gpu->context);
		if (gpu->module)
			run->cuda.module_unload(gpu->module);
		if (gpu->stream)
			run->cuda.stream_destroy(gpu->stream);
		run->cuda.context_set(NULL);
		run->cuda.context_release(gpu->device);
	}
	if (run->nvml.shutdown)
		run->nvml.shutdown();
}
