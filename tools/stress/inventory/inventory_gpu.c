/* SPDX-License-Identifier: Apache-2.0
 *
 * inventory_gpu.c - GPUs by NVML, and who has a context on one. A process that works for a job is a part of the
 * inventory; left over is one that has ended and is not reaped, or whose parent and session are gone: it holds memory
 * that the next job lacks.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/stress/inventory/inventory.h"
#include "tools/stress/lib/gpu_name.h"

#define PROCESSES_MAX 64
#define GPUS_LISTED_MAX STRESS_GPUS_MAX

/* Of /proc/PID/stat; `state` 0: there is no such process. */
struct who {
	char name[32], state;
	int parent, session;
};

static struct who who_is(unsigned int pid)
{
	char path[48], text[512], *close;
	struct who w = { .state = 0 };

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	if (!first_line(path, text, sizeof(text)) || !(close = strrchr(text, ')')))
		return w;
	*close = 0;
	snprintf(w.name, sizeof(w.name), "%.31s", strchr(text, '(') + 1);
	if (sscanf(close + 1, " %c %d %*d %d", &w.state, &w.parent, &w.session) != 3)
		w.state = 0;
	return w;
}

/* What is wrong with it; NULL: it works for somebody. */
static const char *left_over(unsigned int pid, const struct who *w)
{
	if (w->state == 'Z')
		return "has ended, and its parent does not take note of it";
	if (w->state && w->parent == 1 && w->session != (int)pid && !who_is(w->session).state)
		return "goes on alone: its parent and its session have ended";
	return NULL;
}

static void process_say(struct inventory *v, int gpu, const struct nvml_process *p)
{
	struct who w = who_is(p->pid);
	const char *wrong = left_over(p->pid, &w);
	double gib = p->used_memory == ~0ull ? 0 : (double)p->used_memory / (1 << 30);

	if (wrong)
		inventory_fault(v, FAULT_LEFT_OVER, gpu, "process %u (%s) on GPU %d %s; it holds %.1f GiB of it",
				p->pid, w.name, gpu, wrong, gib);
	else
		inventory_say(v, "process", "%u (%s) has a context on GPU %d, and %.1f GiB of it", p->pid,
			      w.state ? w.name : "not seen from here", gpu, gib);
}

static void processes_say(struct inventory *v, int gpu, void *device, const char *part)
{
	struct nvml_process list[PROCESSES_MAX];
	unsigned int n = PROCESSES_MAX;
	int error = v->nvml.processes(device, &n, list);

	if (error == NVML_ERROR_INSUFFICIENT_SIZE)
		inventory_say(v, part, "more than %d processes have a context on it: none was read", PROCESSES_MAX);
	else if (error)
		inventory_say(v, part, "NVML cannot say who has a context on it (error %d)", error);
	for (unsigned int i = 0; !error && i < n; i++)
		process_say(v, gpu, &list[i]);
}

static void gpu_say(struct inventory *v, int i)
{
	const struct nvml *nvml = &v->nvml;
	char name[96] = "not known", uuid[64] = "not known", vbios[48] = "not known", part[16];
	void *device;
	int error = nvml->by_index(i, &device);

	snprintf(part, sizeof(part), "GPU %d", i);
	if (error) {
		inventory_fault(v, FAULT_LOST, i, "GPU %d: NVML cannot open it (error %d)", i, error);
		return;
	}
	if (nvml->name)
		nvml->name(device, name, sizeof(name));
	if (nvml->vbios)
		nvml->vbios(device, vbios, sizeof(vbios));
	error = nvml->uuid(device, uuid, sizeof(uuid));
	if (error)
		inventory_fault(v, FAULT_LOST, i, "GPU %d does not answer NVML (error %d)", i, error);
	else
		inventory_say(v, part, "%s, %s, VBIOS %s", name, uuid, vbios);
	processes_say(v, i, device, part);
}

/* --- one that has to be there --- */

struct listed {
	struct gpu_id ids[GPUS_LISTED_MAX];
	char uuids[GPUS_LISTED_MAX][64], pcis[GPUS_LISTED_MAX][32];
	int n;
	bool unknown; /* one of them does not say what it is, which is a fault of its own */
};

