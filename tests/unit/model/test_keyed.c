/* SPDX-License-Identifier: Apache-2.0
 *
 * test_keyed.c - entries by two numbers: found again, newest first, gone when they do not live.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/keyed.h"

#define MANY 10000

struct entry {
	struct keyed keyed;
	int value;
};

static struct entry *get(struct keyed_table *t, uint64_t a, uint64_t b)
{
	struct entry *e = keyed_get(t, a, b, sizeof(*e));

	assert_non_null(e);
	return e;
}

static void fill(struct keyed_table *t)
{
	for (int i = 0; i < MANY; i++) {
		struct entry *e = get(t, i % 100, i / 100);

		assert_int_equal(e->value, 0);
		e->value = i + 1;
	}
}

static void test_found_again(void **state)
{
	struct keyed_table t = { 0 };
	int expected = MANY;

	(void)state;
	assert_null(keyed_find(&t, 0, 0));
	fill(&t);
	assert_int_equal(t.n, MANY);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(get(&t, i % 100, i / 100)->value, i + 1);
	assert_int_equal(t.n, MANY);
	assert_null(keyed_find(&t, 100, 0));
	assert_null(keyed_find(&t, 0, 100));
	for (struct entry *e = t.all; e; e = e->keyed.next)
		assert_int_equal(e->value, expected--);
	assert_int_equal(expected, 0);
	keyed_free(&t);
	assert_null(t.all);
	assert_null(keyed_find(&t, 0, 0));
	assert_int_equal(get(&t, 0, 0)->value, 0); /* usable as at first */
	keyed_free(&t);
}

static bool is_third(void *entry, const void *arg)
{
	struct entry *e = entry;

	e->value += *(const int *)arg;
	return e->value % 3 == 0;
}

static void test_only_the_living_are_kept(void **state)
{
	struct keyed_table t = { 0 };
	const int add = 1;
	size_t n = 0;

	(void)state;
	fill(&t);
	keyed_keep(&t, is_third, &add);
	for (int i = 0; i < MANY; i++) {
		const struct entry *e = keyed_find(&t, i % 100, i / 100);

		assert_int_equal(e != NULL, (i + 2) % 3 == 0);
		n += e != NULL;
	}
	assert_int_equal(t.n, n);
	for (const struct entry *e = t.all; e; e = e->keyed.next)
		n--;
	assert_int_equal(n, 0);
	assert_int_equal(get(&t, 0, 0)->value, 0); /* made anew */
	keyed_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found_again),
		cmocka_unit_test(test_only_the_living_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
