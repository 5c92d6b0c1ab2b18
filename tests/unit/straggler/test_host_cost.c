/* SPDX-License-Identifier: Apache-2.0
 *
 * test_host_cost.c - what the host did to a rank, by samples of its threads, and what of it stands out from its peers.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "detect/straggler/cause.h"
#include "tests/unit/job/evidence.h"
#define HAND_RANKS 2
#include "tests/unit/job/hand_job.h"

static struct keyed_table histories;
static struct steps steps;
static struct op ops[8];

static int setup(void **state)
{
	hand_setup(state);
	histories = (struct keyed_table){ 0 };
	memset(ops, 0, sizeof(ops));
	for (int i = 0; i < 8; i++)
		ops[i] = (struct op){ .tid = 100, .prev_in_proc = i ? &ops[i - 1] : NULL };
	steps = (struct steps){ .period_ops = 8 };
	procs[0].steps = &steps;
	procs[0].last_op = &ops[7];
	mains[0].seen_ns = NOW - SEC;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	keyed_free(&histories);
	return 0;
}

static void push(void)
{
	assert_int_equal(cost_push(&histories, &m, &procs[0]), 0);
}

/* A second goes by, and the main thread is scanned. */
static void second(void)
{
	m.now_ns += SEC;
	mains[0].seen_ns += SEC;
}

static struct cost_rates rates(uint64_t since_ns)
{
	return cost_rates(&histories, &m, &procs[0], since_ns);
}