static void gpus_list(const struct inventory *v, unsigned int n, struct listed *l)
{
	const struct nvml *nvml = &v->nvml;
	struct nvml_pci pci;
	void *device;

	*l = (struct listed){ .n = n < GPUS_LISTED_MAX ? (int)n : GPUS_LISTED_MAX };
	for (int i = 0; i < l->n; i++) {
		l->ids[i] = (struct gpu_id){ .uuid = l->uuids[i], .pci = l->pcis[i] };
		if (nvml->by_index(i, &device) || nvml->uuid(device, l->uuids[i], sizeof(l->uuids[i])))
			l->unknown = true;
		else if (nvml->pci && !nvml->pci(device, &pci))
			snprintf(l->pcis[i], sizeof(l->pcis[i]), "%.31s", pci.bus_id);
	}
}

/* NVML's handle, NULL: it has none of that name that answers. It counts no MIG devices, and knows them by UUID. */
static void *gpu_named(const struct inventory *v, const char *name, const struct listed *l, int *found)
{
	const struct nvml *nvml = &v->nvml;
	char uuid[96] = "", text[32];
	struct pci_address pci;
	void *device = NULL;
	int error = -1;

	*found = gpu_name_find(l->ids, l->n, name);
	if (*found >= 0) {
		error = nvml->by_index(*found, &device);
	} else if (pci_address_parse(name, &pci)) {
		snprintf(text, sizeof(text), "%08x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
		error = *found == GPU_NAME_MANY ? error : nvml->by_pci(text, &device);
	} else if (nvml->by_uuid) {
		error = nvml->by_uuid(name, &device);
	}
	return error || nvml->uuid(device, uuid, sizeof(uuid)) ? NULL : device;
}

static void demand_fault(struct inventory *v, const char *name, const char *what)
{
	inventory_fault(v, FAULT_LOST, -1, "%.96s %s", name, what);
	stress_result_bad(v->result, name, name, name);
}

/* A GPU that is off the bus is one that NVML does not count: only who names it can miss it. What a finding names was
 * there; what a user names by hand may be mistyped. */
static int missing_take(struct inventory *v, const char *name, const struct listed *l, int found)
{
	char what[160];

	snprintf(what, sizeof(what),
		 "is not among the %d GPUs that NVML counts: it is off the bus, or was replaced; in a container ask on "
		 "the host",
		 l->n);
	if (v->options->gpu_was_there)
		demand_fault(v, name, what);
	if (v->options->gpu_was_there || l->unknown)
		return STRESS_PASSED; /* a fault is said */
	gpu_name_why(found, name, v->result->why);
	return STRESS_USAGE;
}

static int gpu_demand(struct inventory *v, const char *name, unsigned int n)
{
	struct listed l;
	unsigned int celsius;
	void *device;
	int found, error;

	gpus_list(v, n, &l);
	device = gpu_named(v, name, &l, &found);
	if (!device)
		return missing_take(v, name, &l, found);
	if (found < 0)
		inventory_say(v, "named", "%.96s is there", name);
	error = v->nvml.temperature(device, NVML_TEMPERATURE_GPU, &celsius);
	if (error == NVML_ERROR_GPU_IS_LOST)
		demand_fault(v, name, "is lost (NVML error 15)");
	if (error == NVML_ERROR_RESET_REQUIRED)
		demand_fault(v, name, "needs a reset (NVML error 16)");
	return STRESS_PASSED;
}

/* CUDA's numbers, which are below NVML's count: it may show fewer GPUs, not more. */
static int numbers_check(struct inventory *v, unsigned int n)
{
	uint64_t numbers = v->options->gpus;

	if (!numbers || n >= GPUS_LISTED_MAX || !(numbers >> n))
		return STRESS_PASSED;
	snprintf(v->result->why, LIBRARY_WHY,
		 "--gpus: NVML counts %u GPUs on this host, numbered from 0: nvidia-smi "
		 "-L lists them",
		 n);
	return STRESS_USAGE;
}

static int gpus_count(struct inventory *v, unsigned int *n)
{
	return !v->nvml.count || !v->nvml.by_index || v->nvml.count(n) ? -ENOTSUP : 0;
}

int inventory_gpus(struct inventory *v)
{
	unsigned int n = 0;

	if (gpus_count(v, &n)) {
		inventory_say(v, "GPUs", "NVML does not say how many");
		if (!v->options->gpu && !v->options->gpus)
			return STRESS_PASSED;
		snprintf(v->result->why, LIBRARY_WHY,
			 "--gpus: NVML does not say which GPUs there are: a driver of 2019 or later does");
		return STRESS_IMPOSSIBLE;
	}
	for (unsigned int i = 0; i < n && i < GPUS_LISTED_MAX; i++)
		gpu_say(v, i);
	return v->options->gpu ? gpu_demand(v, v->options->gpu, n) : numbers_check(v, n);
}
