/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stress_judge.c - thresholds against the physical limits, which rule a rate is held to, baselines, options,
 * trends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <math.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/stress/gpu/gemm.h"
#include "tools/stress/report.h"
#include "tools/stress/threshold.h"

/* Peak rates without sparsity, of NVIDIA's data sheets: TFLOP/s, GB/s. */
static const struct {
	const char *device, *measure;
	double peak;
} limits[] = {
	/* H100 and H200 tensor core GPU data sheets, SXM */
	{ "*H200", "bf16", 989 },
	{ "*H200", "fp8", 1979 },
	{ "*H200", "fp32", 67 },
	{ "*H200", "memory", 4800 },
	{ "*H100 80GB HBM3*", "bf16", 989 },
	{ "*H100 80GB HBM3*", "fp8", 1979 },
	{ "*H100 80GB HBM3*", "fp32", 67 },
	{ "*H100 80GB HBM3*", "memory", 3350 },
	{ "*H100 80GB HBM3*", "fp16", 989 },
	{ "*H100 80GB HBM3*", "tf32", 494 },
	{ "*H100 80GB HBM3*", "fp64", 67 },
	{ "*H100 80GB HBM3*", "int8", 1979 },
	/* A100 tensor core GPU data sheet, 80 GB SXM */
	{ "*A100-SXM4-80GB*", "bf16", 312 },
	{ "*A100-SXM4-80GB*", "memory", 2039 },
	/* Blackwell: HGX B200 and B300, GB200 NVL72 data sheets, a GPU's share */
	{ "*GB200*", "bf16", 2500 },
	{ "*GB200*", "fp8", 5000 },
	{ "*B200*", "bf16", 2250 },
	{ "*B200*", "fp8", 4500 },
	{ "*B200*", "fp32", 75 },
	{ "*B200*", "memory", 8000 },
	{ "*B300*", "bf16", 2250 },
	{ "*B300*", "fp8", 4500 },
};

static void test_rows_near_the_limit(void **state)
{
	(void)state;
	for (int i = 0; i < n_thresholds; i++) {
		const struct threshold *t = &thresholds[i];
		double peak = 0;

		for (size_t j = 0; j < sizeof(limits) / sizeof(limits[0]); j++)
			if (!strcmp(limits[j].device, t->device) && !strcmp(limits[j].measure, t->measure))
				peak = limits[j].peak;
		if (!(t->least >= peak / 2 && t->least <= peak))
			fail_msg("%s %s: %g is not within 2x of the limit, %g", t->device, t->measure, t->least, peak);
		assert_true(measure_find(t->measure) >= 0);
		assert_string_equal(t->unit, measure_unit(measure_find(t->measure)));
		assert_true(*t->source && *t->date);
	}
}

static void test_row_by_name_and_limit(void **state)
{
	const struct threshold *t = threshold_find("NVIDIA H200", "bf16", 700, 8192);

	(void)state;
	assert_non_null(t);
	assert_string_equal(t->device, "*H200");
	assert_null(threshold_find("NVIDIA H200", "bf16", 500, 8192)); /* capped by its owner: no row is for that */
	assert_null(threshold_find("NVIDIA H200", "bf16", -1, 8192));
	assert_non_null(threshold_find("NVIDIA H200", "memory", -1, 64));
	assert_null(threshold_find("NVIDIA H200", "bf16", 700, 2048)); /* smaller products are slower */
	assert_null(threshold_find("NVIDIA H100 PCIe", "bf16", 700, 8192));
	assert_null(threshold_find("NVIDIA H200 NVL", "memory", 600, 8192));
	assert_non_null(threshold_find("NVIDIA A100-SXM4-80GB", "memory", 400, 8192)); /* and not a slice of it */
	assert_null(threshold_find("NVIDIA A100-SXM4-80GB MIG 1g.10gb", "memory", 400, 8192));
	assert_string_equal(threshold_find("NVIDIA GB200", "bf16", 1200, 8192)->device, "*GB200*");
}

static struct stress_run run;
static struct stress_options options;

