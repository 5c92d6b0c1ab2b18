/* SPDX-License-Identifier: Apache-2.0
 *
 * test_proxy_thread.c - what NCCL's progress thread does, by two scans of it and of its peers', a second apart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "detect/transfer/proxy_thread.h"
#define HAND_RANKS 3
#include "tests/unit/job/evidence.h"
#include "tests/unit/job/hand_job.h"

static struct task *const t = &proxies[0];

/* Between its scans it ran so long, and so long waited for a CPU. */
static void worked(struct task *of, uint64_t run_ns, uint64_t wait_ns)
{
	of->run_ns = of->prev_run_ns + run_ns;
	of->wait_ns = of->prev_wait_ns + wait_ns;
}

/* All spin, and have the CPU. */
static int setup(void **state)
{
	hand_setup(state);
	for (int r = 0; r < HAND_RANKS; r++) {
		proxies[r].state = TASK_ON_CPU;
		proxies[r].prev_seen_ns = NOW - 2 * SEC;
		proxies[r].seen_ns = NOW - SEC;
		proxies[r].since_ns = NOW - 1500 * MSEC;
		proxies[r].prev_run_ns = 50 * SEC;
		proxies[r].prev_wait_ns = 7 * SEC;
		worked(&proxies[r], 900 * MSEC, 50 * MSEC);
		mains[r].seen_ns = NOW - SEC;
		members[r].proxies.n = 1;
	}
	return 0;
}

static enum proxy_thread judged(void)
{
	return proxy_thread_judge(&members[0]);
}

static void which_thread_it_is(void **state)
{
	(void)state;
	assert_ptr_equal(proxy_task(&members[0]), t);
	mains[0].name = "NCCL Progress 1"; /* two: neither */
	assert_null(proxy_task(&members[0]));
	members[0].proxies.thread = mains[0].tid;
	assert_ptr_equal(proxy_task(&members[0]), &mains[0]);
	members[0].proxies.thread = t->tid;
	assert_ptr_equal(proxy_task(&members[0]), t);
	members[0].proxies.thread = 7; /* it has not been scanned */
	assert_null(proxy_task(&members[0]));
	mains[0].name = "python";
	assert_null(proxy_task(&members[0]));
	members[0].proxies.thread = 0;
	t->name = NULL;
	assert_null(proxy_task(&members[0]));
	t->name = "NCCL Service 0";
	assert_null(proxy_task(&members[0]));
	t->name = mains[0].name = "NCCL Progress";
	mains[0].tid = 0; /* a thread that is not known is not this one */
	assert_null(proxy_task(&members[0]));
}

static void what_is_worst_is_said_first(void **state)
{
	(void)state;
	assert_int_equal(judged(), PROXY_POLLS);
	t->blocked = true;
	assert_int_equal(judged(), PROXY_BLOCKED);
	t->state = TASK_STOPPED;
	assert_int_equal(judged(), PROXY_STOPPED);
	t->state = TASK_ON_CPU;
	mains[0].state = TASK_STOPPED; /* its process is, as far as is known */
	assert_int_equal(judged(), PROXY_STOPPED);
	procs[0].dead = true;
	assert_int_equal(judged(), PROXY_DEAD);
}

static void one_that_is_not_seen(void **state)
{
	(void)state;
	t->seen_ns = 0;
	t->blocked = true;
	assert_int_equal(judged(), PROXY_UNSEEN);
	mains[0].next = NULL;
	assert_int_equal(judged(), PROXY_UNSEEN);
	mains[0].state = TASK_STOPPED;
	assert_int_equal(judged(), PROXY_STOPPED);
}

