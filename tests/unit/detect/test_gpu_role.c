/* SPDX-License-Identifier: Apache-2.0
 *
 * test_gpu_role.c - what the last seconds of NVML's counters say that a GPU does: how many samples, how new, how alike,
 * and by what figures a kernel of NCCL's differs from another.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/gpu/gpu_role.h"

#define MSEC 1000000ull
#define SEC 1000000000ull
#define WINDOW_NS (500 * MSEC)

static struct gpu gpu;
static uint64_t now;

static int setup(void **state)
{
	(void)state;
	gpu = (struct gpu){ 0 };
	now = 100 * SEC;
	return 0;
}

static uint32_t bp(double percent)
{
	return percent < 0 ? GPU_NO_VALUE : (uint32_t)(100 * percent + 0.5);
}

static void shows(double sm, double occupancy, double tensor, double dram)
{
	now += WINDOW_NS;
	gpu.samples[gpu.n_samples++ % GPU_SAMPLES_KEPT] = (struct gpu_sampled){ now,
										{ .window_ns = WINDOW_NS,
										  .sm_bp = bp(sm),
										  .occupancy_bp = bp(occupancy),
										  .tensor_bp = bp(tensor),
										  .dram_bp = bp(dram) } };
}

static enum gpu_role role_since(uint64_t since_ns)
{
	return gpu_activity_since(&gpu, since_ns, now).role;
}

/* What four samples alike say. */
static enum gpu_role role_of(double sm, double occupancy, double tensor, double dram)
{
	for (int i = 0; i < 4; i++)
		shows(sm, occupancy, tensor, dram);
	return role_since(now - 4 * WINDOW_NS);
}

static enum gpu_role of_alike(double sm, double occupancy)
{
	return role_of(sm, occupancy, 0, 0);
}

static void three_samples_are_needed(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		shows(18.18, 4.83, 0, 0);
		assert_int_equal(role_since(0), GPU_ROLE_UNKNOWN);
	}
	shows(18.18, 4.83, 0, 0);
	assert_int_equal(role_since(0), GPU_ROLE_IN_NCCL);
	assert_int_equal(gpu_activity_since(NULL, 0, now).role, GPU_ROLE_UNKNOWN);
}

/* Three that were taken fast show too little time. */
static void they_span_a_second_and_a_half(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		shows(0, 0, 0, 0);
		gpu.samples[i].s.window_ns = 300 * MSEC;
	}
	assert_int_equal(role_since(0), GPU_ROLE_UNKNOWN);
	shows(0, 0, 0, 0);
	assert_int_equal(role_since(0), GPU_ROLE_IDLE);
}

static void a_sample_that_began_before_does_not_count(void **state)
{
	(void)state;
	shows(88, 25, 50, 37);
	for (int i = 0; i < 3; i++)
		shows(18.18, 4.83, 0, 0);
	assert_int_equal(role_since(now - 3 * WINDOW_NS), GPU_ROLE_IN_NCCL);
	assert_int_equal(role_since(now - 3 * WINDOW_NS + 1), GPU_ROLE_UNKNOWN); /* two are left */
	assert_int_equal(role_since(now - 4 * WINDOW_NS), GPU_ROLE_IN_NCCL);     /* it worked until then */
	shows(88, 25, 50, 37);
	assert_int_equal(role_since(now - 4 * WINDOW_NS), GPU_ROLE_WORKS);
}

/* A kernel that began after its peers waited: the newest second and a half decide. */
static void what_went_before_an_endless_kernel_does_not_count(void **state)
{
	(void)state;
	shows(88, 25, 50, 37);
	shows(13, 1, 0, 0);
	for (int i = 0; i < 3; i++) {
		assert_int_not_equal(role_since(0), GPU_ROLE_OTHER_KERNEL);
		shows(0.76, 0.01, 0, 0);
	}
	assert_int_equal(role_since(0), GPU_ROLE_OTHER_KERNEL);
}

static void the_newest_is_eight_seconds_old_at_most(void **state)
{
	(void)state;
	assert_int_equal(of_alike(0, 0), GPU_ROLE_IDLE);
	now += 8 * SEC;
	assert_int_equal(role_since(0), GPU_ROLE_IDLE);
	now++;
	assert_int_equal(role_since(0), GPU_ROLE_UNKNOWN);
}

static void what_was_not_measured_says_nothing(void **state)
{
	(void)state;
	assert_int_equal(of_alike(-1, 4.83), GPU_ROLE_UNKNOWN);
	assert_int_equal(of_alike(18.18, -1), GPU_ROLE_UNKNOWN);
	of_alike(18.18, 4.83);
	gpu.samples[(gpu.n_samples - 2) % GPU_SAMPLES_KEPT].s.window_ns = 0;
	assert_int_equal(role_since(0), GPU_ROLE_UNKNOWN);
}