static void run_make(const char *name, const double *values, int n)
{
	memset(&run, 0, sizeof(run));
	options = (struct stress_options){ .measures = 1u << NUMBER_bf16, .size = 8192 };
	run.options = &options;
	run.n_gpus = n;
	pthread_mutex_init(&run.lock, NULL);
	for (int i = 0; i < n; i++) {
		struct stress_gpu *gpu = &run.gpus[i];

		*gpu = (struct stress_gpu){ .run = &run, .index = i, .ordinal = i, .health.limit_w = 700 };
		snprintf(gpu->name, sizeof(gpu->name), "%s", name);
		snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%d", i);
		if (values[i] > 0)
			series_add(&gpu->series[NUMBER_bf16], values[i]);
	}
}

static void judge(const struct baseline *baseline)
{
	run_measured(&run);
	run_hold(&run, baseline);
	run_judge(&run);
}

static void test_straggler_by_comparison(void **state)
{
	const double values[] = { 700, 640, 701, 705 }; /* 8.6 % below the others' median */

	(void)state;
	run_make("some GPU", values, 4);
	judge(NULL);
	assert_int_equal(run.n_faults, 1);
	assert_int_equal(run.faults[0].gpu, 1);
	assert_int_equal(run.faults[0].kind, FAULT_SLOW);
	assert_non_null(strstr(run.faults[0].text, "median of the node's 3 others"));
}

/* Healthy GPUs of one node differ by 5 %, and by 7 if they are unlucky. */
static void test_silicon_lottery_passes(void **state)
{
	const double values[] = { 700, 660, 705, 671, 690, 702, 668, 699 };

	(void)state;
	run_make("some GPU", values, 8);
	judge(NULL);
	assert_int_equal(run.n_faults, 0);
	assert_true(run.gpus[1].judged[NUMBER_bf16].judged);
}

/* All alike and all slow: the comparison cannot see it, the table does. */
static void test_table_besides_comparison(void **state)
{
	const double values[] = { 500, 500, 501, 499 };

	(void)state;
	run_make("NVIDIA H200", values, 4);
	judge(NULL);
	assert_int_equal(run.n_faults, 4);
	assert_non_null(strstr(run.faults[0].text, "table, *H200"));
}

/* Below its bound at first: what its turns come to. */
static struct judgement held(double first, enum better better, double least)
{
	struct judgement j = { .measured = true, .value = first, .n_rounds = 1 };
	const struct bounds b = { .better = better, .least = least, .row = "a row" };

	judgement_hold(&j, &b);
	return j;
}

static void turn(struct judgement *j, enum better better, double value, double least)
{
	const struct bounds b = { .better = better, .least = least, .row = "a row" };

	judgement_turn(j, better, value);
	judgement_hold(j, &b);
}

static void test_dip_is_unsteady(void **state)
{
	struct judgement j = held(31.86, BETTER_MORE, 48);
	char text[JUDGE_TEXT];

	(void)state;
	assert_true(judgement_is_open(&j));
	turn(&j, BETTER_MORE, 40, 48);
	assert_true(judgement_is_open(&j) && !judgement_is_unsteady(&j));
	turn(&j, BETTER_MORE, 55, 48);
	assert_false(judgement_is_open(&j));
	assert_true(judgement_is_unsteady(&j) && j.value == 55);
	assert_string_equal(judgement_text(&j, BETTER_MORE, "GB/s", text, sizeof(text)),
			    "unsteady: 31.86, 40, 55 GB/s in 3 measurements, the first less than 48 (a row)");
	j = held(50, BETTER_MORE, 48); /* never below: nothing to say */
	assert_false(judgement_is_open(&j) || judgement_is_unsteady(&j));
}

static void test_slow_in_each_turn(void **state)
{
	struct judgement j = held(30, BETTER_MORE, 48);
	char text[JUDGE_TEXT];

	(void)state;
	assert_string_equal(judgement_text(&j, BETTER_MORE, "GB/s", text, sizeof(text)),
			    "30 GB/s, less than 48 (a row)");
	turn(&j, BETTER_MORE, 47, 48);
	turn(&j, BETTER_MORE, 31, 48);
	assert_true(j.failed && j.value == 47 && j.n_turns == 3);
	assert_string_equal(judgement_text(&j, BETTER_MORE, "GB/s", text, sizeof(text)),
			    "47 GB/s at best of 3 measurements (30, 47, 31), less than 48 (a row)");
	for (int i = 0; i < 2 * JUDGE_TURNS; i++)
		turn(&j, BETTER_MORE, 20, 48);
	assert_int_equal(j.n_turns, JUDGE_TURNS);
	turn(&j, BETTER_MORE, NAN, 48); /* it could not be measured */
	assert_true(j.failed && j.value == 47);
}

