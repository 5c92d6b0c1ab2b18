/* SPDX-License-Identifier: Apache-2.0
 *
 * test_gpu_cause.c - which finding about a GPU explains that its rank is slow, and which that it stands. By what
 * earlier detectors left in the list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "detect/gpu/gpu_cause.h"
#include "tests/unit/job/evidence.h"
#define HAND_RANKS 2
#include "tests/unit/job/hand_known.h"
#include "tests/unit/job/hand_gpu.h"

static struct finding_list list;
static struct finding slow;

static int begin(void **state)
{
	hand_setup(state);
	hand_find();
	hand_gpus();
	hand_sample(&gpus[0], NOW, (struct gpu_sample){ .sm_clock_mhz = 1200 });
	list = (struct finding_list){ 0 };
	slow = (struct finding){ .kind = FINDING_STRAGGLER };
	finding_add_rank(&slow, 0, known[0]->key);
	return 0;
}

static int end(void **state)
{
	(void)state;
	finding_list_free(&list);
	hand_lose();
	return 0;
}

/* Of this rank, by this key. */
static void say(enum finding_kind kind, enum finding_cause cause, int rank, uint64_t key)
{
	struct finding *f = finding_list_add(&list);

	f->kind = kind;
	f->cause = cause;
	f->key = key;
	finding_add_rank(f, 1, 77);
	finding_add_rank(f, rank, known[rank]->key);
}

static enum finding_cause cause(void)
{
	slow.cause = CAUSE_NONE;
	slow.caused_by_key = 0;
	slow.n_evidence = 0;
	gpu_cause_set(&m, &list, &slow);
	return slow.cause;
}

/* Throttled before an XID, that before anything else; of equals the first. */
static void what_explains_most(void **state)
{
	static const enum finding_cause throttled[] = { CAUSE_THROTTLED_THERMAL, CAUSE_THROTTLED_THERMAL_SOFTWARE,
							CAUSE_THROTTLED_POWER_BRAKE, CAUSE_THROTTLED_HARDWARE };

	(void)state;
	assert_int_equal(cause(), CAUSE_NONE);
	say(FINDING_HANG, CAUSE_THROTTLED_THERMAL, 0, 1);
	say(FINDING_GPU_HEALTH, CAUSE_THROTTLED_THERMAL, 1, 2);
	assert_int_equal(cause(), CAUSE_NONE);
	say(FINDING_GPU_HEALTH, CAUSE_ECC_UNCORRECTED, 0, 3);
	say(FINDING_GPU_HEALTH, CAUSE_NVLINK_ERRORS, 0, 4);
	assert_int_equal(cause(), CAUSE_GPU_UNHEALTHY);
	assert_int_equal(slow.caused_by_key, 3);
	assert_string_equal(text_named(&slow, "gpu_finding", ""), cause_name(CAUSE_ECC_UNCORRECTED));
	assert_true(number_named(&slow, "sm_clock_mhz", 0) == 1200);
	say(FINDING_XID, CAUSE_HARDWARE, 0, 5);
	assert_int_equal(cause(), CAUSE_GPU_XID);
	assert_int_equal(slow.caused_by_key, 5);
	say(FINDING_GPU_HEALTH, CAUSE_PCIE_WIDTH, 0, 6);
	for (int i = 0; i < 4; i++) {
		say(FINDING_GPU_HEALTH, throttled[i], 0, 7 + i);
		assert_int_equal(cause(), CAUSE_GPU_THROTTLED);
		assert_int_equal(slow.caused_by_key, 7 + i);
		list.n--;
	}
	gpus[0].samples[0].s.sm_clock_mhz = GPU_NO_VALUE;
	cause();
	assert_null(evidence_named(&slow, "sm_clock_mhz"));
	gpus[0].n_samples = 0;
	cause();
	assert_null(evidence_named(&slow, "sm_clock_mhz"));
	gpus[0].procs.n = 0;
	assert_int_equal(cause(), CAUSE_GPU_XID);
}

/* Of one rank alone, on a host with a GPU. */
static void of_whom_it_is_said(void **state)
{
	(void)state;
	say(FINDING_XID, CAUSE_HARDWARE, 0, 5);
	assert_int_equal(cause(), CAUSE_GPU_XID);
	node.gpus.all = NULL;
	assert_int_equal(cause(), CAUSE_NONE);
	node.gpus.all = gpus;
	finding_add_rank(&slow, 1, known[1]->key);
	assert_int_equal(cause(), CAUSE_NONE);
	slow.n_ranks = 0;
	assert_int_equal(cause(), CAUSE_NONE);
}

/* Lost, before a reset, before an XID of the hardware, before a driver that is silent. */
static void why_it_stands(void **state)
{
	(void)state;
	say(FINDING_XID, CAUSE_APPLICATION, 0, 1);
	say(FINDING_GPU_HEALTH, CAUSE_HARDWARE, 0, 2);
	say(FINDING_XID, CAUSE_GPU_LOST, 0, 3);
	assert_int_equal(gpu_stop_key(&list, known[0]->key), 0);
	say(FINDING_GPU_HEALTH, CAUSE_DRIVER_DOES_NOT_ANSWER, 0, 4);
	assert_int_equal(gpu_stop_key(&list, known[0]->key), 4);
	assert_int_equal(gpu_stop_key(&list, known[1]->key), 0);
	say(FINDING_XID, CAUSE_HARDWARE, 0, 5);
	assert_int_equal(gpu_stop_key(&list, known[0]->key), 5);
	say(FINDING_GPU_HEALTH, CAUSE_NEEDS_RESET, 0, 6);
	assert_int_equal(gpu_stop_key(&list, known[0]->key), 6);
	say(FINDING_GPU_HEALTH, CAUSE_GPU_LOST, 0, 7);
	assert_int_equal(gpu_stop_key(&list, known[0]->key), 7);
	assert_int_equal(gpu_stop_key(&list, 77), 7); /* any of its ranks */
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = { TEST(what_explains_most), TEST(of_whom_it_is_said), TEST(why_it_stands) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
