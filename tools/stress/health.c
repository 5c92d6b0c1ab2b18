/* SPDX-License-Identifier: Apache-2.0
 *
 * health.c - see health.h.
 */
#include "tools/stress/health.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/stress/report.h"

#define PERIOD_MS 500
#define SLOWED (NVML_REASON_HW_SLOWDOWN | NVML_REASON_HW_THERMAL | NVML_REASON_HW_POWER_BRAKE)
#define SLOWED_SAMPLES_MIN 4 /* two seconds: a short one at the change of load is ordinary */
#define SLOWED_SHARE 0.05

static const struct {
	uint64_t bit;
	const char *name;
} reasons[] = {
	{ NVML_REASON_SW_POWER, "power cap" },          { NVML_REASON_HW_SLOWDOWN, "HW slowdown" },
	{ NVML_REASON_SW_THERMAL, "SW thermal limit" }, { NVML_REASON_HW_THERMAL, "HW thermal slowdown" },
	{ NVML_REASON_HW_POWER_BRAKE, "power brake" },
};

const char *health_reasons(uint64_t bits, char *text, size_t size)
{
	size_t at = 0;

	snprintf(text, size, "none");
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]) && at < size; i++)
		if (bits & reasons[i].bit)
			at += snprintf(text + at, size - at, "%s%s", at ? ", " : "", reasons[i].name);
	return text;
}

static void counters_read(struct stress_gpu *gpu)
{
	const struct nvml *nvml = &gpu->run->nvml;
	struct health *h = &gpu->health;
	unsigned long long n;
	unsigned int corrected, uncorrected, pending, failed;

	h->ecc_corrected = h->ecc_uncorrected = h->rows_pending = h->rows_failed = -1;
	if (nvml->ecc && !nvml->ecc(gpu->nvml, NVML_ECC_CORRECTED, NVML_ECC_VOLATILE, &n))
		h->ecc_corrected = n;
	if (nvml->ecc && !nvml->ecc(gpu->nvml, NVML_ECC_UNCORRECTED, NVML_ECC_VOLATILE, &n))
		h->ecc_uncorrected = n;
	if (nvml->rows && !nvml->rows(gpu->nvml, &corrected, &uncorrected, &pending, &failed)) {
		h->rows_pending = pending;
		h->rows_failed = failed;
	}
}

static uint64_t reasons_read(const struct stress_gpu *gpu)
{
	const struct nvml *nvml = &gpu->run->nvml;
	unsigned long long bits = 0;
	int error = NVML_ERROR_NOT_SUPPORTED;

	if (nvml->reasons)
		error = nvml->reasons(gpu->nvml, &bits);
	if (error && nvml->reasons_old)
		error = nvml->reasons_old(gpu->nvml, &bits);
	return error ? 0 : bits;
}

static double memory_temperature(const struct stress_gpu *gpu)
{
	struct nvml_field field = { .id = NVML_FI_MEMORY_TEMP };
	const struct nvml *nvml = &gpu->run->nvml;

	return nvml->fields && !nvml->fields(gpu->nvml, 1, &field) && !field.ret ? (double)field.value.u : -1;
}

/* -1: NVML cannot say. */
static void values_read(struct stress_gpu *gpu)
{
	const struct nvml *nvml = &gpu->run->nvml;
	struct health *h = &gpu->health;
	unsigned int v = 0;

	h->temperature_c = nvml->temperature(gpu->nvml, NVML_TEMPERATURE_GPU, &v) ? -1 : (double)v;
	h->power_w = nvml->power(gpu->nvml, &v) ? -1 : v * 1e-3;
	h->limit_w = !nvml->power_limit || nvml->power_limit(gpu->nvml, &v) ? -1 : v * 1e-3;
	h->sm_mhz = nvml->clock(gpu->nvml, NVML_CLOCK_SM, &v) ? -1 : (double)v;
	h->mem_mhz = nvml->clock(gpu->nvml, NVML_CLOCK_MEM, &v) ? -1 : (double)v;
}

static void gpu_sample(struct stress_gpu *gpu)
{
	struct health *h = &gpu->health;

	values_read(gpu);
	h->memory_temperature_c = memory_temperature(gpu);
	h->reasons = reasons_read(gpu);
	counters_read(gpu);
	if (gpu->rate_now <= 0) /* between two windows clocks say nothing */
		return;
	h->samples++;
	h->reasons_seen |= h->reasons;
	h->samples_slowed += (h->reasons & SLOWED) != 0;
	h->samples_hot += (h->reasons & NVML_REASON_SW_THERMAL) != 0;
	h->temperature_max_c = h->temperature_c > h->temperature_max_c ? h->temperature_c : h->temperature_max_c;
	h->power_max_w = h->power_w > h->power_max_w ? h->power_w : h->power_max_w;
	if (h->sm_mhz > 0 && (h->sm_mhz_min == 0 || h->sm_mhz < h->sm_mhz_min))
		h->sm_mhz_min = h->sm_mhz;
}