/* Of a time less is better. */
static void test_turns_of_latency(void **state)
{
	struct judgement j = held(1600, BETTER_LESS, 1250);

	(void)state;
	turn(&j, BETTER_LESS, 1700, 1250);
	assert_true(j.failed && j.value == 1600);
	turn(&j, BETTER_LESS, 1000, 1250);
	assert_true(judgement_is_unsteady(&j) && j.value == 1000);
}

/* A day of slowness is not undone by a turn. */
static void test_median_of_many_is_not_open(void **state)
{
	const double values[] = { 700, 600, 705 };

	(void)state;
	run_make("some GPU", values, 3);
	run_measured(&run);
	run_hold(&run, NULL);
	assert_true(judgement_is_open(&run.gpus[1].judged[NUMBER_bf16]));
	for (int i = 0; i < 2; i++)
		run_window_take(&run.gpus[1], NUMBER_bf16, 600);
	run_measured(&run);
	run_hold(&run, NULL);
	assert_true(run.gpus[1].judged[NUMBER_bf16].failed);
	assert_false(judgement_is_open(&run.gpus[1].judged[NUMBER_bf16]));
}

/* Turns of a window are of all GPUs: each keeps its best, and only who was below has turns. */
static void test_turns_of_gpus(void **state)
{
	const double values[] = { 700, 600, 705 };

	(void)state;
	run_make("some GPU", values, 3);
	run_measured(&run);
	run_hold(&run, NULL);
	run.again = true;
	run_window_take(&run.gpus[0], NUMBER_bf16, 690);
	run_window_take(&run.gpus[1], NUMBER_bf16, 698);
	run_window_take(&run.gpus[2], NUMBER_bf16, 710);
	run_hold(&run, NULL);
	run_judge(&run);
	assert_int_equal(run.n_faults, 0);
	assert_int_equal(run.notes.n, 1);
	assert_non_null(strstr(run.notes.texts[0], "GPU 1: bf16: unsteady: 600, 698 TFLOP/s"));
	assert_true(run.gpus[0].judged[NUMBER_bf16].value == 700 && run.gpus[2].judged[NUMBER_bf16].value == 710);
	assert_int_equal(run.gpus[2].judged[NUMBER_bf16].n_turns, 0);
}

static void test_missing_fails(void **state)
{
	const double values[] = { 700, 0 };

	(void)state;
	run_make("some GPU", values, 2);
	judge(NULL);
	assert_int_equal(run.n_faults, 1);
	assert_int_equal(run.faults[0].kind, FAULT_MISSING);
	assert_int_equal(run.faults[0].gpu, 1);
	assert_false(run.gpus[0].judged[NUMBER_bf16].judged); /* nothing to compare with */
}

static void test_other_classes_are_no_measure(void **state)
{
	const double values[] = { 700, 300 };

	(void)state;
	run_make("some GPU", values, 2);
	run.gpus[1].class = 1;
	judge(NULL);
	assert_int_equal(run.n_faults, 0);
}

#define SECOND_NS 1000000000ull

/* A window of three seconds has room for three products; a type of the table is measured at any speed. */
static void test_quick_leaves_no_row_out(void **state)
{
	struct stress_options options = { .size = 8192, .all = { .quick = true } };
	struct stress_run *run = calloc(1, sizeof(*run));
	struct stress_gpu *gpu = &run->gpus[0];

	(void)state;
	run->options = &options;
	run->window_ns = 3 * SECOND_NS;
	gpu->run = run;
	gpu->health.limit_w = 700;
	snprintf(gpu->name, sizeof(gpu->name), "NVIDIA L40S");
	assert_false(gemm_is_left_out(gpu, NUMBER_fp64, SECOND_NS));
	assert_true(gemm_is_left_out(gpu, NUMBER_fp64, SECOND_NS + 1));
	snprintf(gpu->name, sizeof(gpu->name), "NVIDIA H100 80GB HBM3");
	assert_false(gemm_is_left_out(gpu, NUMBER_fp64, 9 * SECOND_NS));
	gpu->health.limit_w = 300; /* a row that does not apply holds it to nothing */
	assert_true(gemm_is_left_out(gpu, NUMBER_fp64, 9 * SECOND_NS));
	run->again = true;
	assert_false(gemm_is_left_out(gpu, NUMBER_fp64, 9 * SECOND_NS));
	free(run);
}

