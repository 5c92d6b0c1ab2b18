/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_excused.c - a rank that is late by its counters, beside a port that is known to be bad: its part of the
 * data comes late, so it is given time. Not so on a good network, and not if it is stopped.
 */
#include <string.h>

#include "tests/unit/job/outside_samples.h"

static const uint64_t late[] = { 12, 12, 11, 12 };

static void port_new(void)
{
	const uint32_t pids[] = { job_pid(1) };
	struct event e = { .kind = EV_PORT };

	e.port.id.number = 1;
	e.port.device = "rxe1";
	e.port.netdev = e.port.pci = "";
	e.port.kind = "rxe";
	e.port.layer = "Ethernet";
	give(e);
	e = (struct event){ .kind = EV_PORT_USERS };
	e.port.users.known = true;
	e.port.users.n = 1;
	memcpy(e.port.users.pids, pids, e.port.users.n * sizeof(pids[0]));
	give(e);
}

static void port_shows(uint8_t state)
{
	struct event e = { .kind = EV_PORT_SAMPLE };

	e.port.sample.taken_ns = now;
	e.port.sample.state = state;
	e.port.sample.rate_mbps = e.port.sample.lanes = PORT_NO_VALUE;
	give(e);
}

static const struct finding *reported_of(int rank)
{
	for (size_t i = 0; i < list.n; i++)
		if (list.items[i].kind == FINDING_HANG && list.items[i].n_ranks == 1 && list.items[i].ranks[0] == rank)
			return &list.items[i];
	return NULL;
}

/* The port is well, then as it is reported; the job goes on, until rank 2 is behind. */
static void begin(uint8_t state)
{
	const uint64_t even[] = { 11, 11, 11, 11 };

	who();
	port_new();
	for (int i = 0; i < 8; i++) {
		port_shows(i < 2 ? PORT_STATE_ACTIVE : state);
		world(even);
		tick();
	}
	assert_int_equal(list.n, state == PORT_STATE_DOWN);
	assert_true(!list.n || list.items[0].kind == FINDING_LINK);
}

static void goes_on(uint8_t state, uint64_t ns)
{
	for (uint64_t until = now + ns; now < until;) {
		port_shows(state);
		world(late);
		tick();
	}
}

static void time_is_given_on_a_bad_network(void **state)
{
	(void)state;
	begin(PORT_STATE_DOWN);
	goes_on(PORT_STATE_DOWN, 9 * SEC);
	assert_null(reported_of(2));
	goes_on(PORT_STATE_DOWN, 3 * SEC);
	assert_non_null(reported_of(2));
	assert_int_equal(reported_of(2)->class, HANG_MISSING_ENTER);
}

static void no_time_is_given_on_a_good_one(void **state)
{
	(void)state;
	begin(PORT_STATE_ACTIVE);
	goes_on(PORT_STATE_ACTIVE, 2 * SEC);
	assert_non_null(reported_of(2));
}

static void whoever_is_stopped_is_reported_at_once(void **state)
{
	(void)state;
	begin(PORT_STATE_DOWN);
	at[2].state = TASK_STOPPED;
	goes_on(PORT_STATE_DOWN, 2 * SEC);
	assert_non_null(reported_of(2));
	assert_int_equal(reported_of(2)->class, HANG_STOPPED);
}

/* Reported before the port went bad, and reported on. */
static void what_was_reported_stays(void **state)
{
	(void)state;
	begin(PORT_STATE_ACTIVE);
	goes_on(PORT_STATE_ACTIVE, 2 * SEC);
	goes_on(PORT_STATE_DOWN, 4 * SEC);
	assert_non_null(reported_of(2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(time_is_given_on_a_bad_network),
		TEST(no_time_is_given_on_a_good_one),
		TEST(whoever_is_stopped_is_reported_at_once),
		TEST(what_was_reported_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
