/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_hunt.c - see nccl_hunt.h.
 */
#include "tools/stress/nccl/nccl_hunt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stress/nccl/nccl_hunt_parts.h"

#define PAIRS_HOSTS 8 /* up to here groups are two or three: all pairs are tried */

const char *hunt_host(const struct nccl_run *run, int node)
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

void hunt_group_fill(const struct hunt *h, struct trial_group *g, const struct bisect_test *t, int test)
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

bool hunt_hosts_alike(const struct hunt *h)
{
	const struct coordinator *c = &h->run->c;
	int *ranks = calloc(c->n_nodes, sizeof(*ranks));
	bool alike = true;

	if (!ranks)
		abort();
	for (int i = 0; i < c->n; i++)
		ranks[c->ranks[i].node]++;
	for (int i = 1; i < c->n_nodes; i++)
		alike &= ranks[i] == ranks[0];
	free(ranks);
	return alike;
}

enum fault_kind hunt_kind(const struct trial_group *g)
{
	return g->status == CASE_HUNG ? FAULT_STALLED : g->status == CASE_DONE ? FAULT_CORRUPT : FAULT_LOST;
}

void hunt_wrong_say(struct trial_group *g)
{
	if (g->wrong)
		snprintf(g->text, sizeof(g->text), "%llu elements are wrong, on %d of %d ranks",
			 (unsigned long long)g->wrong, g->n_wrong, g->n);
}

bool hunt_is_measured(struct hunt *h, const struct trial_group *g)
{
	if (g->status == CASE_DONE) {
		h->run->n_measured++;
		return true;
	}
	if (g->status == CASE_SYSTEM)
		nccl_lacks(h->run, g);
	else
		nccl_note(h->run, "%s", g->text[0] ? g->text : "the case is not in this NCCL");
	h->run->n_left++;
	return false;
}

void hunt_measure(struct hunt *h, struct trial_group *groups, double *rates, int n)
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

void hunt_verdicts_take(struct hunt *h, const enum bisect_verdict *verdicts)
{
	char open[FAULT_TEXT] = "", what[160];
	size_t at = 0;
	int n_open = 0, last = 0;

	case_name(&h->of, what, sizeof(what));
	for (int node = 0; node < h->run->c.n_nodes; node++) {
		if (verdicts[node] == BISECT_BAD)
			nccl_fault(h->run, h->kinds[node], first_rank(h->run, node),
				   "host %s: fails alone among known good hosts: %s: %.200s", hunt_host(h->run, node),
				   what, h->why[node]);
		if (verdicts[node] != BISECT_OPEN)
			continue;
		last = node;
		if (n_open++ < 16 && at < sizeof(open) - 70)
			at += snprintf(open + at, sizeof(open) - at, "%s%s", at ? ", " : "", hunt_host(h->run, node));
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

void hunt_summary(struct hunt *h, int tests, int rounds)
{
	if (h->run->n_measured || h->run->n_faults)
		nccl_note(h->run, "--bisect: %d hosts, %d tests in %d rounds", h->run->c.n_nodes, tests, rounds);
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
		hunt_pairs(h);
	else
		hunt_groups(h);
	free(h->why);
	free(h->kinds);
	free(h);
}
