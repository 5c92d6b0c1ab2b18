/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_hunt_pairs.c - see nccl_hunt_parts.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stress/bisect/pairs.h"
#include "tools/stress/nccl/nccl_hunt_parts.h"

#define ASIDE_TURNS 2 /* for as many a pair that fails then is tried again however long it takes */

/* Of a pair [less][more]. */
struct pair_tries {
	char why[FAULT_TEXT]; /* what it failed by */
	enum fault_kind kind;
	int n_failed;
	struct judgement judged; /* its rates */
};

struct pair_hunt {
	struct pairs pairs;
	struct pair_tries tries[PAIRS_MEMBERS_MAX][PAIRS_MEMBERS_MAX];
	int n_tests, n_rounds;
	unsigned int tried_again; /* of those that hang: with a good one */
	bool aside;               /* a pair that was well failed in this turn */
};

static struct pair_tries *tries_of(struct pair_hunt *p, int a, int b)
{
	return a < b ? &p->tries[a][b] : &p->tries[b][a];
}

static void pair_failed(struct pair_hunt *p, const int pair[2], struct trial_group *g)
{
	struct pair_tries *t = tries_of(p, pair[0], pair[1]);

	hunt_wrong_say(g);
	pairs_fail(&p->pairs, pair[0], pair[1], g->wrong);
	t->kind = hunt_kind(g);
	if (++t->n_failed > 1)
		snprintf(t->why, FAULT_TEXT, "%d times, the last: %.440s", t->n_failed, g->text);
	else
		snprintf(t->why, FAULT_TEXT, "%s", g->text);
}

/* It passed: what it failed by before is no fault of a host then, unless its data were wrong. */
static void pair_passed(struct hunt *h, struct pair_hunt *p, const int pair[2], double rate)
{
	struct pair_tries *t = tries_of(p, pair[0], pair[1]);

	if (p->pairs.failed[pair[0]][pair[1]] && !p->pairs.wrong[pair[0]][pair[1]])
		nccl_note(h->run, "hosts %.60s and %.60s failed, and passed when tried again: %.300s",
			  hunt_host(h->run, pair[0]), hunt_host(h->run, pair[1]), t->why);
	judgement_turn(&t->judged, BETTER_MORE, rate);
	pairs_pass(&p->pairs, pair[0], pair[1], rate);
}

/* `again`: a pair that is not open runs beside the others as it did then. If it fails, one of it is bad by now: which
 * one their other pairs say. */
static void pair_take(struct hunt *h, struct pair_hunt *p, const int pair[2], struct trial_group *g, double rate,
		      bool again)
{
	bool aside = again && !pairs_is_open(&p->pairs, pair[0], pair[1]);

	if (group_is_bad(g) && aside && !p->pairs.failed[pair[0]][pair[1]]) {
		pairs_doubt(&p->pairs, pair[0], pair[1]);
		p->aside = true;
	}
	if (group_is_bad(g))
		pair_failed(p, pair, g);
	else if (!aside && hunt_is_measured(h, g))
		pair_passed(h, p, pair, rate);
}

/* A host that hangs is waited for until --limit in each of its pairs: two with good hosts are enough, then one a turn.
 */
static bool is_left_out(const struct pair_hunt *p, const int pair[2], bool again)
{
	unsigned int hung = pairs_hung(&p->pairs);
	bool a = hung >> pair[0] & 1, b = hung >> pair[1] & 1;

	if (!again)
		return a != b;
	if (a && b)
		return true;
	return a != b && p->tried_again >> pair[a ? 0 : 1] & 1;
}

static int pairs_choose(struct pair_hunt *p, int round, bool again, int (*pairs)[2])
{
	int all[PAIRS_MEMBERS_MAX][2], n_all = pairs_round(p->pairs.n, round, all), n = 0;

	for (int i = 0; i < n_all; i++) {
		if (!is_left_out(p, all[i], again))
			memcpy(pairs[n++], all[i], sizeof(all[i]));
		else if (!again)
			pairs_leave(&p->pairs, all[i][0], all[i][1]);
	}
	return n;
}

/* Those that hang, with a good host each. */
static void tried_mark(struct pair_hunt *p, int (*pairs)[2], int n)
{
	unsigned int hung = pairs_hung(&p->pairs);

	for (int i = 0; i < n; i++) {
		unsigned int both = 1u << pairs[i][0] | 1u << pairs[i][1];

		if ((hung & both) != both)
			p->tried_again |= hung & both;
	}
}

