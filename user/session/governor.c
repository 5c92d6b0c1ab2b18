/* SPDX-License-Identifier: Apache-2.0
 *
 * governor.c - see governor.h.
 *
 * The load is the running mean of each second's cost divided by the budget; one second counts as four budgets at most.
 * A process is over its budget after three such seconds of the last eight, however far above they are, or after eight
 * seconds at one and a half times the budget.
 */
#include "session/governor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CLIP 4.0
#define LOAD_PART (1 / 8.0) /* weight of a new second in the load */
#define RATE_PART (1 / 2.0) /* weight of a new second in the reported rates */
#define OVER_SECONDS 3      /* of the last eight */
#define HITS_MAX 1e8        /* per second: no counter moves that fast, so it was reset */
#define CALM 0.5            /* of the budget */
#define WORTH 0.1           /* part of a process' cost: removing a cheaper group would gain nothing */

struct load {
	double mean;
	uint8_t over; /* the last eight seconds, one bit each: 1 above the budget */
};

struct governed {
	uint32_t tgid;
	uint64_t start_ns;
	uint32_t hits[PROBE_GROUPS], paid[PROBE_GROUPS];
	struct rate {
		double hits, ns;
	} rate[PROBE_GROUPS]; /* per second */
	struct load load;
	uint64_t calm_since_ns; /* 0: not calm */
	uint32_t shed;
	uint8_t backs[PROBE_GROUPS];
	bool probed, noted, kept_reported;
	bool rated; /* two samples were taken */
	struct governed *next;
};

struct governor {
	struct governor_cfg cfg;
	struct governed *all;
	uint64_t now_ns, last_ns;
	struct load node_load;
	bool node_kept_reported;
	struct governor_sums sums;
};

/* Removed in this order; returned in the reverse order. */
static const enum probe_group optional[] = { PROBES_BURST, PROBES_POSTS, PROBES_POLLS, PROBES_CALLS };
#define N_OPTIONAL ((int)(sizeof(optional) / sizeof(optional[0])))

struct governor *governor_new(const struct governor_cfg *cfg)
{
	struct governor *g = calloc(1, sizeof(*g));

	if (g)
		g->cfg = *cfg;
	return g;
}

void governor_free(struct governor *g)
{
	struct governed *p;

	while (g && (p = g->all)) {
		g->all = p->next;
		free(p);
	}
	free(g);
}

const struct governor_sums *governor_sums(const struct governor *g)
{
	return &g->sums;
}

static void rate_add(struct rate *to, const struct rate *one)
{
	to->hits += one->hits;
	to->ns += one->ns;
}

static struct rate rate_of(const struct governed *p)
{
	struct rate sum = { 0 };

	for (int i = 0; i < PROBE_GROUPS; i++)
		rate_add(&sum, &p->rate[i]);
	return sum;
}

static struct rate node_rate(const struct governor *g)
{
	struct rate sum = { 0 };

	for (const struct governed *p = g->all; p; p = p->next) {
		struct rate one = rate_of(p);

		if (p->probed)
			rate_add(&sum, &one);
	}
	return sum;
}

static void load_add(struct load *l, double ns_per_s, uint32_t ppm)
{
	double budgets = ppm ? ns_per_s / (1e3 * ppm) : 0; /* against millionths of a second */

	l->mean += LOAD_PART * ((budgets > CLIP ? CLIP : budgets) - l->mean);
	l->over = l->over << 1 | (budgets > 1);
}

static bool is_over(const struct load *l)
{
	return l->mean > 1 && __builtin_popcount(l->over) >= OVER_SECONDS;
}

/* --- samples --- */

void governor_sample_begin(struct governor *g, uint64_t now_ns)
{
	g->last_ns = g->now_ns;
	g->now_ns = now_ns;
	for (struct governed *p = g->all; p; p = p->next)
		p->noted = false;
}

static struct governed *governed_get(struct governor *g, const struct governor_sample *l)
{
	struct governed *p = g->all;

	while (p && p->tgid != l->tgid)
		p = p->next;
	if (p && p->start_ns == l->start_ns)
		return p;
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return NULL;
		p->next = g->all;
		g->all = p;
	}
	*p = (struct governed){ .tgid = l->tgid, .start_ns = l->start_ns, .next = p->next };
	return p;
}

/* A counter that was reset seems to move by billions: nothing is known of that second. */
static void rates_take(struct governor *g, struct governed *p, const struct governor_sample *l)
{
	double passed_s = (g->now_ns - g->last_ns) * 1e-9, ns = 0;

	for (int i = 0; i < PROBE_GROUPS; i++) {
		uint32_t hits = l->hits[i] - p->hits[i], paid = l->paid[i] - p->paid[i];
		struct rate now = { hits / passed_s, (double)paid * g->cfg.price_ns / passed_s };

		if (hits > HITS_MAX * passed_s)
			continue;
		p->rate[i].hits += (p->rated ? RATE_PART : 1) * (now.hits - p->rate[i].hits);
		p->rate[i].ns += (p->rated ? RATE_PART : 1) * (now.ns - p->rate[i].ns);
		ns += now.ns;
		g->sums.hits += hits;
		g->sums.paid_ns += (uint64_t)paid * g->cfg.price_ns;
	}
	p->rated = true;
	load_add(&p->load, ns, g->cfg.budget_ppm);
	if (rate_of(p).ns > g->sums.peak_ns_per_s) {
		g->sums.peak_ns_per_s = rate_of(p).ns;
		g->sums.peak_tgid = p->tgid;
	}
}

