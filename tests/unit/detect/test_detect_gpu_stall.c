/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_gpu_stall.c - no call is seen, all ranks entered the same, and nothing moves: what NVML shows of each GPU
 * names the one that does not wait in NCCL, or nobody. Figures are those measured on H200s (docs/measurements/gpu.md).
 * The floor of these jobs is 0.25 s unless they are live, so the limit is 3.5 s, and 1.75 s for a kernel that does not
 * end.
 */
#include "tests/unit/job/finding_text.h"
#include "tests/unit/job/shown_gpus.h"

#include "detect/gpu/gpu_role.h"
#include "detect/hang/classify.h"
#include "detect/hang/uncounted.h"
#include "detect/rank/gpu_work.h"

static void named(enum finding_cause cause, int rank)
{
	const struct finding *f = only();

	assert_int_equal(f->kind, FINDING_HANG);
	assert_int_equal(f->class, HANG_INSIDE_GPU);
	assert_int_equal(f->cause, cause);
	assert_int_equal(f->n_ranks, 1);
	assert_int_equal(f->ranks[0], rank);
	assert_int_equal(f->comm, WORLD);
	assert_int_equal(f->seq, 12);
	assert_int_equal(finding_number(f, EVIDENCE_GPU), rank);
	assert_true(finding_number(f, EVIDENCE_SM_PERCENT_PEERS) == in_nccl.sm);
	assert_int_equal(finding_number(f, EVIDENCE_N_WAITING), RANKS - 1);
}

static void odd_one(struct shows s, enum finding_cause cause, double silent_s)
{
	gpus_are(in_nccl);
	gpus[2] = s;
	stands_inside(silent_s);
	assert_int_equal(list.n, 0);
	stands_inside(2);
	named(cause, 2);
}

static void a_kernel_on_one_sm(void **state)
{
	(void)state;
	odd_one(one_sm, CAUSE_GPU_OTHER_KERNEL, 1);
	assert_string_equal(text_of(only(), "gpu_states"),
			    "rank 0: waits in NCCL\nrank 1: waits in NCCL\nrank 2: runs a kernel that is not NCCL's\n"
			    "rank 3: waits in NCCL");
	assert_true(only()->confidence > 0.89);
}

/* Where its host is, is part of it. */
static void the_hosts_call_site_is_reported(void **state)
{
	(void)state;
	at[2].syscall = "futex";
	stack_of[2] = (struct samples_stack){ "/job/real.py:9 step", "cuStreamSynchronize (libcuda.so.1)",
					      "cuStreamSynchronize (libcuda.so.1)\nstep (/job/real.py:9)" };
	odd_one(one_sm, CAUSE_GPU_OTHER_KERNEL, 1);
	assert_string_equal(text_of(only(), "python"), "/job/real.py:9 step");
}

static void a_kernel_on_all_sms(void **state)
{
	(void)state;
	odd_one(all_sms, CAUSE_GPU_OTHER_KERNEL, 1);
}

static void a_gpu_that_was_given_nothing(void **state)
{
	(void)state;
	odd_one(idle, CAUSE_GPU_IDLE, 3);
}

/* Real work for longer than ever: 20 times the longest pause, which was 0.5 s. */
static void a_gpu_that_works_gets_more_time(void **state)
{
	(void)state;
	gpus_are(in_nccl);
	gpus[1] = works;
	stands_inside(0.5);
	for (int ticks = 0; ticks < 18; ticks++) {
		assert_int_equal(list.n, 0);
		stands_inside(0.5);
	}
	assert_int_equal(list.n, 0);
	stands_inside(0.5);
	named(CAUSE_GPU, 1);
}

/* A rank that evaluates alone, its peers in NCCL: a hang only after 10 minutes. A kernel that spins is one at once. */
static void real_work_is_no_hang_for_long(void **state)
{
	(void)state;
	gpus_are(in_nccl);
	gpus[1] = works;
	stands_inside(400);
	named(CAUSE_GPU, 1);
	assert_int_equal(only()->severity, SEVERITY_WARNING);
	stands_inside(205);
	assert_int_equal(only()->severity, SEVERITY_CRITICAL);
}

