/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_isolate.c - see nccl_run.h. Of a wrong sum all ranks may have the same wrong copy, and in a hang all wait: the
 * result alone names no rank. In pairs it does: a rank all of whose pairs fail is bad, and where one pair fails and its
 * ranks are well with others, it is the way between them. Pairs of a round have no rank in common (bisect/pairs.h), so
 * n ranks take n - 1 rounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stress/bisect/pairs.h"
#include "tools/stress/nccl/nccl_run.h"

#define PAIRS_RANKS_MAX PAIRS_MEMBERS_MAX
#define LIMIT_NS 10000000000ull
#define REPEATS 5
#define TRIES 3 /* a fault may come in some operations only */

struct rank_pairs {
	struct nccl_run *run;
	const struct trial_group *of;
	struct nccl_case try;
	int n, failed[PAIRS_RANKS_MAX][PAIRS_RANKS_MAX], n_failed, n_tried;
	bool had_wrong[NCCL_RANKS_MAX]; /* of the group: its own result is wrong */
};

static void pair_note(struct rank_pairs *p, const int pair[2], const struct trial_group *g)
{
	p->n_tried++;
	if (!group_is_bad(g))
		return;
	p->failed[pair[0]][pair[1]] = p->failed[pair[1]][pair[0]] = 1;
	p->n_failed++;
}

static bool any_joined(const struct trial_group *groups, int n)
{
	for (int i = 0; i < n; i++)
		if (groups[i].joined)
			return true;
	return false;
}

static void round_try(struct rank_pairs *p, int round)
{
	struct trial_group groups[PAIRS_RANKS_MAX / 2] = { 0 };
	bool open[PAIRS_RANKS_MAX / 2];
	int ranks[PAIRS_RANKS_MAX / 2][2], pairs[PAIRS_RANKS_MAX / 2][2], n = pairs_round(p->n, round, pairs);

	for (int i = 0; i < n; i++) {
		ranks[i][0] = p->of->ranks[pairs[i][0]];
		ranks[i][1] = p->of->ranks[pairs[i][1]];
		groups[i] = (struct trial_group){ .n = 2, .ranks = ranks[i] };
	}
	trial_open(&p->run->c, groups, n);
	for (int i = 0; i < n; i++)
		open[i] = true;
	for (int again = 0; again < TRIES && !p->run->c.stopped; again++) {
		if (!again || any_joined(groups, n))
			trial_case(&p->run->c, groups, n, &p->try);
		p->try.seed++;
		for (int i = 0; i < n; i++)
			if (open[i] && (group_is_bad(&groups[i]) || again == TRIES - 1)) {
				pair_note(p, pairs[i], &groups[i]);
				open[i] = false;
			}
	}
	trial_close(&p->run->c, groups, n);
}

static int fails_of(const struct rank_pairs *p, int i)
{
	int fails = 0;

	for (int j = 0; j < p->n; j++)
		fails += p->failed[i][j];
	return fails;
}

/* What the ranks themselves saw: those with wrong elements, if not all have them. */
static void seen_fault(struct rank_pairs *p, enum fault_kind kind, const char *why)
{
	const struct trial_group *g = p->of;
	char what[160];

	case_name(&p->try, what, sizeof(what));
	for (int i = 0; i < g->n; i++)
		if (g->n_wrong && g->n_wrong <= g->n / 2 && p->had_wrong[i])
			nccl_fault(p->run, kind, g->ranks[i],
				   "%s: %s: the fault is its own, or of what it receives from; %s", what, g->text, why);
	if (!g->n_wrong || g->n_wrong > g->n / 2)
		nccl_fault(p->run, kind, -1, "%s: %s: %s; %s", g->name, what, g->text, why);
}

/* Bad: fails with every partner that is not itself bad, and there is such a partner. */
static int bad_find(const struct rank_pairs *p, bool *bad)
{
	int found = 0;

	for (int i = 0; i < p->n; i++)
		found += bad[i] = fails_of(p, i) == p->n - 1;
	return found;
}

static void pairs_judge(struct rank_pairs *p, enum fault_kind kind)
{
	bool bad[PAIRS_RANKS_MAX];
	char what[160], other[120];
	int n_bad = bad_find(p, bad), links = 0;

	case_name(&p->try, what, sizeof(what));
	for (int i = 0; i < p->n && n_bad < p->n; i++) {
		if (bad[i])
			nccl_fault(p->run, kind, p->of->ranks[i],
				   "%s: %.220s: each of its %d pairs fails, as %d of %d pairs in all do", what,
				   p->of->text, p->n - 1, p->n_failed, p->n_tried);
		for (int j = i + 1; j < p->n && !bad[i]; j++) {
			if (!p->failed[i][j] || bad[j])
				continue;
			rank_name(&p->run->c, p->of->ranks[j], other, sizeof(other));
			nccl_fault(p->run, kind, p->of->ranks[i],
				   "%s: %.200s: with %s only, not with others: look at what is between them", what,
				   p->of->text, other);
			links++;
		}
	}
	if (!n_bad && !links)
		seen_fault(p, kind, "it did not come again in pairs of ranks: test longer (--time)");
	else if (n_bad == p->n)
		seen_fault(p, kind, "every pair of ranks fails: it is nothing of one GPU (library, driver, fabric)");
}

void nccl_isolate(struct nccl_run *run, const struct trial_group *g, const struct nccl_case *of)
{
	enum fault_kind kind = g->status == CASE_HUNG   ? FAULT_STALLED
			       : g->status == CASE_DONE ? FAULT_CORRUPT
							: FAULT_LOST;
	struct rank_pairs *p = calloc(1, sizeof(*p));

	if (!p)
		abort();
	*p = (struct rank_pairs){ .run = run, .of = g, .try = *of, .n = g->n };
	for (int i = 0; i < g->n; i++)
		p->had_wrong[i] = run->c.ranks[g->ranks[i]].last.wrong > 0;
	if (g->n == 2 || g->n > PAIRS_RANKS_MAX) {
		seen_fault(p, kind,
			   g->n == 2 ? "two ranks have no other pair to say more"
				     : "stress nccl --bisect says whose fault it is");
		free(p);
		return;
	}
	p->try.iterations = REPEATS;
	p->try.limit_ns = of->limit_ns < LIMIT_NS ? of->limit_ns : LIMIT_NS;
	for (int i = 0; i < pairs_rounds(g->n) && !run->c.stopped; i++)
		round_try(p, i);
	if (!run->c.stopped)
		pairs_judge(p, kind);
	else
		seen_fault(p, kind, "stopped before it was found out whose fault it is");
	free(p);
}
