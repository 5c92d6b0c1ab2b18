/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_rounds.c - see gpu_rounds.h.
 */
#include "detect/gpu/gpu_rounds.h"

#include <math.h>
#include <string.h>

#include "base/sorted.h"

#define TOGETHER_NS 400000000ull /* samples of one round lie within that */
#define TENSOR_LEAST 2.0         /* percent: below that no matrix work is going on */

bool gpu_rounds_ranks(struct gpu_rounds *g, const uint64_t *procs, int n)
{
	if (n == g->n && !memcmp(procs, g->procs, n * sizeof(procs[0])))
		return false;
	memcpy(g->procs, procs, n * sizeof(procs[0]));
	g->n = n;
	g->n_rounds = 0;
	return true;
}

uint64_t gpu_rounds_kept(const struct gpu_rounds *g)
{
	return g->n_rounds < GPU_ROUNDS_KEPT ? g->n_rounds : GPU_ROUNDS_KEPT;
}

const struct gpu_round *gpu_round_at(const struct gpu_rounds *g, uint64_t i)
{
	return &g->rounds[(g->n_rounds - 1 - i) % GPU_ROUNDS_KEPT];
}

static bool usable(const struct gpu_sampled *l, uint64_t ts_ns)
{
	return l->s.window_ns && l->s.tensor_bp != GPU_NO_VALUE && l->s.sm_bp != GPU_NO_VALUE &&
	       l->ts_ns + TOGETHER_NS > ts_ns && l->ts_ns < ts_ns + TOGETHER_NS &&
	       gpu_percent(l->s.tensor_bp) >= TENSOR_LEAST;
}

static void own_values(struct gpu_round *to, int r, const struct gpu_sample *s)
{
	to->of[ROUND_TENSOR][r] = gpu_percent(s->tensor_bp);
	to->of[ROUND_SM][r] = gpu_percent(s->sm_bp);
	to->of[ROUND_POWER][r] = s->power_mw == GPU_NO_VALUE ? 0 : s->power_mw / 1e3;
	to->of[ROUND_CLOCK][r] = s->sm_clock_mhz == GPU_NO_VALUE ? 0 : s->sm_clock_mhz;
}

static void quotients(struct gpu_round *to, int n)
{
	for (int v = 0; v < ROUND_OWN_VALUES; v++) {
		double all[GPU_ROUND_RANKS_MAX];
		struct middle middle;

		for (int r = 0; r < n; r++)
			all[r] = to->of[v][r];
		middle = middle_of(all, n);
		for (int r = 0; r < n; r++) {
			double others = middle_without(&middle, to->of[v][r]);

			to->of[ROUND_PEERS_TENSOR + v][r] = others;
			to->of[ROUND_TENSOR_QUOTIENT + v][r] = to->of[v][r] / fmax(others, 1);
		}
	}
}

bool gpu_rounds_take(struct gpu_rounds *g, const struct gpu *const *gpus)
{
	struct gpu_round now = { 0 };
	uint64_t newest_ns = 0;

	for (int r = 0; r < g->n; r++) {
		const struct gpu_sampled *l = gpu_sample(gpus[r], 0);

		if (!l || l->ts_ns <= g->last_ns)
			return false;
		if (!r)
			now.ts_ns = l->ts_ns;
		if (!usable(l, now.ts_ns))
			return false;
		if (l->ts_ns > newest_ns)
			newest_ns = l->ts_ns;
		own_values(&now, r, &l->s);
	}
	quotients(&now, g->n);
	g->last_ns = newest_ns;
	g->rounds[g->n_rounds++ % GPU_ROUNDS_KEPT] = now;
	return true;
}

double gpu_rounds_mean(const struct gpu_rounds *g, uint64_t from, uint64_t to, enum gpu_round_value v, int r)
{
	double sum = 0;

	for (uint64_t i = from; i < to; i++)
		sum += gpu_round_at(g, i)->of[v][r];
	return to > from ? sum / (to - from) : 0;
}

double gpu_rounds_deviation(const struct gpu_rounds *g, uint64_t from, uint64_t to, enum gpu_round_value v, int r)
{
	double m = gpu_rounds_mean(g, from, to, v, r), sum = 0;

	for (uint64_t i = from; i < to; i++) {
		double d = gpu_round_at(g, i)->of[v][r] - m;

		sum += d * d;
	}
	return to > from + 1 ? sqrt(sum / (to - from - 1)) : INFINITY;
}
