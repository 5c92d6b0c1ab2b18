/* SPDX-License-Identifier: Apache-2.0
 *
 * test_hosts_behind_gpus.c - all ranks entered what NCCL counts, nothing moves, and GPUs wait in a Recv or an AlltoAll
 * for a host that compiles, pickles, or writes a checkpoint; or for none. A live job, with NCCL's counters alone.
 */
#include "detect/hang/uncounted.h"
#include "tests/unit/job/finding_text.h"
#include "tests/unit/job/shown_gpus.h"

#define WAITS_FOR_GPU "cudaEventSynchronize (libcudart.so.12)\nstep (/job/real.py:9)"
#define IN_NCCL "accept (libc.so.6)\nncclCommInitRankConfig (libnccl.so.2)"
#define COMPILES "compile (/job/real.py:7)"

static uint64_t entered;

static void host_is(int r, enum task_state state, const char *frames)
{
	at[r].state = state;
	at[r].wakes = state == TASK_SLEEP;
	stack_of[r] = (struct samples_stack){ "", frames, frames };
}

static int begin(void **state)
{
	start(state);
	m->hang_floor_ns = 1500 * MSEC;
	entered = 10;
	gpus_are(works);
	for (int r = 0; r < RANKS; r++)
		host_is(r, TASK_RUNNABLE, WAITS_FOR_GPU);
	who();
	return 0;
}

/* Nothing moves for so long; nothing critical is said on the way. */
static void for_s(double seconds)
{
	const uint64_t n[] = { entered, entered, entered, entered };

	for (double s = 0; s < seconds; s += 0.5) {
		stands(n, 0.5);
		for (size_t i = 0; i < list.n; i++)
			if (list.items[i].severity == SEVERITY_CRITICAL)
				fail_msg("after %.1f s: %s", s + 0.5, finding_text_of(&list.items[i]));
	}
}

static void nothing_for_s(double seconds)
{
	for (double s = 0; s < seconds; s += 0.5) {
		for_s(0.5);
		if (list.n)
			fail_msg("after %.1f s: %s", s + 0.5, finding_text_of(&list.items[0]));
	}
}

/* The job gets on, step by step. */
static void steps_s(double seconds)
{
	gpus_are(works);
	for (double s = 0; s < seconds; s += 0.5) {
		entered++;
		nothing_for_s(0.5);
	}
}

static void is(enum finding_kind kind, enum hang_class class, enum finding_cause cause, enum severity severity)
{
	const struct finding *f = only();

	assert_int_equal(f->kind, kind);
	assert_int_equal(f->class, class);
	assert_int_equal(f->cause, cause);
	assert_int_equal(f->severity, severity);
}

/* Rank 3 gives its GPU nothing, and its peers' wait in a Recv. */
static void peers_wait_for_3(void)
{
	gpus_are(in_nccl);
	gpus[3] = idle;
}

static void compiles_for_15_minutes(void)
{
	nothing_for_s(20);
	for_s(2);
	is(FINDING_OBSERVATION, HANG_MISSING_ENTER, CAUSE_BUSY, SEVERITY_INFO);
	assert_int_equal(only()->ranks[0], 3);
	assert_false(only()->has_op); /* none of those that NCCL counts */
	for_s(38);
	is(FINDING_OBSERVATION, HANG_MISSING_ENTER, CAUSE_BUSY, SEVERITY_INFO);
	for_s(240);
	is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_BUSY, SEVERITY_WARNING);
	for_s(290);
	is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_BUSY, SEVERITY_WARNING);
}

static void a_host_that_compiles(void **state)
{
	static const uint64_t n[] = { 30, 30, 30, 30 };

	(void)state;
	steps_s(10);
	peers_wait_for_3();
	host_is(3, TASK_RUNNABLE, COMPILES);
	compiles_for_15_minutes();
	stands(n, 310);
	is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_BUSY, SEVERITY_CRITICAL);
}