/* In D state, or asleep, without a break for 400 ms. */
static void at_rest_is_more_than_a_nap(void **state)
{
	static const struct {
		enum task_state state;
		enum proxy_thread what;
	} cases[] = { { TASK_DISK, PROXY_BLOCKED }, { TASK_SLEEP, PROXY_ASLEEP } };

	(void)state;
	for (int i = 0; i < 2; i++) {
		t->state = cases[i].state;
		t->since_ns = t->seen_ns - 400 * MSEC;
		assert_false(proxy_at_rest(t));
		assert_int_equal(judged(), PROXY_POLLS);
		t->since_ns--;
		assert_int_equal(proxy_at_rest(t), cases[i].state == TASK_SLEEP);
		assert_int_equal(judged(), cases[i].what);
	}
	members[0].proxies.n = 0; /* with nothing active it may */
	assert_int_equal(judged(), PROXY_POLLS);
}

/* 200 ms at least between the scans, and totals that go up. */
static void what_is_no_measurement(void **state)
{
	(void)state;
	t->prev_seen_ns = t->seen_ns - 200 * MSEC;
	assert_int_equal(judged(), PROXY_POLLS);
	t->prev_seen_ns++;
	assert_int_equal(judged(), PROXY_UNSEEN);
	t->prev_seen_ns = 0;
	assert_int_equal(judged(), PROXY_UNSEEN);
	setup(state);
	t->prev_run_ns = t->run_ns + 1;
	assert_int_equal(judged(), PROXY_UNSEEN);
	setup(state);
	worked(t, 900 * MSEC, 0);
	assert_int_equal(judged(), PROXY_POLLS);
	t->prev_wait_ns++;
	assert_int_equal(judged(), PROXY_UNSEEN);
}

/* Two hundred microseconds are some rounds; less may be none. */
static void did_it_look(void **state)
{
	(void)state;
	worked(t, 200000, 0);
	assert_int_equal(judged(), PROXY_POLLS);
	worked(t, 199999, 0);
	assert_int_equal(judged(), PROXY_UNSETTLED);
	worked(t, 0, 0);
	assert_int_equal(judged(), PROXY_UNSETTLED);
	worked(t, 600 * MSEC, 299 * MSEC);
	assert_int_equal(judged(), PROXY_POLLS);
	worked(t, 600 * MSEC, 300 * MSEC);
	assert_int_equal(judged(), PROXY_POLLS_LATE);
}

/* It waits half of the time at least, and no peer is as badly off. */
static void starved_is_half_of_the_time(void **state)
{
	(void)state;
	worked(t, 100 * MSEC, 500 * MSEC);
	assert_int_equal(judged(), PROXY_STARVED);
	worked(t, 100 * MSEC, 500 * MSEC - 1);
	assert_int_equal(judged(), PROXY_POLLS_LATE);
	worked(t, 0, 499 * MSEC);
	assert_int_equal(judged(), PROXY_UNSETTLED);
}

/* Half of its wait, or four times its CPU time; the second peer always has both. */
static void as_badly_off(void **state)
{
	static const struct {
		uint64_t run_ms, wait_ms;
		bool better;
	} cases[] = { { 10, 400, true }, { 10, 401, false }, { 40, 700, true }, { 39, 700, false }, { 39, 0, true } };

	(void)state;
	worked(t, 10 * MSEC, 800 * MSEC);
	for (size_t i = 0; i < 5; i++) {
		worked(&proxies[1], cases[i].run_ms * MSEC, cases[i].wait_ms * MSEC);
		assert_int_equal(judged(), cases[i].better ? PROXY_STARVED : PROXY_POLLS_LATE);
	}
	worked(t, 0, 800 * MSEC);
	worked(&proxies[1], 0, 700 * MSEC); /* four times nothing is nothing */
	assert_int_equal(judged(), PROXY_UNSETTLED);
	worked(&proxies[1], 1, 700 * MSEC);
	assert_int_equal(judged(), PROXY_STARVED);
}

/* Scans of the peer are four seconds apart: it is shares that compare. */
static void shares_of_scans_of_other_lengths(void **state)
{
	(void)state;
	worked(t, 10 * MSEC, 800 * MSEC);
	proxies[1].prev_seen_ns -= 3 * SEC;
	worked(&proxies[1], 160 * MSEC, 2800 * MSEC);
	assert_int_equal(judged(), PROXY_STARVED);
	worked(&proxies[1], 159 * MSEC, 2800 * MSEC);
	assert_int_equal(judged(), PROXY_POLLS_LATE);
	worked(&proxies[1], 0, 1600 * MSEC);
	assert_int_equal(judged(), PROXY_STARVED);
	worked(&proxies[1], 0, 1601 * MSEC);
	assert_int_equal(judged(), PROXY_POLLS_LATE);
}

