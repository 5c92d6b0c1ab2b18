/* SPDX-License-Identifier: Apache-2.0
 *
 * test_tcp_slow.c - is a path slow? By the other paths, by its own past, by the time a byte takes: each limit, and one
 * beside it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "detect/network/tcp_slow.h"

#define PAST 13

static struct tcp_pair path, other, third;
static struct tcp_pairs all;

/* Rounds of 50 ms on the way each: a byte takes 0.01 us. */
static void usual(struct tcp_pair *p, double rtt_us)
{
	struct tcp_round r = { .rtt_us = rtt_us, .busy_us = 50000, .bytes = 5e6 };

	*p = (struct tcp_pair){ .a = "10.0.0.1", .b = "10.0.0.2", .seconds = 1 };
	p->rtt_us = p->rtt_low_us = rtt_us;
	for (int i = 0; i < PAST; i++)
		tcp_past_take(&p->past, r, true);
}

/* Two paths, as they always were; the third is not there. */
static int setup(void **state)
{
	(void)state;
	usual(&path, 100);
	usual(&other, 100);
	usual(&third, 100);
	path.keyed.next = &other;
	all = (struct tcp_pairs){ .table.all = &path, .rtt_best_us = 100 };
	return 0;
}

static bool is_slow(void)
{
	return tcp_slow_judge(&all, &path);
}

static void now_takes(struct tcp_pair *p, double busy_us, double bytes)
{
	for (int i = 0; i < TCP_ROUNDS; i++) {
		p->past.now[i].busy_us = busy_us;
		p->past.now[i].bytes = bytes;
	}
}

static void as_ever_is_not_slow(void **state)
{
	(void)state;
	assert_false(is_slow());
}

/* 5 ms, and ten times the quickest. */
static void against_the_others(void **state)
{
	static const struct {
		uint64_t low_us, best_us;
		bool slow;
	} cases[] = { { 5000, 500, true }, { 4999, 100, false }, { 5000, 501, false }, { 6000, 600, true } };

	(void)state;
	path.past = other.past = (struct tcp_past){ 0 };
	for (size_t i = 0; i < 4; i++) {
		path.rtt_us = path.rtt_low_us = cases[i].low_us;
		all.rtt_best_us = cases[i].best_us;
		assert_int_equal(is_slow(), cases[i].slow);
	}
	path.b = path.a; /* within one host */
	assert_false(is_slow());
	path.b = other.b;
	assert_true(is_slow());
	path.rtt_us = 0; /* nothing flowed */
	assert_false(is_slow());
}

/* Alone: three times its usual round trip, 5 ms above its longest; 50 ms where answers may just come late. */
static void against_its_own_past(void **state)
{
	static const struct {
		double usual_us;
		uint64_t rtt_us, low_us;
		bool slow;
	} cases[] = { { 2000, 7000, 7000, true },    { 2000, 6999, 6999, false },   { 4000, 12000, 12000, true },
		      { 4000, 11999, 11999, false }, { 2000, 29999, 7000, true },   { 2000, 30000, 7000, false },
		      { 10000, 60000, 60000, true }, { 10000, 59999, 59999, false } };

	(void)state;
	for (size_t i = 0; i < 8; i++) {
		usual(&path, cases[i].usual_us);
		path.rtt_us = cases[i].rtt_us;
		path.rtt_low_us = all.rtt_best_us = cases[i].low_us;
		assert_int_equal(is_slow(), cases[i].slow);
	}
	path.rtt_us = path.rtt_low_us = 60000;
	assert_true(is_slow());
	path.past.before[3].rtt_us = 10001; /* once it took longer */
	assert_false(is_slow());
	path.past.before[3].rtt_us = 10000;
	path.past.n_before = 7; /* too little is known */
	assert_false(is_slow());
}

/* Another path that is as it was: it is not the machine, or the job, that became slow. */
static void another_path_is_as_it_was(void **state)
{
	static const struct {
		double usual_us;
		uint64_t rtt_us;
		bool steady;
	} cases[] = { { 4000, 6000, true }, { 4000, 6001, false }, { 100, 5000, true }, { 100, 5001, false } };

	(void)state;
	usual(&path, 2000);
	path.keyed.next = &other;
	path.rtt_us = all.rtt_best_us = 40000;
	path.rtt_low_us = 7000;
	for (size_t i = 0; i < 4; i++) {
		usual(&other, cases[i].usual_us);
		other.rtt_us = cases[i].rtt_us;
		assert_int_equal(is_slow(), cases[i].steady);
	}
	other.keyed.next = &third; /* one of them is enough */
	assert_true(is_slow());
	third.past.n_before = 7; /* of this one nothing is known */
	assert_false(is_slow());
	usual(&third, 100);
	third.b = third.a;
	assert_false(is_slow());
	other.rtt_us = 0; /* and where no other flows it is alone, at 40 ms */
	assert_false(is_slow());
	path.rtt_us = 29999;
	assert_true(is_slow());
}

