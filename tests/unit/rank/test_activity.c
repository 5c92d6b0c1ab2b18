/* SPDX-License-Identifier: Apache-2.0
 *
 * test_activity.c - what a late rank does, by two scans of its threads: how little work is none, what is a sign of life
 * beside it, and what says nothing yet. It is late since second 1000; scans are a second apart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/rank/activity.h"

#define SEC 1000000000ull
#define MSEC 1000000ull
#define SINCE (1000 * SEC)

static struct node node;
static struct comm comm;
static struct member member;
static struct task main_thread, watchdog;
static struct proc rank;
static struct model m;

/* The rank sleeps since long, its watchdog polls a little. */
static int setup(void **state)
{
	(void)state;
	watchdog = (struct task){ .tid = 8, .tgid = 7, .state = TASK_RUNNABLE };
	main_thread = (struct task){ .tid = 7, .tgid = 7, .state = TASK_SLEEP, .since_ns = SINCE - SEC };
	for (struct task *t = &watchdog; t; t = t == &watchdog ? &main_thread : NULL) {
		t->proc = &rank;
		t->prev_seen_ns = SINCE + SEC;
		t->seen_ns = SINCE + 2 * SEC;
	}
	watchdog.next = &main_thread;
	watchdog.run_ns = 50 * MSEC;
	member = (struct member){ .comm = &comm, .proc = &rank };
	rank = (struct proc){ .tgid = 7, .node = &node, .tasks = &watchdog, .members = &member, .leader = &rank };
	m = (struct model){ .now_ns = SINCE + 3 * SEC, .procs = &rank };
	return 0;
}

static enum activity now(void)
{
	return rank_activity(&m, &rank, SINCE).what;
}

static void one_that_sleeps_since_long_is_asleep(void **state)
{
	struct rank_activity a = rank_activity(&m, &rank, SINCE);

	(void)state;
	assert_int_equal(a.what, ACTIVITY_ASLEEP);
	assert_ptr_equal(a.task, &main_thread);
	assert_true(a.cpu_share > 0.04 && a.cpu_share < 0.06);
}

static void a_fifth_of_a_core_is_work(void **state)
{
	(void)state;
	watchdog.run_ns = 190 * MSEC;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	watchdog.run_ns = 200 * MSEC;
	assert_int_equal(now(), ACTIVITY_BUSY);
}

/* Of time from before it was late nothing follows. */
static void work_from_before_says_nothing(void **state)
{
	(void)state;
	watchdog.run_ns = 900 * MSEC;
	watchdog.prev_seen_ns = SINCE - 1;
	assert_int_equal(now(), ACTIVITY_UNSETTLED);
	watchdog.prev_seen_ns = SINCE;
	assert_int_equal(now(), ACTIVITY_BUSY);
}

static void bytes_are_work(void **state)
{
	(void)state;
	rank.prev_io_seen_ns = SINCE + SEC;
	rank.io_seen_ns = SINCE + 2 * SEC;
	rank.io_bytes = 99000;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	rank.io_bytes = 100000;
	assert_int_equal(now(), ACTIVITY_BUSY);
	rank.prev_io_seen_ns = SINCE - 1;
	rank.io_bytes = 300000;
	assert_int_equal(now(), ACTIVITY_UNSETTLED);
}

/* On a crowded machine: half of the time it ran or stood in line. */
static void one_that_wants_a_cpu_works(void **state)
{
	(void)state;
	main_thread.state = TASK_RUNNABLE;
	main_thread.since_ns = SINCE + 2 * SEC;
	main_thread.run_ns = 100 * MSEC;
	main_thread.wait_ns = 390 * MSEC;
	assert_int_equal(now(), ACTIVITY_UNSETTLED); /* it does not sleep either */
	main_thread.wait_ns = 400 * MSEC;
	assert_int_equal(now(), ACTIVITY_BUSY);
	main_thread.wait_ns = 0;
	watchdog.wait_ns = 900 * MSEC; /* a watchdog that stands in line is none */
	assert_int_equal(now(), ACTIVITY_UNSETTLED);
}

