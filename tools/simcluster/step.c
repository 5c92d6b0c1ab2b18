/* SPDX-License-Identifier: Apache-2.0
 *
 * step.c - one step of all ranks: when each host called, when each GPU was ready, when each operation ended. A host
 * runs ahead of its GPU until its queue is full; at the end of a step it waits for the job-wide operation, as a loss or
 * a norm of the gradients that is read does. What never comes is INFINITY, and spreads by itself.
 */
#include "tools/simcluster/cluster.h"

#define HOST_SHARE 0.3         /* of the step: calls alone, with nothing to wait for */
#define RANK_JITTER 0.33       /* of the natural variation: each operation's own */
#define TRANSFER_SHARE 0.1     /* of the step: all operations of a rank together, without any wait */
#define TRANSFER_DP_SHARE 0.02 /* each of the two over all replicas */

static double larger(double a, double b)
{
	return a > b ? a : b;
}

/* Time on the GPU before operation i, of a rank without faults. Passes of all microbatches fill a stage, and the
 * pipeline's fill and drain the rest of the step. */
static double pass_work(const struct cluster *c)
{
	const struct shape *s = &c->shape;
	double passes = 2.0 * (s->micro + s->pp - 1);

	return s->step_s * (1 - TRANSFER_SHARE - 2 * TRANSFER_DP_SHARE - 0.02) / passes;
}

static double pass_transfer(const struct cluster *c)
{
	return c->shape.step_s * TRANSFER_SHARE / (2.0 * (c->shape.micro + c->shape.pp - 1));
}

/* A host that is on its way to a call from `at` to `then`: when it gets there, if it is halted meanwhile. */
static double halted(const struct rank_pause *p, double at, double then)
{
	if (!(p->from_s > 0) || then < p->from_s || at >= p->to_s)
		return then;
	return p->to_s + then - larger(at, p->from_s);
}

/* When the host of `rank` calls operation i. The one before, and that many operations back, are known. */
static double call_time(struct cluster *c, int rank, int i)
{
	struct sim_rank *k = &c->ranks[rank];
	const double *called = rank_times(c->now.called, c, rank), *ended = rank_times(c->now.ended, c, rank);
	double host = c->shape.step_s * HOST_SHARE / c->n_ops * k->host_factor;
	double at = i ? called[i - 1] : c->begin_s;

	if (i >= c->queue)
		at = larger(at, ended[i - c->queue]);
	if (k->pause.kind && k->pause.op == i) {
		k->pause.begin_s = at;
		at += k->pause.s;
	}
	return halted(&k->pause, at, at + host);
}

/* Its GPU has done what comes before operation i. `after`: what else it waits for, as a Recv. */
static double ready_time(struct cluster *c, int rank, int i, double after, double work)
{
	const double *called = rank_times(c->now.called, c, rank), *ended = rank_times(c->now.ended, c, rank);
	double at = larger(larger(i ? ended[i - 1] : c->begin_s, after), called[i]);

	rank_times(c->now.begun, c, rank)[i] = at;
	return at + work * c->ranks[rank].gpu_factor;
}

struct pass {
	int stage, replica, i;
	double after, work;
};

/* All ranks of a tensor-parallel group. */
static double pass_run(struct cluster *c, const struct pass *p, double jitter)
{
	int first = (p->stage * c->shape.dp + p->replica) * c->shape.tp;
	double last = 0;

	for (int r = first; r < first + c->shape.tp; r++) {
		double work = p->work * (1 + jitter * draw_normal(&c->noise));

		rank_times(c->now.called, c, r)[p->i] = call_time(c, r, p->i);
		rank_times(c->now.started, c, r)[p->i] = ready_time(c, r, p->i, p->after, work);
		last = larger(last, rank_times(c->now.started, c, r)[p->i]);
	}
	last += pass_transfer(c);
	for (int r = first; r < first + c->shape.tp; r++)
		rank_times(c->now.ended, c, r)[p->i] = last;
	return last;
}

/* Of one replica, all stages, by what is ready: a forward pass waits for the stage before it, a backward one for the
 * stage behind. */
