/* SPDX-License-Identifier: Apache-2.0
 *
 * test_link_rules.c - where the rules of detector link begin and end by what a port counts: how many in how many
 * windows, beside which traffic, and for how long it is reported.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/evidence.h"
#include "tests/unit/network/hand_port.h"

static const int error_counters[] = { PORT_SYMBOL_ERRORS,     PORT_RECEIVE_ERRORS,  PORT_INTEGRITY_ERRORS,
				      PORT_OVERRUNS,          PORT_LINK_RECOVERIES, PORT_NETDEV_RECEIVE_ERRORS,
				      PORT_NETDEV_SEND_ERRORS };

/* A hundred at once, or ten in two windows running, of what a port counts by itself a tenth of that; with or without
 * data. */
static void errors(void **state)
{
	static const char *const names[] = { "symbol_errors",     "receive_errors",  "integrity_errors",
					     "buffer_overruns",   "link_recoveries", "netdev_receive_errors",
					     "netdev_send_errors" };

	for (int i = 0; i < 7; i++) {
		int most = i >= 2 && i <= 4 ? 10 : 100;

		again(state);
		look(error_counters[i], most - 1);
		assert_null(only());
		look(-1, 0);
		look(error_counters[i], most);
		assert_true(is(CAUSE_LINK_ERRORS));
		assert_true(number_named(only(), names[i], 0) == 2 * most - 1);
		assert_true(number_named(only(), "per_second", 0) == most);
	}
}

/* Overruns: four bits, of which each says that many packets were broken. One in each of two windows. */
static void narrow_counters(void **state)
{
	again(state);
	look(PORT_OVERRUNS, 1);
	look(-1, 0);
	look(PORT_OVERRUNS, 1);
	assert_null(only());
	look(PORT_OVERRUNS, 1);
	assert_true(is(CAUSE_LINK_ERRORS));
}

/* Overruns at their end since before the session keep nothing open. */
static void an_old_limit(void **state)
{
	again(state);
	counters[PORT_OVERRUNS] = 15;
	p->n_samples = 0; /* the first look finds it so */
	detector_link.release(detector);
	memset(detector, 0, detector_link.state_bytes);
	look(-1, 0);
	look(PORT_SYMBOL_ERRORS, 200);
	assert_true(is(CAUSE_LINK_ERRORS));
	for (int i = 0; i < 65; i++)
		look(-1, 0);
	assert_null(only());
}

/* Symbol errors up to the counter's end, where it stays: open until it is set back, or the link was down. */
static void at_the_limit(void **state)
{
	for (int how = 0; how < 3; how++) {
		again(state);
		for (int i = 0; i < 3; i++)
			look(PORT_SYMBOL_ERRORS, 20000);
		look(PORT_SYMBOL_ERRORS, how == 2 ? 4000 : 65535 - 60000);
		for (int i = 0; i < 120; i++)
			look(-1, 0);
		assert_int_equal(!!only(), how != 2); /* it may still count: over */
		if (how == 1) {
			status.state = PORT_STATE_DOWN;
			look(-1, 0);
			look(-1, 0);
			status.state = PORT_STATE_ACTIVE;
		} else {
			counters[PORT_SYMBOL_ERRORS] = 0;
		}
		for (int i = 0; i < 65; i++)
			look(-1, 0);
		assert_null(only());
	}
}

static void errors_again(void **state)
{
	static const struct {
		int n[3];
		bool bad;
	} cases[] = {
		{ { 10, 10, 0 }, true }, { { 9, 10, 0 }, false }, { { 10, 9, 0 }, false }, { { 10, 0, 10 }, false }
	};

	for (int i = 0; i < 4; i++) {
		again(state);
		for (int k = 0; k < 3; k++)
			look(PORT_SYMBOL_ERRORS, cases[i].n[k]);
		assert_int_equal(!!only(), cases[i].bad);
	}
	assert_null(only());
	look(PORT_SYMBOL_ERRORS, 50);
	assert_true(number_named(only(), "per_second", 0) == 50);
	look(-1, 0);
	assert_true(number_named(only(), "per_second", 0) == 50); /* in the newest that had any */
}

