/* SPDX-License-Identifier: Apache-2.0
 *
 * budget_rules.c - see budget_rules.h. A load is a cost in budgets. Costs are kept twice: the newest ones, by which
 * groups go quickly, and the mean of some seconds, by which they go when the load is unsteady.
 */
#include "session/rules/budget_rules.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "session/rules/own_price.h"

#define CLIP 4.0              /* budgets that one sample counts for in a mean, at most */
#define MEAN_S 8.0            /* of a load */
#define RATE_PART (1 / 2.0)   /* weight of a new sample in the newest rates */
#define OVER_SAMPLES 12       /* of the last 32 above the budget: three seconds of eight */
#define LIMIT 1.5             /* budgets: what must not last, with some room to twice the budget */
#define LIMIT_NS 740000000ull /* three samples */
#define CALM_SAMPLES 3u       /* bits of `high`: the last two samples */
#define CALM_AFTER_CUT 0xfu   /* the last four */
#define HITS_MAX 1e8          /* per second: no counter moves that fast, so it was reset */
#define CALM 0.5              /* of the budget */
#define WORTH 0.1             /* part of a process' cost: removing a cheaper group would gain nothing */
#define TRIAL_NS 1000000000ull
#define ADMIT_NS 200000000ull /* a whole sample since the last admission */
#define ALL ((1u << PROBE_GROUPS) - 1)

struct rate {
	double hits, ns; /* per second */
};

struct load {
	double mean;         /* budgets */
	uint32_t over, high; /* the last 32 samples, one bit each: 1 above the budget, above LIMIT */
	uint64_t above_ns;   /* above LIMIT since then, again and again; 0: it is not */
	bool cut;            /* groups went since then */
};

enum why { WHY_NOT, WHY_QUICK, WHY_SLOW };

struct payer {
	uint32_t tgid;
	uint64_t start_ns;
	uint32_t hits[PROBE_GROUPS], paid[PROBE_GROUPS];
	uint32_t own_runs[PROBE_GROUPS], own_ns[PROBE_GROUPS];
	struct own_price own[PROBE_GROUPS];
	struct rate rate[PROBE_GROUPS], slow[PROBE_GROUPS];
	struct load load;
	uint64_t calm_since_ns;          /* 0: not calm */
	uint32_t shed, blamed;           /* groups that are out; of them those that were the reason */
	uint32_t missing;                /* by the newest sample */
	uint32_t unrated;                /* groups without a sample since they came */
	uint64_t trial_ns[PROBE_GROUPS]; /* began; 0: not on trial */
	double trial_paid[PROBE_GROUPS]; /* by the process, since then */
	uint64_t admitted_ns, cut_ns;
	enum why cut_why;
	uint8_t backs[PROBE_GROUPS];
	bool probed, noted, rated; /* rated: two samples were taken */
	struct payer *next;
};

struct budget_rules {
	struct budget_cfg cfg;
	struct payer *all;
	uint64_t now_ns, last_ns;
	struct load node_load;
	enum why node_cut;    /* groups of processes go until the rest is under the budget of the node */
	uint32_t shed_shared; /* cfg.shared: out of all processes */
	struct budget_sums sums;
};

/* What a group's records show, against those of the others. PROBES_NEEDED goes last, whatever it costs. */
static const double worth[PROBE_GROUPS] = {
	[PROBES_EVENTS] = 16, [PROBES_CALLS] = 8,    [PROBES_POLLS] = 4, [PROBES_POSTS] = 2,
	[PROBES_BURST] = 1,   [PROBES_RANGES] = 0.5, [PROBES_GC] = 1.5,
};

/* Cheap ones first, as far as anybody can know before. */
static const enum probe_group admission[] = { PROBES_NEEDED, PROBES_CALLS,  PROBES_EVENTS, PROBES_POLLS,
					      PROBES_GC,     PROBES_RANGES, PROBES_BURST };
#define N_ADMISSION ((int)(sizeof(admission) / sizeof(admission[0])))

struct budget_rules *budget_rules_new(const struct budget_cfg *cfg)
{
	struct budget_rules *g = calloc(1, sizeof(*g));

	if (g)
		g->cfg = *cfg;
	return g;
}

void budget_limits(struct budget_rules *g, uint32_t budget_ppm, uint32_t node_ppm)
{
	g->cfg.budget_ppm = budget_ppm;
	g->cfg.node_ppm = node_ppm;
}

void budget_rules_free(struct budget_rules *g)
{
	struct payer *p;

	while (g && (p = g->all)) {
		g->all = p->next;
		free(p);
	}
	free(g);
}

const struct budget_sums *budget_sums(const struct budget_rules *g)
{
	return &g->sums;
}

