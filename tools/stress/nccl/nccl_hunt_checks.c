/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_hunt_checks.c - see nccl_hunt_parts.h. A host that is named failed with good ones: these run once more without
 * it. If they fail, one of them is bad by now, and the other is tried again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stress/nccl/nccl_hunt_parts.h"

struct checks {
	struct hunt *h;
	struct hunt_failures *f;
	struct bisect *b;
	bool *used; /* hosts, of this round */
	struct trial_group groups[NCCL_RANKS_MAX];
	struct bisect_test hosts[NCCL_RANKS_MAX]; /* of each */
	int n;
	bool doubts;
};

void hunt_failure_keep(struct hunt_failures *f, const struct bisect_test *t, const struct trial_group *g)
{
	struct hunt_failure *new;

	f->all = realloc(f->all, (f->n + 1) * sizeof(*f->all));
	if (!f->all)
		abort();
	new = &f->all[f->n++];
	*new = (struct hunt_failure){ .n = t->n, .n_suspects = t->n_suspects, .wrong = g->wrong > 0 };
	new->members = malloc(t->n * sizeof(int));
	if (!new->members)
		abort();
	memcpy(new->members, t->members, t->n * sizeof(int));
	snprintf(new->text, sizeof(new->text), "%s", g->text);
}

/* How many of these are not good, by more than a rate. */
static int suspects_of(const struct checks *c, const int *members, int n)
{
	int found = 0;

	for (int i = 0; i < n; i++)
		found += bisect_member(c->b, members[i]) != BISECT_GOOD && c->h->kinds[members[i]] != FAULT_SLOW;
	return found;
}

/* A host was named by it: the good ones alone. */
static bool names_one(const struct checks *c, const struct hunt_failure *f)
{
	return f->n_suspects == 1 && f->n > 1 && suspects_of(c, f->members, 1);
}

/* Its good members are not good any more: it says nothing of the one that it named. */
static void names_recall(struct checks *c)
{
	for (int i = 0; i < c->f->n; i++) {
		struct hunt_failure *f = &c->f->all[i];

		if (f->recalled || !names_one(c, f) || bisect_member(c->b, f->members[0]) != BISECT_BAD ||
		    !suspects_of(c, f->members + 1, f->n - 1))
			continue;
		f->recalled = c->doubts = true;
		bisect_recall(c->b, f->members[0]);
	}
}

/* --- a round of checks --- */

static int good_find(const struct checks *c, const struct hunt_failure *f)
{
	for (int i = 0; i < c->h->run->c.n_nodes; i++) {
		bool in = c->used[i] || bisect_member(c->b, i) != BISECT_GOOD;

		for (int j = 0; j < f->n; j++)
			in |= f->members[j] == i;
		if (!in)
			return i;
	}
	return -1;
}

/* The hosts of a check; 0: none is needed, or it has to wait. */
static int check_choose(const struct checks *c, const struct hunt_failure *f, int *members)
{
	bool named = names_one(c, f);
	int n = 0;

	if (f->checked || f->recalled || (!named && suspects_of(c, f->members, f->n)))
		return 0;
	for (int i = named; i < f->n; i++) {
		members[n++] = f->members[i];
		if (c->used[f->members[i]])
			return 0;
	}
	if (n == 1)
		members[n++] = good_find(c, f);
	return members[n - 1] < 0 ? 0 : n;
}

static void checks_choose(struct checks *c)
{
	int n_hosts = c->h->run->c.n_nodes, *members = calloc(n_hosts, sizeof(int));

	memset(c->used, 0, n_hosts * sizeof(*c->used));
	c->n = 0;
	for (int i = 0; i < c->f->n && members; i++) {
		int n = check_choose(c, &c->f->all[i], members);

		if (!n)
			continue;
		for (int j = 0; j < n; j++)
			c->used[members[j]] = true;
		c->f->all[i].checked = true;
		c->hosts[c->n++] = (struct bisect_test){ .n = n, .members = members };
		members = calloc(n_hosts, sizeof(int));
	}
	if (!members)
		abort();
	free(members);
}

static void check_take(struct checks *c, int i)
{
	struct trial_group *g = &c->groups[i];

	if (!group_is_bad(g))
		return;
	hunt_wrong_say(g);
	for (int j = 0; j < c->hosts[i].n; j++) {
		snprintf(c->h->why[c->hosts[i].members[j]], FAULT_TEXT, "%s", g->text);
		c->h->kinds[c->hosts[i].members[j]] = hunt_kind(g);
	}
	hunt_failure_keep(c->f, &c->hosts[i], g);
	bisect_doubt(c->b, c->hosts[i].members, c->hosts[i].n);
	c->doubts = true;
}

static void checks_round(struct checks *c)
{
	double rates[NCCL_RANKS_MAX] = { 0 };

	for (int i = 0; i < c->n; i++)
		hunt_group_fill(c->h, &c->groups[i], &c->hosts[i], i);
	trial_open(&c->h->run->c, c->groups, c->n);
	hunt_measure(c->h, c->groups, rates, c->n);
	for (int i = 0; i < c->n; i++)
		if (!c->h->run->c.stopped || c->groups[i].wrong)
			check_take(c, i);
	trial_close(&c->h->run->c, c->groups, c->n);
	for (int i = 0; i < c->n; i++) {
		free(c->groups[i].ranks);
		free(c->hosts[i].members);
	}
}

bool hunt_checks(struct hunt *h, struct hunt_failures *f, struct bisect *b)
{
	struct checks *c = calloc(1, sizeof(*c));
	bool doubts;

	if (!c)
		abort();
	*c = (struct checks){ .h = h, .f = f, .b = b, .used = calloc(h->run->c.n_nodes, sizeof(*c->used)) };
	if (!c->used)
		abort();
	do {
		names_recall(c);
		checks_choose(c);
		if (c->n)
			checks_round(c);
	} while (c->n && !h->run->c.stopped);
	names_recall(c);
	doubts = c->doubts;
	free(c->used);
	free(c);
	return doubts;
}

/* --- the end --- */

static bool is_explained(const struct hunt *h, const struct hunt_failure *f, const enum bisect_verdict *verdicts)
{
	for (int i = 0; i < f->n; i++)
		if (verdicts[f->members[i]] != BISECT_GOOD && h->kinds[f->members[i]] != FAULT_SLOW)
			return true;
	return false;
}

/* Wrong data are wrong, though they come once; what hung or was lost for once is no fault of a host. */
static void failure_say(struct hunt *h, const struct hunt_failure *f)
{
	char names[FAULT_TEXT] = "";

	for (int i = 0, at = 0; i < f->n && at < 160; i++)
		at += snprintf(names + at, sizeof(names) - at, "%s%.60s", i ? ", " : "",
			       hunt_host(h->run, f->members[i]));
	if (f->wrong)
		nccl_fault(h->run, FAULT_CORRUPT, -1, "one of %d hosts, it is not known which (%.230s%s): %.160s", f->n,
			   names, h->run->c.stopped ? "; stopped before that" : "; it did not come again", f->text);
	else if (!h->run->c.stopped)
		nccl_note(h->run, "%d hosts failed once, and did well when tried again (%.230s): %.160s", f->n, names,
			  f->text);
}

void hunt_failures_end(struct hunt *h, struct hunt_failures *f, const enum bisect_verdict *verdicts)
{
	for (int i = 0; i < f->n; i++) {
		if (!is_explained(h, &f->all[i], verdicts))
			failure_say(h, &f->all[i]);
		free(f->all[i].members);
	}
	free(f->all);
}
