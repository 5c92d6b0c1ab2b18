/* SPDX-License-Identifier: Apache-2.0
 *
 * nvml_abi.h - the part of NVML's interface that the tests call, declared anew from NVIDIA's public NVML API reference.
 * tracers/gpu has its own: the tests link no tracer.
 */
#ifndef STRESS_NVML_ABI_H
#define STRESS_NVML_ABI_H

enum { /* nvmlReturn_t */
       NVML_SUCCESS = 0,
       NVML_ERROR_NOT_SUPPORTED = 3,
       NVML_ERROR_INSUFFICIENT_SIZE = 7,
       NVML_ERROR_TIMEOUT = 10,
       NVML_ERROR_GPU_IS_LOST = 15,
       NVML_ERROR_RESET_REQUIRED = 16,
       NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
};
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 };
enum { NVML_TEMPERATURE_GPU = 0 };
enum { NVML_ECC_CORRECTED = 0, NVML_ECC_UNCORRECTED = 1, NVML_ECC_VOLATILE = 0 };
enum { NVML_EVENT_XID = 8 };
enum { NVML_FI_MEMORY_TEMP = 82 };
enum { NVML_NVLINK_TO_GPU = 0, NVML_NVLINK_TO_CPU = 1, NVML_NVLINK_TO_SWITCH = 2 }; /* nvmlIntNvLinkDeviceType_t */
enum {                                                                              /* reasons for lower clocks */
       NVML_REASON_SW_POWER = 0x4,
       NVML_REASON_HW_SLOWDOWN = 0x8,
       NVML_REASON_SW_THERMAL = 0x20,
       NVML_REASON_HW_THERMAL = 0x40,
       NVML_REASON_HW_POWER_BRAKE = 0x80,
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

struct nvml_utilization {
	unsigned int gpu, memory;
};

enum { NVML_FABRIC_NOT_SUPPORTED = 0, NVML_FABRIC_COMPLETED = 3 };

struct nvml_fabric { /* nvmlGpuFabricInfo_t */
	unsigned char cluster_uuid[16];
	int status;
	unsigned int clique;
	unsigned char state;
};

struct nvml_event { /* nvmlEventData_t */
	void *device;
	unsigned long long type, data;
	unsigned int gpu_instance, compute_instance;
};

struct nvml_field { /* nvmlFieldValue_t */
	unsigned int id, scope;
	long long timestamp_us, latency_us;
	unsigned int type;
	int ret;
	union {
		double d;
		unsigned int u;
		unsigned long long ull;
	} value;
};

/* X(field, symbol, required, arguments) */
/* clang-format off */
#define NVML_FUNCTIONS(X) \
	X(init, "nvmlInit_v2", true, (void)) \
	X(shutdown, "nvmlShutdown", false, (void)) \
	X(driver, "nvmlSystemGetDriverVersion", false, (char *version, unsigned int size)) \
	X(by_pci, "nvmlDeviceGetHandleByPciBusId_v2", true, (const char *id, void **device)) \
	X(count, "nvmlDeviceGetCount_v2", false, (unsigned int *n)) \
	X(by_uuid, "nvmlDeviceGetHandleByUUID", false, (const char *uuid, void **device)) \
	X(pci, "nvmlDeviceGetPciInfo_v3", false, (void *device, struct nvml_pci *pci)) \
	X(by_index, "nvmlDeviceGetHandleByIndex_v2", false, (unsigned int index, void **device)) \
	X(name, "nvmlDeviceGetName", false, (void *device, char *name, unsigned int size)) \
	X(vbios, "nvmlDeviceGetVbiosVersion", false, (void *device, char *version, unsigned int size)) \
	X(uuid, "nvmlDeviceGetUUID", true, (void *device, char *uuid, unsigned int size)) \
	X(processes, "nvmlDeviceGetComputeRunningProcesses_v3", true, \
	  (void *device, unsigned int *n, struct nvml_process *list)) \
	X(utilization, "nvmlDeviceGetUtilizationRates", true, (void *device, struct nvml_utilization *rates)) \
	X(clock, "nvmlDeviceGetClockInfo", true, (void *device, int type, unsigned int *mhz)) \
	X(reasons, "nvmlDeviceGetCurrentClocksEventReasons", false, (void *device, unsigned long long *bits)) \
	X(reasons_old, "nvmlDeviceGetCurrentClocksThrottleReasons", false, (void *device, unsigned long long *bits)) \
	X(power, "nvmlDeviceGetPowerUsage", true, (void *device, unsigned int *mw)) \
	X(power_limit, "nvmlDeviceGetEnforcedPowerLimit", false, (void *device, unsigned int *mw)) \
	X(temperature, "nvmlDeviceGetTemperature", true, (void *device, int sensor, unsigned int *celsius)) \
	X(ecc, "nvmlDeviceGetTotalEccErrors", false, (void *device, int type, int counter, unsigned long long *n)) \
	X(rows, "nvmlDeviceGetRemappedRows", false, \
	  (void *device, unsigned int *corrected, unsigned int *uncorrected, unsigned int *pending, \
	   unsigned int *failed)) \
	X(link_state, "nvmlDeviceGetNvLinkState", false, (void *device, unsigned int link, int *active)) \
	X(link_type, "nvmlDeviceGetNvLinkRemoteDeviceType", false, (void *device, unsigned int link, int *type)) \
	X(link_pci, "nvmlDeviceGetNvLinkRemotePciInfo_v2", false, \
	  (void *device, unsigned int link, struct nvml_pci *pci)) \
	X(fabric, "nvmlDeviceGetGpuFabricInfo", false, (void *device, struct nvml_fabric *fabric)) \
	X(width, "nvmlDeviceGetCurrPcieLinkWidth", false, (void *device, unsigned int *lanes)) \
	X(width_max, "nvmlDeviceGetMaxPcieLinkWidth", false, (void *device, unsigned int *lanes)) \
	X(generation, "nvmlDeviceGetCurrPcieLinkGeneration", false, (void *device, unsigned int *generation)) \
	X(generation_max, "nvmlDeviceGetMaxPcieLinkGeneration", false, (void *device, unsigned int *generation)) \
	X(fields, "nvmlDeviceGetFieldValues", false, (void *device, int n, struct nvml_field *values)) \
	X(events_create, "nvmlEventSetCreate", false, (void **set)) \
	X(events_add, "nvmlDeviceRegisterEvents", false, (void *device, unsigned long long types, void *set)) \
	X(events_wait, "nvmlEventSetWait_v2", false, (void *set, struct nvml_event *event, unsigned int ms)) \
	X(events_free, "nvmlEventSetFree", false, (void *set))
/* clang-format on */

struct nvml {
#define X(field, symbol, required, args) int(*field) args;
	NVML_FUNCTIONS(X)
#undef X
};

#endif
