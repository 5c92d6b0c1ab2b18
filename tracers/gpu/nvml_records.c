/* SPDX-License-Identifier: Apache-2.0
 *
 * nvml_records.c - GPUs as NVML shows them.
 */
#include <string.h>

#include "record.h"
#include "schemas/collector.h"

static int device(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_gpu_device *f = (const void *)rec;

	e->kind = EV_GPU_DEVICE;
	e->gpu_device.index = f->index;
	e->gpu_device.n_gpus = f->n_gpus;
	e->gpu_device.pci = f->pci;
	e->gpu_device.pcie_width_max = f->pcie_width_max;
	e->gpu_device.pcie_gen_max = f->pcie_gen_max;
	e->gpu_device.power_limit_mw = f->power_limit_mw;
	e->gpu_device.sm_clock_max_mhz = f->sm_clock_max_mhz;
	e->gpu_device.n_nvlinks = f->n_nvlinks;
	e->gpu_device.name = record_text(rec, sizeof(*f), f->name_len, strings);
	e->gpu_device.uuid = record_text(rec, sizeof(*f) + f->name_len, f->uuid_len, strings);
	return e->gpu_device.name && e->gpu_device.uuid ? 1 : -EINVAL;
}

static double share(uint32_t hundredths)
{
	return hundredths == GPU_UNKNOWN ? -1 : hundredths / 100.0;
}

static int sample(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_gpu_sample *f = (const void *)rec;

	(void)strings;
	e->kind = EV_GPU_SAMPLE;
	e->gpu_sample = (struct gpu_sample){
		.index = f->index,
		.power_mw = f->power_mw,
		.temperature_c = f->temperature_c,
		.sm_clock_mhz = f->sm_clock_mhz,
		.mem_clock_mhz = f->mem_clock_mhz,
		.cost_us = f->cost_us,
		.window_ns = f->window_ns,
		.slowdown = f->slowdown,
		.sm = share(f->sm),
		.tensor = share(f->tensor),
		.dram = share(f->dram),
		.occupancy = share(f->occupancy),
	};
	return 1;
}

static int health(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_gpu_health *f = (const void *)rec;

	(void)strings;
	e->kind = EV_GPU_HEALTH;
	e->gpu_health = (struct gpu_health){
		.index = f->index,
		.cost_us = f->cost_us,
		.rows_corrected = f->rows_corrected,
		.rows_uncorrected = f->rows_uncorrected,
		.rows_pending = f->rows_pending,
		.rows_failed = f->rows_failed,
		.pages_pending = f->pages_pending,
		.inforom_bad = f->inforom_bad,
		.nvlinks_active = f->nvlinks_active,
		.pcie_width = f->pcie_width,
		.pcie_gen = f->pcie_gen,
		.ecc_corrected = f->ecc_corrected,
		.ecc_uncorrected = f->ecc_uncorrected,
		.ecc_corrected_ever = f->ecc_corrected_ever,
		.ecc_uncorrected_ever = f->ecc_uncorrected_ever,
		.nvlink_crc = f->nvlink_crc,
		.nvlink_replay = f->nvlink_replay,
		.nvlink_recovery = f->nvlink_recovery,
		.pcie_replay = f->pcie_replay,
	};
	return 1;
}

static int procs(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_gpu_procs *f = (const void *)rec;

	(void)strings;
	_Static_assert(GPU_PIDS_MAX == GPU_PROCS_MAX, "as many in the event as in the record");
	e->kind = EV_GPU_PROCS;
	e->gpu_procs.index = f->index;
	e->gpu_procs.n = f->n < GPU_PROCS_MAX ? f->n : GPU_PROCS_MAX;
	memcpy(e->gpu_procs.pids, f->pids, sizeof(e->gpu_procs.pids));
	return 1;
}

static int state(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_gpu_state *f = (const void *)rec;

	(void)strings;
	if (f->state > GPU_SILENT)
		return -EINVAL;
	e->kind = EV_GPU_STATE;
	e->gpu_state.index = f->index;
	e->gpu_state.answer = (enum gpu_answer)f->state;
	e->gpu_state.since_ns = f->since_ns ? f->since_ns : f->hdr.ts_ns;
	return 1;
}

#define COLLECTOR(id) .tracer = WIRE_COLLECTOR, .kind = id
const struct record_kind source_records_nvml[] = {
	{ "gpu_device", COLLECTOR(RECORD_GPU_DEVICE), .size = sizeof(struct record_gpu_device),
	  .kept_by = offsetof(struct record_gpu_device, index), .in_autopsy = true, .decode = device },
	{ "gpu_sample", COLLECTOR(RECORD_GPU_SAMPLE), .size = sizeof(struct record_gpu_sample),
	  .kept_by = offsetof(struct record_gpu_sample, index), .in_autopsy = true, .decode = sample },
	{ "gpu_health", COLLECTOR(RECORD_GPU_HEALTH), .size = sizeof(struct record_gpu_health),
	  .kept_by = offsetof(struct record_gpu_health, index), .in_autopsy = true, .decode = health },
	{ "gpu_procs", COLLECTOR(RECORD_GPU_PROCS), .size = sizeof(struct record_gpu_procs),
	  .kept_by = offsetof(struct record_gpu_procs, index), .in_autopsy = true, .decode = procs },
	{ "gpu_state", COLLECTOR(RECORD_GPU_STATE), .size = sizeof(struct record_gpu_state),
	  .kept_by = offsetof(struct record_gpu_state, index), .times = { offsetof(struct record_gpu_state, since_ns) },
	  .in_autopsy = true, .decode = state },
	{}
};
