// SPDX-License-Identifier: Apache-2.0
/* test_intern.c - one copy of each string, and never more memory than the limit: what came before it stays known, and
 * what one owner, or one kind, fills leaves room for others; what nothing refers to is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/intern.h"

static void test_one_copy_each(void **state)
{
	struct intern *t = intern_new();
	char a[] = "rank", b[] = "rank";

	(void)state;
	assert_ptr_equal(intern(t, a), intern(t, b));
	assert_ptr_equal(intern(t, a), intern_bytes(t, "ranks", 4));
	assert_ptr_equal(intern(t, a), intern_bytes(t, "rank\0s", 6));
	assert_string_equal(intern(t, NULL), "");
	assert_ptr_not_equal(intern(t, a), a);
	intern_free(t);
}

static char text[4096];

/* Texts of 4 KB, all of them other ones: how many found room. */
static size_t fill(struct intern *t, const char *of, size_t n)
{
	size_t kept = 0;

	memset(text, 'x', sizeof(text) - 1);
	for (size_t i = 0; i < n; i++) {
		int len = snprintf(text, 32, "%s %zu", of, i);

		text[len] = 'x';
		kept += !intern_refused(intern(t, text));
	}
	return kept;
}

#define TEXTS_ALL (INTERN_TEXTS_MAX / sizeof(text))
#define TEXTS_FIRST (INTERN_OWNER_FIRST / sizeof(text))
#define NAMES_ALL (INTERN_NAMES_MAX / sizeof(text))

static void test_memory_ends_at_the_limit(void **state)
{
	struct intern *t = intern_new();
	const char *first = intern(t, "the first");

	(void)state;
	assert_in_range(fill(t, "a", 3 * TEXTS_ALL), TEXTS_ALL * 27 / 80, TEXTS_ALL * 3 / 8 + TEXTS_FIRST);
	assert_ptr_equal(intern(t, "the first"), first);
	assert_true(intern_n_refused(t, INTERN_TEXTS) > TEXTS_ALL);
	assert_int_equal(intern_n_refused(t, INTERN_NAMES), 0);
	intern_free(t);
}

/* An empty text, which no key takes for a text that two have. */
static void test_what_is_refused_is_empty(void **state)
{
	struct intern *t = intern_new();

	(void)state;
	fill(t, "a", TEXTS_ALL);
	assert_string_equal(intern(t, text), "");
	assert_true(intern_refused(intern(t, text)));
	assert_false(intern_refused(intern(t, "")) || intern_refused(intern(t, NULL)));
	intern_free(t);
}

static void test_texts_leave_room_for_names(void **state)
{
	struct intern *t = intern_new();

	(void)state;
	fill(t, "a", 2 * TEXTS_ALL);
	intern_names_begin(t, 1);
	assert_in_range(fill(t, "b", 3 * NAMES_ALL), NAMES_ALL * 27 / 80, NAMES_ALL * 3 / 8 + TEXTS_FIRST);
	intern_names_end(t);
	assert_true(intern_refused(intern(t, "one more")) == false); /* small: it fits in what is free */
	assert_true(intern_n_refused(t, INTERN_NAMES) > 0);
	intern_free(t);
}

static uint64_t owner;

static uint64_t owner_now(void *of)
{
	return *(const uint64_t *)of;
}

/* A hundred owners that take all they get, each at most three eighths of what is left: the next one gets some. */
static void test_each_owner_finds_room(void **state)
{
	struct intern *t = intern_new();
	char of[16];

	(void)state;
	intern_set_owner(t, owner_now, &owner);
	for (owner = 1; owner <= 100; owner++) {
		snprintf(of, sizeof(of), "%u", (unsigned int)owner);
		fill(t, of, owner > 1 ? TEXTS_ALL / 4 : TEXTS_ALL);
		intern_names_begin(t, owner);
		snprintf(of, sizeof(of), "name %u", (unsigned int)owner);
		fill(t, of, owner > 1 ? NAMES_ALL / 4 : NAMES_ALL);
		intern_names_end(t);
	}
	owner = 1000;
	assert_true(fill(t, "late", TEXTS_FIRST) >= TEXTS_FIRST * 9 / 10);
	intern_names_begin(t, owner);
	assert_true(fill(t, "late name", TEXTS_FIRST) >= TEXTS_FIRST * 9 / 10);
	intern_free(t);
}

/* Steps of Slurm with eight tasks each, until one finds no room. */
static int steps_named(struct intern *t, uint64_t user, int job)
{
	int n = 0;

	for (bool refused = false; !refused; n++) {
		intern_names_begin(t, user);
		snprintf(text, sizeof(text), "slurm-%d.0", job + n);
		refused = intern_refused(intern(t, text));
		snprintf(text, sizeof(text), "%d", job + n);
		refused |= intern_refused(intern(t, text));
		for (int task = 0; task < 8; task++) {
			snprintf(text, sizeof(text), "/system.slice/slurmstepd.scope/job_%d/step_0/user/task_%d",
				 job + n, task);
			refused |= intern_refused(intern(t, text));
		}
		intern_names_end(t);
	}
	return n;
}

