/* SPDX-License-Identifier: Apache-2.0
 *
 * gpus.h - what the GPUs do while an autopsy samples the hosts: the NVML sampler of a session, polled between two
 * samples of the ranks. A machine without the driver has none, and the autopsy goes on without.
 */
#ifndef RANKTRACE_AUTOPSY_GPUS_H
#define RANKTRACE_AUTOPSY_GPUS_H

#include "sampler.h"

struct autopsy_gpus {
	struct sampler_ctx ctx; /* the sampler's: it emits through here */
	int (*emit)(void *to, const struct wire_hdr *rec);
	void *emit_to;
	int emit_error;
	void *state; /* NULL: no sampler, or it failed */
};

/* `ctx`: emit, targets, reader and is_traced are used; kept. */
void autopsy_gpus_open(struct autopsy_gpus *g, const struct sampler_ctx *ctx);
/* Until `ns` (CLOCK_MONOTONIC): asks, and emits what was answered; never waits for the driver. A sampler that fails is
 * closed. 0, or what emit returned. */
int autopsy_gpus_poll_until(struct autopsy_gpus *g, uint64_t ns);
void autopsy_gpus_close(struct autopsy_gpus *g);

#endif