static void test_fastest_of_a_class(void **state)
{
	static const uint64_t narrow_ns[] = { 0, 1100, 785, 900, 400 };
	struct stress_run *run = calloc(1, sizeof(*run));
	struct gemm gemms[5];
	struct gemm_class classes[2] = { 0 };

	(void)state;
	run->n_gpus = 6; /* the last one is lost */
	for (int i = 0; i < 5; i++) {
		gemms[i] = (struct gemm){ .narrow_ns = narrow_ns[i], .class = &classes[i / 4] };
		run->gemms[i] = &gemms[i];
	}
	gemm_classes_time(run);
	assert_int_equal(classes[0].product_ns, 785);
	assert_int_equal(classes[1].product_ns, 400);
	free(run);
}

static void test_trend(void **state)
{
	const double one[] = { 700 };

	(void)state;
	run_make("some GPU", one, 1);
	for (int i = 0; i < 30; i++)
		series_add(&run.gpus[0].series[NUMBER_bf16], i < 15 ? 700 : 620);
	judge(NULL);
	assert_int_equal(run.n_faults, 1);
	assert_int_equal(run.faults[0].kind, FAULT_TREND);
}

static void test_baseline_takes_the_tables_place(void **state)
{
	const double good[] = { 600, 600 }, bad[] = { 600, 540 };
	char path[] = "/tmp/stress-baseline-XXXXXX";
	struct baseline *baseline = NULL;
	int fd = mkstemp(path), line;

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	run_make("NVIDIA H200", good, 2);
	judge(NULL); /* below the table's row */
	assert_int_equal(run.n_faults, 2);
	assert_int_equal(baseline_write(path, &run), 0);
	assert_int_equal(baseline_read(path, &baseline, &line), 0);
	run_make("NVIDIA H200", good, 2);
	judge(baseline);
	assert_int_equal(run.n_faults, 0);
	assert_non_null(strstr(run.gpus[0].judged[NUMBER_bf16].rule, "own baseline"));
	run_make("NVIDIA H200", bad, 2);
	run.gpus[1].class = 1;
	judge(baseline);
	assert_int_equal(run.n_faults, 1);
	assert_non_null(strstr(run.faults[0].text, "own baseline"));
	run_make("NVIDIA H200", bad, 2);
	options.size = 4096;
	run.gpus[1].class = 1;
	judge(baseline); /* of another size: it has none */
	assert_int_equal(run.n_faults, 0);
	baseline_free(baseline);
	remove(path);
}

static void test_baseline_torn(void **state)
{
	char path[] = "/tmp/stress-baseline-XXXXXX";
	struct baseline *baseline;
	int fd = mkstemp(path), line;

	(void)state;
	assert_int_equal(write(fd, "{\"uuid\":\"GPU-0\",\"dev", 20), 20);
	close(fd);
	assert_int_equal(baseline_read(path, &baseline, &line), -EINVAL);
	assert_int_equal(line, 1);
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(baseline_read(path, &baseline, &line), -EINVAL);
	remove(path);
	assert_int_equal(baseline_read(path, &baseline, &line), -ENOENT);
}

static void test_series(void **state)
{
	struct series s = { 0 };
	double change;

	(void)state;
	assert_true(isnan(series_median(&s)));
	assert_false(series_trend(&s, &change));
	for (int i = 1; i <= 3 * SERIES_MAX; i++)
		series_add(&s, i);
	assert_true(s.n <= SERIES_MAX);
	assert_true(fabs(series_median(&s) - 1.5 * SERIES_MAX) < 8);
	assert_true(series_trend(&s, &change));
	assert_true(change > 3.9 && change < 4.1); /* a sixth and five sixths of the way */
}

