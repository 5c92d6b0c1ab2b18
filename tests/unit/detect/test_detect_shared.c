/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_shared.c - two processes of two ranks each, a thread a rank: who does not enter is named by its rank and
 * thread, the process does not wait for itself, and a rank that waits for another is nobody's culprit. The same with
 * one thread that calls for both ranks of its process: that thread is named once, with its ranks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/shared_pair.h"

static void assert_named(int rank)
{
	const struct finding *f = list.items;

	assert_int_equal(list.n, 1);
	assert_int_equal(f->kind, FINDING_HANG);
	assert_int_equal(f->class, HANG_MISSING_ENTER);
	assert_int_equal(f->n_ranks, 1);
	assert_int_equal(f->ranks[0], rank);
	assert_int_equal((uint32_t)finding_proc(f, 0), tgid_of(rank));
	assert_int_equal((int)finding_evidence(f, EVIDENCE_TID)->number, tid_of(rank));
	assert_int_equal((int)finding_evidence(f, EVIDENCE_GPU)->number, rank);
	assert_int_equal((int)finding_evidence(f, EVIDENCE_COMM_RANK)->number, rank);
}

static void names_the_thread(void **state)
{
	(void)state;
	assert_true(model_proc(m, tgid_of(0))->shared);
	for (int r = 0; r < RANKS; r++)
		if (r != 3) {
			call(r, WORLD);
			wait_for(r, WORLD, false);
		}
	ticks(12);
	assert_named(3);
	assert_string_equal(finding_evidence(&list.items[0], EVIDENCE_WAITING_RANKS)->text, "0,1,2");
	assert_non_null(
		strstr(finding_evidence(&list.items[0], EVIDENCE_MEMBER)->text, "pid 1100, GPU 3, rank 3 of 4 in 0x"));
}

/* Rank 1 lacks the world's operation, too, but it waits for rank 0 in another: of one process, both. */
static void who_waits_is_not_named(void **state)
{
	(void)state;
	for (int r = 2; r < RANKS; r++) {
		call(r, WORLD);
		wait_for(r, WORLD, false);
	}
	call(1, PAIR);
	wait_for(1, PAIR, false);
	ticks(12);
	assert_named(0);
}

static void two_of_one_process(void **state)
{
	(void)state;
	for (int r = 0; r < 2; r++) {
		call(r, WORLD);
		wait_for(r, WORLD, false);
	}
	ticks(12);
	assert_int_equal(list.n, 2);
	assert_true(list.items[0].key != list.items[1].key);
	assert_int_equal(list.items[0].ranks[0] + list.items[1].ranks[0], 5);
}

static void the_model_knows_the_ranks(void **state)
{
	const struct proc *p = model_proc(m, tgid_of(2));

	(void)state;
	assert_int_equal(proc_rank(p), -1);
	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc) {
		assert_int_equal(member_rank(mb), mb->rank);
		assert_int_equal(member_gpu(mb), mb->rank);
	}
	for (const struct comm *c = m->comms; c; c = c->next)
		assert_int_equal(comm_global_rank(c, 1), 1);
}

/* The driver's list was read when it had a context on the first of its GPUs alone, as nccl-tests has for a while. */
static void one_gpu_is_listed_of_several(void **state)
{
	struct event e = { .kind = EV_GPU_PROCS };
	const struct proc *p = model_proc(m, tgid_of(2));

	(void)state;
	e.gpu_procs.n = 1;
	e.gpu_procs.pids[0] = p->tgid;
	give(2, e);
	assert_true(gpu_has_proc(node_gpu(m->nodes[0], 0), p));
	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
		assert_int_equal(member_gpu(mb), mb->rank);
}

/* --- what the thread does --- */

static void tell_stack(uint32_t tgid, uint32_t tid, const char *native)
{
	struct event e = { .kind = EV_STACK, .tgid = tgid, .tid = tid, .ts_ns = now };

	e.stack = (struct stack_event){ .wait = "clock_nanosleep",
					.file = "",
					.kernel = "",
					.frames = native,
					.python = "",
					.native = native,
					.end = "" };
	assert_int_equal(model_apply(m, &e), 0);
}

static const char *text(const struct finding *f, enum evidence_id id)
{
	const char *found = finding_text(f, id);

	return found ? found : "";
}

