/* SPDX-License-Identifier: Apache-2.0
 *
 * test_incident_mark.c - what people said of incidents: kept, read again, over when it is over, whatever it holds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hub/mark/incident_mark.h"
#include "tests/unit/cluster/memory_bus.h"

#define NOW 1790000000u
#define ID "hub-train-20260921-141401-39b9f710"
#define FINGERPRINT "0x00c0ffee00c0ffee"

static struct bus *bus;
static struct incident_mark mark;

static int begin(void **state)
{
	(void)state;
	memory_bus_begin();
	bus = &memory_bus.base;
	return 0;
}

static int end(void **state)
{
	(void)state;
	memory_bus_end();
	return 0;
}

static void write_mark(enum mark_kind kind, const char *of, uint64_t until_s)
{
	struct incident_mark m = { .by = "alice@node-1", .note = "a \"bad\" cable", .at_s = NOW, .until_s = until_s };

	assert_int_equal(incident_mark_write(bus, kind, of, &m), 0);
}

static void read_mark(enum mark_kind kind, const char *of, uint64_t now_s)
{
	assert_int_equal(incident_mark_read(bus, kind, of, now_s, &mark), 0);
}

static void none_is_zero(void **state)
{
	(void)state;
	read_mark(MARK_ACKNOWLEDGED, ID, NOW);
	assert_int_equal(mark.at_s, 0);
	assert_string_equal(mark.by, "");
}

static void what_was_said_comes_back(void **state)
{
	(void)state;
	write_mark(MARK_ACKNOWLEDGED, ID, 0);
	read_mark(MARK_ACKNOWLEDGED, ID, NOW + 86400);
	assert_int_equal(mark.at_s, NOW);
	assert_string_equal(mark.by, "alice@node-1");
	assert_string_equal(mark.note, "a \"bad\" cable");
	read_mark(MARK_SILENCED, ID, NOW);
	assert_int_equal(mark.at_s, 0);
	read_mark(MARK_ACKNOWLEDGED, "hub-train-20260921-141401-other", NOW);
	assert_int_equal(mark.at_s, 0);
}

static void a_silence_ends(void **state)
{
	(void)state;
	write_mark(MARK_SILENCED, FINGERPRINT, NOW + 60);
	read_mark(MARK_SILENCED, FINGERPRINT, NOW + 59);
	assert_int_equal(mark.until_s, NOW + 60);
	read_mark(MARK_SILENCED, FINGERPRINT, NOW + 60);
	assert_int_equal(mark.at_s, 0);
}

static void a_later_word_takes_the_place_of_an_earlier(void **state)
{
	(void)state;
	write_mark(MARK_SILENCED, FINGERPRINT, NOW + 3600);
	write_mark(MARK_SILENCED, FINGERPRINT, NOW);
	read_mark(MARK_SILENCED, FINGERPRINT, NOW + 1);
	assert_int_equal(mark.at_s, 0);
}

/* Who may write marks may write anything. */
static void what_is_no_mark_is_none(void **state)
{
	static const char *const bad[] = { "", "{", "[]", "{\"at\":-1,\"by\":7}", "{\"at\":1e300}", "{\"at\":\"1\"}" };
	uint64_t revision = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		write_mark(MARK_ACKNOWLEDGED, ID, 0);
		revision = memory_bus.values[0].revision;
		assert_int_equal(
			bus->class->table_write(bus, BUS_MARKS, memory_bus.values[0].key, bad[i], revision, &revision),
			0);
		read_mark(MARK_ACKNOWLEDGED, ID, NOW);
		assert_int_equal(mark.at_s, 0);
		assert_string_equal(mark.by, "");
	}
}

static void without_a_bus_it_is_an_error(void **state)
{
	struct incident_mark m = { .at_s = NOW };

	(void)state;
	memory_bus.away = true;
	assert_int_not_equal(incident_mark_read(bus, MARK_ACKNOWLEDGED, ID, NOW, &mark), 0);
	assert_int_not_equal(incident_mark_write(bus, MARK_ACKNOWLEDGED, ID, &m), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(none_is_zero),
		CASE(what_was_said_comes_back),
		CASE(a_silence_ends),
		CASE(a_later_word_takes_the_place_of_an_earlier),
		CASE(what_is_no_mark_is_none),
		CASE(without_a_bus_it_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
