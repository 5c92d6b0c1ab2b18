/* SPDX-License-Identifier: Apache-2.0
 *
 * budget_job.h - processes that call what is probed at given rates, under a probe budget: what they pay, sample by
 * sample, and how long above twice the budget. For one test program.
 */
#ifndef RANKTRACE_BUDGET_JOB_H
#define RANKTRACE_BUDGET_JOB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "session/rules/budget_rules.h"

#define S 1000000000ull
#define MS 1000000ull
#define STEP_NS (10 * MS)
#define SAMPLE_NS (250 * MS)
#define DETACH_NS (250 * MS)
#define PRICE_NS 16
#define COST_NS 4000 /* 1 % of a core is 2,500 hits a second */
#define ALL ((1u << PROBE_GROUPS) - 1)

static const struct budget_cfg one_percent = { .price_ns = PRICE_NS, .budget_ppm = 10000 };

struct job { /* processes from 100 on, and the rates at which each calls what could be probed */
	struct budget_rules *g;
	uint64_t now_ns;
	int n;
	uint32_t rate[8][PROBE_GROUPS];
	uint32_t attached[8];
	uint64_t gone_ns[8][PROBE_GROUPS]; /* when the probes are gone indeed */
	double hits[8][PROBE_GROUPS];
	double slot_hits, slot_worst;               /* of process 100 in 250 ms that begin when they like */
	double slot_last;                           /* budgets */
	uint64_t slot_ns, above_ns, worst_above_ns; /* above twice the budget */
	bool unprobed, is_shared;
};

static struct job job_of(const struct budget_cfg *cfg, int n)
{
	struct job j = {
		.g = budget_rules_new(cfg), .now_ns = 1000 * S, .n = n, .slot_ns = 1000 * S, .is_shared = cfg->shared
	};

	assert_non_null(j.g);
	memset(j.attached, 0xff, sizeof(j.attached));
	return j;
}

static void order_apply(struct job *j, int p, const struct budget_order *o)
{
	uint32_t before = j->attached[p];

	j->attached[p] &= ~o->shed;
	j->attached[p] |= o->what == BUDGET_BACK ? 1u << o->group : 0;
	for (int i = 0; i < PROBE_GROUPS; i++)
		if ((before & ~j->attached[p]) >> i & 1)
			j->gone_ns[p][i] = j->now_ns + DETACH_NS;
}

static void sample(struct job *j)
{
	budget_sample_begin(j->g, j->now_ns);
	for (int p = 0; p < j->n; p++) {
		struct budget_sample l = {
			.tgid = 100 + p, .start_ns = 7, .probed = !j->unprobed, .missing = ALL & ~j->attached[p]
		};

		for (int i = 0; i < PROBE_GROUPS; i++)
			l.paid[i] = (l.hits[i] = j->hits[p][i]) * (COST_NS / PRICE_NS);
		assert_int_equal(budget_sample_note(j->g, &l), 0);
	}
	budget_sample_end(j->g);
}

/* The promise, by what process 100 really paid in slots of 250 ms. */
static void slot_end(struct job *j)
{
	double budgets = j->slot_hits * COST_NS / SAMPLE_NS * 100;

	j->slot_last = budgets;
	j->slot_worst = budgets > j->slot_worst ? budgets : j->slot_worst;
	j->above_ns = budgets > 2 ? j->above_ns + SAMPLE_NS : 0;
	j->worst_above_ns = j->above_ns > j->worst_above_ns ? j->above_ns : j->worst_above_ns;
	j->slot_hits = 0;
	j->slot_ns = j->now_ns;
}

static void step(struct job *j)
{
	j->now_ns += STEP_NS;
	for (int p = 0; p < j->n; p++)
		for (int i = 0; i < PROBE_GROUPS; i++) {
			bool paid = !j->unprobed && (j->attached[p] >> i & 1 || j->gone_ns[p][i] >= j->now_ns);
			double hits = paid ? (double)j->rate[p][i] * STEP_NS / S : 0;

			j->hits[p][i] += hits;
			j->slot_hits += p ? 0 : hits;
		}
	if (j->now_ns - j->slot_ns >= SAMPLE_NS)
		slot_end(j);
}

#endif
