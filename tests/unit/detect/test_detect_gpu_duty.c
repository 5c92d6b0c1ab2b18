/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_gpu_duty.c - detector gpu_duty on made-up activity of GPUs: the figures measured on two H200s
 * (docs/measurements/gpu.md) and what follows from them for more GPUs and other sizes of the fault. Who is slower is
 * named within 10 s of it; equal ranks, pauses, a spinning kernel and a job that changes as a whole name no rank.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

#define RANKS_MAX 8

struct level {
	double sm, tensor;
};

struct duty {
	struct model *m;
	struct detectors *d;
	struct finding_list list;
	uint64_t now_ns, rng;
	int ranks;    /* of this host */
	double noise; /* relative, of each value of each look */
	struct level levels[RANKS_MAX];
	double clock_mhz[RANKS_MAX]; /* 0: NVML does not say */
	double clock_noise;          /* relative, of each look */
	int named;                   /* rank; -1 nobody so far */
	uint64_t named_ns;
	int n_named; /* ticks in which somebody was */
};

static double uniform(uint64_t *rng)
{
	return (random_next(rng) % 2000001) * 1e-6 - 1;
}

static void give(struct duty *u, struct event e)
{
	assert_int_equal(model_apply(u->m, &e), 0);
}

static void tick(struct duty *u)
{
	give(u, (struct event){ .kind = EV_TICK, .ts_ns = u->now_ns });
	assert_int_equal(detectors_tick(u->d, u->m, &u->list), 0);
	for (size_t i = 0; i < u->list.n; i++) {
		const struct finding *f = &u->list.items[i];

		if (f->kind != FINDING_STRAGGLER)
			continue;
		assert_int_equal(f->n_ranks, 1);
		assert_string_equal(cause_name(f->cause), "gpu");
		u->n_named++;
		if (u->named < 0) {
			u->named = f->ranks[0];
			u->named_ns = u->now_ns;
		}
	}
}

static struct duty duty_of_job(int ranks, int world, double noise, uint64_t seed)
{
	struct duty u = { .m = model_new(),
			  .d = detectors_new(),
			  .now_ns = JOB_T0,
			  .rng = seed,
			  .ranks = ranks,
			  .noise = noise,
			  .clock_noise = 0.01,
			  .named = -1 };

	assert_non_null(u.m);
	assert_non_null(u.d);
	for (int r = 0; r < ranks; r++) {
		struct event e = job_proc_event(r, world, u.now_ns);

		give(&u, e);
		e = (struct event){ .kind = EV_GPU_PROCS, .ts_ns = u.now_ns };
		e.gpu_procs.index = r;
		e.gpu_procs.n = 1;
		e.gpu_procs.pids[0] = job_pid(r);
		give(&u, e);
		u.levels[r] = (struct level){ 90.1, 48.9 };
		u.clock_mhz[r] = 1920 + 15 * (r % 4);
	}
	return u;
}

static struct duty duty_new(int ranks, double noise, uint64_t seed)
{
	return duty_of_job(ranks, ranks, noise, seed);
}

/* The ranks of the host are in one communicator, of `nranks`. */
static void communicator(struct duty *u, int nranks)
{
	for (int r = 0; r < u->ranks; r++)
		give(u, job_seen_event(r, nranks, 0x7000, 0x77));
}

static void duty_free(struct duty *u)
{
	finding_list_free(&u->list);
	detectors_free(u->d);
	model_free(u->m);
}

/* Looks every `every_s` for `seconds`. */
static uint32_t bp(struct duty *u, double percent)
{
	return 100 * percent * (1 + u->noise * uniform(&u->rng)) + 0.5;
}

/* As NVML says it: in steps of 15 MHz. */
static uint32_t clock_mhz(struct duty *u, int rank)
{
	double mhz = u->clock_mhz[rank];

	return mhz ? 15 * (uint32_t)(mhz * (1 + u->clock_noise * uniform(&u->rng)) / 15) : GPU_NO_VALUE;
}

static void run(struct duty *u, double seconds, double every_s)
{
	uint64_t end_ns = u->now_ns + (uint64_t)(seconds * SEC);

	while (u->now_ns < end_ns) {
		u->now_ns += (uint64_t)(every_s * SEC);
		for (int r = 0; r < u->ranks; r++) {
			struct event e = { .kind = EV_GPU_SAMPLE, .ts_ns = u->now_ns };

			e.gpu_sample = (struct gpu_sample){ .index = r,
							    .window_ns = every_s * SEC,
							    .power_mw = 600000,
							    .dram_bp = GPU_NO_VALUE,
							    .occupancy_bp = GPU_NO_VALUE,
							    .sm_bp = bp(u, u->levels[r].sm),
							    .tensor_bp = bp(u, u->levels[r].tensor),
							    .sm_clock_mhz = clock_mhz(u, r) };
			give(u, e);
		}
		tick(u);
	}
}

/* As the sampler looks: every second while all is quiet, twice a second from the first sample that shows something. */
static void run_changed(struct duty *u, double seconds)
{
	run(u, 1, 1);
	run(u, seconds - 1, 0.5);
}

