/* SPDX-License-Identifier: Apache-2.0
 *
 * budget_samples.h - processes that pay for probes by hand, sample by sample, and the orders that follow. Loads are in
 * budgets: one percent of a core. Of one test program.
 */
#ifndef RANKTRACE_BUDGET_SAMPLES_H
#define RANKTRACE_BUDGET_SAMPLES_H

#include "session/rules/budget_rules.h"

#define MS 1000000ull
#define QUARTER (250 * MS)
#define PRICE_NS 100
#define ALL ((1u << PROBE_GROUPS) - 1)

static const struct budget_cfg one_percent = { .price_ns = PRICE_NS, .budget_ppm = 10000 };

static struct budget_rules *g;
static uint64_t now_ns;
static struct budget_sample at[3];
static int n_procs;
static struct budget_order got[16];

static inline void begin(const struct budget_cfg *cfg, int n)
{
	g = budget_rules_new(cfg);
	assert_non_null(g);
	now_ns = 1000 * QUARTER;
	n_procs = n;
	for (int i = 0; i < n; i++)
		at[i] = (struct budget_sample){ .tgid = 100 + i, .start_ns = 7, .probed = true };
	memset(got, 0, sizeof(got));
}

/* A hit of a group costs so many prices. */
static inline void hits_add(int p, enum probe_group group, uint32_t n, uint32_t prices)
{
	at[p].hits[group] += n;
	at[p].paid[group] += n * prices;
}

static inline void load_add(int p, enum probe_group group, double budgets, uint64_t in_ns)
{
	hits_add(p, group, (uint32_t)(budgets * 0.01 * in_ns / PRICE_NS / 10 + 0.5), 10);
}

/* The number of orders. */
static inline int sample_at(uint64_t after_ns)
{
	int n = 0;

	budget_sample_begin(g, now_ns += after_ns);
	for (int p = 0; p < n_procs; p++)
		assert_int_equal(budget_sample_note(g, &at[p]), 0);
	budget_sample_end(g);
	while (budget_next(g, &got[n])) {
		for (int p = 0; p < n_procs; p++)
			if (at[p].tgid == got[n].tgid)
				at[p].missing = got[n].what == BUDGET_BACK ? at[p].missing & ~(1u << got[n].group)
									   : at[p].missing | got[n].shed;
		assert_true(++n < 15);
	}
	return n;
}

static inline int quarter_of(enum probe_group group, double budgets)
{
	load_add(0, group, budgets, QUARTER);
	return sample_at(QUARTER);
}

/* The sample in which something goes, from 1; 0: nothing within `max`. */
static inline int goes_in(enum probe_group group, double budgets, uint64_t every_ns, int max)
{
	sample_at(every_ns);
	for (int i = 1; i <= max; i++) {
		load_add(0, group, budgets, every_ns);
		if (sample_at(every_ns))
			return i;
	}
	return 0;
}

#endif
