/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu.h - a node's GPUs as the model knows them: who computes where, how busy each was recently, its error counters,
 * and the errors that the driver reported. Included by node.h.
 */
#ifndef RANKTRACE_MODEL_GPU_H
#define RANKTRACE_MODEL_GPU_H

#include "event.h"

#define GPU_SAMPLES_KEPT 128 /* a minute at two a second */
#define GPU_HEALTHS_KEPT 8
#define XIDS_KEPT 64
#define GPUS_MAX 64

struct gpu_sampled {
	uint64_t ts_ns;
	struct gpu_sample s;
};
struct gpu_checkup {
	uint64_t ts_ns;
	struct gpu_health h;
};

struct gpu {
	struct node *node;
	struct gpu *next;       /* by index */
	struct gpu_procs procs; /* of the last answer that was not empty: a lost GPU shows none any more */
	uint64_t n_samples, n_checkups;
	struct gpu_device device; /* pci GPU_PCI_NONE: not known yet; n_nvlinks: the most that there were */
	const char *name, *uuid;  /* "" unknown */
	struct gpu_sampled samples[GPU_SAMPLES_KEPT]; /* ring: number i at i % GPU_SAMPLES_KEPT */
	struct gpu_checkup checkups[GPU_HEALTHS_KEPT];
	struct gpu_health first; /* the first checkup: what was there before */
	enum gpu_answer answer;
	uint64_t answer_ns;                   /* since then */
	struct gpu_usage usage[GPU_PIDS_MAX]; /* of procs, in their order; of another pid: not known */
};

struct xid {                     /* an error that the driver reported */
	uint64_t ts_ns, last_ns; /* first and last time */
	uint32_t number, pid;    /* pid 0: not named */
	uint64_t n;              /* times */
	uint64_t pci;
	bool of_switch;
	const char *text;
};

struct pressure {                /* of the host, or of a process' cgroup */
	uint64_t ts_ns, prev_ns; /* 0 never seen */
	struct pressure_totals now, prev;
};

struct gpus {
	struct gpu *all;
	struct xid xids[XIDS_KEPT]; /* ring */
	uint64_t n_xids;
	enum gpu_answer driver; /* GPU_NO_ANSWER: asked, unanswered */
	uint64_t driver_ns;     /* since then */
};

struct node;
struct proc;

const struct gpu *node_gpu(const struct node *n, uint32_t index);  /* NULL not known */
const struct gpu *node_gpu_at(const struct node *n, uint64_t pci); /* NULL not known */
/* The GPU on which this process computes, by the driver's own word; NULL not known. */
const struct gpu *proc_gpu(const struct proc *p);
/* Of a process of the host that computes on it; NULL: not known. */
const struct gpu_usage *gpu_usage_of(const struct gpu *g, uint32_t pid);
void gpus_free(struct node *n); /* for node.c */
bool gpu_has_proc(const struct gpu *g, const struct proc *p);

/* The i-th newest sample, 0 the last one; NULL: not that many are kept. */
static inline const struct gpu_sampled *gpu_sample(const struct gpu *g, uint64_t i)
{
	return i < g->n_samples && i < GPU_SAMPLES_KEPT ? &g->samples[(g->n_samples - 1 - i) % GPU_SAMPLES_KEPT] : NULL;
}

static inline const struct gpu_checkup *gpu_checkup(const struct gpu *g, uint64_t i)
{
	return i < g->n_checkups && i < GPU_HEALTHS_KEPT ? &g->checkups[(g->n_checkups - 1 - i) % GPU_HEALTHS_KEPT]
							 : NULL;
}

#endif