static void rate_add(struct rate *to, const struct rate *one)
{
	to->hits += one->hits;
	to->ns += one->ns;
}

static const struct rate *rates_by(const struct payer *p, enum why why)
{
	return why == WHY_SLOW ? p->slow : p->rate;
}

static struct rate rate_of(const struct payer *p, enum why why)
{
	struct rate sum = { 0 };

	for (int i = 0; i < PROBE_GROUPS; i++)
		rate_add(&sum, &rates_by(p, why)[i]);
	return sum;
}

static struct rate node_rate(const struct budget_rules *g, enum why why)
{
	struct rate sum = { 0 };

	for (const struct payer *p = g->all; p; p = p->next) {
		struct rate one = rate_of(p, why);

		if (p->probed)
			rate_add(&sum, &one);
	}
	return sum;
}

/* Against millionths of a second; 0 without a budget. */
static double budgets(double ns_per_s, uint32_t ppm)
{
	return ppm ? ns_per_s / (1e3 * ppm) : 0;
}

static double part_of(double passed_s)
{
	return fmin(passed_s / MEAN_S, 1);
}

/* Bursts may come to lie in every other sample; and after a cut the program may turn to what is still probed. */
static void load_add(const struct budget_rules *g, struct load *l, double now)
{
	l->mean += part_of((g->now_ns - g->last_ns) * 1e-9) * (fmin(now, CLIP) - l->mean);
	l->over = l->over << 1 | (now > 1);
	l->high = l->high << 1 | (now > LIMIT);
	if (!(l->high & (l->cut ? CALM_AFTER_CUT : CALM_SAMPLES)))
		*l = (struct load){ .mean = l->mean, .over = l->over };
	else if (!l->above_ns)
		l->above_ns = g->last_ns;
}

static enum why load_over(const struct budget_rules *g, const struct load *l)
{
	if (l->high & 1 && g->now_ns - l->above_ns >= LIMIT_NS)
		return WHY_QUICK;
	return l->mean > 1 && __builtin_popcount(l->over) >= OVER_SAMPLES ? WHY_SLOW : WHY_NOT;
}

/* What the load was says nothing of what it will be without a group; but a process above LIMIT stays under watch. */
static void load_restart(struct load *l)
{
	l->mean = 0;
	l->over = 0;
	l->cut = true;
}

/* --- samples --- */

void budget_sample_begin(struct budget_rules *g, uint64_t now_ns)
{
	g->last_ns = g->now_ns;
	g->now_ns = now_ns;
	for (struct payer *p = g->all; p; p = p->next)
		p->noted = false;
}

/* The counters of a new one began at 0, after the last sample. */
static struct payer *payer_get(struct budget_rules *g, const struct budget_sample *l)
{
	struct payer *p = g->all;

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
	*p = (struct payer){
		.tgid = l->tgid, .start_ns = l->start_ns, .probed = l->probed, .next = p->next, .shed = g->shed_shared
	};
	p->blamed = p->shed;
	return p;
}

/* The mean of a group, which must not remember one spike for long: clipped like a load. */
static void slow_add(const struct budget_rules *g, struct rate *slow, const struct rate *now, double passed_s)
{
	double clip = g->cfg.budget_ppm ? CLIP * 1e3 * g->cfg.budget_ppm : now->ns,
	       part = now->ns > clip ? clip / now->ns : 1;

	slow->hits += part_of(passed_s) * (part * now->hits - slow->hits);
	slow->ns += part_of(passed_s) * (part * now->ns - slow->ns);
}

static void rate_take(const struct budget_rules *g, struct payer *p, int i, const struct rate *now, double passed_s)
{
	double part = p->rated && !(p->unrated >> i & 1) ? RATE_PART : 1;

	p->rate[i].hits += part * (now->hits - p->rate[i].hits);
	p->rate[i].ns += part * (now->ns - p->rate[i].ns);
	slow_add(g, &p->slow[i], now, passed_s);
	p->unrated &= ~(1u << i);
}

/* Of the traps since the last sample, and our programs. */
static double cost_take(const struct budget_rules *g, struct payer *p, const struct budget_sample *l, int i)
{
	uint32_t hits = l->hits[i] - p->hits[i], paid = l->paid[i] - p->paid[i];

	own_price_add(&p->own[i], l->own_runs[i] - p->own_runs[i], l->own_ns[i] - p->own_ns[i], g->cfg.idle_ns);
	return (double)paid * g->cfg.price_ns + hits * own_price_ns(&p->own[i], g->cfg.own_ns);
}

