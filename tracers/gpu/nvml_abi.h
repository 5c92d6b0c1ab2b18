/* SPDX-License-Identifier: Apache-2.0
 *
 * nvml_abi.h - the part of NVML's interface that is used, declared anew from NVIDIA's public NVML API reference: names,
 * arguments, numbers. Every function is looked up at run time and may be missing.
 */
#ifndef RANKTRACE_NVML_ABI_H
#define RANKTRACE_NVML_ABI_H

enum { /* nvmlReturn_t */
       NVML_SUCCESS = 0,
       NVML_ERROR_UNINITIALIZED = 1,
       NVML_ERROR_NOT_SUPPORTED = 3,
       NVML_ERROR_INSUFFICIENT_SIZE = 7,
       NVML_ERROR_DRIVER_NOT_LOADED = 9,
       NVML_ERROR_CORRUPTED_INFOROM = 14,
       NVML_ERROR_GPU_IS_LOST = 15,
       NVML_ERROR_RESET_REQUIRED = 16,
       NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
};
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 };
enum { NVML_TEMPERATURE_GPU = 0 };
enum { NVML_ECC_CORRECTED = 0, NVML_ECC_UNCORRECTED = 1, NVML_ECC_VOLATILE = 0, NVML_ECC_AGGREGATE = 1 };
enum { /* nvmlDeviceGetNvLinkErrorCounter */
       NVML_NVLINK_REPLAY = 0,
       NVML_NVLINK_RECOVERY = 1,
       NVML_NVLINK_CRC_FLIT = 2,
       NVML_NVLINK_CRC_DATA = 3,
};
enum { NVML_NVLINKS_MAX = 36, NVML_DEVICES_MAX = 64 };
enum { NVML_GPM_SM_UTIL = 2, NVML_GPM_SM_OCCUPANCY = 3, NVML_GPM_ANY_TENSOR_UTIL = 5, NVML_GPM_DRAM_UTIL = 10 };
enum { /* nvmlDeviceGetFieldValues; the totals of all links take scope ~0 */
       NVML_FI_NVLINK_CRC_FLIT_TOTAL = 38,
       NVML_FI_NVLINK_CRC_DATA_TOTAL = 45,
       NVML_FI_NVLINK_REPLAY_TOTAL = 52,
       NVML_FI_NVLINK_RECOVERY_TOTAL = 59,
       NVML_FI_MEMORY_TEMP = 82,
};

struct nvml_pci { /* nvmlPciInfo_t, version 3 */
	char bus_id_legacy[16];
	unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
	char bus_id[32];
};

struct nvml_process { /* nvmlProcessInfo_v2_t */
	unsigned int pid;
	unsigned long long used_memory;
	unsigned int gpu_instance, compute_instance;
};

struct nvml_utilization { /* nvmlProcessUtilizationSample_t: percent, of the time since the sample before */
	unsigned int pid;
	unsigned long long timestamp_us; /* wall clock */
	unsigned int sm, memory, encoder, decoder;
};

struct nvml_gpm_metric {
	unsigned int id;
	int ret;
	double value;
	struct {
		char *short_name, *long_name, *unit;
	} info;
};

#define NVML_GPM_METRICS \
	333           /* room in the newest version; older ones end sooner, and `n` says how many are asked for */
struct nvml_gpm_get { /* nvmlGpmMetricsGet_t */
	unsigned int version, n;
	void *from, *to;
	struct nvml_gpm_metric metrics[NVML_GPM_METRICS];
};
struct nvml_gpm_support {
	unsigned int version, supported;
};

struct nvml_field { /* nvmlFieldValue_t */
	unsigned int id, scope;
	long long timestamp_us, latency_us;
	unsigned int type; /* 0 double, 1 unsigned, 2 unsigned long, 3 unsigned long long, 4 long long, 5 int */
	int ret;
	union {
		double d;
		unsigned int u;
		unsigned long ul;
		unsigned long long ull;
		long long ll;
		int i;
	} value;
};

typedef void *nvml_device; /* an opaque handle */