static void a_kernel_that_spins_is_a_hang_soon(void **state)
{
	(void)state;
	gpus_are(in_nccl);
	gpus[1] = all_sms;
	stands_inside(8);
	named(CAUSE_GPU_OTHER_KERNEL, 1);
	assert_int_equal(only()->severity, SEVERITY_CRITICAL);
}

/* Of several communicators the operation is of the one that moved last in this job, and of the kind that is usual
 * there. Another job moves meanwhile. */
static void which_operation_it_is(void **state)
{
	static const uint64_t first[] = { 12, 12, 12, 12 }, idle_job[OP_KINDS_COUNTED] = { 0 };
	uint64_t gathered[OP_KINDS_COUNTED] = { [OP_ALLGATHER] = 7, [OP_ALLREDUCE] = 3 };
	struct event e = job_proc_event(RANKS, 1, 0);

	(void)state;
	e.proc.job = "another";
	gpus_are(in_nccl);
	gpus[2] = one_sm;
	who();
	give(e);
	for (int i = 0; i < 16; i++) {
		uint64_t others[OP_KINDS_COUNTED] = { [OP_BROADCAST] = 1 + i };

		gathered[OP_ALLGATHER] += i == 2;
		world(first);
		for (int r = 0; r < RANKS; r++) {
			sample(r, LEFT, r, RANKS, gathered);
			sample(r, RIGHT, r, RANKS, idle_job);
		}
		sample(RANKS, 0xd0, 0, 1, others);
		gpus_give();
		tick();
	}
	assert_int_equal(only()->ranks[0], 2);
	assert_int_equal(only()->comm, LEFT);
	assert_int_equal(only()->op, OP_ALLGATHER);
	assert_int_equal(only()->seq, 10);
	assert_string_equal(only()->job, ""); /* theirs, not "another" */
}

/* A job whose ranks all compute for long, all write a checkpoint, or of whose GPUs nothing is known. */
static void without_a_gpu_that_waits_nothing_is_said(void **state)
{
	(void)state;
	gpus_are(works);
	stands_inside(60);
	assert_int_equal(list.n, 0);
	gpus_are(idle);
	stands_inside(60);
	assert_int_equal(list.n, 0);
	gpus_are((struct shows){ -1, -1, -1, -1, 0 });
	stands_inside(60);
	assert_int_equal(list.n, 0);
}

static void all_of_them_wait(void **state)
{
	(void)state;
	gpus_are(in_nccl);
	stands_inside(3);
	assert_int_equal(list.n, 0);
	stands_inside(2);
	assert_int_equal(only()->class, HANG_UNKNOWN);
	assert_int_equal(only()->cause, CAUSE_ALL_ENTERED);
	assert_int_equal(only()->n_ranks, 0);
}

/* A communicator reaches to hosts that are not seen: what is missing may be missing there. */
static void with_ranks_elsewhere(void **state)
{
	static const uint64_t n[] = { 12, 12, 12, 12 };

	(void)state;
	gpus_are(in_nccl);
	stands_inside(0.5);
	for (int i = 0; i < 60; i++) {
		for (int r = 0; r < RANKS; r++)
			sample(r, LEFT, r, 2 * RANKS, REDUCED(20));
		stands(n, 0.5);
	}
	assert_int_equal(list.n, 0);
}

/* So much use of the tensor cores is real work, less is not: what it is decides when it is a hang. */
static void what_is_real_work(void **state)
{
	(void)state;
	for (int less = 0; less < 2; less++) {
		start(state);
		gpus_are(in_nccl);
		gpus[1] = works;
		gpus[1].noise = 0;
		gpus[1].dram = 0;
		gpus[1].tensor = GPU_WORKS_PERCENT - 0.5 * less;
		stands_inside(100);
		named(CAUSE_GPU, 1);
		assert_int_equal(only()->severity, less ? SEVERITY_CRITICAL : SEVERITY_WARNING);
		if (!less)
			end(state);
	}
}

/* What one of them does now is not known: its counters were not read for five seconds. */
static void one_that_is_not_sampled_any_more(void **state)
{
	(void)state;
	for (int r = 0; r < RANKS; r++) {
		start(state);
		gpus_are(in_nccl);
		gpus[2] = one_sm;
		stands_inside(5);
		named(CAUSE_GPU_OTHER_KERNEL, 2);
		seen[r] = false;
		stands_inside(4);
		named(CAUSE_GPU_OTHER_KERNEL, 2);
		stands_inside(2);
		assert_int_equal(list.n, 0);
		if (r + 1 < RANKS)
			end(state);
	}
}