static void replica_run(struct cluster *c, int replica, double factor)
{
	double done[2][STAGES_MAX][MICRO_MAX]; /* [forward][stage][micro]; -1 not yet */
	int at[STAGES_MAX] = { 0 }, left = c->shape.pp * 2 * c->shape.micro, pp = c->shape.pp;
	double work = pass_work(c) * factor, jitter = c->shape.variation * RANK_JITTER;

	for (int stage = 0; stage < pp; stage++)
		for (int m = 0; m < c->shape.micro; m++)
			done[0][stage][m] = done[1][stage][m] = -1;
	for (int stage = 0; left; stage = (stage + 1) % pp) {
		while (at[stage] < 2 * c->shape.micro) {
			const struct sim_op *o = &c->program[stage * c->n_ops + at[stage]];
			int from = o->forward ? stage - 1 : stage + 1;
			double after = from < 0 || from == pp ? 0 : done[o->forward][from][o->micro];
			double weight = stage == pp - 1 ? c->shape.last_stage_factor : 1;
			struct pass p = { stage, replica, at[stage], after, work * weight };

			if (after < 0)
				break;
			done[o->forward][stage][o->micro] = pass_run(c, &p, jitter);
			at[stage]++;
			left--;
		}
	}
}

struct wide {
	enum sim_comm comm;
	int i;
	double work, transfer;
};

/* One operation of all ranks, in all communicators of its kind. */
static void wide_run(struct cluster *c, const struct wide *w)
{
	double jitter = c->shape.variation * RANK_JITTER;

	for (int g = 0; g < c->n_ranks; g++)
		c->last[g] = c->factor[g] = 0;
	for (int r = 0; r < c->n_ranks; r++) {
		int g = comm_number(c, r, w->comm);
		double *started = rank_times(c->now.started, c, r) + w->i;

		rank_times(c->now.called, c, r)[w->i] = call_time(c, r, w->i);
		*started = ready_time(c, r, w->i, 0, w->work * (1 + jitter * draw_normal(&c->noise)));
		c->last[g] = larger(c->last[g], *started);
		c->factor[g] = larger(c->factor[g], c->transfer[r]);
	}
	for (int r = 0; r < c->n_ranks; r++) {
		int g = comm_number(c, r, w->comm);

		rank_times(c->now.ended, c, r)[w->i] =
			c->last[g] + w->transfer * (w->comm == SIM_DP ? c->factor[g] : 1);
	}
}

/* It calls the job-wide operation first: of all later ones none is called, since it waits there. */
static void orders_swap(struct cluster *c)
{
	for (int r = 0; r < c->n_ranks; r++)
		if (c->ranks[r].world_first)
			rank_times(c->now.called, c, r)[c->n_ops - 1] = c->ranks[r].pause.begin_s;
}

static void counts_add(struct cluster *c)
{
	for (int r = 0; r < c->n_ranks && c->step; r++)
		for (int i = 0; i < c->n_ops; i++)
			c->ranks[r].n[rank_op(c, r, i)->comm]++;
}

static void passes_run(struct cluster *c)
{
	double factor = c->work_factor;

	for (int d = 0; d < c->shape.dp && comm_size(c, SIM_DP) < c->n_ranks; d++)
		replica_run(c, d, factor * (1 + c->shape.variation * draw_normal(&c->noise)));
	for (int i = 0; i < 2 * c->shape.micro && comm_size(c, SIM_DP) == c->n_ranks; i++)
		wide_run(c, &(struct wide){ SIM_DP, i, pass_work(c) * factor, pass_transfer(c) });
}

void cluster_step(struct cluster *c)
{
	const struct step_arrays was = c->now;
	double step = c->shape.step_s;
	int i = 2 * c->shape.micro;

	counts_add(c);
	c->now = c->before;
	c->before = was;
	c->begin_s = c->step++ ? c->end_s : c->begin_s;
	passes_run(c);
	wide_run(c, &(struct wide){ SIM_DP, i, 0, step * TRANSFER_DP_SHARE });
	wide_run(c, &(struct wide){ SIM_DP, i + 1, step * 0.01, step * TRANSFER_DP_SHARE });
	wide_run(c, &(struct wide){ SIM_WORLD, i + 2, step * 0.01, step * 1e-3 });
	c->end_s = rank_times(c->now.ended, c, 0)[c->n_ops - 1];
	orders_swap(c);
}
