/* SPDX-License-Identifier: Apache-2.0
 *
 * test_process_bounds.c - processes and threads, rule by rule: who a pid is, which of a rank's processes is asked for,
 * what a scan says against one before, and when what is dead is forgotten: a moment before, and a moment after.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/hand_model.h"

struct who {
	uint32_t tgid, parent;
	int rank;
	bool child;
	uint64_t start_ns;
	const char *job;
};

static const struct proc *comes(struct who w)
{
	struct event e = { .kind = EV_PROC, .tgid = w.tgid, .tid = w.tgid };

	e.proc.start_ns = w.start_ns;
	e.proc.parent_tgid = w.parent;
	e.proc.rank = w.rank;
	e.proc.local_rank = e.proc.world_size = -1;
	e.proc.is_child = w.child;
	e.proc.job = w.job ? w.job : "job";
	give(e);
	return model_proc(m, w.tgid);
}

static void dies(uint32_t tgid)
{
	struct event e = { .kind = EV_EXIT, .tgid = tgid, .tid = tgid };

	e.exit.last = true;
	e.exit.code = 3;
	give(e);
}

static void forks(uint32_t tgid, uint32_t child)
{
	struct event e = { .kind = EV_FORK, .tgid = tgid, .tid = tgid };

	e.fork.child_tgid = e.fork.child_tid = child;
	give(e);
}

/* --- who it is --- */

static void a_pid_and_its_start(void **state)
{
	static const struct {
		uint64_t before, then;
		bool same;
	} cases[] = { { 0, 0, true }, { 0, 7, true }, { 7, 0, true }, { 7, 7, true }, { 7, 8, false } };

	(void)state;
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct proc *p = comes((struct who){ .tgid = 10 + i, .start_ns = cases[i].before }), *again;

		again = comes((struct who){ .tgid = 10 + i, .start_ns = cases[i].then });
		assert_int_equal(again == p, cases[i].same);
		assert_int_equal(p->dead, !cases[i].same);
	}
	dies(10);
	assert_true(model_proc(m, 10)->dead);
	assert_int_equal(model_proc(m, 10)->exit_code, 3);
	now += SEC;
	dies(10); /* told again */
	assert_int_equal(model_proc(m, 10)->exit_ns, now - SEC);
	assert_false(comes((struct who){ .tgid = 10 })->dead); /* who comes now is another */
}

static void a_pid_that_is_forked_again(void **state)
{
	(void)state;
	for (int late = 0; late < 2; late++) {
		const struct proc *p;

		comes((struct who){ .tgid = 10, .rank = 2 });
		forks(10, 20 + late);
		p = model_proc(m, 20 + late);
		assert_true(p->is_child && p->rank == 2 && p->leader == model_proc(m, 10) && p->parent_tgid == 10);
		now += SEC + late;
		forks(10, 20 + late);
		assert_int_equal(model_proc(m, 20 + late) != p, late);
	}
	comes((struct who){ .tgid = 30, .rank = -1 }); /* of no rank, and with no communicator */
	forks(30, 31);
	assert_false(model_proc(m, 31)->is_child);
	give(job_event(EV_COMM_INIT, 0, 0));
	give(job_ready_event(0, 2, 7, 9)); /* a rank that no launcher numbered */
	forks(job_pid(0), 41);
	assert_true(model_proc(m, 41)->is_child);
	forks(job_pid(0), job_pid(0)); /* a thread */
	assert_non_null(model_task(m, job_pid(0), job_pid(0)));
	assert_false(model_proc(m, job_pid(0))->is_child);
}

