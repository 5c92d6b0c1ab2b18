/* SPDX-License-Identifier: Apache-2.0
 *
 * test_gpu_health_rules.c - where the rules of detector gpu_health begin and end: how long throttled, how many errors
 * between two checkups, for how long it is reported, of whom. GPU 0 by hand.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/detect.h"
#include "tests/unit/job/evidence.h"
#define HAND_RANKS 2
#include "tests/unit/job/hand_gpu.h"

static struct gpu *const g = &gpus[0];
static struct gpu_health health;
static struct gpu_sample sample;
static struct finding_list list;
static void *detector;

static void tick(void)
{
	list.n = 0;
	assert_int_equal(detector_gpu_health.tick(detector, &m, &list), 0);
}

/* So much later, a sample with these reasons why clocks are low. */
static void look(uint64_t later_ns, uint64_t slowdown)
{
	m.now_ns += later_ns;
	sample.slowdown = slowdown;
	hand_sample(g, m.now_ns, sample);
	tick();
}

static void checkup(void)
{
	m.now_ns += SEC;
	g->checkups[g->n_checkups++ % GPU_HEALTHS_KEPT] = (struct gpu_checkup){ m.now_ns, health };
	if (g->n_checkups == 1)
		g->first = health;
	tick();
}

static int begin(void **state)
{
	hand_setup(state);
	hand_gpus();
	health = (struct gpu_health){ .nvlinks_active = 18, .pcie_width = 16 };
	sample = (struct gpu_sample){
		.window_ns = SEC, .sm_bp = 9000, .sm_clock_mhz = 1200, .temperature_c = 90, .power_mw = 650500
	};
	list = (struct finding_list){ 0 };
	detector = calloc(1, detector_gpu_health.state_bytes);
	return 0;
}

static int end(void **state)
{
	(void)state;
	detector_gpu_health.release(detector);
	free(detector);
	finding_list_free(&list);
	return 0;
}

static void again(void **state)
{
	end(state);
	begin(state);
}

static const struct finding *only(void)
{
	assert_true(list.n <= 1);
	return list.n ? &list.items[0] : NULL;
}

static bool is(enum finding_cause cause)
{
	return only() && only()->cause == cause;
}

static const struct {
	uint64_t bits;
	enum finding_cause cause;
} reasons[] = { { 0x20, CAUSE_THROTTLED_THERMAL_SOFTWARE },
		{ 0x40, CAUSE_THROTTLED_THERMAL },
		{ 0x48, CAUSE_THROTTLED_THERMAL },
		{ 0x80, CAUSE_THROTTLED_POWER_BRAKE },
		{ 0x88, CAUSE_THROTTLED_POWER_BRAKE },
		{ 0x8, CAUSE_THROTTLED_HARDWARE },
		{ 0x4, CAUSE_NONE },
		{ 0x13, CAUSE_NONE } };

/* In three samples, over three seconds. */
static void why_clocks_are_low(void **state)
{
	for (int i = 0; i < 8; i++) {
		uint64_t since;

		again(state);
		look(SEC, reasons[i].bits);
		since = m.now_ns;
		look(1500 * MSEC, reasons[i].bits);
		look(1500 * MSEC - 1, reasons[i].bits);
		assert_null(only());
		look(1, reasons[i].bits);
		if (reasons[i].cause == CAUSE_NONE) {
			assert_null(only());
			continue;
		}
		assert_true(is(reasons[i].cause));
		assert_int_equal(only()->since_ns, since);
		assert_int_equal(only()->n_ranks, 1);
		assert_true(number_named(only(), "sm_clock_mhz", 0) == 1200);
		assert_true(number_named(only(), "temperature_c", 0) == 90);
		assert_true(number_named(only(), "power_w", 0) == 650.5);
		look(10 * SEC, 0);
		assert_true(is(reasons[i].cause));
		look(1, 0);
		assert_null(only());
	}
}

static void three_samples_of_it(void **state)
{
	(void)state;
	look(SEC, 0x40);
	look(3 * SEC, 0x40);
	assert_null(only());
	look(1, 0x40);
	assert_true(is(CAUSE_THROTTLED_THERMAL));
	sample.power_mw = sample.sm_clock_mhz = sample.temperature_c = GPU_NO_VALUE;
	look(1, 0x40);
	assert_null(evidence_named(only(), "power_w"));
	assert_null(evidence_named(only(), "sm_clock_mhz"));
	assert_null(evidence_named(only(), "temperature_c"));
	look(10 * SEC + 1, 0x40); /* once more, from the beginning or not: it never ceased for long */
	assert_true(is(CAUSE_THROTTLED_THERMAL));
	look(10 * SEC + 1, 0);
	look(SEC, 0x40);
	assert_null(only());
}

