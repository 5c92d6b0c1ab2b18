/* SPDX-License-Identifier: Apache-2.0
 *
 * test_host_rules.c - where the rules of the detectors of the host begin and end: lost records, a CPU quota, tasks in D
 * state, stopped ranks.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/detect.h"
#include "tests/unit/job/evidence.h"
#define HAND_RANKS 3
#include "tests/unit/job/hand_known.h"

static const struct job_id job = { .name = "train", .shown = "train", .nth = 1 },
			   other_job = { .name = "other", .shown = "other", .nth = 1 };
static struct finding_list list;
static struct steps steps;
static struct op op;
static void *detector;
static const struct detector *of;

static int begin(void **state)
{
	hand_setup(state);
	hand_find();
	list = (struct finding_list){ 0 };
	steps = (struct steps){ .period_ops = 1 };
	op = (struct op){ 0 };
	for (int r = 0; r < HAND_RANKS; r++) {
		known[r]->steps = &steps;
		known[r]->last_op = &op;
		known[r]->job = &job;
		op.tid = HAND_PID(0);
		mains[r].seen_ns = proxies[r].seen_ns = NOW;
		mains[r].kernel_stack = mains[r].user_stack = mains[r].wchan = mains[r].syscall = mains[r].file = "";
		proxies[r].kernel_stack = proxies[r].user_stack = proxies[r].wchan = proxies[r].syscall =
			proxies[r].file = "";
	}
	detector = calloc(1, 4096);
	of = NULL;
	return 0;
}

static int end(void **state)
{
	(void)state;
	if (of && of->release)
		of->release(detector);
	free(detector);
	finding_list_free(&list);
	hand_lose();
	return 0;
}

static void again(void **state, const struct detector *d)
{
	end(state);
	begin(state);
	of = d;
	assert_true(d->state_bytes <= 4096);
}

static void tick(void)
{
	list.n = 0;
	assert_int_equal(of->tick(detector, &m, &list), 0);
}

static const struct finding *only(void)
{
	assert_true(list.n <= 1);
	return list.n ? &list.items[0] : NULL;
}

static bool near(double a, double b)
{
	return fabs(a - b) < 1e-6;
}

/* --- loss --- */

/* One finding for ten seconds behind each loss: how many since it began. */
static void lost_records(void **state)
{
	(void)state;
	again(state, &detector_loss);
	m.lost = 5; /* of before, and long ago */
	tick();
	assert_null(only());
	m.lost = 8;
	m.last_loss_ns = NOW - 1;
	tick();
	assert_int_equal(only()->kind, FINDING_LOST_EVENTS);
	assert_int_equal(only()->since_ns, NOW - 1);
	assert_true(only()->confidence == 1 && only()->key);
	assert_true(number_named(only(), "lost_records", 0) == 3);
	assert_true(number_named(only(), "lost_total", 0) == 8);
	m.lost = 10;
	m.last_loss_ns = m.now_ns = NOW + 9 * SEC;
	tick();
	assert_int_equal(only()->since_ns, NOW - 1);
	assert_true(number_named(only(), "lost_records", 0) == 5);
	m.now_ns += 10 * SEC;
	tick();
	assert_non_null(only());
	m.now_ns++;
	tick();
	assert_null(only());
	m.lost = 11;
	m.last_loss_ns = m.now_ns;
	tick();
	assert_true(number_named(only(), "lost_records", 0) == 1);
	assert_int_equal(only()->since_ns, m.now_ns);
}

/* --- a CPU quota --- */

/* A second in which the rank was throttled, and waited, for these shares. */
static void throttled(int r, double share, double wait)
{
	known[r]->throttle_seen_ns = m.now_ns;
	known[r]->throttled_ns += share * 1e9;
	mains[r].seen_ns = m.now_ns;
	mains[r].wait_ns += wait * 1e9;
}

static void second(double share, double wait)
{
	m.now_ns += SEC;
	throttled(0, share, wait);
	tick();
}

static void seconds(int n, double share, double wait)
{
	while (n-- > 0)
		second(share, wait);
}

