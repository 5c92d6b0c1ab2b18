/* SPDX-License-Identifier: Apache-2.0
 *
 * test_uncounted_bounds.c - a job whose counters say nothing, by hand: three
 * ranks, of which the first two wait in NCCL. When the third is named, when
 * none is, and what is said, word for word.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/hang/uncounted.h"
#include "tests/unit/job/finding_text.h"

#define SEC 1000000000ull
#define RANKS 3
#define ODD 2
#define MOVED (80 * SEC) /* the last progress */
#define SLEPT (82 * SEC) /* the odd one fell asleep */
#define READ (85 * SEC)  /* all stacks */

static struct model m, *empty;
static struct node node;
static struct job_id job = { .name = "j", .shown = "j" };
static struct steps steps;
static struct comm comm;
static struct member members[RANKS], *by_rank[RANKS];
static struct proc procs[RANKS], *odd = &procs[ODD];
static struct task tasks[RANKS];
static const struct wait_roots no_roots;
static struct uncounted u;
static struct suspects all;
static struct finding_list list;

static void rank_make(int r)
{
	struct task *t = &tasks[r];

	procs[r] =
		(struct proc){ .key = 50 + r, .tgid = 50 + r, .node = &node, .rank = r, .steps = &steps, .job = &job };
	procs[r].world_size = RANKS;
	procs[r].leader = &procs[r];
	procs[r].next = r + 1 < RANKS ? &procs[r + 1] : NULL;
	procs[r].members = by_rank[r] = &members[r];
	procs[r].tasks = t;
	members[r] = (struct member){ .comm = &comm, .proc = &procs[r], .rank = r, .seq_known = true };
	members[r].next_in_comm = r + 1 < RANKS ? &members[r + 1] : NULL;
	members[r].entered_seq[SEQ_COLL] = 7;
	members[r].samples = (struct samples){ .n = 2, .counted = true, .moved = true, .since_ns = MOVED };
	*t = (struct task){ .tid = 50 + r, .tgid = 50 + r, .name = "python", .proc = &procs[r], .state = TASK_SLEEP };
	t->since_ns = r == ODD ? SLEPT : 79 * SEC;
	t->preempted_by = t->kernel_stack = t->user_stack = t->wchan = t->syscall = t->file = "";
	t->stack = (struct task_stack){ READ, false, "", "", "", "", "", "", "" };
	t->stack.native = r == ODD ? "read (libc.so)" : "ncclWait (libnccl.so.2)";
	t->stack.frames = t->stack.native;
}

static int fresh(void **state)
{
	(void)state;
	empty = model_new();
	m = *empty;
	m.hang_floor_ns = SEC;
	m.busy_limit_ns = 60 * SEC;
	m.procs = &procs[0];
	m.comms = &comm;
	comm = (struct comm){
		.hash = 12, .nranks = RANKS, .n_seen = RANKS, .by_rank = by_rank, .members = &members[0]
	};
	comm.highest_seq[SEQ_COLL] = 7;
	for (int r = 0; r < RANKS; r++)
		rank_make(r);
	return 0;
}

static int done(void **state)
{
	(void)state;
	uncounted_free(&u);
	u = (struct uncounted){ 0 };
	suspects_free(&all);
	all = (struct suspects){ 0 };
	finding_list_free(&list);
	model_free(empty);
	return 0;
}

static void scanned(uint64_t now_ns)
{
	m.now_ns = now_ns;
	for (int r = 0; r < RANKS; r++) {
		members[r].samples.seen_ns = tasks[r].seen_ns = now_ns - SEC;
		tasks[r].prev_seen_ns = now_ns - 2 * SEC;
	}
}

static const struct finding *asked(void)
{
	list.n = 0;
	assert_int_equal(uncounted_refresh(&u, &m, &all), 0);
	assert_int_equal(uncounted_report(&u, &m, &all, &no_roots, &list), 0);
	assert_true(list.n <= 1);
	return list.n ? &list.items[0] : NULL;
}

static const struct finding *at(uint64_t now_ns)
{
	scanned(now_ns);
	return asked();
}

static void one_outside_of_nccl(void **state)
{
	(void)state;
	assert_null(at(SLEPT + 10 * SEC - 1));
	assert_string_equal(finding_text_of(at(SLEPT + 10 * SEC)),
			    "hang missing_enter asleep 0.7 #0 in 0 since 82 w 0 c 30 by 0 ranks 2\n"
			    "waiting_s 10\nn_waiting 2\nwaiting_ranks 0,1\nknown_from stacks\n"
			    "native_frame read (libc.so)\nstack read (libc.so)\n"
			    "waiting_in 2 of 2 others: ncclWait (libnccl.so.2)\nlimit_s 10");
	for (int r = 0; r < RANKS; r++)
		members[r].samples.since_ns = 84 * SEC; /* progress after it fell asleep */
	assert_null(at(84 * SEC + 10 * SEC - 1));
	assert_int_equal(at(84 * SEC + 10 * SEC)->since_ns, 84 * SEC);
}