/* Of all that carry a rank's number: a living one, the newest, of that job, and no child. */
static void which_process_is_asked_for(void **state)
{
	const struct job_id *here;

	(void)state;
	comes((struct who){ .tgid = 10, .rank = 3, .start_ns = 1 });
	comes((struct who){ .tgid = 11, .rank = 3, .start_ns = 1 });
	assert_int_equal(model_rank(m, NULL, 3)->tgid, 11);
	comes((struct who){ .tgid = 12, .rank = 3, .child = true, .start_ns = 1 });
	assert_int_equal(model_rank(m, NULL, 3)->tgid, 11);
	dies(11);
	assert_int_equal(model_rank(m, NULL, 3)->tgid, 10);
	dies(10);
	assert_int_equal(model_rank(m, NULL, 3)->tgid, 11);
	comes((struct who){ .tgid = 13, .rank = 3, .start_ns = 1, .job = "other" });
	tick();
	here = model_proc(m, 11)->job;
	assert_int_equal(model_rank(m, NULL, 3)->tgid, 13);
	assert_int_equal(model_rank(m, here, 3)->tgid, 11);
	assert_int_equal(model_rank(m, model_proc(m, 13)->job, 3)->tgid, 13);
	comes((struct who){ .tgid = 13, .rank = 4, .start_ns = 1, .job = "other" }); /* it has another now */
	assert_int_equal(model_rank(m, NULL, 3)->tgid, 11);
	assert_int_equal(model_rank(m, NULL, 4)->tgid, 13);
	comes((struct who){ .tgid = 13, .rank = -1, .start_ns = 1, .job = "other" });
	assert_null(model_rank(m, NULL, 4));
	assert_null(model_rank(m, NULL, -1));
}

/* A child is of its parent's rank, else of the oldest living process of that rank; before any it waits for one. */
static void whose_child_it_is(void **state)
{
	(void)state;
	comes((struct who){ .tgid = 20, .rank = 3, .child = true, .parent = 99 });
	assert_null(model_proc(m, 20)->leader);
	comes((struct who){ .tgid = 9, .rank = 4 });
	assert_null(model_proc(m, 20)->leader);
	comes((struct who){ .tgid = 10, .rank = 3 });
	assert_int_equal(model_proc(m, 20)->leader->tgid, 10);
	comes((struct who){ .tgid = 11, .rank = 3 });
	comes((struct who){ .tgid = 21, .rank = 3, .child = true, .parent = 99 });
	assert_int_equal(model_proc(m, 21)->leader->tgid, 10);
	comes((struct who){ .tgid = 22, .rank = 3, .child = true, .parent = 11 });
	assert_int_equal(model_proc(m, 22)->leader->tgid, 11);
	comes((struct who){ .tgid = 23, .rank = 3, .child = true, .parent = 9 }); /* forked by another rank */
	assert_int_equal(model_proc(m, 23)->leader->tgid, 10);
	dies(10);
	comes((struct who){ .tgid = 24, .rank = 3, .child = true, .parent = 99 });
	assert_int_equal(model_proc(m, 24)->leader->tgid, 11);
	comes((struct who){ .tgid = 25, .rank = -1, .child = true, .parent = 99 });
	assert_null(model_proc(m, 25)->leader);
}

/* Another container of the pod may have a rank of that number, too: what runs there is not its child. */
static void whose_child_it_is_by_its_place(void **state)
{
	struct event e = { .kind = EV_PROC };

	(void)state;
	e.proc.rank = 3;
	e.proc.local_rank = e.proc.world_size = -1;
	e.proc.job = "job";
	for (uint32_t i = 0; i < 4; i++) {
		e.tgid = e.tid = 10 + i;
		e.proc.is_child = i > 0;
		e.proc.parent_tgid = 99;
		e.proc.pod = i == 2 ? "pod-b" : "pod-a";
		e.proc.container = i == 3 ? "c2" : "c1";
		give(e);
	}
	assert_int_equal(model_proc(m, 11)->leader->tgid, 10);
	assert_null(model_proc(m, 12)->leader);
	assert_null(model_proc(m, 13)->leader);
}

static void ranks_that_no_launcher_numbered(void **state)
{
	const struct proc *p;

	(void)state;
	give(job_ready_event(0, 0, 7, 9));
	p = model_proc(m, job_pid(0));
	assert_int_equal(proc_rank(p), -1);
	for (int i = 0; i < 3; i++) {
		static const int sizes[] = { 4, 8, 2 }, ranks[] = { 1, 5, 0 };
		struct event e = job_ready_event(0, sizes[i], 70 + i, 90 + i);

		e.comm_init.rank = ranks[i];
		give(e);
		assert_int_equal(proc_rank(p), i ? 5 : 1); /* in its largest communicator */
	}
	assert_int_equal(comm_global_rank(p->members->comm, 0), 5);
	assert_int_equal(comm_global_rank(p->members->comm, 1), -1);
	assert_int_equal(comm_global_rank(p->members->comm, 2), -1);
	assert_int_equal(comm_global_rank(p->members->comm, -1), -1);
}

