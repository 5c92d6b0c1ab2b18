/* SPDX-License-Identifier: Apache-2.0
 *
 * inventory.h - one run of `stress inventory`: what this host is, in parts with a name each; what does not fit, and who
 * still holds a GPU. It uses no device: no context is made, no memory taken.
 */
#ifndef STRESS_INVENTORY_H
#define STRESS_INVENTORY_H

#include "tools/stress/lib/libraries.h"
#include "tools/stress/report.h"
#include "tools/stress/stress.h"

#define INVENTORY_TEXT 320
#define VERSION_MAX 80

struct inventory {
	enum report_mode mode;
	const struct stress_options *options;
	struct stress_result *result;
	struct nvml nvml;
	char module[VERSION_MAX], library[VERSION_MAX]; /* the driver's: in the kernel, beside the program; "" none */
	int cuda;                                       /* 12040: what the driver supports; 0 not known */
};

/* A part: "driver", and what it is. */
void inventory_say(struct inventory *v, const char *part, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* gpu: NVML's index, -1: of the host. */
void inventory_fault(struct inventory *v, enum fault_kind kind, int gpu, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* inventory_host.c: kernel, system, RDMA devices. */
void inventory_host(struct inventory *v);
void inventory_nics(struct inventory *v);
/* inventory_gpu.c: GPUs and the processes that have a context on one; NVML is open. What --gpus names has to be there:
 * a fault, else, where options->gpu_was_there, and STRESS_USAGE where a user named it, with result->why, as has
 * STRESS_IMPOSSIBLE: NVML does not say which there are. STRESS_PASSED, also with faults. */
int inventory_gpus(struct inventory *v);

/* The first line of a file, without its end; false: it cannot be read. */
bool first_line(const char *path, char *text, size_t size);

#endif
