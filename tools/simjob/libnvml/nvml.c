// SPDX-License-Identifier: Apache-2.0
/*
 * A stand-in for libnvidia-ml.so.1: the functions a monitor calls, about the simulated GPUs in SIM_GPU_STATE. Activity
 * is how long each computed between two samples, times what a large matrix multiplication shows on a real one; error
 * counters move from the moment a fault strikes.
 */
#include "tools/simjob/libnvml/parts.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* NVML's own header would declare them */

#define CORRUPTED_INFOROM 14
#define IS_LOST 15
#define DRIVER_NOT_LOADED 9
#define LIB_RM_VERSION_MISMATCH 18
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define UUID_LEN 48
#define TIMED_OUT 10
#define EVENT_XID 8
#define INIT_NS 30000000000ULL
#define UTILIZATION_ROOM 72 /* as measured on an H100 */
#define UTILIZATION_NS 1000000000

/* Of a GPU that computes, and of one that waits in a collective now and then, as measured on H200s. */
#define SM_BUSY 91.0
#define SM_WAITING 8.0
#define TENSOR_BUSY 52.0
#define DRAM_BUSY 37.0
#define OCCUPANCY_BUSY 25.0
#define GPM_SM 2
#define GPM_OCCUPANCY 3
#define GPM_TENSOR 5
#define GPM_DRAM 10
#define POWER_IDLE_MW 120000
#define POWER_BUSY_MW 690000
#define HEAT_IDLE_C 34
#define HEAT_BUSY_C 44 /* more, at full load */
#define HEAT_S 6
#define HEAT_SLOWS_C 74
#define HEAT_SLOWS_MHZ 15 /* a degree */

struct event {
	const struct sim_gpu *gpu;
	unsigned long long type, data;
	unsigned int gpu_instance, compute_instance;
};

struct process_info {
	unsigned int pid;
	unsigned long long memory;
	unsigned int gpu_instance, compute_instance;
};

struct utilization {
	unsigned int pid;
	unsigned long long timestamp_us;
	unsigned int sm, memory, encoder, decoder;
};

struct gpm_metric {
	unsigned int id;
	int ret;
	double value;
	char *names[3];
};

struct gpm_get {
	unsigned int version, nr_metrics;
	struct gpm_sample *from, *to;
	struct gpm_metric metrics[];
};

struct gpm_sample {
	struct sim_gpu *gpu;
	uint64_t ns;
};

struct gpm_support {
	unsigned int version, supported;
};

const struct sim_gpus *all;

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

unsigned int index_of(const struct sim_gpu *gpu)
{
	return gpu - all->gpus;
}

/* As long as there is a file of that name the driver is unloaded; who had it open has to begin anew. */
static int is_away(void)
{
	const char *path = getenv("SIM_GPU_AWAY");

	return path && !access(path, F_OK);
}

/* A driver that has stalled has stalled for everybody. What every call about a GPU begins with. */
int check(const struct sim_gpu *gpu)
{
	static int was_away;
	unsigned int i;

	was_away |= is_away();
	if (was_away)
		return UNINITIALIZED;
	for (i = 0; i < all->nr_gpus; i++) {
		while (all->gpus[i].faults & SIM_GPU_SILENT)
			usleep(100000);
	}
	return gpu->faults & SIM_GPU_LOST ? IS_LOST : SUCCESS;
}

/* How many have come since the fault struck, at that many a second. */
unsigned long long count_since(const struct sim_gpu *gpu, unsigned int fault, double per_s)
{
	return gpu->faults & fault ? 1 + (unsigned long long)((now_ns() - gpu->fault_ns) * 1e-9 * per_s) : 0;
}

static double busy_share(const struct sim_gpu_spans *of, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t n = of->nr, busy_ns = 0, i;

	for (i = n > SIM_GPU_SPANS ? n - SIM_GPU_SPANS : 0; i < n; i++) {
		uint64_t begin = of->spans[i % SIM_GPU_SPANS].begin_ns, end = of->spans[i % SIM_GPU_SPANS].end_ns;

		begin = begin > from_ns ? begin : from_ns;
		end = end < to_ns ? end : to_ns;
		busy_ns += end > begin ? end - begin : 0;
	}
	return to_ns > from_ns ? (double)busy_ns / (to_ns - from_ns) : 0;
}