/* A counter that was reset seems to move by billions: nothing is known of that sample. Hits of a group that is out are
 * paid for, but lead to nothing: its probes are on their way out. */
static void rates_take(struct budget_rules *g, struct payer *p, const struct budget_sample *l)
{
	double passed_s = (g->now_ns - g->last_ns) * 1e-9, ns = 0;

	for (int i = 0; i < PROBE_GROUPS; i++) {
		uint32_t hits = l->hits[i] - p->hits[i];
		struct rate now = { .hits = hits / passed_s };
		double cost_ns;

		if (hits > HITS_MAX * passed_s)
			continue;
		cost_ns = cost_take(g, p, l, i);
		now.ns = cost_ns / passed_s;
		g->sums.hits += hits;
		g->sums.paid_ns += (uint64_t)(cost_ns + 0.5);
		if (p->shed >> i & 1)
			continue;
		rate_take(g, p, i, &now, passed_s);
		ns += now.ns;
	}
	for (int i = 0; i < PROBE_GROUPS; i++)
		p->trial_paid[i] += p->trial_ns[i] ? ns * passed_s : 0;
	p->rated = true;
	load_add(g, &p->load, budgets(ns, g->cfg.budget_ppm));
	if (rate_of(p, WHY_QUICK).ns > g->sums.peak_ns_per_s) {
		g->sums.peak_ns_per_s = rate_of(p, WHY_QUICK).ns;
		g->sums.peak_tgid = p->tgid;
	}
}

static void unprobed_note(struct payer *p)
{
	p->load = (struct load){ 0 };
	p->calm_since_ns = 0;
}

int budget_sample_note(struct budget_rules *g, const struct budget_sample *l)
{
	struct payer *p = payer_get(g, l);

	if (!p)
		return -ENOMEM;
	p->noted = true;
	if (p->probed && l->probed && g->last_ns && g->now_ns > g->last_ns)
		rates_take(g, p, l);
	else
		unprobed_note(p);
	p->probed = l->probed;
	p->missing = l->missing;
	memcpy(p->hits, l->hits, sizeof(p->hits));
	memcpy(p->paid, l->paid, sizeof(p->paid));
	memcpy(p->own_runs, l->own_runs, sizeof(p->own_runs));
	memcpy(p->own_ns, l->own_ns, sizeof(p->own_ns));
	return 0;
}

void budget_sample_end(struct budget_rules *g)
{
	struct payer **at = &g->all, *p;

	while ((p = *at)) {
		if (p->noted) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		free(p);
	}
	load_add(g, &g->node_load, budgets(node_rate(g, WHY_QUICK).ns, g->cfg.node_ppm));
	g->node_cut = WHY_NOT;
	for (p = g->all; p; p = p->next) {
		bool calm = p->probed && p->load.mean < CALM && g->node_load.mean < CALM;

		p->calm_since_ns = !calm ? 0 : p->calm_since_ns ? p->calm_since_ns : g->now_ns;
	}
}

/* --- orders: out --- */

/* The rates that show more of what is the reason. */
static void order_fill(const struct budget_rules *g, const struct payer *p, struct budget_order *ret)
{
	enum why why = rate_of(p, WHY_SLOW).ns > rate_of(p, WHY_QUICK).ns ? WHY_SLOW : WHY_QUICK;
	struct rate mine = rate_of(p, why), all = node_rate(g, why);

	ret->tgid = p->tgid;
	ret->shed = p->shed;
	ret->hits_per_s = mine.hits + 0.5;
	ret->node_hits_per_s = all.hits + 0.5;
	ret->hit_ns = mine.hits > 0 ? mine.ns / mine.hits + 0.5 : 0;
	ret->node_hit_ns = all.hits > 0 ? all.ns / all.hits + 0.5 : 0;
	ret->budget_ppm = ret->of_node ? g->cfg.node_ppm : g->cfg.budget_ppm;
}

/* The group of `among` to remove next; PROBES_NEEDED: no other would gain anything. */
static enum probe_group least_worth(const struct payer *p, enum why why, uint32_t among)
{
	const struct rate *by = rates_by(p, why);
	double all = rate_of(p, why).ns, most = 0;
	enum probe_group best = PROBES_NEEDED;

	for (int i = PROBES_NEEDED + 1; i < PROBE_GROUPS; i++) {
		if (!(among >> i & 1) || by[i].ns < WORTH * all || by[i].ns / worth[i] <= most)
			continue;
		most = by[i].ns / worth[i];
		best = i;
	}
	return best;
}

static void group_out(struct payer *p, enum probe_group group)
{
	p->shed |= 1u << group;
	p->rate[group] = p->slow[group] = (struct rate){ 0 };
	p->trial_ns[group] = 0;
}

