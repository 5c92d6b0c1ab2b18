/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_init.c - creations of communicators that a rank does not come to, and ranks that die: who is named, what
 * is reported late or not at all because a job starts and ends unevenly.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/evidence.h"
#include "tests/unit/job/job_script.h"

#define RANKS 4

static struct model *m;
static struct detectors *d;
static struct finding_list list;
static uint64_t now;
static enum task_state state_of[RANKS];

static void give(struct event e)
{
	e.ts_ns = ++now;
	assert_int_equal(model_apply(m, &e), 0);
}

static int fresh(void **state)
{
	(void)state;
	now = JOB_T0;
	m = model_new();
	d = detectors_new();
	for (int r = 0; r < RANKS; r++) {
		state_of[r] = TASK_SLEEP;
		give(job_proc_event(r, RANKS, 0));
	}
	return 0;
}

static int done(void **state)
{
	(void)state;
	finding_list_free(&list);
	detectors_free(d);
	model_free(m);
	return 0;
}

static void scan(int r)
{
	struct event e = job_event(EV_TASK, r, 0);

	e.task.state = state_of[r];
	e.task.since_ns = state_of[r] == TASK_ON_CPU ? now : JOB_T0;
	e.task.run_ns = state_of[r] == TASK_ON_CPU ? now - JOB_T0 : 0;
	give(e);
}

/* The most findings at a tick. */
static size_t ticks(double seconds)
{
	size_t most = 0;

	for (int i = 0; i < seconds * 4; i++) {
		struct event e = { .kind = EV_TICK };

		now += 250 * MSEC;
		for (int r = 0; r < RANKS && i % 4 == 0; r++)
			if (model_proc(m, job_pid(r)) && !model_proc(m, job_pid(r))->dead)
				scan(r);
		give(e);
		assert_int_equal(detectors_tick(d, m, &list), 0);
		most = list.n > most ? list.n : most;
	}
	return most;
}

static void init(int pid_of, enum comm_init_kind kind, uint64_t id, uint64_t parent, int rank, int nranks)
{
	struct event e = job_event(EV_COMM_INIT, pid_of, 0);

	e.comm_init.kind = kind;
	e.comm_init.id_hash = id;
	e.comm_init.parent_addr = parent;
	e.comm_init.rank = rank;
	e.comm_init.nranks = nranks;
	give(e);
}

static void ready(int r, uint64_t id, uint64_t addr)
{
	give(job_ready_event(r, RANKS, addr, id));
}

static void world(void)
{
	for (int r = 0; r < RANKS; r++)
		init(r, COMM_INIT_RANK, 0xabc, 0, r, RANKS);
	for (int r = 0; r < RANKS; r++)
		ready(r, 0xabc, 7);
}

static void call(int r, bool waits)
{
	give(job_call_event(r, OP_ALLREDUCE, 7, 5, 10));
	if (waits)
		give(job_wait_event(r, 5));
}

static void die(int r, int signal, int code)
{
	struct event e = job_event(EV_EXIT, r, 0);

	e.exit.last = true;
	e.exit.signal = signal;
	e.exit.code = code;
	give(e);
}

static const char *text_of(const char *name)
{
	return list.n ? text_named(&list.items[0], name, "") : "";
}

static double number_of(const char *name)
{
	return list.n ? number_named(&list.items[0], name, -1) : -1;
}

static void expect(enum finding_kind kind, enum hang_class class, int rank, const char *cause)
{
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].kind, kind);
	assert_int_equal(list.items[0].class, class);
	assert_int_equal(list.items[0].n_ranks, rank >= 0);
	if (rank >= 0)
		assert_int_equal(list.items[0].ranks[0], rank);
	assert_string_equal(cause_name(list.items[0].cause), cause);
}

/* --- creations --- */

static void all_but(int missing, enum comm_init_kind kind, uint64_t id, uint64_t parent)
{
	for (int r = 0; r < RANKS; r++)
		if (r != missing)
			init(r, kind, id, parent, parent ? -1 : r, RANKS);
}

static void test_a_sleeper_is_missing(void **state)
{
	(void)state;
	all_but(2, COMM_INIT_RANK, 0xabc, 0);
	assert_int_equal(ticks(4), 0); /* they start apart */
	ticks(4);
	expect(FINDING_HANG, HANG_INIT, 2, "asleep");
	assert_string_equal(text_of("waiting_ranks"), "3,1,0");
	assert_string_equal(text_of("missing_comm_ranks"), "2");
	assert_true(number_of("comm_size") == RANKS && number_of("n_called") == 3);
	init(2, COMM_INIT_RANK, 0xabc, 0, 2, RANKS);
	ticks(1);
	assert_int_equal(list.n, 0);
}

static void appear(int world_size)
{
	for (int r = 0; r < RANKS; r++) {
		struct event e = job_proc_event(r, world_size, 0);

		e.proc.start_ns = now; /* another program than fresh()'s */
		give(e);
	}
}