/* Waits for XIDs, or for the next sample. */
static void xids_wait(struct health_thread *h)
{
	struct nvml_event event = { 0 };
	int error = h->events ? h->run->nvml.events_wait(h->events, &event, PERIOD_MS) : NVML_ERROR_NOT_SUPPORTED;

	if (error == NVML_SUCCESS && event.type == NVML_EVENT_XID) {
		for (int i = 0; i < h->run->n_gpus; i++) {
			struct fault fault = { .kind = FAULT_XID, .gpu = i, .measure = h->run->measure_now };

			if (h->run->gpus[i].nvml != event.device)
				continue;
			snprintf(fault.text, sizeof(fault.text),
				 "the driver reported XID %llu during the test: docs.nvidia.com/deploy/xid-errors has "
				 "its meaning",
				 event.data);
			run_fault(h->run, &fault);
		}
	} else if (error != NVML_ERROR_TIMEOUT) {
		nanosleep(&(struct timespec){ .tv_nsec = PERIOD_MS * 1000000l }, NULL);
	}
}

static void *health_main(void *arg)
{
	struct health_thread *h = arg;

	while (!h->quit) {
		xids_wait(h);
		for (int i = 0; i < h->run->n_gpus; i++)
			if (!h->run->gpus[i].lost)
				gpu_sample(&h->run->gpus[i]);
		report_tick(h->run->report, h->run, h->ticks++);
	}
	return NULL;
}

static void events_begin(struct health_thread *h)
{
	const struct nvml *nvml = &h->run->nvml;

	if (!nvml->events_create || !nvml->events_add || !nvml->events_wait || nvml->events_create(&h->events))
		h->events = NULL;
	for (int i = 0; h->events && i < h->run->n_gpus; i++)
		if (nvml->events_add(h->run->gpus[i].nvml, NVML_EVENT_XID, h->events))
			run_note(h->run, "GPU %d: NVML gives no XID events: look at the kernel log for them",
				 h->run->gpus[i].ordinal);
}

int health_start(struct health_thread *h, struct stress_run *run, char why[LIBRARY_WHY])
{
	*h = (struct health_thread){ .run = run };
	for (int i = 0; i < run->n_gpus; i++) {
		struct health *of = &run->gpus[i].health;

		gpu_sample(&run->gpus[i]);
		of->ecc_corrected_begin = of->ecc_corrected;
		of->ecc_uncorrected_begin = of->ecc_uncorrected;
		of->rows_pending_begin = of->rows_pending;
		of->rows_failed_begin = of->rows_failed;
	}
	events_begin(h);
	if (!pthread_create(&h->thread, NULL, health_main, h))
		return 0;
	snprintf(why, LIBRARY_WHY, "no thread can be started: raise the limit of processes (ulimit -u)");
	return -ENOSYS;
}

static void fault_add(struct stress_gpu *gpu, enum fault_kind kind, const char *text)
{
	struct fault fault = { .kind = kind, .gpu = gpu->index, .measure = -1 };

	snprintf(fault.text, sizeof(fault.text), "%s", text);
	run_fault(gpu->run, &fault);
}

static void gpu_judge(struct stress_gpu *gpu)
{
	const struct health *h = &gpu->health;
	char text[FAULT_TEXT], names[120];

	if (h->ecc_uncorrected > h->ecc_uncorrected_begin && h->ecc_uncorrected_begin >= 0) {
		snprintf(text, sizeof(text),
			 "%lld uncorrectable ECC errors during the test: reset the GPU, then test again",
			 (long long)(h->ecc_uncorrected - h->ecc_uncorrected_begin));
		fault_add(gpu, FAULT_ECC, text);
	}
	if (h->ecc_corrected > h->ecc_corrected_begin && h->ecc_corrected_begin >= 0)
		run_note(gpu->run, "GPU %d: %lld ECC errors corrected during the test", gpu->ordinal,
			 (long long)(h->ecc_corrected - h->ecc_corrected_begin));
	if (h->rows_failed > 0)
		fault_add(gpu, FAULT_ROWS, "a row of its memory could not be remapped: replace the GPU");
	if (h->rows_pending > 0)
		fault_add(gpu, FAULT_ROWS, "rows of its memory wait to be remapped: reset the GPU, then test again");
	if (h->samples_slowed >= SLOWED_SAMPLES_MIN && h->samples_slowed > SLOWED_SHARE * h->samples) {
		snprintf(
			text, sizeof(text),
			"its hardware lowered the clocks for %.0f %% of the test (%s; up to %.0f C, down to %.0f MHz): "
			"look at cooling and power supply",
			100.0 * h->samples_slowed / h->samples,
			health_reasons(h->reasons_seen & SLOWED, names, sizeof(names)), h->temperature_max_c,
			h->sm_mhz_min);
		fault_add(gpu, FAULT_THROTTLED, text);
	}
	if (h->samples_hot > SLOWED_SHARE * h->samples)
		run_note(gpu->run,
			 "GPU %d: at its thermal limit for %.0f %% of the test (%.0f C): rates are those of a warm GPU",
			 gpu->ordinal, 100.0 * h->samples_hot / h->samples, h->temperature_max_c);
}

void health_stop(struct health_thread *h)
{
	h->quit = true;
	pthread_join(h->thread, NULL);
	for (int i = 0; i < h->run->n_gpus; i++) {
		if (h->run->gpus[i].lost)
			continue;
		counters_read(&h->run->gpus[i]);
		gpu_judge(&h->run->gpus[i]);
	}
	if (h->events && h->run->nvml.events_free)
		h->run->nvml.events_free(h->events);
}