/* Up to half a point either way, another one each time. */
static double noise(const struct gpm_sample *sample, unsigned int id)
{
	uint64_t x = (sample->ns ^ (uint64_t)index_of(sample->gpu) << 40 ^ id) * 0x9e3779b97f4a7c15ULL;

	return (double)(x >> 40) / (1 << 24) - 0.5;
}

/* A driver takes its time to initialise GPUs; this one's are there when the job is. */
EXPORT int nvmlInit_v2(void)
{
	uint64_t end_ns = now_ns() + INIT_NS;

	if (getenv("SIM_NVML_MISMATCH"))
		return LIB_RM_VERSION_MISMATCH;
	while (getenv("SIM_GPU_STATE") && !is_away()) {
		all = all ? all : sim_gpus_look();
		if (all && all->nr_gpus)
			return SUCCESS;
		if (now_ns() >= end_ns)
			break;
		usleep(50000);
	}
	return DRIVER_NOT_LOADED;
}

/* As the module's, unless SIM_DRIVER_VERSION says so. */
EXPORT int nvmlSystemGetDriverVersion(char *ret_version, unsigned int size)
{
	const char *own = getenv("SIM_DRIVER_VERSION");

	snprintf(ret_version, size, "%s", own ? own : "580.159");
	return SUCCESS;
}

EXPORT int nvmlDeviceGetVbiosVersion(struct sim_gpu *gpu, char *ret_version, unsigned int size)
{
	snprintf(ret_version, size, "96.00.89.00.01");
	return check(gpu);
}

EXPORT int nvmlDeviceGetCount_v2(unsigned int *ret_n)
{
	*ret_n = all->nr_gpus;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int i, const struct sim_gpu **ret_gpu)
{
	if (i >= all->nr_gpus)
		return INVALID_ARGUMENT;
	*ret_gpu = &all->gpus[i];
	return check(*ret_gpu);
}

static void uuid_of(const struct sim_gpu *gpu, char uuid[UUID_LEN])
{
	snprintf(uuid, UUID_LEN, "GPU-51300000-0000-0000-0000-%012u", index_of(gpu));
}

/* With SIM_GPU_DOMAINS=1 each GPU is in a PCI domain of its own, as on Azure's ND H100 v5 and on GB200. */
static void place_of(const struct sim_gpu *gpu, unsigned int *ret_domain, unsigned int *ret_bus)
{
	const char *text = getenv("SIM_GPU_DOMAINS");
	int own = text && atoi(text);

	*ret_domain = own ? 1 + index_of(gpu) : 0;
	*ret_bus = own ? 0x10 : 0x10 + index_of(gpu);
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *id, const struct sim_gpu **ret_gpu)
{
	unsigned int domain, bus, own_domain, own_bus, i;

	if (sscanf(id, "%x:%x:", &domain, &bus) != 2)
		return INVALID_ARGUMENT;
	for (i = 0; i < all->nr_gpus; i++) {
		place_of(&all->gpus[i], &own_domain, &own_bus);
		if (own_domain == domain && own_bus == bus) {
			*ret_gpu = &all->gpus[i];
			return check(*ret_gpu);
		}
	}
	return NOT_FOUND;
}

/* SIM_GPU_MIG: the UUID of a MIG device of GPU 0. No index leads to it. */
EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, const struct sim_gpu **ret_gpu)
{
	const char *mig = getenv("SIM_GPU_MIG");
	char own[UUID_LEN];
	unsigned int i;

	for (i = 0; i < all->nr_gpus; i++) {
		uuid_of(&all->gpus[i], own);
		if (!strcmp(uuid, own) || (!i && mig && !strcmp(uuid, mig))) {
			*ret_gpu = &all->gpus[i];
			return check(*ret_gpu);
		}
	}
	return NOT_FOUND;
}

