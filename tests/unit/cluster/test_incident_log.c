/* SPDX-License-Identifier: Apache-2.0
 *
 * test_incident_log.c - two hubs and one job: leases and what is written into its log. No entry is lost, none is there
 * twice, and who has lost the job can write no more.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hub/incident_log.h"
#include "hub/lease.h"
#include "tests/unit/cluster/memory_bus.h"

#define SEC 1000000000ull

static struct lease lease_a, lease_b;
static struct incident_log log_a, log_b;

static int begin(void **state)
{
	(void)state;
	memory_bus_begin();
	lease_a = lease_b = (struct lease){ .token = "job" };
	log_a = (struct incident_log){ .token = "job", .hub = "a" };
	log_b = (struct incident_log){ .token = "job", .hub = "b" };
	return 0;
}

static int end(void **state)
{
	(void)state;
	incident_log_free(&log_a);
	incident_log_free(&log_b);
	memory_bus_end();
	return 0;
}

static enum lease_change a_turn(uint64_t ns)
{
	return lease_turn(&lease_a, &memory_bus.base, "a", ns);
}

static enum lease_change b_turn(uint64_t ns)
{
	return lease_turn(&lease_b, &memory_bus.base, "b", ns);
}

static int a_append(uint64_t key, const char *id, bool closes, const char *line)
{
	return incident_log_append(&log_a, &memory_bus.base, key, id, closes, line);
}

/* --- leases --- */

static void one_has_it_and_renews(void **state)
{
	(void)state;
	assert_int_equal(a_turn(SEC), LEASE_TAKEN);
	for (uint64_t s = 2; s < 60; s++) {
		assert_int_equal(a_turn(s * SEC), LEASE_SAME);
		assert_int_equal(b_turn(s * SEC + 1000 * SEC), LEASE_SAME); /* its clock is another */
	}
	assert_true(lease_a.mine && !lease_b.mine);
}

static void who_does_not_renew_loses_it(void **state)
{
	uint64_t s = 1;

	(void)state;
	a_turn(SEC);
	while (b_turn(s * SEC) != LEASE_TAKEN)
		s++;
	assert_in_range(s, 7, 9);
	assert_int_equal(a_turn(s * SEC), LEASE_LOST); /* it goes on after a stop */
	assert_false(lease_a.mine);
	assert_int_equal(a_turn((s + 1) * SEC), LEASE_SAME);
}

static void what_is_given_up_is_taken_at_once(void **state)
{
	(void)state;
	a_turn(SEC);
	assert_int_equal(b_turn(SEC), LEASE_SAME);
	lease_give_up(&lease_a, &memory_bus.base);
	assert_int_equal(b_turn(2 * SEC), LEASE_TAKEN);
}

/* Of two replicas one is behind, and both answer in turn. */
static void an_old_answer_is_no_renewal(void **state)
{
	uint64_t s = 1;

	(void)state;
	a_turn(SEC);
	a_turn(4 * SEC);
	memory_bus.is_behind = true;
	while (b_turn(s * SEC) != LEASE_TAKEN && s < 100)
		s++;
	assert_in_range(s, 7, 10);
	memory_bus.is_behind = false;
	for (; s < 30; s++) {
		assert_int_equal(b_turn(s * SEC), LEASE_SAME);
		a_turn(s * SEC);
	}
	assert_true(lease_b.mine && !lease_a.mine);
}

/* Its revisions begin anew: the newest that was known is nobody's. */
static void a_table_that_is_made_anew(void **state)
{
	uint64_t s;

	(void)state;
	for (s = 1; s < 20; s++) {
		a_turn(s * SEC);
		b_turn(s * SEC);
	}
	memset(memory_bus.values, 0, sizeof(memory_bus.values));
	lease_a.mine = false;
	lease_a.revision = lease_a.changed_ns = 0;
	assert_int_equal(a_turn(21 * SEC), LEASE_TAKEN);
	for (s = 22; b_turn(s * SEC) != LEASE_TAKEN && s < 100; s++)
		;
	assert_in_range(s, 27, 36);
}

/* A bus that answers and lets nobody write: since when is known, for people. */
static void what_is_refused_is_known(void **state)
{
	(void)state;
	a_turn(SEC);
	assert_int_equal(b_turn(SEC), LEASE_SAME);
	assert_int_equal(lease_b.refused_ns, 0);
	memory_bus.away = true;
	b_turn(3 * SEC);
	b_turn(5 * SEC);
	assert_int_equal(lease_b.refused_ns, 3 * SEC);
	assert_int_equal(lease_b.err, -ENOTCONN);
	memory_bus.away = false;
	b_turn(7 * SEC);
	assert_int_equal(lease_b.refused_ns, 0);
}

/* Who cannot renew for so long as others wait may have lost it, and does not know. */
static void a_bus_that_is_away_ends_it(void **state)
{
	uint64_t s = 2;

	(void)state;
	a_turn(SEC);
	memory_bus.away = true;
	while (a_turn(s * SEC) != LEASE_LOST)
		s++;
	assert_in_range(s, 7, 10);
	assert_int_equal(lease_a.revision, 1); /* what is refused is not written */
}