static void levels_all(struct duty *u, struct level l)
{
	for (int r = 0; r < u->ranks; r++)
		u->levels[r] = l;
}

/* `slow` does `percent` more matrix work in a step: measured for 20 % on two GPUs, the others by proportion. */
static void make_slow(struct duty *u, int slow, double percent)
{
	double part = percent / 20;

	levels_all(u, (struct level){ 90.0 * pow(75.2 / 90.0, part), 47.8 * pow(35.3 / 47.8, part) });
	u->levels[slow] = (struct level){ 91.1, 50.0 + 6.8 * (part < 1 ? part : 1) };
}

static void test_slow_gpu_is_named_within_10_s(void **state)
{
	static const double percents[] = { 10, 20, 50 };
	uint64_t rng = test_seed();

	(void)state;
	for (int ranks = 2; ranks <= 8; ranks *= 2)
		for (int i = 0; i < 30; i++) {
			double percent = percents[i % 3];
			int slow = random_next(&rng) % ranks;
			struct duty u = duty_new(ranks, 0.015, random_next(&rng));
			uint64_t begin_ns;

			run(&u, 20, 1);
			begin_ns = u.now_ns;
			make_slow(&u, slow, percent);
			run_changed(&u, 10);
			if (u.named != slow)
				printf("%d ranks, rank %d slower by %.0f %%: named %d\n", ranks, slow, percent,
				       u.named);
			assert_int_equal(u.named, slow);
			assert_true(u.named_ns - begin_ns <= 10 * SEC);
			levels_all(&u, (struct level){ 90.1, 48.9 }); /* mended: over */
			run(&u, 10, 0.5);
			assert_null(finding_list_of(&u.list, FINDING_STRAGGLER, job_pid(slow)));
			duty_free(&u);
		}
}

/* From the first sample that shows it, or the last one before. */
static void test_it_is_slow_since_it_changed(void **state)
{
	struct duty u = duty_new(4, 0, 1);
	const struct finding *f;
	uint64_t begin_ns;

	(void)state;
	run(&u, 20, 1);
	begin_ns = u.now_ns;
	make_slow(&u, 2, 20);
	run_changed(&u, 10);
	f = finding_list_of(&u.list, FINDING_STRAGGLER, job_pid(2));
	assert_non_null(f);
	assert_in_range(f->since_ns, begin_ns, begin_ns + SEC);
	duty_free(&u);
}

/* Ranks of different roles: each has its own level, and the slow one makes all others wait by the same share. */
static void test_roles_need_not_be_alike(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 20; i++) {
		struct duty u = duty_new(4, 0.015, random_next(&rng));
		int slow = random_next(&rng) % 4;

		for (int r = 0; r < 4; r++)
			u.levels[r] = (struct level){ 60 + 10 * r, 30 + 8 * r };
		run(&u, 30, 1);
		assert_int_equal(u.named, -1);
		for (int r = 0; r < 4; r++)
			if (r != slow) {
				u.levels[r].sm *= 0.87;
				u.levels[r].tensor *= 0.84;
			}
		run_changed(&u, 12);
		assert_int_equal(u.named, slow);
		duty_free(&u);
	}
}

/* A tenth more for the same matrices, of a stage whose slack hides it: no step takes longer, and matrix work goes up
 * and down with the steps by more than the others' fall could be. Values as simulated for 1,024 ranks. */
static void one_does_more(struct duty *u, int slow)
{
	u->levels[slow].tensor *= 1.095;
	u->levels[slow].sm *= 1.035;
	run_changed(u, 11);
}

static void test_slow_gpu_of_a_tensor_parallel_group(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 30; i++) {
		struct duty u = duty_of_job(8, 128, 0.015, random_next(&rng));
		int slow = random_next(&rng) % 8;

		communicator(&u, 8);
		run(&u, 20, 1);
		u.clock_mhz[slow] *= 0.91;
		one_does_more(&u, slow);
		assert_int_equal(u.named, slow);
		assert_true(finding_number(&u.list.items[0], EVIDENCE_SM_CLOCK_MHZ_BEFORE) > 1880);
		assert_true(finding_number(&u.list.items[0], EVIDENCE_SM_CLOCK_MHZ) < 1850);
		duty_free(&u);
	}
}

/* The host's communicator may as well shard parameters (hybrid FSDP) or share experts: heavier data or a favoured
 * expert is more work at the same clock, and a clock that nobody knows is none that fell. At the power cap clocks go up
 * and down by 6 % (10 at most here), and those of the peers, which wait more, rise by 3 %. */
static void test_heavier_data_in_a_group_of_the_host_names_nobody(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 40; i++) {
		struct duty u = duty_of_job(8, 128, 0.015, random_next(&rng));
		int heavy = random_next(&rng) % 8, how = i % 4;

		communicator(&u, 8);
		if (how == 3)
			u.clock_noise = 0.1;
		for (int r = 0; r < 8 && how == 2; r++)
			u.clock_mhz[r] = 0;
		run(&u, 20, 1);
		for (int r = 0; r < 8; r++)
			u.clock_mhz[r] *= how == 1 ? 0.9 : how == 3 && r != heavy ? 1.03 : 1;
		one_does_more(&u, heavy);
		assert_int_equal(u.n_named, 0);
		duty_free(&u);
	}
}