/* X(field, symbol, arguments) */
/* clang-format off */
#define NVML_FUNCTIONS(X) \
	X(init, "nvmlInit_v2", (void)) \
	X(count, "nvmlDeviceGetCount_v2", (unsigned int *n)) \
	X(handle, "nvmlDeviceGetHandleByIndex_v2", (unsigned int i, nvml_device *d)) \
	X(pci, "nvmlDeviceGetPciInfo_v3", (nvml_device d, struct nvml_pci *pci)) \
	X(name, "nvmlDeviceGetName", (nvml_device d, char *name, unsigned int size)) \
	X(uuid, "nvmlDeviceGetUUID", (nvml_device d, char *uuid, unsigned int size)) \
	X(clock, "nvmlDeviceGetClockInfo", (nvml_device d, int type, unsigned int *mhz)) \
	X(clock_max, "nvmlDeviceGetMaxClockInfo", (nvml_device d, int type, unsigned int *mhz)) \
	X(reasons, "nvmlDeviceGetCurrentClocksEventReasons", (nvml_device d, unsigned long long *bits)) \
	X(reasons_old, "nvmlDeviceGetCurrentClocksThrottleReasons", (nvml_device d, unsigned long long *bits)) \
	X(power, "nvmlDeviceGetPowerUsage", (nvml_device d, unsigned int *mw)) \
	X(power_limit, "nvmlDeviceGetEnforcedPowerLimit", (nvml_device d, unsigned int *mw)) \
	X(temperature, "nvmlDeviceGetTemperature", (nvml_device d, int sensor, unsigned int *celsius)) \
	X(ecc, "nvmlDeviceGetTotalEccErrors", (nvml_device d, int type, int counter, unsigned long long *n)) \
	X(rows, "nvmlDeviceGetRemappedRows", \
	  (nvml_device d, unsigned int *corr, unsigned int *unc, unsigned int *pending, unsigned int *failed)) \
	X(pages_pending, "nvmlDeviceGetRetiredPagesPendingStatus", (nvml_device d, int *pending)) \
	X(inforom, "nvmlDeviceValidateInforom", (nvml_device d)) \
	X(link_state, "nvmlDeviceGetNvLinkState", (nvml_device d, unsigned int link, int *active)) \
	X(link_errors, "nvmlDeviceGetNvLinkErrorCounter", \
	  (nvml_device d, unsigned int link, int counter, unsigned long long *n)) \
	X(fields, "nvmlDeviceGetFieldValues", (nvml_device d, int n, struct nvml_field *values)) \
	X(pcie_replay, "nvmlDeviceGetPcieReplayCounter", (nvml_device d, unsigned int *n)) \
	X(pcie_width, "nvmlDeviceGetCurrPcieLinkWidth", (nvml_device d, unsigned int *width)) \
	X(pcie_gen, "nvmlDeviceGetCurrPcieLinkGeneration", (nvml_device d, unsigned int *gen)) \
	X(pcie_width_max, "nvmlDeviceGetMaxPcieLinkWidth", (nvml_device d, unsigned int *width)) \
	X(pcie_gen_max, "nvmlDeviceGetMaxPcieLinkGeneration", (nvml_device d, unsigned int *gen)) \
	X(processes, "nvmlDeviceGetComputeRunningProcesses_v3", \
	  (nvml_device d, unsigned int *n, struct nvml_process *list)) \
	X(utilization, "nvmlDeviceGetProcessUtilization", \
	  (nvml_device d, struct nvml_utilization *list, unsigned int *n, unsigned long long since_us)) \
	X(gpm_support, "nvmlGpmQueryDeviceSupport", (nvml_device d, struct nvml_gpm_support *s)) \
	X(gpm_alloc, "nvmlGpmSampleAlloc", (void **sample)) \
	X(gpm_sample, "nvmlGpmSampleGet", (nvml_device d, void *sample)) \
	X(gpm_metrics, "nvmlGpmMetricsGet", (struct nvml_gpm_get *get))
/* clang-format on */

struct nvml {
#define X(field, symbol, args) int(*field) args;
	NVML_FUNCTIONS(X)
#undef X
};

#endif