/* A change of one process is one of all. */
static void order_share(struct budget_rules *g, const struct payer *from)
{
	for (struct payer *p = g->cfg.shared ? g->all : NULL; p; p = p->next) {
		for (int i = 0; i < PROBE_GROUPS; i++)
			if (from->shed >> i & 1)
				group_out(p, i);
		p->shed = from->shed;
		p->blamed = from->blamed;
		if (p != from)
			p->load = (struct load){ 0 };
		memcpy(p->trial_ns, from->trial_ns, sizeof(p->trial_ns));
		memcpy(p->trial_paid, from->trial_paid, sizeof(p->trial_paid));
		memcpy(p->backs, from->backs, sizeof(p->backs));
	}
	g->shed_shared = g->cfg.shared ? from->shed : 0;
}

static bool is_on_trial(const struct budget_rules *g, const struct payer *p, int group)
{
	return p->trial_ns[group] && g->now_ns - p->trial_ns[group] <= TRIAL_NS + ADMIT_NS;
}

/* What was paid together with a group that goes says nothing of the others on trial: theirs begins anew. */
static void trials_restart(struct budget_rules *g, struct payer *p)
{
	for (int i = 0; i < PROBE_GROUPS; i++) {
		if (!is_on_trial(g, p, i))
			continue;
		p->trial_ns[i] = g->now_ns;
		p->trial_paid[i] = 0;
	}
}

/* Takes one group, or (`group` is PROBES_NEEDED) all of them. */
static bool shed(struct budget_rules *g, struct payer *p, enum probe_group group, bool of_node,
		 struct budget_order *ret)
{
	*ret = (struct budget_order){ .what = group == PROBES_NEEDED ? BUDGET_WATCH : BUDGET_SHED,
				      .group = group,
				      .of_node = of_node };
	order_fill(g, p, ret); /* with the rates that are the reason */
	p->blamed |= 1u << group;
	p->calm_since_ns = 0;
	for (int i = 0; i < PROBE_GROUPS; i++)
		if (i == (int)group || group == PROBES_NEEDED)
			group_out(p, i);
	trials_restart(g, p);
	load_restart(&p->load);
	ret->shed = p->shed;
	order_share(g, p);
	g->sums.n_shed++;
	return true;
}

static bool is_above(double ns_per_s, uint32_t ppm)
{
	return budgets(ns_per_s, ppm) > 1;
}

/* A second's budget, or that of the longer time that the trial takes until a sample. */
static bool trial_failed(const struct budget_rules *g, const struct payer *p, int group)
{
	double seconds = fmax(1, (g->now_ns - p->trial_ns[group]) * 1e-9);

	return is_above(p->trial_paid[group] / seconds, g->cfg.budget_ppm);
}

/* Groups on trial: those, or (`failed`) of them those with which the process paid more than its budget. */
static uint32_t on_trial(const struct budget_rules *g, const struct payer *p, bool failed)
{
	uint32_t groups = 0;

	for (int i = 0; i < PROBE_GROUPS; i++)
		if (is_on_trial(g, p, i) && (!failed || trial_failed(g, p, i)))
			groups |= 1u << i;
	return groups;
}

static bool trial_ends(struct budget_rules *g, struct payer *p, bool of_node, struct budget_order *ret)
{
	uint32_t groups = on_trial(g, p, !of_node);
	enum probe_group group = least_worth(p, WHY_QUICK, groups);

	if (group == PROBES_NEEDED && !(groups >> PROBES_NEEDED & 1))
		return false;
	return shed(g, p, group, of_node, ret);
}

/* At the same sample others follow as long as the rest is above the budget; WHY_NOT: this is enough. */
static enum why why_more(const struct budget_rules *g, const struct payer *p)
{
	return is_above(rate_of(p, p->cut_why).ns, g->cfg.budget_ppm) ? p->cut_why : WHY_NOT;
}

static bool process_over(struct budget_rules *g, struct payer *p, struct budget_order *ret)
{
	bool more = p->cut_ns == g->now_ns, again;
	enum why why = more ? why_more(g, p) : load_over(g, &p->load);

	if (!p->probed || p->shed == ALL)
		return false;
	if (trial_ends(g, p, false, ret))
		return true;
	if (!why)
		return false;
	again = !more && why == WHY_QUICK && p->load.cut;
	p->cut_ns = g->now_ns;
	p->cut_why = why;
	return shed(g, p, again ? PROBES_NEEDED : least_worth(p, why, ~p->shed), false, ret);
}

/* The process that pays most; `least`: among those that can give a group and keep the others. */
static struct payer *payer(const struct budget_rules *g, enum why why, bool least)
{
	struct payer *best = NULL;