/* So many a second, three of the newest five windows, of which counters, beside how much data. */
static void rates(void **state)
{
	static const struct {
		int counter, n;
		enum finding_cause cause;
		const char *name;
	} rows[] = { { PORT_TIMEOUTS, 100, CAUSE_RETRANSMITS, "ack_timeouts" },
		     { PORT_RETRANSMITS, 100, CAUSE_RETRANSMITS, "retransmits" },
		     { PORT_OUT_OF_SEQUENCE, 100, CAUSE_RETRANSMITS, "out_of_sequence" },
		     { PORT_SEQUENCE_NAKS, 100, CAUSE_RETRANSMITS, "sequence_naks" },
		     { PORT_SEND_DISCARDS, 100, CAUSE_DISCARDS, "send_discards" },
		     { PORT_RECEIVE_DISCARDS, 100, CAUSE_DISCARDS, "receive_discards" },
		     { PORT_CNP_SENT, 10000, CAUSE_CONGESTION, "cnp_sent" },
		     { PORT_CNP_HANDLED, 10000, CAUSE_CONGESTION, "cnp_handled" },
		     { PORT_ECN_MARKED, 10000, CAUSE_CONGESTION, "ecn_marked" } };

	for (int i = 0; i < 9; i++) {
		again(state);
		windows(5, rows[i].counter, rows[i].n - 1);
		assert_null(only());
		windows(2, rows[i].counter, rows[i].n);
		assert_null(only());
		window(rows[i].counter, rows[i].n);
		assert_true(is(rows[i].cause));
		assert_int_equal(only()->kind, rows[i].cause == CAUSE_CONGESTION ? FINDING_OBSERVATION : FINDING_LINK);
		assert_true(number_named(only(), "per_second", 0) == rows[i].n);
		assert_true(number_named(only(), rows[i].name, 0) == 8 * rows[i].n - 5);
		assert_int_equal(only()->since_ns, m.now_ns);
	}
}

/* The same where packets are few, or not counted: by the bytes, 1024 a packet. */
static void rates_of_little_traffic(void **state)
{
	static const struct {
		int counter, n;
		uint64_t bytes, packets;
		bool bad;
	} cases[] = {
		{ PORT_TIMEOUTS, 10, 1000000, 1000, true },
		{ PORT_TIMEOUTS, 9, 1000000, 1000, false },
		{ PORT_TIMEOUTS, 10, 999999, 1000, false },
		{ PORT_SEND_DISCARDS, 10, 1000000, 1000, true },
		{ PORT_SEND_DISCARDS, 9, 1000000, 1000, false },
		{ PORT_SEND_DISCARDS, 10, 999999, 1000, false },
		{ PORT_CNP_SENT, 1000, 0, 0, true },
		{ PORT_CNP_SENT, 999, 0, 0, false },
		{ PORT_TIMEOUTS, 100, 1024000000, 0, true },
		{ PORT_TIMEOUTS, 99, 1024000000, 0, false },
		{ PORT_TIMEOUTS, 99, 1024000000, 990000, true },
	};

	for (size_t i = 0; i < 11; i++)
		for (int received = 0; received < 2; received++) {
			again(state);
			for (int k = 0; k < 3; k++) {
				counters[received ? PORT_RECEIVED_BYTES : PORT_SENT_BYTES] += cases[i].bytes;
				counters[received ? PORT_RECEIVED_PACKETS : PORT_SENT_PACKETS] += cases[i].packets;
				look(cases[i].counter, cases[i].n);
			}
			assert_int_equal(!!only(), cases[i].bad);
		}
}

/* Two seconds from look to look: twice as many, of twice the traffic. */
static void rates_are_of_a_second(void **state)
{
	static const struct {
		int counter, n;
		uint64_t bytes;
		bool bad;
	} cases[] = { { PORT_TIMEOUTS, 20, 2000000, true },       { PORT_TIMEOUTS, 19, 2000000, false },
		      { PORT_TIMEOUTS, 20, 1999999, false },      { PORT_SEND_DISCARDS, 20, 2000000, true },
		      { PORT_SEND_DISCARDS, 19, 2000000, false }, { PORT_CNP_SENT, 2000, 2000000, true },
		      { PORT_CNP_SENT, 1999, 2000000, false },    { PORT_SYMBOL_ERRORS, 10, 0, true } };

	for (size_t i = 0; i < 8; i++) {
		again(state);
		step_ns = 2 * SEC;
		for (int k = 0; k < 3; k++) {
			counters[PORT_SENT_BYTES] += cases[i].bytes;
			look(cases[i].counter, cases[i].n);
		}
		assert_int_equal(!!only(), cases[i].bad);
		if (only())
			assert_true(number_named(only(), "per_second", 0) == cases[i].n / 2);
	}
}

/* Each letter a window, x one that loses. */
static void three_of_five_windows(void **state)
{
	static const struct {
		const char *windows;
		bool bad;
	} cases[] = {
		{ "x.x.x", true }, { "x.x..x", false }, { "xx...x", false }, { "x..xx", true }, { "xx.", false }
	};

	for (int i = 0; i < 5; i++) {
		again(state);
		for (const char *c = cases[i].windows; *c; c++)
			window(PORT_TIMEOUTS, *c == 'x' ? 200 : 0);
		assert_int_equal(!!only(), cases[i].bad);
	}
}

