/* SPDX-License-Identifier: Apache-2.0
 *
 * p2p_judge.c - the odd link, by comparison: with the upper quartile of the links of its kind (one performance rank of
 * the driver's, one kind of GPU), as a bad GPU among three spoils two thirds of all links and with that a median. Then
 * the table. Links of one GPU that are all slow are said once, as the GPU's.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stress/p2p/links.h"
#include "tools/stress/threshold.h"

#define LATENCY_TOLERANCE 0.25

const struct link_row link_rows[] = {
#define LINK(...) { __VA_ARGS__ },
#include "tools/stress/p2p/links.def"
#undef LINK
};
const int n_link_rows = sizeof(link_rows) / sizeof(link_rows[0]);

const struct link_row *link_row_find(const char *device, int measure)
{
	for (int i = 0; i < n_link_rows; i++)
		if (!fnmatch(link_rows[i].device, device, 0) && link_rows[i].measure == measure)
			return &link_rows[i];
	return NULL;
}

static int value_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The value that a quarter are at least as good as. */
static double quartile(double *values, int n, bool less_is_better)
{
	qsort(values, n, sizeof(*values), value_compare);
	return less_is_better ? values[n / 4] : values[n - 1 - n / 4];
}

static void hold(struct link_rate *r, double bound, bool less_is_better, const char *rule)
{
	bool failed = less_is_better ? !(r->value <= bound) : !(r->value >= bound);
	struct judgement *j = &r->judged;

	if (j->failed || (j->judged && !failed))
		return;
	j->judged = true;
	j->failed = failed;
	j->floor = bound;
	snprintf(j->rule, sizeof(j->rule), "%s", rule);
}

static void hold_others(struct link_rate *r, double *others, int n, bool less_is_better)
{
	char rule[JUDGE_RULE];
	double of;

	if (!n)
		return;
	of = quartile(others, n, less_is_better);
	if (less_is_better)
		snprintf(rule, sizeof(rule), "%.0f %% of the lower quartile of %d others of its kind, %.4g",
			 100 * (1 + LATENCY_TOLERANCE), n, of);
	else
		snprintf(rule, sizeof(rule), "%.0f %% of the upper quartile of %d other%s of its kind, %.4g",
			 100 * (1 - THRESHOLD_TOLERANCE), n, n > 1 ? "s" : "", of);
	hold(r, of * (less_is_better ? 1 + LATENCY_TOLERANCE : 1 - THRESHOLD_TOLERANCE), less_is_better, rule);
}

static bool is_like(const struct p2p *p, int from, int to, int i, int j)
{
	const struct stress_gpu *g = p->run->gpus;

	return i != j && (i != from || j != to) && p->links[i][j].direct == p->links[from][to].direct &&
	       p->links[i][j].rank == p->links[from][to].rank && g[i].class == g[from].class &&
	       g[j].class == g[to].class;
}

static void table_hold(const struct p2p *p, struct link_rate *r, const char *device, int measure)
{
	const struct link_row *row = link_row_find(device, measure);
	char rule[JUDGE_RULE];

	(void)p;
	if (!row)
		return;
	snprintf(rule, sizeof(rule), "table, %s: %s, %s, %s", row->device, row->condition, row->source, row->date);
	hold(r, row->least, false, rule);
}

static void link_hold(struct p2p *p, int from, int to, enum link_measure measure)
{
	struct link_rate *r = &p->links[from][to].rates[measure];
	double *others = calloc(p->run->n_gpus * p->run->n_gpus, sizeof(*others));
	int n = 0;

	if (!others)
		abort();
	for (int i = 0; i < p->run->n_gpus; i++)
		for (int j = 0; j < p->run->n_gpus; j++)
			/* both ways at once is one value for both */
			if (is_like(p, from, to, i, j) && p->links[i][j].rates[measure].measured &&
			    !(measure == LINK_BOTH && i == to && j == from))
				others[n++] = p->links[i][j].rates[measure].value;
	hold_others(r, others, n, measure == LINK_LATENCY);
	if (measure == LINK_COPY && p->gpus[from].links_active && p->gpus[to].links_active && p->links[from][to].direct)
		table_hold(p, r, p->run->gpus[from].name, LINK_COPY);
	free(others);
}

/* --- faults --- */

static void link_fault(struct p2p *p, int from, int to, enum link_measure measure)
{
	const struct link_rate *r = &p->links[from][to].rates[measure];
	struct fault fault = { .kind = FAULT_LINK, .gpu = from, .measure = -1 };

	snprintf(fault.text, sizeof(fault.text), "link GPU %d to GPU %d, %s: %.4g %s, %s than %.4g (%s)",
		 p->run->gpus[from].ordinal, p->run->gpus[to].ordinal, link_measure_names[measure], r->value,
		 measure == LINK_LATENCY ? "ns" : "GB/s", measure == LINK_LATENCY ? "more" : "less", r->judged.floor,
		 r->judged.rule);
	run_fault(p->run, &fault);
}

/* All its links, to and from, are slow: it is the GPU. With two GPUs that is no more than the link. */
static bool all_slow(const struct p2p *p, int gpu, enum link_measure measure)
{
	int n = 0, failed = 0;

	for (int i = 0; i < p->run->n_gpus; i++) {
		if (i == gpu)
			continue;
		n += p->links[i][gpu].rates[measure].measured + p->links[gpu][i].rates[measure].measured;
		failed += p->links[i][gpu].rates[measure].judged.failed + p->links[gpu][i].rates[measure].judged.failed;
	}
	return p->run->n_gpus > 2 && n && failed == n;
}