/* Each makes a communicator with a rank of its own at first use: that one's host may load for as long as it likes. */
static void test_pairs_with_another_host(void **state)
{
	(void)state;
	appear(2 * RANKS);
	for (int r = 0; r < RANKS; r++)
		init(r, COMM_INIT_RANK, 0x1000 + r, 0, 1, 2);
	ticks(120);
	assert_int_equal(list.n, RANKS);
	for (size_t i = 0; i < list.n; i++) {
		assert_int_equal(list.items[i].kind, FINDING_OBSERVATION);
		assert_string_equal(cause_name(list.items[i].cause), "not_seen");
	}
}

/* Of a job that is all here they wait for each other. */
static void test_pairs_of_one_host(void **state)
{
	(void)state;
	for (int r = 0; r < RANKS; r++)
		init(r, COMM_INIT_RANK, 0x1000 + r, 0, 1, 2);
	ticks(12);
	assert_int_equal(list.n, RANKS);
	for (size_t i = 0; i < list.n; i++) {
		assert_int_equal(list.items[i].kind, FINDING_HANG);
		assert_string_equal(cause_name(list.items[i].cause), "not_known");
	}
}

/* Probes came while the job was creating: who is not seen to call may have been inside before them. */
static void test_a_late_attach_names_nobody(void **state)
{
	(void)state;
	for (int r = 0; r < RANKS; r++)
		give(job_event(EV_ATTACH, r, 0));
	init(0, COMM_INIT_RANK, 7, 0, 0, RANKS);
	ticks(12);
	for (size_t i = 0; i < list.n; i++)
		assert_int_equal(list.items[i].n_ranks, 0);
	for (int r = 1; r < RANKS; r++) /* they do something else: they are not inside */
		give(job_event(EV_CUDA_EVENT, r, 0));
	ticks(12);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].class, HANG_INIT);
	assert_int_equal(list.items[0].n_ranks, RANKS - 1);
}

static void test_the_stopped_and_the_dead_at_once(void **state)
{
	(void)state;
	state_of[1] = TASK_STOPPED;
	all_but(1, COMM_INIT_RANK, 0xabc, 0);
	ticks(2.5);
	expect(FINDING_HANG, HANG_INIT, 1, "stopped");
	die(1, 9, 0);
	ticks(1);
	expect(FINDING_HANG, HANG_INIT, 1, "dead");
	assert_true(number_of("exit_signal") == 9);
}

/* It loads a model, and so does another for whom the sleeper waits. */
static void test_work_is_reported_late(void **state)
{
	(void)state;
	state_of[3] = TASK_ON_CPU;
	all_but(3, COMM_INIT_RANK, 0xabc, 0);
	assert_int_equal(ticks(29), 0);
	ticks(3);
	expect(FINDING_OBSERVATION, HANG_INIT, 3, "busy");
	ticks(65);
	expect(FINDING_HANG, HANG_INIT, 3, "busy");
}

static void test_a_sleeper_may_wait_for_one_that_works(void **state)
{
	(void)state;
	state_of[3] = TASK_ON_CPU;
	init(0, COMM_INIT_RANK, 0xabc, 0, 0, RANKS);
	init(1, COMM_INIT_RANK, 0xabc, 0, 1, RANKS);
	assert_int_equal(ticks(25), 0); /* 2 sleeps, 3 works */
	state_of[3] = TASK_SLEEP;
	ticks(3);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].kind, FINDING_HANG);
	assert_int_equal(list.items[0].n_ranks, 2); /* one creation, one finding */
}

static void test_a_split_is_called_by_all_of_its_parent(void **state)
{
	(void)state;
	world();
	for (int r = 0; r < RANKS; r++)
		if (r != 1)
			init(r, COMM_INIT_SPLIT, 0, 7, -1, -1);
	ticks(8);
	expect(FINDING_HANG, HANG_INIT, 1, "asleep");
	assert_string_equal(text_of("creation"), "Split");
}

/* The id of two ranks of four: nothing shows which of the others has it. */
static void test_part_of_a_job_is_not_guessed(void **state)
{
	(void)state;
	init(2, COMM_INIT_RANK, 0xdef, 0, 0, 2);
	ticks(8);
	expect(FINDING_HANG, HANG_INIT, -1, "not_known");
	assert_string_equal(text_of("missing_comm_ranks"), "1");
	assert_string_equal(text_of("ranks_outside"), "0,1,3");
	assert_true(list.items[0].confidence < 0.6);
}

/* Two wait for the others in a creation, and those for them in an operation. */
static void test_a_creation_against_an_operation(void **state)
{
	(void)state;
	world();
	for (int r = 0; r < 2; r++)
		init(r, COMM_INIT_SPLIT, 0, 7, -1, -1);
	call(2, true);
	call(3, true);
	ticks(8);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].class, HANG_DEADLOCK);
	assert_int_equal(list.items[0].n_ranks, RANKS);
}