static void pairs_round_run(struct hunt *h, struct pair_hunt *p, int round, bool again)
{
	struct trial_group groups[PAIRS_MEMBERS_MAX];
	double rates[PAIRS_MEMBERS_MAX] = { 0 };
	int pairs[PAIRS_MEMBERS_MAX][2], n = pairs_choose(p, round, again, pairs);

	if (!n)
		return;
	tried_mark(p, pairs, n);
	for (int i = 0; i < n; i++) {
		hunt_group_fill(h, &groups[i], &(struct bisect_test){ 2, 2, pairs[i] }, i);
		snprintf(groups[i].name, sizeof(groups[i].name), "hosts %.30s and %.30s",
			 hunt_host(h->run, pairs[i][0]), hunt_host(h->run, pairs[i][1]));
	}
	trial_open(&h->run->c, groups, n);
	hunt_measure(h, groups, rates, n);
	for (int i = 0; i < n; i++)
		if (!h->run->c.stopped || groups[i].wrong)
			pair_take(h, p, pairs[i], &groups[i], rates[i], again);
	trial_close(&h->run->c, groups, n);
	for (int i = 0; i < n; i++)
		free(groups[i].ranks);
	p->n_tests += n;
	p->n_rounds++;
}

/* Why a pair is named: that it failed, else its rates. */
static const char *pair_why(struct pair_hunt *p, int a, int b, char text[JUDGE_TEXT])
{
	const struct pair_tries *t = tries_of(p, a, b);

	return p->pairs.failed[a][b] ? t->why : judgement_text(&t->judged, BETTER_MORE, "GB/s", text, JUDGE_TEXT);
}

/* The hosts of a pair that do well with others: a rate alone may be the network's plan, and is a note. */
static void way_note(struct hunt *h, struct pair_hunt *p, int a, int b)
{
	const char *of_a = hunt_host(h->run, a), *of_b = hunt_host(h->run, b);
	char why[JUDGE_TEXT];

	if (p->pairs.failed[a][b] && h->run->c.stopped)
		nccl_fault(h->run, tries_of(p, a, b)->kind, -1,
			   "hosts %.60s and %.60s: stopped before it was known which of them, or what is between them: "
			   "%.200s",
			   of_a, of_b, pair_why(p, a, b, why));
	else if (p->pairs.failed[a][b])
		nccl_fault(h->run, tries_of(p, a, b)->kind, -1,
			   "hosts %.60s and %.60s: with each other only, not with others: look at what is between "
			   "them: %.200s",
			   of_a, of_b, pair_why(p, a, b, why));
	else
		nccl_note(h->run, "hosts %.60s and %.60s do well with others, and with each other have %s", of_a, of_b,
			  pair_why(p, a, b, why));
}

/* Why a host is named: a pair of it that failed, else one that is slow. */
static void blame_note(struct hunt *h, struct pair_hunt *p, int node, int partner)
{
	bool failed = p->pairs.failed[node][partner];
	char why[JUDGE_TEXT];

	if (!failed && (!p->pairs.slow[node][partner] || h->why[node][0]))
		return;
	snprintf(h->why[node], FAULT_TEXT, "%s", pair_why(p, node, partner, why));
	h->kinds[node] = failed ? tries_of(p, node, partner)->kind : FAULT_SLOW;
}

/* Who would be bad by what is known now. */
static void pairs_hold(struct hunt *h, struct pair_hunt *p)
{
	int n = p->pairs.n;

	h->run->uncompared = !hunt_hosts_alike(h) || !pairs_compare(&p->pairs, 1 - THRESHOLD_TOLERANCE);
	h->run->n_compared = h->run->uncompared ? 0 : p->pairs.n_rates;
	for (int i = 0; i < n * n && !h->run->uncompared; i++) {
		struct judgement *j = &p->tries[i / n][i % n].judged;

		j->judged = true;
		j->value = p->pairs.rates[i / n][i % n];
		j->failed = p->pairs.slow[i / n][i % n];
		if (!j->failed && j->n_turns)
			continue; /* by what it was tried again stays to be read */
		j->bound = (1 - THRESHOLD_TOLERANCE) * p->pairs.usual;
		snprintf(j->rule, sizeof(j->rule), "%.0f %% of the upper quartile of %d pairs of hosts, %.4g",
			 100 * (1 - THRESHOLD_TOLERANCE), p->pairs.n_rates, p->pairs.usual);
	}
}

