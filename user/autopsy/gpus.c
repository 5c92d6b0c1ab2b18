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

/* Which of the two failed: what cannot be emitted ends the autopsy, a GPU that cannot be asked does not. */
static int noted_emit(void *to, const struct wire_hdr *rec)
{
	struct autopsy_gpus *g = to;
	int err = g->emit(g->emit_to, rec);

	g->emit_error = err ? err : g->emit_error;
	return err;
}

void autopsy_gpus_open(struct autopsy_gpus *g, const struct sampler_ctx *ctx)
{
	*g = (struct autopsy_gpus){ .ctx = *ctx, .emit = ctx->emit, .emit_to = ctx->emit_to };
	g->ctx.often = true;
	g->ctx.emit = noted_emit;
	g->ctx.emit_to = g;
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

	while ((now_ns = clock_monotonic_ns()) < ns) {
		if (g->state && source_nvml.sampler->sample(g->state, now_ns))
			autopsy_gpus_close(g);
		if (g->emit_error)
			break;
		sleep_until(g->state && now_ns + POLL_NS < ns ? now_ns + POLL_NS : ns);
	}
	return g->emit_error;
}

void autopsy_gpus_close(struct autopsy_gpus *g)
{
	source_nvml.sampler->close(g->state);
	g->state = NULL;
}