static void a_quota_for_five_seconds(void **state)
{
	static const struct {
		double share, wait;
		bool starved;
	} cases[] = {
		{ 0.5, 0.5, true }, { 0.1, 0.5, true }, { 0.099, 0.5, false }, { 0.5, 0.1, true }, { 0.5, 0.099, false }
	};

	for (int i = 0; i < 5; i++) {
		again(state, &detector_cpu_starved);
		known[0]->quota_cores = 2;
		second(0, 0);
		seconds(5, cases[i].share, cases[i].wait);
		assert_int_equal(!!only(), cases[i].starved);
		if (!only())
			continue;
		assert_int_equal(only()->since_ns, NOW + SEC);
		assert_int_equal(only()->kind, FINDING_CPU_STARVED);
		assert_int_equal(only()->cause, CAUSE_CGROUP_QUOTA);
		assert_int_equal(only()->n_ranks, 1);
		assert_true(only()->key && near(only()->confidence, 0.95));
		assert_true(near(number_named(only(), "throttled_share", 0), cases[i].share));
		assert_true(near(number_named(only(), "runqueue_wait_share", 0), cases[i].wait));
		assert_true(number_named(only(), "quota_cores", 0) == 2);
		second(0.01, 0.5);
		assert_null(only());
		seconds(4, 0.5, 0.5);
		assert_null(only());
		second(0.5, 0.5);
		assert_non_null(only());
		assert_int_equal(only()->since_ns, m.now_ns - 5 * SEC);
	}
}

static void not_before_five_seconds(void **state)
{
	(void)state;
	again(state, &detector_cpu_starved);
	second(0, 0);
	seconds(4, 0.5, 0.5);
	m.now_ns += SEC - 1;
	tick();
	assert_null(only());
	m.now_ns++;
	throttled(0, 0.5, 0.5);
	tick();
	assert_non_null(only());
}

/* Ticks between two seconds take no sample. */
static void once_a_second(void **state)
{
	(void)state;
	again(state, &detector_cpu_starved);
	second(0, 0);
	for (int i = 0; i < 10; i++) {
		m.now_ns += 500 * MSEC;
		throttled(0, i % 2 ? 0.3 : 0, i % 2 ? 0.3 : 0);
		tick();
	}
	assert_non_null(only());
	assert_true(near(number_named(only(), "throttled_share", 0), 0.3));
}

static void of_all_ranks_of_a_job(void **state)
{
	(void)state;
	again(state, &detector_cpu_starved);
	known[2]->job = &other_job;
	for (int i = 0; i < 7; i++) {
		m.now_ns += SEC;
		throttled(0, i ? 0.3 : 0, i ? 0.3 : 0);
		throttled(1, i > 1 ? 0.6 : 0, i > 1 ? 0.6 : 0);
		throttled(2, i > 2 ? 0.4 : 0, i > 2 ? 0.4 : 0);
		tick();
	}
	assert_non_null(only()); /* the other job's rank is not that long */
	assert_int_equal(only()->n_ranks, 2);
	assert_int_equal(only()->since_ns, NOW + SEC);
	assert_true(near(number_named(only(), "runqueue_wait_share", 0), 0.6)); /* of the worst */
	assert_string_equal(only()->subject.job ? "train" : "", "train");
	known[0]->dead = true;
	tick();
	assert_int_equal(only()->n_ranks, 1);
	m.now_ns += SEC;
	throttled(1, 0.6, 0.6);
	throttled(2, 0.4, 0.4);
	tick();
	assert_int_equal(list.n, 2);
}

/* What a straggler finding of it alone says is not said twice. */
static void what_the_straggler_detector_says(void **state)
{
	for (int n = 1; n <= 3; n++) {
		struct finding *f;

		again(state, &detector_cpu_starved);
		second(0, 0);
		seconds(6, 0.5, 0.5);
		assert_non_null(only());
		list.n = 0;
		f = finding_list_add(&list);
		f->kind = n == 3 ? FINDING_XID : FINDING_STRAGGLER;
		finding_add_rank(f, 0, known[0]->key);
		if (n == 2)
			finding_add_rank(f, 1, known[1]->key);
		assert_int_equal(of->tick(detector, &m, &list), 0);
		assert_int_equal(list.n, n == 1 ? 1 : 2);
		tick();
		assert_int_equal(!!only(), n != 1);
	}
}

/* --- D state --- */