/* Looks come ten times a second: a window has nine. */
static void a_window_is_nearly_a_second(void **state)
{
	for (int late = 0; late < 2; late++) {
		again(state);
		step_ns = 450 * MSEC - 1 + late;
		look(-1, 0);
		look(PORT_SYMBOL_ERRORS, 100);
		assert_int_equal(!!only(), late);
		look(-1, 0);
		assert_true(is(CAUSE_LINK_ERRORS));
	}
}

/* What moved is reported for a minute, congestion for ten seconds. */
static void how_long_it_is_told(void **state)
{
	static const struct {
		int counter, n, hold_s;
	} rows[] = { { PORT_SYMBOL_ERRORS, 200, 60 }, { PORT_CNP_SENT, 20000, 10 } };

	for (int i = 0; i < 2; i++) {
		again(state);
		windows(3, rows[i].counter, rows[i].n);
		windows(rows[i].hold_s, -1, 0);
		assert_non_null(only());
		m.now_ns++;
		tick();
		assert_null(only());
	}
}

/* --- losses that hold a job up --- */

/* Three of a window's packets, one in a hundred, in two of twelve windows. */
static void few_losses_of_few_packets(void **state)
{
	static const struct {
		int first, pause, second, packets;
		bool bad;
	} cases[] = { { 3, 10, 3, 300, true }, { 3, 11, 3, 300, false }, { 2, 0, 3, 100, false },
		      { 3, 0, 2, 100, false }, { 3, 0, 3, 301, false },  { 3, 0, 4, 300, true },
		      { 30, 0, 0, 100, false } };

	for (size_t i = 0; i < 7; i++)
		for (int sent = 0; sent < 2; sent++) {
			again(state);
			for (int k = 0; k < cases[i].pause + 2; k++) {
				counters[sent ? PORT_SENT_PACKETS : PORT_RECEIVED_PACKETS] += cases[i].packets;
				counters[sent ? PORT_RECEIVED_PACKETS : PORT_SENT_PACKETS] += 100 * PACKETS;
				look(sent ? PORT_SEQUENCE_NAKS : PORT_OUT_OF_SEQUENCE, !k ? cases[i].first
										       : k > cases[i].pause
											       ? cases[i].second
											       : 0);
			}
			assert_int_equal(is(CAUSE_RETRANSMITS), cases[i].bad);
			if (cases[i].bad)
				assert_true(number_named(only(), "per_second", 0) == cases[i].second);
		}
}

/* By the bytes, where packets are not counted. */
static void few_losses_by_bytes(void **state)
{
	for (int i = 0; i < 2; i++) {
		again(state);
		for (int k = 0; k < 2; k++) {
			counters[PORT_SENT_BYTES] += 1024 * (300 + i);
			look(PORT_SEQUENCE_NAKS, 3);
		}
		assert_int_equal(is(CAUSE_RETRANSMITS), 1 - i);
	}
}

/* The port that sends what is lost is the cause of gaps at another of its kind. */
static void the_end_that_sends(void **state)
{
	for (int i = 0; i < 3; i++) {
		struct port *o = &ports[1];

		again(state);
		p->next = o;
		o->kind = i == 1 ? "other" : p->kind;
		for (int k = 0; k < 3; k++) {
			uint64_t mine[PORT_COUNTERS];

			memcpy(mine, counters, sizeof(mine));
			m.now_ns += SEC;
			counters[i == 2 ? PORT_OUT_OF_SEQUENCE : PORT_SEQUENCE_NAKS] = 10 * k;
			sample_add(o);
			memcpy(counters, mine, sizeof(mine));
			counters[PORT_OUT_OF_SEQUENCE] += 10;
			sample_add(p);
			tick();
		}
		tick();
		assert_int_equal(list.n, 2);
		assert_int_equal(list.items[0].caused_by_key, i ? 0 : list.items[1].key);
		assert_int_equal(list.items[1].caused_by_key, 0);
		assert_true(list.items[1].key && list.items[0].key != list.items[1].key);
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(errors),
		TEST(errors_again),
		TEST(narrow_counters),
		TEST(at_the_limit),
		TEST(an_old_limit),
		TEST(rates),
		TEST(rates_of_little_traffic),
		TEST(rates_are_of_a_second),
		TEST(three_of_five_windows),
		TEST(a_window_is_nearly_a_second),
		TEST(how_long_it_is_told),
		TEST(few_losses_of_few_packets),
		TEST(few_losses_by_bytes),
		TEST(the_end_that_sends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
