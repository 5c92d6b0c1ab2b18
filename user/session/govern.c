/* SPDX-License-Identifier: Apache-2.0
 *
 * session_govern.c - see session_govern.h.
 */
#include "session/govern.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "session/governor.h"
#include "schemas/probing.h"

#define LOOK_EVERY_NS 1000000000ull

struct warden {
	uint32_t budget_ppm, node_ppm;
	struct loader *loader;
	struct session_targets *targets;
	int (*emit)(void *to, const struct wire_hdr *rec);
	void *to;
	struct governor *governor; /* NULL: nothing was probed yet */
	uint64_t last_ns;
	struct hit_prices prices;
	int err; /* of the look that goes on */
};

struct warden *warden_new(const struct session_cfg *cfg, struct loader *l, struct session_targets *t,
			  int (*emit)(void *to, const struct wire_hdr *rec), void *to)
{
	struct warden *w = calloc(1, sizeof(*w));

	if (w)
		*w = (struct warden){ .budget_ppm = cfg->budget_ppm,
				      .node_ppm = cfg->budget_node_ppm,
				      .loader = l,
				      .targets = t,
				      .emit = emit,
				      .to = to };
	return w;
}

void warden_free(struct warden *w)
{
	if (w)
		governor_free(w->governor);
	free(w);
}

static int budget_tell(struct warden *w, const struct governor_order *o)
{
	struct fact_budget f = {
		.hdr = { .size = sizeof(f),
			 .tracer = WIRE_FACT,
			 .kind = FACT_BUDGET,
			 .tgid = o->tgid,
			 .tid = o->tgid,
			 .ts_ns = clock_monotonic_ns() },
		.budget_ppm = o->budget_ppm,
		.hits_per_s = o->hits_per_s,
		.node_hits_per_s = o->node_hits_per_s,
		.cost_ns = o->hit_ns,
		.node_cost_ns = o->node_hit_ns,
		.what = o->what,
		.group = o->group,
		.shed = o->shed,
		.flags = (o->of_node ? FACT_BUDGET_OF_NODE : 0) | (w->prices.assumed ? FACT_BUDGET_ASSUMED : 0),
	};

	return w->emit(w->to, &f.hdr);
}

static void cost_say(const struct warden *w)
{
	const uint64_t *ns = w->prices.ns;

	if (w->prices.assumed)
		log_info("what a probe hit costs could not be measured here: %.1f us are assumed", ns[HIT_OTHER] / 1e3);
	else
		log_info(
			"a probe hit costs %.1f to %.1f us here, by the function's first instruction, and %.1f us at its return",
			(ns[HIT_PUSH] < ns[HIT_OTHER] ? ns[HIT_PUSH] : ns[HIT_OTHER]) / 1e3,
			(ns[HIT_PUSH] < ns[HIT_OTHER] ? ns[HIT_OTHER] : ns[HIT_PUSH]) / 1e3, ns[HIT_RETURN] / 1e3);
	if (!loader_attaches_per_process(w->loader))
		log_info("the budget of probes is only told: this kernel cannot take probes from one process");
}

static int begin(struct warden *w)
{
	struct governor_cfg cfg = { .price_ns = LOADER_PRICE_NS,
				    .budget_ppm = w->budget_ppm,
				    .node_ppm = w->node_ppm,
				    .fixed = !loader_attaches_per_process(w->loader) };
	struct governor_order told = { .what = BUDGET_COST, .budget_ppm = w->budget_ppm };

	w->prices = *loader_prices_known(w->loader);
	told.hit_ns = w->prices.ns[HIT_OTHER];
	w->governor = governor_new(&cfg);
	cost_say(w);
	return w->governor ? budget_tell(w, &told) : -ENOMEM;
}

static void target_note(void *to, const struct session_target *p)
{
	struct governor_look l = { .tgid = p->tgid, .start_ns = p->start_ns, .probed = p->probed };
	struct warden *w = to;

	if (!w->err && loader_hits(w->loader, p->tgid, l.hits, l.paid))
		w->err = governor_look_note(w->governor, &l);
}

/* What comes back is told before its first records, what goes behind the last. */
static int order_make(struct warden *w, const struct governor_order *o, uint64_t now_ns)
{
	int err = o->what == BUDGET_BACK ? budget_tell(w, o) : 0;

	if (!err && o->what != BUDGET_KEPT)
		err = session_targets_shed(w->targets, o->tgid, o->shed, now_ns);
	if (err == -ESRCH)
		return 0;
	return err || o->what == BUDGET_BACK ? err : budget_tell(w, o);
}

int warden_tick(struct warden *w, uint64_t now_ns)
{
	struct governor_order o;
	int err = 0;

	if (now_ns - w->last_ns < LOOK_EVERY_NS || !loader_probes(w->loader))
		return 0;
	w->last_ns = now_ns;
	if (!w->governor)
		err = begin(w);
	if (err)
		return err;
	governor_look_begin(w->governor, now_ns);
	w->err = 0;
	session_targets_each(w->targets, target_note, w);
	governor_look_end(w->governor);
	err = w->err;
	while (!err && governor_next(w->governor, &o))
		err = order_make(w, &o, now_ns);
	return err;
}

void warden_sums(const struct warden *w, struct session_budget *ret)
{
	const struct governor_sums *s = w->governor ? governor_sums(w->governor) : NULL;

	if (s)
		*ret = (struct session_budget){ .hits = s->hits,
						.paid_ns = s->paid_ns,
						.assumed = w->prices.assumed,
						.peak_ns_per_s = s->peak_ns_per_s,
						.peak_tgid = s->peak_tgid,
						.n_shed = s->n_shed,
						.n_back = s->n_back };
}
