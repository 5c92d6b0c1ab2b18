/* SPDX-License-Identifier: Apache-2.0
 *
 * p2p_judge.c - the odd link, by comparison: with the upper quartile of the links of its kind (one performance rank of
 * the driver's, one kind of GPU, one way between them), as a bad GPU among three spoils two thirds of all links and
 * with that a median. Then the table. Links of one GPU that are all slow are said once, as the GPU's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stress/lib/gpu_name.h"
#include "tools/stress/lib/node.h"
#include "tools/stress/p2p/links.h"
#include "tools/stress/threshold.h"

const struct link_row link_rows[] = {
#define LINK(...) { __VA_ARGS__ },
#include "tools/stress/p2p/links.def"
#undef LINK
};
const int n_link_rows = sizeof(link_rows) / sizeof(link_rows[0]);

const struct link_row *link_row_find(const char *device, int measure)
{
	for (int i = 0; i < n_link_rows; i++)
		if (gpu_row_fits(link_rows[i].device, device) && link_rows[i].measure == measure)
			return &link_rows[i];
	return NULL;
}

/* With peer access the whole way: both ways at once goes as fast as the slower of the two. */
static bool is_direct(const struct p2p *p, int from, int to, enum link_measure measure)
{
	return p->links[from][to].direct && (measure != LINK_BOTH || p->links[to][from].direct);
}

/* Between GPUs alike, over the same way. */
static bool is_kind(const struct p2p *p, int from, int to, int i, int j)
{
	const struct stress_gpu *g = p->run->gpus;

	return i != j && g[i].class == g[from].class && g[j].class == g[to].class &&
	       p2p_way(p, i, j) == p2p_way(p, from, to);
}

static bool is_like(const struct p2p *p, int from, int to, int i, int j, enum link_measure measure)
{
	return (i != from || j != to) && is_direct(p, i, j, measure) && is_kind(p, from, to, i, j) &&
	       p->links[i][j].rank == p->links[from][to].rank && p2p_way(p, from, to) != WAY_UNKNOWN;
}

static void row_take(struct bounds *b, const struct link_row *row, double share, const char *share_text)
{
	b->least = row->least * share;
	snprintf(b->row, sizeof(b->row), "table, %s: %s%s, %s, %s", row->device, row->condition, share_text,
		 row->source, row->date);
}

/* The row is that of boards where all NVLinks of a GPU lead to a switch. Without one a pair has some of them. */
static void nvlink_row_take(struct p2p *p, struct bounds *b, int from, int to)
{
	const struct stress_gpu *gpu = &p->run->gpus[from];
	const struct link_row *row = link_row_find(gpu->name, LINK_COPY);
	int links = p->gpus[from].links, between = p2p_nvlinks_between(p, from, to);
	char text[48] = "";

	if (row && between && between < links)
		snprintf(text, sizeof(text), ", %d of %d links", between, links);
	if (row && between)
		row_take(b, row, (double)between / links, text);
	else if (row && !b->baseline && p->gpus[from].links_unknown)
		run_note(p->run,
			 "%s: NVML does not say where its NVLinks lead: copies between GPUs are compared with each "
			 "other, and with no table",
			 gpu->name);
}

enum better link_better(enum link_measure measure)
{
	return measure == LINK_LATENCY ? BETTER_LESS : BETTER_MORE;
}

/* "copy engine, GPU 0 to GPU 1": what a baseline calls it. */
static void link_name(const struct p2p *p, int from, int to, enum link_measure measure, char name[64])
{
	snprintf(name, 64, "%s, GPU %d to GPU %d", link_measure_names[measure], p->run->gpus[from].ordinal,
		 p->run->gpus[to].ordinal);
}

static void host_name(const struct p2p *p, int gpu, int node, int way, char name[64])
{
	snprintf(name, 64, "%s %d, memory of node %d", way == HOST_TO_DEVICE ? "host to GPU" : "to host, GPU",
		 p->run->gpus[gpu].ordinal, p->nodes[node]);
}

static struct bounds bounds_make(const struct p2p *p, int gpu, enum better better, const char *name,
				 const struct baseline *baseline)
{
	const struct stress_gpu *g = &p->run->gpus[gpu];
	struct tolerance near = better == BETTER_LESS ? TOLERANCE_TIME : TOLERANCE_RATE;

	return (struct bounds){
		.better = better,
		.near = near,
		.near_own = near,
		.baseline = baseline,
		.own = { .uuid = g->uuid, .device = g->name, .measure = name, .size = p->bytes >> 10 },
		.quartile = true,
	};
}

