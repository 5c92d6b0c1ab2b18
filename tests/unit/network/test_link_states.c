/* SPDX-License-Identifier: Apache-2.0
 *
 * test_link_states.c - detector link by what a port is: up, down, gone, silent, slower than it was or than its peers;
 * and whose it is.
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
		TEST(down_for_a_second),  TEST(one_that_was_never_up),       TEST(what_is_up),
		TEST(gone_or_silent),     TEST(a_flap_that_is_only_counted), TEST(errors_of_training),
		TEST(slower_than_it_was), TEST(slower_than_its_peers),       TEST(who_has_it_open),
		TEST(which_ranks_use_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
