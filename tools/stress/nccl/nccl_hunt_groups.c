/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_hunt_groups.c - see nccl_hunt_parts.h. Groups that run side by side share the network, so how many run at once
 * moves their rates. Beside the tests of a later round run controls: groups of hosts known to be good, as many as keep
 * the number of groups at once that of the first round. Where there are enough, a test's rate is held to theirs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stress/bisect/bisect.h"
#include "tools/stress/nccl/nccl_hunt_parts.h"
#include "tools/stress/series.h"

#define RATES_MAX 1024

struct passed_rate {
	int n; /* ranks */
	double rate;
};

struct search {
	struct hunt *h;
	struct bisect *b;
	int at_once;                          /* groups of the first round */
	struct passed_rate passed[RATES_MAX]; /* of all rounds so far */
	int n_passed;
	struct hunt_failures failures;
};

struct round {
	int n, n_tests, *idle;      /* the tests, then the controls; the hosts of these */
	struct bisect_test *hosts;  /* of each */
	struct trial_group *groups; /* the same as ranks */
	double *rates;
	bool *failed;
};

/* --- who --- */

/* Known to be good, and in no test of the round; how many. */
static int idle_find(const struct search *s, struct round *r)
{
	int n_hosts = s->h->run->c.n_nodes, found = 0;
	bool *used = calloc(n_hosts, sizeof(*used));

	if (!used)
		abort();
	for (int i = 0; i < r->n_tests; i++)
		for (int j = 0; j < r->hosts[i].n; j++)
			used[r->hosts[i].members[j]] = true;
	for (int i = 0; i < n_hosts; i++)
		if (!used[i] && bisect_member(s->b, i) == BISECT_GOOD)
			r->idle[found++] = i;
	free(used);
	return found;
}

/* Of the tests' size; the last may have a host less, as groups of the first round. */
static void controls_add(const struct search *s, struct round *r)
{
	int size = 2, left = idle_find(s, r), *at = r->idle;

	for (int i = 0; i < r->n_tests; i++)
		size = r->hosts[i].n > size ? r->hosts[i].n : size;
	while (r->n < s->at_once && left >= (size > 2 ? size - 1 : 2)) {
		int n = left < size ? left : size;

		r->hosts[r->n++] = (struct bisect_test){ .n = n, .members = at };
		at += n;
		left -= n;
	}
}

static void round_open(struct search *s, struct round *r, const struct bisect_test *tests, int n)
{
	int most = n > s->at_once ? n : s->at_once, n_hosts = s->h->run->c.n_nodes;

	*r = (struct round){ .n = n, .n_tests = n, .idle = calloc(n_hosts, sizeof(int)) };
	r->hosts = calloc(most, sizeof(*r->hosts));
	r->groups = calloc(most, sizeof(*r->groups));
	r->rates = calloc(most, sizeof(*r->rates));
	r->failed = calloc(most, sizeof(*r->failed));
	if (!r->idle || !r->hosts || !r->groups || !r->rates || !r->failed)
		abort();
	memcpy(r->hosts, tests, n * sizeof(*tests));
	controls_add(s, r);
	for (int i = 0; i < r->n; i++)
		hunt_group_fill(s->h, &r->groups[i], &r->hosts[i], i);
	trial_open(&s->h->run->c, r->groups, r->n);
}

static void round_close(struct search *s, struct round *r)
{
	trial_close(&s->h->run->c, r->groups, r->n);
	for (int i = 0; i < r->n; i++)
		free(r->groups[i].ranks);
	free(r->idle);
	free(r->hosts);
	free(r->groups);
	free(r->rates);
	free(r->failed);
}

/* --- rates --- */

/* The groups of the first round differ by a host at most: a bus's bandwidth is much the same then. */
static bool is_like(const struct search *s, int n, int other)
{
	int host = s->h->run->c.n / s->h->run->c.n_nodes;

	return abs(n - other) <= host;
}

/* Of the groups of a round from `first` on that are like this one. */
static int likes_take(const struct search *s, const struct round *r, int which, int first, double *others)
{
	int n = 0;

	for (int i = first; i < r->n && n < RATES_MAX; i++)
		if (i != which && is_like(s, r->groups[i].n, r->groups[which].n) && r->rates[i] > 0)
			others[n++] = r->rates[i];
	return n;
}

/* Controls, if there are enough; else all of this round, wrong results or not, and those that passed before. */
static int others_take(const struct search *s, const struct round *r, int which, double *others)
{
	int n = likes_take(s, r, which, r->n_tests, others);

	if (n >= HUNT_OTHERS_MIN)
		return n;
	n = likes_take(s, r, which, 0, others);
	for (int i = 0; i < s->n_passed && n < RATES_MAX; i++)
		if (is_like(s, s->passed[i].n, r->groups[which].n))
			others[n++] = s->passed[i].rate;
	return n;
}