/* Two that do not wait: either may be the root. A kernel that looks like NCCL's is taken for it. */
static void of_two_nobody_is_named(void **state)
{
	(void)state;
	gpus_are(in_nccl);
	gpus[0] = one_sm;
	gpus[3] = idle;
	stands_inside(60);
	assert_int_equal(list.n, 0);
	gpus_are(in_nccl);
	gpus[0] = other_nccl;
	stands_inside(60);
	assert_int_equal(only()->n_ranks, 0);
}

/* Who is behind on the host is named by that; an idle GPU is then no reason, one in another kernel is. */
static void behind_on_the_host(void **state)
{
	static const uint64_t n[] = { 12, 12, 12, 11 };

	(void)state;
	gpus_are(in_nccl);
	gpus[3] = idle;
	who();
	stands(n, 5);
	assert_int_equal(only()->class, HANG_MISSING_ENTER);
	assert_int_equal(only()->cause, CAUSE_ASLEEP);
	assert_int_equal(only()->ranks[0], 3);
	gpus[3] = one_sm;
	stands(n, 12);
	assert_int_equal(only()->class, HANG_INSIDE_GPU);
	assert_int_equal(only()->cause, CAUSE_GPU_OTHER_KERNEL);
	assert_int_equal(only()->ranks[0], 3);
}

/* Its host polls for the end of a kernel, which takes all of a core: that is no work, if the kernel is one that spins
 * and its peers wait. With a GPU that works it is a rank that is late. */
static void a_host_that_polls_for_its_gpu(void **state)
{
	static const uint64_t n[] = { 12, 12, 12, 11 };

	(void)state;
	gpus_are(in_nccl);
	gpus[3] = works;
	m->hang_floor_ns = SEC;
	who();
	at[3].state = TASK_RUNNABLE;
	stack_of[3] = (struct samples_stack){ "/job/real.py:9 step", "cuStreamSynchronize (libcuda.so.1)",
					      "cuStreamSynchronize (libcuda.so.1)\nstep (/job/real.py:9)" };
	stands(n, 5);
	assert_int_equal(only()->kind, FINDING_OBSERVATION);
	assert_int_equal(only()->cause, CAUSE_GPU);
	gpus[3] = one_sm;
	stands(n, 3);
	assert_int_equal(only()->class, HANG_INSIDE_GPU); /* a hang's */
	assert_int_equal(only()->cause, CAUSE_GPU_OTHER_KERNEL);
	assert_int_equal(only()->severity, SEVERITY_WARNING);
	assert_int_equal(only()->ranks[0], 3);
	stands(n, 30);
	assert_int_equal(only()->severity, SEVERITY_CRITICAL);
	give((struct event){ .kind = EV_LOSS, .loss.lost = 1 }); /* a guess now, which its GPU settles */
	stands(n, 1);
	assert_int_equal(list.items[0].class, HANG_INSIDE_GPU);
}

/* A peer sets up a connection to it: on its host, in NCCL, with an idle GPU. */
static void a_peer_that_waits_in_nccl_on_its_host(void **state)
{
	static const uint64_t n[] = { 12, 12, 12, 11 };

	(void)state;
	m->hang_floor_ns = SEC;
	for (int in_nccl_there = 0; in_nccl_there < 2; in_nccl_there++) {
		if (in_nccl_there) {
			end(state);
			start(state);
			m->hang_floor_ns = SEC;
		}
		gpus_are(in_nccl);
		gpus[1] = idle;
		gpus[3] = one_sm;
		who();
		at[3].state = TASK_RUNNABLE;
		stack_of[3] = (struct samples_stack){ "/job/real.py:9 step", "cuStreamSynchronize (libcuda.so.1)",
						      "cuStreamSynchronize (libcuda.so.1)\nstep (/job/real.py:9)" };
		stack_of[1] = (struct samples_stack){ "/job/real.py:7 step", "accept (libc.so.6)",
						      in_nccl_there ? "accept (libc.so.6)\nncclGroupEnd (libnccl.so.2)"
								    : "accept (libc.so.6)\nstep (/job/real.py:7)" };
		stands(n, 5);
		assert_int_equal(only()->kind, in_nccl_there ? FINDING_HANG : FINDING_OBSERVATION);
		assert_int_equal(only()->cause, in_nccl_there ? CAUSE_GPU_OTHER_KERNEL : CAUSE_GPU);
		assert_int_equal(only()->ranks[0], 3);
	}
}