/* --- threads --- */

static struct event scan(enum task_state state, uint64_t since_ns, uint64_t run_ns)
{
	struct event e = job_event(EV_TASK, 0, 0);

	e.task.state = state;
	e.task.since_ns = since_ns;
	e.task.run_ns = run_ns;
	return e;
}

static void blocks(uint64_t begin_ns)
{
	struct event e = job_event(EV_BLOCKED, 0, 0);

	e.blocked.begin_ns = begin_ns;
	e.blocked.wchan = "nfs";
	give(e);
}

/* A wait that was emitted with its evidence goes on while a scan shows no other. */
static void blocked_until_a_scan_shows_otherwise(void **state)
{
	static const struct {
		enum task_state state;
		uint64_t since_ns;
		bool blocked;
	} cases[] = {
		{ TASK_DISK, 50, true }, { TASK_DISK, 49, true }, { TASK_DISK, 51, false }, { TASK_SLEEP, 50, false }
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct task *t;
		struct event at = job_event(EV_TASK_AT, 0, 0);

		blocks(50);
		t = model_task(m, job_pid(0), job_pid(0));
		at.task_at.wchan = at.task_at.syscall = at.task_at.file = "x";
		give(at);
		assert_string_equal(t->wchan, "nfs"); /* that has evidence */
		assert_int_equal(t->at_ns, 0);
		assert_int_equal(t->state, TASK_DISK);
		now += SEC;
		give(scan(cases[i].state, cases[i].since_ns, 0));
		assert_int_equal(t->blocked, cases[i].blocked);
	}
}

static void the_end_of_a_wait(void **state)
{
	static const struct {
		uint32_t tgid, tid, node;
		uint64_t begin_ns;
		bool over;
	} cases[] = { { 1, 1, 0, 49, false }, { 1, 1, 0, 50, true }, { 1, 1, 0, 51, true },  { 1, 2, 0, 50, false },
		      { 2, 1, 0, 50, false }, { 0, 1, 0, 50, true }, { 0, 2, 0, 50, false }, { 1, 1, 3, 50, false } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct event e = { .kind = EV_BLOCKED_END, .node = cases[i].node };
		const struct task *t;

		blocks(50);
		t = model_task(m, job_pid(0), job_pid(0));
		e.tgid = cases[i].tgid ? job_pid(0) + cases[i].tgid - 1 : 0;
		e.tid = job_pid(0) + cases[i].tid - 1;
		e.blocked.begin_ns = cases[i].begin_ns;
		now += SEC;
		give(e);
		if (t->blocked == cases[i].over)
			fail_msg("case %zu", i);
		assert_int_equal(t->state, cases[i].over ? TASK_UNKNOWN : TASK_DISK);
		assert_true(t->since_ns == (cases[i].over ? now : 50));
	}
}

static void a_scan_against_the_one_before(void **state)
{
	const struct task *t;

	(void)state;
	give(scan(TASK_SLEEP, 1, 100));
	t = model_task(m, job_pid(0), job_pid(0));
	assert_true(task_cpu_share(t) == -1); /* there is none before */
	now += 1000;
	give(scan(TASK_ON_CPU, 2, 350));
	assert_true(task_cpu_share(t) == 0.25);
	give(scan(TASK_RUNNABLE, 3, 400)); /* at the same time: of no use */
	assert_int_equal(t->state, TASK_RUNNABLE);
	assert_true(task_cpu_share(t) == -1);
	now += 10;
	give(scan(TASK_RUNNABLE, 3, 400));
	assert_true(task_cpu_share(t) == 0);
	now += 10;
	give(scan(TASK_RUNNABLE, 3, 399)); /* another one under its number */
	assert_true(task_cpu_share(t) == -1);
	now -= 1;
	give(scan(TASK_STOPPED, 4, 500)); /* older */
	assert_int_equal(t->state, TASK_RUNNABLE);
}