static void test_options(void **state)
{
	struct inject inject;
	uint64_t ns, gpus;
	uint32_t measures;

	(void)state;
	assert_int_equal(time_parse("24h", &ns), 0);
	assert_int_equal(ns, 86400000000000ull);
	assert_int_equal(time_parse("1.5", &ns), 0);
	assert_int_equal(ns, 1500000000);
	assert_int_equal(time_parse("10x", &ns), -EINVAL);
	assert_int_equal(time_parse("-1", &ns), -EINVAL);
	assert_int_equal(time_parse("5mm", &ns), -EINVAL);
	assert_int_equal(time_parse("1e300", &ns), -EINVAL);
	assert_int_equal(time_parse("nan", &ns), -EINVAL);
	assert_int_equal(gpus_parse("0,2-3", &gpus), 0);
	assert_int_equal(gpus, 0xd);
	assert_int_equal(gpus_parse("3-2", &gpus), -EINVAL);
	assert_int_equal(gpus_parse("64", &gpus), -EINVAL);
	assert_int_equal(gpus_parse("", &gpus), -EINVAL);
	assert_int_equal(measures_parse("bf16,memory", &measures), 0);
	assert_int_equal(measures, 1u << NUMBER_bf16 | 1u << MEASURE_MEMORY);
	assert_int_equal(measures_parse("bf17", &measures), -EINVAL);
	assert_int_equal(inject_parse("flip:gpu=1,row=5,col=7,bit=0,always", &inject), 0);
	assert_int_equal(inject.kind, INJECT_FLIP);
	assert_int_equal(inject.column, 7);
	assert_true(inject.always);
	assert_int_equal(inject_parse("mem:gpu=1,at=0x1000,bit=3", &inject), 0);
	assert_int_equal(inject.at, 4096);
	assert_int_equal(inject_parse("nopeer:gpu=1,to=3", &inject), 0);
	assert_int_equal(inject.kind, INJECT_NO_PEER);
	assert_int_equal(inject.to, 3);
	assert_int_equal(inject_parse("flip:gpu=1,line=5", &inject), -EINVAL);
	assert_int_equal(inject_parse("flip", &inject), -EINVAL);
	assert_int_equal(inject_parse("flip:bit=64", &inject), -EINVAL);
}

static void note(struct notes *notes, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	notes_add(notes, format, args);
	va_end(args);
}

/* The last one may say why nothing was measured, and how many are not kept is said. */
static void test_notes_beyond_their_room(void **unused)
{
	struct notes *notes = calloc(1, sizeof(*notes));
	char why[256];

	(void)unused;
	assert_non_null(notes);
	for (int i = 0; i < NOTES_MAX; i++) {
		note(notes, "note %d", i);
		note(notes, "note %d", i);
	}
	assert_int_equal(notes->n, NOTES_MAX);
	assert_string_equal(notes->texts[NOTES_MAX - 1], "note 47");
	for (int i = NOTES_MAX; i < NOTES_MAX + 10; i++)
		note(notes, "note %d", i);
	assert_int_equal(notes->n, NOTES_MAX);
	assert_string_equal(notes->texts[NOTES_MAX - 3], "note 45");
	assert_string_equal(notes->texts[NOTES_MAX - 2], "(11 more, which are not kept)"); /* 46 to 56 */
	assert_string_equal(notes->texts[NOTES_MAX - 1], "note 57");
	notes_unmeasured(notes, why, sizeof(why));
	assert_non_null(strstr(why, "note 57"));
	free(notes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_near_the_limit),
		cmocka_unit_test(test_row_by_name_and_limit),
		cmocka_unit_test(test_straggler_by_comparison),
		cmocka_unit_test(test_silicon_lottery_passes),
		cmocka_unit_test(test_table_besides_comparison),
		cmocka_unit_test(test_dip_is_unsteady),
		cmocka_unit_test(test_slow_in_each_turn),
		cmocka_unit_test(test_turns_of_latency),
		cmocka_unit_test(test_median_of_many_is_not_open),
		cmocka_unit_test(test_turns_of_gpus),
		cmocka_unit_test(test_missing_fails),
		cmocka_unit_test(test_other_classes_are_no_measure),
		cmocka_unit_test(test_trend),
		cmocka_unit_test(test_quick_leaves_no_row_out),
		cmocka_unit_test(test_fastest_of_a_class),
		cmocka_unit_test(test_baseline_takes_the_tables_place),
		cmocka_unit_test(test_baseline_torn),
		cmocka_unit_test(test_series),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_notes_beyond_their_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
