/* SPDX-License-Identifier: Apache-2.0
 *
 * shown_gpus.h - what NVML shows of the GPUs of outside_samples.h's job, tick by tick: GPU r is rank r's. Figures are
 * those measured on H200s (docs/measurements/gpu.md).
 */
#ifndef RANKTRACE_SHOWN_GPUS_H
#define RANKTRACE_SHOWN_GPUS_H

#include "tests/unit/job/outside_samples.h"

struct shows {
	double sm, occupancy, tensor, dram, noise;
};
#define SHOWS __attribute__((unused)) static const struct shows
SHOWS in_nccl = { 18.18, 4.83, 0, 0, 0 };
SHOWS one_sm = { 0.76, 0.01, 0, 0, 0 };
SHOWS all_sms = { 100, 50, 0, 0, 0 };
SHOWS idle = { 0, 0, 0, 0, 0 };
SHOWS works = { 88, 25, 50, 37, 1 };
SHOWS other_nccl = { 12.12, 3.22, 0, 0, 0 }; /* a kernel of another program, as wide as NCCL's */
static struct shows gpus[RANKS];
static int n_ticks;

static inline void gpus_are(struct shows s)
{
	for (int r = 0; r < RANKS; r++)
		gpus[r] = s;
}

static inline uint32_t bp(double percent)
{
	return 100 * percent + 0.5;
}

static inline void gpus_give(void)
{
	n_ticks++;
	for (int r = 0; r < RANKS; r++) {
		const struct shows *s = &gpus[r];
		double noise = s->noise * (n_ticks % 3 - 1);
		struct event e = { .kind = EV_GPU_PROCS };

		e.gpu_procs.index = r;
		e.gpu_procs.n = 1;
		e.gpu_procs.pids[0] = job_pid(r);
		give(e);
		e = (struct event){ .kind = EV_GPU_SAMPLE };
		e.gpu_sample = (struct gpu_sample){ .index = r,
						    .window_ns = 500 * MSEC,
						    .sm_bp = bp(s->sm + noise),
						    .occupancy_bp = bp(s->occupancy),
						    .tensor_bp = bp(s->tensor + noise),
						    .dram_bp = bp(s->dram) };
		give(e);
	}
}

/* The same counters for so long. */
static inline void stands(const uint64_t n[RANKS], double seconds)
{
	for (uint64_t end_ns = now + (uint64_t)(seconds * SEC); now < end_ns;) {
		world(n);
		gpus_give();
		tick();
	}
}

/* A job that moved a moment ago, then does not move with all ranks inside AllReduce #12. */
static inline void stands_inside(double seconds)
{
	static const uint64_t before[] = { 10, 10, 10, 10 }, n[] = { 12, 12, 12, 12 };

	if (!m->procs) { /* else it stands already */
		who();
		world(before);
		gpus_give();
		tick();
	}
	stands(n, seconds);
}

#endif