EXPORT int nvmlDeviceGetPciInfo_v3(struct sim_gpu *gpu, struct pci_info *ret_pci)
{
	memset(ret_pci, 0, sizeof(*ret_pci));
	place_of(gpu, &ret_pci->domain, &ret_pci->bus);
	snprintf(ret_pci->bus_id, sizeof(ret_pci->bus_id), "%08X:%02X:00.0", ret_pci->domain, ret_pci->bus);
	snprintf(ret_pci->bus_id_legacy, sizeof(ret_pci->bus_id_legacy), "%04X:%02X:00.0", ret_pci->domain & 0xffff,
		 ret_pci->bus);
	return check(gpu);
}

EXPORT int nvmlDeviceGetName(struct sim_gpu *gpu, char *ret_name, unsigned int size)
{
	snprintf(ret_name, size, "simulated GPU");
	return check(gpu);
}

EXPORT int nvmlDeviceGetUUID(struct sim_gpu *gpu, char *ret_uuid, unsigned int size)
{
	char uuid[UUID_LEN];

	uuid_of(gpu, uuid);
	snprintf(ret_uuid, size, "%s", uuid);
	return check(gpu);
}

/* With SIM_GPU_HEAT=1: as a GPU of such a load gets warm and cold again; each next one has a little less air. */
static double heat_of(const struct sim_gpu *gpu)
{
	static double heat[SIM_GPUS_MAX];
	static uint64_t at_ns[SIM_GPUS_MAX];
	uint64_t now = now_ns();
	unsigned int i = index_of(gpu);
	double since_s = at_ns[i] ? 1e-9 * (now - at_ns[i]) : 0;
	double aim = HEAT_IDLE_C + (HEAT_BUSY_C + 2 * i) * busy_share(&gpu->compute, now - 1000000000, now);

	heat[i] = at_ns[i] ? heat[i] + (aim - heat[i]) * since_s / (since_s + HEAT_S) : HEAT_IDLE_C;
	at_ns[i] = now;
	return heat[i];
}

static int heats(void)
{
	const char *text = getenv("SIM_GPU_HEAT");

	return text && atoi(text);
}

EXPORT int nvmlDeviceGetClockInfo(struct sim_gpu *gpu, int type, unsigned int *ret_mhz)
{
	int slow = (gpu->faults & (SIM_GPU_THERMAL | SIM_GPU_POWER_BRAKE)) != 0;

	*ret_mhz = type == 2 ? 3201 : slow ? 1200 : 1980;
	if (heats() && type != 2 && heat_of(gpu) > HEAT_SLOWS_C)
		*ret_mhz -= HEAT_SLOWS_MHZ * (heat_of(gpu) - HEAT_SLOWS_C);
	return check(gpu);
}

EXPORT int nvmlDeviceGetMaxClockInfo(struct sim_gpu *gpu, int type, unsigned int *ret_mhz)
{
	*ret_mhz = type == 2 ? 3201 : 1980;
	return check(gpu);
}

EXPORT int nvmlDeviceGetCurrentClocksEventReasons(struct sim_gpu *gpu, unsigned long long *ret_bits)
{
	*ret_bits = 4; /* the power cap, as under any load */
	if (gpu->faults & SIM_GPU_THERMAL)
		*ret_bits |= 8 | 0x40;
	if (gpu->faults & SIM_GPU_POWER_BRAKE)
		*ret_bits |= 8 | 0x80;
	return check(gpu);
}

EXPORT int nvmlDeviceGetUtilizationRates(struct sim_gpu *gpu, unsigned int *ret_rates)
{
	uint64_t now = now_ns();

	ret_rates[0] = 100 * busy_share(&gpu->compute, now - UTILIZATION_NS, now);
	ret_rates[1] = 0;
	return check(gpu);
}

EXPORT int nvmlEventSetCreate(int **ret_set)
{
	*ret_set = calloc(1, sizeof(**ret_set));
	return SUCCESS;
}

EXPORT int nvmlDeviceRegisterEvents(struct sim_gpu *gpu, unsigned long long types, int *set)
{
	(void)gpu, (void)types, (void)set;
	return SUCCESS;
}

