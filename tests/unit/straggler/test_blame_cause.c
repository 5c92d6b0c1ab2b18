/* SPDX-License-Identifier: Apache-2.0
 *
 * test_blame_cause.c - of what is blamed: whether it is how the job is built, which one of several the host delayed,
 * compared with whom, and which finding explains a job's pace. Eight ranks; what their main threads waited is written
 * by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "detect/straggler/history.h"
#define HAND_RANKS 8
#include "tests/unit/job/hand_known.h"

static struct steps steps, other_steps, none;
static struct op op;
static struct job_clock job_clock;
static struct blamed blamed[HAND_RANKS];
static uint64_t keys[HAND_RANKS], sorted[HAND_RANKS];

/* One second of costs, in five windows with 20 % of blame. */
static int begin(void **state)
{
	hand_setup(state);
	hand_find();
	steps = (struct steps){ .period_ops = 1, .role = 7 };
	other_steps = (struct steps){ .period_ops = 1, .role = 8 };
	none = (struct steps){ .role = 7 };
	op = (struct op){ .tid = 1 };
	job_clock = (struct job_clock){ .job = hand_job, .n = 5 };
	memset(blamed, 0, sizeof(blamed));
	for (int i = 0; i < 5; i++)
		job_clock.begin_ns[i] = NOW - SEC;
	for (int r = 0; r < HAND_RANKS; r++) {
		known[r]->steps = &steps;
		known[r]->last_op = &op;
		mains[r].seen_ns = NOW - SEC;
		assert_int_equal(cost_push(&job_clock.costs, &m, known[r]), 0);
		keys[r] = sorted[r] = known[r]->key;
		blamed[r].n = 1;
		blamed[r].procs = blamed[r].sorted = &keys[r];
		for (int i = 0; i < 5; i++)
			blamed[r].share[i] = 0.2;
	}
	m.now_ns += SEC;
	for (int r = 0; r < HAND_RANKS; r++)
		mains[r].seen_ns += SEC;
	return 0;
}

static int end(void **state)
{
	(void)state;
	keyed_free(&job_clock.costs);
	hand_lose();
	return 0;
}

static void again(void **state)
{
	end(state);
	begin(state);
}

/* So many of the first ranks are blamed one by one. */
static void are_blamed(int n)
{
	job_clock.blamed = n ? &blamed[0] : NULL;
	for (int r = 0; r < n; r++) {
		blamed[r].open_since_ns = 1;
		blamed[r].next = r + 1 < n ? &blamed[r + 1] : NULL;
	}
}

static bool structural(const struct blamed *d)
{
	return blame_structural(&job_clock, &m, d);
}

/* More than half of a role. */
static void how_the_job_is_built(void **state)
{
	(void)state;
	are_blamed(4);
	assert_false(structural(&blamed[0]));
	are_blamed(5);
	assert_true(structural(&blamed[0]));
	blamed[4].open_since_ns = 0; /* it is not named */
	assert_false(structural(&blamed[0]));
	blamed[4].open_since_ns = 1;
	blamed[4].n = 2; /* nor alone */
	assert_false(structural(&blamed[0]));
	blamed[4].n = 1;
	for (int i = 0; i < 4; i++) {
		are_blamed(4);
		known[7]->dead = i == 0;
		known[7]->steps = i == 1 ? &other_steps : i == 2 ? &none : &steps;
		known[7]->job = i == 3 ? hand_other_job : hand_job;
		assert_true(structural(&blamed[0])); /* four of seven */
	}
	known[7]->job = hand_job;
	for (int r = 1; r < 4; r++)
		known[r]->steps = &other_steps;
	assert_false(structural(&blamed[0])); /* one of five */
	keys[0] = 12345;
	assert_true(structural(&blamed[0])); /* nobody knows it any more */
}

