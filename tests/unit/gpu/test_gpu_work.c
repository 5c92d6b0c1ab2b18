/* SPDX-License-Identifier: Apache-2.0
 *
 * test_gpu_work.c - what samples of a GPU's activity prove: that it works for its rank or not (gpu_work.h), waits in
 * NCCL, runs something else or nothing (gpu_role.h), and which rank's is the odd one. Late since NOW.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "detect/gpu/gpu_role.h"
#include "detect/hang/gpu_stall.h"
#include "detect/rank/gpu_work.h"
#include "tests/unit/job/evidence.h"
#define HAND_RANKS 3
#include "tests/unit/job/hand_known.h"
#include "tests/unit/job/hand_gpu.h"

/* Half a second each, as NVML shows 24 channels of NCCL on 132 SMs. */
static const struct gpu_sample in_nccl = { .window_ns = 500 * MSEC, .sm_bp = 1818, .occupancy_bp = 483 };

static int begin(void **state)
{
	hand_setup(state);
	hand_find();
	hand_gpus();
	return 0;
}

static int end(void **state)
{
	(void)state;
	hand_lose();
	return 0;
}

static void again(void **state)
{
	end(state);
	begin(state);
}

/* So many samples, half a second apart; the newest is of now. */
static void samples(int r, int n, struct gpu_sample s)
{
	for (int i = 1; i <= n; i++)
		hand_sample(&gpus[r], NOW + i * 500 * MSEC, s);
	m.now_ns = NOW + n * 500 * MSEC;
}

static enum gpu_work work(void)
{
	return rank_gpu_work(&m, known[0], NOW);
}

/* --- does it work? --- */

static void one_per_cent_is_work(void **state)
{
	static const struct {
		uint32_t tensor_bp, dram_bp;
		enum gpu_work what;
	} cases[] = { { 100, 0, GPU_WORK_DONE },           { 0, 100, GPU_WORK_DONE },
		      { 99, 99, GPU_WORK_UNKNOWN },        { 10, 10, GPU_WORK_NONE },
		      { 11, 0, GPU_WORK_UNKNOWN },         { 0, 11, GPU_WORK_UNKNOWN },
		      { GPU_NO_VALUE, 0, GPU_WORK_NONE },  { GPU_NO_VALUE, GPU_NO_VALUE, GPU_WORK_UNKNOWN },
		      { GPU_NO_VALUE, 100, GPU_WORK_DONE } };

	for (size_t i = 0; i < 9; i++) {
		again(state);
		samples(0, 4,
			(struct gpu_sample){ .window_ns = 500 * MSEC,
					     .sm_bp = 9000,
					     .tensor_bp = cases[i].tensor_bp,
					     .dram_bp = cases[i].dram_bp });
		assert_int_equal(work(), cases[i].what);
	}
}

/* Three samples, over a second and a half, wholly since then. */
static void how_long_it_has_none(void **state)
{
	(void)state;
	samples(0, 2, in_nccl);
	assert_int_equal(work(), GPU_WORK_UNKNOWN);
	again(state);
	samples(0, 3, in_nccl);
	assert_int_equal(work(), GPU_WORK_NONE);
	gpus[0].samples[0].s.window_ns++; /* it began before */
	assert_int_equal(work(), GPU_WORK_UNKNOWN);
	again(state);
	samples(0, 3, in_nccl);
	gpus[0].samples[0].s.window_ns--;
	assert_int_equal(work(), GPU_WORK_UNKNOWN);
	again(state);
	hand_sample(&gpus[0], NOW + SEC, (struct gpu_sample){ .window_ns = SEC });
	hand_sample(&gpus[0], NOW + 2 * SEC, (struct gpu_sample){ .window_ns = SEC });
	m.now_ns = NOW + 2 * SEC;
	assert_int_equal(work(), GPU_WORK_UNKNOWN); /* two are too few */
	again(state);
	samples(0, 4, in_nccl);
	gpus[0].samples[0].s.tensor_bp = 900; /* then it worked */
	assert_int_equal(work(), GPU_WORK_NONE);
	gpus[0].samples[1].s.tensor_bp = 900;
	assert_int_equal(work(), GPU_WORK_UNKNOWN);
	gpus[0].samples[1].s.tensor_bp = 0;
	gpus[0].samples[3].s.window_ns = 0; /* the newest shows nothing */
	assert_int_equal(work(), GPU_WORK_UNKNOWN);
}

