/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_hunt.c - see nccl_hunt.h.
 */
#include "tools/stress/nccl/nccl_hunt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stress/bisect/bisect.h"
#include "tools/stress/bisect/pairs.h"
#include "tools/stress/series.h"

#define RATES_MAX 1024
#define OTHERS_MIN 2  /* with fewer to compare with, a rate says nothing */
#define PAIRS_HOSTS 5 /* up to here there are two groups at most: all pairs are tried */

struct passed_rate {
	int n; /* ranks */
	double rate;
};

struct hunt {
	struct nccl_run *run;
	struct nccl_case of;
	struct passed_rate passed[RATES_MAX];
	int n_passed;
	char (*why)[FAULT_TEXT]; /* of each host: what its last failed test came to */
	enum fault_kind *kinds;
};

static const char *host_of(const struct nccl_run *run, int node)
{
	for (int i = 0; i < run->c.n; i++)
		if (run->c.ranks[i].node == node)
			return run->c.ranks[i].hello.host;
	return "?";
}

static int first_rank(const struct nccl_run *run, int node)
{
	int i = 0;

	while (run->c.ranks[i].node != node)
		i++;
	return i;
}

/* All ranks of the hosts of a test. */
static void group_fill(const struct hunt *h, struct trial_group *g, const struct bisect_test *t, int test)
{
	*g = (struct trial_group){ .ranks = malloc(h->run->c.n * sizeof(int)) };
	if (!g->ranks)
		abort();
	for (int i = 0; i < t->n; i++)
		for (int rank = 0; rank < h->run->c.n; rank++)
			if (h->run->c.ranks[rank].node == t->members[i])
				g->ranks[g->n++] = rank;
	snprintf(g->name, sizeof(g->name), "test %d (%d hosts, %d of them suspects)", test + 1, t->n, t->n_suspects);
}

static double rate_of(const struct hunt *h, const struct trial_group *g)
{
	return g->seconds > 0 ? g->bytes / g->seconds * 1e-9 * collective_bus_factor(h->of.collective, g->n) : 0;
}

/* The groups of the first round differ by a host at most: a bus's bandwidth is much the same then. */
static bool is_like(const struct hunt *h, int n, int other)
{
	int host = h->run->c.n / h->run->c.n_nodes;

	return abs(n - other) <= host;
}

/* Against all groups of this size: those of this round, wrong results or not, and those that passed before. */
static bool is_slow(const struct hunt *h, const struct trial_group *groups, const double *rates, int n, int which,
		    char text[FAULT_TEXT])
{
	double others[RATES_MAX + 1], own = rates[which], median;
	int n_others = 0;

	for (int i = 0; i < n && n_others < RATES_MAX; i++)
		if (i != which && is_like(h, groups[i].n, groups[which].n) && rates[i] > 0)
			others[n_others++] = rates[i];
	for (int i = 0; i < h->n_passed && n_others < RATES_MAX; i++)
		if (is_like(h, h->passed[i].n, groups[which].n))
			others[n_others++] = h->passed[i].rate;
	h->run->uncompared |= n_others < OTHERS_MIN;
	if (n_others < OTHERS_MIN)
		return false;
	h->run->n_compared++;
	median = values_median(others, n_others);
	if (own >= median * (1 - THRESHOLD_TOLERANCE))
		return false;
	snprintf(text, FAULT_TEXT, "%.4g GB/s, less than %.0f %% of the median of %d groups of this size, %.4g", own,
		 100 * (1 - THRESHOLD_TOLERANCE), n_others, median);
	return true;
}

static void failed_note(struct hunt *h, const struct bisect_test *t, enum fault_kind kind, const char *text)
{
	for (int i = 0; i < t->n_suspects; i++) {
		snprintf(h->why[t->members[i]], FAULT_TEXT, "%s", text);
		h->kinds[t->members[i]] = kind;
	}
}

static enum fault_kind kind_of(const struct trial_group *g)
{
	return g->status == CASE_HUNG ? FAULT_STALLED : g->status == CASE_DONE ? FAULT_CORRUPT : FAULT_LOST;
}