/* It stood in line before it was late, or before the two scans, sleeps now, or its totals began anew: nothing of that
 * is a wish. */
static void what_is_no_wish_for_a_cpu(void **state)
{
	static const struct {
		const char *what;
		enum task_state is;
		uint64_t prev_seen_ns, since_ns, wait_ns, run_ns;
		enum activity then;
	} cases[] = {
		{ "half of the time", TASK_RUNNABLE, SINCE, SINCE + SEC, 900 * MSEC, 100 * MSEC, ACTIVITY_BUSY },
		{ "before", TASK_RUNNABLE, SINCE - 1, SINCE + SEC, 900 * MSEC, 100 * MSEC, ACTIVITY_UNSETTLED },
		{ "asleep since", TASK_SLEEP, SINCE, SINCE - SEC, 900 * MSEC, 100 * MSEC, ACTIVITY_ASLEEP },
		{ "in line before", TASK_RUNNABLE, SINCE, SINCE + SEC, 400 * MSEC, 100 * MSEC, ACTIVITY_UNSETTLED },
		{ "of less", TASK_RUNNABLE, SINCE, SINCE + SEC, 99 * MSEC, 100 * MSEC, ACTIVITY_UNSETTLED },
		{ "run of less", TASK_RUNNABLE, SINCE, SINCE + SEC, 900 * MSEC, 49 * MSEC, ACTIVITY_UNSETTLED },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		setup(state);
		main_thread.prev_run_ns = 50 * MSEC;
		main_thread.prev_wait_ns = 100 * MSEC;
		main_thread.state = cases[i].is;
		main_thread.prev_seen_ns = cases[i].prev_seen_ns;
		main_thread.seen_ns = main_thread.prev_seen_ns + SEC;
		main_thread.since_ns = cases[i].since_ns;
		main_thread.wait_ns = cases[i].wait_ns;
		main_thread.run_ns = cases[i].run_ns;
		if (now() != cases[i].then)
			fail_msg("%s", cases[i].what);
	}
}

/* Bytes between two readings that are those of one time, or less than before, are none. */
static void what_are_no_bytes(void **state)
{
	(void)state;
	rank.prev_io_bytes = 1000000;
	rank.io_bytes = 2000000;
	rank.io_seen_ns = rank.prev_io_seen_ns = SINCE + SEC;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	rank.io_seen_ns += SEC;
	assert_int_equal(now(), ACTIVITY_BUSY);
	assert_true(rank_activity(&m, &rank, SINCE).io_bytes_s == 1e6);
	rank.io_bytes = 999999;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	rank.io_bytes = 2000000;
	rank.prev_io_seen_ns = 0;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
}

/* What its children do is what it waits for; a child's last state before its death is not. */
static void children_that_work(void **state)
{
	struct task busy = { .tid = 9, .tgid = 9, .state = TASK_ON_CPU };
	struct proc child = { .tgid = 9, .node = &node, .leader = &rank, .is_child = true, .tasks = &busy };

	(void)state;
	busy.prev_seen_ns = SINCE;
	busy.seen_ns = SINCE + SEC;
	busy.run_ns = 200 * MSEC;
	assert_int_equal(rank_helpers_activity(&m, &rank, SINCE), ACTIVITY_ASLEEP);
	rank.next = &child;
	assert_int_equal(now(), ACTIVITY_BUSY);
	assert_int_equal(rank_helpers_activity(&m, &rank, SINCE), ACTIVITY_BUSY);
	busy.run_ns = 190 * MSEC;
	watchdog.run_ns = SEC; /* no child */
	assert_int_equal(rank_helpers_activity(&m, &rank, SINCE), ACTIVITY_ASLEEP);
	watchdog.run_ns = 0;
	busy.run_ns = 200 * MSEC;
	child.dead = true;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	assert_int_equal(rank_helpers_activity(&m, &rank, SINCE), ACTIVITY_ASLEEP);
	child.dead = false;
	child.leader = NULL;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	assert_int_equal(rank_helpers_activity(&m, &rank, SINCE), ACTIVITY_ASLEEP);
	child.leader = &rank;
	busy.run_ns = 0;
	child.prev_io_seen_ns = SINCE;
	child.io_seen_ns = SINCE + SEC;
	child.io_bytes = 100000;
	assert_int_equal(rank_helpers_activity(&m, &rank, SINCE), ACTIVITY_BUSY);
	child.io_bytes--;
	assert_int_equal(rank_helpers_activity(&m, &rank, SINCE), ACTIVITY_ASLEEP);
}

