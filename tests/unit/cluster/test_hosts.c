/* SPDX-License-Identifier: Apache-2.0
 *
 * test_hosts.c - which report of a host is new, and when it was made: repeated, replayed, forged, spooled ones, and
 * hosts that boot.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hub/hosts.h"

#define SEC 1000000000ull
#define WALL (1790000000ull * SEC) /* of the server; hosts count from their boot */

static struct hosts hosts;
static struct host *host;

static struct host_message_id message(uint64_t agent, uint64_t sequence, uint64_t made_ns, uint64_t stored_ns)
{
	return (struct host_message_id){ .token = "node-a",
					 .name = "node-a",
					 .boot_id = "boot-1",
					 .agent = agent,
					 .sequence = sequence,
					 .made_ns = made_ns,
					 .stored_ns = stored_ns };
}

static enum host_message take(uint64_t agent, uint64_t sequence, uint64_t made_ns, uint64_t stored_ns)
{
	struct host_message_id id = message(agent, sequence, made_ns, stored_ns);

	return hosts_take(&hosts, &id, &host);
}

static int end(void **state)
{
	(void)state;
	hosts_free(&hosts);
	hosts = (struct hosts){};
	return 0;
}

static void each_number_once(void **state)
{
	(void)state;
	assert_int_equal(take(5, 1, 100 * SEC, WALL), HOST_NEW);
	assert_int_equal(host->number, 1);
	assert_int_equal(take(5, 1, 100 * SEC, WALL + SEC), HOST_REPEATED);
	assert_int_equal(take(5, 4, 103 * SEC, WALL + 3 * SEC), HOST_NEW);
	assert_int_equal(host->n_missing, 2);
	assert_int_equal(take(5, 3, 102 * SEC, WALL + 3 * SEC), HOST_REPEATED);
	assert_int_equal(hosts.n, 1);
}

/* The agent was started again: it counts anew, and what its last run sent is old. */
static void a_new_run_of_the_agent(void **state)
{
	(void)state;
	take(5, 100, 100 * SEC, WALL);
	assert_int_equal(take(9, 1, 110 * SEC, WALL + 10 * SEC), HOST_NEW);
	assert_int_equal(host->n_missing, 0);
	assert_int_equal(take(5, 101, 111 * SEC, WALL + 11 * SEC), HOST_REPEATED);
}

static void a_host_that_boots_is_the_same_host(void **state)
{
	struct host_message_id id = message(1, 1, SEC, WALL + 60 * SEC);

	(void)state;
	take(5, 100, 100 * SEC, WALL);
	assert_false(hosts_boots(&hosts, &id));
	id.boot_id = "boot-2";
	assert_true(hosts_boots(&hosts, &id));
	assert_int_equal(hosts_take(&hosts, &id, &host), HOST_NEW);
	assert_int_equal(host->number, 1);
	assert_string_equal(host->boot_id, "boot-2");
	assert_int_equal(host->at_ns, WALL + 60 * SEC);
	assert_false(hosts_boots(&hosts, &id));
	assert_int_equal(take(5, 200, 200 * SEC, WALL + 61 * SEC), HOST_REPEATED); /* of the boot before */
}

static void another_hosts_name_is_forged(void **state)
{
	struct host_message_id id = message(5, 1, SEC, WALL);

	(void)state;
	id.token = "node-b";
	assert_int_equal(hosts_take(&hosts, &id, &host), HOST_FORGED);
	assert_int_equal(hosts.n, 0);
}

/* A message that was a minute on its way is known to be old, by one that was not; the clocks differ by years. */
static void what_was_spooled_is_old(void **state)
{
	(void)state;
	take(5, 1, 100 * SEC, WALL);
	assert_int_equal(host->at_ns, WALL);
	take(5, 2, 101 * SEC, WALL + 60 * SEC);
	assert_int_equal(host->at_ns, WALL + SEC);
	take(5, 3, 160 * SEC, WALL + 60 * SEC + 1);
	assert_int_equal(host->at_ns, WALL + 60 * SEC);
	assert_int_equal(host_time(host, 159 * SEC), WALL + 59 * SEC);
	assert_int_equal(host_time(host, 0), 0);
}

/* The least delay shows best how clocks differ: it may become less, and time goes on all the same. */
static void time_never_goes_back(void **state)
{
	uint64_t before;

	(void)state;
	take(5, 1, 100 * SEC, WALL + SEC);
	take(5, 2, 101 * SEC, WALL + 2 * SEC);
	before = host->at_ns;
	take(5, 3, 101 * SEC + SEC / 2, WALL + SEC + SEC / 2);
	assert_true(host->at_ns > before);
	assert_int_equal(host_time(host, 101 * SEC), WALL + SEC);
}

/* A clock that drifts, or was wrong at first, is followed after two minutes. */
static void an_old_delay_is_forgotten(void **state)
{
	(void)state;
	take(5, 1, 100 * SEC, WALL);
	for (uint64_t s = 1; s <= 130; s++)
		take(5, 1 + s, (100 + s) * SEC, WALL + s * SEC + 3 * SEC);
	assert_int_equal(host_time(host, 230 * SEC), WALL + 133 * SEC);
}

#define CASE(f) cmocka_unit_test_teardown(f, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(each_number_once),
		CASE(a_new_run_of_the_agent),
		CASE(a_host_that_boots_is_the_same_host),
		CASE(another_hosts_name_is_forged),
		CASE(what_was_spooled_is_old),
		CASE(time_never_goes_back),
		CASE(an_old_delay_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