/* Of all GPUs with an XID one event, once a set. */
EXPORT int nvmlEventSetWait_v2(int *set, struct event *ret_event, unsigned int timeout_ms)
{
	unsigned int i;

	for (i = 0; i < all->nr_gpus && !*set; i++) {
		if (!(all->gpus[i].faults & SIM_GPU_XID))
			continue;
		*set = 1;
		*ret_event = (struct event){ &all->gpus[i], EVENT_XID, 79, ~0u, ~0u };
		return SUCCESS;
	}
	usleep(timeout_ms * 1000);
	return TIMED_OUT;
}

EXPORT int nvmlEventSetFree(int *set)
{
	free(set);
	return SUCCESS;
}

EXPORT int nvmlDeviceGetPowerUsage(struct sim_gpu *gpu, unsigned int *ret_mw)
{
	uint64_t now = now_ns();

	*ret_mw = POWER_IDLE_MW + (POWER_BUSY_MW - POWER_IDLE_MW) * busy_share(&gpu->compute, now - 500000000, now);
	return check(gpu);
}

EXPORT int nvmlDeviceGetEnforcedPowerLimit(struct sim_gpu *gpu, unsigned int *ret_mw)
{
	*ret_mw = 700000;
	return check(gpu);
}

EXPORT int nvmlDeviceGetTemperature(struct sim_gpu *gpu, int sensor, unsigned int *ret_celsius)
{
	(void)sensor;
	*ret_celsius = gpu->faults & SIM_GPU_THERMAL ? 91 : heats() ? heat_of(gpu) : 62;
	return check(gpu);
}

EXPORT int nvmlDeviceGetTotalEccErrors(struct sim_gpu *gpu, int type, int counter, unsigned long long *ret_n)
{
	*ret_n = (counter ? 3 : 0) + (type ? count_since(gpu, SIM_GPU_ECC, 0.2) : 2 * count_since(gpu, SIM_GPU_ECC, 1));
	return check(gpu);
}

EXPORT int nvmlDeviceGetRemappedRows(struct sim_gpu *gpu, unsigned int *ret_corrected, unsigned int *ret_uncorrected,
				     unsigned int *ret_pending, unsigned int *ret_failed)
{
	*ret_corrected = *ret_failed = 0;
	*ret_uncorrected = *ret_pending = gpu->faults & SIM_GPU_ROWS ? 1 : 0;
	return check(gpu);
}

EXPORT int nvmlDeviceGetRetiredPagesPendingStatus(struct sim_gpu *gpu, int *ret_pending)
{
	(void)gpu;
	(void)ret_pending;
	return NOT_SUPPORTED; /* rows are remapped instead, on these */
}

EXPORT int nvmlDeviceValidateInforom(struct sim_gpu *gpu)
{
	return gpu->faults & SIM_GPU_INFOROM ? CORRUPTED_INFOROM : check(gpu);
}

EXPORT int nvmlDeviceGetPcieReplayCounter(struct sim_gpu *gpu, unsigned int *ret_n)
{
	*ret_n = 0;
	return check(gpu);
}

EXPORT int nvmlDeviceGetCurrPcieLinkWidth(struct sim_gpu *gpu, unsigned int *ret_width)
{
	*ret_width = gpu->faults & SIM_GPU_PCIE ? 8 : 16;
	return check(gpu);
}

EXPORT int nvmlDeviceGetMaxPcieLinkWidth(struct sim_gpu *gpu, unsigned int *ret_width)
{
	*ret_width = 16;
	return check(gpu);
}

EXPORT int nvmlDeviceGetCurrPcieLinkGeneration(struct sim_gpu *gpu, unsigned int *ret_generation)
{
	*ret_generation = 5;
	return check(gpu);
}