static void hold(struct p2p *p, struct judgement *j, const struct bounds *b)
{
	if (!judgement_hold(j, b))
		run_note(p->run, "the baseline has no %s with these --bytes", b->own.measure);
}

static void link_hold(struct p2p *p, int from, int to, enum link_measure measure, const struct baseline *baseline)
{
	char name[64];
	struct bounds b;

	/* through the host: as fast as its CPUs are free; host_hold() has the ways to its memory */
	if (measure == LINK_OFF || !is_direct(p, from, to, measure))
		return;
	link_name(p, from, to, measure, name);
	b = bounds_make(p, from, link_better(measure), name, baseline);
	b.others = calloc(p->run->n_gpus * p->run->n_gpus, sizeof(*b.others));
	if (!b.others)
		abort();
	for (int i = 0; i < p->run->n_gpus; i++)
		for (int k = 0; k < p->run->n_gpus; k++)
			/* both ways at once is one value for both */
			if (is_like(p, from, to, i, k, measure) && p->links[i][k].rates[measure].judged.measured &&
			    !(measure == LINK_BOTH && i == to && k == from))
				b.others[b.n_others++] = p->links[i][k].rates[measure].judged.value;
	if (measure == LINK_COPY)
		nvlink_row_take(p, &b, from, to);
	hold(p, &p->links[from][to].rates[measure].judged, &b);
	free(b.others);
}

static void host_hold(struct p2p *p, int gpu, int node, int way, const struct baseline *baseline)
{
	double others[STRESS_GPUS_MAX * NODES_MAX];
	const struct link_row *row = link_row_find(p->run->gpus[gpu].name, LINK_HOST);
	int distance = p->gpus[gpu].distances[node];
	char name[64];
	struct bounds b;

	host_name(p, gpu, node, way, name);
	b = bounds_make(p, gpu, BETTER_MORE, name, baseline);
	b.others = others;
	for (int i = 0; i < p->run->n_gpus; i++)
		for (int k = 0; k < p->n_nodes; k++)
			if (i != gpu && distance != NODE_UNKNOWN && p->gpus[i].distances[k] == distance &&
			    p->gpus[i].host[k][way].judged.measured && p->run->gpus[i].class == p->run->gpus[gpu].class)
				others[b.n_others++] = p->gpus[i].host[k][way].judged.value;
	if (distance == NODE_OWN && row)
		row_take(&b, row, 1, "");
	hold(p, &p->gpus[gpu].host[node][way].judged, &b);
}

void p2p_hold(struct p2p *p, const struct baseline *baseline)
{
	int n = p->run->n_gpus;

	for (int i = 0; i < n * n * N_LINK_MEASURES; i++) {
		int m = i % N_LINK_MEASURES, from = i / N_LINK_MEASURES / n, to = i / N_LINK_MEASURES % n;

		if (p->links[from][to].rates[m].judged.measured)
			link_hold(p, from, to, m, baseline);
	}
	for (int i = 0; i < n * p->n_nodes * N_WAYS_HOST; i++) {
		int gpu = i / N_WAYS_HOST / p->n_nodes, node = i / N_WAYS_HOST % p->n_nodes, way = i % N_WAYS_HOST;

		if (p->gpus[gpu].host[node][way].judged.measured && !p->away[node])
			host_hold(p, gpu, node, way, baseline);
	}
}

/* --- faults --- */

static const char *link_text(const struct p2p *p, int from, int to, enum link_measure measure, char *text, size_t size)
{
	char judged[JUDGE_TEXT];

	snprintf(text, size, "link GPU %d to GPU %d, %s: %s", p->run->gpus[from].ordinal, p->run->gpus[to].ordinal,
		 link_measure_names[measure],
		 judgement_text(&p->links[from][to].rates[measure].judged, link_better(measure), link_unit(measure),
				judged, sizeof(judged)));
	return text;
}

static void link_fault(struct p2p *p, int from, int to, enum link_measure measure)
{
	struct fault fault = { .kind = FAULT_LINK,
			       .gpu = from,
			       .to = to + 1,
			       .measure = -1,
			       .held = p->links[from][to].rates[measure].judged,
			       .unit = link_unit(measure) };

	link_text(p, from, to, measure, fault.text, sizeof(fault.text));
	run_fault(p->run, &fault);
}

