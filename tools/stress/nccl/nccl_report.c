/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_report.c - what `stress nccl` prints: a row a case and group, faults, notes, and a verdict line a rank; or the
 * same as JSON lines.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "tools/stress/nccl/nccl_run.h"
#include "tools/stress/report_json.h"

#define RANKS_PRINTED 64 /* of more, only those with a fault have a line */

static const char *status_name(enum case_status status)
{
	static const char *const names[] = { "done", "unsupported", "hung", "failed", "no_memory", "lost", "system" };

	return names[status];
}

static double algbw(const struct trial_group *g)
{
	return g->seconds > 0 ? g->bytes / g->seconds * 1e-9 : 0;
}

/* --- JSON --- */

static void rank_add(cJSON *to, const struct coordinator *c, int rank)
{
	const struct wire_hello *h = &c->ranks[rank].hello;

	cJSON_AddNumberToObject(to, "rank", rank);
	cJSON_AddStringToObject(to, "host", h->host);
	cJSON_AddNumberToObject(to, "gpu", h->ordinal);
	cJSON_AddStringToObject(to, "uuid", h->uuid);
}

static void begin_json(const struct nccl_run *run)
{
	cJSON *line = json_line_begin("begin"), *ranks = cJSON_AddArrayToObject(line, "ranks");

	cJSON_AddNumberToObject(line, "hosts", run->c.n_nodes);
	cJSON_AddNumberToObject(line, "nccl_version", run->c.ranks[0].hello.nccl_version);
	cJSON_AddBoolToObject(line, "nvls", nccl_has_nvls(&run->c));
	for (int i = 0; i < run->c.n; i++) {
		cJSON *one = cJSON_CreateObject();

		rank_add(one, &run->c, i);
		cJSON_AddStringToObject(one, "name", run->c.ranks[i].hello.name);
		cJSON_AddItemToArray(ranks, one);
	}
	json_line_end(line);
}

static void case_json(const struct trial_group *g, const struct nccl_case *of)
{
	cJSON *line = json_line_begin("case");

	cJSON_AddStringToObject(line, "group", g->name);
	cJSON_AddStringToObject(line, "collective", collectives[of->collective].name);
	cJSON_AddStringToObject(line, "number", nccl_types[of->type].name);
	cJSON_AddNumberToObject(line, "bytes", g->bytes);
	cJSON_AddBoolToObject(line, "in_place", of->in_place);
	cJSON_AddStringToObject(line, "status", status_name(g->status));
	if (g->status == CASE_DONE) {
		cJSON_AddNumberToObject(line, "us", g->seconds * 1e6);
		cJSON_AddNumberToObject(line, "algbw_gbytes_s", algbw(g));
		cJSON_AddNumberToObject(line, "busbw_gbytes_s", algbw(g) * collective_bus_factor(of->collective, g->n));
		cJSON_AddNumberToObject(line, "checked", g->checked);
		cJSON_AddNumberToObject(line, "wrong", g->wrong);
	} else {
		cJSON_AddStringToObject(line, "text", g->text);
	}
	json_line_end(line);
}

/* Of a rank; of no single one: of what they have in common. */
static void subject_add(cJSON *line, const struct coordinator *c, int rank)
{
	cJSON *subject = json_subject_add(line, rank >= 0 ? "rank" : "communicator");

	if (rank < 0)
		return;
	cJSON_DeleteItemFromObject(subject, "host"); /* a rank's own, not where the lines are written */
	rank_add(subject, c, rank);
}

static void fault_json(const struct nccl_run *run, const struct fault *f)
{
	cJSON *line = json_fault_begin(f);

	subject_add(line, &run->c, f->gpu);
	json_line_end(line);
}

static void rates_json(const struct nccl_run *run)
{
	char measure[64];

	for (int i = 0; i < run->n_rates; i++) {
		const struct nccl_rate *r = &run->rates[i];
		cJSON *line;

		if (!r->judged.judged)
			continue;
		nccl_measure_name(run, r, measure, sizeof(measure));
		line = json_line_begin("bus_rate");
		cJSON_AddStringToObject(line, "group", run->groups[r->group].name);
		cJSON_AddStringToObject(line, "measure", measure);
		cJSON_AddNumberToObject(line, "bytes", r->of.bytes);
		json_judged_add(line, &r->judged, "GB/s");
		json_line_end(line);
	}
}

static void end_json(const struct nccl_run *run, int status, const char *partial)
{
	cJSON *line;

	rates_json(run);
	nccl_scaling_report(run);
	for (int i = 0; i < run->c.n; i++) {
		line = json_line_begin("verdict");
		subject_add(line, &run->c, i);
		cJSON_AddStringToObject(line, "name", run->c.ranks[i].hello.name);
		cJSON_AddBoolToObject(line, "passed", !run->c.ranks[i].n_faults && !run->lacks[0]);
		json_line_end(line);
	}
	json_end_line(status, partial, nccl_elapsed_s(run), &run->notes);
}

/* --- text --- */