/* Its peers' hosts create another communicator. A stack of it was not read. */
static void a_host_that_compiles_while_peers_are_in_nccl(void **state)
{
	(void)state;
	steps_s(10);
	peers_wait_for_3();
	for (int r = 0; r < 3; r++) {
		gpus[r] = idle;
		host_is(r, TASK_RUNNABLE, IN_NCCL);
	}
	host_is(3, TASK_RUNNABLE, COMPILES);
	compiles_for_15_minutes();
}

static void a_host_whose_stack_was_not_read(void **state)
{
	(void)state;
	steps_s(10);
	peers_wait_for_3();
	host_is(3, TASK_RUNNABLE, COMPILES);
	stack_of[3].native = NULL;
	compiles_for_15_minutes();
}

/* CUDA's calls poll: such a host takes a core, and is at no work. */
static void a_host_that_waits_in_the_driver(void **state)
{
	(void)state;
	for (int polls = 0; polls < 2; polls++) {
		if (polls) {
			end(state);
			begin(state);
		}
		steps_s(10);
		peers_wait_for_3();
		host_is(3, polls ? TASK_RUNNABLE : TASK_SLEEP, WAITS_FOR_GPU);
		nothing_for_s(20);
		for_s(10);
		is(FINDING_HANG, HANG_INSIDE_GPU, CAUSE_GPU_IDLE, SEVERITY_WARNING);
		assert_int_equal(only()->ranks[0], 3);
		stands((const uint64_t[]){ entered, entered, entered, entered }, 3);
		is(FINDING_HANG, HANG_INSIDE_GPU, CAUSE_GPU_IDLE, SEVERITY_CRITICAL);
	}
}

/* It loads what it compiled, and sleeps for a moment, 70 s after its peers began to wait. */
static void a_host_that_rests_between(void **state)
{
	(void)state;
	steps_s(10);
	peers_wait_for_3();
	for (int i = 0; i < 3; i++) {
		host_is(3, TASK_RUNNABLE, COMPILES);
		for_s(70);
		host_is(3, TASK_RUNNABLE, "cuModuleLoadData (libcuda.so.1)");
		for_s(4);
		host_is(3, TASK_SLEEP, COMPILES);
		for_s(20);
		is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_ASLEEP, SEVERITY_WARNING);
		at[3].state = TASK_UNKNOWN; /* what it does at this moment is not clear */
		for_s(0.5);
		is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_ASLEEP, SEVERITY_WARNING);
	}
}

static void a_compilation_that_ended_teaches(void **state)
{
	(void)state;
	steps_s(10);
	peers_wait_for_3();
	host_is(3, TASK_RUNNABLE, COMPILES);
	for_s(60);
	steps_s(10);
	peers_wait_for_3();
	nothing_for_s(170);
	for_s(120);
	is(FINDING_OBSERVATION, HANG_MISSING_ENTER, CAUSE_BUSY, SEVERITY_INFO);
	for_s(30); /* 5 times 60 s */
	is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_BUSY, SEVERITY_WARNING);
}

/* Pipeline stages that send and receive for minutes count nothing: their GPUs idle, or wait, now and then. */
static void a_short_pause_in_a_long_phase(void **state)
{
	(void)state;
	nothing_for_s(30); /* of its start */
	steps_s(10);
	for (int i = 0; i < 10; i++) {
		nothing_for_s(30);
		gpus_are(in_nccl);
		if (i % 2)
			gpus[3] = idle;
		host_is(3, TASK_SLEEP, COMPILES);
		nothing_for_s(9);
		gpus_are(works);
		host_is(3, TASK_RUNNABLE, WAITS_FOR_GPU);
	}
}

/* --- all wait --- */