int governor_sample_note(struct governor *g, const struct governor_sample *l)
{
	struct governed *p = governed_get(g, l);

	if (!p)
		return -ENOMEM;
	p->noted = true;
	if (p->probed && l->probed && g->last_ns && g->now_ns > g->last_ns)
		rates_take(g, p, l);
	else
		p->calm_since_ns = 0;
	p->probed = l->probed;
	memcpy(p->hits, l->hits, sizeof(p->hits));
	memcpy(p->paid, l->paid, sizeof(p->paid));
	return 0;
}

void governor_sample_end(struct governor *g)
{
	struct governed **at = &g->all, *p;

	while ((p = *at)) {
		if (p->noted) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		free(p);
	}
	load_add(&g->node_load, node_rate(g).ns, g->cfg.node_ppm);
	for (p = g->all; p; p = p->next) {
		bool calm = p->probed && p->load.mean < CALM && g->node_load.mean < CALM;

		p->calm_since_ns = !calm ? 0 : p->calm_since_ns ? p->calm_since_ns : g->now_ns;
	}
}

/* --- orders --- */

static void order_fill(const struct governor *g, const struct governed *p, struct governor_order *ret)
{
	struct rate mine = rate_of(p), all = node_rate(g);

	ret->tgid = p->tgid;
	ret->shed = p->shed;
	ret->hits_per_s = mine.hits + 0.5;
	ret->node_hits_per_s = all.hits + 0.5;
	ret->hit_ns = mine.hits > 0 ? mine.ns / mine.hits + 0.5 : 0;
	ret->node_hit_ns = all.hits > 0 ? all.ns / all.hits + 0.5 : 0;
	ret->budget_ppm = ret->of_node ? g->cfg.node_ppm : g->cfg.budget_ppm;
}

/* The group to remove next; PROBES_NEEDED: none may go. */
static enum probe_group sheddable(const struct governor *g, const struct governed *p)
{
	double all = rate_of(p).ns;

	for (int i = 0; i < N_OPTIONAL && !g->cfg.fixed; i++)
		if (!(p->shed >> optional[i] & 1) && p->rate[optional[i]].ns >= WORTH * all && all > 0)
			return optional[i];
	return PROBES_NEEDED;
}

/* The change shows in the seconds after it, so the load starts from zero. */
static bool shed(struct governor *g, struct governed *p, bool of_node, struct governor_order *ret)
{
	*ret = (struct governor_order){ .what = BUDGET_SHED, .group = sheddable(g, p), .of_node = of_node };
	p->shed |= 1u << ret->group;
	p->load = (struct load){ 0 };
	if (of_node)
		g->node_load = (struct load){ 0 };
	order_fill(g, p, ret);
	p->rate[ret->group] = (struct rate){ 0 };
	g->sums.n_shed++;
	return true;
}

static bool kept(struct governor *g, const struct governed *p, bool *reported, bool of_node, struct governor_order *ret)
{
	if (*reported)
		return false;
	*reported = true;
	*ret = (struct governor_order){ .what = BUDGET_KEPT, .group = PROBES_NEEDED, .of_node = of_node };
	order_fill(g, p, ret);
	return true;
}

static bool process_over(struct governor *g, struct governed *p, struct governor_order *ret)
{
	if (!p->probed || !is_over(&p->load))
		return false;
	return sheddable(g, p) ? shed(g, p, false, ret) : kept(g, p, &p->kept_reported, false, ret);
}

static bool node_over(struct governor *g, struct governor_order *ret)
{
	struct governed *best = NULL, *most = NULL;

	if (!is_over(&g->node_load))
		return false;
	for (struct governed *p = g->all; p; p = p->next) {
		if (!p->probed)
			continue;
		if (!most || rate_of(p).ns > rate_of(most).ns)
			most = p;
		if (sheddable(g, p) && (!best || rate_of(p).ns > rate_of(best).ns))
			best = p;
	}
	if (best)
		return shed(g, best, true, ret);
	return most && kept(g, most, &g->node_kept_reported, true, ret);
}

static bool may_be_back(const struct governor *g, const struct governed *p, enum probe_group group)
{
	uint64_t wait_ns = GOVERNOR_BACK_NS << 2 * p->backs[group];

	return p->shed >> group & 1 && group != PROBES_POSTS && p->backs[group] < GOVERNOR_BACKS && p->calm_since_ns &&
	       g->now_ns - p->calm_since_ns >= wait_ns;
}

static bool back(struct governor *g, struct governed *p, struct governor_order *ret)
{
	for (int i = N_OPTIONAL - 1; i >= 0; i--) {
		if (!may_be_back(g, p, optional[i]))
			continue;
		*ret = (struct governor_order){ .what = BUDGET_BACK, .group = optional[i] };
		p->shed &= ~(1u << optional[i]);
		p->backs[optional[i]]++;
		p->calm_since_ns = g->now_ns;
		order_fill(g, p, ret);
		g->sums.n_back++;
		return true;
	}
	return false;
}

bool governor_next(struct governor *g, struct governor_order *ret)
{
	for (struct governed *p = g->all; p; p = p->next)
		if (process_over(g, p, ret))
			return true;
	if (node_over(g, ret))
		return true;
	for (struct governed *p = g->all; p; p = p->next)
		if (back(g, p, ret))
			return true;
	return false;
}