/* One that began since then: what it did until its first scan, and read beyond a program's own start. */
static void children_that_are_young(void **state)
{
	struct task young = { .tid = 9, .tgid = 9, .state = TASK_SLEEP, .seen_ns = SINCE + 2 * SEC };
	struct proc child = { .tgid = 9, .node = &node, .leader = &rank, .is_child = true, .tasks = &young };

	(void)state;
	rank.next = &child;
	child.first_ns = SINCE + SEC;
	young.since_ns = SINCE;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	child.io_seen_ns = SINCE + 2 * SEC;
	child.io_bytes = 1 << 20;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	assert_int_equal(rank_helpers_activity(&m, &rank, SINCE), ACTIVITY_ASLEEP);
	child.io_bytes++;
	assert_int_equal(now(), ACTIVITY_BUSY);
	assert_int_equal(rank_helpers_activity(&m, &rank, SINCE), ACTIVITY_BUSY);
	assert_true(rank_activity(&m, &rank, SINCE).io_bytes_s == (1 << 20) + 1);
	child.io_bytes = 0;
	young.run_ns = 100 * MSEC;
	watchdog.run_ns = 99 * MSEC;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	young.run_ns = 201 * MSEC;
	assert_int_equal(now(), ACTIVITY_BUSY);
	assert_int_equal(rank_helpers_activity(&m, &rank, SINCE), ACTIVITY_BUSY);
	assert_true(rank_activity(&m, &rank, SINCE).cpu_share > 0.299);
	young.seen_ns = young.run_ns = 0; /* not scanned yet */
	m.now_ns = SINCE + 3 * SEC - 1;
	assert_int_equal(now(), ACTIVITY_UNSETTLED);
	assert_int_equal(rank_helpers_activity(&m, &rank, SINCE), ACTIVITY_UNSETTLED);
	m.now_ns = SINCE + 3 * SEC;
	assert_int_equal(rank_helpers_activity(&m, &rank, SINCE), ACTIVITY_ASLEEP);
}

/* --- bytes over sockets --- */

static struct tcp_connection socket_of, *sockets[2] = { NULL, &socket_of };
static struct model *known;

/* One that leads to no rank: 100 kB in the second between its two samples. */
static void a_socket(void)
{
	struct event e = { .kind = EV_PROC, .tgid = 7, .ts_ns = 1, .proc = { .rank = 0, .name = "" } };

	known = model_new();
	assert_int_equal(model_apply(known, &e), 0);
	((struct proc *)model_proc(known, 7))->leader = &rank;
	m.state = known->state;
	m.tcp.at = sockets;
	m.tcp.n = 2;
	socket_of = (struct tcp_connection){ .proc = 7, .n_samples = 2 };
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < TCP_COUNTERS; k++)
			socket_of.samples[i].counters[k] = TCP_NO_VALUE;
		socket_of.samples[i].now.taken_ns = SINCE + i * SEC;
		socket_of.samples[i].counters[TCP_BYTES_ACKED] = 1000 + 60000 * i;
		socket_of.samples[i].counters[TCP_BYTES_RECEIVED] = 1000 + 40000 * i;
	}
}

static bool moves(void)
{
	bool is = now() == ACTIVITY_BUSY;

	assert_int_equal(rank_helpers_activity(&m, &rank, SINCE), is ? ACTIVITY_BUSY : ACTIVITY_ASLEEP);
	assert_true(is || now() == ACTIVITY_ASLEEP);
	return is;
}

