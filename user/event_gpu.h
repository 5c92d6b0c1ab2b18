/* SPDX-License-Identifier: Apache-2.0
 *
 * event_gpu.h - what events say of a GPU. Included by event.h.
 */
#ifndef RANKTRACE_EVENT_GPU_H
#define RANKTRACE_EVENT_GPU_H

#include <stdint.h>

/* Of a GPU. What the driver does not say is GPU_NO_VALUE (32 bits) or ~0 (64 bits); shares are in percent, negative
 * unknown. */
#define GPU_NO_VALUE 0xffffffffu
#define GPU_INDEX_ALL 0xffffffffu
#define GPU_PCI_NONE (~0ull)
#define GPU_PIDS_MAX 32
enum gpu_answer { GPU_IS_THERE, GPU_IS_LOST, GPU_WANTS_RESET, GPU_NO_ANSWER };

struct gpu_sample {
	uint32_t index, power_mw, temperature_c, sm_clock_mhz, mem_clock_mhz;
	uint32_t cost_us;   /* CPU time of the sample */
	uint64_t window_ns; /* 0: the shares are not known */
	uint64_t slowdown;  /* NVML's clocks event reasons */
	double sm, tensor, dram, occupancy;
};

struct gpu_health { /* counters: see struct record_gpu_health */
	uint32_t index, rows_corrected, rows_uncorrected, rows_pending, rows_failed, pages_pending, inforom_bad;
	uint32_t nvlinks_active, pcie_width, pcie_gen, cost_us;
	uint64_t ecc_corrected, ecc_uncorrected, ecc_corrected_ever, ecc_uncorrected_ever;
	uint64_t nvlink_crc, nvlink_replay, nvlink_recovery, pcie_replay;
};

#endif
