/* SPDX-License-Identifier: Apache-2.0
 *
 * homes.c - see homes.h. Where several hosts are seen ranks may be dealt out in another order than host by host: there
 * two of a host must agree on the rank that it begins with.
 */
#include "detect/rank/homes.h"

#include <stdlib.h>

#define LOCAL_RANKS_MAX 256 /* no host has more */

struct place {
	const struct node *node; /* NULL: no process of it is seen */
	int local;
};

static void processes_read(const struct model *m, int nranks, struct place *at, struct home *homes)
{
	for (const struct proc *p = m->procs; p; p = proc_next(p)) {
		int rank = proc_rank(p);

		if (p->is_child || proc_unobserved(p))
			continue;
		if (rank >= 0 && rank < nranks)
			homes[rank].has_process = true;
		if (p->rank >= 0 && p->rank < nranks && p->local_rank >= 0 && p->local_rank < LOCAL_RANKS_MAX)
			at[p->rank] = (struct place){ p->node, p->local_rank };
	}
}

static int host_begin(const struct place *at, int rank)
{
	return rank > at[rank].local ? rank - at[rank].local : 0;
}

/* Another rank of its host is counted from the same first one. */
static bool has_sibling(const struct place *at, int rank)
{
	int first = rank - at[rank].local;

	for (int r = host_begin(at, rank); r < rank; r++)
		if (at[r].node == at[rank].node && r - at[r].local == first)
			return true;
	return false;
}

/* All hosts have as many ranks: behind the last but one of a host comes its last. */
static void last_ones_mark(const struct place *at, int nranks, int most, struct home *homes)
{
	for (int r = 1; r < nranks; r++)
		if (!at[r].node && at[r - 1].node && !at[r - 1].node->partial && at[r - 1].local == most - 1 &&
		    has_sibling(at, r - 1) && (r + 1 == nranks || (at[r + 1].node && !at[r + 1].local)))
			homes[r].host = at[r - 1].node;
}

static void hosts_mark(const struct model *m, const struct place *at, int nranks, struct home *homes)
{
	int most = 0;

	for (int r = 0; r < nranks; r++) {
		most = at[r].local > most ? at[r].local : most;
		if (!at[r].node || !at[r].local || at[r].node->partial || (m->merged && !has_sibling(at, r)))
			continue;
		for (int before = host_begin(at, r); before < r; before++)
			homes[before].host = at[r].node;
	}
	if (m->merged && most > 1)
		last_ones_mark(at, nranks, most, homes);
}

struct home *homes_find(const struct model *m, int nranks)
{
	struct place *at = calloc(nranks, sizeof(*at));
	struct home *homes = calloc(nranks, sizeof(*homes));

	if (at && homes) {
		processes_read(m, nranks, at, homes);
		hosts_mark(m, at, nranks, homes);
	}
	if (!at) {
		free(homes);
		homes = NULL;
	}
	free(at);
	return homes;
}