static void wrong_say(struct trial_group *g)
{
	if (g->wrong)
		snprintf(g->text, sizeof(g->text), "%llu elements are wrong, on %d of %d ranks",
			 (unsigned long long)g->wrong, g->n_wrong, g->n);
}

/* Of a group that is not bad. No room for the buffers and the like is no pass. */
static bool is_measured(struct hunt *h, const struct trial_group *g)
{
	if (g->status == CASE_DONE) {
		h->run->n_measured++;
		return true;
	}
	nccl_note(h->run, "%s", g->text[0] ? g->text : "the case is not in this NCCL");
	h->run->n_left++;
	return false;
}

static bool test_judge(struct hunt *h, const struct bisect_test *t, struct trial_group *groups, const double *rates,
		       int n, int which)
{
	struct trial_group *g = &groups[which];
	char text[FAULT_TEXT];
	bool slow = false;

	if (group_is_bad(g)) {
		wrong_say(g);
		failed_note(h, t, kind_of(g), g->text);
	} else if (is_measured(h, g)) {
		slow = is_slow(h, groups, rates, n, which, text);
		if (slow)
			failed_note(h, t, FAULT_SLOW, text);
	}
	return slow || group_is_bad(g);
}

static void rates_keep(struct hunt *h, const struct trial_group *groups, const double *rates, int n, const bool *failed)
{
	for (int i = 0; i < n && h->n_passed < RATES_MAX; i++)
		if (!failed[i])
			h->passed[h->n_passed++] = (struct passed_rate){ groups[i].n, rates[i] };
}

/* The better of two: something else on a host for a moment slows one of them, a bad one both. */
static void round_measure(struct hunt *h, struct trial_group *groups, double *rates, int n)
{
	bool was_joined[NCCL_RANKS_MAX];

	for (int turn = 0; turn < 2 && !h->run->c.stopped; turn++) {
		h->of.seed++;
		for (int i = 0; i < n; i++)
			groups[i].joined = was_joined[i] = groups[i].joined && !group_is_bad(&groups[i]);
		trial_case(&h->run->c, groups, n, &h->of);
		for (int i = 0; i < n && !h->run->c.stopped; i++) {
			if (!was_joined[i])
				continue;
			rates[i] = rate_of(h, &groups[i]) > rates[i] ? rate_of(h, &groups[i]) : rates[i];
			nccl_report_case(h->run, &groups[i], &h->of);
		}
	}
}

static void round_run(struct hunt *h, struct bisect *b, const struct bisect_test *tests, int n)
{
	struct trial_group *groups = calloc(n, sizeof(*groups));
	double *rates = calloc(n, sizeof(*rates));
	bool *failed = calloc(n, sizeof(*failed));

	if (!groups || !failed || !rates)
		abort();
	for (int i = 0; i < n; i++)
		group_fill(h, &groups[i], &tests[i], i);
	trial_open(&h->run->c, groups, n);
	round_measure(h, groups, rates, n);
	for (int i = 0; i < n && !h->run->c.stopped; i++) {
		failed[i] = test_judge(h, &tests[i], groups, rates, n, i);
		bisect_result(b, i, failed[i]);
	}
	rates_keep(h, groups, rates, n, failed);
	trial_close(&h->run->c, groups, n);
	for (int i = 0; i < n; i++)
		free(groups[i].ranks);
	free(groups);
	free(failed);
	free(rates);
}

static void verdicts_take(struct hunt *h, const enum bisect_verdict *verdicts)
{
	char open[FAULT_TEXT] = "", what[160];
	size_t at = 0;
	int n_open = 0, last = 0;

	case_name(&h->of, what, sizeof(what));
	for (int node = 0; node < h->run->c.n_nodes; node++) {
		if (verdicts[node] == BISECT_BAD)
			nccl_fault(h->run, h->kinds[node], first_rank(h->run, node),
				   "host %s: fails alone among known good hosts: %s: %.200s", host_of(h->run, node),
				   what, h->why[node]);
		if (verdicts[node] != BISECT_OPEN)
			continue;
		last = node;
		if (n_open++ < 16 && at < sizeof(open) - 70)
			at += snprintf(open + at, sizeof(open) - at, "%s%s", at ? ", " : "", host_of(h->run, node));
	}
	if (n_open)
		nccl_fault(
			h->run, h->kinds[last], -1,
			"%d host%s in tests that failed could not be separated (no good partner was left, or it came "
			"once only): %.160s%s: %.100s",
			n_open, n_open > 1 ? "s" : "", open, n_open > 16 ? ", ..." : "", h->why[last]);
}