/* Met late by probes: no number of an AlltoAll means the same on two ranks. Their newest call is the progress. */
static void where_calls_are_seen(void **state)
{
	(void)state;
	for (int r = 0; r < RANKS; r++) {
		members[r].samples = (struct samples){ 0 };
		members[r].last_call_ns = procs[r].last_call_ns = MOVED;
	}
	assert_null(at(SLEPT + 10 * SEC - 1));
	assert_int_equal(at(SLEPT + 10 * SEC)->ranks[0], ODD);
	procs[0].last_call_ns = SLEPT + SEC;
	assert_null(at(SLEPT + 11 * SEC - 1));
	assert_non_null(at(SLEPT + 11 * SEC));
	procs[0].shed = 1u << PROBES_NEEDED; /* its calls are not seen any more */
	assert_null(at(SLEPT + 11 * SEC));
	procs[0].shed = 0;
	members[0].entered_seq[SEQ_COLL]++; /* numbers say who is late */
	comm.highest_seq[SEQ_COLL]++;
	assert_null(at(SLEPT + 11 * SEC));
	members[0].entered_seq[SEQ_COLL]--;
	members[1].last_call_ns = 0; /* nothing is known of one */
	assert_null(at(SLEPT + 11 * SEC));
}

/* Of a rank that slept through the last progress a stack counts that was read
 * after it. */
static void one_that_slept_before(void **state)
{
	(void)state;
	tasks[ODD].since_ns = MOVED - SEC;
	tasks[ODD].stack.ns = MOVED;
	assert_null(at(MOVED + 10 * SEC));
	tasks[ODD].stack.ns++;
	assert_non_null(at(MOVED + 10 * SEC));
	tasks[ODD].stack.native = "";
	assert_null(at(MOVED + 10 * SEC));
	tasks[ODD].stack.python = "a.py:3 f";
	assert_non_null(at(MOVED + 10 * SEC));
}

static void one_that_is_halted(void **state)
{
	(void)state;
	tasks[ODD].state = TASK_STOPPED;
	assert_string_equal(finding_text_of(at(SLEPT + 10 * SEC)),
			    "hang stopped stopped 0.7 #0 in 0 since 82 w 0 c 0 by 0 "
			    "ranks 2\nwaiting_s 10\n"
			    "n_waiting 2\nwaiting_ranks 0,1\nknown_from "
			    "stacks\nnative_frame read (libc.so)\n"
			    "stack read (libc.so)\nwaiting_in 2 of 2 others: "
			    "ncclWait (libnccl.so.2)\n"
			    "limit_s 10");
	tasks[ODD].state = TASK_DISK;
	tasks[ODD].blocked = true;
	assert_string_equal(finding_text_of(at(SLEPT + 10 * SEC)),
			    "hang host_blocked d_state 0.7 #0 in 0 since 82 w 0 c 0 by 0 ranks 2\n"
			    "waiting_s 10\nn_waiting 2\nwaiting_ranks 0,1\nknown_from stacks\n"
			    "native_frame read (libc.so)\nstack read (libc.so)\n"
			    "waiting_in 2 of 2 others: ncclWait (libnccl.so.2)\nlimit_s 10");
}

static void several_outside_of_nccl(void **state)
{
	(void)state;
	tasks[1].stack.native = tasks[1].stack.frames = "read (libc.so)";
	tasks[1].since_ns = SLEPT + SEC;
	assert_null(at(SLEPT + 11 * SEC - 1)); /* since the newest that fell asleep */
	assert_string_equal(finding_text_of(at(SLEPT + 11 * SEC)),
			    "hang unknown not_known 0.3 #0 in 0 since 83 w 60 c 120 by 0 "
			    "ranks\nwaiting_s 10\nn_waiting 1\n"
			    "waiting_ranks 0\nknown_from stacks\nelsewhere_ranks 1,2\n"
			    "excluded no rank is behind by its counters, none has died, and none of "
			    "those that sleep is at work\n"
			    "waiting_in 2 of 3 others: read (libc.so)\nlimit_s 10");
	tasks[1].state = TASK_ON_CPU; /* one of them works: the others may wait for it */
	tasks[1].run_ns = SEC;
	assert_null(at(SLEPT + 11 * SEC));
}