static void test_creations_in_opposite_order(void **state)
{
	(void)state;
	for (int r = 0; r < RANKS; r++)
		init(r, COMM_INIT_RANK, r == 1 ? 0xabc : 0xdef, 0, r, RANKS);
	ticks(4);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].class, HANG_DEADLOCK);
	assert_int_equal(list.items[0].n_ranks, RANKS);
	assert_string_equal(text_of("other_order_ranks"), "1");
}

/* --- deaths --- */

static void test_dead_before_the_first_call(void **state)
{
	(void)state;
	world();
	die(2, 0, 1);
	for (int r = 0; r < RANKS; r++)
		if (r != 2)
			call(r, true);
	ticks(2.25);
	expect(FINDING_HANG, HANG_PROCESS_DEAD, 2, "dead");
	assert_true(number_of("exit_code") == 1 && number_of("exit_signal") == 0);
}

static void test_torn_down_rank_by_rank(void **state)
{
	(void)state;
	world();
	for (int r = 0; r < RANKS; r++)
		call(r, true);
	for (int r = 0; r < RANKS; r++)
		call(r, r != 0); /* rank 0 called all */
	for (int r = 0; r < RANKS; r++)
		if (r != 1)
			call(r, true);
	die(1, 9, 0);
	assert_int_equal(ticks(1), 0);
	die(2, 9, 0);
	assert_int_equal(ticks(1), 0);
	die(3, 9, 0);
	assert_int_equal(ticks(20), 0); /* rank 0 holds out until it is killed as well */
}

static void one_dies(int signal, int code)
{
	world();
	die(1, signal, code);
	for (int r = 0; r < RANKS; r++)
		if (r != 1)
			call(r, true);
}

/* SIGTERM is somebody's will, whether it or a handler ends the process: the others get a launcher's grace to follow. */
static void test_asked_to_end(void **state)
{
	static const int codes[] = { 0, 129, 130, 143 };

	for (int i = 0; i < 4; i++) {
		one_dies(codes[i] ? 0 : 15, codes[i]);
		assert_int_equal(ticks(34), 0);
		ticks(3);
		expect(FINDING_HANG, HANG_PROCESS_DEAD, 1, "dead");
		done(state);
		fresh(state);
	}
	one_dies(0, 139); /* a shell's word for SIGSEGV */
	assert_true(ticks(9) > 0);
}

static void goes_on_as(int r, uint64_t start_ns, bool child)
{
	struct event e = job_proc_event(r, RANKS, 0);

	e.tgid += 500;
	e.proc.start_ns = start_ns;
	e.proc.is_child = child;
	give(e);
}

/* Rank 1 dies, its peers wait, and another process begins: how many findings there are 45 s later. */
static size_t peers_wait_for_anew(int signal, int rank, bool newer, bool child)
{
	done(NULL);
	fresh(NULL);
	world();
	die(1, signal, 0);
	for (int r = 0; r < RANKS; r++)
		if (r != 1)
			call(r, true);
	goes_on_as(rank, newer ? now : 0, child);
	return ticks(45);
}

/* A launcher that starts a rank anew ended the old one for it: it did not die on its peers. But a crash is one. */
static void test_one_that_is_started_anew(void **state)
{
	(void)state;
	assert_int_equal(peers_wait_for_anew(15, 1, true, false), 0);
	assert_int_equal(peers_wait_for_anew(11, 1, true, false), 1);
	assert_int_equal(peers_wait_for_anew(15, 2, true, false), 1);
	assert_int_equal(peers_wait_for_anew(15, 1, false, false), 1);
	assert_int_equal(peers_wait_for_anew(15, 1, true, true), 1);
}

static void test_the_end_of_a_job(void **state)
{
	(void)state;
	world();
	for (int r = 0; r < RANKS; r++)
		call(r, true);
	for (int r = 0; r < RANKS; r++) {
		die(r, 0, 0);
		assert_int_equal(ticks(3), 0);
	}
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(test_a_sleeper_is_missing),
		TEST(test_pairs_with_another_host),
		TEST(test_pairs_of_one_host),
		TEST(test_a_late_attach_names_nobody),
		TEST(test_the_stopped_and_the_dead_at_once),
		TEST(test_work_is_reported_late),
		TEST(test_a_sleeper_may_wait_for_one_that_works),
		TEST(test_a_split_is_called_by_all_of_its_parent),
		TEST(test_part_of_a_job_is_not_guessed),
		TEST(test_a_creation_against_an_operation),
		TEST(test_creations_in_opposite_order),
		TEST(test_dead_before_the_first_call),
		TEST(test_torn_down_rank_by_rank),
		TEST(test_asked_to_end),
		TEST(test_one_that_is_started_anew),
		TEST(test_the_end_of_a_job),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
