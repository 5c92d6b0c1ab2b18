/* SPDX-License-Identifier: Apache-2.0
 *
 * cluster.c - see cluster.h. Ranks are numbered as Megatron does: tensor, then data, then pipeline parallel.
 */
#include "tools/simcluster/cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int rank_stage(const struct cluster *c, int rank)
{
	return rank / (c->shape.tp * c->shape.dp);
}

int rank_replica(const struct cluster *c, int rank)
{
	return rank / c->shape.tp % c->shape.dp;
}

int comm_size(const struct cluster *c, enum sim_comm comm)
{
	switch (comm) {
	case SIM_TP: return c->shape.tp;
	case SIM_DP: return c->shape.dp;
	case SIM_PP: return c->shape.pp;
	default: return c->n_ranks;
	}
}

int rank_in(const struct cluster *c, int rank, enum sim_comm comm)
{
	switch (comm) {
	case SIM_TP: return rank % c->shape.tp;
	case SIM_DP: return rank_replica(c, rank);
	case SIM_PP: return rank_stage(c, rank);
	default: return rank;
	}
}

/* Of the communicators of that kind the one that the rank is in. */
int comm_number(const struct cluster *c, int rank, enum sim_comm comm)
{
	int tp = c->shape.tp, dp = c->shape.dp;

	switch (comm) {
	case SIM_TP: return rank / tp;
	case SIM_DP: return rank / (tp * dp) * tp + rank % tp;
	case SIM_PP: return rank % (tp * dp);
	default: return 0;
	}
}

/* One forward, one backward: the deeper the stage, the fewer passes are under way in it. */
static void program_make(const struct cluster *c, int stage, struct sim_op *to)
{
	int ahead = c->shape.pp - 1 - stage, f = 0, b = 0, n = 0, micro = c->shape.micro;
	enum sim_comm within = c->shape.tp > 1 || c->shape.pp > 1 ? SIM_TP : SIM_DP;

	ahead = ahead < micro ? ahead : micro;
	while (f < ahead)
		to[n++] = (struct sim_op){ within, f++, true };
	while (b < micro) {
		if (f < micro)
			to[n++] = (struct sim_op){ within, f++, true };
		to[n++] = (struct sim_op){ within, b++, false };
	}
	to[n++] = (struct sim_op){ SIM_DP, -1, false };
	to[n++] = (struct sim_op){ SIM_DP, -1, true };
	to[n++] = (struct sim_op){ SIM_WORLD, -1, false };
}

static void arrays_step(struct step_arrays *a, size_t n)
{
	a->called = calloc(n, sizeof(double));
	a->ended = calloc(n, sizeof(double));
	a->begun = calloc(n, sizeof(double));
	a->started = calloc(n, sizeof(double));
}

static void arrays_free(struct step_arrays *a)
{
	free(a->called);
	free(a->ended);
	free(a->begun);
	free(a->started);
}

static bool step_is_whole(const struct step_arrays *a)
{
	return a->called && a->ended && a->begun && a->started;
}

static bool arrays_make(struct cluster *c)
{
	size_t n = (size_t)c->n_ranks * c->n_ops;

	c->ranks = calloc(c->n_ranks, sizeof(*c->ranks));
	c->program = calloc((size_t)c->shape.pp * c->n_ops, sizeof(*c->program));
	arrays_step(&c->now, n);
	arrays_step(&c->before, n);
	c->transfer = calloc(c->n_ranks, sizeof(double));
	c->last = calloc(c->n_ranks, sizeof(double));
	c->factor = calloc(c->n_ranks, sizeof(double));
	return c->ranks && c->program && step_is_whole(&c->now) && step_is_whole(&c->before) && c->transfer &&
	       c->last && c->factor;
}

int cluster_init(struct cluster *c, const struct shape *s, unsigned long seed)
{
	*c = (struct cluster){ .shape = *s, .n_ranks = s->tp * s->pp * s->dp, .n_ops = 2 * s->micro + 3 };
	c->gone_s = INFINITY;
	if (s->micro < 1 || s->pp > STAGES_MAX || s->micro > MICRO_MAX || c->n_ranks < PER_HOST ||
	    c->n_ranks % PER_HOST)
		return -EINVAL;
	c->n_hosts = c->n_ranks / PER_HOST;
	c->queue = (int)lround(s->run_ahead_s / s->step_s * c->n_ops);
	c->queue = c->queue < 1 ? 1 : c->queue;
	c->noise.state = seed;
	if (!arrays_make(c)) {
		cluster_free(c);
		return -ENOMEM;
	}
	for (int stage = 0; stage < s->pp; stage++)
		program_make(c, stage, c->program + (size_t)stage * c->n_ops);
	for (int r = 0; r < c->n_ranks; r++)
		c->transfer[r] = c->ranks[r].host_factor = 1;
	for (int r = 0; r < c->n_ranks; r++)
		c->ranks[r].gpu_factor = 1;
	c->work_factor = 1;
	return 0;
}

void cluster_free(struct cluster *c)
{
	free(c->ranks);
	free(c->program);
	arrays_free(&c->now);
	arrays_free(&c->before);
	free(c->transfer);
	free(c->last);
	free(c->factor);
}

void cluster_reset(struct cluster *c)
{
	for (int r = 0; r < c->n_ranks; r++) {
		if (!(c->ranks[r].pause.to_s > c->end_s)) /* one that is halted by the clock stays so */
			c->ranks[r].pause = (struct rank_pause){ 0 };
		c->ranks[r].world_first = false;
	}
	c->work_factor = 1;
}

void cluster_restart(struct cluster *c, double gap_s)
{
	c->generation++;
	c->gone_s = c->end_s;
	c->end_s += gap_s;
	c->step = 0;
	c->begin_s = c->end_s;
	for (int r = 0; r < c->n_ranks; r++)
		for (int k = 0; k < SIM_COMMS; k++)
			c->ranks[r].n[k] = 0;
}

enum host_state host_state_at(const struct cluster *c, int rank, double at_s)
{
	const double *called = rank_times(c->now.called, c, rank), *ended = rank_times(c->now.ended, c, rank);
	const struct rank_pause *p = &c->ranks[rank].pause;
	int i = 0;

	if (p->from_s > 0 && at_s >= p->from_s && at_s < p->to_s)
		return HOST_PAUSES;
	while (i < c->n_ops && called[i] <= at_s)
		i++;
	if (i == c->n_ops || (c->ranks[rank].world_first && at_s >= p->begin_s))
		return HOST_WAITS;
	if (p->kind && p->op == i && at_s >= p->begin_s)
		return HOST_PAUSES;
	return i >= c->queue && ended[i - c->queue] > at_s ? HOST_WAITS : HOST_CALLS;
}

double cluster_first_wait(const struct cluster *c, int but)
{
	double first = INFINITY;

	for (int r = 0; r < c->n_ranks; r++) {
		const double *called = rank_times(c->now.called, c, r), *ended = rank_times(c->now.ended, c, r);
		const double *started = rank_times(c->now.started, c, r);

		for (int i = 0; i < c->n_ops && r != but; i++)
			if (isinf(ended[i]) && !isinf(called[i]) && started[i] < first)
				first = started[i];
	}
	return first;
}
