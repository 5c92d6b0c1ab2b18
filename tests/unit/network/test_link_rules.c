/* SPDX-License-Identifier: Apache-2.0
 *
 * test_link_rules.c - where the rules of detector link begin and end: how many of a counter in how many windows, for
 * how long, and beside which traffic. One port by hand, looked at once a second; two more for comparison.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/detect.h"
#include "tests/unit/job/evidence.h"
#define HAND_RANKS 2
#include "tests/unit/job/hand_job.h"

enum { PORTS = 4, PACKETS = 1000000, BYTES = 1000000000 };

static struct port ports[PORTS];
static struct port *const p = &ports[0];
static uint64_t counters[PORT_COUNTERS], step_ns;
static struct port_status status;
static struct finding_list list;
static void *detector;

static void sample_add(struct port *of)
{
	struct port_sample *l = &of->samples[of->n_samples++ % PORT_SAMPLES_KEPT];

	l->ts_ns = l->now.taken_ns = m.now_ns;
	l->now = status;
	l->now.taken_ns = m.now_ns;
	memcpy(l->counters, counters, sizeof(counters));
	if (of->n_samples == 1)
		of->first = *l;
}

static void tick(void)
{
	list.n = 0;
	assert_int_equal(detector_link.tick(detector, &m, &list), 0);
}

/* So much later. Before it, so many of a counter. */
static void look(int counter, uint64_t n)
{
	m.now_ns += step_ns;
	if (counter >= 0)
		counters[counter] += n;
	sample_add(p);
	tick();
}

/* The same while data flow. */
static void window(int counter, uint64_t n)
{
	counters[PORT_SENT_BYTES] += BYTES / 2;
	counters[PORT_SENT_PACKETS] += PACKETS / 2;
	counters[PORT_RECEIVED_BYTES] += BYTES / 2;
	counters[PORT_RECEIVED_PACKETS] += PACKETS / 2;
	look(counter, n);
}

static void windows(int times, int counter, uint64_t n)
{
	while (times-- > 0)
		window(counter, n);
}

static const struct finding *only(void)
{
	assert_true(list.n <= 1);
	return list.n ? &list.items[0] : NULL;
}

static bool is(enum finding_cause cause)
{
	return only() && only()->cause == cause;
}

