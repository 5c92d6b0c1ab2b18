/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_scaling.c - how a collective grows with its size. Efficiency: bus bandwidth by the best one of its sizes.
 * Linearity: the time by what lies on the line from the smallest size's to the largest's; well above 1 is a size at
 * which NCCL chooses badly, or that the network does not carry. p99: of single operations.
 */
#include <cjson/cJSON.h>
#include <stdio.h>

#include "tools/stress/nccl/nccl_run.h"
#include "tools/stress/report_json.h"

struct scale {
	double us, best_busbw, least_us, most_us;
	uint64_t least_bytes, most_bytes;
	int sizes;
};

static double us_of(const struct nccl_run *run, const struct nccl_rate *r)
{
	double factor = collective_bus_factor(r->of.collective, run->groups[r->group].n);

	return r->judged.value > 0 ? r->bytes * factor / (r->judged.value * 1e3) : 0;
}

static bool same_kind(const struct nccl_rate *a, const struct nccl_rate *b)
{
	return a->group == b->group && a->of.collective == b->of.collective && a->of.type == b->of.type &&
	       a->of.in_place == b->of.in_place;
}

static struct scale scale_of(const struct nccl_run *run, const struct nccl_rate *of)
{
	struct scale s = { .us = us_of(run, of) };

	for (int i = 0; i < run->n_rates; i++) {
		const struct nccl_rate *r = &run->rates[i];
		double us = us_of(run, r);

		if (!same_kind(r, of) || !(us > 0))
			continue;
		s.sizes++;
		s.best_busbw = r->judged.value > s.best_busbw ? r->judged.value : s.best_busbw;
		if (r->bytes > s.most_bytes) {
			s.most_bytes = r->bytes;
			s.most_us = us;
		}
		if (s.sizes == 1 || r->bytes < s.least_bytes) {
			s.least_bytes = r->bytes;
			s.least_us = us;
		}
	}
	return s;
}

static void row_json(const struct nccl_run *run, const struct nccl_rate *r, const struct scale *s, double linearity)
{
	cJSON *line = json_line_begin("scaling");

	cJSON_AddStringToObject(line, "group", run->groups[r->group].name);
	cJSON_AddStringToObject(line, "collective", collectives[r->of.collective].name);
	cJSON_AddStringToObject(line, "number", nccl_types[r->of.type].name);
	cJSON_AddBoolToObject(line, "in_place", r->of.in_place);
	cJSON_AddNumberToObject(line, "bytes", r->bytes);
	cJSON_AddNumberToObject(line, "runs", r->n_values);
	cJSON_AddNumberToObject(line, "us", s->us);
	cJSON_AddNumberToObject(line, "us_p99", r->p99 * 1e6);
	cJSON_AddNumberToObject(line, "busbw_gbytes_s", r->judged.value);
	cJSON_AddNumberToObject(line, "efficiency", r->judged.value / s->best_busbw);
	cJSON_AddNumberToObject(line, "linearity", linearity);
	json_line_end(line);
}

void nccl_scaling_report(const struct nccl_run *run)
{
	bool begun = false;

	for (int i = 0; i < run->n_rates && run->mode != REPORT_NONE; i++) {
		const struct nccl_rate *r = &run->rates[i];
		struct scale s = scale_of(run, r);
		double linear_us;

		if (s.sizes < 2 || !(s.us > 0) || s.most_bytes == s.least_bytes)
			continue;
		linear_us = s.least_us +
			    (s.most_us - s.least_us) * (r->bytes - s.least_bytes) / (s.most_bytes - s.least_bytes);
		if (run->mode == REPORT_JSON) {
			row_json(run, r, &s, s.us / linear_us);
			continue;
		}
		if (!begun)
			printf("\n%-14s %-8s %12s %-3s %10s %10s %9s %10s %9s\n", "scaling", "type", "bytes", "", "us",
			       "p99 us", "bus GB/s", "efficiency", "linearity");
		begun = true;
		printf("%-14s %-8s %12llu %-3s %10.1f %10.1f %9.2f %8.0f %% %9.2f  %s\n",
		       collectives[r->of.collective].name, nccl_types[r->of.type].name, (unsigned long long)r->bytes,
		       r->of.in_place ? "in" : "out", s.us, r->p99 * 1e6, r->judged.value,
		       100 * r->judged.value / s.best_busbw, s.us / linear_us,
		       run->n_groups > 1 ? run->groups[r->group].name : "");
	}
}