static void bytes_over_sockets(void **state)
{
	struct tcp_connection peer = { .proc = 9 };
	struct tcp_sample *before = &socket_of.samples[0], *after = &socket_of.samples[1];

	(void)state;
	a_socket();
	assert_true(moves());
	after->counters[TCP_BYTES_RECEIVED]--;
	assert_false(moves());
	after->counters[TCP_BYTES_RECEIVED]++;
	socket_of.peer = &peer; /* a rank's */
	assert_false(moves());
	socket_of.peer = NULL;
	before->now.taken_ns--;
	assert_false(moves());
	before->now.taken_ns++;
	m.now_ns = SINCE + SEC + 2500 * MSEC;
	assert_true(moves());
	m.now_ns++;
	assert_false(moves());
	m.now_ns = SINCE + 3 * SEC;
	after->now.taken_ns = SINCE;
	assert_false(moves());
	after->now.taken_ns = SINCE + SEC;
	socket_of.n_samples = 1;
	assert_false(moves());
	socket_of.n_samples = 2;
	((struct proc *)model_proc(known, 7))->leader = NULL; /* another's */
	assert_false(moves());
	((struct proc *)model_proc(known, 7))->leader = &rank;
	socket_of.proc = 8;
	assert_false(moves());
	model_free(known);
}

/* Of itself, not only of a child. */
static void its_own_socket(void **state)
{
	struct proc *own;

	(void)state;
	a_socket();
	own = (struct proc *)model_proc(known, 7);
	own->leader = NULL;
	main_thread.proc = watchdog.proc = own;
	own->tasks = &watchdog;
	m.procs = own;
	assert_int_equal(rank_activity(&m, own, SINCE).what, ACTIVITY_BUSY);
	socket_of.n_samples = 1;
	assert_int_equal(rank_activity(&m, own, SINCE).what, ACTIVITY_ASLEEP);
	own->tasks = NULL;
	model_free(known);
}

/* A child in D: long enough, and of a rank that does nothing else. */
static void children_that_are_blocked(void **state)
{
	struct task disk = { .tid = 9, .tgid = 9, .state = TASK_DISK, .since_ns = SINCE };
	struct proc child = { .tgid = 9, .node = &node, .leader = &rank, .is_child = true, .tasks = &disk };

	(void)state;
	rank.next = &child;
	disk.seen_ns = SINCE + 400 * MSEC;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	disk.seen_ns++;
	assert_int_equal(now(), ACTIVITY_DISK);
	assert_ptr_equal(rank_activity(&m, &rank, SINCE).task, &disk);
	disk.state = TASK_SLEEP;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	disk.blocked = true;
	assert_int_equal(now(), ACTIVITY_BLOCKED);
	assert_ptr_equal(rank_activity(&m, &rank, SINCE).task, &disk);
	child.dead = true;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	child.dead = false;
	child.leader = &child;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	child.leader = &rank;
	watchdog.run_ns = SEC;
	assert_int_equal(now(), ACTIVITY_BUSY);
}

/* The thread of what comes next by its iteration; else of its last call; else the main one. */
static void who_would_call(void **state)
{
	struct op ops[4];
	struct steps steps = { .period_ops = 3 };

	(void)state;
	assert_int_equal(rank_calling_tid(&rank), 7);
	for (int i = 0; i < 4; i++)
		ops[i] = (struct op){ .tid = 20 + i, .prev_in_proc = i ? &ops[i - 1] : NULL };
	rank.last_op = &ops[3];
	assert_null(rank_next_op(&rank));
	assert_int_equal(rank_calling_tid(&rank), 23);
	rank.steps = &steps;
	assert_ptr_equal(rank_next_op(&rank), &ops[1]);
	assert_int_equal(rank_calling_tid(&rank), 21);
	steps.period_ops = 4;
	assert_ptr_equal(rank_next_op(&rank), &ops[0]);
	steps.period_ops = 1;
	assert_ptr_equal(rank_next_op(&rank), &ops[3]);
	steps.period_ops = 5; /* not kept that long */
	assert_null(rank_next_op(&rank));
	assert_int_equal(rank_calling_tid(&rank), 23);
	steps.period_ops = 0;
	assert_null(rank_next_op(&rank));
}