static void when_nothing_is_known(void **state)
{
	for (int i = 0; i < 20; i++) {
		fresh(state);
		scanned(SLEPT + 10 * SEC);
		procs[1].shared = i == 1;
		procs[1].last_call_ns = i == 2 ? SLEPT + SEC : 0;
		procs[1].first_ns = i == 3 ? SLEPT + SEC : 0;
		procs[1].world_size = i == 4 ? RANKS + 1 : RANKS;
		members[1].entered_seq[SEQ_COLL] = i == 5 ? 6 : 7;
		members[1].last_call_ns = i == 6;
		members[1].samples.seen_ns = i == 7 ? m.now_ns - 5 * SEC : m.now_ns - SEC;
		m.hang_floor_ns = i == 8 ? SEC - 1 : SEC;
		tasks[1].stack.ns = i == 9 ? MOVED : i == 10 ? SLEPT : READ;      /* of before */
		tasks[1].stack.native = i == 11 ? "" : "ncclWait (libnccl.so.2)"; /* not read */
		tasks[ODD].state = i == 12 ? TASK_ON_CPU : TASK_SLEEP;
		tasks[ODD].seen_ns = i == 13 ? m.now_ns - 5 * SEC : m.now_ns - SEC;
		tasks[ODD].stack.ns = i == 14 ? SLEPT : READ;
		tasks[0].stack.frames = i == 15 ? "read (libc.so)" : "ncclWait (libnccl.so.2)";
		members[1].gone = i == 16;
		procs[1].dead = i == 17;
		procs[1].exit_ns = i == 17 ? SLEPT + SEC : 0;
		comm.nranks = i == 18 ? RANKS + 1 : RANKS;
		tasks[ODD].stack.native = tasks[ODD].stack.frames =
			i == 19 ? "ncclWait (libnccl.so.2)" : "read (libc.so)";
		assert_int_equal(asked() != NULL, i == 0 || i == 6 || i == 15); /* 6: its calls are seen as they come */
		if (i == 15)
			assert_int_equal(list.items[0].n_ranks, 0);
		done(state);
	}
	fresh(state);
}

/* Who is missing there is known otherwise; of another job it is no matter. */
static void while_a_communicator_is_made(void **state)
{
	static struct job_id other = { .name = "k", .shown = "k" };
	struct proc caller = { .job = &other };
	struct comm_init_member call = { .proc = &caller, .rank = 0 };
	struct comm_init init = { .members = &call, .nranks = 2, .n_called = 1 };

	(void)state;
	m.comm_inits = &init;
	assert_non_null(at(SLEPT + 10 * SEC));
	caller.job = &job;
	assert_null(at(SLEPT + 10 * SEC));
}

/* It waits for another rank of the job: that may be the reason, too. */
static void one_that_waits_for_a_rank(void **state)
{
	static struct node another;

	(void)state;
	for (int i = 0; i < 5; i++) {
		tasks[ODD].wait =
			(struct waits_for){ .ns = READ, .kind = WAITS_PIPE, .what = "", .who = "", .activity = "" };
		tasks[ODD].wait.pid = i == 1 ? 77 : i == 2 ? odd->tgid : 50;
		tasks[ODD].wait.pid = i == 4 ? 0 : tasks[ODD].wait.pid;
		procs[0].node = i == 3 ? &another : &node;
		assert_int_equal(at(SLEPT + 10 * SEC) != NULL, i > 0);
	}
}

static void what_is_reported_already(void **state)
{
	struct finding *f;

	(void)state;
	for (int i = 0; i < 4; i++) {
		scanned(SLEPT + 10 * SEC);
		list.n = 0;
		f = finding_list_add(&list);
		f->kind = i == 1 ? FINDING_OBSERVATION : FINDING_HANG;
		f->job = i == 2 ? "other" : i == 3 ? "j" : NULL;
		assert_int_equal(uncounted_refresh(&u, &m, &all), 0);
		assert_int_equal(uncounted_report(&u, &m, &all, &no_roots, &list), 0);
		assert_int_equal(list.n, i == 1 || i == 2 ? 2 : 1);
	}
}

/* Whose stacks are to be read: of a job in which one sleeps nearly long enough.
 */
