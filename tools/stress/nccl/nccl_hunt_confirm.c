/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_hunt_confirm.c - see nccl_hunt_parts.h. Each round has all hosts in it, in pairs, so that all rounds are alike.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stress/nccl/nccl_hunt_parts.h"
#include "tools/stress/series.h"

#define CONTROL_HOSTS (2 * HUNT_OTHERS_MIN)
#define KEPT_MAX 64

struct suspect {
	int node, partner;
	struct judgement judged; /* bus bandwidth with a good host in GB/s; failed: slow in each try so far */
};

struct confirm {
	struct hunt *h;
	struct suspect *suspects;
	int *good, n, n_good, at; /* good hosts in a circle: the next partner */
	struct suspect **now;     /* of a round */
	int n_now;
	struct trial_group *groups; /* theirs, then the controls */
	int n_groups;
	double *rates, kept[KEPT_MAX]; /* of controls of earlier rounds */
	int n_kept;
};

static void confirm_open(struct confirm *c, struct hunt *h, const enum bisect_verdict *verdicts)
{
	int n = h->run->c.n_nodes;

	*c = (struct confirm){ .h = h, .suspects = calloc(n, sizeof(*c->suspects)), .good = calloc(n, sizeof(int)) };
	c->now = calloc(n, sizeof(*c->now));
	c->groups = calloc(n, sizeof(*c->groups));
	c->rates = calloc(n, sizeof(*c->rates));
	if (!c->suspects || !c->good || !c->now || !c->groups || !c->rates)
		abort();
	for (int i = 0; i < n; i++) {
		if (verdicts[i] == BISECT_GOOD)
			c->good[c->n_good++] = i;
		else if (h->kinds[i] == FAULT_SLOW)
			c->suspects[c->n++] = (struct suspect){ .node = i, .judged.failed = true };
	}
}

static void confirm_close(struct confirm *c)
{
	free(c->suspects);
	free(c->good);
	free(c->now);
	free(c->groups);
	free(c->rates);
}

static int n_open(const struct confirm *c)
{
	int n = 0;

	for (int i = 0; i < c->n; i++)
		n += c->suspects[i].judged.failed;
	return n;
}

/* --- a round --- */

static void pair_add(struct confirm *c, int a, int b)
{
	struct trial_group *g = &c->groups[c->n_groups];
	int members[2] = { a, b };

	hunt_group_fill(c->h, g, &(struct bisect_test){ .n = 2, .n_suspects = 1, .members = members }, c->n_groups);
	snprintf(g->name, sizeof(g->name), "hosts %.30s and %.30s", hunt_host(c->h->run, a), hunt_host(c->h->run, b));
	c->n_groups++;
}

static int good_next(struct confirm *c)
{
	return c->good[c->at++ % c->n_good];
}

/* As many of those from `first` on as leave enough good hosts for controls, but one; the first that has to wait. */
static int suspects_choose(struct confirm *c, int first)
{
	int most = c->n_good - CONTROL_HOSTS > 1 ? c->n_good - CONTROL_HOSTS : 1;

	for (c->n_now = 0; first < c->n && c->n_now < most; first++)
		if (c->suspects[first].judged.failed)
			c->now[c->n_now++] = &c->suspects[first];
	return first;
}

static void pairs_make(struct confirm *c)
{
	c->n_groups = 0;
	for (int i = 0; i < c->n_now; i++) {
		c->now[i]->partner = good_next(c);
		pair_add(c, c->now[i]->node, c->now[i]->partner);
	}
	for (int left = c->n_good - c->n_now; left >= 2; left -= 2) {
		int a = good_next(c);

		pair_add(c, a, good_next(c));
	}
}

/* Known good hosts with each other; a rate of them is what the others are held to. */
static void controls_take(struct confirm *c)
{
	for (int i = c->n_now; i < c->n_groups; i++) {
		struct trial_group *g = &c->groups[i];

		if (!group_is_bad(g)) {
			if (c->rates[i] > 0)
				c->kept[c->n_kept++ % KEPT_MAX] = c->rates[i];
			continue;
		}
		c->rates[i] = 0;
		hunt_wrong_say(g);
		nccl_fault(c->h->run, hunt_kind(g), -1, "%.79s did well before: %.300s", g->name, g->text);
	}
}