/* --- where nothing counts: a live job, whose ranks are in a first AlltoAll --- */

#define WAITS_FOR_GPU "cuStreamSynchronize (libcuda.so.1)"
#define SETS_UP "accept (libc.so.6)\nncclGroupEnd (libnccl.so.2)"
#define POLLS "clock_nanosleep (libc.so.6)\nwait (/job/real.py:9)"

/* All hosts set up connections in NCCL, with idle GPUs; they poll, as NCCL does. */
static void all_set_up(void)
{
	m->hang_floor_ns = 1500 * MSEC;
	gpus_are(idle);
	for (int r = 0; r < RANKS; r++) {
		at[r].wakes = true;
		stack_of[r] = (struct samples_stack){ "", "accept (libc.so.6)", SETS_UP };
	}
}

static void host_is(int r, const char *frames)
{
	stack_of[r] = (struct samples_stack){ "/job/real.py:9 step", frames, frames };
}

static void nothing_is_said_for(double seconds)
{
	for (double s = 0; s < seconds; s += 0.5) {
		stands_inside(0.5);
		if (list.n)
			fail_msg("after %.1f s: %s", s + 0.5, finding_text_of(&list.items[0]));
	}
}

static void a_kernel_without_end_behind_an_alltoall(void **state)
{
	(void)state;
	all_set_up();
	gpus[3] = one_sm;
	host_is(3, WAITS_FOR_GPU);
	nothing_is_said_for(10);
	stands_inside(2);
	assert_int_equal(only()->class, HANG_INSIDE_GPU);
	assert_int_equal(only()->cause, CAUSE_GPU_OTHER_KERNEL);
	assert_int_equal(only()->ranks[0], 3);
	assert_int_equal(only()->severity, SEVERITY_WARNING);
	assert_false(only()->has_op);                                       /* what they wait in was not counted */
	assert_true(only()->confidence > 0.8 && only()->confidence < 0.85); /* hosts are a weaker sign than GPUs */
	assert_string_equal(text_of(only(), "gpu_states"), "rank 0: runs nothing, its host waits in NCCL\n"
							   "rank 1: runs nothing, its host waits in NCCL\n"
							   "rank 2: runs nothing, its host waits in NCCL\n"
							   "rank 3: runs a kernel that is not NCCL's");
	stands_inside(17);
	assert_int_equal(only()->severity, SEVERITY_WARNING);
	stands_inside(3);
	assert_int_equal(only()->severity, SEVERITY_CRITICAL);
}

/* It may be the last one of a long step. */
static void a_kernel_that_began_a_moment_ago_gets_more_time(void **state)
{
	(void)state;
	all_set_up();
	gpus[3] = works;
	host_is(3, WAITS_FOR_GPU);
	nothing_is_said_for(10);
	gpus[3] = one_sm;
	nothing_is_said_for(6.5);
	stands_inside(2);
	assert_int_equal(only()->ranks[0], 3);
}

/* Peers' stacks decide; they are asked for soon before, and only where a GPU does no work. */
static void whose_stacks_are_wanted(void **state)
{
	const struct proc *some[RANKS];

	(void)state;
	all_set_up();
	gpus_are(works);
	gpus[3] = one_sm;
	for (int r = 0; r < RANKS; r++)
		stack_of[r].native = NULL;
	stands_inside(7);
	assert_int_equal(uncounted_unread(m, 2 * SEC, some, RANKS), 0);
	stands_inside(3);
	assert_int_equal(uncounted_unread(m, 2 * SEC, some, RANKS), RANKS);
	gpus[3] = works;
	stands_inside(2);
	assert_int_equal(uncounted_unread(m, 2 * SEC, some, RANKS), 0);
	gpus_are(idle);
	gpus[3] = one_sm;
	nothing_is_said_for(40); /* their hosts may be anywhere */
}

