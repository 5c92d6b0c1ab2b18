/* SPDX-License-Identifier: Apache-2.0
 *
 * run.c - see run.h.
 */
#include "tools/simcluster/run.h"

#include <errno.h>

#define CHUNK_S 0.05

int run_init(struct run *r, const struct shape *s, const struct noise *n, double life_rate, uint64_t seed)
{
	struct draw d = { seed };
	int err;

	*r = (struct run){ .life = { .rate = life_rate, .draw = { draw_bits(&d) } }, .draw = { draw_bits(&d) } };
	err = cluster_init(&r->cluster, s, draw_bits(&d));
	if (err)
		return err;
	r->agents = agents_new(&r->cluster, n, draw_bits(&d));
	r->judge = judge_new(r->cluster.n_hosts);
	r->deliver = judge_take;
	r->to = r->judge;
	fault_draw(&r->fault, FAULT_NONE, 1, &r->cluster, &r->draw);
	if (r->agents && r->judge)
		return 0;
	run_free(r);
	return -ENOMEM;
}

void run_free(struct run *r)
{
	judge_free(r->judge);
	agents_free(r->agents);
	cluster_free(&r->cluster);
}

static void step_next(struct run *r)
{
	struct cluster *c = &r->cluster;

	cluster_reset(c);
	life_before(&r->life, c);
	if (r->armed)
		fault_before(&r->fault, c, &r->draw);
	cluster_step(c);
	life_after(&r->life, c);
	if (r->armed)
		fault_after(&r->fault, c);
}

/* While no hub is there. */
static int dropped(void *to, const struct delivery *d)
{
	(void)to;
	(void)d;
	return 0;
}

int run_until(struct run *r, double to_s)
{
	int err = 0;

	while (r->now_s < to_s && !err) {
		double next_s = r->now_s + CHUNK_S;

		fault_turn(&r->fault, &r->cluster, r->now_s);
		while (!r->cluster.step || r->cluster.end_s <= r->now_s)
			step_next(r);
		err = agents_run(
			r->agents, &r->fault, r->now_s, next_s,
			r->hub_late_s > 0 && r->now_s < r->fault.begin_s + r->hub_late_s ? dropped : r->deliver, r->to);
		if (!err && r->to == r->judge)
			err = judge_tick(r->judge, next_s);
		r->now_s = next_s;
	}
	return err;
}