/* Several samples between two ticks are all read, also those that were overwritten: these are not there. */
static void samples_between_two_ticks(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		hand_sample(g, NOW + i * 2 * SEC, (struct gpu_sample){ .slowdown = 0x40 });
	m.now_ns += 10 * SEC;
	tick();
	assert_true(is(CAUSE_THROTTLED_THERMAL));
	assert_int_equal(only()->since_ns, NOW);
	again(state);
	for (int i = 0; i < GPU_SAMPLES_KEPT + 2; i++)
		hand_sample(g, NOW + i * SEC, (struct gpu_sample){ .slowdown = 0x40 });
	tick();
	assert_int_equal(only()->since_ns, NOW + 2 * SEC);
}

/* --- checkups --- */

static void what_is_a_state(void **state)
{
	static const enum finding_cause causes[] = { CAUSE_ROWS_PENDING, CAUSE_REMAP_FAILED, CAUSE_PAGES_PENDING,
						     CAUSE_INFOROM_CORRUPT };

	for (int i = 0; i < 4; i++) {
		uint32_t *of = i == 0   ? &health.rows_pending
			       : i == 1 ? &health.rows_failed
			       : i == 2 ? &health.pages_pending
					: &health.inforom_bad;
		uint64_t since;

		again(state);
		*of = GPU_NO_VALUE;
		checkup();
		assert_null(only());
		*of = 1;
		checkup();
		since = m.now_ns;
		assert_true(is(causes[i]));
		assert_int_equal(!!evidence_named(only(), "ecc_uncorrected"), i < 2);
		checkup();
		assert_int_equal(only()->since_ns, since);
		m.now_ns += 100 * SEC;
		tick();
		assert_true(is(causes[i])); /* as long as it is so */
		*of = 0;
		checkup();
		assert_null(only());
	}
}

/* More than 60 s it is not told. */
static void memory_errors(void **state)
{
	(void)state;
	health.ecc_uncorrected = 5; /* of before */
	health.ecc_corrected = 70;
	health.rows_uncorrected = 4;
	checkup();
	assert_null(only());
	health.ecc_uncorrected = 6;
	checkup();
	assert_true(is(CAUSE_ECC_UNCORRECTED));
	assert_true(number_named(only(), "ecc_uncorrected", 0) == 6);
	assert_true(number_named(only(), "ecc_corrected", 0) == 70);
	assert_true(number_named(only(), "rows_remapped_uncorrected", 0) == 4);
	m.now_ns += 60 * SEC;
	tick();
	assert_true(is(CAUSE_ECC_UNCORRECTED));
	m.now_ns++;
	tick();
	assert_null(only());
	health.ecc_uncorrected = 5;
	checkup();
	assert_null(only()); /* set back */
	health.ecc_uncorrected = ~0ull;
	checkup();
	health.ecc_uncorrected = 9;
	checkup();
	assert_null(only());
}

/* A hundred between two checkups, or ten in two running. */
static void errors_of_links(void **state)
{
	static const struct {
		int n[3];
		bool bad;
	} cases[] = { { { 0, 100, 0 }, true }, { { 0, 99, 0 }, false }, { { 5, 5, 0 }, true }, { { 5, 4, 0 }, false },
		      { { 9, 1, 0 }, true },   { { 50, 0, 0 }, false }, { { 5, 0, 5 }, false } };

	for (int i = 0; i < 7; i++)
		for (int pcie = 0; pcie < 2; pcie++) {
			uint64_t *of = pcie ? &health.pcie_replay : &health.nvlink_replay;

			again(state);
			*of = 1000;
			health.nvlink_crc = 7;
			checkup();
			for (int k = 0; k < 3; k++) {
				*of += cases[i].n[k];
				health.nvlink_crc += 1000; /* that is none */
				checkup();
			}
			assert_int_equal(is(pcie ? CAUSE_PCIE_REPLAYS : CAUSE_NVLINK_ERRORS), cases[i].bad);
			if (!cases[i].bad)
				continue;
			assert_true(number_named(only(), pcie ? "pcie_replays" : "nvlink_replays", 0) == *of - 1000);
			assert_int_equal(!!evidence_named(only(), "pcie_replays"), pcie);
			assert_int_equal(number_named(only(), "nvlink_crc_errors", 0), pcie ? 0 : 3000);
			assert_int_equal(number_named(only(), "nvlinks_active", 0), pcie ? 0 : 18);
			assert_int_equal(number_named(only(), "nvlinks", 0), pcie ? 0 : 18);
		}
}

static void a_recovery_is_one_error(void **state)
{
	(void)state;
	checkup();
	health.nvlink_recovery++;
	checkup();
	assert_true(is(CAUSE_NVLINK_ERRORS));
	m.now_ns += 60 * SEC + 1;
	tick();
	assert_null(only());
}

static void a_link_is_gone(void **state)
{
	(void)state;
	health.nvlinks_active = 17;
	checkup();
	assert_true(is(CAUSE_NVLINK_DOWN));
	assert_true(number_named(only(), "nvlinks_active", 0) == 17);
	health.nvlinks_active = GPU_NO_VALUE;
	checkup();
	assert_null(only());
	health.nvlinks_active = 17;
	g->device.n_nvlinks = GPU_NO_VALUE;
	checkup();
	assert_null(only());
	g->device.n_nvlinks = 17;
	checkup();
	assert_null(only());
}