void nccl_report_begin(const struct nccl_run *run)
{
	int version = run->c.ranks[0].hello.nccl_version;

	if (run->mode == REPORT_NONE)
		return;
	if (run->mode == REPORT_JSON) {
		begin_json(run);
		return;
	}
	printf("stress nccl: %d GPUs on %d host%s, NCCL %d.%d.%d, NVLS %s, %u operations of each kind after %u more\n",
	       run->c.n, run->c.n_nodes, run->c.n_nodes > 1 ? "s" : "", version / 10000, version % 10000 / 100,
	       version % 100, nccl_has_nvls(&run->c) ? "on" : "off", run->options->nccl.iterations,
	       run->options->nccl.skip);
	for (int i = 0; i < run->c.n && i < RANKS_PRINTED; i++)
		printf("  rank %-4d %s GPU %d  %s  %s  %s\n", i, run->c.ranks[i].hello.host,
		       run->c.ranks[i].hello.ordinal, run->c.ranks[i].hello.name, run->c.ranks[i].hello.pci,
		       run->c.ranks[i].hello.uuid);
	printf("%-14s %-8s %12s %-3s %10s %9s %9s %8s  %s\n", "collective", "type", "bytes", "", "us", "alg GB/s",
	       "bus GB/s", "wrong", run->n_groups > 1 ? "group" : "");
	fflush(stdout);
}

void nccl_report_case(const struct nccl_run *run, const struct trial_group *g, const struct nccl_case *of)
{
	if (run->mode == REPORT_NONE)
		return;
	if (run->mode == REPORT_JSON) {
		case_json(g, of);
		return;
	}
	printf("%-14s %-8s %12llu %-3s ", collectives[of->collective].name, nccl_types[of->type].name,
	       (unsigned long long)g->bytes, of->in_place ? "in" : "out");
	if (g->status == CASE_DONE)
		printf("%10.1f %9.2f %9.2f %8llu  %s\n", g->seconds * 1e6, algbw(g),
		       algbw(g) * collective_bus_factor(of->collective, g->n), (unsigned long long)g->wrong,
		       run->n_groups > 1 ? g->name : "");
	else
		printf("%s: %s  %s\n", status_name(g->status), g->text, run->n_groups > 1 ? g->name : "");
	fflush(stdout);
}

static void owner_print(const struct nccl_run *run, const struct fault *f)
{
	char name[120];

	printf("FAULT %s  %s: %s\n", f->gpu >= 0 ? rank_name(&run->c, f->gpu, name, sizeof(name)) : "of no single GPU",
	       fault_kind_name(f->kind), f->text);
}

void nccl_report_fault(const struct nccl_run *run, const struct fault *f)
{
	if (run->mode == REPORT_NONE)
		return;
	if (run->mode == REPORT_JSON) {
		fault_json(run, f);
		return;
	}
	owner_print(run, f);
	fflush(stdout);
}

static void rates_print(const struct nccl_run *run)
{
	char measure[64];

	for (int i = 0; i < run->n_rates; i++) {
		const struct nccl_rate *r = &run->rates[i];

		if (!r->judged.judged)
			continue;
		nccl_measure_name(run, r, measure, sizeof(measure));
		printf("  %s: %s, %llu bytes: %.4g GB/s, %s %.4g: %s\n", run->groups[r->group].name, measure,
		       (unsigned long long)r->of.bytes, r->judged.value,
		       r->judged.failed ? "FAILED, less than" : "at least", r->judged.bound, r->judged.rule);
	}
}

static void verdict_print(const struct nccl_run *run, int rank, const char *partial)
{
	const struct fault *first = NULL;
	char name[120];

	for (uint32_t i = 0; i < run->n_faults && !first; i++)
		if (run->faults[i].gpu == rank)
			first = &run->faults[i];
	if (!first && run->c.n > RANKS_PRINTED)
		return;
	printf("%s  %s  %s: ", rank_name(&run->c, rank, name, sizeof(name)), run->c.ranks[rank].hello.pci,
	       run->c.ranks[rank].hello.uuid);
	if (first)
		printf("FAILED, %u fault%s, the first: %s: %s\n", run->c.ranks[rank].n_faults,
		       run->c.ranks[rank].n_faults > 1 ? "s" : "", fault_kind_name(first->kind), first->text);
	else
		printf("%s\n", run->n_faults ? "no fault of its own"
			       : *run->lacks ? "no fault, not tested"
			       : *partial    ? "no fault so far (partial)"
					     : "passed");
}

void nccl_report_end(const struct nccl_run *run, int status, const char *partial)
{
	static const char *const words[] = { "passed", "FAILED", "usage", "not possible here" };
	bool judged = run->n_compared > 0;

	if (run->mode == REPORT_NONE)
		return;
	if (run->mode == REPORT_JSON) {
		end_json(run, status, partial);
		return;
	}
	nccl_scaling_report(run);
	printf("\n");
	for (int i = 0; i < run->n_rates; i++)
		judged |= run->rates[i].judged.judged;
	rates_print(run);
	if (run->n_compared)
		printf("  the bandwidths of %u tests were compared with those of others\n", run->n_compared);
	if (!judged)
		printf("  no bandwidth was judged: there is no other group, baseline or row of the table\n");
	notes_print(&run->notes);
	if (*partial)
		printf("partial: %s\n", partial);
	for (int i = 0; i < run->c.n; i++)
		verdict_print(run, i, partial);
	printf("stress nccl: %s after %.0f s\n", words[status], nccl_elapsed_s(run));
	fflush(stdout);
}