/* A thread whose D wait ended after its last scan says nothing yet; one that woke before it was late does. */
static void one_that_woke(void **state)
{
	(void)state;
	watchdog.state = TASK_UNKNOWN;
	watchdog.since_ns = SINCE + 1;
	assert_int_equal(now(), ACTIVITY_UNSETTLED);
	watchdog.since_ns = SINCE;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
}

/* Asleep at the last scan alone: whether it was all along is known if the one before was of that time. */
static void one_that_sleeps_since_the_scan(void **state)
{
	(void)state;
	main_thread.since_ns = main_thread.seen_ns;
	main_thread.prev_seen_ns = SINCE;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	main_thread.prev_seen_ns = SINCE - 1;
	assert_int_equal(now(), ACTIVITY_UNSETTLED);
	rank.tasks->next = NULL; /* not scanned: nothing says that it works */
	assert_int_equal(now(), ACTIVITY_ASLEEP);
}

static void one_that_was_not_scanned_is_unseen(void **state)
{
	(void)state;
	main_thread.seen_ns = watchdog.seen_ns = main_thread.prev_seen_ns = watchdog.prev_seen_ns = 0;
	assert_int_equal(now(), ACTIVITY_UNSEEN);
}

/* The scan was too soon after it became late. */
static void one_scan_too_early_says_nothing(void **state)
{
	(void)state;
	main_thread.seen_ns = watchdog.seen_ns = SINCE + 400 * MSEC;
	main_thread.prev_seen_ns = watchdog.prev_seen_ns = SINCE - 600 * MSEC;
	assert_int_equal(now(), ACTIVITY_UNSETTLED);
	main_thread.seen_ns++;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
}

static void a_call_is_a_sign_of_life_for_a_second(void **state)
{
	(void)state;
	rank.last_call_ns = m.now_ns - SEC + 1;
	assert_int_equal(now(), ACTIVITY_BUSY);
	rank.last_call_ns--;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	m.now_ns = SINCE + SEC / 2;
	rank.last_call_ns = SINCE; /* what it entered last before it was late */
	assert_int_equal(now(), ACTIVITY_ASLEEP);
}

static void counters_that_move_are_a_sign_of_life(void **state)
{
	(void)state;
	member.samples = (struct samples){ .moved = true, .after_ns = SINCE, .since_ns = m.now_ns - 2500 * MSEC + 1 };
	assert_int_equal(now(), ACTIVITY_BUSY);
	member.samples.since_ns--; /* they stood since then */
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	member.samples.since_ns++;
	member.samples.after_ns--; /* they may have moved before it was late */
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	member.samples.after_ns++;
	member.samples.moved = false;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	member.samples.moved = member.gone = true;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
}

static void what_keeps_a_thread_is_named_first(void **state)
{
	(void)state;
	main_thread.state = TASK_STOPPED;
	assert_int_equal(now(), ACTIVITY_STOPPED);
	main_thread.state = TASK_DISK;
	assert_int_equal(now(), ACTIVITY_DISK);
	assert_ptr_equal(rank_activity(&m, &rank, SINCE).task, &main_thread);
	watchdog.blocked = true;
	assert_int_equal(now(), ACTIVITY_BLOCKED);
	assert_ptr_equal(rank_activity(&m, &rank, SINCE).task, &watchdog);
	rank.dead = true;
	assert_int_equal(now(), ACTIVITY_DEAD);
}

/* One that writes a checkpoint beside the training is in D now and then; the rank waits for it only if that lasts. */
static void a_side_thread_in_d(void **state)
{
	(void)state;
	watchdog.state = TASK_DISK;
	watchdog.since_ns = watchdog.seen_ns - 400 * MSEC;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
	watchdog.since_ns--;
	assert_int_equal(now(), ACTIVITY_DISK);
	assert_ptr_equal(rank_activity(&m, &rank, SINCE).task, &watchdog);
}