EXPORT int nvmlDeviceGetMaxPcieLinkGeneration(struct sim_gpu *gpu, unsigned int *ret_generation)
{
	*ret_generation = 5;
	return check(gpu);
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(struct sim_gpu *gpu, unsigned int *n, struct process_info *ret_list)
{
	const char *more = getenv("SIM_NVML_PROCESSES");
	unsigned int room = *n, count = more ? strtoul(more, NULL, 10) : 1;
	uint32_t pid = gpu->pid;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%u", pid);
	if (pid && access(path, F_OK)) /* not by kill(): who asks may not */
		pid = 0;
	*n = pid ? count : 0;
	if (*n > room)
		return INSUFFICIENT_SIZE;
	for (unsigned int i = 0; i < *n; i++)
		ret_list[i] = (struct process_info){ i ? 1 : pid, 20ULL << 30, ~0u, ~0u };
	return check(gpu);
}

/* One sample, of the last second, as the driver has for a process that computes. It wants room for as many as it keeps,
 * however few there are. */
EXPORT int nvmlDeviceGetProcessUtilization(struct sim_gpu *gpu, struct utilization *ret_list, unsigned int *n,
					   unsigned long long since_us)
{
	uint64_t now = now_ns();
	struct timespec wall;
	unsigned int room = *n;

	(void)since_us;
	*n = gpu->pid ? 1 : 0;
	if (!gpu->pid)
		return NOT_FOUND;
	if (room < UTILIZATION_ROOM) {
		*n = UTILIZATION_ROOM;
		return INSUFFICIENT_SIZE;
	}
	clock_gettime(CLOCK_REALTIME, &wall);
	ret_list[0] = (struct utilization){ .pid = gpu->pid,
					    .timestamp_us = wall.tv_sec * 1000000ULL + wall.tv_nsec / 1000,
					    .sm = 100 * busy_share(&gpu->compute, now - UTILIZATION_NS, now) };
	return check(gpu);
}

EXPORT int nvmlGpmQueryDeviceSupport(struct sim_gpu *gpu, struct gpm_support *ret_support)
{
	ret_support->supported = 1;
	return check(gpu);
}

EXPORT int nvmlGpmSampleAlloc(struct gpm_sample **ret_sample)
{
	*ret_sample = calloc(1, sizeof(**ret_sample));
	return *ret_sample ? SUCCESS : 20;
}

EXPORT int nvmlGpmSampleGet(struct sim_gpu *gpu, struct gpm_sample *sample)
{
	sample->gpu = gpu;
	sample->ns = now_ns();
	return check(gpu);
}

/* A GPU that does one thing for all of the window shows it to the last digit, sample for sample. */
struct still {
	double sm, occupancy;
};
static const struct still in_nccl = { 18.18, 4.83 }; /* 24 channels on 132 SMs */
static const struct still nothing = { 0, 0 };
static const struct still loads[] = {
	[SIM_GPU_SPIN_ONE] = { 0.76, 0.01 },
	[SIM_GPU_SPIN_ALL] = { 100, 50 },
	[SIM_GPU_HELD] = { 0, 0 },
};

static const struct still *still_of(const struct sim_gpu *gpu, uint64_t from_ns, uint64_t to_ns)
{
	double in_collective = busy_share(&gpu->nccl, from_ns, to_ns);

	if (gpu->load && gpu->load_ns <= from_ns && gpu->load_end_ns >= to_ns)
		return &loads[gpu->load];
	if (busy_share(&gpu->compute, from_ns, to_ns) > 0)
		return NULL;
	return in_collective >= 1 ? &in_nccl : in_collective > 0 ? NULL : &nothing;
}

static double moving_value(const struct gpm_get *get, unsigned int id)
{
	double busy = busy_share(&get->to->gpu->compute, get->from->ns, get->to->ns), value;

	switch (id) {
	case GPM_TENSOR: value = TENSOR_BUSY * busy; break;
	case GPM_DRAM: value = DRAM_BUSY * busy; break;
	case GPM_OCCUPANCY: value = OCCUPANCY_BUSY * busy; break;
	default: value = SM_WAITING + (SM_BUSY - SM_WAITING) * busy; break;
	}
	value += noise(get->to, id);
	return value > 0 ? value : 0;
}

EXPORT int nvmlGpmMetricsGet(struct gpm_get *get)
{
	const struct still *still = still_of(get->to->gpu, get->from->ns, get->to->ns);
	unsigned int i;

	for (i = 0; i < get->nr_metrics; i++) {
		struct gpm_metric *metric = &get->metrics[i];

		if (!still)
			metric->value = moving_value(get, metric->id);
		else
			metric->value = metric->id == GPM_SM          ? still->sm
					: metric->id == GPM_OCCUPANCY ? still->occupancy
								      : 0;
		metric->ret = SUCCESS;
	}
	return check(get->to->gpu);
}