static void an_idle_one_computes_nowhere(void **state)
{
	(void)state;
	assert_int_equal(of_alike(0.02, 0), GPU_ROLE_IDLE);
	assert_int_equal(of_alike(0.03, 0), GPU_ROLE_OTHER_KERNEL);
	shows(0.76, 0.01, 0, 0); /* once is enough */
	assert_int_equal(of_alike(0, 0), GPU_ROLE_IDLE);
	assert_int_equal(role_since(now - 5 * WINDOW_NS), GPU_ROLE_WORKS);
}

/* Its host had entered the last operation, and it still had work before that. */
static void one_that_ran_out_of_work_is_idle_after_seven_seconds(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++)
		shows(60 + i, 20, 5, 5);
	for (int i = 0; i < 13; i++) {
		shows(0, 0, 0, 0);
		assert_int_not_equal(role_since(now - (6 + i) * WINDOW_NS), GPU_ROLE_IDLE);
	}
	shows(0, 0, 0, 0);
	assert_int_equal(role_since(now - 19 * WINDOW_NS), GPU_ROLE_IDLE);
	shows(60, 20, 5, 5);
	assert_int_equal(role_since(now - 20 * WINDOW_NS), GPU_ROLE_WORKS);
}

/* Blocks of 96 to 640 threads on up to half of the processors: 3 to 20 warps each. */
static void a_kernel_of_nccls_has_its_shape(void **state)
{
	(void)state;
	assert_int_equal(of_alike(10, 10 * 3 / 64.0), GPU_ROLE_IN_NCCL);
	assert_int_equal(of_alike(10, 10 * 2 / 64.0), GPU_ROLE_OTHER_KERNEL);
	assert_int_equal(of_alike(10, 10 * 20 / 64.0), GPU_ROLE_IN_NCCL);
	assert_int_equal(of_alike(10, 10 * 21 / 64.0), GPU_ROLE_OTHER_KERNEL);
	assert_int_equal(of_alike(32, 32 * 2.5 / 64), GPU_ROLE_IN_NCCL); /* both ends belong to it */
	assert_int_equal(of_alike(32, 32 * 20.5 / 64), GPU_ROLE_IN_NCCL);
	assert_int_equal(of_alike(50, 50 * 17 / 64.0), GPU_ROLE_IN_NCCL);
	assert_int_equal(of_alike(51, 51 * 17 / 64.0), GPU_ROLE_OTHER_KERNEL);
}

static void one_that_waits_touches_no_memory(void **state)
{
	(void)state;
	assert_int_equal(role_of(18.18, 4.83, 0, 0.1), GPU_ROLE_IN_NCCL);
	assert_int_equal(role_of(18.18, 4.83, -1, -1), GPU_ROLE_IN_NCCL); /* not known: nothing against it */
	assert_int_equal(role_of(18.18, 4.83, 0, 0.2), GPU_ROLE_WORKS);
	assert_int_equal(role_of(18.18, 4.83, 0.2, 0), GPU_ROLE_WORKS);
}

static void one_that_waits_shows_the_same_each_time(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		shows(18.18 + i % 2 * 0.04, 4.83, 0, 0);
	assert_int_equal(role_since(0), GPU_ROLE_IN_NCCL);
	shows(18.18, 4.93, 0, 0);
	assert_int_equal(role_since(0), GPU_ROLE_WORKS);
	setup(state);
	for (int i = 0; i < 4; i++)
		shows(18.18 + i % 2 * 0.1, 4.83, 0, 0);
	assert_int_equal(role_since(0), GPU_ROLE_WORKS);
}

static void the_newest_figures_are_kept(void **state)
{
	struct gpu_activity a;

	(void)state;
	of_alike(80, 20);
	shows(88, 25, 50, 37);
	a = gpu_activity_since(&gpu, 0, now);
	assert_int_equal(a.role, GPU_ROLE_WORKS);
	assert_true(a.sm == 88 && a.occupancy == 25 && a.tensor == 50 && a.dram == 37);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		TEST(three_samples_are_needed),
		TEST(they_span_a_second_and_a_half),
		TEST(a_sample_that_began_before_does_not_count),
		TEST(what_went_before_an_endless_kernel_does_not_count),
		TEST(the_newest_is_eight_seconds_old_at_most),
		TEST(what_was_not_measured_says_nothing),
		TEST(an_idle_one_computes_nowhere),
		TEST(one_that_ran_out_of_work_is_idle_after_seven_seconds),
		TEST(a_kernel_of_nccls_has_its_shape),
		TEST(one_that_waits_touches_no_memory),
		TEST(one_that_waits_shows_the_same_each_time),
		TEST(the_newest_figures_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
