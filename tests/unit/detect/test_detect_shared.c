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

#include "detect/detect.h"
#include "detect/hang/report.h"
#include "tests/unit/job/job_script.h"

#define RANKS 4
#define WORLD 0x100
#define PAIR 0x200 /* of ranks 0 and 1 */
#define ROUNDS 120

extern const struct detector detector_hang;

static struct model *m;
static struct finding_list list;
static void *state_of_hang;
static uint64_t now;
static enum task_state states[RANKS]; /* of each rank's thread */
static uint64_t disk_ns;
static bool one_thread; /* calls for both ranks of its process */

static uint32_t tgid_of(int rank)
{
	return 1000 + 100 * (uint32_t)(rank / 2);
}

static uint32_t tid_of(int rank)
{
	return one_thread ? tgid_of(rank) : tgid_of(rank) + 1 + (uint32_t)rank;
}

static void give(int rank, struct event e)
{
	e.tgid = tgid_of(rank);
	e.tid = tid_of(rank);
	e.ts_ns = now += MSEC / 10;
	assert_int_equal(model_apply(m, &e), 0);
}

static void join(int rank, uint64_t comm, int nranks)
{
	struct event e = { .kind = EV_COMM_READY };

	e.comm_init.addr = comm + (uint64_t)rank;
	e.comm_init.id_hash = comm;
	e.comm_init.rank = rank;
	e.comm_init.nranks = nranks;
	give(rank, e);
	e = (struct event){ .kind = EV_COMM_SEEN };
	e.comm_seen.addr = comm + (uint64_t)rank;
	e.comm_seen.hash = comm;
	e.comm_seen.rank = rank;
	e.comm_seen.nranks = nranks;
	e.comm_seen.device = rank;
	give(rank, e);
}

static void call(int rank, uint64_t comm)
{
	struct event e = { .kind = EV_OP };

	e.op.addr = comm + (uint64_t)rank;
	e.op.stream = comm + (uint64_t)rank;
	e.op.count = comm;
	e.op.op = OP_ALLREDUCE;
	e.op.redop = e.op.root = e.op.peer = -1;
	give(rank, e);
}

static void wait_for(int rank, uint64_t comm, bool returns)
{
	struct event e = { .kind = EV_SYNC_BEGIN };
	uint64_t begin_ns;

	e.sync.handle = comm + (uint64_t)rank;
	give(rank, e);
	begin_ns = now;
	e.kind = EV_SYNC_END;
	e.sync.begin_ns = begin_ns;
	if (returns)
		give(rank, e);
}

static void tick(void)
{
	for (int r = 0; r < RANKS; r++) {
		struct event t = { .kind = EV_TASK };

		t.task.state = states[r];
		t.task.since_ns = states[r] == TASK_DISK ? disk_ns : now > SEC ? now - SEC : 1;
		give(r, t);
	}
	now += 250 * MSEC;
	give(0, (struct event){ .kind = EV_TICK });
	finding_list_free(&list);
	list = (struct finding_list){ 0 };
	assert_int_equal(detector_hang.tick(state_of_hang, m, &list), 0);
	while (model_next_ended(m))
		;
}

static void rounds(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		for (int r = 0; r < RANKS; r++)
			call(r, WORLD);
		for (int r = 0; r < RANKS; r++)
			wait_for(r, WORLD, true);
		for (int r = 0; r < 2; r++)
			call(r, PAIR);
		for (int r = 0; r < 2; r++)
			wait_for(r, PAIR, true);
		tick();
		assert_int_equal(list.n, 0); /* no rank is named while all goes on */
	}
}

static int set_up(bool one)
{
	one_thread = one;
	for (int r = 0; r < RANKS; r++)
		states[r] = TASK_SLEEP;
	m = model_new();
	state_of_hang = calloc(1, detector_hang.state_bytes);
	now = 10 * SEC;
	for (int r = 0; r < RANKS; r++)
		join(r, WORLD, RANKS);
	for (int r = 0; r < 2; r++)
		join(r, PAIR, 2);
	rounds();
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return set_up(false);
}

static int setup_one(void **state)
{
	(void)state;
	return set_up(true);
}

static int teardown(void **state)
{
	(void)state;
	finding_list_free(&list);
	list = (struct finding_list){ 0 };
	detector_hang.release(state_of_hang);
	free(state_of_hang);
	model_free(m);
	return 0;
}

static void ticks(int n)
{
	for (int i = 0; i < n; i++)
		tick();
}

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

/* In a wait for the first of its GPUs it cannot come for the second: others are to blame. */
static void one_thread_waits_for_all(void **state)
{
	(void)state;
	for (int r = 0; r < 2; r++)
		call(r, WORLD);
	wait_for(0, WORLD, false);
	call(2, WORLD);
	wait_for(2, WORLD, false);
	ticks(12);
	assert_int_equal(list.n, 0);
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

#define ONE(f) cmocka_unit_test_setup_teardown(f, setup_one, teardown)
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(names_the_thread),        TEST(who_waits_is_not_named),
		TEST(two_of_one_process),      TEST(the_model_knows_the_ranks),
		TEST(at_its_own_call_site),    TEST(children_work_for_it),
		TEST(a_pause_teaches),         TEST(blocked),
		TEST(threads_have_no_clock),   ONE(one_thread_is_named_once),
		ONE(one_thread_waits_for_all), ONE(one_thread_has_a_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