/* The stack is that of the thread that is named, not the main thread's; what other threads call makes it no older. */
static void at_its_own_call_site(void **state)
{
	(void)state;
	for (int r = 0; r < RANKS; r++)
		if (r != 3)
			call(r, WORLD);
	ticks(4);
	tell_stack(tgid_of(3), tgid_of(3), "join_threads (train)");
	tell_stack(tgid_of(3), tid_of(3), "load_batch (train)");
	for (int r = 0; r < RANKS; r++)
		if (r != 3)
			wait_for(r, WORLD, false);
	ticks(8);
	assert_named(3);
	assert_string_equal(text(&list.items[0], EVIDENCE_NATIVE_FRAME), "load_batch (train)");
}

static void child_starts(uint32_t tgid, uint32_t parent)
{
	struct event e = { .kind = EV_FORK, .tgid = parent, .tid = parent, .ts_ns = now };

	e.fork.child_tgid = e.fork.child_tid = tgid;
	assert_int_equal(model_apply(m, &e), 0);
}

/* Its thread waits for compiler processes: at work, and no hang. */
static void children_work_for_it(void **state)
{
	(void)state;
	for (int r = 0; r < RANKS; r++)
		if (r != 3)
			call(r, WORLD);
	child_starts(5000, tgid_of(3));
	for (int i = 0; i < 16; i++) {
		struct event e = { .kind = EV_TASK, .tgid = 5000, .tid = 5000, .ts_ns = now };

		e.task.state = TASK_ON_CPU;
		e.task.run_ns = (uint64_t)i * 200 * MSEC;
		assert_int_equal(model_apply(m, &e), 0);
		tick();
	}
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].kind, FINDING_OBSERVATION);
	assert_int_equal(list.items[0].ranks[0], 3);
}

/* A pause that ended there by itself: the next one is a known phase, and no warning. */
static void a_pause_teaches(void **state)
{
	(void)state;
	for (int pause = 0; pause < 3; pause++) {
		for (int r = 0; r < RANKS; r++)
			if (r != 3)
				call(r, WORLD);
		ticks(4);
		tell_stack(tgid_of(3), tid_of(3), "save (train)");
		ticks(12);
		assert_named(3);
		assert_int_equal(!!finding_text(&list.items[0], EVIDENCE_KNOWN_PHASE), pause > 0);
		assert_true(!list.items[0].warning_after_ns == !pause);
		call(3, WORLD);
		ticks(2);
		assert_int_equal(list.n, 0);
	}
}

static void blocked(void **state)
{
	struct event e = { .kind = EV_BLOCKED };

	(void)state;
	for (int r = 0; r < RANKS; r++)
		if (r != 3)
			call(r, WORLD);
	states[3] = TASK_DISK;
	e.blocked.begin_ns = disk_ns = now;
	e.blocked.kernel_stack = e.blocked.user_stack = e.blocked.syscall = e.blocked.file = "";
	e.blocked.wchan = "rq_qos_wait";
	ticks(8);
	assert_int_equal(list.n, 0); /* a read that takes long */
	give(3, e);
	tick();
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].class, HANG_HOST_BLOCKED);
	assert_int_equal(list.items[0].ranks[0], 3);
	assert_int_equal((int)finding_number(&list.items[0], EVIDENCE_TID), tid_of(3));
}

static void assert_cycle(int n, const int *ranks)
{
	const struct finding *f = list.items;

	assert_int_equal(list.n, 1);
	assert_int_equal(f->class, HANG_DEADLOCK);
	assert_int_equal(f->n_ranks, n);
	for (int i = 0; i < n; i++)
		assert_true(f->ranks[i] == ranks[0] || f->ranks[i] == ranks[n - 1]);
}

/* --- one thread for several ranks --- */

static void assert_both(const char *member)
{
	const struct finding *f = list.items;

	assert_int_equal(list.n, 1);
	assert_int_equal(f->kind, FINDING_HANG);
	assert_int_equal(f->n_ranks, 2);
	assert_int_equal(f->ranks[0] + f->ranks[1], 5);
	assert_int_equal(finding_proc(f, 0), tgid_of(2));
	assert_non_null(strstr(text(f, EVIDENCE_MEMBER), member));
	assert_string_equal(text(f, EVIDENCE_WAITING_RANKS), "0,1");
}

static void one_thread_is_named_once(void **state)
{
	(void)state;
	for (int r = 0; r < 2; r++)
		call(r, WORLD);
	wait_for(0, WORLD, false);
	ticks(12);
	assert_both("pid 1100, GPUs 2,3, ranks 2,3 of 4 in 0x");
	assert_int_equal((int)finding_number(&list.items[0], EVIDENCE_TID), tgid_of(2));
}

