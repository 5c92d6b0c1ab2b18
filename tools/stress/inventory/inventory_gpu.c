/* SPDX-License-Identifier: Apache-2.0
 *
 * inventory_gpu.c - GPUs by NVML, and who has a context on one. A process that works for a job is a part of the
 * inventory; left over is one that has ended and is not reaped, or whose parent and session are gone: it holds memory
 * that the next job lacks.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "tools/stress/inventory/inventory.h"

#define PROCESSES_MAX 64
#define GPUS_SAID_MAX 64

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

static void gpu_say(struct inventory *v, int i)
{
	const struct nvml *nvml = &v->nvml;
	struct nvml_process list[PROCESSES_MAX];
	char name[96] = "not known", uuid[64] = "not known", vbios[48] = "not known", part[16];
	unsigned int n = PROCESSES_MAX;
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
	if (nvml->processes(device, &n, list))
		n = 0;
	for (unsigned int p = 0; p < n; p++)
		process_say(v, i, &list[p]);
}

/* --- one that has to be there --- */

/* By UUID, or by PCI address, which NVML wants with the function. NULL: NVML has none of that name that answers. */
static void *gpu_named(const struct inventory *v, const char *name, unsigned int n)
{
	const struct nvml *nvml = &v->nvml;
	char uuid[64] = "", pci[64];
	void *device = NULL;

	if (strchr(name, ':')) {
		snprintf(pci, sizeof(pci), "%.56s%s", name, strchr(name, '.') ? "" : ".0");
		return nvml->by_pci(pci, &device) || nvml->uuid(device, uuid, sizeof(uuid)) ? NULL : device;
	}
	for (unsigned int i = 0; i < n; i++)
		if (!nvml->by_index(i, &device) && !nvml->uuid(device, uuid, sizeof(uuid)) && !strcasecmp(uuid, name))
			return device;
	return NULL;
}

/* A GPU that is off the bus is one that NVML does not count: only who names it can miss it. */
static void gpu_demand(struct inventory *v, const char *name, unsigned int n)
{
	void *device = gpu_named(v, name, n);
	unsigned int celsius;
	int error = device ? v->nvml.temperature(device, NVML_TEMPERATURE_GPU, &celsius) : NVML_ERROR_GPU_IS_LOST;

	if (!device)
		inventory_fault(v, FAULT_LOST, -1,
				"%.96s is not among the %u GPUs that NVML counts: it is off the bus, or was replaced; "
				"in a container ask on the host",
				name, n);
	else if (error == NVML_ERROR_GPU_IS_LOST || error == NVML_ERROR_RESET_REQUIRED)
		inventory_fault(v, FAULT_LOST, -1, "%.96s %s (NVML error %d)", name,
				error == NVML_ERROR_GPU_IS_LOST ? "is lost" : "needs a reset", error);
	else
		return;
	stress_result_bad(v->result, name, name, name);
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
		return v->options->gpu ? -ENOTSUP : 0;
	}
	for (unsigned int i = 0; i < n && i < GPUS_SAID_MAX; i++)
		gpu_say(v, i);
	if (v->options->gpu)
		gpu_demand(v, v->options->gpu, n);
	return 0;
}
