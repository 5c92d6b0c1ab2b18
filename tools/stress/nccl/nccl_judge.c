/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_judge.c - is a group's bandwidth what it should be? By the own baseline, else the table; besides, groups of
 * equal size (rails, hosts) by the median of the others. Only the largest size of each case is judged: small ones are
 * latency, which a busy host moves. What is below its bound is run again, on all groups side by side as before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stress/lib/gpu_name.h"
#include "tools/stress/nccl/busbw.h"
#include "tools/stress/nccl/nccl_run.h"

const struct busbw busbws[] = {
#define BUSBW(...) { __VA_ARGS__ },
#include "tools/stress/nccl/busbw.def"
#undef BUSBW
};
const int n_busbws = sizeof(busbws) / sizeof(busbws[0]);

const struct busbw *busbw_find(const char *device, uint32_t collective, int ranks, int nodes, bool nvls, uint64_t bytes)
{
	for (int i = 0; i < n_busbws; i++)
		if (gpu_row_fits(busbws[i].device, device) && busbws[i].collective == collective &&
		    busbws[i].ranks == ranks && nodes == 1 && busbws[i].nvls == nvls && bytes >= busbws[i].bytes_min)
			return &busbws[i];
	return NULL;
}

/* The switch adds up where all GPUs have multicast, there are more than two, and it is not switched off. */
bool nccl_has_nvls(const struct coordinator *c)
{
	const char *enable = getenv("NCCL_NVLS_ENABLE"), *algorithms = getenv("NCCL_ALGO");
	bool all = c->n > 2;

	for (int i = 0; i < c->n; i++)
		all &= c->ranks[i].hello.multicast == 1;
	return all && (!enable || strcmp(enable, "0")) &&
	       (!algorithms || strcasestr(algorithms, "nvls") || *algorithms == '^');
}

void nccl_measure_name(const struct nccl_run *run, const struct nccl_rate *rate, char *text, size_t size)
{
	const struct trial_group *g = &run->groups[rate->group];
	bool host[NCCL_RANKS_MAX] = { false };
	int hosts = 0;

	for (int i = 0; i < g->n; i++) {
		int node = run->c.ranks[g->ranks[i]].node;

		hosts += !host[node];
		host[node] = true;
	}
	snprintf(text, size, "%s %s %s %dx%d", collectives[rate->of.collective].name, nccl_types[rate->of.type].name,
		 rate->of.in_place ? "in" : "out", g->n, hosts);
}

static const char *device_of(const struct nccl_run *run, const struct nccl_rate *rate)
{
	return run->c.ranks[run->groups[rate->group].ranks[0]].hello.name;
}

bool nccl_same_case(const struct nccl_case *a, const struct nccl_case *b)
{
	return a->collective == b->collective && a->type == b->type && a->in_place == b->in_place &&
	       a->bytes == b->bytes;
}

static int others_of(const struct nccl_run *run, const struct nccl_rate *rate, double *others)
{
	int n = 0;

	for (int i = 0; i < run->n_rates; i++)
		if (run->rates[i].group != rate->group && nccl_same_case(&run->rates[i].of, &rate->of) &&
		    run->rates[i].n_values && run->groups[run->rates[i].group].n == run->groups[rate->group].n)
			others[n++] = run->rates[i].judged.value;
	return n;
}

static void row_take(const struct nccl_run *run, const struct nccl_rate *rate, struct bounds *b)
{
	bool nvls = nccl_has_nvls(&run->c);
	const struct busbw *row = busbw_find(device_of(run, rate), rate->of.collective, run->groups[rate->group].n,
					     run->c.n_nodes, nvls, rate->of.bytes);

	if (!row)
		return;
	b->least = row->least;
	snprintf(b->row, sizeof(b->row), "table, %s, %s NVLS: %s, %s", row->device, nvls ? "with" : "without",
		 row->source, row->date);
}

static void rate_hold(struct nccl_run *run, struct nccl_rate *rate, const struct baseline *baseline)
{
	char measure[64];
	struct bounds b = {
		.better = BETTER_MORE,
		.near = TOLERANCE_RATE,
		.near_own = TOLERANCE_RATE,
		.baseline = baseline,
		.own = { .uuid = "", .device = device_of(run, rate), .measure = measure, .size = rate->of.bytes >> 10 },
		.others = calloc(run->n_groups, sizeof(double)),
		.others_are = "the ",
	};

	if (!b.others)
		abort();
	nccl_measure_name(run, rate, measure, sizeof(measure));
	b.n_others = others_of(run, rate, b.others);
	row_take(run, rate, &b);
	if (!judgement_hold(&rate->judged, &b))
		nccl_note(run, "the baseline has no %s of %llu bytes", measure, (unsigned long long)rate->of.bytes);
	free(b.others);
}