/* --- the log --- */

static void the_next_one_goes_on(void **state)
{
	const struct logged *l;

	(void)state;
	assert_int_equal(incident_log_take(&log_a, &memory_bus.base), 0);
	assert_int_equal(a_append(1, "one", false, "{\"id\":\"one\",\"phase\":\"open\"}"), 0);
	assert_int_equal(a_append(2, "two", false, "{\"id\":\"two\"}"), 0);
	assert_int_equal(a_append(2, "two", true, "{\"id\":\"two\"}"), 0);
	assert_int_equal(incident_log_take(&log_b, &memory_bus.base), 0);
	l = incident_log_find(&log_b, 1);
	assert_non_null(l);
	assert_string_equal(l->id, "one");
	assert_null(incident_log_find(&log_b, 2));
	assert_int_equal(incident_log_close(&log_b, &memory_bus.base, l), 0);
	assert_non_null(strstr(memory_bus.log[memory_bus.n_log - 1], "\"phase\":\"close\""));
	assert_null(log_b.open);
}

/* It was stopped past its lease, and goes on in the middle of a write. */
static void who_lost_it_writes_no_more(void **state)
{
	uint64_t n;

	(void)state;
	incident_log_take(&log_a, &memory_bus.base);
	a_append(1, "one", false, "{\"id\":\"one\"}");
	incident_log_take(&log_b, &memory_bus.base);
	n = memory_bus.n_log;
	assert_int_equal(a_append(1, "one", true, "{\"id\":\"one\"}"), -ESTALE);
	assert_int_equal(memory_bus.n_log, n);
	assert_int_equal(incident_log_append(&log_b, &memory_bus.base, 1, "one", false, "{}"), 0);
}

/* Stored, and no answer came: the next try finds it. */
static void an_answer_that_is_lost_doubles_nothing(void **state)
{
	(void)state;
	incident_log_take(&log_a, &memory_bus.base);
	memory_bus.answers_lost = 1;
	assert_int_equal(a_append(1, "one", false, "{\"id\":\"one\"}"), -ETIMEDOUT);
	assert_int_equal(a_append(1, "one", false, "{\"id\":\"one\"}"), 0);
	assert_int_equal(memory_bus_count("\"one\""), 1);
	assert_non_null(incident_log_find(&log_a, 1));
	assert_int_equal(a_append(1, "one", true, "{\"id\":\"one\"}"), 0);
}

static void a_write_that_is_lost_is_made_again(void **state)
{
	(void)state;
	incident_log_take(&log_a, &memory_bus.base);
	memory_bus.appends_lost = 2;
	assert_int_equal(a_append(1, "one", false, "{\"id\":\"one\"}"), -ETIMEDOUT);
	assert_int_equal(a_append(1, "one", false, "{\"id\":\"one\"}"), -ETIMEDOUT);
	assert_int_equal(a_append(1, "one", false, "{\"id\":\"one\"}"), 0);
	assert_int_equal(memory_bus_count("\"one\""), 1);
}

/* No answer, and then another hub has the job: that it may have been ours changes nothing. */
static void a_lost_answer_hides_no_takeover(void **state)
{
	(void)state;
	incident_log_take(&log_a, &memory_bus.base);
	memory_bus.answers_lost = 1;
	a_append(1, "one", false, "{\"id\":\"one\"}");
	incident_log_take(&log_b, &memory_bus.base);
	assert_int_equal(a_append(1, "one", false, "{\"id\":\"one\"}"), -ESTALE);
	assert_string_equal(incident_log_find(&log_b, 1)->id, "one");
}

static void entries_that_are_none(void **state)
{
	static const char *const bad[] = { "", "{", "[]", "{\"hub\":7}", "{\"n\":1}", "{\"incident\":{\"id\":1}}" };
	struct log_entry e;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_false(log_entry_parse(bad[i], strlen(bad[i]), &e));
		assert_null(e.line);
	}
	assert_true(log_entry_parse("{\"hub\":\"a\",\"takes_over\":true}", 30, &e));
	assert_false(e.is_incident);
	log_entry_free(&e);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(one_has_it_and_renews),
		CASE(who_does_not_renew_loses_it),
		CASE(an_old_answer_is_no_renewal),
		CASE(a_table_that_is_made_anew),
		CASE(what_is_refused_is_known),
		CASE(what_is_given_up_is_taken_at_once),
		CASE(a_bus_that_is_away_ends_it),
		CASE(the_next_one_goes_on),
		CASE(who_lost_it_writes_no_more),
		CASE(an_answer_that_is_lost_doubles_nothing),
		CASE(a_write_that_is_lost_is_made_again),
		CASE(a_lost_answer_hides_no_takeover),
		CASE(entries_that_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