/* Of the controls of this round, if they are enough, else of all so far; 0: too few. */
static double usual_of(const struct confirm *c, int *n)
{
	double rates[NCCL_RANKS_MAX];
	int kept = c->n_kept < KEPT_MAX ? c->n_kept : KEPT_MAX;

	*n = 0;
	for (int i = c->n_now; i < c->n_groups; i++)
		if (c->rates[i] > 0)
			rates[(*n)++] = c->rates[i];
	if (*n >= HUNT_OTHERS_MIN)
		return values_median(rates, *n);
	*n = kept;
	return kept >= HUNT_OTHERS_MIN ? values_median(c->kept, kept) : 0;
}

static void rate_take(struct suspect *s, double rate, double usual, int n)
{
	struct judgement *j = &s->judged;
	bool first = !j->judged;

	if (first)
		j->value = rate;
	else
		judgement_turn(j, BETTER_MORE, rate);
	j->judged = true;
	j->failed = rate < (1 - THRESHOLD_TOLERANCE) * usual;
	if (!j->failed && !first)
		return; /* by what it was tried again stays to be read */
	j->bound = (1 - THRESHOLD_TOLERANCE) * usual;
	snprintf(j->rule, sizeof(j->rule), "%.0f %% of the median of %d pairs of good hosts beside it, %.4g",
		 100 * (1 - THRESHOLD_TOLERANCE), n, usual);
}

/* A pair that hangs, or whose data are wrong, has a worse fault than its rate. */
static void suspect_take(struct confirm *c, int i, double usual, int n)
{
	struct hunt *h = c->h;
	struct suspect *s = c->now[i];
	struct trial_group *g = &c->groups[i];

	if (group_is_bad(g)) {
		hunt_wrong_say(g);
		h->kinds[s->node] = hunt_kind(g);
		snprintf(h->why[s->node], FAULT_TEXT, "%s", g->text);
		s->judged = (struct judgement){ .failed = false };
	} else if (usual > 0 && c->rates[i] > 0) {
		rate_take(s, c->rates[i], usual, n);
	}
}

static void round_run(struct confirm *c)
{
	double usual;
	int n;

	pairs_make(c);
	memset(c->rates, 0, c->n_groups * sizeof(*c->rates));
	trial_open(&c->h->run->c, c->groups, c->n_groups);
	hunt_measure(c->h, c->groups, c->rates, c->n_groups);
	if (!c->h->run->c.stopped) {
		controls_take(c);
		usual = usual_of(c, &n);
		for (int i = 0; i < c->n_now; i++)
			suspect_take(c, i, usual, n);
	}
	trial_close(&c->h->run->c, c->groups, c->n_groups);
	for (int i = 0; i < c->n_groups; i++)
		free(c->groups[i].ranks);
}

/* --- what it came to --- */

static void suspect_judge(struct confirm *c, const struct suspect *s, enum bisect_verdict *verdict)
{
	struct hunt *h = c->h;
	const struct judgement *j = &s->judged;
	char text[JUDGE_TEXT];

	if (h->kinds[s->node] != FAULT_SLOW) {
		*verdict = BISECT_BAD;
	} else if (j->judged && j->failed) {
		*verdict = BISECT_BAD;
		snprintf(h->why[s->node], FAULT_TEXT, "%s", judgement_text(j, BETTER_MORE, "GB/s", text, sizeof(text)));
	} else if (j->judged) {
		*verdict = BISECT_GOOD;
		snprintf(text, sizeof(text), "%.4g GB/s", j->value);
		if (judgement_is_unsteady(j))
			judgement_text(j, BETTER_MORE, "GB/s", text, sizeof(text));
		nccl_note(h->run, "host %.60s was slow in a group (%.160s), and is not with host %.60s alone: %.200s",
			  hunt_host(h->run, s->node), h->why[s->node], hunt_host(h->run, s->partner), text);
	}
}

void hunt_confirm(struct hunt *h, enum bisect_verdict *verdicts)
{
	struct confirm c;
	struct again again;

	confirm_open(&c, h, verdicts);
	again_begin(&again, h->run->options);
	/* the first time each of them, however long that takes */
	for (int turn = 0; hunt_hosts_alike(h) && c.n_good > 1 && n_open(&c) && again_next(&again); turn++)
		for (int at = 0; at < c.n && !h->run->c.stopped && (!turn || !again_is_over(&again));) {
			at = suspects_choose(&c, at);
			if (c.n_now)
				round_run(&c);
		}
	h->run->c.stopped |= run_signal != 0; /* in a pause, too */
	for (int i = 0; i < c.n && !h->run->c.stopped; i++)
		suspect_judge(&c, &c.suspects[i], &verdicts[c.suspects[i].node]);
	confirm_close(&c);
}