static void measure_faults(struct p2p *p, enum link_measure measure)
{
	bool whole[STRESS_GPUS_MAX];

	for (int i = 0; i < p->run->n_gpus; i++) {
		struct fault fault = { .kind = FAULT_LINK, .gpu = i, .measure = -1 };

		whole[i] = all_slow(p, i, measure);
		if (!whole[i])
			continue;
		snprintf(fault.text, sizeof(fault.text), "all its links to other GPUs are slow, %s: the first %.4g, %s",
			 link_measure_names[measure], p->links[i][!i].rates[measure].value,
			 p->links[i][!i].rates[measure].judged.rule);
		run_fault(p->run, &fault);
	}
	for (int i = 0; i < p->run->n_gpus; i++)
		for (int j = 0; j < p->run->n_gpus; j++)
			if (p->links[i][j].rates[measure].judged.failed && !whole[i] && !whole[j] &&
			    !(measure == LINK_BOTH && i > j))
				link_fault(p, i, j, measure);
}

static bool node_is_own(const struct p2p *p, int gpu, int node)
{
	return p->n_nodes == 1 || p->nodes[node] == p->gpus[gpu].node;
}

static void host_hold(struct p2p *p, int gpu, int node, int way)
{
	struct link_rate *r = &p->gpus[gpu].host[node][way];
	struct fault fault = { .kind = FAULT_LINK, .gpu = gpu, .measure = -1 };
	double others[STRESS_GPUS_MAX * NODES_MAX];
	bool own = node_is_own(p, gpu, node);
	int n = 0;

	for (int i = 0; i < p->run->n_gpus; i++)
		for (int j = 0; j < p->n_nodes; j++)
			if (i != gpu && node_is_own(p, i, j) == own && p->gpus[i].host[j][way].measured &&
			    p->run->gpus[i].class == p->run->gpus[gpu].class)
				others[n++] = p->gpus[i].host[j][way].value;
	hold_others(r, others, n, false);
	if (own)
		table_hold(p, r, p->run->gpus[gpu].name, LINK_HOST);
	if (!r->judged.failed)
		return;
	snprintf(fault.text, sizeof(fault.text), "%s, memory of node %d: %.4g GB/s, less than %.4g (%s)",
		 way == HOST_TO_DEVICE ? "host to GPU" : "GPU to host", p->nodes[node], r->value, r->judged.floor,
		 r->judged.rule);
	run_fault(p->run, &fault);
}

/* NVLinks: as many as others of its kind have. PCIe: all lanes, and its generation while in use. */
static void state_judge(struct p2p *p, int gpu)
{
	const struct p2p_gpu *g = &p->gpus[gpu];
	struct fault fault = { .kind = FAULT_LINK, .gpu = gpu, .measure = -1 };
	int most = 0;

	for (int i = 0; i < p->run->n_gpus; i++)
		if (p->run->gpus[i].class == p->run->gpus[gpu].class && p->gpus[i].links_active > most)
			most = p->gpus[i].links_active;
	if (g->links_active < most) {
		snprintf(fault.text, sizeof(fault.text), "%d of its NVLinks are active, of others of its kind %d",
			 g->links_active, most);
		run_fault(p->run, &fault);
	}
	if (g->width < g->width_max || g->generation < g->generation_max) {
		snprintf(fault.text, sizeof(fault.text),
			 "its PCIe link has %u lanes of generation %u, of %u of %u: look at slot and riser", g->width,
			 g->generation, g->width_max, g->generation_max);
		run_fault(p->run, &fault);
	}
}

static void missing_judge(struct p2p *p, int from, int to)
{
	struct fault fault = { .kind = FAULT_MISSING, .gpu = from, .measure = -1 };

	for (int m = 0; m < N_LINK_MEASURES; m++) {
		if (p->links[from][to].rates[m].measured || (m >= LINK_SM && !p->links[from][to].direct))
			continue;
		snprintf(fault.text, sizeof(fault.text), "link GPU %d to GPU %d, %s was not measured",
			 p->run->gpus[from].ordinal, p->run->gpus[to].ordinal, link_measure_names[m]);
		run_fault(p->run, &fault);
	}
}

/* A pair without peer access, where others of its kind have it. */
static void access_judge(struct p2p *p)
{
	int direct = 0, n = p->run->n_gpus;

	for (int i = 0; i < n * n; i++)
		direct += p->links[i / n][i % n].direct;
	for (int i = 0; i < n * n; i++) {
		struct fault fault = { .kind = FAULT_LINK, .gpu = i / n, .measure = -1 };

		if (i / n == i % n || p->links[i / n][i % n].direct || direct * 2 < n * (n - 1))
			continue;
		snprintf(fault.text, sizeof(fault.text),
			 "link GPU %d to GPU %d: no peer access, which %d of %d links of this host have",
			 p->run->gpus[i / n].ordinal, p->run->gpus[i % n].ordinal, direct, n * (n - 1));
		run_fault(p->run, &fault);
	}
}

void p2p_judge(struct p2p *p)
{
	int n = p->run->n_gpus;

	access_judge(p);
	for (int m = 0; m < N_LINK_MEASURES; m++) {
		for (int i = 0; i < n * n; i++)
			if (p->links[i / n][i % n].rates[m].measured)
				link_hold(p, i / n, i % n, m);
		measure_faults(p, m);
	}
	for (int i = 0; i < n; i++) {
		for (int j = 0; j < n && !p->run->stopped; j++)
			if (i != j && !p->run->gpus[i].lost && !p->run->gpus[j].lost)
				missing_judge(p, i, j);
		for (int node = 0; node < p->n_nodes; node++)
			for (int way = 0; way < N_WAYS_HOST; way++)
				if (p->gpus[i].host[node][way].measured)
					host_hold(p, i, node, way);
		state_judge(p, i);
	}
}
