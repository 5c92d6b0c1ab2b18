/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu.h - a GPU as NVML shows it. A struct stands in a record behind the header, in the event and in the model, the
 * same in all three.
 */
#ifndef RANKTRACE_WIRE_GPU_H
#define RANKTRACE_WIRE_GPU_H

#include <stdint.h>

#include "schemas/wire.h"

#define GPU_NO_VALUE 0xffffffffu /* in any 32-bit field below: the driver does not say; ~0 in a 64-bit one */
#define GPU_INDEX_ALL 0xffffffffu
#define GPU_PIDS_MAX 32
#define GPU_PCI_NONE (~0ull)
/* domain:bus:device as one number; the function does not distinguish GPUs */
#define GPU_PCI(domain, bus, device) ((uint64_t)(domain) << 16 | (uint64_t)(bus) << 8 | (device))

struct gpu_device {      /* what does not change */
	uint32_t index;  /* NVML's, and with CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA's */
	uint32_t n_gpus; /* of the host */
	uint64_t pci;    /* GPU_PCI() */
	uint32_t pcie_width_max, pcie_gen_max;
	uint32_t power_limit_mw, sm_clock_max_mhz;
	uint32_t n_nvlinks; /* active when first seen */
	uint16_t name_len;  /* of the record: bytes of text: name, UUID, each with its zero byte */
	uint16_t uuid_len;
};
struct record_gpu_device {
	struct wire_hdr hdr;
	struct gpu_device body;
	char text[];
};
_Static_assert(sizeof(struct record_gpu_device) == 64, "record_gpu_device");

/* How busy it was: shares in basis points (hundredths of a percent), over the window that ends at the record's time. */
struct gpu_sample {
	uint32_t index;
	uint32_t cost_us;   /* CPU time of this sample, this GPU's part */
	uint64_t window_ns; /* 0: no activity is known (no GPM, or the first sample) */
	uint32_t sm_bp, tensor_bp, dram_bp, occupancy_bp;
	uint32_t power_mw, temperature_c, sm_clock_mhz, mem_clock_mhz;
	uint64_t slowdown; /* enum gpu_slowdown bits */
};
struct record_gpu_sample {
	struct wire_hdr hdr;
	struct gpu_sample body;
};
_Static_assert(sizeof(struct record_gpu_sample) == 80, "record_gpu_sample");

/* In percent; negative not known. */
static inline double gpu_percent(uint32_t bp)
{
	return bp == GPU_NO_VALUE ? -1 : bp / 100.0;
}

/* Why clocks are lower than they could be: NVML's clocks event reasons. */
enum gpu_slowdown {
	GPU_SLOW_IDLE = 1,
	GPU_SLOW_APP_CLOCKS = 2,
	GPU_SLOW_POWER_CAP = 4,
	GPU_SLOW_HW = 8,
	GPU_SLOW_SYNC_BOOST = 16,
	GPU_SLOW_SW_THERMAL = 32,
	GPU_SLOW_HW_THERMAL = 64,
	GPU_SLOW_POWER_BRAKE = 128,
};

struct gpu_health {
	uint32_t index;
	uint32_t cost_us;
	uint64_t ecc_corrected, ecc_uncorrected; /* since the driver was loaded */
	uint64_t ecc_corrected_ever, ecc_uncorrected_ever;
	uint64_t nvlink_crc, nvlink_replay, nvlink_recovery; /* all links together */
	uint64_t pcie_replay;
	uint32_t rows_corrected, rows_uncorrected; /* remapped */
	uint32_t rows_pending, rows_failed;        /* 0 or 1 */
	uint32_t pages_pending;                    /* 0 or 1 */
	uint32_t inforom_bad;                      /* 0 or 1 */
	uint32_t nvlinks_active;
	uint32_t pcie_width, pcie_gen;
	uint32_t reserved;
};
struct record_gpu_health {
	struct wire_hdr hdr;
	struct gpu_health body;
};
_Static_assert(sizeof(struct record_gpu_health) == 136, "record_gpu_health");

struct gpu_procs { /* who computes on it */
	uint32_t index;
	uint32_t n;
	uint32_t pids[GPU_PIDS_MAX]; /* in the host's pid namespace */
};
struct record_gpu_procs {
	struct wire_hdr hdr;
	struct gpu_procs body;
};
_Static_assert(sizeof(struct record_gpu_procs) == 160, "record_gpu_procs");

struct gpu_usage { /* what one of these has of it: a record each, behind the list */
	uint32_t index, pid;
	uint32_t memory_mib; /* used, rounded up */
	uint32_t sm_percent; /* share of the time that a kernel of it ran, since the last such record */
};
struct record_gpu_usage {
	struct wire_hdr hdr;
	struct gpu_usage body;
};
_Static_assert(sizeof(struct record_gpu_usage) == 40, "record_gpu_usage");

enum gpu_answer {
	GPU_IS_THERE = 0,
	GPU_IS_LOST = 1,
	GPU_WANTS_RESET = 2,
	GPU_NO_ANSWER = 3, /* within the deadline */
};

struct gpu_state {         /* reported when it changes */
	uint32_t index;    /* GPU_INDEX_ALL: the driver, all GPUs */
	uint32_t answer;   /* enum gpu_answer */
	uint64_t since_ns; /* asked then, without an answer. In a record 0: as of its time */
};
struct record_gpu_state {
	struct wire_hdr hdr;
	struct gpu_state body;
};
_Static_assert(sizeof(struct record_gpu_state) == 40, "record_gpu_state");

#endif