/* In a wait for the first of its GPUs it cannot come for the second: it waits for itself, as without ncclGroupStart. */
static void one_thread_waits_for_itself(void **state)
{
	(void)state;
	for (int r = 0; r < 2; r++)
		call(r, WORLD);
	wait_for(0, WORLD, false);
	call(2, WORLD);
	wait_for(2, WORLD, false);
	ticks(12);
	assert_cycle(2, (int[]){ 2, 3 });
	assert_non_null(strstr(text(&list.items[0], EVIDENCE_CYCLE), "ranks 2,3 (tid 1100) wait in AllReduce #"));
}

/* --- ranks that all wait --- */

/* Rank 0 is at the world's operation first, rank 1 at the pair's: each waits for what the other did not call. */
static void opposite_order(void **state)
{
	(void)state;
	call(0, WORLD);
	wait_for(0, WORLD, false);
	call(1, PAIR);
	wait_for(1, PAIR, false);
	for (int r = 2; r < RANKS; r++) {
		call(r, WORLD);
		wait_for(r, WORLD, false);
	}
	ticks(4);
	assert_int_equal(list.n, 0); /* it does not stand for long yet */
	ticks(8);
	assert_cycle(2, (int[]){ 0, 1 });
	assert_string_equal(text(&list.items[0], EVIDENCE_COMMS), "0x0000000000000200,0x0000000000000100");
	assert_non_null(strstr(text(&list.items[0], EVIDENCE_CYCLE), "rank 0 (tid 1001) waits in AllReduce #"));
}

static void assert_no_cycle(void)
{
	for (size_t i = 0; i < list.n; i++)
		assert_int_not_equal(list.items[i].class, HANG_DEADLOCK);
}

/* The same by threads that take turns for a rank: who would call next is not known, and no cycle is proven. */
static void threads_that_take_turns(void **state)
{
	(void)state;
	for (int r = 0; r < RANKS; r++)
		call(r, WORLD);
	turned = 7;
	for (int r = 0; r < RANKS; r++)
		call(r, WORLD);
	turned = 0;
	for (int r = 0; r < 2; r++)
		call(r, PAIR);
	for (int r = 0; r < 2; r++)
		wait_for(r, PAIR, true);
	for (int r = 0; r < RANKS; r++)
		wait_for(r, WORLD, true);
	call(0, WORLD);
	wait_for(0, WORLD, false);
	call(1, PAIR);
	wait_for(1, PAIR, false);
	ticks(12);
	assert_no_cycle();
}

/* A thread that sleeps elsewhere is who keeps them waiting, not the order. */
static void a_sleeper_is_no_cycle(void **state)
{
	(void)state;
	call(1, PAIR);
	wait_for(1, PAIR, false);
	for (int r = 2; r < RANKS; r++) {
		call(r, WORLD);
		wait_for(r, WORLD, false);
	}
	ticks(12);
	assert_no_cycle();
	assert_named(0);
}

/* --- a creation that one of them misses --- */

static void begins_creation(int rank, enum comm_init_kind kind, uint64_t id)
{
	struct event e = { .kind = EV_COMM_INIT };

	e.comm_init.kind = kind;
	e.comm_init.id_hash = id;
	e.comm_init.parent_addr = kind == COMM_INIT_SPLIT ? WORLD + (uint64_t)rank : 0;
	e.comm_init.rank = kind == COMM_INIT_SPLIT ? -1 : rank;
	e.comm_init.nranks = kind == COMM_INIT_SPLIT ? -1 : RANKS;
	give(rank, e);
}

static void assert_misses(int rank)
{
	const struct finding *f = list.items;

	assert_int_equal(list.n, 1);
	assert_int_equal(f->class, HANG_INIT);
	assert_int_equal(f->cause, CAUSE_ASLEEP);
	assert_int_equal(f->n_ranks, 1);
	assert_int_equal(f->ranks[0], rank);
	assert_int_equal(finding_proc(f, 0), tgid_of(rank));
	assert_int_equal((int)finding_number(f, EVIDENCE_TID), tid_of(rank));
	assert_string_equal(text(f, EVIDENCE_WAITING_RANKS), "3,1,0");
}

static void misses(enum comm_init_kind kind, uint64_t id)
{
	for (int r = 0; r < RANKS; r++)
		if (r != 2)
			begins_creation(r, kind, id);
	ticks(17);
	assert_int_equal(list.n, 0); /* ranks come apart */
	ticks(4);
	assert_misses(2);
	begins_creation(2, kind, id);
	ticks(2);
	assert_int_equal(list.n, 0);
}