/* All its links, to and from, are slow: it is the GPU. With two GPUs that is no more than the link. */
static bool all_slow(const struct p2p *p, int gpu, enum link_measure measure)
{
	int n = 0, failed = 0;

	for (int i = 0; i < p->run->n_gpus; i++) {
		if (i == gpu)
			continue;
		n += p->links[i][gpu].rates[measure].judged.measured + p->links[gpu][i].rates[measure].judged.measured;
		failed += p->links[i][gpu].rates[measure].judged.failed + p->links[gpu][i].rates[measure].judged.failed;
	}
	return p->run->n_gpus > 2 && n && failed == n;
}

static void measure_faults(struct p2p *p, enum link_measure measure)
{
	bool whole[STRESS_GPUS_MAX] = { false };
	char text[FAULT_TEXT];

	for (int i = 0; i < p->run->n_gpus; i++) {
		struct fault fault = { .kind = FAULT_LINK, .gpu = i, .measure = -1 };

		whole[i] = all_slow(p, i, measure);
		if (!whole[i])
			continue;
		fault.held = p->links[i][!i].rates[measure].judged;
		fault.unit = link_unit(measure);
		snprintf(fault.text, sizeof(fault.text), "all its links to other GPUs are slow, %s: the first %.4g, %s",
			 link_measure_names[measure], p->links[i][!i].rates[measure].judged.value,
			 p->links[i][!i].rates[measure].judged.rule);
		run_fault(p->run, &fault);
	}
	for (int i = 0; i < p->run->n_gpus; i++)
		for (int j = 0; j < p->run->n_gpus; j++)
			if (p->links[i][j].rates[measure].judged.failed && !whole[i] && !whole[j] &&
			    !(measure == LINK_BOTH && i > j))
				link_fault(p, i, j, measure);
	for (int i = 0; i < p->run->n_gpus; i++)
		for (int j = 0; j < p->run->n_gpus; j++)
			if (judgement_is_unsteady(&p->links[i][j].rates[measure].judged) &&
			    !(measure == LINK_BOTH && i > j))
				run_note(p->run, "%s", link_text(p, i, j, measure, text, sizeof(text)));
}

static const char *host_text(const struct p2p *p, int gpu, int node, int way, char *text, size_t size)
{
	char judged[JUDGE_TEXT];

	snprintf(text, size, "%s, memory of node %d: %s", way == HOST_TO_DEVICE ? "host to GPU" : "GPU to host",
		 p->nodes[node],
		 judgement_text(&p->gpus[gpu].host[node][way].judged, BETTER_MORE, "GB/s", judged, sizeof(judged)));
	return text;
}

static void host_judge(struct p2p *p, int gpu, int node, int way)
{
	const struct judgement *j = &p->gpus[gpu].host[node][way].judged;
	struct fault fault = { .kind = FAULT_LINK, .gpu = gpu, .measure = -1, .held = *j, .unit = "GB/s" };

	host_text(p, gpu, node, way, fault.text, sizeof(fault.text));
	if (j->failed)
		run_fault(p->run, &fault);
	else if (judgement_is_unsteady(j))
		run_note(p->run, "GPU %d: %s", p->run->gpus[gpu].ordinal, fault.text);
}

/* All lanes, and its generation while in use. */
static void pcie_judge(struct p2p *p, int gpu)
{
	const struct p2p_gpu *g = &p->gpus[gpu];
	struct fault fault = { .kind = FAULT_LINK, .gpu = gpu, .measure = -1 };

	if (g->width < g->width_max || g->generation < g->generation_max) {
		snprintf(fault.text, sizeof(fault.text),
			 "its PCIe link has %u lanes of generation %u, of %u of %u: look at slot and riser", g->width,
			 g->generation, g->width_max, g->generation_max);
		run_fault(p->run, &fault);
	}
}

static void missing_judge(struct p2p *p, int from, int to)
{
	struct fault fault = { .kind = FAULT_MISSING, .gpu = from, .to = to + 1, .measure = -1 };

	for (int m = 0; m < N_LINK_MEASURES; m++) {
		if (p->links[from][to].rates[m].judged.measured || (m >= LINK_SM && !p->links[from][to].direct))
			continue;
		snprintf(fault.text, sizeof(fault.text), "link GPU %d to GPU %d, %s was not measured",
			 p->run->gpus[from].ordinal, p->run->gpus[to].ordinal, link_measure_names[m]);
		run_fault(p->run, &fault);
	}
}

/* How many GPUs that are as `other` it has peer access to. */
static int peers_count(const struct p2p *p, int gpu, int other)
{
	int n = 0;

	for (int i = 0; i < p->run->n_gpus; i++)
		n += p->run->gpus[i].class == p->run->gpus[other].class && p->links[gpu][i].direct;
	return n;
}

/* Than most GPUs of its kind have. Hosts are built so that some pairs have none, of each GPU alike: a DGX-1, two
 * sockets, an odd card. */
