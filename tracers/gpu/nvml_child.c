/* SPDX-License-Identifier: Apache-2.0
 *
 * nvml_child.c - the only code that calls NVML, in a process of its own: a driver that has stalled blocks this process
 * and no other. It keeps no clock of its own: it looks when it is asked.
 */
#include "base/confine.h"
#include "tracers/gpu/nvml_child.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "schemas/collector.h"
#include "tracers/gpu/nvml_abi.h"
#include "tracers/gpu/wire/gpu.h"

#define INFOROM_SHARE \
	20000 /* read from the board (70 ms on an H200), and changes about never: so many times its cost apart */
#define UTILIZATION_SHARE 2000    /* of each process: so many times its cost apart, too: 0.05 % of a core and GPU */
#define UTILIZATIONS_MAX 512      /* the driver wants room for all that it keeps: 72 for one process (H100, 580.159) */
#define LINKS_NS 1000000ull       /* CPU of one checkup for counters of single links: 0.8 ms a question on an H200 */
#define GPM_LEAST_NS 100000000ull /* samples closer than the counters' own refresh say nothing */

struct link_errors {
	__u64 replay, recovery;
};

struct device {
	nvml_device handle;
	bool gpm;
	void *samples[2]; /* the last one is [newest] */
	int newest;
	uint64_t sampled_ns;  /* 0: no sample yet */
	unsigned int n_links; /* active when first seen */
	enum gpu_answer state, emitted;
	bool no_driver;                             /* unloaded, or another version now */
	struct link_errors links[NVML_NVLINKS_MAX]; /* as last read, one after the other */
	unsigned int next_link;                     /* to be read */
	bool links_known;                           /* all of them were */
	uint64_t inforom_due_ns, utilization_due_ns;
	struct nvml_utilization utilizations[UTILIZATIONS_MAX]; /* of processes, as last read; */
	unsigned int n_utilizations;
	unsigned long long utilized_us; /* the newest that was read; the driver's clock */
	__u32 inforom_bad;              /* as of the last time it was read */
};

struct child {
	int fd;
	const char *library;
	struct nvml f;
	bool started;
	unsigned int n;
	struct device devices[NVML_DEVICES_MAX];
};

