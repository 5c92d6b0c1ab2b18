/* SPDX-License-Identifier: Apache-2.0
 *
 * p2p_again.c - links below their bound are measured again: what was below in each turn only is a fault.
 */
#include <stdio.h>

#include "tools/stress/p2p/p2p.h"

static bool link_is_open(const struct p2p *p, int from, int to, enum link_measure measure)
{
	return judgement_is_open(&p->links[from][to].rates[measure].judged);
}

/* Both ways at once have one value: it is open where one of the two is. */
static int link_again(struct p2p *p, int from, int to, enum link_measure measure)
{
	bool both = measure == LINK_BOTH;
	double value;
	int err;

	if ((both && from > to) ||
	    !(link_is_open(p, from, to, measure) || (both && link_is_open(p, to, from, measure))))
		return 0;
	err = p2p_link(p, from, to, measure, &value);
	if (err)
		return err;
	judgement_turn(&p->links[from][to].rates[measure].judged, link_better(measure), value);
	if (both)
		judgement_turn(&p->links[to][from].rates[measure].judged, link_better(measure), value);
	return 0;
}

static bool host_is_open(const struct p2p *p, int gpu)
{
	for (int i = 0; i < p->n_nodes * N_WAYS_HOST; i++)
		if (judgement_is_open(&p->gpus[gpu].host[i / N_WAYS_HOST][i % N_WAYS_HOST].judged))
			return true;
	return false;
}

static int host_again(struct p2p *p, int gpu)
{
	struct host_values values;
	int err;

	if (!host_is_open(p, gpu))
		return 0;
	err = p2p_host(p, gpu, &values);
	for (int i = 0; i < p->n_nodes * N_WAYS_HOST && !err; i++) {
		struct judgement *j = &p->gpus[gpu].host[i / N_WAYS_HOST][i % N_WAYS_HOST].judged;

		if (judgement_is_open(j))
			judgement_turn(j, BETTER_MORE, values.of[i / N_WAYS_HOST][i % N_WAYS_HOST]);
	}
	return err;
}

/* How many measurements are below their bound. */
static int count_open(const struct p2p *p)
{
	int n = p->run->n_gpus, open = 0;

	for (int i = 0; i < n; i++) {
		for (int j = 0; j < p->n_nodes * N_WAYS_HOST; j++)
			open += judgement_is_open(&p->gpus[i].host[j / N_WAYS_HOST][j % N_WAYS_HOST].judged);
		for (int j = 0; j < n * N_LINK_MEASURES; j++)
			open += link_is_open(p, i, j / N_LINK_MEASURES, j % N_LINK_MEASURES);
	}
	return open;
}

static int turn_measure(struct p2p *p, const struct again *again)
{
	int n = p->run->n_gpus, err = 0;

	for (int i = 0; i < n * n * N_LINK_MEASURES && !err && !again_is_over(again); i++)
		err = link_again(p, i / N_LINK_MEASURES / n, i / N_LINK_MEASURES % n, i % N_LINK_MEASURES);
	for (int i = 0; i < n && !err && !again_is_over(again); i++)
		err = host_again(p, i);
	return err;
}

int p2p_again(struct p2p *p, const struct baseline *baseline)
{
	struct again again;
	int err = 0, open;

	again_begin(&again, p->run->options);
	p2p_hold(p, baseline);
	while (!err && (open = count_open(p)) && again_next(&again)) {
		if (p->mode == REPORT_PLAIN)
			printf("%8.1f s  again: %d below the bound\n", run_elapsed_s(p->run), open);
		fflush(stdout);
		err = turn_measure(p, &again);
		p2p_hold(p, baseline);
	}
	run_stopping(p->run); /* a signal that ended a turn */
	return err;
}