/* The first of each that was asked for, of the largest size: it is done in every test. */
static void case_choose(struct hunt *h)
{
	const struct nccl_options *o = &h->run->options->nccl;
	uint32_t types = o->types ? o->types : 1u << TYPE_fp32;

	h->of = (struct nccl_case){ .collective = __builtin_ctz(o->collectives),
				    .type = __builtin_ctz(types),
				    .iterations = o->iterations,
				    .skip = o->skip,
				    .limit_ns = o->limit_ns,
				    .bytes = o->bytes_max,
				    .seed = h->run->options->seed << 20 };
	h->of.in_place = !o->out_of_place && collectives[h->of.collective].can_be_in_place;
}

/* Where nothing was measured the last note says why. */
static void summary_note(struct hunt *h, int tests, int rounds)
{
	if (h->run->n_measured || h->run->n_faults)
		nccl_note(h->run, "--bisect: %d hosts, %d tests in %d rounds", h->run->c.n_nodes, tests, rounds);
}

static void groups_hunt(struct hunt *h)
{
	int n_hosts = h->run->c.n_nodes, n;
	struct bisect *b = bisect_new(n_hosts);
	enum bisect_verdict *verdicts = calloc(n_hosts, sizeof(*verdicts));
	const struct bisect_test *tests;

	if (!verdicts)
		abort();
	while (!h->run->c.stopped && (n = bisect_round(b, &tests)))
		round_run(h, b, tests, n);
	for (int i = 0; i < n_hosts; i++)
		verdicts[i] = bisect_member(b, i);
	if (!h->run->c.stopped)
		verdicts_take(h, verdicts);
	summary_note(h, bisect_tests(b), bisect_rounds(b));
	free(verdicts);
	bisect_free(b);
}

/* --- all pairs of a few hosts --- */

/* Of a pair [less][more]. */
struct pair_tries {
	char why[FAULT_TEXT]; /* what it failed by */
	enum fault_kind kind;
	int n_failed;
	struct judgement judged; /* its rates */
};

struct pair_hunt {
	struct pairs pairs;
	struct pair_tries tries[PAIRS_HOSTS][PAIRS_HOSTS];
	int n_tests, n_rounds;
};

static struct pair_tries *tries_of(struct pair_hunt *p, int a, int b)
{
	return a < b ? &p->tries[a][b] : &p->tries[b][a];
}

static void pair_failed(struct pair_hunt *p, const int pair[2], struct trial_group *g)
{
	struct pair_tries *t = tries_of(p, pair[0], pair[1]);

	wrong_say(g);
	pairs_fail(&p->pairs, pair[0], pair[1], g->wrong);
	t->kind = kind_of(g);
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
			  host_of(h->run, pair[0]), host_of(h->run, pair[1]), t->why);
	judgement_turn(&t->judged, BETTER_MORE, rate);
	pairs_pass(&p->pairs, pair[0], pair[1], rate);
}

/* `again`: a pair that is not open runs beside the others as it did then; of it only wrong data count. */
static void pair_take(struct hunt *h, struct pair_hunt *p, const int pair[2], struct trial_group *g, double rate,
		      bool again)
{
	bool aside = again && !pairs_is_open(&p->pairs, pair[0], pair[1]);

	if (group_is_bad(g) && aside && !g->wrong)
		nccl_note(h->run, "%.79s: failed beside pairs that were tried again: %.300s", g->name, g->text);
	else if (group_is_bad(g))
		pair_failed(p, pair, g);
	else if (!aside && is_measured(h, g))
		pair_passed(h, p, pair, rate);
}