static void bytes_of_a_process(void **state)
{
	const struct proc *p;
	struct event e = scan(TASK_SLEEP, 1, 0);

	(void)state;
	e.task.io_bytes = 100;
	give(e);
	p = model_proc(m, job_pid(0));
	assert_true(p->io_bytes == 100 && p->prev_io_bytes == 100 && !p->prev_io_seen_ns && p->io_seen_ns == now);
	now += SEC;
	e.task.io_bytes = 0; /* not sampled */
	give(e);
	assert_true(p->io_bytes == 100 && p->io_seen_ns == now - SEC);
	e.task.io_bytes = 130;
	give(e);
	assert_true(p->io_bytes == 130 && p->prev_io_bytes == 100 && p->prev_io_seen_ns == now - SEC);
	e.task.io_bytes = 999; /* another thread of it, at the same time */
	give(e);
	assert_true(p->io_bytes == 130 && p->prev_io_bytes == 100);
}

static void stacks_and_names(void **state)
{
	struct event e = job_event(EV_STACK, 0, 0), name = job_event(EV_THREAD, 0, 0), wait = job_event(EV_WAIT, 0, 0);
	const struct task *t;

	(void)state;
	name.thread.name = "python";
	give(name);
	t = model_task(m, job_pid(0), job_pid(0));
	assert_string_equal(t->name, "python");
	name.thread.name = NULL;
	give(name);
	assert_string_equal(t->name, "");
	e.stack.python = "a";
	give(e);
	wait.wait.ns = 5;
	give(wait);
	assert_true(t->stack.ns == now && t->wait.ns == 5);
	e.stack.unread = true;
	e.stack.python = "b";
	e.stack.end = "no privilege";
	give(e);
	assert_string_equal(model_proc(m, job_pid(0))->outside.stacks_unread, "no privilege");
	assert_string_equal(t->stack.python, "a");
	e.stack.unread = false;
	give(e);
	assert_null(model_proc(m, job_pid(0))->outside.stacks_unread);
	give(job_event(EV_EXEC, 0, 0)); /* another program */
	assert_true(t->stack.ns == 0 && t->wait.ns == 0);
}

/* What an exec takes with it: communicators, what is queued, open groups. */
static void another_program(void **state)
{
	struct event e = job_event(EV_GROUP_START, 0, 0);
	const struct proc *p;

	(void)state;
	give(job_ready_event(0, 2, 7, 9));
	give(job_call_event(0, OP_ALLREDUCE, 7, 100, 5));
	give(e);
	e = job_call_event(0, OP_ALLREDUCE, 7, 100, 5);
	e.op.group_depth = 1;
	give(e);
	p = model_proc(m, job_pid(0));
	assert_int_equal(p->members->n_pending, 1);
	give(job_event(EV_EXEC, 0, 0));
	assert_true(p->members->gone && p->members->n_pending == 0 && !p->streams && !p->calls);
	give(job_ready_event(0, 2, 7, 9));
	assert_true(!p->members->gone && p->members->next_in_proc->gone);
	give(job_call_event(0, OP_ALLREDUCE, 7, 100, 5)); /* not behind what was held back */
	assert_int_equal(p->members->n_ops, 1);
	assert_int_equal(p->members->next_in_proc->entered_seq[SEQ_COLL], 1);
}

/* --- what is forgotten --- */

/* The first sweep that comes later than a minute after its end. */
static void a_minute_after_its_end(void **state)
{
	(void)state;
	comes((struct who){ .tgid = 10, .rank = 1 });
	forks(10, 20);
	tick();
	now += SEC;
	dies(20);
	now += 60 * SEC;
	tick();
	assert_non_null(model_proc(m, 20));
	now += 999 * MSEC; /* a sweep a second */
	tick();
	assert_non_null(model_proc(m, 20));
	now += MSEC;
	tick();
	assert_null(model_proc(m, 20));
	assert_int_equal(m->n_procs, 1);
	dies(10); /* a rank: who it was is emitted at the end */
	now += 600 * SEC;
	tick();
	assert_non_null(model_proc(m, 10));
}

static size_t n_dead(void)
{
	size_t n = 0;

	for (const struct proc *p = m->procs; p; p = p->next)
		n += p->dead;
	return n;
}