static bool near(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

/* --- rates --- */

static void what_a_thread_waits_for(void **state)
{
	struct cost_rates r;

	(void)state;
	r = rates(NOW);
	for (int k = 0; k < COST_MAX; k++)
		assert_true(r.cost[k] == -1);
	assert_true(r.throttled == -1 && r.preempted_per_s == -1 && r.io_bytes_s == -1 && !r.behind);
	push();
	second();
	second();
	mains[0].wait_ns = 500 * MSEC;
	mains[0].disk_ns = 250 * MSEC;
	mains[0].stopped_ns = 100 * MSEC;
	mains[0].preempted = 30;
	mains[0].preempted_by = "hog";
	r = rates(NOW - SEC);
	assert_true(near(r.cost[COST_RUNQ], 0.25) && near(r.cost[COST_DISK], 0.125) &&
		    near(r.cost[COST_STOPPED], 0.05));
	assert_true(near(r.preempted_per_s, 15));
	assert_string_equal(r.behind, "hog");
	assert_true(r.io_bytes_s == -1 && r.throttled == -1);
}

/* Nothing counts backwards, and no time is no rate. */
static void what_gives_no_rate(void **state)
{
	(void)state;
	mains[0].wait_ns = 10;
	push();
	assert_true(rates(NOW).cost[COST_RUNQ] == -1);
	second();
	assert_true(rates(NOW).cost[COST_RUNQ] == 0 && rates(NOW).preempted_per_s == 0);
	mains[0].wait_ns = 9;
	mains[0].preempted = 1;
	assert_true(rates(NOW).cost[COST_RUNQ] == -1);
	assert_true(near(rates(NOW).preempted_per_s, 1));
	assert_null(rates(NOW).behind);
	mains[0].seen_ns -= SEC;
	assert_true(rates(NOW).preempted_per_s == -1);
	mains[0].seen_ns = 0;
	assert_true(rates(NOW).cost[COST_DISK] == -1);
}

/* Threads that call NCCL in an iteration, each once, at most four; the longest wait says behind whom. */
static void which_threads_count(void **state)
{
	static struct task more[4];

	(void)state;
	for (int i = 0; i < 4; i++) {
		more[i] = (struct task){ .tid = 200 + i, .seen_ns = NOW - SEC, .next = i < 3 ? &more[i + 1] : NULL };
		ops[7 - i].tid = 200 + i;
	}
	mains[0].next = more;
	push();
	second();
	for (int i = 0; i < 4; i++) {
		more[i].seen_ns += SEC;
		more[i].wait_ns = 100 * MSEC;
		more[i].preempted = 10;
		more[i].preempted_by = "b";
	}
	mains[0].wait_ns = 200 * MSEC;
	mains[0].preempted_by = "a";
	assert_true(near(rates(NOW).cost[COST_RUNQ], 0.5)); /* the main one, and three */
	assert_true(near(rates(NOW).preempted_per_s, 30));
	assert_string_equal(rates(NOW).behind, "a");
	more[1].wait_ns = 201 * MSEC;
	assert_string_equal(rates(NOW).behind, "b");
	more[1].wait_ns = 200 * MSEC;
	assert_string_equal(rates(NOW).behind, "a");
	ops[5].tid = 100;
	assert_true(near(rates(NOW).cost[COST_RUNQ], 0.5)); /* the third calls no more: the fourth was not seen then */
	steps.period_ops = 3;
	ops[5].tid = 202;
	ops[4].tid = 201;
	assert_true(near(rates(NOW).cost[COST_RUNQ], 0.6));
	steps.period_ops = 1;
	assert_true(near(rates(NOW).cost[COST_RUNQ], 0.3));
	procs[0].last_op = NULL;
	assert_true(near(rates(NOW).cost[COST_RUNQ], 0.2));
	more[0].seen_ns = 0;
	procs[0].last_op = &ops[7];
	assert_true(near(rates(NOW).cost[COST_RUNQ], 0.2)); /* it was not scanned */
}

/* Of a long iteration the last 512 operations are read. */
static void an_iteration_without_end(void **state)
{
	static struct op many[600];
	static struct task rare;

	(void)state;
	for (int i = 0; i < 600; i++)
		many[i] = (struct op){ .tid = i == 600 - 512   ? 7
					      : i == 600 - 513 ? 8
							       : 100,
				       .prev_in_proc = i ? &many[i - 1] : NULL };
	rare = (struct task){ .tid = 7, .seen_ns = NOW - SEC };
	mains[0].next = &rare;
	steps.period_ops = 600;
	procs[0].last_op = &many[599];
	for (int i = 0; i < 2; i++) {
		rare.tid = 7 + i;
		rare.wait_ns = 0;
		push();
		second();
		rare.seen_ns += SEC;
		rare.wait_ns = 500 * MSEC;
		assert_true(near(rates(m.now_ns).cost[COST_RUNQ], i ? 0 : 0.5));
	}
}

/* The newest sample whose scan lies before; the oldest of twelve if none does. */
static void since_when(void **state)
{
	(void)state;
	for (int i = 0; i < 13; i++) {
		push();
		second();
		mains[0].wait_ns += i * MSEC;
	}
	/* Samples were scanned at NOW - SEC + i s, with 0, 0, 1, 3, 6, 10, ... ms; now, at 12: 78. */
	assert_true(near(rates(NOW + 11 * SEC).cost[COST_RUNQ], 0.012));
	assert_true(near(rates(NOW + 11 * SEC - 1).cost[COST_RUNQ], 0.0115));
	assert_true(near(rates(NOW).cost[COST_RUNQ], 0.078 / 12));
	assert_true(near(rates(NOW - 1).cost[COST_RUNQ], 0.078 / 12));
	assert_true(near(rates(0).cost[COST_RUNQ], 0.078 / 12));
}

static void a_sample_without_threads_is_passed_over(void **state)
{
	(void)state;
	mains[0].wait_ns = 10 * MSEC;
	push();
	second();
	procs[0].tasks = NULL;
	push();
	procs[0].tasks = &mains[0];
	second();
	mains[0].wait_ns = 30 * MSEC;
	assert_true(near(rates(NOW + 5 * SEC).cost[COST_RUNQ], 0.01));
}

static void what_driver_calls_take(void **state)
{
	struct cost_rates r;

	(void)state;
	push();
	second();
	second();
	procs[0].call_ns[CALL_ALLOC] = 200 * MSEC;
	procs[0].call_ns[CALL_FREE] = 400 * MSEC;
	procs[0].call_ns[CALL_MODULE] = 600 * MSEC;
	procs[0].call_ns[CALL_GRAPH] = 800 * MSEC;
	r = rates(NOW);
	assert_true(near(r.cost[COST_ALLOC], 0.1) && near(r.cost[COST_FREE], 0.2) && near(r.cost[COST_MODULE], 0.3) &&
		    near(r.cost[COST_GRAPH], 0.4));
	procs[0].calls_shed_ns = NOW; /* its probes came back as the sample was taken */
	assert_true(near(rates(NOW).cost[COST_ALLOC], 0.1));
	procs[0].calls_shed_ns++;
	assert_true(rates(NOW).cost[COST_ALLOC] == -1 && rates(NOW).cost[COST_GRAPH] == -1);
	assert_true(rates(NOW).cost[COST_RUNQ] == 0);
	procs[0].calls_shed_ns = 0;
	procs[0].shed = 1u << PROBES_CALLS;
	assert_true(rates(NOW).cost[COST_ALLOC] == -1);
	procs[0].shed = ~(1u << PROBES_CALLS);
	assert_true(near(rates(NOW).cost[COST_ALLOC], 0.1));
}

static void bytes_and_quotas(void **state)
{
	(void)state;
	procs[0].quota_cores = 2.5;
	procs[0].io_seen_ns = NOW - SEC;
	procs[0].io_bytes = 1000;
	push();
	second();
	assert_true(rates(NOW).io_bytes_s == -1 && rates(NOW).throttled == -1);
	assert_true(rates(NOW).quota_cores == 2.5);
	procs[0].io_seen_ns = NOW + SEC;
	assert_true(rates(NOW).io_bytes_s == 0);
	procs[0].io_bytes = 5000;
	assert_true(near(rates(NOW).io_bytes_s, 2000));
	procs[0].throttled_ns = 100 * MSEC; /* for the first time: a total since the process was */
	procs[0].throttle_seen_ns = NOW + SEC;
	assert_true(near(rates(NOW).throttled, 0.1));
	push();
	second();
	procs[0].throttled_ns = 400 * MSEC;
	procs[0].throttle_seen_ns = NOW + 2 * SEC;
	assert_true(near(rates(NOW + 10 * SEC).throttled, 0.3));
	procs[0].throttle_seen_ns = 0;
	assert_true(rates(NOW + 10 * SEC).throttled == -1);
}

/* --- comparison --- */

static struct cost_rates own, peers[12];

static void nothing_is_known(void)
{
	own = (struct cost_rates){ .throttled = -1, .preempted_per_s = -1, .io_bytes_s = -1 };
	for (int k = 0; k < COST_MAX; k++)
		own.cost[k] = -1;
	for (int i = 0; i < 12; i++)
		peers[i] = own;
}

static struct host_cause cause(int n_peers, double blame)
{
	return host_cause(&own, peers, n_peers, blame);
}

static void alloc_of_peers(int n, const double *shares)
{
	for (int i = 0; i < n; i++)
		peers[i].cost[COST_ALLOC] = shares[i];
}

/* Five times their spread above their median. */
static void what_stands_out(void **state)
{
	(void)state;
	nothing_is_known();
	alloc_of_peers(4, (double[]){ 0.125, 0.25, 0.375, 0.5 }); /* median 0.3125, spread 0.125 */
	own.cost[COST_ALLOC] = 0.9375;
	assert_int_equal(cause(4, 0.01).cause, CAUSE_NONE);
	assert_true(cause(4, 0.01).usual.cost[COST_ALLOC] == 0.3125);
	assert_true(cause(4, 0.01).own.cost[COST_ALLOC] == -1);
	own.cost[COST_ALLOC] = 0.9376;
	assert_int_equal(cause(4, 0.01).cause, CAUSE_MEMORY_ALLOC);
	assert_true(near(cause(4, 0.01).excess, 0.6251));
	assert_true(cause(4, 0.01).own.cost[COST_ALLOC] == 0.9376);
	assert_int_equal(cause(3, 0.01).cause, CAUSE_MEMORY_ALLOC); /* 0.25, 0.125 */
	own.cost[COST_ALLOC] = 0.876;
	assert_int_equal(cause(3, 0.01).cause, CAUSE_MEMORY_ALLOC);
	assert_true(cause(3, 0.01).usual.cost[COST_ALLOC] == 0.25);
	own.cost[COST_ALLOC] = 0.875;
	assert_int_equal(cause(3, 0.01).cause, CAUSE_NONE);
}

static void nobody_to_compare_with(void **state)
{
	(void)state;
	nothing_is_known();
	own.cost[COST_ALLOC] = own.cost[COST_RUNQ] = 0.9;
	assert_int_equal(cause(4, 0.5).cause, CAUSE_NONE);
	assert_true(cause(4, 0.5).usual.cost[COST_ALLOC] == -1);
	assert_true(cause(4, 0.5).own.cost[COST_ALLOC] == -1);
	assert_true(cause(4, 0.5).own.cost[COST_RUNQ] == 0.9); /* is said anyway */
	peers[3].cost[COST_ALLOC] = 0;
	assert_int_equal(cause(3, 0.5).cause, CAUSE_NONE);
	assert_int_equal(cause(4, 0.5).cause, CAUSE_MEMORY_ALLOC);
	own.cost[COST_ALLOC] = -1;
	assert_int_equal(cause(4, 0.5).cause, CAUSE_NONE);
	own.cost[COST_ALLOC] = 0;
	assert_int_equal(cause(4, 0.5).cause, CAUSE_NONE);
	assert_true(cause(4, 0.5).usual.cost[COST_ALLOC] == 0);
	own.throttled = 0.9; /* that is no cost of its own */
	peers[3].throttled = 0;
	assert_true(cause(4, 0.5).excess == 0);
}

/* Eight of them are enough. */
static void not_all_peers_are_read(void **state)
{
	(void)state;
	nothing_is_known();
	alloc_of_peers(12, (double[]){ -1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1 });
	own.cost[COST_ALLOC] = 0.75;
	assert_true(cause(12, 1).usual.cost[COST_ALLOC] == 0.5);
	assert_true(cause(8, 1).usual.cost[COST_ALLOC] == 0);
}

/* Of the blame 30 % are the cause, 1 % is a line. */
static void how_much_of_the_blame(void **state)
{
	(void)state;
	nothing_is_known();
	peers[0].cost[COST_FREE] = 0;
	own.cost[COST_FREE] = 0.3;
	assert_int_equal(cause(1, 1).cause, CAUSE_MEMORY_FREE);
	own.cost[COST_FREE] = 0.2999;
	assert_int_equal(cause(1, 1).cause, CAUSE_NONE);
	assert_true(cause(1, 1).own.cost[COST_FREE] == 0.2999);
	own.cost[COST_FREE] = 0.01;
	assert_true(cause(1, 1).own.cost[COST_FREE] == 0.01);
	own.cost[COST_FREE] = 0.0099;
	assert_true(cause(1, 1).own.cost[COST_FREE] == -1);
}

static void the_most_expensive(void **state)
{
	static const enum finding_cause causes[] = { CAUSE_CPU_STARVED,      CAUSE_D_STATE,     CAUSE_STOPPED,
						     CAUSE_MEMORY_ALLOC,     CAUSE_MEMORY_FREE, CAUSE_MODULE_LOAD,
						     CAUSE_GRAPH_INSTANTIATE };

	(void)state;
	nothing_is_known();
	for (int k = 0; k < COST_MAX; k++) {
		peers[0].cost[k] = 0;
		own.cost[k] = 0.4;
	}
	assert_int_equal(cause(1, 1).cause, CAUSE_CPU_STARVED); /* the first of those that are alike */
	for (int k = 0; k < COST_MAX; k++) {
		own.cost[k] = 0.5;
		assert_int_equal(cause(1, 1).cause, causes[k]);
		assert_true(cause(1, 1).excess == 0.5);
		own.cost[k] = 0.4;
	}
}

/* Only where nothing else is the cause; three times the peers' median, and 10 MB/s. */
static void bytes_as_a_cause(void **state)
{
	(void)state;
	nothing_is_known();
	own.io_bytes_s = 30e6;
	assert_int_equal(cause(1, 1).cause, CAUSE_NONE); /* nobody to compare with */
	assert_true(cause(1, 1).own.io_bytes_s == -1);
	peers[0].io_bytes_s = 10e6;
	assert_int_equal(cause(1, 1).cause, CAUSE_NONE);
	own.io_bytes_s++;
	assert_int_equal(cause(1, 1).cause, CAUSE_IO);
	assert_true(cause(1, 1).own.io_bytes_s == 30e6 + 1);
	peers[1].io_bytes_s = 50e6; /* they differ by as much */
	assert_int_equal(cause(2, 1).cause, CAUSE_NONE);
	assert_true(cause(2, 1).usual.io_bytes_s == 30e6);
	peers[0].io_bytes_s = 0;
	own.io_bytes_s = 10e6;
	assert_int_equal(cause(1, 1).cause, CAUSE_NONE);
	own.io_bytes_s++;
	assert_int_equal(cause(1, 1).cause, CAUSE_IO);
	peers[0].cost[COST_DISK] = 0;
	own.cost[COST_DISK] = 0.5;
	assert_int_equal(cause(1, 1).cause, CAUSE_D_STATE);
	assert_true(cause(1, 1).own.io_bytes_s > 0);
}

static void bytes_of_eight_peers(void **state)
{
	(void)state;
	nothing_is_known();
	for (int i = 1; i < 12; i++)
		peers[i].io_bytes_s = i < 5 ? 0 : 100e6;
	own.io_bytes_s = 20e6;
	assert_true(cause(12, 1).usual.io_bytes_s == 50e6);
	assert_true(cause(8, 1).usual.io_bytes_s == 0);
}

/* --- what is said --- */

static void what_is_said(void **state)
{
	struct host_cause c;
	struct finding f = { 0 };

	(void)state;
	nothing_is_known();
	c = (struct host_cause){ .own = own, .usual = own };
	host_cause_note(&f, &c, NULL);
	assert_int_equal(f.n_evidence, 0);
	c.own.cost[COST_RUNQ] = 0.5;
	c.own.cost[COST_DISK] = 0;
	c.usual.cost[COST_DISK] = 0;
	c.own.cost[COST_GRAPH] = 0.125; /* the peers' is not known */
	host_cause_note(&f, &c, NULL);
	assert_int_equal(f.n_evidence, 4);
	assert_true(number_named(&f, "graph_instantiate_share", -1) == 0.125);
	c.own.cost[COST_GRAPH] = -1;
	assert_true(number_named(&f, "runqueue_wait_share", -1) == 0.5);
	assert_true(number_named(&f, "d_state_share", -1) == 0);
	assert_true(number_named(&f, "d_state_share_peers", -1) == 0);
	c.own.preempted_per_s = 3;
	c.own.quota_cores = 2;
	c.own.io_bytes_s = 5e6;
	c.own.throttled = 0.24;
	c.own.behind = "hog";
	f.n_evidence = 0;
	host_cause_note(&f, &c, NULL);
	assert_true(number_named(&f, "preempted_per_s", -1) == 3 && number_named(&f, "quota_cores", -1) == 2);
	assert_true(number_named(&f, "io_bytes_per_s", -1) == 5e6 && number_named(&f, "throttled_share", -1) == 0.24);
	assert_string_equal(text_named(&f, "preempted_by", ""), "hog");
	c.own.throttled = 0.25; /* it waited for its quota */
	c.own.preempted_per_s = c.own.quota_cores = c.own.io_bytes_s = 0;
	f.n_evidence = 0;
	host_cause_note(&f, &c, NULL);
	assert_int_equal(f.n_evidence, 4);
	c.own.throttled = 0;
	f.n_evidence = 0;
	host_cause_note(&f, &c, NULL);
	assert_int_equal(f.n_evidence, 4);
	assert_string_equal(text_named(&f, "preempted_by", ""), "hog");
}

/* More than a tenth of the time between two samples, of the host and of the cgroup. */
static void pressure_is_said(void **state)
{
	static const char *const names[] = { "host_cpu_pressure_share",      "host_memory_pressure_share",
					     "host_io_pressure_share",       "cgroup_cpu_pressure_share",
					     "cgroup_memory_pressure_share", "cgroup_io_pressure_share" };

	(void)state;
	for (int i = 0; i < 6; i++) {
		struct pressure *p = i < 3 ? &node.pressure : &procs[0].pressure;
		struct finding f = { 0 };

		hand_setup(state);
		*p = (struct pressure){ .prev_ns = NOW - 2 * SEC, .ts_ns = NOW };
		p->now.known = 1u << 2 * (i % 3);
		p->prev.stall_ns[i % 3][0] = 7 * SEC;
		p->now.stall_ns[i % 3][0] = 7 * SEC + 200 * MSEC;
		pressure_note(&f, &procs[0]);
		assert_int_equal(f.n_evidence, 0);
		p->now.stall_ns[i % 3][0]++;
		pressure_note(&f, &procs[0]);
		assert_int_equal(f.n_evidence, 1);
		assert_true(near(number_named(&f, names[i], 0), 0.1));
		p->now.known = ~p->now.known;
		pressure_note(&f, &procs[0]);
		p->now.known = ~p->now.known;
		p->prev_ns = 0;
		pressure_note(&f, &procs[0]);
		p->prev_ns = NOW;
		pressure_note(&f, &procs[0]);
		p->prev_ns = NOW - SEC;
		p->prev.stall_ns[i % 3][0] = 8 * SEC;
		pressure_note(&f, &procs[0]);
		assert_int_equal(f.n_evidence, 1);
		p->prev.stall_ns[i % 3][0] = 0;
		pressure_note(&f, &procs[0]);
		assert_int_equal(f.n_evidence, 2);
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_a_thread_waits_for),
		TEST(what_gives_no_rate),
		TEST(which_threads_count),
		TEST(an_iteration_without_end),
		TEST(since_when),
		TEST(a_sample_without_threads_is_passed_over),
		TEST(what_driver_calls_take),
		TEST(bytes_and_quotas),
		TEST(what_stands_out),
		TEST(nobody_to_compare_with),
		TEST(not_all_peers_are_read),
		TEST(how_much_of_the_blame),
		TEST(the_most_expensive),
		TEST(bytes_as_a_cause),
		TEST(bytes_of_eight_peers),
		TEST(what_is_said),
		TEST(pressure_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
