/* SPDX-License-Identifier: Apache-2.0
 *
 * p2p_report.c - matrices of the links, rows of the host's, verdict lines; or JSON lines.
 */
#include <cjson/cJSON.h>
#include <stdio.h>

#include "tools/stress/p2p/p2p.h"
#include "tools/stress/report_json.h"

const char *const link_measure_names[N_LINK_MEASURES] = { "without peer access", "copy engine", "both ways",
							  "multiprocessors", "latency" };

const char *link_unit(int measure)
{
	return measure == LINK_LATENCY ? "ns" : "GB/s";
}

static void rate_json(const char *type, const struct judgement *j, const char *measure, int from, int to, int node,
		      const char *unit)
{
	cJSON *line = json_line_begin(type);

	cJSON_AddNumberToObject(line, "from", from);
	cJSON_AddNumberToObject(line, "to", to);
	if (node >= 0)
		cJSON_AddNumberToObject(line, "node", node);
	cJSON_AddStringToObject(line, "measure", measure);
	json_judged_add(line, j, unit);
	json_line_end(line);
}

static void links_json(const struct p2p *p)
{
	const struct stress_gpu *gpus = p->run->gpus;
	int n = p->run->n_gpus;

	for (int m = 0; m < N_LINK_MEASURES; m++)
		for (int i = 0; i < n * n; i++)
			if (p->links[i / n][i % n].rates[m].judged.measured)
				rate_json("link", &p->links[i / n][i % n].rates[m].judged, link_measure_names[m],
					  gpus[i / n].ordinal, gpus[i % n].ordinal, -1, link_unit(m));
	for (int i = 0; i < n; i++)
		for (int node = 0; node < p->n_nodes; node++)
			for (int way = 0; way < N_WAYS_HOST; way++)
				if (p->gpus[i].host[node][way].judged.measured)
					rate_json("host_link", &p->gpus[i].host[node][way].judged,
						  way == HOST_TO_DEVICE ? "to GPU" : "to host",
						  way == HOST_TO_DEVICE ? -1 : gpus[i].ordinal,
						  way == HOST_TO_DEVICE ? gpus[i].ordinal : -1, p->nodes[node], "GB/s");
}

static void end_json(const struct p2p *p, int status, const char *partial)
{
	cJSON *line;

	links_json(p);
	for (int i = 0; i < p->run->n_gpus; i++) {
		line = json_line_begin("verdict");
		json_subject_gpu(line, &p->run->gpus[i]);
		cJSON_AddStringToObject(line, "name", p->run->gpus[i].name);
		cJSON_AddNumberToObject(line, "nvlinks_active", p->gpus[i].links_active);
		cJSON_AddNumberToObject(line, "pcie_lanes", p->gpus[i].width);
		cJSON_AddNumberToObject(line, "pcie_generation", p->gpus[i].generation);
		cJSON_AddBoolToObject(line, "passed", !p->run->gpus[i].n_faults && !p->gpus[i].links_not_judged);
		json_line_end(line);
	}
	json_end_line(status, partial, run_elapsed_s(p->run), &p->run->notes);
}

static void matrix_print(const struct p2p *p, int measure)
{
	int n = p->run->n_gpus;

	printf("%s, %s, from row to column\n      ", link_measure_names[measure], link_unit(measure));
	for (int j = 0; j < n; j++)
		printf("%10d", p->run->gpus[j].ordinal);
	for (int i = 0; i < n; i++) {
		printf("\n%6d", p->run->gpus[i].ordinal);
		for (int j = 0; j < n; j++) {
			const struct link_rate *r = &p->links[i][j].rates[measure];

			if (r->judged.measured)
				printf("%9.1f%c", r->judged.value, r->judged.failed ? '!' : ' ');
			else
				printf("%9s ", "-");
		}
	}
	printf("\n");
}

static void host_print(const struct p2p *p, int i)
{
	const struct p2p_gpu *g = &p->gpus[i];

	printf("GPU %-3d host memory, GB/s to GPU / back:", p->run->gpus[i].ordinal);
	for (int node = 0; node < p->n_nodes; node++)
		printf("  node %d%s %.1f / %.1f", p->nodes[node], p->nodes[node] == g->node ? " (its own)" : "",
		       g->host[node][HOST_TO_DEVICE].judged.value, g->host[node][DEVICE_TO_HOST].judged.value);
	printf(";  NVLinks %d of %d active;  PCIe generation %u x%u\n", g->links_active, g->links, g->generation,
	       g->width);
}

static void verdict_print(const struct p2p *p, int i, const char *partial)
{
	const struct stress_run *run = p->run;
	const struct fault *first = NULL;

	for (uint32_t f = 0; f < run->n_faults && !first; f++)
		if (run->faults[f].gpu == i)
			first = &run->faults[f];
	printf("GPU %d  %s  %s  %s: ", run->gpus[i].ordinal, run->gpus[i].name, run->gpus[i].pci, run->gpus[i].uuid);
	if (first)
		printf("FAILED, %u faults, the first: %s: %s\n", run->gpus[i].n_faults, fault_kind_name(first->kind),
		       first->text);
	else if (p->gpus[i].links_not_judged)
		printf("no fault, its NVLinks are not judged\n");
	else
		printf("%s\n", *partial ? "no fault so far (partial)" : "passed");
}

void p2p_report_begin(const struct p2p *p)
{
	if (p->mode == REPORT_JSON)
		json_begin(p->run);
}

void p2p_report(const struct p2p *p, int status, const char *partial)
{
	static const char *const words[] = { "passed", "FAILED", "usage", "not possible here" };

	if (p->mode == REPORT_NONE)
		return;
	if (p->mode == REPORT_JSON) {
		end_json(p, status, partial);
		return;
	}
	printf("\n");
	for (int m = 0; m < N_LINK_MEASURES; m++)
		matrix_print(p, m);
	for (int i = 0; i < p->run->n_gpus; i++)
		host_print(p, i);
	notes_print(&p->run->notes);
	if (*partial)
		printf("partial: %s\n", partial);
	for (int i = 0; i < p->run->n_gpus; i++)
		verdict_print(p, i, partial);
	printf("stress p2p: %s after %.0f s\n", words[status], run_elapsed_s(p->run));
	fflush(stdout);
}