static uint64_t clock_ns(clockid_t which)
{
	struct timespec t;

	clock_gettime(which, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void emit(const struct child *c, struct wire_hdr *hdr, size_t size, uint8_t kind)
{
	*hdr = (struct wire_hdr){ .size = (size + 7) & ~7ul, .tracer = WIRE_COLLECTOR, .kind = kind };
	if (send(c->fd, hdr, hdr->size, MSG_NOSIGNAL) < 0)
		_exit(0); /* the collector is gone */
}

/* What an answer says of the GPU itself. The other errors only say that this value is not to be had. */
static bool ok(struct device *d, int ret)
{
	if (ret == NVML_ERROR_GPU_IS_LOST)
		d->state = GPU_IS_LOST;
	else if (ret == NVML_ERROR_RESET_REQUIRED && d->state == GPU_IS_THERE)
		d->state = GPU_WANTS_RESET;
	else if (ret == NVML_ERROR_UNINITIALIZED || ret == NVML_ERROR_DRIVER_NOT_LOADED ||
		 ret == NVML_ERROR_LIB_RM_VERSION_MISMATCH)
		d->no_driver = true;
	return ret == NVML_SUCCESS;
}

/* One number of a device, or "not known". */
#define ASK32(d, f, ...) \
	({ \
		unsigned int v_ = GPU_NO_VALUE; \
		(f) && ok(d, (f)((d)->handle, ##__VA_ARGS__, &v_)) ? (__u32)v_ : GPU_NO_VALUE; \
	})
#define ASK64(d, f, ...) \
	({ \
		unsigned long long v_ = 0; \
		(f) && ok(d, (f)((d)->handle, ##__VA_ARGS__, &v_)) ? (__u64)v_ : ~0ull; \
	})

/* --- what does not change --- */

static unsigned int links_active(const struct child *c, struct device *d)
{
	unsigned int n = 0;
	int active;

	for (unsigned int i = 0; c->f.link_state && i < NVML_NVLINKS_MAX; i++) {
		int ret = c->f.link_state(d->handle, i, &active);

		if (!ok(d, ret))
			return i ? n : GPU_NO_VALUE; /* past the last link, or none at all */
		n += active == 1;
	}
	return n;
}

static void device_emit(const struct child *c, struct device *d, unsigned int i)
{
	union {
		struct record_gpu_device f;
		char bytes[sizeof(struct record_gpu_device) + 256];
	} u = {};
	struct gpu_device *to = &u.f.body;
	struct nvml_pci pci = {};

	to->index = i;
	to->n_gpus = c->n;
	to->pci =
		c->f.pci && ok(d, c->f.pci(d->handle, &pci)) ? GPU_PCI(pci.domain, pci.bus, pci.device) : GPU_PCI_NONE;
	to->pcie_width_max = ASK32(d, c->f.pcie_width_max);
	to->pcie_gen_max = ASK32(d, c->f.pcie_gen_max);
	to->power_limit_mw = ASK32(d, c->f.power_limit);
	to->sm_clock_max_mhz = ASK32(d, c->f.clock_max, NVML_CLOCK_SM);
	to->n_nvlinks = d->n_links;
	if (!c->f.name || !ok(d, c->f.name(d->handle, u.f.text, 96)))
		*u.f.text = 0;
	to->name_len = strlen(u.f.text) + 1;
	if (!c->f.uuid || !ok(d, c->f.uuid(d->handle, u.f.text + to->name_len, 96)))
		u.f.text[to->name_len] = 0;
	to->uuid_len = strlen(u.f.text + to->name_len) + 1;
	emit(c, &u.f.hdr, sizeof(u.f) + to->name_len + to->uuid_len, RECORD_GPU_DEVICE);
}

/* --- activity --- */

static __u32 hundredths(const struct nvml_gpm_metric *m)
{
	return m->ret == NVML_SUCCESS && m->value >= 0 && m->value <= 1000 ? (__u32)(100 * m->value + 0.5)
									   : GPU_NO_VALUE;
}

/* A sample now; the activity between it and the one before. */
static void activity_take(struct child *c, struct device *d, struct gpu_sample *to)
{
	static const unsigned int ids[] = { NVML_GPM_SM_UTIL, NVML_GPM_ANY_TENSOR_UTIL, NVML_GPM_DRAM_UTIL,
					    NVML_GPM_SM_OCCUPANCY };
	static struct nvml_gpm_get get;
	uint64_t now = clock_ns(CLOCK_MONOTONIC), window = now - d->sampled_ns;
	__u32 *values[] = { &to->sm_bp, &to->tensor_bp, &to->dram_bp, &to->occupancy_bp };

	for (int k = 0; k < 4; k++)
		*values[k] = GPU_NO_VALUE;
	if (!d->gpm || (d->sampled_ns && window < GPM_LEAST_NS) ||
	    !ok(d, c->f.gpm_sample(d->handle, d->samples[!d->newest])))
		return;
	get.version = 1;
	get.n = 4;
	get.from = d->samples[d->newest];
	get.to = d->samples[!d->newest];
	for (int k = 0; k < 4; k++)
		get.metrics[k].id = ids[k];
	if (d->sampled_ns && ok(d, c->f.gpm_metrics(&get))) {
		to->window_ns = window;
		for (int k = 0; k < 4; k++)
			*values[k] = hundredths(&get.metrics[k]);
	}
	d->newest = !d->newest;
	d->sampled_ns = now;
}

static void activity_emit(struct child *c, struct device *d, unsigned int i)
{
	struct record_gpu_sample f = { .body.index = i };
	struct gpu_sample *to = &f.body;
	uint64_t begin = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	__u64 reasons;

	activity_take(c, d, to);
	to->power_mw = ASK32(d, c->f.power);
	to->temperature_c = ASK32(d, c->f.temperature, NVML_TEMPERATURE_GPU);
	to->sm_clock_mhz = ASK32(d, c->f.clock, NVML_CLOCK_SM);
	to->mem_clock_mhz = GPU_NO_VALUE;
	reasons = c->f.reasons ? ASK64(d, c->f.reasons) : ASK64(d, c->f.reasons_old);
	to->slowdown = reasons == ~0ull ? 0 : reasons;
	to->cost_us = (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin) / 1000;
	emit(c, &f.hdr, sizeof(f), RECORD_GPU_SAMPLE);
}

/* --- health --- */

static __u64 field_number(const struct nvml_field *v)
{
	if (v->ret != NVML_SUCCESS)
		return ~0ull;
	return v->type == 1 ? v->value.u : v->type == 2 ? v->value.ul : v->type == 3 ? v->value.ull : ~0ull;
}

static __u64 add(__u64 a, __u64 b)
{
	return a == ~0ull ? b : b == ~0ull ? a : a + b;
}

/* Link by link, some in each checkup. */
static void links_ask(const struct child *c, struct device *d)
{
	uint64_t begin = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

	for (unsigned int i = 0; i < d->n_links && clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin < LINKS_NS; i++) {
		struct link_errors *l = &d->links[d->next_link];

		l->replay = ASK64(d, c->f.link_errors, d->next_link, NVML_NVLINK_REPLAY);
		l->recovery = ASK64(d, c->f.link_errors, d->next_link, NVML_NVLINK_RECOVERY);
		d->next_link = (d->next_link + 1) % d->n_links;
		d->links_known |= !d->next_link;
	}
}

/* The sums that the driver keeps; where it keeps none, those of the links once each was asked. */
static void links_take(const struct child *c, struct device *d, struct gpu_health *f)
{
	struct nvml_field v[] = {
		{ .id = NVML_FI_NVLINK_CRC_FLIT_TOTAL, .scope = ~0u },
		{ .id = NVML_FI_NVLINK_CRC_DATA_TOTAL, .scope = ~0u },
		{ .id = NVML_FI_NVLINK_REPLAY_TOTAL, .scope = ~0u },
		{ .id = NVML_FI_NVLINK_RECOVERY_TOTAL, .scope = ~0u },
	};

	f->nvlink_crc = f->nvlink_replay = f->nvlink_recovery = ~0ull;
	if (d->n_links == GPU_NO_VALUE || !d->n_links)
		return;
	if (c->f.fields && ok(d, c->f.fields(d->handle, 4, v))) {
		f->nvlink_crc = add(field_number(&v[0]), field_number(&v[1]));
		f->nvlink_replay = field_number(&v[2]);
		f->nvlink_recovery = field_number(&v[3]);
	}
	if (f->nvlink_replay != ~0ull || !c->f.link_errors)
		return;
	links_ask(c, d);
	for (unsigned int i = 0; d->links_known && i < d->n_links; i++) {
		f->nvlink_replay = add(f->nvlink_replay, d->links[i].replay);
		f->nvlink_recovery = add(f->nvlink_recovery, d->links[i].recovery);
	}
}

static void rows_take(const struct child *c, struct device *d, struct gpu_health *f)
{
	unsigned int corr, unc, pending, failed;
	int pages;

	if (c->f.rows && ok(d, c->f.rows(d->handle, &corr, &unc, &pending, &failed))) {
		f->rows_corrected = corr;
		f->rows_uncorrected = unc;
		f->rows_pending = !!pending;
		f->rows_failed = !!failed;
	}
	if (c->f.pages_pending && ok(d, c->f.pages_pending(d->handle, &pages)))
		f->pages_pending = pages == 1;
}

static __u32 inforom_bad(const struct child *c, struct device *d)
{
	uint64_t begin = clock_ns(CLOCK_PROCESS_CPUTIME_ID), now = clock_ns(CLOCK_MONOTONIC);

	if (now < d->inforom_due_ns)
		return d->inforom_bad;
	d->inforom_bad = c->f.inforom ? c->f.inforom(d->handle) == NVML_ERROR_CORRUPTED_INFOROM : GPU_NO_VALUE;
	d->inforom_due_ns = now + INFOROM_SHARE * (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin);
	return d->inforom_bad;
}

static void health_emit(const struct child *c, struct device *d, unsigned int i)
{
	struct record_gpu_health f = { .body.index = i };
	struct gpu_health *to = &f.body;
	uint64_t begin = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

	to->ecc_corrected = ASK64(d, c->f.ecc, NVML_ECC_CORRECTED, NVML_ECC_VOLATILE);
	to->ecc_uncorrected = ASK64(d, c->f.ecc, NVML_ECC_UNCORRECTED, NVML_ECC_VOLATILE);
	to->ecc_corrected_ever = ASK64(d, c->f.ecc, NVML_ECC_CORRECTED, NVML_ECC_AGGREGATE);
	to->ecc_uncorrected_ever = ASK64(d, c->f.ecc, NVML_ECC_UNCORRECTED, NVML_ECC_AGGREGATE);
	to->rows_corrected = to->rows_uncorrected = to->rows_pending = to->rows_failed = to->pages_pending =
		GPU_NO_VALUE;
	rows_take(c, d, to);
	links_take(c, d, to);
	to->nvlinks_active = d->n_links && d->n_links != GPU_NO_VALUE ? links_active(c, d) : d->n_links;
	to->pcie_replay = ASK32(d, c->f.pcie_replay);
	to->pcie_replay = to->pcie_replay == GPU_NO_VALUE ? ~0ull : to->pcie_replay;
	to->pcie_width = ASK32(d, c->f.pcie_width);
	to->pcie_gen = ASK32(d, c->f.pcie_gen);
	to->inforom_bad = inforom_bad(c, d);
	to->cost_us = (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin) / 1000;
	emit(c, &f.hdr, sizeof(f), RECORD_GPU_HEALTH);
}

/* --- processes, and whether it is there --- */

/* The driver keeps samples of some seconds. It may be slow: then it is asked less often, and its last answer counts. */
static void utilization_ask(const struct child *c, struct device *d)
{
	uint64_t begin = clock_ns(CLOCK_PROCESS_CPUTIME_ID), now = clock_ns(CLOCK_MONOTONIC);
	unsigned int n = UTILIZATIONS_MAX;

	if (!c->f.utilization || now < d->utilization_due_ns)
		return;
	d->n_utilizations = 0;
	if (ok(d, c->f.utilization(d->handle, d->utilizations, &n, d->utilized_us)))
		d->n_utilizations = n < UTILIZATIONS_MAX ? n : UTILIZATIONS_MAX;
	for (unsigned int k = 0; k < d->n_utilizations; k++)
		if (d->utilizations[k].timestamp_us > d->utilized_us)
			d->utilized_us = d->utilizations[k].timestamp_us;
	d->utilization_due_ns = now + UTILIZATION_SHARE * (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin);
}

static __u32 sm_percent(const struct device *d, unsigned int pid)
{
	const struct nvml_utilization *newest = NULL;

	for (const struct nvml_utilization *u = d->utilizations; u < d->utilizations + d->n_utilizations; u++)
		if (u->pid == pid && u->sm <= 100 && (!newest || u->timestamp_us > newest->timestamp_us))
			newest = u;
	return newest ? newest->sm : GPU_NO_VALUE;
}

static __u32 memory_mib(unsigned long long bytes)
{
	return bytes >> 52 ? GPU_NO_VALUE : (__u32)((bytes + (1 << 20) - 1) >> 20); /* ~0: the driver does not say */
}

static void usage_emit(const struct child *c, struct device *d, unsigned int i, const struct nvml_process *list,
		       unsigned int n)
{
	utilization_ask(c, d);
	for (unsigned int k = 0; k < n; k++) {
		struct record_gpu_usage f = { .body = { .index = i,
							.pid = list[k].pid,
							.memory_mib = memory_mib(list[k].used_memory),
							.sm_percent = sm_percent(d, list[k].pid) } };

		emit(c, &f.hdr, sizeof(f), RECORD_GPU_USAGE);
	}
}

static void procs_emit(const struct child *c, struct device *d, unsigned int i)
{
	struct nvml_process list[GPU_PIDS_MAX];
	struct record_gpu_procs f = { .body.index = i };
	unsigned int n = GPU_PIDS_MAX;
	int ret = c->f.processes ? c->f.processes(d->handle, &n, list) : NVML_ERROR_NOT_SUPPORTED;

	if (!ok(d, ret) && ret != NVML_ERROR_INSUFFICIENT_SIZE)
		return;
	f.body.n = n < GPU_PIDS_MAX ? n : GPU_PIDS_MAX;
	if (ret == NVML_ERROR_INSUFFICIENT_SIZE) /* the list was not filled */
		return;
	for (unsigned int k = 0; k < f.body.n; k++)
		f.body.pids[k] = list[k].pid;
	emit(c, &f.hdr, sizeof(f), RECORD_GPU_PROCS);
	usage_emit(c, d, i, list, f.body.n);
}

static void state_emit(const struct child *c, struct device *d, unsigned int i)
{
	struct record_gpu_state f = { .body = { .index = i, .answer = d->state } };

	if (d->state == d->emitted)
		return;
	d->emitted = d->state;
	emit(c, &f.hdr, sizeof(f), RECORD_GPU_STATE);
}

/* --- life --- */

static int library_open(struct child *c)
{
	void *lib = dlopen(c->library, RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		return -ENOENT;
#define X(field, symbol, args) *(void **)&c->f.field = dlsym(lib, symbol);
	NVML_FUNCTIONS(X)
#undef X
	return c->f.init && c->f.count && c->f.handle ? 0 : -ENOSYS;
}

static void device_open(struct child *c, struct device *d)
{
	struct nvml_gpm_support s = { .version = 1 };

	d->gpm = c->f.gpm_support && c->f.gpm_alloc && c->f.gpm_sample && c->f.gpm_metrics &&
		 ok(d, c->f.gpm_support(d->handle, &s)) && s.supported && ok(d, c->f.gpm_alloc(&d->samples[0])) &&
		 ok(d, c->f.gpm_alloc(&d->samples[1]));
	d->n_links = links_active(c, d);
}

static int start(struct child *c)
{
	int err = c->f.init ? 0 : library_open(c);

	if (err)
		return err;
	if (c->f.init() != NVML_SUCCESS || c->f.count(&c->n) != NVML_SUCCESS)
		return -ENODEV;
	c->n = c->n < NVML_DEVICES_MAX ? c->n : NVML_DEVICES_MAX;
	for (unsigned int i = 0; i < c->n; i++) {
		struct device *d = &c->devices[i];

		if (ok(d, c->f.handle(i, &d->handle)))
			device_open(c, d);
	}
	c->started = true;
	return 0;
}

/* -ENODEV: the driver is away. What NVML has open is of no use even when it is back, so this process ends then. */
static int answer(struct child *c, uint32_t what)
{
	bool away = false;

	for (unsigned int i = 0; i < c->n; i++) {
		struct device *d = &c->devices[i];

		d->state = GPU_IS_THERE;
		if (!d->handle)
			ok(d, c->f.handle(i, &d->handle));
		if (d->handle && what & NVML_ASK_DEVICES)
			device_emit(c, d, i);
		if (d->handle && what & NVML_ASK_PROCS)
			procs_emit(c, d, i);
		if (d->handle && what & NVML_ASK_ACTIVITY)
			activity_emit(c, d, i);
		if (d->handle && what & NVML_ASK_HEALTH)
			health_emit(c, d, i);
		state_emit(c, d, i);
		away |= d->no_driver;
	}
	return away ? -ENODEV : 0;
}

/* The driver's library, and what it may write to: the devices. What is not there yet when it starts, it has after its
 * next start: no GPU, no device. */
static int confine(void)
{
	glob_t devices = { 0 };
	int err = confine_child();

	glob("/dev/nvidia*", 0, NULL, &devices);
	glob("/dev/null", GLOB_APPEND, NULL, &devices);
	if (!err)
		err = confine_writes((const char *const *)devices.gl_pathv, devices.gl_pathc);
	if (!err)
		err = confine_child_calls();
	globfree(&devices);
	return err;
}

int nvml_child_main(int fd, const char *library)
{
	static struct child c;
	struct nvml_question q;

	c.fd = fd;
	c.library = library;
	prctl(PR_SET_NAME, NVML_CHILD_NAME);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGINT, SIG_IGN); /* the collector decides when this ends */
	if (confine())
		return 1;
	while (recv(fd, &q, sizeof(q), 0) == sizeof(q)) {
		uint64_t begin = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		struct nvml_end end = { .number = q.number };
		int err = c.started ? 0 : start(&c);

		if (!err)
			err = answer(&c, q.what);
		end.n_gpus = err ? err : (int)c.n;
		end.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin;
		if (send(fd, &end, sizeof(end), MSG_NOSIGNAL) < 0)
			break;
	}
	return 0;
}