/* Its start took 60 s, and a checkpoint of all 3 minutes: 20 times that is no limit for GPUs that do no work. */
static void all_wait_in_a_job_with_long_pauses(void **state)
{
	(void)state;
	nothing_for_s(60);
	steps_s(10);
	gpus_are(idle);
	nothing_for_s(180);
	steps_s(10);
	gpus_are(in_nccl);
	nothing_for_s(20);
	for_s(10);
	is(FINDING_HANG, HANG_UNKNOWN, CAUSE_ALL_ENTERED, SEVERITY_WARNING);
	assert_int_equal(only()->n_ranks, 0);
	stands((const uint64_t[]){ entered, entered, entered, entered }, 5);
	is(FINDING_HANG, HANG_UNKNOWN, CAUSE_ALL_ENTERED, SEVERITY_CRITICAL);
}

/* Rank 1 writes a checkpoint, and its own GPU waits in a Recv that it launched ahead. */
static void all_wait_for_a_checkpoint(void **state)
{
	(void)state;
	steps_s(10);
	for (int i = 0; i < 4; i++) {
		gpus_are(in_nccl);
		host_is(1, TASK_RUNNABLE, "write (libc.so.6)\nsave (/job/real.py:20)");
		if (!i) {
			for_s(60);
			is(FINDING_HANG, HANG_UNKNOWN, CAUSE_ALL_ENTERED, SEVERITY_INFO);
			host_is(1, TASK_SLEEP, "");
			stack_of[1].native = NULL;
			for_s(20); /* it may flush */
			host_is(1, TASK_RUNNABLE, "write (libc.so.6)\nsave (/job/real.py:20)");
			for_s(40);
		} else {
			nothing_for_s(120);
		}
		host_is(1, TASK_RUNNABLE, WAITS_FOR_GPU);
		steps_s(10);
	}
	gpus_are(in_nccl); /* and at last they hang */
	nothing_for_s(350);
	for_s(30);
	is(FINDING_HANG, HANG_UNKNOWN, CAUSE_ALL_ENTERED, SEVERITY_WARNING);
}

/* The same where it waits for an object store. */
static void all_wait_for_an_upload(void **state)
{
	(void)state;
	steps_s(10);
	gpus_are(in_nccl);
	host_is(1, TASK_SLEEP, "recv (libc.so.6)\nupload (/job/real.py:20)");
	for_s(60);
	is(FINDING_HANG, HANG_UNKNOWN, CAUSE_ALL_ENTERED, SEVERITY_INFO);
	for_s(60);
	host_is(1, TASK_RUNNABLE, WAITS_FOR_GPU);
	steps_s(10);
	gpus_are(in_nccl);
	host_is(1, TASK_SLEEP, "recv (libc.so.6)\nupload (/job/real.py:20)");
	nothing_for_s(120);
}

/* First transfers of a large job: all hosts set up connections in NCCL. */
static void all_hosts_set_up(void **state)
{
	(void)state;
	nothing_for_s(20);
	steps_s(10);
	gpus_are(idle);
	for (int r = 0; r < RANKS; r++)
		host_is(r, TASK_RUNNABLE, IN_NCCL);
	nothing_for_s(120);
}

/* Where all wait their hosts decide: their stacks are wanted in time. */
static void whose_stacks_are_wanted(void **state)
{
	const struct proc *some[RANKS];

	(void)state;
	for (int r = 0; r < RANKS; r++)
		stack_of[r].native = NULL;
	steps_s(10);
	for_s(9);
	assert_int_equal(uncounted_unread(m, 2 * SEC, some, RANKS), 0);
	gpus_are(in_nccl);
	for_s(3);
	assert_int_equal(uncounted_unread(m, 2 * SEC, some, RANKS), RANKS);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_host_that_compiles),
		CASE(a_host_that_compiles_while_peers_are_in_nccl),
		CASE(a_host_whose_stack_was_not_read),
		CASE(a_host_that_waits_in_the_driver),
		CASE(a_host_that_rests_between),
		CASE(a_compilation_that_ended_teaches),
		CASE(a_short_pause_in_a_long_phase),
		CASE(all_wait_in_a_job_with_long_pauses),
		CASE(all_wait_for_a_checkpoint),
		CASE(all_wait_for_an_upload),
		CASE(all_hosts_set_up),
		CASE(whose_stacks_are_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