/* One peer at least has to be known. */
static void without_a_peer_nobody_is_starved(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		setup(state);
		worked(t, 10 * MSEC, 800 * MSEC);
		worked(&proxies[2], 10 * MSEC, 800 * MSEC); /* as badly off */
		assert_int_equal(judged(), PROXY_POLLS_LATE);
		assert_true(proxy_peers_wait(&members[0]) == (0.05 + 0.8) / 2);
		members[2].gone = i == 1;
		procs[2].dead = i == 2;
		proxies[2].prev_seen_ns = i == 3 ? 0 : proxies[2].prev_seen_ns;
		assert_int_equal(judged(), i ? PROXY_STARVED : PROXY_POLLS_LATE);
		assert_true(proxy_peers_wait(&members[0]) == (i ? 0.05 : (0.05 + 0.8) / 2));
		procs[1].dead = true;
		assert_int_equal(judged(), PROXY_POLLS_LATE);
		assert_true(proxy_peers_wait(&members[0]) == (i ? -1 : 0.8));
	}
}

/* The kernel has not added it to the total yet: it waited since before the first scan. */
static void a_wait_that_is_not_over(void **state)
{
	(void)state;
	worked(t, 0, 0);
	t->state = TASK_RUNNABLE;
	t->since_ns = t->prev_seen_ns;
	assert_int_equal(judged(), PROXY_STARVED);
	assert_true(proxy_peers_wait(&members[1]) == (1 + 0.05) / 2);
	t->since_ns++;
	assert_int_equal(judged(), PROXY_UNSETTLED);
	t->since_ns--;
	t->run_ns++;
	assert_int_equal(judged(), PROXY_UNSETTLED);
	worked(t, 0, 1);
	assert_int_equal(judged(), PROXY_UNSETTLED);
	worked(t, 0, 0);
	t->state = TASK_ON_CPU;
	assert_int_equal(judged(), PROXY_UNSETTLED);
}

static void a_share_is_at_most_the_whole(void **state)
{
	(void)state;
	worked(&proxies[1], 0, 1500 * MSEC);
	assert_true(proxy_peers_wait(&members[0]) == (1 + 0.05) / 2);
	worked(&proxies[1], 0, SEC);
	assert_true(proxy_peers_wait(&members[0]) == (1 + 0.05) / 2);
}

static void what_is_said_of_it(void **state)
{
	struct finding f = { 0 };

	(void)state;
	proxy_thread_note(&f, &members[0]);
	assert_string_equal(text_named(&f, "thread", ""), "NCCL Progress 0");
	assert_true(number_named(&f, "tid", 0) == t->tid);
	assert_string_equal(text_named(&f, "state", ""), "on_cpu");
	assert_true(number_named(&f, "cpu_share", -1) == 0.9);
	assert_true(number_named(&f, "runqueue_wait_share", -1) == 0.05);
	t->prev_seen_ns = 0;
	f.n_evidence = 0;
	proxy_thread_note(&f, &members[0]);
	assert_int_equal(f.n_evidence, 3);
	mains[0].next = NULL;
	f.n_evidence = 0;
	proxy_thread_note(&f, &members[0]);
	assert_int_equal(f.n_evidence, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		TEST(which_thread_it_is),
		TEST(what_is_worst_is_said_first),
		TEST(one_that_is_not_seen),
		TEST(at_rest_is_more_than_a_nap),
		TEST(what_is_no_measurement),
		TEST(did_it_look),
		TEST(starved_is_half_of_the_time),
		TEST(as_badly_off),
		TEST(shares_of_scans_of_other_lengths),
		TEST(without_a_peer_nobody_is_starved),
		TEST(a_wait_that_is_not_over),
		TEST(a_share_is_at_most_the_whole),
		TEST(what_is_said_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
