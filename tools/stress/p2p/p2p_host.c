/* SPDX-License-Identifier: Apache-2.0
 *
 * p2p_host.c - a GPU's copies from and to the host: pinned memory of each NUMA node in turn, touched by a thread on its
 * CPUs; and what NVML says of its PCIe link, while it is in use.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stress/lib/node.h"
#include "tools/stress/lib/pci.h"
#include "tools/stress/p2p/p2p.h"
#include "tools/stress/series.h"

#define COPIES 8
#define TURNS 3
#define HOST_BYTES_MAX (128ull << 20)

static bool text_read(const char *path, char *text, int size)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fgets(text, size, f);

	if (f)
		fclose(f);
	return ok;
}

void p2p_nodes_find(struct p2p *p)
{
	char path[400], text[32], pci[32];
	cpu_set_t cpus;

	for (int i = 0; i < 256 && p->n_nodes < NODES_MAX; i++)
		if (node_cpus(sysfs_root(), i, &cpus))
			p->nodes[p->n_nodes++] = i;
	if (!p->n_nodes)
		p->nodes[p->n_nodes++] = 0; /* a kernel without NUMA */
	for (int i = 0; i < p->run->n_gpus; i++) {
		snprintf(pci, sizeof(pci), "%s", p->run->gpus[i].pci);
		for (char *c = pci; *c; c++)
			*c = tolower((unsigned char)*c);
		snprintf(path, sizeof(path), "%.200s/bus/pci/devices/%s/numa_node", sysfs_root(), pci);
		p->gpus[i].node = text_read(path, text, sizeof(text)) ? atoi(text) : -1;
		for (int k = 0; k < p->n_nodes; k++)
			p->gpus[i].distances[k] =
				p->n_nodes == 1 ? NODE_OWN : node_distance(sysfs_root(), p->gpus[i].node, p->nodes[k]);
	}
}

void p2p_state(struct p2p *p, int i)
{
	const struct nvml *nvml = &p->run->nvml;
	void *device = p->run->gpus[i].nvml;
	struct p2p_gpu *g = &p->gpus[i];

	p2p_nvlinks_read(p, i);
	if (!nvml->width || !nvml->width_max || nvml->width(device, &g->width) ||
	    nvml->width_max(device, &g->width_max))
		g->width = g->width_max = 0;
	if (!nvml->generation || !nvml->generation_max || nvml->generation(device, &g->generation) ||
	    nvml->generation_max(device, &g->generation_max))
		g->generation = g->generation_max = 0;
}

static int copy_enqueue(struct p2p *p, int i, int way, uint64_t bytes)
{
	const struct cuda *cuda = &p->run->cuda;
	struct stress_gpu *gpu = &p->run->gpus[i];

	return gpu_try(gpu,
		       way == HOST_TO_DEVICE
			       ? cuda->to_device_async(p->gpus[i].to, p->host, bytes, gpu->stream)
			       : cuda->to_host_async((char *)p->host + bytes, p->gpus[i].to, bytes, gpu->stream),
		       "a copy between host and GPU");
}

static double way_time(struct p2p *p, int i, int way, uint64_t bytes)
{
	struct stress_gpu *gpu = &p->run->gpus[i];
	struct p2p_gpu *g = &p->gpus[i];
	const struct cuda *cuda = &p->run->cuda;
	uint64_t flag = (uintptr_t)p->flag, hold_ns = 5000000000ull;
	void *params[] = { &flag, &hold_ns };
	float ms = 0;
	int err;

	*p->flag = 0;
	err = gpu_launch(gpu, KERNEL_SPIN, 1, 1, 1, params);
	err = err ? err : gpu_try(gpu, cuda->event_record(g->events[0], gpu->stream), "an event");
	for (int n = 0; n < COPIES && !err; n++)
		err = copy_enqueue(p, i, way, bytes);
	err = err ? err : gpu_try(gpu, cuda->event_record(g->events[1], gpu->stream), "an event");
	*p->flag = 1;
	err = err ? err : gpu_wait(gpu);
	err = err ? err : gpu_try(gpu, cuda->event_elapsed(&ms, g->events[0], g->events[1]), "a time");
	return err || !(ms > 0) ? NAN : COPIES * bytes / (ms * 1e6);
}

static void arrived_check(struct p2p *p, int i, uint64_t bytes)
{
	struct fault fault = { .kind = FAULT_CORRUPT, .gpu = i, .measure = -1 };

	if (!memcmp(p->host, (char *)p->host + bytes, bytes))
		return;
	snprintf(fault.text, sizeof(fault.text), "what went from the host to the GPU and back is not what was sent");
	run_fault(p->run, &fault);
}

static int node_measure(struct p2p *p, int i, uint64_t bytes, double values[N_WAYS_HOST])
{
	double turns[TURNS];

	for (uint64_t w = 0; w < bytes / 8; w++)
		((uint64_t *)p->host)[w] = (w + i) * 0x9e3779b97f4a7c15ull;
	memset((char *)p->host + bytes, 0, bytes);
	for (int way = 0; way < N_WAYS_HOST; way++) {
		for (int turn = 0; turn < TURNS; turn++) {
			turns[turn] = way_time(p, i, way, bytes);
			if (isnan(turns[turn]))
				return -EIO;
		}
		values[way] = values_median(turns, TURNS);
	}
	arrived_check(p, i, bytes);
	return 0;
}

/* A cpuset without its CPUs or its memory, as of a container: the memory is of elsewhere. */
static void node_leave(struct p2p *p, int node)
{
	if (p->away[node])
		return;
	p->away[node] = true;
	for (int i = 0; i < p->run->n_gpus; i++)
		p->gpus[i].distances[node] = NODE_UNKNOWN;
	run_note(p->run,
		 "memory of node %d is not judged: a cpuset keeps this process from it or its CPUs, and it got other",
		 p->nodes[node]);
}

int p2p_host(struct p2p *p, int i, struct host_values *values)
{
	uint64_t bytes = p->bytes < HOST_BYTES_MAX ? p->bytes : HOST_BYTES_MAX;
	cpu_set_t before, cpus;
	int err = 0;

	sched_getaffinity(0, sizeof(before), &before);
	p->run->cuda.context_set(p->run->gpus[i].context);
	for (int node = 0; node < p->n_nodes && !err; node++) {
		bool there = node_cpus(sysfs_root(), p->nodes[node], &cpus);

		if (there && sched_setaffinity(0, sizeof(cpus), &cpus)) {
			sched_setaffinity(0, sizeof(before), &before);
			node_leave(p, node);
		} else if (there && !node_is_allowed(p->nodes[node])) {
			node_leave(p, node);
		}
		err = gpu_try(&p->run->gpus[i], p->run->cuda.host_alloc(&p->host, 2 * bytes, CU_HOST_ALLOC_PORTABLE),
			      "pinned memory of the host");
		err = err ? err : node_measure(p, i, bytes, values->of[node]);
		if (p->host)
			p->run->cuda.host_free(p->host);
		p->host = NULL;
	}
	sched_setaffinity(0, sizeof(before), &before);
	p2p_state(p, i); /* in use a moment ago: an idle link lowers its generation */
	return err;
}