static void pairs_round_run(struct hunt *h, struct pair_hunt *p, int round, bool again)
{
	struct trial_group groups[PAIRS_HOSTS];
	double rates[PAIRS_HOSTS] = { 0 };
	int pairs[PAIRS_HOSTS][2], n = pairs_round(p->pairs.n, round, pairs);

	for (int i = 0; i < n; i++) {
		group_fill(h, &groups[i], &(struct bisect_test){ 2, 2, pairs[i] }, i);
		snprintf(groups[i].name, sizeof(groups[i].name), "hosts %.30s and %.30s", host_of(h->run, pairs[i][0]),
			 host_of(h->run, pairs[i][1]));
	}
	trial_open(&h->run->c, groups, n);
	round_measure(h, groups, rates, n);
	for (int i = 0; i < n && !h->run->c.stopped; i++)
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
	const char *of_a = host_of(h->run, a), *of_b = host_of(h->run, b);
	char why[JUDGE_TEXT];

	if (p->pairs.failed[a][b])
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

/* With half the GPUs a host has half the ports, too. */
static bool hosts_alike(const struct nccl_run *run)
{
	int ranks[PAIRS_HOSTS] = { 0 };
	bool alike = true;

	for (int i = 0; i < run->c.n; i++)
		ranks[run->c.ranks[i].node]++;
	for (int i = 1; i < run->c.n_nodes; i++)
		alike &= ranks[i] == ranks[0];
	return alike;
}

/* Who would be bad by what is known now. */
static void pairs_hold(struct hunt *h, struct pair_hunt *p)
{
	int n = p->pairs.n;

	h->run->uncompared = !hosts_alike(h->run) || !pairs_compare(&p->pairs, 1 - THRESHOLD_TOLERANCE);
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
	int pairs[PAIRS_HOSTS][2], n = pairs_round(p->pairs.n, round, pairs);
	bool open = false;

	for (int i = 0; i < n; i++)
		open |= pairs_is_open(&p->pairs, pairs[i][0], pairs[i][1]);
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
 * be named has its pairs tried again, in whole rounds; the first time each of them, however long that takes. */
static void pairs_again(struct hunt *h, struct pair_hunt *p)
{
	struct again again;

	again_begin(&again, h->run->options);
	for (int turn = 0; any_round_open(p) && again_next(&again); turn++) {
		for (int i = 0; i < pairs_rounds(p->pairs.n) && !h->run->c.stopped; i++)
			if (round_is_open(p, i) && (!turn || !again_is_over(&again)))
				pairs_round_run(h, p, i, true);
		pairs_hold(h, p);
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
		nccl_note(h->run, "hosts %.60s and %.60s: %s", host_of(h->run, a), host_of(h->run, b),
			  judgement_text(&t->judged, BETTER_MORE, "GB/s", text, sizeof(text)));
}

static void pairs_judge(struct hunt *h, struct pair_hunt *p)
{
	enum bisect_verdict verdicts[PAIRS_HOSTS];
	int n = p->pairs.n;

	for (int i = 0; i < n; i++)
		verdicts[i] = pairs_member(&p->pairs, i);
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
	verdicts_take(h, verdicts);
}

static void pairs_hunt(struct hunt *h)
{
	struct pair_hunt *p = calloc(1, sizeof(*p));

	if (!p)
		abort();
	p->pairs.n = h->run->c.n_nodes;
	for (int round = 0; round < pairs_rounds(p->pairs.n) && !h->run->c.stopped; round++)
		pairs_round_run(h, p, round, false);
	if (!h->run->c.stopped) {
		pairs_hold(h, p);
		pairs_again(h, p);
		if (h->run->c.stopped)
			pairs_cut(p);
		pairs_judge(h, p);
	}
	summary_note(h, p->n_tests, p->n_rounds);
	free(p);
}

void nccl_hunt(struct nccl_run *run)
{
	struct hunt *h = calloc(1, sizeof(*h));

	if (!h)
		abort();
	h->run = run;
	h->why = calloc(run->c.n_nodes, sizeof(*h->why));
	h->kinds = calloc(run->c.n_nodes, sizeof(*h->kinds));
	if (!h->why || !h->kinds)
		abort();
	case_choose(h);
	if (run->c.n_nodes <= PAIRS_HOSTS)
		pairs_hunt(h);
	else
		groups_hunt(h);
	free(h->why);
	free(h->kinds);
	free(h);
}