/* A fifth less clock stands out of such noise. */
static void test_much_slower_gpu_at_the_power_cap(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 20; i++) {
		struct duty u = duty_of_job(8, 128, 0.015, random_next(&rng));

		communicator(&u, 8);
		u.clock_noise = 0.04;
		run(&u, 20, 1);
		u.levels[4].tensor *= 1.1;
		u.levels[4].sm *= 1.03;
		u.clock_mhz[4] *= 0.8;
		one_does_more(&u, 4);
		assert_int_equal(u.named, 4);
		duty_free(&u);
	}
}

/* The same where its ranks are the whole job, or share their operations with other hosts: the others would wait. */
static void test_more_work_that_delays_nobody_names_nobody(void **state)
{
	static const int worlds[] = { 8, 128, 128 }, nranks[] = { 8, 128, 0 };

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct duty u = duty_of_job(8, worlds[i], 0.01, 20261127);

		if (nranks[i])
			communicator(&u, nranks[i]);
		run(&u, 20, 1);
		u.clock_mhz[3] *= 0.91;
		one_does_more(&u, 3);
		assert_int_equal(u.n_named, 0);
		duty_free(&u);
	}
}

/* Fixed seeds: what chance may do once in thousands of hours is no failure (docs/decisions/tests.md, 15). */
static void test_equal_gpus_name_nobody(void **state)
{
	uint64_t rng = 20261122;

	(void)state;
	for (int ranks = 2; ranks <= 8; ranks *= 2)
		for (int i = 0; i < 4; i++) {
			struct duty u = duty_of_job(ranks, 128, i < 2 ? 0.02 : 0.06, random_next(&rng));

			communicator(&u, ranks);
			u.levels[0] = (struct level){ 90.0, 47.8 };
			u.levels[ranks - 1] = (struct level){ 90.3, 50.0 };
			run(&u, 1200, i % 2 ? 0.5 : 1);
			assert_int_equal(u.n_named, 0);
			duty_free(&u);
		}
}

/* A kernel that spins on one SM: the one that waits keeps more SMs busy, matrix work falls on both alike. */
static void test_spinning_kernel_names_nobody(void **state)
{
	uint64_t rng = test_seed();
	struct duty u = duty_new(2, 0.015, random_next(&rng));

	(void)state;
	run(&u, 20, 1);
	u.levels[0] = (struct level){ 79.7, 42.0 };
	u.levels[1] = (struct level){ 74.1, 42.0 };
	run_changed(&u, 60);
	assert_int_equal(u.named, -1);
	duty_free(&u);
}

/* The whole job does less, more, pauses, or one rank works while the others have stopped (evaluation on rank 0). */
static void changes_name_nobody(struct duty *u)
{
	static const struct level levels[] = { { 70, 35 }, { 97, 60 }, { 12, 0.4 }, { 90.1, 48.9 }, { 50, 20 } };

	run(u, 20, 1);
	for (int i = 0; i < 5; i++) {
		levels_all(u, levels[i]);
		run_changed(u, 20);
	}
	levels_all(u, (struct level){ 25, 3 });
	u->levels[0] = (struct level){ 90, 45 };
	run_changed(u, 30);
	assert_int_equal(u->named, -1);
	duty_free(u);
}

static void test_changes_of_the_whole_job_name_nobody(void **state)
{
	uint64_t rng = test_seed();
	struct duty alone = duty_new(4, 0.015, random_next(&rng));
	struct duty part = duty_of_job(4, 64, 0.015, random_next(&rng));

	(void)state;
	changes_name_nobody(&alone);
	communicator(&part, 4);
	changes_name_nobody(&part);
}

/* A GPU whose activity is not reported, a driver that stops telling: silence, and no trouble. */
static void test_gaps_name_nobody(void **state)
{
	uint64_t rng = test_seed();
	struct duty u = duty_new(4, 0.015, random_next(&rng));

	(void)state;
	run(&u, 20, 1);
	u.levels[2] = (struct level){ -1, -1 };
	run(&u, 10, 0.5);
	u.ranks = 2; /* the others are not reported any more */
	make_slow(&u, 1, 50);
	run(&u, 20, 0.5);
	assert_int_equal(u.named, -1);
	duty_free(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slow_gpu_is_named_within_10_s),
		cmocka_unit_test(test_it_is_slow_since_it_changed),
		cmocka_unit_test(test_roles_need_not_be_alike),
		cmocka_unit_test(test_slow_gpu_of_a_tensor_parallel_group),
		cmocka_unit_test(test_heavier_data_in_a_group_of_the_host_names_nobody),
		cmocka_unit_test(test_much_slower_gpu_at_the_power_cap),
		cmocka_unit_test(test_more_work_that_delays_nobody_names_nobody),
		cmocka_unit_test(test_equal_gpus_name_nobody),
		cmocka_unit_test(test_spinning_kernel_names_nobody),
		cmocka_unit_test(test_changes_of_the_whole_job_name_nobody),
		cmocka_unit_test(test_gaps_name_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