static void whose_stacks_are_wanted(void **state)
{
	const struct proc *some[RANKS];

	(void)state;
	for (int r = 0; r < RANKS; r++)
		tasks[r].stack.ns = 0;
	tasks[0].since_ns = tasks[1].since_ns = tasks[ODD].since_ns = SLEPT;
	scanned(SLEPT + 8 * SEC - 1);
	assert_int_equal(uncounted_unread(&m, 2 * SEC, some, RANKS), 0);
	scanned(SLEPT + 8 * SEC);
	assert_int_equal(uncounted_unread(&m, 2 * SEC, some, RANKS), RANKS);
	assert_int_equal(uncounted_unread(&m, 2 * SEC, some, 2), 2);
	assert_ptr_equal(some[0], &procs[0]);
	procs[0].outside.stacks_unread = "no right";
	tasks[1].blocked = true;
	assert_int_equal(uncounted_unread(&m, 2 * SEC, some, RANKS), 1);
	assert_ptr_equal(some[0], odd);
	tasks[ODD].stack.ns = READ;
	tasks[1].blocked = false;
	assert_int_equal(uncounted_unread(&m, 2 * SEC, some, RANKS), 1);
	assert_ptr_equal(some[0], &procs[1]);
	members[0].samples.since_ns = SLEPT + SEC;
	assert_int_equal(uncounted_unread(&m, 2 * SEC, some, RANKS), 0);
}

/* As a rank was met on an H100: read while it launched a kernel, it went on into NCCL and polls there. */
static void who_went_on_is_read_again(void **state)
{
	const struct proc *some[RANKS];

	(void)state;
	tasks[1].stack.native = tasks[1].stack.frames = "cuLaunchKernel (libcuda.so.1)";
	tasks[1].state = TASK_ON_CPU;
	tasks[1].stack.ns = SLEPT + 6 * SEC;
	scanned(SLEPT + 9 * SEC - 1);
	assert_int_equal(uncounted_unread(&m, 2 * SEC, some, RANKS), 0);
	scanned(SLEPT + 9 * SEC);
	assert_int_equal(uncounted_unread(&m, 2 * SEC, some, RANKS), 1);
	assert_ptr_equal(some[0], &procs[1]);
	tasks[1].state = TASK_SLEEP;
	assert_int_equal(uncounted_unread(&m, 2 * SEC, some, RANKS), 0);
	tasks[1].since_ns = SLEPT + 6 * SEC + 1; /* it fell asleep after it was read */
	assert_int_equal(uncounted_unread(&m, 2 * SEC, some, RANKS), 1);
	tasks[1].stack.native = tasks[1].stack.frames = "cuStreamSynchronize (libcuda.so.1)";
	assert_int_equal(uncounted_unread(&m, 2 * SEC, some, RANKS), 0);
	tasks[1].stack.native = tasks[1].stack.frames = "ncclGroupEnd (libnccl.so.2)";
	assert_int_equal(uncounted_unread(&m, 2 * SEC, some, RANKS), 0);
}

/* Read while it waited for its GPU, which runs nothing since then. */
static void whose_gpu_is_idle_is_read_again(void **state)
{
	static struct gpu gpu;
	const struct proc *some[RANKS];

	(void)state;
	gpu = (struct gpu){ .node = &node, .name = "", .uuid = "" };
	gpu.procs = (struct gpu_procs){ .n = 1, .pids = { 51 } };
	node.gpus.all = &gpu;
	tasks[1].stack.native = tasks[1].stack.frames = "cuStreamSynchronize (libcuda.so.1)";
	tasks[1].state = TASK_ON_CPU;
	tasks[1].stack.ns = SLEPT + 6 * SEC;
	scanned(SLEPT + 9 * SEC);
	assert_int_equal(uncounted_unread(&m, 2 * SEC, some, RANKS), 0);
	for (int i = 1; i <= 4; i++)
		gpu.samples[gpu.n_samples++] =
			(struct gpu_sampled){ tasks[1].stack.ns + i * SEC / 2, { .window_ns = SEC / 2 } };
	assert_int_equal(uncounted_unread(&m, 2 * SEC, some, RANKS), 1);
	assert_ptr_equal(some[0], &procs[1]);
	node.gpus.all = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_outside_of_nccl, fresh, done),
		cmocka_unit_test_setup_teardown(where_calls_are_seen, fresh, done),
		cmocka_unit_test_setup_teardown(one_that_slept_before, fresh, done),
		cmocka_unit_test_setup_teardown(one_that_is_halted, fresh, done),
		cmocka_unit_test_setup_teardown(several_outside_of_nccl, fresh, done),
		cmocka_unit_test_setup_teardown(when_nothing_is_known, NULL, done),
		cmocka_unit_test_setup_teardown(while_a_communicator_is_made, fresh, done),
		cmocka_unit_test_setup_teardown(one_that_waits_for_a_rank, fresh, done),
		cmocka_unit_test_setup_teardown(who_went_on_is_read_again, fresh, done),
		cmocka_unit_test_setup_teardown(whose_gpu_is_idle_is_read_again, fresh, done),
		cmocka_unit_test_setup_teardown(what_is_reported_already, fresh, done),
		cmocka_unit_test_setup_teardown(whose_stacks_are_wanted, fresh, done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