static void misses_a_split(void **state)
{
	(void)state;
	misses(COMM_INIT_SPLIT, 0);
}

/* Two of one process: one finding, which says how the first of them is known. */
static void two_miss_a_split(void **state)
{
	(void)state;
	for (int r = 0; r < 2; r++)
		begins_creation(r, COMM_INIT_SPLIT, 0);
	ticks(21);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].n_ranks, 2);
	assert_int_equal(list.items[0].ranks[0] + list.items[0].ranks[1], 5);
	assert_non_null(strstr(text(&list.items[0], EVIDENCE_MEMBER), "GPU 2, rank 2 of 4 in 0x"));
}

/* The other rank of its process works: it may sleep for that. */
static void its_neighbour_works(void **state)
{
	(void)state;
	for (int r = 0; r < 2; r++)
		begins_creation(r, COMM_INIT_SPLIT, 0);
	states[3] = TASK_ON_CPU;
	ticks(40);
	assert_int_equal(list.n, 0);
	states[3] = TASK_SLEEP;
	ticks(12);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].cause, CAUSE_ASLEEP);
}

/* Of an id: each caller is there what it is in the world. */
static void misses_a_new_world(void **state)
{
	(void)state;
	misses(COMM_INIT_RANK, 0x77);
}

/* In another order than the world's nothing says who the missing one is. */
static void an_order_of_its_own(void **state)
{
	(void)state;
	for (int r = 0; r < RANKS; r++) {
		struct event e = { .kind = EV_COMM_INIT };

		e.comm_init.kind = COMM_INIT_RANK;
		e.comm_init.id_hash = 0x78;
		e.comm_init.rank = RANKS - 1 - r;
		e.comm_init.nranks = RANKS;
		if (r != 2)
			give(r, e);
	}
	ticks(24);
	for (size_t i = 0; i < list.n; i++)
		assert_int_equal(list.items[i].n_ranks, 0);
}

/* Who waits in another creation itself is not who they wait for. */
static void waits_in_another_creation(void **state)
{
	(void)state;
	for (int r = 0; r < RANKS; r++)
		if (r != 2)
			begins_creation(r, COMM_INIT_RANK, 0x77);
	begins_creation(2, COMM_INIT_RANK, 0x79);
	ticks(24);
	for (size_t i = 0; i < list.n; i++)
		assert_false(list.items[i].n_ranks == 1 && list.items[i].ranks[0] == 2);
}

/* --- the clock --- */

/* Threads call in an order of their own: that it repeats for a while is chance. */
static void threads_have_no_clock(void **state)
{
	(void)state;
	assert_true(model_proc(m, tgid_of(0))->by_threads);
	assert_int_equal(model_proc(m, tgid_of(0))->steps->period_ops, 0);
}

static void one_thread_has_a_clock(void **state)
{
	(void)state;
	assert_false(model_proc(m, tgid_of(0))->by_threads);
	assert_true(model_proc(m, tgid_of(0))->shared);
	assert_int_equal(model_proc(m, tgid_of(0))->steps->period_ops, 4);
}

/* All are in it, and it does not end: after 10 s where their iterations are known, by whichever clock; 60 s else. */
static void all_entered(void **state)
{
	(void)state;
	for (int r = 0; r < RANKS; r++) {
		call(r, WORLD);
		wait_for(r, WORLD, false);
	}
	ticks(36);
	assert_int_equal(list.n, 0);
	ticks(16);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].kind, FINDING_HANG);
	assert_int_equal(list.items[0].n_ranks, 0);
}

#define ONE(f) cmocka_unit_test_setup_teardown(f, setup_one, teardown)
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(names_the_thread),
		TEST(who_waits_is_not_named),
		TEST(two_of_one_process),
		TEST(the_model_knows_the_ranks),
		TEST(one_gpu_is_listed_of_several),
		TEST(at_its_own_call_site),
		TEST(children_work_for_it),
		TEST(a_pause_teaches),
		TEST(blocked),
		TEST(threads_have_no_clock),
		TEST(all_entered),
		ONE(all_entered),
		ONE(one_thread_is_named_once),
		ONE(one_thread_waits_for_itself),
		ONE(one_thread_has_a_clock),
		TEST(opposite_order),
		TEST(threads_that_take_turns),
		TEST(a_sleeper_is_no_cycle),
		TEST(misses_a_split),
		TEST(two_miss_a_split),
		TEST(its_neighbour_works),
		TEST(misses_a_new_world),
		TEST(an_order_of_its_own),
		TEST(waits_in_another_creation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
