// SPDX-License-Identifier: Apache-2.0
/* long_work.c: a turn whose detectors are overdue is broken off behind the part that made it so, the next one ends it
 * though they are overdue again, and nothing is run twice. How late it is, the grid says: no test here waits. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "session/parts/long_work.h"

#define HOUR_NS 3600000000000ull

struct work {
	struct laps laps;
	struct tick_grid ticks;
	unsigned int next;
	char late_in, fails_in; /* the part that takes until the detectors are overdue; that fails */
	char ran[16];           /* in this turn, in their order */
};

static int part(struct work *w, char name, uint64_t now_ns)
{
	w->ran[strlen(w->ran)] = name;
	assert_int_equal(now_ns, w->laps.at_ns);
	if (name == w->late_in)
		tick_grid_begin(&w->ticks, 0, 0);
	return name == w->fails_in ? -ENOMEM : 0;
}

static int attach(void *of, uint64_t now_ns)
{
	return part(of, 'a', now_ns);
}

static int scan(void *of, uint64_t now_ns)
{
	return part(of, 'b', now_ns);
}

static int sample(void *of, uint64_t now_ns)
{
	return part(of, 'c', now_ns);
}

static const struct long_part parts[] = { { attach, LAP_TARGETS }, { scan, LAP_SCAN }, { sample, LAP_SAMPLERS } };

/* The parts of one turn, which begins with its detectors due in an hour, or overdue. */
static const char *turn(struct work *w, bool overdue)
{
	memset(w->ran, 0, sizeof(w->ran));
	laps_add(&w->laps, LAP_IDLE);
	tick_grid_begin(&w->ticks, overdue ? 0 : HOUR_NS, overdue ? 0 : w->laps.at_ns);
	assert_int_equal(long_work_run(parts, 3, &w->next, &w->laps, &w->ticks, w), w->fails_in ? -ENOMEM : 0);
	return w->ran;
}

static void all_of_it_where_there_is_time(void **state)
{
	struct work w = { 0 };

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_string_equal(turn(&w, false), "abc");
}

static void broken_off_behind_what_took_long(void **state)
{
	struct work w = { .late_in = 'a' };

	(void)state;
	assert_string_equal(turn(&w, false), "a");
	w.late_in = 0;
	assert_string_equal(turn(&w, false), "bc");
	w.late_in = 'b';
	assert_string_equal(turn(&w, false), "ab");
	assert_string_equal(turn(&w, false), "c");
	w.late_in = 'c';
	assert_string_equal(turn(&w, false), "abc");
	assert_string_equal(turn(&w, false), "abc");
}

/* The host is always late: all of it in two turns, not in three. */
static void the_next_turn_ends_it_however_late(void **state)
{
	struct work w = { 0 };

	(void)state;
	for (int i = 0; i < 4; i++) {
		assert_string_equal(turn(&w, true), "a");
		assert_string_equal(turn(&w, true), "bc");
	}
	w.late_in = 'b';
	assert_string_equal(turn(&w, true), "a");
	assert_string_equal(turn(&w, false), "bc");
	assert_string_equal(turn(&w, false), "ab");
}

static void an_error_ends_the_turn(void **state)
{
	struct work w = { .fails_in = 'b' };

	(void)state;
	assert_string_equal(turn(&w, false), "ab");
}

/* What a part took is its own. */
static void time_goes_to_the_part(void **state)
{
	struct work w = { .late_in = 'b' };
	uint64_t begin_ns = clock_monotonic_ns(), sum_ns = 0;

	(void)state;
	turn(&w, false);
	assert_int_equal(w.laps.ns[LAP_SAMPLERS], 0);
	turn(&w, false);
	for (int i = 0; i < LAPS; i++)
		sum_ns += w.laps.ns[i];
	assert_true(w.laps.ns[LAP_TARGETS] && w.laps.ns[LAP_SCAN] && w.laps.ns[LAP_SAMPLERS]);
	assert_in_range(sum_ns, 1, clock_monotonic_ns() - begin_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_it_where_there_is_time),
		cmocka_unit_test(broken_off_behind_what_took_long),
		cmocka_unit_test(the_next_turn_ends_it_however_late),
		cmocka_unit_test(an_error_ends_the_turn),
		cmocka_unit_test(time_goes_to_the_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
