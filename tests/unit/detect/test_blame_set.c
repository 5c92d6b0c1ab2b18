/* SPDX-License-Identifier: Apache-2.0
 *
 * test_blame_set.c - a set of a thousand ranks: each once, in the order found, and no larger than it may be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/straggler/blame_set.h"

enum { RANKS = 1024 };

static struct proc procs[RANKS];
static struct member members[RANKS];
static struct op ops[2][RANKS]; /* an older and a newer one of each */

static int start(void **state)
{
	(void)state;
	for (int r = 0; r < RANKS; r++) {
		procs[r].key = 0x1000 + r * 64;
		members[r].proc = &procs[r];
		for (int i = 0; i < 2; i++) {
			ops[i][r].member = &members[r];
			ops[i][r].nth = 10 + i;
		}
	}
	return 0;
}

static void each_once(void **state)
{
	struct blame_set s = { 0 };

	(void)state;
	assert_false(blame_set_has(&s, &procs[0]));
	blame_set_begin(&s, RANKS, &ops[0][0]);
	for (int times = 0; times < 2; times++)
		for (int r = RANKS - 1; r > 0; r--)
			blame_set_add(&s, &ops[0][r]);
	assert_int_equal(s.n, RANKS);
	assert_false(s.open);
	for (int r = 0; r < RANKS; r++) {
		assert_ptr_equal(s.parts[r].proc, &procs[r ? RANKS - r : 0]);
		assert_true(blame_set_has(&s, &procs[r]));
	}
	blame_set_free(&s);
}

static void a_newer_operation_is_scanned_again(void **state)
{
	struct blame_set s = { 0 };

	(void)state;
	blame_set_begin(&s, 4, &ops[0][0]);
	blame_set_add(&s, &ops[1][1]);
	s.parts[0].scanned = s.parts[1].scanned = true;
	blame_set_add(&s, &ops[1][0]);
	blame_set_add(&s, &ops[0][1]); /* older than what is known */
	assert_int_equal(s.n, 2);
	assert_ptr_equal(s.parts[0].from, &ops[1][0]);
	assert_false(s.parts[0].scanned);
	assert_ptr_equal(s.parts[1].from, &ops[1][1]);
	assert_true(s.parts[1].scanned);
	blame_set_free(&s);
}

static void too_many_are_no_set(void **state)
{
	struct blame_set s = { 0 };

	(void)state;
	blame_set_begin(&s, RANKS / 2, &ops[0][0]);
	for (int r = 1; r < RANKS / 2; r++)
		blame_set_add(&s, &ops[0][r]);
	blame_set_add(&s, &ops[0][0]);
	assert_false(s.open);
	blame_set_add(&s, &ops[0][RANKS - 1]);
	assert_true(s.open);
	assert_int_equal(s.n, RANKS / 2);
	blame_set_begin(&s, 1, &ops[0][7]); /* used again: nothing of before is in it */
	assert_false(s.open);
	assert_int_equal(s.n, 1);
	assert_true(blame_set_has(&s, &procs[7]));
	assert_false(blame_set_has(&s, &procs[0]));
	blame_set_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(each_once, start),
		cmocka_unit_test_setup(a_newer_operation_is_scanned_again, start),
		cmocka_unit_test_setup(too_many_are_no_set, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