static void blocked(struct task *t, const char *stack, const char *wchan, uint64_t since_ns)
{
	t->blocked = true;
	t->blocked_since_ns = since_ns;
	t->kernel_stack = stack;
	t->wchan = wchan;
}

static const char MM[] = "rwsem_down_read_slowpath\ndown_read\ndo_user_addr_fault", NFS[] = "nfs_wait\nio_schedule";

static void what_a_task_waits_for(void **state)
{
	static const struct {
		const char *stack, *wchan;
		bool held;
		enum finding_cause cause;
	} cases[] = { { MM, "rwsem_down_read_slowpath", false, CAUSE_MMAP_LOCK },
		      { NFS, "nfs_wait", false, CAUSE_D_STATE },
		      { NFS, "nfs_wait", true, CAUSE_D_STATE },
		      { "", "rwsem_down_read", true, CAUSE_MMAP_LOCK },
		      { "", "rwsem_down_read", false, CAUSE_D_STATE },
		      { "", "", true, CAUSE_UNKNOWN },
		      { "down_read\nnfs_lookup", "x", false, CAUSE_D_STATE },
		      { "schedule\ndo_mmap", "x", false, CAUSE_D_STATE },
		      { "down_write\next4_page_mkwrite\ndo_user_addr_fault", "x", false, CAUSE_D_STATE } };

	for (size_t i = 0; i < 9; i++) {
		again(state, &detector_d_state);
		blocked(&mains[0], cases[i].stack, cases[i].wchan, NOW - 6 * SEC);
		mains[0].mmap_lock_held = cases[i].held;
		tick();
		assert_int_equal(only()->kind, FINDING_D_STATE);
		assert_int_equal(only()->cause, cases[i].cause);
		assert_int_equal(only()->since_ns, NOW - 6 * SEC);
		assert_int_equal(only()->caused_by_key, 0);
		assert_true(only()->key && near(only()->confidence, 0.99));
		assert_true(near(number_named(only(), "blocked_s", 0), 6));
		assert_true(number_named(only(), "tid", 0) == HAND_PID(0));
		assert_true(number_named(only(), "child", -1) == 0);
		assert_true(number_named(only(), "peers_waiting", -1) == 0);
		assert_int_equal(!!evidence_named(only(), "mmap_lock_held"), cases[i].held);
		assert_null(evidence_named(only(), "child_pid"));
		assert_null(evidence_named(only(), "python"));
		assert_string_equal(text_named(only(), "wchan", ""), cases[i].wchan);
		known[0]->dead = true;
		tick();
		assert_null(only());
	}
}

static void a_childs_task(void **state)
{
	(void)state;
	again(state, &detector_d_state);
	blocked(&mains[1], NFS, "nfs_wait", NOW - SEC);
	known[1]->is_child = true;
	mains[1].stack = (struct task_stack){ .ns = 1,
					      .python = "load (x.py:3)",
					      .native = "read (libc.so.6)",
					      .frames = "read",
					      .wait = "",
					      .file = "" };
	tick();
	assert_true(number_named(only(), "child", -1) == 1);
	assert_true(number_named(only(), "child_pid", 0) == HAND_PID(1));
	assert_string_equal(text_named(only(), "child_name", ""), "python");
	assert_string_equal(text_named(only(), "python", ""), "load (x.py:3)");
	assert_string_equal(text_named(only(), "native_frame", ""), "read (libc.so.6)");
	known[1]->name = "";
	mains[1].name = "pt_data";
	tick();
	assert_string_equal(text_named(only(), "child_name", ""), "pt_data");
}

