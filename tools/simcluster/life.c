/* SPDX-License-Identifier: Apache-2.0
 *
 * life.c - the ordinary life of a job: nothing of it is a fault, and none of it is worth a page. How often and how
 * long is an assumption, said in docs/evaluation.md; times that have a tail have one here.
 */
#include "tools/simcluster/fault.h"

#define CHECKPOINT_EVERY_S 1800.0
#define EVALUATION_EVERY_S 7200.0
#define STALL_EVERY_S 600.0
#define RESTART_EVERY_S 28800.0
#define TRAFFIC_EVERY_S 1200.0
#define SEQUENCES_EVERY_S 3600.0
#define GARBAGE_SHARE 1e-3 /* of the steps of a rank */
#define LOG_EVERY 10       /* steps; rank 0 alone */

static bool happens(struct life *l, const struct cluster *c, double every_s)
{
	return draw_unit(&l->draw) < l->rate * c->shape.step_s / every_s;
}

static void pause_set(struct cluster *c, int rank, enum pause_kind kind, double s)
{
	c->ranks[rank].pause = (struct rank_pause){ .kind = kind, .op = 0, .s = s, .begin_s = INFINITY };
}

/* Each rank writes its part: some seconds, a slow one takes three times as long, and the storage of a host has its
 * moods. */
static void checkpoint(struct life *l, struct cluster *c)
{
	double mean = draw_between(&l->draw, 3, 15);

	l->checkpoints++;
	for (int host = 0; host < c->n_hosts; host++) {
		double slow = draw_unit(&l->draw) < 0.02 ? draw_between(&l->draw, 1.5, 3) : 1;

		for (int k = 0; k < PER_HOST; k++)
			pause_set(c, host * PER_HOST + k, PAUSE_STORAGE,
				  slow * mean * draw_between(&l->draw, 0.7, 1.1));
	}
}

/* The queue of input runs dry on one rank. */
static void stall(struct life *l, struct cluster *c)
{
	int rank = draw_below(&l->draw, c->n_ranks);
	double s = fmin(0.5 + draw_exponential(&l->draw, 3), 25);

	l->stalled[l->stalls++ % STALLS_KEPT] = (struct life_stall){ rank, INFINITY, s };
	pause_set(c, rank, PAUSE_SLEEP, s);
}

static void garbage(struct life *l, struct cluster *c)
{
	double n = GARBAGE_SHARE * c->n_ranks;
	int some = (int)n + (draw_unit(&l->draw) < n - (int)n);

	for (int i = 0; i < some; i++, l->garbage++)
		pause_set(c, draw_below(&l->draw, c->n_ranks), PAUSE_WORK, draw_between(&l->draw, 0.05, 0.3));
}

/* New processes: the first step compiles on all, longest on one, and its operations are slow. */
static void first_step(struct life *l, struct cluster *c)
{
	double mean = draw_between(&l->draw, 5, 20);

	l->compiles++;
	for (int r = 0; r < c->n_ranks; r++)
		pause_set(c, r, PAUSE_WORK, mean * draw_between(&l->draw, 0.8, 1.2));
	pause_set(c, draw_below(&l->draw, c->n_ranks), PAUSE_WORK, 60);
	c->work_factor = 2;
}

static void evaluation(struct life *l, struct cluster *c)
{
	if (!l->evaluating && happens(l, c, EVALUATION_EVERY_S)) {
		l->evaluations++;
		l->evaluating = 1 + draw_below(&l->draw, 8);
	}
	if (!l->evaluating)
		return;
	l->evaluating--;
	c->work_factor = draw_between(&l->draw, 2, 6);
}

static void link_clear(struct cluster *c)
{
	for (int r = 0; r < c->n_ranks; r++)
		c->transfer[r] = 1;
}

/* Another job's traffic shares the fabric for 5 to 60 steps (F13). */
static void traffic(struct life *l, struct cluster *c)
{
	if (!l->busy_link && happens(l, c, TRAFFIC_EVERY_S)) {
		l->traffic++;
		l->busy_link = 5 + draw_below(&l->draw, 56);
	} else if (l->busy_link && !--l->busy_link) {
		link_clear(c);
	}
	if (l->busy_link)
		link_slow_somewhere(c, &l->draw);
}

/* Sequences of uneven length for 20 to 200 steps: some replica has more to do, another one each step (F16). */
static void sequences(struct life *l, struct cluster *c)
{
	if (!l->variation)
		l->variation = c->shape.variation;
	if (!l->uneven && happens(l, c, SEQUENCES_EVERY_S)) {
		l->sequences++;
		l->uneven = 20 + draw_below(&l->draw, 181);
	} else if (l->uneven) {
		l->uneven--;
	}
	c->shape.variation = l->uneven ? fmax(UNEVEN_VARIATION, l->variation) : l->variation;
}

void life_before(struct life *l, struct cluster *c)
{
	if (!l->rate)
		return;
	if (c->step > 20 && happens(l, c, RESTART_EVERY_S)) {
		l->restarts++;
		cluster_restart(c, draw_between(&l->draw, 60, 180));
	}
	garbage(l, c);
	evaluation(l, c);
	traffic(l, c);
	sequences(l, c);
	if (!(c->step % LOG_EVERY) && ++l->logs)
		pause_set(c, 0, PAUSE_WORK, draw_between(&l->draw, 0.05, 0.3));
	if (happens(l, c, STALL_EVERY_S))
		stall(l, c);
	if (happens(l, c, CHECKPOINT_EVERY_S))
		checkpoint(l, c);
	if (c->generation && !c->step)
		first_step(l, c);
}

void life_after(struct life *l, const struct cluster *c)
{
	struct life_stall *newest = &l->stalled[(l->stalls + STALLS_KEPT - 1) % STALLS_KEPT];

	if (l->stalls && isinf(newest->begin_s))
		newest->begin_s = c->begin_s;
}