/* At once, of a host whose jobs are all of one user; then another one has some, and the next. */
static void test_one_user_alone_has_most(void **state)
{
	struct intern *t = intern_new();

	(void)state;
	assert_true(steps_named(t, 1001, 100000) > 15000);
	assert_true(steps_named(t, 1002, 500000) > 3500);
	assert_true(steps_named(t, 1003, 700000) > 150);
	intern_free(t);
}

static void test_what_is_held_stays(void **state)
{
	struct intern *t = intern_new();
	const char *a = intern(t, "a"), *b = intern(t, "b"), *kept;
	size_t bytes = intern_bytes_kept(t);

	(void)state;
	assert_int_equal(intern_came(t), bytes);
	intern_hold(t, b);
	intern_hold(t, NULL);
	intern_hold(t, "");
	intern_hold(t, intern_none);
	intern_hold(t, "none of its texts");
	assert_true(intern_give_back(t) == bytes / 2);
	assert_int_equal(intern_came(t), 0);
	assert_ptr_equal(intern(t, "b"), b);
	assert_int_equal(intern_came(t), 0);
	kept = intern(t, "a"); /* new: where it lies is any place */
	assert_string_equal(kept, "a");
	assert_int_equal(intern_bytes_kept(t), bytes);
	intern_hold(t, a == kept ? a : kept); /* it was held once: that does not last */
	assert_true(intern_give_back(t) == bytes / 2);
	assert_int_equal(intern_give_back(t), bytes / 2);
	assert_int_equal(intern_bytes_kept(t), 0);
	intern_free(t);
}

/* Of those that are full each gets its own room back: all that it had, and no more than it gave. */
static void test_room_comes_back(void **state)
{
	struct intern *t = intern_new();
	size_t first[3], again;
	char of[16];

	(void)state;
	intern_set_owner(t, owner_now, &owner);
	for (int round = 0; round < 4; round++) {
		for (owner = 0; owner < 3; owner++) {
			snprintf(of, sizeof(of), "%d of %u", round, (unsigned int)owner);
			again = fill(t, of, TEXTS_ALL);
			first[owner] = round ? first[owner] : again;
			assert_int_equal(again, first[owner]);
			intern_names_begin(t, owner);
			fill(t, of, 100); /* the same texts as names: they are there */
			intern_names_end(t);
		}
		assert_true(intern_bytes_kept(t) <= INTERN_TEXTS_MAX);
		intern_give_back(t);
		assert_int_equal(intern_bytes_kept(t), 0);
	}
	intern_free(t);
}

/* One that holds all it has gets nothing more by that others' texts go; those get theirs. */
static void test_who_holds_gets_no_more(void **state)
{
	struct intern *t = intern_new();
	const char **held = calloc(TEXTS_ALL, sizeof(*held));
	size_t n = 0, mine;

	(void)state;
	intern_set_owner(t, owner_now, &owner);
	owner = 1;
	for (mine = 0; mine < TEXTS_ALL; mine++) {
		memset(text, 'x', sizeof(text) - 1);
		text[snprintf(text, 32, "mine %zu", mine)] = 'x';
		held[n] = intern(t, text);
		if (intern_refused(held[n]))
			break;
		n++;
	}
	for (int round = 0; round < 3; round++) {
		owner = 2;
		assert_true(fill(t, "other", TEXTS_ALL) >= TEXTS_FIRST);
		for (size_t i = 0; i < n; i++)
			intern_hold(t, held[i]);
		intern_give_back(t);
		owner = 1;
		snprintf(text, sizeof(text), "one more %d", round);
		memset(text + strlen(text), 'x', sizeof(text) - 1 - strlen(text));
		assert_true(intern_refused(intern(t, text)));
	}
	assert_memory_equal(held[0], "mine 0x", 7);
	free(held);
	intern_free(t);
}

/* All that came stay apart while the set grows, and are found again. */
static void test_many_are_found_again(void **state)
{
	enum { MANY = 100000 };
	struct intern *t = intern_new();
	const char **kept = calloc(MANY, sizeof(*kept));

	(void)state;
	for (int again = 0; again < 2; again++)
		for (int i = 0; i < MANY; i++) {
			snprintf(text, sizeof(text), "%x", i);
			kept[i] = again ? kept[i] : intern(t, text);
			assert_ptr_equal(intern_bytes(t, text, sizeof(text)), kept[i]);
			assert_string_equal(kept[i], text);
		}
	free(kept);
	intern_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_copy_each),
		cmocka_unit_test(test_memory_ends_at_the_limit),
		cmocka_unit_test(test_what_is_refused_is_empty),
		cmocka_unit_test(test_texts_leave_room_for_names),
		cmocka_unit_test(test_each_owner_finds_room),
		cmocka_unit_test(test_one_user_alone_has_most),
		cmocka_unit_test(test_what_is_held_stays),
		cmocka_unit_test(test_room_comes_back),
		cmocka_unit_test(test_who_holds_gets_no_more),
		cmocka_unit_test(test_many_are_found_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