/* A set: more than half of the job, whatever the roles. */
static void sets_of_the_job(void **state)
{
	struct blamed set = { .procs = keys, .sorted = sorted };

	(void)state;
	are_blamed(8);
	for (int r = 4; r < 8; r++)
		known[r]->steps = &other_steps;
	set.n = 4;
	assert_false(structural(&set));
	set.n = 5;
	assert_true(structural(&set));
	set.n = 4;
	known[7]->dead = true;
	assert_true(structural(&set));
}

static int cause(struct blamed *d, struct host_cause *c)
{
	return blame_cause(&job_clock, &m, d, c);
}

static bool luck(const struct blamed *d)
{
	return blame_may_be_luck(&job_clock, &m, d);
}

static void waits(int r, double share)
{
	mains[r].wait_ns = share * 1e9;
}

static void what_the_host_did_to_it(void **state)
{
	struct host_cause c;

	(void)state;
	assert_int_equal(cause(&blamed[0], &c), 0); /* one alone is the one, with a cause or without */
	assert_int_equal(c.cause, CAUSE_NONE);
	assert_int_equal(blamed[0].cause, CAUSE_NONE);
	waits(0, 0.06);
	assert_int_equal(cause(&blamed[0], &c), 0);
	assert_int_equal(c.cause, CAUSE_CPU_STARVED);
	assert_int_equal(blamed[0].cause, CAUSE_CPU_STARVED);
	assert_int_equal(blamed[0].delayed, 1);
	waits(0, 0.05); /* 30 % of the blame are a cause: it is none any more, and stays said */
	assert_int_equal(cause(&blamed[0], &c), 0);
	assert_int_equal(c.cause, CAUSE_NONE);
	assert_int_equal(blamed[0].cause, CAUSE_CPU_STARVED);
	keys[1] = 12345;
	assert_int_equal(cause(&blamed[1], &c), 0);
	assert_int_equal(c.cause, CAUSE_NONE);
}

/* A healthy rank beside a hostile run, twice: nothing of its main thread explained 37 % and 17 % of blame, as its peer
 * waited for CPUs, too. A quarter of a second later it did. */
static void luck_on_a_busy_host(void **state)
{
	static const struct {
		double blame, own, peers, ready; /* what waited: main threads; all of the rank's */
	} seen[] = { { 0.371, 0.1552, 0.0505, 0.242 }, { 0.1714, 0.1052, 0.0554, 0.134 } };
	struct host_cause c;

	for (int i = 0; i < 2; i++) {
		again(state);
		for (int w = 0; w < 5; w++)
			blamed[0].share[w] = seen[i].blame;
		for (int r = 0; r < HAND_RANKS; r++)
			waits(r, r ? seen[i].peers : seen[i].own);
		known[0]->ready_ns = 1e9 * seen[i].ready;
		assert_int_equal(cause(&blamed[0], &c), 0);
		assert_int_equal(c.cause, CAUSE_NONE);
		assert_true(luck(&blamed[0]));
		known[0]->ready_ns = 1e9 * 0.29 * seen[i].blame; /* too little to explain it */
		assert_false(luck(&blamed[0]));
	}
}

/* It has lasted; or there is a cause. */
static void no_luck(void **state)
{
	(void)state;
	known[0]->ready_ns = SEC;
	job_clock.n = 20;
	for (int w = 0; w < 15; w++)
		blamed[0].slow[w] = true;
	assert_true(luck(&blamed[0]));
	blamed[0].slow[15] = true;
	assert_false(luck(&blamed[0]));
	blamed[0].slow[15] = false;
	blamed[0].cause = CAUSE_CPU_STARVED;
	assert_false(luck(&blamed[0]));
}

/* One of a set that waits is enough: it may be the one. */
static void luck_of_a_set(void **state)
{
	struct blamed set = blamed[0];

	(void)state;
	set.procs = keys;
	set.sorted = sorted;
	set.n = 3;
	assert_false(luck(&set));
	known[3]->ready_ns = SEC; /* it is not of it */
	assert_false(luck(&set));
	known[2]->ready_ns = SEC;
	assert_true(luck(&set));
	keys[2] = 12345; /* it is gone */
	assert_false(luck(&set));
}