static void a_sample_grows_old(void **state)
{
	(void)state;
	samples(0, 4, in_nccl);
	m.now_ns += 8 * SEC;
	assert_int_equal(work(), GPU_WORK_NONE);
	assert_int_equal(gpu_activity_since(&gpus[0], NOW, m.now_ns).role, GPU_ROLE_IN_NCCL);
	m.now_ns++;
	assert_int_equal(work(), GPU_WORK_UNKNOWN);
	assert_int_equal(gpu_activity_since(&gpus[0], NOW, m.now_ns).role, GPU_ROLE_UNKNOWN);
}

/* One GPU, of this rank and its children alone. */
static void whose_gpu_it_is(void **state)
{
	(void)state;
	samples(0, 4, in_nccl);
	gpus[0].procs = (struct gpu_procs){ .n = 2, .pids = { HAND_PID(0), HAND_PID(1) } };
	assert_int_equal(work(), GPU_WORK_UNKNOWN);
	known[1]->leader = known[0];
	assert_int_equal(work(), GPU_WORK_NONE);
	gpus[0].procs.pids[1] = 7; /* nobody knows it */
	assert_int_equal(work(), GPU_WORK_UNKNOWN);
	gpus[0].procs.n = 1;
	assert_int_equal(work(), GPU_WORK_NONE);
	gpus[2].procs.pids[0] = HAND_PID(0); /* it has two */
	assert_int_equal(work(), GPU_WORK_UNKNOWN);
	gpus[0].procs.n = 0;
	assert_int_equal(work(), GPU_WORK_UNKNOWN); /* of the other one there is no sample */
	gpus[2].procs.n = 0;
	assert_int_equal(work(), GPU_WORK_UNKNOWN);
}

/* --- what is it at? --- */

static enum gpu_role role(void)
{
	return gpu_activity_since(&gpus[0], NOW, m.now_ns).role;
}

static void what_a_kernel_looks_like(void **state)
{
	static const struct {
		uint32_t sm_bp, occupancy_bp, tensor_bp, dram_bp;
		enum gpu_role role;
	} cases[] = { { 1818, 483, 0, 0, GPU_ROLE_IN_NCCL },
		      { 2, 0, 0, 0, GPU_ROLE_IDLE },
		      { 2, 0, 9000, 0, GPU_ROLE_IDLE },
		      { 3, 0, 0, 0, GPU_ROLE_OTHER_KERNEL },
		      { 5000, 1000, 10, 10, GPU_ROLE_IN_NCCL },
		      { 5001, 1000, 0, 0, GPU_ROLE_OTHER_KERNEL },
		      { 5000, 1000, 11, 0, GPU_ROLE_WORKS },
		      { 5000, 1000, 0, 11, GPU_ROLE_WORKS },
		      { 6400, 250, 0, 0, GPU_ROLE_OTHER_KERNEL },
		      { 640, 25, 0, 0, GPU_ROLE_IN_NCCL },
		      { 640, 24, 0, 0, GPU_ROLE_OTHER_KERNEL },
		      { 640, 205, 0, 0, GPU_ROLE_IN_NCCL },
		      { 640, 206, 0, 0, GPU_ROLE_OTHER_KERNEL },
		      { GPU_NO_VALUE, 483, 0, 0, GPU_ROLE_UNKNOWN },
		      { 1818, GPU_NO_VALUE, 0, 0, GPU_ROLE_UNKNOWN } };

	for (size_t i = 0; i < 15; i++) {
		again(state);
		samples(0, 4,
			(struct gpu_sample){ .window_ns = 500 * MSEC,
					     .sm_bp = cases[i].sm_bp,
					     .occupancy_bp = cases[i].occupancy_bp,
					     .tensor_bp = cases[i].tensor_bp,
					     .dram_bp = cases[i].dram_bp });
		assert_int_equal(role(), cases[i].role);
	}
}