static bool has_fewer_peers(const struct p2p *p, int gpu, int other)
{
	int own = peers_count(p, gpu, other), more = 0, n = 0;

	for (int i = 0; i < p->run->n_gpus; i++) {
		if (i == gpu || p->run->gpus[i].class != p->run->gpus[gpu].class)
			continue;
		n++;
		more += peers_count(p, i, other) > own;
	}
	return 2 * more > n;
}

/* GPUs may be spread unevenly: a way that has none has none by construction. Where the ways are not known, all but this
 * pair must have it. */
static bool lacks_access(const struct p2p *p, int from, int to, int *direct, int *n)
{
	*direct = *n = 0;
	for (int i = 0; i < p->run->n_gpus; i++)
		for (int j = 0; j < p->run->n_gpus; j++)
			if (is_kind(p, from, to, i, j)) {
				*direct += p->links[i][j].direct;
				++*n;
			}
	if (p->links[from][to].direct || !has_fewer_peers(p, from, to))
		return false;
	return p2p_way(p, from, to) == WAY_UNKNOWN ? *n - *direct <= 2 : 2 * *direct >= *n;
}

/* A pair without peer access, where others of its kind have it. */
static void access_judge(struct p2p *p)
{
	int n = p->run->n_gpus, direct, of;

	for (int i = 0; i < n * n; i++) {
		struct fault fault = { .kind = FAULT_LINK, .gpu = i / n, .to = 1 + i % n, .measure = -1 };

		if (i / n == i % n || !lacks_access(p, i / n, i % n, &direct, &of))
			continue;
		snprintf(fault.text, sizeof(fault.text),
			 "link GPU %d to GPU %d: no peer access, which %d of %d links of its kind have",
			 p->run->gpus[i / n].ordinal, p->run->gpus[i % n].ordinal, direct, of);
		run_fault(p->run, &fault);
	}
}

void p2p_judge(struct p2p *p)
{
	int n = p->run->n_gpus;

	access_judge(p);
	for (int i = 0; i < n; i++) /* before the rates, of which it is the cause */
		p2p_nvlinks_judge(p, i);
	for (int m = 0; m < N_LINK_MEASURES; m++)
		measure_faults(p, m);
	for (int i = 0; i < n; i++) {
		for (int j = 0; j < n && !p->run->stopped; j++)
			if (i != j && !p->run->gpus[i].lost && !p->run->gpus[j].lost)
				missing_judge(p, i, j);
		for (int node = 0; node < p->n_nodes; node++)
			for (int way = 0; way < N_WAYS_HOST; way++)
				if (p->gpus[i].host[node][way].judged.measured)
					host_judge(p, i, node, way);
		pcie_judge(p, i);
	}
}

struct lines {
	struct baseline_line *lines;
	char (*names)[64];
	int n;
};

static char *line_add(struct lines *l, const struct p2p *p, int gpu, const struct judgement *j, const char *unit)
{
	const struct stress_gpu *g = &p->run->gpus[gpu];

	l->lines[l->n] =
		(struct baseline_line){ g->uuid, g->name, l->names[l->n], unit, (uint32_t)(p->bytes >> 10), j->value };
	return l->names[l->n++];
}

int p2p_baseline_write(const char *path, const struct p2p *p)
{
	int n = p->run->n_gpus, room = n * n * N_LINK_MEASURES + n * NODES_MAX * N_WAYS_HOST, err;
	struct lines l = { calloc(room, sizeof(*l.lines)), calloc(room, sizeof(*l.names)), 0 };

	if (!l.lines || !l.names)
		abort();
	for (int m = 0; m < N_LINK_MEASURES; m++)
		for (int i = 0; i < n * n; i++) {
			const struct judgement *j = &p->links[i / n][i % n].rates[m].judged;

			if (j->measured)
				link_name(p, i / n, i % n, m, line_add(&l, p, i / n, j, link_unit(m)));
		}
	for (int i = 0; i < n * p->n_nodes * N_WAYS_HOST; i++) {
		int gpu = i / N_WAYS_HOST / p->n_nodes, node = i / N_WAYS_HOST % p->n_nodes, way = i % N_WAYS_HOST;
		const struct judgement *j = &p->gpus[gpu].host[node][way].judged;

		if (j->measured && !p->away[node])
			host_name(p, gpu, node, way, line_add(&l, p, gpu, j, "GB/s"));
	}
	err = baseline_lines_write(path, l.lines, l.n);
	free(l.lines);
	free(l.names);
	return err;
}