/* Of two in one process: what each waits in, and since when; who is the cause of whom. */
static void which_is_the_cause(void **state)
{
	static const struct {
		const char *first, *second;
		int second_later_s;
		bool first_by_second, second_by_first;
	} cases[] = { { NFS, NFS, 1, false, true }, { NFS, NFS, -1, true, false }, { NFS, NFS, 0, false, true },
		      { MM, NFS, 1, true, false },  { MM, NFS, -1, true, false },  { NFS, MM, 1, false, true },
		      { MM, MM, 1, false, true },   { MM, MM, -1, true, false } };

	for (size_t i = 0; i < 8; i++) {
		const struct finding *a, *b;

		again(state, &detector_d_state);
		blocked(&mains[0], cases[i].first, cases[i].first == MM ? "rwsem" : "nfs", NOW - 9 * SEC);
		blocked(&proxies[0], cases[i].second, cases[i].second == MM ? "rwsem" : "nfs",
			NOW + (cases[i].second_later_s - 9) * (int64_t)SEC);
		tick();
		assert_int_equal(list.n, 2);
		a = &list.items[0];
		b = &list.items[1];
		assert_int_equal(a->caused_by_key, cases[i].first_by_second ? b->key : 0);
		assert_int_equal(b->caused_by_key, cases[i].second_by_first ? a->key : 0);
	}
	proxies[0].wchan = "futex"; /* another wait follows from nothing */
	mains[0].kernel_stack = proxies[0].kernel_stack = NFS;
	tick();
	assert_int_equal(list.items[0].caused_by_key, 0);
	assert_int_equal(list.items[1].caused_by_key, 0);
}

/* The first of several. */
static void the_first_of_three(void **state)
{
	static struct task third;

	for (int i = 0; i < 2; i++) {
		again(state, &detector_d_state);
		third = (struct task){ .tid = 7777, .proc = known[0] };
		third.user_stack = third.syscall = third.file = third.name = "";
		proxies[0].next = &third;
		blocked(&mains[0], NFS, "nfs", NOW - 9 * SEC);
		blocked(&proxies[0], NFS, "nfs", NOW - (i ? 8 : 10) * SEC);
		blocked(&third, NFS, "nfs", NOW - 7 * SEC);
		tick();
		assert_int_equal(list.items[2].caused_by_key, list.items[1 - i].key);
	}
}

/* --- stopped --- */

static void stop(int r, uint64_t since_ns)
{
	mains[r].state = proxies[r].state = TASK_STOPPED;
	mains[r].since_ns = proxies[r].since_ns = since_ns;
	mains[r].seen_ns = m.now_ns;
}

/* With nobody waiting, after three seconds. */
static void one_that_is_stopped(void **state)
{
	(void)state;
	again(state, &detector_stopped);
	m.comms = NULL;
	known[0]->outside.stacks_unread = "";
	known[0]->members = NULL;
	stop(0, NOW - 3 * SEC);
	m.now_ns = NOW - 1;
	tick();
	assert_null(only());
	m.now_ns = NOW;
	tick();
	assert_int_equal(only()->kind, FINDING_STOPPED);
	assert_int_equal(only()->since_ns, NOW - 3 * SEC);
	assert_int_equal(only()->ranks[0], 0);
	assert_true(near(number_named(only(), "stopped_s", 0), 3));
	assert_true(only()->key && near(only()->confidence, 0.99));
	known[0]->last_call_ns = NOW - 3 * SEC + 100 * MSEC;
	tick();
	assert_non_null(only());
	known[0]->last_call_ns++; /* it was continued since */
	tick();
	assert_null(only());
	known[0]->last_call_ns = 0;
	proxies[0].state = TASK_SLEEP;
	tick();
	assert_null(only());
	proxies[0].seen_ns = 0; /* it was never scanned */
	tick();
	assert_non_null(only());
	known[0]->is_child = true;
	tick();
	assert_null(only());
	known[0]->is_child = false;
	known[0]->dead = true;
	tick();
	assert_null(only());
	known[0]->dead = false;
	mains[0].state = TASK_SLEEP;
	proxies[0].state = TASK_STOPPED;
	tick();
	assert_null(only());
}

/* Its host's report is late: it may go on since. */
static void a_stop_of_long_ago(void **state)
{
	(void)state;
	again(state, &detector_stopped);
	m.comms = NULL;
	known[0]->members = NULL;
	stop(0, NOW - 10 * SEC);
	mains[0].seen_ns = NOW - 8 * SEC - 1;
	tick();
	assert_null(only());
	mains[0].seen_ns++;
	tick();
	assert_int_equal(only()->since_ns, NOW - 10 * SEC);
}