/* To the last digit but a few, in each of the samples. */
static void samples_are_alike(void **state)
{
	static const struct {
		int sm, occupancy;
		enum gpu_role role;
	} cases[] = { { 4, 0, GPU_ROLE_IN_NCCL }, { -4, 0, GPU_ROLE_IN_NCCL }, { 6, 0, GPU_ROLE_WORKS },
		      { -6, 0, GPU_ROLE_WORKS },  { 0, 4, GPU_ROLE_IN_NCCL },  { 0, -4, GPU_ROLE_IN_NCCL },
		      { 0, 6, GPU_ROLE_WORKS },   { 0, -6, GPU_ROLE_WORKS } };

	for (size_t i = 0; i < 8; i++) {
		again(state);
		samples(0, 5, in_nccl);
		gpus[0].samples[2].s.sm_bp += cases[i].sm;
		gpus[0].samples[2].s.occupancy_bp += cases[i].occupancy;
		assert_int_equal(role(), cases[i].role);
	}
	again(state);
	samples(0, 5, in_nccl);
	gpus[0].samples[2].s.tensor_bp = 11;
	assert_int_equal(role(), GPU_ROLE_WORKS);
	gpus[0].samples[2].s.sm_bp = 0;
	assert_int_equal(role(), GPU_ROLE_WORKS);
}

static void how_many_samples(void **state)
{
	(void)state;
	samples(0, 2, in_nccl);
	assert_int_equal(role(), GPU_ROLE_UNKNOWN);
	again(state);
	samples(0, 3, in_nccl);
	assert_int_equal(role(), GPU_ROLE_IN_NCCL);
	gpus[0].samples[0].s.window_ns++;
	assert_int_equal(role(), GPU_ROLE_UNKNOWN);
	gpus[0].samples[0].s.window_ns -= 2; /* not over a second and a half */
	assert_int_equal(role(), GPU_ROLE_UNKNOWN);
	again(state);
	samples(0, 4, in_nccl);
	gpus[0].samples[0].s.window_ns = 0;
	assert_int_equal(role(), GPU_ROLE_IN_NCCL);
	gpus[0].samples[1].s.window_ns = 0;
	assert_int_equal(role(), GPU_ROLE_UNKNOWN);
	assert_int_equal(gpu_activity_since(NULL, NOW, m.now_ns).role, GPU_ROLE_UNKNOWN);
	again(state);
	hand_sample(&gpus[0], NOW + SEC, (struct gpu_sample){ .window_ns = SEC, .sm_bp = 1818, .occupancy_bp = 483 });
	hand_sample(&gpus[0], NOW + 2 * SEC,
		    (struct gpu_sample){ .window_ns = SEC, .sm_bp = 1818, .occupancy_bp = 483 });
	m.now_ns = NOW + 2 * SEC;
	assert_int_equal(role(), GPU_ROLE_UNKNOWN);
}

static void what_the_newest_shows(void **state)
{
	struct gpu_activity a;

	(void)state;
	samples(0, 4,
		(struct gpu_sample){ .window_ns = 500 * MSEC,
				     .sm_bp = 9000,
				     .occupancy_bp = 5000,
				     .tensor_bp = 4000,
				     .dram_bp = 3000 });
	gpus[0].samples[3].s.sm_bp = 8000;
	a = gpu_activity_since(&gpus[0], NOW, m.now_ns);
	assert_true(a.sm == 80 && a.occupancy == 50 && a.tensor == 40 && a.dram == 30);
}

/* --- which is the odd one? --- */

static const struct gpu_sample idle = { .window_ns = 500 * MSEC },
			       works = { .window_ns = 500 * MSEC,
					 .sm_bp = 9000,
					 .tensor_bp = 5000,
					 .occupancy_bp = 3000 },
			       spins = { .window_ns = 500 * MSEC, .sm_bp = 76, .occupancy_bp = 1 };

static struct gpu_odd odd(struct gpu_sample first, struct gpu_sample second, struct gpu_sample third)
{
	samples(0, 4, first);
	samples(1, 4, second);
	samples(2, 4, third);
	return gpu_odd_find(&m, hand_job, NOW);
}