/* Several, again and again, are what it waits for; one look says no more than that it is not clear. */
static void threads_that_work_on_a_disk(void **state)
{
	uint64_t *at = rank.outside.disk.at_ns;

	(void)state;
	at[0] = SINCE;
	assert_int_equal(now(), ACTIVITY_ASLEEP); /* before it was late */
	at[0] = SINCE + 2 * SEC;
	assert_int_equal(now(), ACTIVITY_UNSETTLED);
	at[1] = SINCE + SEC;
	at[2] = SINCE;
	assert_int_equal(now(), ACTIVITY_UNSETTLED);
	at[2]++;
	assert_int_equal(now(), ACTIVITY_BUSY);
	m.now_ns = at[0] + 10 * SEC - 1;
	assert_int_equal(now(), ACTIVITY_BUSY);
	m.now_ns++;
	assert_int_equal(now(), ACTIVITY_ASLEEP);
}

/* Asleep without a break for 400 ms at the scan: a poll wakes more often. */
static void at_rest_is_asleep_for_long(void **state)
{
	(void)state;
	assert_true(rank_at_rest(&rank));
	main_thread.since_ns = main_thread.seen_ns - 400 * MSEC;
	assert_false(rank_at_rest(&rank));
	main_thread.since_ns--;
	assert_true(rank_at_rest(&rank));
	main_thread.state = TASK_STOPPED;
	assert_false(rank_at_rest(&rank));
	rank.tasks = NULL;
	assert_false(rank_at_rest(&rank));
}

static void who_counts_as_a_rank(void **state)
{
	struct proc p = { .rank = 3, .node = &node };

	(void)state;
	assert_true(rank_counts(&p));
	p.is_child = true;
	assert_false(rank_counts(&p));
	p.members = &member; /* a worker that communicates itself */
	assert_true(rank_counts(&p));
	p = (struct proc){ .rank = -1, .node = &node };
	assert_false(rank_counts(&p));
	node.silent_ns = 1; /* of a host that reports no more nothing is known */
	p.rank = 3;
	assert_false(rank_counts(&p));
	node.silent_ns = 0;
}

static void who_is_gone_or_stopped(void **state)
{
	(void)state;
	assert_false(proc_gone_or_stopped(&rank));
	watchdog.state = TASK_STOPPED; /* one thread alone: a debugger's */
	assert_false(proc_gone_or_stopped(&rank));
	main_thread.state = TASK_STOPPED;
	assert_true(proc_gone_or_stopped(&rank));
	main_thread.state = TASK_SLEEP;
	rank.dead = true;
	assert_true(proc_gone_or_stopped(&rank));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		TEST(one_that_sleeps_since_long_is_asleep),
		TEST(a_fifth_of_a_core_is_work),
		TEST(work_from_before_says_nothing),
		TEST(bytes_are_work),
		TEST(one_that_wants_a_cpu_works),
		TEST(what_is_no_wish_for_a_cpu),
		TEST(what_are_no_bytes),
		TEST(children_that_work),
		TEST(children_that_are_young),
		TEST(bytes_over_sockets),
		TEST(its_own_socket),
		TEST(children_that_are_blocked),
		TEST(who_would_call),
		TEST(one_that_woke),
		TEST(one_that_sleeps_since_the_scan),
		TEST(one_that_was_not_scanned_is_unseen),
		TEST(one_scan_too_early_says_nothing),
		TEST(a_call_is_a_sign_of_life_for_a_second),
		TEST(counters_that_move_are_a_sign_of_life),
		TEST(what_keeps_a_thread_is_named_first),
		TEST(a_side_thread_in_d),
		TEST(threads_that_work_on_a_disk),
		TEST(at_rest_is_asleep_for_long),
		TEST(who_counts_as_a_rank),
		TEST(who_is_gone_or_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
