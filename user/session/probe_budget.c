/* SPDX-License-Identifier: Apache-2.0
 *
 * probe_budget.c - see probe_budget.h.
 */
#include "session/probe_budget.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "session/rules/budget_rules.h"
#include "schemas/probing.h"

#define SAMPLE_EVERY_NS 200000000ull /* with the ticks of the session: every 250 ms */

struct probe_budget {
	uint32_t budget_ppm, node_ppm;
	struct loader *loader;
	struct session_targets *targets;
	int (*emit)(void *to, const struct wire_hdr *rec);
	void *to;
	struct budget_rules *rules; /* NULL: no probe was attached yet */
	uint64_t last_ns;
	struct hit_prices prices;
	int err; /* of the sample under way */
};

struct probe_budget *probe_budget_new(const struct session_cfg *cfg, struct loader *l, struct session_targets *t,
				      int (*emit)(void *to, const struct wire_hdr *rec), void *to)
{
	struct probe_budget *b = calloc(1, sizeof(*b));

	if (b)
		*b = (struct probe_budget){ .budget_ppm = cfg->budget_ppm,
					    .node_ppm = cfg->budget_node_ppm,
					    .loader = l,
					    .targets = t,
					    .emit = emit,
					    .to = to };
	return b;
}

void probe_budget_set(struct probe_budget *b, uint32_t budget_ppm, uint32_t node_ppm)
{
	b->budget_ppm = budget_ppm;
	b->node_ppm = node_ppm;
	if (b->rules)
		budget_limits(b->rules, budget_ppm, node_ppm);
}

void probe_budget_free(struct probe_budget *b)
{
	if (b)
		budget_rules_free(b->rules);
	free(b);
}

static int budget_emit(struct probe_budget *b, const struct budget_order *o, bool of_other)
{
	struct record_budget f = {
		.hdr = { .size = sizeof(f),
			 .tracer = WIRE_COLLECTOR,
			 .kind = RECORD_BUDGET,
			 .tgid = o->tgid,
			 .tid = o->tgid,
			 .ts_ns = clock_monotonic_ns() },
		.budget_ppm = o->budget_ppm,
		.hits_per_s = of_other ? 0 : o->hits_per_s,
		.node_hits_per_s = o->node_hits_per_s,
		.cost_ns = of_other ? 0 : o->hit_ns,
		.node_cost_ns = o->node_hit_ns,
		.what = o->what,
		.group = o->group,
		.shed = o->shed,
		.flags = (o->of_node ? RECORD_BUDGET_OF_NODE : 0) | (b->prices.assumed ? RECORD_BUDGET_ASSUMED : 0) |
			 (of_other ? RECORD_BUDGET_SHARED : 0),
	};

	return b->emit(b->to, &f.hdr);
}

static void cost_say(const struct probe_budget *b)
{
	const uint64_t *ns = b->prices.ns;

	if (b->prices.assumed)
		log_info("the cost of a probe hit's trap could not be measured here: %.1f us are assumed",
			 ns[HIT_OTHER] / 1e3);
	else
		log_detail(
			"the trap of a probe hit costs %.1f to %.1f us here, by the function's first instruction, and "
			"%.1f us at its return; what the program there takes is timed as it runs",
			(ns[HIT_PUSH] < ns[HIT_OTHER] ? ns[HIT_PUSH] : ns[HIT_OTHER]) / 1e3,
			(ns[HIT_PUSH] < ns[HIT_OTHER] ? ns[HIT_OTHER] : ns[HIT_PUSH]) / 1e3, ns[HIT_RETURN] / 1e3);
	if (!loader_attaches_per_process(b->loader))
		log_info("this kernel cannot remove probes from one process: what the probe budget takes from one, all "
			 "lose");
}