/* Four times what a byte took, where one of the others takes what it took. */
static void a_byte_takes_longer(void **state)
{
	(void)state;
	now_takes(&path, 50000, 1250000);
	assert_true(is_slow());
	now_takes(&path, 50000, 1250001);
	assert_false(is_slow());
	now_takes(&path, 49999, 1000000); /* below 5 % of the time something is on its way */
	assert_false(is_slow());
	now_takes(&path, 50000, 1000000);
	assert_true(is_slow());
	path.seconds = 1.01;
	assert_false(is_slow());
	path.seconds = 1;
	path.lost_of[4] = 1;
	assert_false(is_slow());
	path.lost_of[2] = -1; /* it had come */
	assert_true(is_slow());
	path.past.n_before = 7;
	assert_false(is_slow());
}

/* Twice the worst five rounds of its past. */
static void it_took_as_long_before(void **state)
{
	(void)state;
	for (int i = 0; i < 45; i++)
		tcp_past_take(&path.past, (struct tcp_round){ 100, 50000, i >= 30 && i < 35 ? 1e6 : 5e6, { 0 } }, true);
	now_takes(&path, 50000, 500000);
	assert_true(is_slow());
	now_takes(&path, 50000, 500001);
	assert_false(is_slow());
}

static void a_byte_takes_long_on_all_paths(void **state)
{
	(void)state;
	now_takes(&path, 50000, 1250000); /* 0.04 us */
	now_takes(&other, 50000, 3700000);
	assert_false(is_slow()); /* 0.0135 us: that is not three times as long */
	now_takes(&other, 50000, 3800000);
	assert_true(is_slow());
	now_takes(&path, 50000, 500000);   /* 0.1 us */
	now_takes(&other, 50000, 3300000); /* 0.01515 us: more than half as much again as its own worst */
	assert_false(is_slow());
	now_takes(&other, 50000, 3400000);
	assert_true(is_slow());
	other.rtt_us = 0;
	assert_false(is_slow()); /* alone: the job may send otherwise */
}

static void the_quickest_of_the_others_counts(void **state)
{
	(void)state;
	now_takes(&path, 50000, 1250000);
	other.keyed.next = &third;
	now_takes(&other, 50000, 3700000);
	assert_true(is_slow());
	now_takes(&other, 50000, 5e6);
	now_takes(&third, 50000, 3700000);
	assert_true(is_slow());
	now_takes(&other, 50000, 3700000);
	assert_false(is_slow());
}

static bool has_no_queue(uint64_t rtt_us, double usual_us, uint64_t best_us)
{
	usual(&path, usual_us);
	path.rtt_us = rtt_us;
	path.keyed.next = &other;
	all.rtt_best_us = best_us;
	return tcp_slow_no_queue(&all, &path);
}

/* Half as much again as usual; 5 ms is a queue in any case. */
static void no_queue_alone(void **state)
{
	(void)state;
	other.past = (struct tcp_past){ 0 };
	assert_true(has_no_queue(150, 100, 10));
	assert_false(has_no_queue(151, 100, 10));
	assert_true(has_no_queue(4999, 4000, 10));
	assert_false(has_no_queue(5000, 4000, 10));
	assert_false(has_no_queue(0, 100, 10));
	usual(&path, 100);
	path.past.n_before = 7;
	assert_false(tcp_slow_no_queue(&all, &path));
}

/* All take longer by so much: a machine that is busy. Of the others the one that changed least counts. */
static void no_queue_beside_others(void **state)
{
	(void)state;
	assert_true(has_no_queue(300, 300, 100));
	assert_false(has_no_queue(301, 301, 100)); /* far above the quickest */
	other.rtt_us = 200;
	assert_true(has_no_queue(300, 100, 200));
	assert_false(has_no_queue(301, 100, 200));
	other.keyed.next = &third;
	third.rtt_us = 400;
	assert_false(has_no_queue(301, 100, 200));
	third.rtt_us = 160;
	assert_true(has_no_queue(240, 100, 200));
	assert_false(has_no_queue(241, 100, 200));
	third.rtt_us = 50; /* quicker than usual: that is no measure */
	assert_true(has_no_queue(150, 100, 200));
	assert_false(has_no_queue(151, 100, 200));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		TEST(as_ever_is_not_slow),
		TEST(against_the_others),
		TEST(against_its_own_past),
		TEST(another_path_is_as_it_was),
		TEST(a_byte_takes_longer),
		TEST(it_took_as_long_before),
		TEST(a_byte_takes_long_on_all_paths),
		TEST(the_quickest_of_the_others_counts),
		TEST(no_queue_alone),
		TEST(no_queue_beside_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