static bool is_slow(struct search *s, const struct round *r, int which, char text[FAULT_TEXT])
{
	double others[RATES_MAX], own = r->rates[which], median;
	int n = others_take(s, r, which, others);

	s->h->run->uncompared |= n < HUNT_OTHERS_MIN;
	if (n < HUNT_OTHERS_MIN)
		return false;
	s->h->run->n_compared++;
	median = values_median(others, n);
	if (own >= median * (1 - THRESHOLD_TOLERANCE))
		return false;
	snprintf(text, FAULT_TEXT, "%.4g GB/s, less than %.0f %% of the median of %d groups of this size, %.4g", own,
		 100 * (1 - THRESHOLD_TOLERANCE), n, median);
	return true;
}

static void passed_keep(struct search *s, const struct round *r)
{
	for (int i = 0; i < r->n && s->n_passed < RATES_MAX; i++)
		if (!r->failed[i])
			s->passed[s->n_passed++] = (struct passed_rate){ r->groups[i].n, r->rates[i] };
}

/* --- results --- */

static void failed_note(struct hunt *h, const struct bisect_test *t, enum fault_kind kind, const char *text)
{
	for (int i = 0; i < t->n_suspects; i++) {
		snprintf(h->why[t->members[i]], FAULT_TEXT, "%s", text);
		h->kinds[t->members[i]] = kind;
	}
}

static bool test_judge(struct search *s, const struct round *r, int which)
{
	struct trial_group *g = &r->groups[which];
	char text[FAULT_TEXT];
	bool slow = false;

	if (group_is_bad(g)) {
		hunt_wrong_say(g);
		failed_note(s->h, &r->hosts[which], hunt_kind(g), g->text);
		hunt_failure_keep(&s->failures, &r->hosts[which], g);
	} else if (hunt_is_measured(s->h, g)) {
		slow = is_slow(s, r, which, text);
		if (slow)
			failed_note(s->h, &r->hosts[which], FAULT_SLOW, text);
	}
	return slow || group_is_bad(g);
}

/* Its rate is what others are held to. False: it has none. One of them is bad that was good: they are suspects. */
static bool control_judge(struct search *s, const struct round *r, int which)
{
	struct trial_group *g = &r->groups[which];
	struct bisect_test suspects = r->hosts[which];

	if (!group_is_bad(g))
		return hunt_is_measured(s->h, g);
	hunt_wrong_say(g);
	suspects.n_suspects = suspects.n;
	failed_note(s->h, &suspects, hunt_kind(g), g->text);
	hunt_failure_keep(&s->failures, &r->hosts[which], g);
	bisect_doubt(s->b, suspects.members, suspects.n);
	return false;
}

static void round_run(struct search *s, const struct bisect_test *tests, int n)
{
	struct round r;

	round_open(s, &r, tests, n);
	hunt_measure(s->h, r.groups, r.rates, r.n);
	for (int i = r.n_tests; i < r.n; i++) {
		if (s->h->run->c.stopped && !r.groups[i].wrong)
			continue;
		r.failed[i] = !control_judge(s, &r, i);
		r.rates[i] = r.failed[i] ? 0 : r.rates[i];
	}
	for (int i = 0; i < r.n_tests; i++) {
		if (s->h->run->c.stopped && !r.groups[i].wrong)
			continue; /* a signal: what it has, it has */
		r.failed[i] = test_judge(s, &r, i);
		bisect_result(s->b, i, r.failed[i]);
	}
	passed_keep(s, &r);
	round_close(s, &r);
}

/* A signal came: wrong data, what hung or was lost is said, a rate is not. */
static void verdicts_cut(const struct hunt *h, enum bisect_verdict *verdicts)
{
	for (int i = 0; i < h->run->c.n_nodes; i++)
		if (verdicts[i] != BISECT_BAD || h->kinds[i] == FAULT_SLOW)
			verdicts[i] = BISECT_GOOD;
}

static void verdicts_find(struct search *s)
{
	int n = s->h->run->c.n_nodes;
	enum bisect_verdict *verdicts = calloc(n, sizeof(*verdicts));

	if (!verdicts)
		abort();
	for (int i = 0; i < n; i++)
		verdicts[i] = bisect_member(s->b, i);
	if (!s->h->run->c.stopped)
		hunt_confirm(s->h, verdicts);
	if (s->h->run->c.stopped)
		verdicts_cut(s->h, verdicts);
	hunt_failures_end(s->h, &s->failures, verdicts);
	hunt_verdicts_take(s->h, verdicts);
	free(verdicts);
}

void hunt_groups(struct hunt *h)
{
	struct search *s = calloc(1, sizeof(*s));
	const struct bisect_test *tests;
	int n;

	if (!s)
		abort();
	s->h = h;
	s->b = bisect_new(h->run->c.n_nodes);
	do
		while (!h->run->c.stopped && (n = bisect_round(s->b, &tests))) {
			s->at_once = s->at_once ? s->at_once : n;
			round_run(s, tests, n);
		}
	while (!h->run->c.stopped && hunt_checks(h, &s->failures, s->b));
	verdicts_find(s);
	hunt_summary(h, bisect_tests(s->b), bisect_rounds(s->b));
	bisect_free(s->b);
	free(s);
}