/* Of several the one that was delayed, if it is one. */
static void which_of_a_set(void **state)
{
	struct blamed set = blamed[0];
	struct host_cause c;

	(void)state;
	set.procs = keys;
	set.sorted = sorted;
	set.n = 3;
	assert_int_equal(cause(&set, &c), -1);
	assert_int_equal(set.delayed, 0);
	waits(1, 0.5);
	waits(2, 0.5);
	assert_int_equal(cause(&set, &c), -1);
	assert_int_equal(set.cause, CAUSE_NONE);
	waits(2, 0);
	assert_int_equal(cause(&set, &c), 1);
	assert_int_equal(set.delayed, 2);
	assert_int_equal(c.cause, CAUSE_CPU_STARVED);
	waits(2, 0.4); /* said once, it stays */
	assert_int_equal(cause(&set, &c), 1);
	assert_int_equal(c.cause, CAUSE_CPU_STARVED);
	assert_true(c.own.cost[COST_RUNQ] == 0.5);
	waits(1, 0);
	waits(2, 0);
	assert_int_equal(cause(&set, &c), 1);
	assert_int_equal(c.cause, CAUSE_NONE);
	assert_int_equal(set.cause, CAUSE_CPU_STARVED);
}

/* With those of its role that are not blamed; if all are, with anybody else. */
static void compared_with_whom(void **state)
{
	struct host_cause c;

	(void)state;
	waits(0, 0.5);
	for (int r = 1; r < 5; r++)
		waits(r, 0.5);
	for (int r = 3; r < 8; r++)
		known[r]->steps = &other_steps;
	assert_int_equal(cause(&blamed[0], &c), 0);
	assert_int_equal(c.cause, CAUSE_NONE);
	assert_true(c.usual.cost[COST_RUNQ] == 0.5);
	are_blamed(3);
	assert_int_equal(cause(&blamed[0], &c), 0);
	assert_int_equal(c.cause, CAUSE_CPU_STARVED); /* 3 and 4 wait as much, 5, 6, 7 do not */
	assert_true(c.usual.cost[COST_RUNQ] == 0);
	blamed[2].open_since_ns = 0;
	assert_int_equal(cause(&blamed[0], &c), 0);
	assert_true(c.usual.cost[COST_RUNQ] == 0.5);
	blamed[2].open_since_ns = 1;
	blamed[2].n = 2;
	assert_int_equal(cause(&blamed[0], &c), 0);
	assert_true(c.usual.cost[COST_RUNQ] == 0.5);
	again(state);
	waits(0, 0.5);
	waits(1, 0.5);
	for (int r = 2; r < 8; r++) {
		known[r]->dead = r == 2;
		known[r]->is_child = r == 3;
		known[r]->steps = r == 4 ? &none : &steps;
		known[r]->last_op = r == 5 ? NULL : &op;
		known[r]->job = r >= 6 ? hand_other_job : hand_job;
	}
	assert_int_equal(cause(&blamed[0], &c), 0);
	assert_true(c.usual.cost[COST_RUNQ] == 0.5);
	known[7]->job = hand_job;
	assert_int_equal(cause(&blamed[0], &c), 0);
	assert_true(c.usual.cost[COST_RUNQ] == 0.25);
}

/* Who has another role waits for CPUs as its role does: that is no measure where one of its own role is there. */
static void others_say_nothing_beside_one_of_its_role(void **state)
{
	struct host_cause c;

	(void)state;
	waits(0, 0.5);
	waits(1, 0.5);
	for (int r = 2; r < HAND_RANKS; r++)
		known[r]->steps = &other_steps;
	assert_int_equal(cause(&blamed[0], &c), 0);
	assert_true(c.usual.cost[COST_RUNQ] == 0.5);
	assert_int_equal(c.cause, CAUSE_NONE);
}

/* Where all are blamed, there is nobody to compare with, and no cause is said. */
static void nobody_to_compare_with(void **state)
{
	struct host_cause c;

	(void)state;
	waits(0, 0.5);
	are_blamed(HAND_RANKS);
	assert_int_equal(cause(&blamed[0], &c), 0);
	assert_int_equal(c.cause, CAUSE_NONE);
}