static bool is_largest(const struct nccl_run *run, const struct nccl_rate *rate)
{
	for (int i = 0; i < run->n_rates; i++) {
		const struct nccl_rate *other = &run->rates[i];

		if (other->group == rate->group && other->of.collective == rate->of.collective &&
		    other->of.type == rate->of.type && other->of.in_place == rate->of.in_place &&
		    other->of.bytes > rate->of.bytes && other->n_values)
			return false;
	}
	return rate->n_values > 0;
}

static void rates_measured(struct nccl_run *run)
{
	for (int i = 0; i < run->n_rates; i++) {
		struct nccl_rate *rate = &run->rates[i];

		if (!rate->n_values)
			continue;
		rate->judged.value = values_median(rate->values, rate->n_values);
		rate->judged.n_rounds = rate->n_values;
		rate->judged.measured = true;
	}
}

static void rates_hold(struct nccl_run *run, const struct baseline *baseline)
{
	for (int i = 0; i < run->n_rates; i++)
		if (is_largest(run, &run->rates[i]))
			rate_hold(run, &run->rates[i], baseline);
}

/* --- again --- */

/* The first open one of a case runs it for all groups. */
static bool is_first_open(const struct nccl_run *run, int rate)
{
	for (int i = 0; i < rate; i++)
		if (judgement_is_open(&run->rates[i].judged) && nccl_same_case(&run->rates[i].of, &run->rates[rate].of))
			return false;
	return judgement_is_open(&run->rates[rate].judged);
}

static bool any_open(const struct nccl_run *run)
{
	for (int i = 0; i < run->n_rates; i++)
		if (judgement_is_open(&run->rates[i].judged) && run->groups[run->rates[i].group].joined)
			return true;
	return false;
}

void nccl_hold(struct nccl_run *run, const struct baseline *baseline)
{
	struct again again;
	uint64_t seed = run->options->seed << 20 | 1u << 19; /* operands that no sweep had */

	rates_measured(run);
	rates_hold(run, baseline);
	run->again = true;
	again_begin(&again, run->options);
	while (any_open(run) && again_next(&again)) {
		for (int i = 0; i < run->n_rates && !run->c.stopped && !again_is_over(&again); i++) {
			struct nccl_case of = run->rates[i].of;

			of.seed = seed++;
			if (is_first_open(run, i))
				nccl_case_run(run, &of);
		}
		rates_hold(run, baseline);
	}
}

/* --- faults --- */

static const char *rate_text(const struct nccl_run *run, const struct nccl_rate *rate, char *text, size_t size)
{
	char what[160], judged[JUDGE_TEXT];

	case_name(&rate->of, what, sizeof(what));
	snprintf(text, size, "%.79s: %.80s: %s", run->groups[rate->group].name, what,
		 judgement_text(&rate->judged, BETTER_MORE, "GB/s", judged, sizeof(judged)));
	return text;
}

static void slow_fault(struct nccl_run *run, const struct nccl_rate *rate)
{
	struct fault fault = { .kind = FAULT_SLOW, .gpu = -1, .measure = -1, .held = rate->judged, .unit = "GB/s" };
	char text[FAULT_TEXT - 80];

	snprintf(fault.text, sizeof(fault.text), "%s%s", rate_text(run, rate, text, sizeof(text)),
		 run->n_groups > 1 ? "" : ": ranktrace stress p2p, or --split and --bisect over hosts, name a link");
	nccl_fault_take(run, &fault);
}

void nccl_judge(struct nccl_run *run)
{
	char text[FAULT_TEXT];

	for (int i = 0; i < run->n_rates; i++) {
		const struct nccl_rate *rate = &run->rates[i];

		if (rate->judged.failed)
			slow_fault(run, rate);
		if (judgement_is_unsteady(&rate->judged))
			nccl_note(run, "%s", rate_text(run, rate, text, sizeof(text)));
	}
}

int nccl_baseline_save(struct nccl_run *run, int status, char why[LIBRARY_WHY])
{
	struct baseline_line *lines = calloc(run->n_rates + 1, sizeof(*lines));
	char(*names)[64] = calloc(run->n_rates + 1, sizeof(*names));
	int n = 0, err = 0;

	if (!lines || !names)
		abort();
	for (int i = 0; i < run->n_rates && !status; i++) {
		const struct nccl_rate *rate = &run->rates[i];

		if (!is_largest(run, rate) || rate->group)
			continue;
		nccl_measure_name(run, rate, names[n], sizeof(names[n]));
		lines[n] = (struct baseline_line){ "",     device_of(run, rate), names[n],
						   "GB/s", rate->of.bytes >> 10, rate->judged.value };
		n++;
	}
	if (!status)
		err = baseline_lines_write(run->options->save_baseline, lines, n);
	free(lines);
	free(names);
	if (!err)
		return status;
	snprintf(why, LIBRARY_WHY, "--save-baseline: %.200s: %s", run->options->save_baseline, strerror(-err));
	return STRESS_USAGE;
}
