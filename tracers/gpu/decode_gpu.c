/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_gpu.c - see decode_gpu.h.
 */
#include "tracers/gpu/decode_gpu.h"

#include <errno.h>
#include <string.h>

#include "schemas/facts.h"

static const char *const log_classes[] = {
	[KERNEL_LOG_XID] = "xid",   [KERNEL_LOG_NVLINK] = "nvlink",
	[KERNEL_LOG_RDMA] = "rdma", [KERNEL_LOG_HUNG_TASK] = "hung_task",
	[KERNEL_LOG_OOM] = "oom",   [KERNEL_LOG_MCE] = "mce",
	[KERNEL_LOG_PCIE] = "pcie", [KERNEL_LOG_NVIDIA] = "nvidia",
	[KERNEL_LOG_SXID] = "sxid",
};
#define LOG_CLASSES (sizeof(log_classes) / sizeof(log_classes[0]))

static const char *text_at(const struct wire_hdr *h, size_t offset, size_t len, struct intern *strings)
{
	return offset + len <= h->size ? intern_bytes(strings, (const char *)h + offset, len) : NULL;
}

static int device(const struct fact_gpu_device *f, struct intern *strings, struct event *e)
{
	e->kind = EV_GPU_DEVICE;
	e->gpu_device.index = f->index;
	e->gpu_device.n_gpus = f->n_gpus;
	e->gpu_device.pci = f->pci;
	e->gpu_device.pcie_width_max = f->pcie_width_max;
	e->gpu_device.pcie_gen_max = f->pcie_gen_max;
	e->gpu_device.power_limit_mw = f->power_limit_mw;
	e->gpu_device.sm_clock_max_mhz = f->sm_clock_max_mhz;
	e->gpu_device.n_nvlinks = f->n_nvlinks;
	e->gpu_device.name = text_at(&f->hdr, sizeof(*f), f->name_len, strings);
	e->gpu_device.uuid = text_at(&f->hdr, sizeof(*f) + f->name_len, f->uuid_len, strings);
	return e->gpu_device.name && e->gpu_device.uuid ? 1 : -EINVAL;
}

static double share(uint32_t hundredths)
{
	return hundredths == GPU_UNKNOWN ? -1 : hundredths / 100.0;
}

static int sample(const struct fact_gpu_sample *f, struct event *e)
{
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

static int health(const struct fact_gpu_health *f, struct event *e)
{
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

static int procs(const struct fact_gpu_procs *f, struct event *e)
{
	_Static_assert(GPU_PIDS_MAX == GPU_PROCS_MAX, "as many in the event as in the record");
	e->kind = EV_GPU_PROCS;
	e->gpu_procs.index = f->index;
	e->gpu_procs.n = f->n < GPU_PROCS_MAX ? f->n : GPU_PROCS_MAX;
	memcpy(e->gpu_procs.pids, f->pids, sizeof(e->gpu_procs.pids));
	return 1;
}

static int state(const struct fact_gpu_state *f, struct event *e)
{
	if (f->state > GPU_SILENT)
		return -EINVAL;
	e->kind = EV_GPU_STATE;
	e->gpu_state.index = f->index;
	e->gpu_state.answer = (enum gpu_answer)f->state;
	e->gpu_state.since_ns = f->since_ns ? f->since_ns : f->hdr.ts_ns;
	return 1;
}

static int kernel_log(const struct fact_kernel_log *f, struct intern *strings, struct event *e)
{
	e->kind = f->xid ? EV_XID : EV_KERNEL_LOG;
	e->kernel_log.xid = f->xid;
	e->kernel_log.pid = f->pid;
	e->kernel_log.pci = f->pci;
	e->kernel_log.of_switch = f->class == KERNEL_LOG_SXID;
	e->kernel_log.class = f->class < LOG_CLASSES && log_classes[f->class] ? log_classes[f->class] : "other";
	e->kernel_log.text = text_at(&f->hdr, sizeof(*f), f->text_len, strings);
	return e->kernel_log.text ? 1 : -EINVAL;
}

static int pressure(const struct fact_pressure *f, struct event *e)
{
	e->kind = EV_PRESSURE;
	memcpy(e->pressure.stall_ns, f->stall_ns, sizeof(e->pressure.stall_ns));
	e->pressure.throttled_ns = f->throttled_ns;
	e->pressure.known = f->known;
	return 1;
}

int decode_gpu_fact(const struct wire_hdr *h, struct intern *strings, struct event *e)
{
	static const uint16_t sizes[] = {
		[FACT_PRESSURE] = sizeof(struct fact_pressure),     [FACT_KERNEL_LOG] = sizeof(struct fact_kernel_log),
		[FACT_GPU_DEVICE] = sizeof(struct fact_gpu_device), [FACT_GPU_SAMPLE] = sizeof(struct fact_gpu_sample),
		[FACT_GPU_HEALTH] = sizeof(struct fact_gpu_health), [FACT_GPU_PROCS] = sizeof(struct fact_gpu_procs),
		[FACT_GPU_STATE] = sizeof(struct fact_gpu_state),
	};

	if (h->kind >= sizeof(sizes) / sizeof(sizes[0]) || !sizes[h->kind] || h->size < sizes[h->kind])
		return -EINVAL;
	switch (h->kind) {
	case FACT_PRESSURE: return pressure((const void *)h, e);
	case FACT_KERNEL_LOG: return kernel_log((const void *)h, strings, e);
	case FACT_GPU_DEVICE: return device((const void *)h, strings, e);
	case FACT_GPU_SAMPLE: return sample((const void *)h, e);
	case FACT_GPU_HEALTH: return health((const void *)h, e);
	case FACT_GPU_PROCS: return procs((const void *)h, e);
	default: return state((const void *)h, e);
	}
}