/* It polls for something outside of NCCL, and gives its GPU nothing. One whose host was not read may be in NCCL. */
static void a_host_that_polls_elsewhere(void **state)
{
	(void)state;
	all_set_up();
	stack_of[3].native = NULL;
	nothing_is_said_for(40);
	end(state);
	start(state);
	all_set_up();
	host_is(3, POLLS);
	nothing_is_said_for(20);
	stands_inside(2);
	assert_int_equal(only()->class, HANG_MISSING_ENTER);
	assert_int_equal(only()->cause, CAUSE_ASLEEP);
	assert_int_equal(only()->ranks[0], 3);
	assert_false(only()->has_op);
}

/* Two hosts sleep elsewhere: their GPUs say which of them gave its own nothing. */
static void of_two_hosts_elsewhere(void **state)
{
	(void)state;
	all_set_up();
	gpus_are(in_nccl);
	gpus[3] = idle;
	for (int r = 0; r < RANKS; r++)
		host_is(r, r % 3 ? WAITS_FOR_GPU : POLLS);
	at[0].wakes = at[3].wakes = false;
	host_is(3, POLLS);
	nothing_is_said_for(20);
	stands_inside(2);
	assert_int_equal(only()->ranks[0], 3);
}

/* A coordinator that sleeps while its peers are in a long step of their GPUs. */
static void peers_that_work_do_not_wait(void **state)
{
	(void)state;
	all_set_up();
	for (int r = 0; r < RANKS; r++) {
		gpus[r] = r ? works : idle;
		host_is(r, r ? WAITS_FOR_GPU : POLLS);
	}
	at[0].wakes = false;
	nothing_is_said_for(60);
	for (int r = 1; r < RANKS; r++)
		gpus[r] = in_nccl;
	stands_inside(12);
	assert_int_equal(only()->ranks[0], 0);
}

/* Such a pause ended by itself: three times as long is the limit from then on. */
static void a_pause_that_ended_teaches(void **state)
{
	static const uint64_t next[] = { 13, 13, 13, 13 };

	(void)state;
	gpus_are(in_nccl);
	gpus[2] = idle;
	stands_inside(6);
	named(CAUSE_GPU_IDLE, 2);
	stands(next, 15);
	assert_int_equal(list.n, 0);
	stands(next, 6);
	assert_int_equal(only()->class, HANG_INSIDE_GPU);
}

/* A sampler that is late, or samples from before: no verdict rests on them. */
static void old_samples_do_not_count(void **state)
{
	static const uint64_t n[] = { 12, 12, 12, 12 };

	(void)state;
	gpus_are(in_nccl);
	gpus[2] = one_sm;
	stands_inside(3);
	for (int i = 0; i < 20; i++) {
		world(n);
		tick();
	}
	assert_int_equal(list.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_kernel_on_one_sm),
		TEST(the_hosts_call_site_is_reported),
		TEST(a_kernel_on_all_sms),
		TEST(a_gpu_that_was_given_nothing),
		TEST(a_gpu_that_works_gets_more_time),
		TEST(real_work_is_no_hang_for_long),
		TEST(a_kernel_that_spins_is_a_hang_soon),
		TEST(which_operation_it_is),
		TEST(without_a_gpu_that_waits_nothing_is_said),
		TEST(all_of_them_wait),
		TEST(of_two_nobody_is_named),
		TEST(with_ranks_elsewhere),
		cmocka_unit_test_teardown(what_is_real_work, end),
		cmocka_unit_test_teardown(one_that_is_not_sampled_any_more, end),
		TEST(behind_on_the_host),
		TEST(a_host_that_polls_for_its_gpu),
		TEST(a_peer_that_waits_in_nccl_on_its_host),
		TEST(a_kernel_without_end_behind_an_alltoall),
		TEST(a_kernel_that_began_a_moment_ago_gets_more_time),
		TEST(whose_stacks_are_wanted),
		TEST(a_host_that_polls_elsewhere),
		TEST(of_two_hosts_elsewhere),
		TEST(peers_that_work_do_not_wait),
		TEST(a_pause_that_ended_teaches),
		TEST(old_samples_do_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