/* 256 dead ranks are kept for as long as it takes, 2048 dead of all kinds; the oldest go first. */
static void so_many_dead(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 256; i++) {
		comes((struct who){ .tgid = 100 + i, .rank = (int)i });
		dies(100 + i);
	}
	now += 61 * SEC;
	tick();
	assert_int_equal(n_dead(), 256);
	comes((struct who){ .tgid = 99, .rank = 7 });
	dies(99);
	now += 30 * SEC;
	tick(); /* one more, and the oldest makes room for it */
	assert_int_equal(n_dead(), 256);
	assert_null(model_proc(m, 100));
	assert_non_null(model_proc(m, 99));
	for (uint32_t i = 0; n_dead() < 2048; i++) {
		comes((struct who){ .tgid = 10000 + i, .rank = -1 });
		dies(10000 + i);
	}
	now += SEC;
	tick();
	assert_int_equal(n_dead(), 2048);
	comes((struct who){ .tgid = 5000, .rank = -1 });
	dies(5000);
	now += SEC;
	tick();
	assert_int_equal(n_dead(), 2048);
	assert_null(model_proc(m, 101));
	assert_non_null(model_proc(m, 102));
}

/* Between two ticks, too. */
static void a_storm_of_deaths(void **state)
{
	size_t most = 0;

	(void)state;
	for (uint32_t i = 0; i < 9000; i++) {
		comes((struct who){ .tgid = 10000 + i, .rank = -1 });
		dies(10000 + i);
		most = n_dead() > most ? n_dead() : most;
	}
	assert_in_range(most, 2049, 4097);
}

static void comm_of(int rank, uint64_t addr, bool gone)
{
	struct event e = job_event(EV_COMM_GONE, rank, 0);

	give(job_ready_event(rank, 8, addr, 1000 + addr));
	e.comm_gone.addr = addr;
	if (gone)
		give(e);
}

static void comm_of_one(uint64_t addr, bool gone)
{
	comm_of(0, addr, gone);
}

static void communicators_that_are_over(void **state)
{
	(void)state;
	comm_of_one(1, true);
	comm_of_one(2, false);
	tick(); /* seen to be over */
	now += 60 * SEC;
	tick();
	assert_int_equal(m->n_comms, 2);
	now += SEC;
	tick();
	assert_int_equal(m->n_comms, 1);
	assert_int_equal(m->comms->hash, 1002);
	assert_int_equal(m->n_members, 1);
	assert_true(model_proc(m, job_pid(0))->members->addr == 2 && !model_proc(m, job_pid(0))->members->next_in_proc);
	for (uint64_t i = 10; i < 10 + 1024; i++)
		comm_of(i % 8, i, true); /* few of each: where one process has many, they go at once */
	now += SEC;
	tick();
	assert_int_equal(m->n_comms, 1 + 1024);
	comm_of(1, 3, true);
	now += SEC;
	tick(); /* however young: the oldest makes room */
	assert_int_equal(m->n_comms, 1 + 1024);
	assert_int_equal(m->comms->next->hash, 1011);
}

/* Its operations are handed out first. */
static void operations_go_before_their_communicator(void **state)
{
	int n = 0;

	(void)state;
	comm_of_one(1, false);
	for (int i = 0; i < 5; i++)
		give(job_call_event(0, OP_ALLREDUCE, 1, 100, 5));
	struct event e = job_event(EV_COMM_GONE, 0, 0);

	e.comm_gone.addr = 1;
	give(e);
	tick();
	now += 61 * SEC;
	give((struct event){ .kind = EV_TICK });
	assert_int_equal(m->n_comms, 1);
	while (model_next_ended(m))
		n++;
	assert_int_equal(n, 5);
	now += SEC;
	tick();
	assert_int_equal(m->n_comms, 0);
	assert_int_equal(m->n_members, 0);
	assert_null(model_proc(m, job_pid(0))->last_op);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(a_pid_and_its_start),
		TEST(a_pid_that_is_forked_again),
		TEST(which_process_is_asked_for),
		TEST(whose_child_it_is),
		TEST(whose_child_it_is_by_its_place),
		TEST(ranks_that_no_launcher_numbered),
		TEST(blocked_until_a_scan_shows_otherwise),
		TEST(the_end_of_a_wait),
		TEST(a_scan_against_the_one_before),
		TEST(bytes_of_a_process),
		TEST(stacks_and_names),
		TEST(another_program),
		TEST(a_minute_after_its_end),
		TEST(so_many_dead),
		TEST(a_storm_of_deaths),
		TEST(communicators_that_are_over),
		TEST(operations_go_before_their_communicator),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