static void many_that_are_stopped(void **state)
{
	(void)state;
	again(state, &detector_stopped);
	m.comms = NULL;
	for (int k = 0; k < 5; k++) {
		m.now_ns += 10 * SEC;
		for (int r = 0; r < HAND_RANKS; r++) {
			known[r]->outside.stacks_unread = "";
			known[r]->members = NULL;
			stop(r, m.now_ns - 4 * SEC);
		}
		tick();
		assert_int_equal(list.n, 3);
		m.now_ns = list.items[0].since_ns; /* what is open stays */
		tick();
		assert_int_equal(list.n, 3);
		m.now_ns += 4 * SEC;
	}
	known[1]->rank = -1;
	tick();
	assert_int_equal(list.n, 2);
}

/* Its begin is read anew, and lies elsewhere: as long as nobody saw it run since, it is the one stop. */
static void a_stop_read_twice(void **state)
{
	const uint64_t readings_ns[] = { NOW - 4 * SEC + 10, NOW - 4 * SEC - 10 * MSEC, NOW - SEC };
	uint64_t key;

	(void)state;
	again(state, &detector_stopped);
	m.comms = NULL;
	known[0]->members = NULL;
	stop(0, NOW - 4 * SEC);
	mains[0].seen_ns = NOW - SEC;
	tick();
	key = only()->key;
	for (int i = 0; i < 3; i++) {
		stop(0, readings_ns[i]);
		tick();
		assert_int_equal(only()->key, key);
		assert_int_equal(only()->since_ns, NOW - 4 * SEC);
	}
	m.now_ns += 4 * SEC;
	stop(0, mains[0].seen_ns + 1);
	mains[0].seen_ns = m.now_ns;
	tick();
	assert_int_not_equal(only()->key, key);
	m.now_ns = NOW;
}

static struct finding *hang_found(int rank, uint64_t comm_hash)
{
	struct finding *f = finding_list_add(&list);

	f->kind = FINDING_HANG;
	f->comm = comm_hash;
	if (rank >= 0)
		finding_add_rank(f, rank, known[rank]->key);
	return f;
}

/* After the detectors before it. */
static void tick_behind(void)
{
	assert_int_equal(of->tick(detector, &m, &list), 0);
}

/* A hang of this tick that names the process says it; what stopped before is its cause. One root either way. */
static void a_stop_that_a_hang_says(void **state)
{
	(void)state;
	again(state, &detector_stopped);
	m.comms = NULL;
	known[0]->outside.stacks_unread = "";
	stop(0, NOW - 3 * SEC);
	for (int i = 0; i < 20; i++, m.now_ns += SEC) {
		list.n = 0;
		hang_found(0, 0);
		tick_behind();
		assert_int_equal(list.n, 1);
		assert_int_equal(list.items[0].caused_by_key, 0);
	}
	mains[0].seen_ns = m.now_ns + 2 * SEC;
	m.now_ns += 2 * SEC - 1; /* its peers gave up, or it goes on and that is not seen yet */
	tick();
	assert_null(only());
	m.now_ns++;
	tick();
	assert_int_equal(only()->kind, FINDING_STOPPED);
	list.n = 0;
	hang_found(1, 0);
	hang_found(-1, comm.hash);
	hang_found(-1, comm.hash + 1);
	hang_found(0, 0)->class = HANG_DEADLOCK;
	hang_found(0, 0)->caused_by_key = 7;
	hang_found(0, 0);
	tick_behind();
	assert_int_equal(list.n, 7);
	assert_int_equal(list.items[6].kind, FINDING_STOPPED);
	for (int i = 0; i < 6; i++) /* who is named, or nobody in a communicator of its */
		assert_int_equal(list.items[i].caused_by_key, i == 1 || i == 5 ? list.items[6].key : i == 4 ? 7 : 0);
	tick();
	assert_int_equal(only()->caused_by_key, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(lost_records),
		TEST(a_quota_for_five_seconds),
		TEST(not_before_five_seconds),
		TEST(once_a_second),
		TEST(of_all_ranks_of_a_job),
		TEST(what_the_straggler_detector_says),
		TEST(what_a_task_waits_for),
		TEST(a_childs_task),
		TEST(which_is_the_cause),
		TEST(the_first_of_three),
		TEST(one_that_is_stopped),
		TEST(a_stop_of_long_ago),
		TEST(many_that_are_stopped),
		TEST(a_stop_read_twice),
		TEST(a_stop_that_a_hang_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