	for (struct payer *p = g->all; p; p = p->next)
		if (p->probed && p->shed != ALL && rate_of(p, why).ns > 0 &&
		    (!least || least_worth(p, why, ~p->shed)) && (!best || rate_of(p, why).ns > rate_of(best, why).ns))
			best = p;
	return best;
}

static bool node_trial_ends(struct budget_rules *g, struct budget_order *ret)
{
	for (struct payer *p = g->all; p; p = p->next)
		if (p->probed && trial_ends(g, p, true, ret))
			return true;
	return false;
}

static bool node_over(struct budget_rules *g, struct budget_order *ret)
{
	enum why why = g->node_cut ? g->node_cut : load_over(g, &g->node_load);
	struct payer *p;

	if (is_above(node_rate(g, WHY_QUICK).ns, g->cfg.node_ppm) && node_trial_ends(g, ret))
		return true;
	/* What is left: groups of this sample are gone, processes over their own budget gave theirs before. */
	if (!why || !is_above(node_rate(g, why).ns, g->cfg.node_ppm))
		return false;
	g->node_cut = why;
	load_restart(&g->node_load);
	p = payer(g, why, true);
	p = p ? p : payer(g, why, false);
	return p && shed(g, p, least_worth(p, why, ~p->shed), true, ret);
}

/* --- orders: in --- */

static bool put_in(struct budget_rules *g, struct payer *p, enum probe_group group, bool quiet,
		   struct budget_order *ret)
{
	*ret = (struct budget_order){ .what = BUDGET_BACK, .group = group, .quiet = quiet };
	p->shed &= ~(1u << group);
	p->blamed &= ~(1u << group);
	p->missing &= ~(1u << group);
	p->unrated |= 1u << group;
	p->trial_ns[group] = p->admitted_ns = g->now_ns;
	p->trial_paid[group] = 0;
	order_fill(g, p, ret);
	order_share(g, p);
	g->sums.n_back += !quiet;
	return true;
}

/* Half of the budget is free, or what came last was measured for a second, and all is within the budgets. */
static bool has_room(const struct budget_rules *g, const struct payer *p)
{
	double mine = budgets(rate_of(p, WHY_QUICK).ns, g->cfg.budget_ppm),
	       all = budgets(node_rate(g, WHY_QUICK).ns, g->cfg.node_ppm);
	uint64_t since_ns = g->now_ns - p->admitted_ns;

	if (!p->rated || mine > 1 || all > 1 || p->load.above_ns)
		return false;
	return since_ns >= TRIAL_NS || (since_ns >= ADMIT_NS && mine < CALM && all < CALM);
}

/* Held groups, and those that went with all others for no fault of their own. */
static bool admit(struct budget_rules *g, struct payer *p, struct budget_order *ret)
{
	uint32_t innocent = p->shed & ~p->blamed & ~(1u << PROBES_POSTS),
		 held = g->cfg.shared ? 0 : p->missing & ~p->shed, wait = held | innocent;

	if (!wait || p->shed >> PROBES_NEEDED & 1 || !has_room(g, p))
		return false;
	for (int i = 0; i < N_ADMISSION; i++)
		if (wait >> admission[i] & 1)
			return put_in(g, p, admission[i], !(innocent >> admission[i] & 1), ret);
	return false;
}

static bool may_be_back(const struct budget_rules *g, const struct payer *p, enum probe_group group)
{
	uint64_t wait_ns = BUDGET_BACK_NS << 2 * p->backs[group];

	if (group != PROBES_NEEDED && p->shed >> PROBES_NEEDED & 1)
		return false;
	return p->blamed >> group & 1 && p->shed >> group & 1 && p->backs[group] < BUDGET_BACKS && p->calm_since_ns &&
	       g->now_ns - p->calm_since_ns >= wait_ns;
}

static bool back(struct budget_rules *g, struct payer *p, struct budget_order *ret)
{
	for (int i = 0; i < N_ADMISSION; i++) {
		if (!may_be_back(g, p, admission[i]))
			continue;
		p->backs[admission[i]]++;
		p->calm_since_ns = g->now_ns;
		return put_in(g, p, admission[i], false, ret);
	}
	return false;
}

bool budget_next(struct budget_rules *g, struct budget_order *ret)
{
	for (struct payer *p = g->all; p; p = p->next)
		if (process_over(g, p, ret))
			return true;
	if (node_over(g, ret))
		return true;
	for (struct payer *p = g->all; p; p = p->next)
		if (p->probed && (admit(g, p, ret) || back(g, p, ret)))
			return true;
	return false;
}