static bool round_is_open(const struct pair_hunt *p, int round)
{
	int pairs[PAIRS_MEMBERS_MAX][2], n = pairs_round(p->pairs.n, round, pairs);
	bool open = false;

	for (int i = 0; i < n; i++)
		open |= pairs_is_open(&p->pairs, pairs[i][0], pairs[i][1]) && !is_left_out(p, pairs[i], true);
	return open;
}

static bool any_round_open(const struct pair_hunt *p)
{
	bool open = false;

	for (int round = 0; round < pairs_rounds(p->pairs.n); round++)
		open |= round_is_open(p, round);
	return open;
}

/* Of few hosts one is in most rounds: something that passes, as a cold start, hits all its pairs. So a host that would
 * be named has its pairs tried again, in whole rounds; the first time each of them, however long that takes. From the
 * last round on: there those that hang have a pair that was left out. */
static void pairs_again(struct hunt *h, struct pair_hunt *p)
{
	struct again again;
	bool whole = true;

	again_begin(&again, h->run->options);
	for (int turn = 0; any_round_open(p) && (again_next(&again) || (turn && whole)); turn++) {
		p->aside = false;
		for (int i = pairs_rounds(p->pairs.n) - 1; i >= 0 && !h->run->c.stopped; i--)
			if (round_is_open(p, i) && (whole || !again_is_over(&again)))
				pairs_round_run(h, p, i, true);
		pairs_hold(h, p);
		whole = p->aside && turn < ASIDE_TURNS && !run_signal;
	}
	h->run->c.stopped |= run_signal != 0; /* in a pause, too */
}

/* A signal came before all were tried again: what no further try takes back is left. */
static void pairs_cut(struct pair_hunt *p)
{
	memcpy(p->pairs.failed, p->pairs.wrong, sizeof(p->pairs.failed));
	memset(p->pairs.slow, 0, sizeof(p->pairs.slow));
}

static void unsteady_note(struct hunt *h, struct pair_hunt *p, int a, int b)
{
	const struct pair_tries *t = tries_of(p, a, b);
	char text[JUDGE_TEXT];

	if (!p->pairs.failed[a][b] && judgement_is_unsteady(&t->judged))
		nccl_note(h->run, "hosts %.60s and %.60s: %s", hunt_host(h->run, a), hunt_host(h->run, b),
			  judgement_text(&t->judged, BETTER_MORE, "GB/s", text, sizeof(text)));
}

static void left_note(struct hunt *h, const struct pair_hunt *p, int node)
{
	int n = 0;

	for (int i = 0; i < p->pairs.n; i++)
		n += p->pairs.untried[node][i];
	if (n)
		nccl_note(h->run, "host %.60s failed in each of %d pairs with good hosts: its other %d were left out",
			  hunt_host(h->run, node), p->pairs.n - 1 - n, n);
}

static void pairs_judge(struct hunt *h, struct pair_hunt *p)
{
	enum bisect_verdict verdicts[PAIRS_MEMBERS_MAX];
	int n = p->pairs.n;

	for (int i = 0; i < n; i++) {
		verdicts[i] = pairs_member(&p->pairs, i);
		if (pairs_hung(&p->pairs) >> i & 1)
			left_note(h, p, i);
	}
	for (int i = 0; i < n * n; i++) {
		int a = i / n, b = i % n;

		/* what it does with a bad one is that one's */
		if (a != b && (verdicts[b] == BISECT_GOOD || verdicts[a] == BISECT_OPEN))
			blame_note(h, p, a, b);
		if (a >= b)
			continue;
		unsteady_note(h, p, a, b);
		if (verdicts[a] == BISECT_GOOD && verdicts[b] == BISECT_GOOD &&
		    (p->pairs.failed[a][b] || p->pairs.slow[a][b]))
			way_note(h, p, a, b);
	}
	hunt_verdicts_take(h, verdicts);
}

void hunt_pairs(struct hunt *h)
{
	struct pair_hunt *p = calloc(1, sizeof(*p));

	if (!p)
		abort();
	p->pairs.n = h->run->c.n_nodes;
	for (int round = 0; round < pairs_rounds(p->pairs.n) && !h->run->c.stopped; round++)
		pairs_round_run(h, p, round, false);
	if (!h->run->c.stopped) {
		if (h->run->options->again)
			pairs_doubt_mixed(&p->pairs);
		pairs_hold(h, p);
		pairs_again(h, p);
		pairs_doubt_end(&p->pairs);
	}
	if (h->run->c.stopped)
		pairs_cut(p);
	pairs_judge(h, p);
	hunt_summary(h, p->n_tests, p->n_rounds);
	free(p);
}