/* Under load, and once it was seen so also without: more than 20 % of the SMs. */
static void fewer_lanes(void **state)
{
	(void)state;
	health.pcie_width = 8;
	checkup();
	assert_null(only()); /* no load is known */
	sample.sm_bp = 2000;
	look(SEC, 0);
	checkup();
	assert_null(only());
	sample.sm_bp = 2001;
	look(SEC, 0);
	checkup();
	assert_true(is(CAUSE_PCIE_WIDTH));
	assert_true(number_named(only(), "pcie_width", 0) == 8 && number_named(only(), "pcie_width_max", 0) == 16);
	sample.sm_bp = 0;
	look(SEC, 0);
	checkup();
	assert_true(is(CAUSE_PCIE_WIDTH));
	health.pcie_width = 16;
	checkup();
	assert_null(only());
	health.pcie_width = 8;
	checkup();
	assert_null(only());
	sample.sm_bp = 9000;
	look(SEC, 0);
	health.pcie_width = GPU_NO_VALUE;
	g->device.pcie_width_max = GPU_NO_VALUE;
	checkup();
	health.pcie_width = 8;
	checkup();
	assert_null(only());
}

/* --- whether it answers --- */

static void lost_or_wants_a_reset(void **state)
{
	for (int i = 0; i < 2; i++) {
		again(state);
		g->answer = i ? GPU_WANTS_RESET : GPU_IS_LOST;
		g->answer_ns = NOW - 7;
		tick();
		assert_true(is(i ? CAUSE_NEEDS_RESET : CAUSE_GPU_LOST));
		assert_int_equal(only()->since_ns, NOW - 7);
		assert_int_equal(only()->n_ranks, 1);
		assert_int_equal(only()->ranks[0], 0);
		assert_true(number_named(only(), "gpu", -1) == 0);
		assert_null(evidence_named(only(), "sm_clock_mhz"));
		assert_true(fabs(only()->confidence - 0.95) < 1e-6);
		assert_non_null(evidence_named(only(), "remedy"));
		assert_true(only()->key);
		m.now_ns += 100 * SEC;
		tick();
		assert_non_null(only());
		g->answer = GPU_IS_THERE;
		tick();
		assert_null(only());
	}
}

static void the_driver_is_silent(void **state)
{
	(void)state;
	node.gpus.driver = GPU_NO_ANSWER;
	node.gpus.driver_ns = NOW - 9;
	tick();
	assert_true(is(CAUSE_DRIVER_DOES_NOT_ANSWER));
	assert_int_equal(only()->since_ns, NOW - 9);
	assert_int_equal(only()->n_ranks, 2);
	assert_true(fabs(only()->confidence - 0.9) < 1e-6);
	assert_true(only()->key);
	assert_non_null(evidence_named(only(), "remedy"));
	gpus[0].procs.n = gpus[1].procs.n = 0;
	tick();
	assert_null(only());
	gpus[1].procs.n = 1;
	node.gpus.driver = GPU_IS_THERE;
	tick();
	assert_null(only());
}

/* The second GPU is another's. */
static void each_gpu_by_itself(void **state)
{
	(void)state;
	gpus[0].answer_ns = gpus[1].answer_ns = NOW;
	gpus[1].answer = GPU_IS_LOST;
	tick();
	assert_int_equal(only()->ranks[0], 1);
	assert_true(number_named(only(), "gpu", -1) == 1);
	gpus[0].answer = GPU_IS_LOST;
	tick();
	assert_int_equal(list.n, 2);
	assert_true(list.items[0].key != list.items[1].key);
}

/* Ranks that compute on it, also one that died within a minute; nobody's is not told. */
static void whose_it_is(void **state)
{
	(void)state;
	g->answer = GPU_IS_LOST;
	g->answer_ns = NOW;
	g->procs = (struct gpu_procs){ .n = 2, .pids = { HAND_PID(0), HAND_PID(1) } };
	tick();
	assert_int_equal(only()->n_ranks, 2);
	procs[1].dead = true;
	procs[1].exit_ns = m.now_ns - 60 * SEC + 1;
	tick();
	assert_int_equal(only()->n_ranks, 2);
	procs[1].exit_ns--;
	tick();
	assert_int_equal(only()->n_ranks, 1);
	procs[1].dead = false;
	procs[1].is_child = true;
	tick();
	assert_int_equal(only()->n_ranks, 1);
	g->procs.n = 0;
	tick();
	assert_null(only());
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(why_clocks_are_low),
		TEST(three_samples_of_it),
		TEST(samples_between_two_ticks),
		TEST(what_is_a_state),
		TEST(memory_errors),
		TEST(errors_of_links),
		TEST(a_recovery_is_one_error),
		TEST(a_link_is_gone),
		TEST(fewer_lanes),
		TEST(lost_or_wants_a_reset),
		TEST(the_driver_is_silent),
		TEST(each_gpu_by_itself),
		TEST(whose_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