static bool near(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

static void one_of_them_is_odd(void **state)
{
	struct gpu_odd o = odd(in_nccl, spins, in_nccl);

	assert_ptr_equal(o.proc, known[1]);
	assert_int_equal(gpu_odd_cause(&o), CAUSE_GPU_OTHER_KERNEL);
	assert_true(near(o.confidence, 0.9));
	assert_int_equal(o.n_in_nccl, 2);
	assert_int_equal(o.n_ranks, 3);
	assert_int_equal(o.n_known, 3);
	assert_true(near(o.of.sm, 0.76) && near(o.peers.sm, 18.18));
	again(state);
	o = odd(in_nccl, in_nccl, idle);
	assert_ptr_equal(o.proc, known[2]);
	assert_int_equal(gpu_odd_cause(&o), CAUSE_GPU_IDLE);
	assert_true(near(o.confidence, 0.8));
	again(state);
	o = odd(works, in_nccl, in_nccl);
	assert_ptr_equal(o.proc, known[0]);
	assert_int_equal(gpu_odd_cause(&o), CAUSE_GPU);
	assert_true(near(o.confidence, 0.7));
	again(state);
	o = odd(works, in_nccl, idle); /* two */
	assert_null(o.proc);
	assert_int_equal(gpu_odd_cause(&o), CAUSE_NONE);
	assert_true(o.confidence == 0);
	again(state);
	o = odd(in_nccl, in_nccl, in_nccl);
	assert_null(o.proc);
}

/* Every rank of the job that is seen has to be known; those that are not seen make it less sure. */
static void how_sure_it_is(void **state)
{
	struct gpu_odd o;

	(void)state;
	samples(0, 4, in_nccl);
	samples(1, 4, idle);
	o = gpu_odd_find(&m, hand_job, NOW);
	assert_null(o.proc);
	assert_int_equal(o.n_known, 2);
	for (int i = 0; i < 4; i++) {
		known[2]->dead = i == 0;
		known[2]->is_child = i == 1;
		known[2]->members = i == 2 ? NULL : &members[2];
		known[2]->job = i == 3 ? hand_other_job : hand_job;
		o = gpu_odd_find(&m, hand_job, NOW);
		assert_ptr_equal(o.proc, known[1]);
		assert_int_equal(o.n_ranks, 2);
		assert_true(near(o.confidence, 0.9 * 0.7)); /* one peer alone; and of three */
	}
	known[0]->world_size = known[1]->world_size = 2;
	o = gpu_odd_find(&m, hand_job, NOW);
	assert_true(near(o.confidence, 0.7));
	samples(0, 4, idle);
	assert_null(gpu_odd_find(&m, hand_job, NOW).proc); /* nobody is in NCCL */
}

/* Two GPUs for one process: what each does is not told apart. Samples of more than ten seconds ago say nothing. */
static void which_samples_count(void **state)
{
	struct gpu_odd o = odd(in_nccl, idle, in_nccl);

	(void)state;
	assert_ptr_equal(o.proc, known[1]);
	gpus[2].procs = (struct gpu_procs){ .n = 2, .pids = { HAND_PID(2), HAND_PID(1) } };
	o = gpu_odd_find(&m, hand_job, NOW);
	assert_null(o.proc);
	assert_int_equal(o.n_known, 2);
	gpus[2].procs.n = 1;
	for (int r = 0; r < 3; r++)
		for (int i = 0; i < 4; i++)
			gpus[r].samples[i].ts_ns = NOW + 12 * SEC + i * 500 * MSEC;
	m.now_ns = NOW + 13500 * MSEC;
	gpus[1].samples[0].ts_ns = NOW + 500 * MSEC + 499 * MSEC; /* it worked then */
	gpus[1].samples[0].s = works;
	o = gpu_odd_find(&m, hand_job, NOW);
	assert_int_equal(gpu_odd_cause(&o), CAUSE_GPU_IDLE);
	gpus[1].samples[0].ts_ns += MSEC;
	o = gpu_odd_find(&m, hand_job, NOW);
	assert_int_equal(gpu_odd_cause(&o), CAUSE_GPU);
	o = gpu_odd_find(&m, hand_job, NOW + 4 * SEC);
	assert_int_equal(gpu_odd_cause(&o), CAUSE_GPU_IDLE);
}

/* --- where is the host? --- */

static void stack_read_at(int r, uint64_t ns, const char *frame)
{
	known[r]->tasks->stack.ns = ns;
	known[r]->tasks->stack.native = known[r]->tasks->stack.frames = frame;
}

/* As rank 0 of an endless kernel's job was met on an H100: read while it waited for its GPU, which ended that and ran
 * nothing from then on; it stood in NCCL by then. */
static void a_wait_for_an_idle_gpu_is_over(void **state)
{
	(void)state;
	samples(0, 4, idle);
	stack_read_at(0, NOW, "cuStreamSynchronize (libcuda.so.1)");
	assert_true(gpu_wait_is_over(&m, known[0]));
	stack_read_at(0, NOW + SEC, "cuStreamSynchronize (libcuda.so.1)"); /* too few samples since */
	assert_false(gpu_wait_is_over(&m, known[0]));
	stack_read_at(0, NOW, "ncclGroupEnd (libnccl.so.2)");
	assert_false(gpu_wait_is_over(&m, known[0]));
	again(state);
	samples(0, 4, in_nccl);
	stack_read_at(0, NOW, "cuStreamSynchronize (libcuda.so.1)");
	assert_false(gpu_wait_is_over(&m, known[0]));
}

/* A kernel without end in front: what the host launches behind it fills the queue, and it stands in a launch. */
static void a_launch_that_does_not_return(void **state)
{
	(void)state;
	odd(in_nccl, spins, in_nccl);
	stack_read_at(1, NOW, "?? (libcuda.so.1)\ncuLaunchKernel (libcuda.so.1)\nat::native::add (libtorch_cuda.so)");
	assert_true(gpu_stall_holds(&m, known[1], NOW));
	assert_false(gpu_stall_holds(&m, known[0], NOW));
	stack_read_at(1, NOW, "read (libc.so.6)");
	assert_false(gpu_stall_holds(&m, known[1], NOW));
	again(state);
	odd(in_nccl, works, in_nccl);
	stack_read_at(1, NOW, "cuLaunchKernelEx (libcuda.so.1)");
	assert_false(gpu_stall_holds(&m, known[1], NOW));
	again(state);
	odd(in_nccl, idle, in_nccl); /* it gives its GPU little to do */
	stack_read_at(1, NOW, "cuLaunchKernel (libcuda.so.1)");
	assert_false(gpu_stall_holds(&m, known[1], NOW));
}

static void what_is_said(void **state)
{
	struct finding_list list = { 0 };
	struct finding f = { 0 };
	struct gpu_odd o = odd(in_nccl, spins, in_nccl);

	(void)state;
	known[2]->rank = members[2].rank = -1;
	known[2]->members = &members[2];
	gpu_odd_note(&f, &list, &m, &o, hand_job, NOW);
	assert_true(number_named(&f, "gpu", -1) == 1);
	assert_true(near(number_named(&f, "sm_percent", -1), 0.76));
	assert_true(near(number_named(&f, "sm_percent_peers", -1), 18.18));
	assert_true(near(number_named(&f, "occupancy_percent", -1), 0.01));
	assert_true(near(number_named(&f, "occupancy_percent_peers", -1), 4.83));
	assert_true(number_named(&f, "tensor_percent", -1) == 0 && number_named(&f, "dram_percent", -1) == 0);
	assert_string_equal(text_named(&f, "gpu_states", ""),
			    "rank 0: waits in NCCL\nrank 1: runs a kernel that is not NCCL's\nrank ?: waits in NCCL");
	o.proc = NULL;
	f.n_evidence = 0;
	gpu_odd_note(&f, &list, &m, &o, hand_job, NOW);
	assert_int_equal(f.n_evidence, 1);
	o.n_known = 0;
	gpu_odd_note(&f, &list, &m, &o, hand_job, NOW);
	assert_int_equal(f.n_evidence, 1);
	again(state);
	o = odd(works, idle, in_nccl);
	gpus[2].n_samples = 0;
	gpu_odd_note(&f, &list, &m, &o, hand_job, NOW);
	assert_string_equal(f.evidence[1].text, "rank 0: computes\nrank 1: runs nothing\nrank 2: is not known");
	finding_list_free(&list);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(one_per_cent_is_work),
		TEST(how_long_it_has_none),
		TEST(a_sample_grows_old),
		TEST(whose_gpu_it_is),
		TEST(what_a_kernel_looks_like),
		TEST(samples_are_alike),
		TEST(how_many_samples),
		TEST(what_the_newest_shows),
		TEST(one_of_them_is_odd),
		TEST(how_sure_it_is),
		TEST(which_samples_count),
		TEST(what_is_said),
		TEST(a_wait_for_an_idle_gpu_is_over),
		TEST(a_launch_that_does_not_return),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
