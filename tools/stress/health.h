/* SPDX-License-Identifier: Apache-2.0
 *
 * health.h - clocks, throttle reasons, power, temperatures, ECC, remapped rows and XIDs of the GPUs while they work: a
 * thread that asks NVML twice a second. NVML's event set gives XIDs without the kernel log, which needs rights.
 */
#ifndef STRESS_HEALTH_H
#define STRESS_HEALTH_H

#include "tools/stress/run.h"

struct health_thread {
	struct stress_run *run;
	pthread_t thread;
	atomic_bool quit;
	void *events; /* NVML's set; NULL: it has none */
	uint64_t ticks;
};

/* 0, or -ENOSYS with `why` where NVML cannot give what a verdict needs. */
int health_start(struct health_thread *h, struct stress_run *run, char why[LIBRARY_WHY]);
/* Ends it and leaves the faults of what went wrong on the way. */
void health_stop(struct health_thread *h);

/* "SW power cap, HW thermal slowdown"; "none" */
const char *health_reasons(uint64_t bits, char *text, size_t size);

#endif