/* Over the last five windows, and not longer than it is named. */
static void since_when(void **state)
{
	struct host_cause c;

	(void)state;
	for (int k = 0; k < 4; k++) {
		for (int r = 0; r < HAND_RANKS; r++)
			assert_int_equal(cost_push(&job_clock.costs, &m, known[r]), 0);
		m.now_ns += SEC;
		for (int r = 0; r < HAND_RANKS; r++)
			mains[r].seen_ns += SEC;
		mains[0].wait_ns += 100 * MSEC << k; /* 0.1, 0.3, 0.7, 1.5 s in all */
	}
	assert_int_equal(cause(&blamed[0], &c), 0);
	assert_true(c.own.cost[COST_RUNQ] == 1.5 / 5);
	blamed[0].open_since_ns = NOW + 3 * SEC;
	assert_int_equal(cause(&blamed[0], &c), 0);
	assert_true(c.own.cost[COST_RUNQ] == 0.8);
	blamed[0].open_since_ns = 0;
	job_clock.n = 7; /* the windows 2 to 6 are the last */
	job_clock.begin_ns[2] = NOW + 2 * SEC;
	assert_int_equal(cause(&blamed[0], &c), 0);
	assert_true(c.own.cost[COST_RUNQ] == 1.2 / 2);
	job_clock.n = 3;
	job_clock.begin_ns[0] = NOW + 3 * SEC;
	assert_int_equal(cause(&blamed[0], &c), 0);
	assert_true(c.own.cost[COST_RUNQ] == 0.8);
}

/* A rank of the job that is slow or starved; else what is wrong with a link of it. */
static void what_explains_the_pace(void **state)
{
	static struct port port;
	struct finding f = { .kind = FINDING_STRAGGLER }, link = { .kind = FINDING_LINK };
	struct finding items[2];
	struct finding_list list = { .items = items, .n = 1 };

	(void)state;
	finding_add_rank(&f, 3, known[3]->key);
	f.key = 77;
	items[0] = f;
	assert_int_equal(slow_cause_key(&m, &list, hand_job), 77);
	assert_int_equal(slow_cause_key(&m, &list, hand_other_job), 0);
	items[0].kind = FINDING_CPU_STARVED;
	assert_int_equal(slow_cause_key(&m, &list, hand_job), 77);
	items[0].kind = FINDING_HANG;
	assert_int_equal(slow_cause_key(&m, &list, hand_job), 0);
	items[0].kind = FINDING_STRAGGLER;
	items[0].n_ranks = 0;
	assert_int_equal(slow_cause_key(&m, &list, hand_job), 0);
	port = (struct port){ .node = &node, .device = "mlx5_0" };
	port.users = (struct port_users){ .known = true, .n = 1, .pids = { HAND_PID(5) } };
	node.ports = &port;
	link.subject = subject_port(0, "mlx5_0", 0, -1, 0);
	link.key = 99;
	items[0] = link;
	items[1] = f;
	assert_int_equal(slow_cause_key(&m, &list, hand_job), 99);
	assert_int_equal(slow_cause_key(&m, &list, hand_other_job), 0);
	list.n = 2;
	assert_int_equal(slow_cause_key(&m, &list, hand_job), 77);
	list.n = 1;
	known[5]->dead = true;
	assert_int_equal(slow_cause_key(&m, &list, hand_job), 0);
	known[5]->dead = false;
	known[5]->is_child = true;
	assert_int_equal(slow_cause_key(&m, &list, hand_job), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(how_the_job_is_built),
		TEST(sets_of_the_job),
		TEST(what_the_host_did_to_it),
		TEST(which_of_a_set),
		TEST(luck_on_a_busy_host),
		TEST(no_luck),
		TEST(luck_of_a_set),
		TEST(compared_with_whom),
		TEST(since_when),
		TEST(what_explains_the_pace),
		TEST(others_say_nothing_beside_one_of_its_role),
		TEST(nobody_to_compare_with),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
