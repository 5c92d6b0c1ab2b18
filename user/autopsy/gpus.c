/* SPDX-License-Identifier: Apache-2.0
 *
 * gpus.c - see gpus.h.
 */
#include "autopsy/gpus.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "source.h"

#define POLL_NS 50000000ull

void autopsy_gpus_open(struct autopsy_gpus *g, const struct sampler_ctx *ctx)
{
	*g = (struct autopsy_gpus){ .ctx = *ctx };
	g->ctx.often = true;
	if (source_nvml.sampler->open(&g->ctx, &g->state))
		g->state = NULL;
}

static void sleep_until(uint64_t ns)
{
	struct timespec at = { ns / 1000000000ull, ns % 1000000000ull };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

int autopsy_gpus_poll_until(struct autopsy_gpus *g, uint64_t ns)
{
	uint64_t now_ns;
	int err = 0;

	while (!err && (now_ns = clock_monotonic_ns()) < ns) {
		err = g->state ? source_nvml.sampler->sample(g->state, now_ns) : 0;
		sleep_until(g->state && now_ns + POLL_NS < ns ? now_ns + POLL_NS : ns);
	}
	return err;
}

void autopsy_gpus_close(struct autopsy_gpus *g)
{
	source_nvml.sampler->close(g->state);
}
