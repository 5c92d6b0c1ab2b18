/* SPDX-License-Identifier: Apache-2.0
 *
 * report.c - see report.h. Lines for people here; report_json.c has those for programs.
 */
#include "tools/stress/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/stress/health.h"
#include "tools/stress/report_json.h"

#define BAR_WIDTH 24
#define PLAIN_PERIOD_S 10
#define LIVE_MAX 4 /* GPUs with a column of their own in the bar's line */
#define CLEAR_LINE "\r\033[K"

static void bar_clear(struct report *r)
{
	if (r->bar)
		fputs(CLEAR_LINE, stdout);
	r->bar = false;
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

void report_begin(struct report *r, const struct stress_run *run)
{
	if (r->mode == REPORT_NONE)
		return;
	if (r->mode == REPORT_JSON) {
		json_begin(run);
		return;
	}
	printf("stress gpu: %d GPU%s, %.0f s, matrices of %u, %.0f %% of free memory\n", run->n_gpus,
	       plural(run->n_gpus), run->options->time_ns * 1e-9, run->options->size, 100 * run->options->memory_share);
	for (int i = 0; i < run->n_gpus; i++)
		printf("  GPU %d  %s  %s  %s  %zu MiB free\n", run->gpus[i].ordinal, run->gpus[i].name,
		       run->gpus[i].pci, run->gpus[i].uuid, run->gpus[i].free_bytes >> 20);
	if (run->options->inject.kind)
		printf("  a fault is injected on purpose on GPU %d (--inject)\n", run->options->inject.gpu);
	fflush(stdout);
}

void report_window(struct report *r, const struct stress_run *run, int round)
{
	if (r->mode == REPORT_JSON)
		json_window(run, round);
	if (r->mode != REPORT_PLAIN)
		return;
	if (run->again)
		printf("%8.1f s  again, as it is below the bound: %s\n", run_elapsed_s(run),
		       measure_name(run->measure_now));
	else
		printf("%8.1f s  round %d: %s\n", run_elapsed_s(run), round, measure_name(run->measure_now));
	fflush(stdout);
}

/* "bf16"; of a test that has no rate now, as of links: nothing. */
static const char *measure_now_name(const struct stress_run *run)
{
	return run->measure_now < 0 ? "" : measure_name(run->measure_now);
}

/* " 712 TFLOP/s", of many GPUs " 698 to 712 TFLOP/s". */
static void rates_live_print(const struct stress_run *run, double least, double most)
{
	if (run->measure_now < 0)
		return;
	if (least < most)
		printf(" %.4g to", least);
	printf(" %.4g %s", most, measure_unit(run->measure_now));
}

/* " GPU 0 712 TFLOP/s 61 C 698 W", or of many the range. */
static void live_print(const struct stress_run *run)
{
	double least = INFINITY, most = 0, hottest = -1;

	for (int i = 0; i < run->n_gpus; i++) {
		const struct stress_gpu *gpu = &run->gpus[i];
		double rate = gpu->rate_now;

		if (run->n_gpus <= LIVE_MAX) {
			printf("  GPU %d", gpu->ordinal);
			rates_live_print(run, rate, rate);
			printf(" %.0f C %.0f W", gpu->health.temperature_c, gpu->health.power_w);
		}
		least = rate < least ? rate : least;
		most = rate > most ? rate : most;
		hottest = gpu->health.temperature_c > hottest ? gpu->health.temperature_c : hottest;
	}
	if (run->n_gpus > LIVE_MAX) {
		printf("  %d GPUs", run->n_gpus);
		rates_live_print(run, least, most);
		printf(", up to %.0f C", hottest);
	}
}

static void bar_print(struct report *r, const struct stress_run *run)
{
	double share = run_elapsed_s(run) / (run->options->time_ns * 1e-9);
	int full;

	share = share < 1 ? share : 1;
	full = share * BAR_WIDTH;
	printf(CLEAR_LINE "[%.*s%.*s] %3.0f %% %-6s", full, "########################", BAR_WIDTH - full,
	       "........................", 100 * share, measure_now_name(run));
	live_print(run);
	if (run->n_faults_all)
		printf("  %u fault%s", run->n_faults_all, plural(run->n_faults_all));
	r->bar = true;
	fflush(stdout);
}

void report_tick(struct report *r, const struct stress_run *run, uint64_t tick)
{
	double now_s = run_elapsed_s(run);

	pthread_mutex_lock((pthread_mutex_t *)&run->lock);
	if (r->mode == REPORT_TERMINAL)
		bar_print(r, run);
	else if (r->mode == REPORT_JSON && tick % 2 == 0)
		json_sample(run);
	else if (r->mode == REPORT_PLAIN && now_s - r->printed_s >= PLAIN_PERIOD_S) {
		r->printed_s = now_s;
		printf("%8.1f s  %s", now_s, measure_now_name(run));
		live_print(run);
		printf("\n");
		fflush(stdout);
	}
	pthread_mutex_unlock((pthread_mutex_t *)&run->lock);
}

void report_fault(struct report *r, const struct stress_run *run, const struct fault *fault)
{
	if (r->mode == REPORT_NONE)
		return;
	if (r->mode == REPORT_JSON) {
		json_fault(run, fault);
		return;
	}
	bar_clear(r);
	printf("%8.1f s  FAULT GPU %d  %s: %s\n", fault->at_s, run->gpus[fault->gpu].ordinal,
	       fault_kind_name(fault->kind), fault->text);
	fflush(stdout);
}

/* --- the end --- */

static void rate_print(const struct stress_gpu *gpu, int measure)
{
	const struct judgement *j = &gpu->judged[measure];
	double trend;

	if (gpu->unsupported[measure]) {
		printf("  GPU %-3d %-7s not on this GPU or in this cuBLASLt, or too slow for --quick\n", gpu->ordinal,
		       measure_name(measure));
		return;
	}
	if (!j->measured) {
		printf("  GPU %-3d %-7s not measured\n", gpu->ordinal, measure_name(measure));
		return;
	}
	printf("  GPU %-3d %-7s %8.4g %-8s", gpu->ordinal, measure_name(measure), j->value, measure_unit(measure));
	if (j->judged)
		printf("%s %.4g: %s", j->failed ? "FAILED, less than" : "at least", j->bound, j->rule);
	else
		printf("no threshold: there is no other GPU, baseline or row of the table");
	if (measure < N_NUMBERS)
		printf("; %llu results compared, row sums within %.2g of their bound",
		       (unsigned long long)gpu->checked[measure], gpu->checksum_share[measure]);
	else
		printf("; %.1f GiB, %.1f GiB read", gpu->memory_bytes / 1073741824.0,
		       gpu->checked[measure] / 1073741824.0); /* lint: a measure is below N_MEASURES */
	if (series_trend(&gpu->series[measure], &trend))
		printf("; %+.1f %% over the run", 100 * trend);
	printf("\n");
}

static void health_print(const struct stress_gpu *gpu)
{
	const struct health *h = &gpu->health;
	char names[120];

	printf("  GPU %-3d health  up to %.0f C, %.0f W of %.0f, clocks %.0f to %.0f MHz, lowered by: %s; "
	       "ECC corrected %lld, uncorrectable %lld, rows to remap %lld\n",
	       gpu->ordinal, h->temperature_max_c, h->power_max_w, h->limit_w, h->sm_mhz_min, h->sm_mhz,
	       health_reasons(h->reasons_seen, names, sizeof(names)), (long long)h->ecc_corrected,
	       (long long)h->ecc_uncorrected, (long long)h->rows_pending);
}

static void verdict_print(const struct stress_run *run, const struct stress_gpu *gpu, const char *partial)
{
	const struct fault *first = NULL;

	for (uint32_t i = 0; i < run->n_faults && !first; i++)
		if (run->faults[i].gpu == gpu->index)
			first = &run->faults[i];
	printf("GPU %d  %s  %s  %s: ", gpu->ordinal, gpu->name, gpu->pci, gpu->uuid);
	if (first)
		printf("FAILED, %u fault%s, the first: %s: %s\n", gpu->n_faults, plural(gpu->n_faults),
		       fault_kind_name(first->kind), first->text);
	else
		printf("%s\n", *partial ? "no fault so far (partial)" : "passed");
}

void notes_add(struct notes *notes, const char *format, va_list args)
{
	char text[FAULT_TEXT];

	vsnprintf(text, sizeof(text), format, args);
	for (int i = 0; i < notes->n; i++)
		if (!strcmp(notes->texts[i], text))
			return;
	if (notes->n < NOTES_MAX) {
		memcpy(notes->texts[notes->n++], text, sizeof(text));
		return;
	}
	notes->n_dropped += notes->n_dropped ? 1 : 2; /* its own line takes the place of one */
	snprintf(notes->texts[NOTES_MAX - 2], FAULT_TEXT, "(%d more, which are not kept)", notes->n_dropped);
	memcpy(notes->texts[NOTES_MAX - 1], text, sizeof(text));
}

void notes_unmeasured(const struct notes *notes, char *why, size_t size)
{
	snprintf(why, size, "nothing could be measured: %.400s",
		 notes->n ? notes->texts[notes->n - 1] : "no case was tried");
}

void notes_print(const struct notes *notes)
{
	for (int i = 0; i < notes->n; i++)
		printf("note: %s\n", notes->texts[i]);
}

void report_end(struct report *r, const struct stress_run *run, int status, const char *partial)
{
	static const char *const words[] = { "passed", "FAILED", "usage", "not possible here" };

	if (r->mode == REPORT_NONE)
		return;
	if (r->mode == REPORT_JSON) {
		json_end(run, status, partial);
		return;
	}
	bar_clear(r);
	printf("\n");
	for (int i = 0; i < run->n_gpus; i++) {
		for (int measure = 0; measure < N_MEASURES; measure++)
			if (run->options->measures >> measure & 1)
				rate_print(&run->gpus[i], measure);
		health_print(&run->gpus[i]);
	}
	notes_print(&run->notes);
	if (*partial)
		printf("partial: %s\n", partial);
	for (int i = 0; i < run->n_gpus; i++)
		verdict_print(run, &run->gpus[i], partial);
	printf("stress gpu: %s after %.0f s\n", words[status], run_elapsed_s(run));
	fflush(stdout);
}
