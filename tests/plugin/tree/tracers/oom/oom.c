/* SPDX-License-Identifier: Apache-2.0
 *
 * oom.c - reads oom_score_adj of every traced rank once a second.
 */
#include <stdlib.h>

#include "tracers/oom/oom.h"
#include "source.h"
#include "inspect/discover/discover.h"
#include "inspect/reader/proc_files.h"

static int oom_open(const struct sampler_ctx *ctx, void **ret_state)
{
	*ret_state = (void *)ctx;
	return 0;
}

static int oom_sample(void *state, uint64_t now_ns)
{
	const struct sampler_ctx *ctx = state;
	size_t n = 0;
	const struct target_proc *const *list = ctx->targets ? target_set_list(ctx->targets, &n) : NULL;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		struct oom_adj r = { .hdr = { .size = sizeof(r),
					      .tracer = WIRE_OOM,
					      .kind = OOM_ADJ,
					      .tgid = list[i]->tgid,
					      .ts_ns = now_ns } };
		char text[32];

		if (list[i]->is_child || list[i]->rank < 0 || !ctx->is_traced(ctx->is_traced_of, list[i]) ||
		    proc_read(text, sizeof(text), "/proc/%u/oom_score_adj", list[i]->tgid) <= 0)
			continue;
		r.adj = atoi(text);
		err = ctx->emit(ctx->emit_to, &r.hdr);
	}
	return err;
}

static void oom_close(void *state)
{
	(void)state;
}

static const struct sampler oom_sampler = {
	.tiers = SAMPLER_ALWAYS,
	.period_ns = 1000000000ull,
	.remedy = "is /proc mounted?",
	.open = oom_open,
	.sample = oom_sample,
	.close = oom_close,
};

const struct source_live source_oom = { .sampler = &oom_sampler };