static int begin(struct probe_budget *b)
{
	struct budget_cfg cfg = { .price_ns = LOADER_PRICE_NS,
				  .budget_ppm = b->budget_ppm,
				  .node_ppm = b->node_ppm,
				  .shared = !loader_attaches_per_process(b->loader) };
	struct budget_order first = { .what = BUDGET_COST, .budget_ppm = b->budget_ppm };

	b->prices = *loader_prices_known(b->loader);
	cfg.own_ns = b->prices.own_ns;
	cfg.idle_ns = b->prices.idle_ns;
	first.hit_ns = b->prices.ns[HIT_OTHER] + b->prices.own_ns;
	b->rules = budget_rules_new(&cfg);
	cost_say(b);
	return b->rules ? budget_emit(b, &first, false) : -ENOMEM;
}

static void target_note(void *to, const struct session_target *p)
{
	struct budget_sample l = {
		.tgid = p->tgid, .start_ns = p->start_ns, .probed = p->probed, .missing = p->missing
	};
	struct probe_budget *b = to;
	struct hit_counts n;

	if (b->err || !loader_hits(b->loader, p->tgid, &n))
		return;
	memcpy(l.hits, n.hits, sizeof(l.hits));
	memcpy(l.paid, n.paid, sizeof(l.paid));
	memcpy(l.own_runs, n.own_runs, sizeof(l.own_runs));
	memcpy(l.own_ns, n.own_ns, sizeof(l.own_ns));
	b->err = budget_sample_note(b->rules, &l);
}

struct change { /* of one process, or of all */
	struct probe_budget *b;
	struct budget_order order;
	uint32_t payer; /* who is the reason */
	int err;
};

static uint32_t order_back(const struct budget_order *o)
{
	return o->what == BUDGET_BACK ? 1u << o->group : 0;
}

/* A group that comes back is reported before its first records, one that goes after its last. */
static int order_make(struct probe_budget *b, const struct budget_order *o, bool of_other)
{
	bool is_back = o->what == BUDGET_BACK;
	int err = is_back && !o->quiet ? budget_emit(b, o, of_other) : 0;

	if (!err)
		err = session_targets_shed(b->targets, o->tgid, o->shed, order_back(o));
	if (err == -ESRCH)
		return 0;
	return err || is_back ? err : budget_emit(b, o, of_other);
}

static void change_each(void *to, const struct session_target *p)
{
	struct change *c = to;

	c->order.tgid = p->tgid;
	if (!c->err && p->probed)
		c->err = order_make(c->b, &c->order, p->tgid != c->payer);
}

static int orders_make(struct probe_budget *b)
{
	struct change c = { .b = b };

	while (!c.err && budget_next(b->rules, &c.order)) {
		c.payer = c.order.tgid;
		if (loader_attaches_per_process(b->loader))
			c.err = order_make(b, &c.order, false);
		else
			session_targets_each(b->targets, change_each, &c);
	}
	return c.err;
}

int probe_budget_tick(struct probe_budget *b, uint64_t now_ns)
{
	int err = 0;

	if (now_ns - b->last_ns < SAMPLE_EVERY_NS || !(b->rules || loader_probes(b->loader)))
		return 0;
	b->last_ns = now_ns;
	if (!b->rules)
		err = begin(b);
	if (err)
		return err;
	budget_sample_begin(b->rules, now_ns);
	b->err = 0;
	session_targets_each(b->targets, target_note, b);
	budget_sample_end(b->rules);
	return b->err ? b->err : orders_make(b);
}

void probe_budget_sums(const struct probe_budget *b, struct session_budget *ret)
{
	const struct budget_sums *s = b->rules ? budget_sums(b->rules) : NULL;

	if (s)
		*ret = (struct session_budget){ .hits = s->hits,
						.paid_ns = s->paid_ns,
						.assumed = b->prices.assumed,
						.peak_ns_per_s = s->peak_ns_per_s,
						.peak_tgid = s->peak_tgid,
						.n_shed = s->n_shed,
						.n_back = s->n_back };
}