static int begin(void **state)
{
	hand_setup(state);
	memset(counters, 0, sizeof(counters));
	memset(ports, 0, sizeof(ports));
	step_ns = SEC;
	status = (struct port_status){ .state = PORT_STATE_ACTIVE, .rate_mbps = 400000, .lanes = 4 };
	for (int i = 0; i < PORTS; i++) {
		ports[i] = (struct port){ .node = &node,
					  .device = "mlx5_0",
					  .netdev = "eth0",
					  .pci = "0000:1b:00.0",
					  .kind = "0x15b3:0x1021",
					  .layer = "InfiniBand" };
		ports[i].id.number = 1 + i;
		ports[i].users = (struct port_users){ .known = true, .n = 1, .pids = { HAND_PID(0) } };
	}
	node.ports = p;
	list = (struct finding_list){ 0 };
	detector = calloc(1, detector_link.state_bytes);
	look(-1, 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	detector_link.release(detector);
	free(detector);
	finding_list_free(&list);
	return 0;
}

static void again(void **state)
{
	end(state);
	begin(state);
}

static const int error_counters[] = { PORT_SYMBOL_ERRORS,     PORT_RECEIVE_ERRORS,  PORT_INTEGRITY_ERRORS,
				      PORT_OVERRUNS,          PORT_LINK_RECOVERIES, PORT_NETDEV_RECEIVE_ERRORS,
				      PORT_NETDEV_SEND_ERRORS };

/* A hundred at once, or ten in two windows running; with or without data. */
static void errors(void **state)
{
	static const char *const names[] = { "symbol_errors",     "receive_errors",  "integrity_errors",
					     "buffer_overruns",   "link_recoveries", "netdev_receive_errors",
					     "netdev_send_errors" };

	for (int i = 0; i < 7; i++) {
		again(state);
		look(error_counters[i], 99);
		assert_null(only());
		look(-1, 0);
		look(error_counters[i], 100);
		assert_true(is(CAUSE_LINK_ERRORS));
		assert_true(number_named(only(), names[i], 0) == 199);
		assert_true(number_named(only(), "per_second", 0) == 100);
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

/* What moved is told for a minute, congestion for ten seconds. */
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

/* --- up and down --- */

static void down_for_a_second(void **state)
{
	uint64_t since;

	(void)state;
	look(-1, 0);
	status.state = PORT_STATE_DOWN;
	look(-1, 0);
	since = m.now_ns;
	assert_null(only());
	m.now_ns += SEC - 1;
	tick();
	assert_null(only());
	m.now_ns++;
	tick();
	assert_true(is(CAUSE_PORT_DOWN));
	assert_int_equal(only()->since_ns, since);
	assert_string_equal(text_named(only(), "state", ""), "down");
	assert_null(evidence_named(only(), "times_down"));
	assert_null(evidence_named(only(), "per_second"));
	look(-1, 0);
	assert_int_equal(only()->since_ns, since);
	status.state = PORT_STATE_ACTIVE;
	look(-1, 0);
	assert_true(is(CAUSE_FLAP));
	assert_true(number_named(only(), "times_down", 0) == 1);
	assert_int_equal(only()->since_ns, m.now_ns);
	status.state = 2;
	look(-1, 0);
	assert_string_equal(text_named(only(), "state", ""), "init");
	status.state = PORT_STATE_ACTIVE;
	look(-1, 0);
	assert_true(number_named(only(), "times_down", 0) == 2);
}

static void one_that_was_never_up(void **state)
{
	(void)state;
	again(state);
	for (int i = 0; i < 3; i++) {
		end(state);
		hand_setup(state);
		memset(p->samples, 0, sizeof(p->samples));
		p->n_samples = 0;
		node.ports = p;
		list = (struct finding_list){ 0 };
		detector = calloc(1, detector_link.state_bytes);
		status.state = i == 1 ? PORT_STATE_ACTIVE : PORT_STATE_DOWN;
		status.flags = i == 1 ? PORT_GONE : 0;
		for (int k = 0; k < 4; k++)
			look(-1, 0);
		assert_null(only());
		status.state = PORT_STATE_ACTIVE;
		status.flags = 0;
		look(-1, 0); /* it comes up for the first time */
		assert_null(only());
	}
}

/* Up is active, with a carrier as far as that is known. */
static void what_is_up(void **state)
{
	static const struct {
		uint32_t state, flags;
		bool up;
	} cases[] = { { PORT_STATE_ACTIVE, PORT_CARRIER | PORT_CARRIER_KNOWN, true },
		      { PORT_STATE_ACTIVE, PORT_CARRIER_KNOWN, false },
		      { PORT_STATE_ACTIVE, PORT_CARRIER, true },
		      { 5, 0, false },
		      { 3, PORT_CARRIER | PORT_CARRIER_KNOWN, false },
		      { PORT_STATE_UNKNOWN, 0, true } }; /* that says nothing */

	for (int i = 0; i < 6; i++) {
		again(state);
		status.state = cases[i].state;
		status.flags = cases[i].flags;
		look(-1, 0);
		look(-1, 0);
		assert_int_equal(is(CAUSE_PORT_DOWN), !cases[i].up);
	}
	again(state);
	status.state = 5;
	look(-1, 0);
	look(-1, 0);
	assert_string_equal(text_named(only(), "state", ""), "active_deferred");
	status.state = 6;
	look(-1, 0);
	assert_string_equal(text_named(only(), "state", ""), "unknown");
}

static void gone_or_silent(void **state)
{
	uint64_t since;

	(void)state;
	status.flags = PORT_GONE;
	look(-1, 0);
	assert_true(is(CAUSE_DEVICE_GONE));
	since = m.now_ns;
	assert_string_equal(text_named(only(), "state", ""), "gone");
	look(-1, 0);
	look(-1, 0);
	assert_true(is(CAUSE_DEVICE_GONE)); /* and not down */
	assert_int_equal(only()->since_ns, since);
	status.flags = PORT_SILENT;
	look(-1, 0);
	assert_int_equal(list.n, 2);
	assert_int_equal(list.items[1].cause, CAUSE_DOES_NOT_ANSWER);
	again(state);
	status.flags = PORT_SILENT;
	status.state = PORT_STATE_DOWN; /* what it says now is no state */
	look(-1, 0);
	assert_true(is(CAUSE_DOES_NOT_ANSWER));
	since = m.now_ns;
	look(-1, 0);
	assert_true(is(CAUSE_DOES_NOT_ANSWER));
	assert_int_equal(only()->since_ns, since);
	status.flags = 0;
	status.state = PORT_STATE_ACTIVE;
	look(-1, 0);
	assert_null(only());
}

/* The device counted a link that went down between two looks; two seconds after one that was seen. */
static void a_flap_that_is_only_counted(void **state)
{
	static const int counted[] = { PORT_LINK_DOWNED, PORT_NETDEV_CARRIER_DOWNS };

	for (int i = 0; i < 2; i++) {
		again(state);
		step_ns = 2 * SEC;
		look(counted[i], 1);
		assert_null(only()); /* it came up two seconds ago */
		look(counted[i], 1);
		assert_true(is(CAUSE_FLAP));
		assert_true(number_named(only(), "times_down", 0) == 1);
		assert_true(number_named(only(), i ? "netdev_carrier_downs" : "link_downed", 0) == 2);
		status.state = PORT_STATE_DOWN;
		look(counted[i], 1);
		status.state = PORT_STATE_ACTIVE;
		look(counted[i], 1);
		assert_true(number_named(only(), "times_down", 0) == 2); /* seen, and counted once */
		look(counted[i], 1);
		assert_true(number_named(only(), "times_down", 0) == 2);
		step_ns = 1;
		look(counted[i], 1);
		assert_true(number_named(only(), "times_down", 0) == 3);
	}
}

/* Errors of a link that comes up again are its training's, for two seconds. */
static void errors_of_training(void **state)
{
	(void)state;
	status.state = PORT_STATE_DOWN;
	look(-1, 0);
	look(PORT_SYMBOL_ERRORS, 1000);
	status.state = PORT_STATE_ACTIVE;
	look(PORT_SYMBOL_ERRORS, 1000);
	step_ns = 2 * SEC - 1;
	look(PORT_SYMBOL_ERRORS, 1000);
	step_ns = 1;
	look(PORT_SYMBOL_ERRORS, 1000); /* here the first window begins */
	assert_true(is(CAUSE_FLAP));
	step_ns = SEC;
	look(PORT_SYMBOL_ERRORS, 100);
	assert_int_equal(list.n, 2);
	again(state);
	look(PORT_SYMBOL_ERRORS, 50); /* a window before it says nothing of one after */
	status.state = PORT_STATE_DOWN;
	look(-1, 0);
	status.state = PORT_STATE_ACTIVE;
	look(-1, 0);
	step_ns = 2 * SEC;
	look(-1, 0);
	step_ns = SEC;
	look(PORT_SYMBOL_ERRORS, 50);
	assert_true(is(CAUSE_FLAP));
}

/* --- the rate --- */

static void slower_than_it_was(void **state)
{
	(void)state;
	status.rate_mbps = 200000;
	look(-1, 0);
	m.now_ns += 2 * SEC - 1;
	tick();
	assert_null(only());
	m.now_ns++;
	tick();
	assert_true(is(CAUSE_LOW_RATE));
	assert_true(number_named(only(), "rate_gbps", 0) == 200);
	assert_true(number_named(only(), "rate_before_gbps", 0) == 400);
	assert_true(number_named(only(), "lanes", 0) == 4);
	assert_null(evidence_named(only(), "rate_of_peers_gbps"));
	assert_null(evidence_named(only(), "per_second"));
	status.lanes = PORT_NO_VALUE;
	look(-1, 0);
	assert_null(evidence_named(only(), "lanes"));
	status.rate_mbps = PORT_NO_VALUE;
	look(-1, 0);
	assert_null(only());
	status.rate_mbps = 400000;
	look(-1, 0);
	look(-1, 0);
	look(-1, 0);
	assert_null(only());
	status.rate_mbps = 0;
	look(-1, 0);
	look(-1, 0);
	look(-1, 0);
	assert_null(only());
}

/* Two ports of its kind at least, and more than half of them all, are faster. */
static void slower_than_its_peers(void **state)
{
	static const struct {
		uint32_t rates[3];
		int unlike; /* 1 kind, 2 layer, 3 no kind, 4 down, 5 rate not known, of port 3 */
		double peers_gbps;
	} cases[] = { { { 800000, 800000, 400000 }, 0, 0 },   { { 800000, 800000, 800000 }, 0, 800 },
		      { { 800000, 800000, 400000 }, 1, 800 }, { { 800000, 800000, 400000 }, 2, 800 },
		      { { 800000, 800000, 400000 }, 4, 800 }, { { 800000, 800000, 400000 }, 5, 800 },
		      { { 800000, 400000, 800000 }, 1, 0 },   { { 800000, 500000, 600000 }, 0, 500 },
		      { { 800000, 800000, 800000 }, 3, 0 },   { { 400000, 400000, 400000 }, 0, 0 } };

	for (size_t i = 0; i < 10; i++) {
		struct port_status mine;

		again(state);
		mine = status;
		for (int k = 0; k < 3; k++) {
			ports[k].next = &ports[k + 1];
			status.rate_mbps = cases[i].rates[k];
			if (k == 2 && cases[i].unlike == 4)
				status.state = PORT_STATE_DOWN;
			if (k == 2 && cases[i].unlike == 5)
				status.rate_mbps = PORT_NO_VALUE;
			sample_add(&ports[k + 1]);
			status = mine;
		}
		if (cases[i].unlike == 1)
			ports[3].kind = "0x15b3:0x101b";
		if (cases[i].unlike == 2)
			ports[3].layer = "Ethernet";
		for (int k = 0; k < 4 && cases[i].unlike == 3; k++)
			ports[k].kind = "";
		for (int k = 0; k < 3; k++)
			look(-1, 0);
		assert_int_equal(!!only(), cases[i].peers_gbps > 0);
		if (!only())
			continue;
		assert_true(is(CAUSE_LOW_RATE));
		assert_true(number_named(only(), "rate_of_peers_gbps", 0) == cases[i].peers_gbps);
		assert_null(evidence_named(only(), "rate_before_gbps"));
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

/* --- whose it is --- */

static void who_has_it_open(void **state)
{
	(void)state;
	windows(3, PORT_SYMBOL_ERRORS, 200);
	assert_int_equal(only()->kind, FINDING_LINK);
	assert_true(fabs(only()->confidence - 0.95) < 1e-6);
	assert_int_equal(only()->n_ranks, 0);
	assert_string_equal(text_named(only(), "ranks_using", ""), "0");
	assert_string_equal(text_named(only(), "pids_using", ""), "100");
	assert_string_equal(text_named(only(), "device", ""), "mlx5_0");
	assert_true(number_named(only(), "port", 0) == 1);
	assert_string_equal(text_named(only(), "netdev", ""), "eth0");
	assert_string_equal(text_named(only(), "pci", ""), "0000:1b:00.0");
	assert_string_equal(text_named(only(), "link_layer", ""), "InfiniBand");
	assert_non_null(evidence_named(only(), "remedy"));
	p->users = (struct port_users){ .known = false };
	p->netdev = p->pci = p->layer = "";
	tick();
	assert_int_equal(only()->kind, FINDING_LINK);
	assert_true(fabs(only()->confidence - 0.7) < 1e-6);
	assert_string_equal(text_named(only(), "ranks_may", ""), "0,1");
	assert_null(evidence_named(only(), "netdev"));
	assert_null(evidence_named(only(), "pci"));
	assert_null(evidence_named(only(), "link_layer"));
	p->users.known = true;
	tick();
	assert_int_equal(only()->kind, FINDING_OBSERVATION);
	assert_true(fabs(only()->confidence - 0.7) < 1e-6);
	p->users = (struct port_users){ .known = false };
	m.procs = NULL;
	tick();
	assert_int_equal(only()->kind, FINDING_OBSERVATION);
	p->users.known = true;
	again(state);
	p->users.n = 0;
	windows(5, PORT_CNP_SENT, 20000);
	assert_null(only()); /* congestion that concerns no rank is no news */
}

/* Dead for a minute it is one of them still; a child is none. */
static void which_ranks_use_it(void **state)
{
	(void)state;
	p->users.n = 2;
	p->users.pids[1] = HAND_PID(1);
	windows(1, PORT_SYMBOL_ERRORS, 200);
	assert_string_equal(text_named(only(), "ranks_using", ""), "0,1");
	assert_string_equal(text_named(only(), "pids_using", ""), "100,101");
	procs[1].dead = true;
	procs[1].exit_ns = m.now_ns - 60 * SEC + 1;
	tick();
	assert_string_equal(text_named(only(), "ranks_using", ""), "0,1");
	procs[1].exit_ns--;
	tick();
	assert_string_equal(text_named(only(), "ranks_using", ""), "0");
	procs[1].dead = false;
	procs[1].is_child = true;
	tick();
	assert_string_equal(text_named(only(), "ranks_using", ""), "0");
	procs[1].is_child = false;
	procs[1].rank = -1;
	members[1].rank = -1;
	tick();
	assert_string_equal(text_named(only(), "ranks_using", ""), "0");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(errors),
		TEST(errors_again),
		TEST(rates),
		TEST(rates_of_little_traffic),
		TEST(rates_are_of_a_second),
		TEST(three_of_five_windows),
		TEST(a_window_is_nearly_a_second),
		TEST(how_long_it_is_told),
		TEST(down_for_a_second),
		TEST(one_that_was_never_up),
		TEST(what_is_up),
		TEST(gone_or_silent),
		TEST(a_flap_that_is_only_counted),
		TEST(errors_of_training),
		TEST(slower_than_it_was),
		TEST(slower_than_its_peers),
		TEST(few_losses_of_few_packets),
		TEST(few_losses_by_bytes),
		TEST(the_end_that_sends),
		TEST(who_has_it_open),
		TEST(which_ranks_use_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
