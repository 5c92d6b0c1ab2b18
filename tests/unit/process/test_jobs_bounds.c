/* SPDX-License-Identifier: Apache-2.0
 *
 * test_jobs_bounds.c - single rules of which scopes are one job: long names, ties of ties, who says a world size and no
 * rank, users that share a name. Stories: test_jobs.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/hand_scopes.h"

enum { LONG = 1200 };

/* A name as long as it likes: the same place is found again, and another one that begins alike is another. */
static void long_names(void **state)
{
	char name[LONG + 1], other[LONG + 1];
	struct job_scope *a;

	(void)state;
	memset(name, 'n', LONG);
	name[LONG] = '\0';
	a = scope(name, 0, 11, "a");
	assert_ptr_equal(scope(name, 0, 11, "a"), a);
	name[800] = '\0';
	strcpy(other, name);
	other[799] = 'o';
	assert_ptr_not_equal(scope(name, 0, 11, "a"), scope(other, 0, 11, "a"));
}

/* Three of which each is tied to one other, though the sizes that they say differ: one job, whichever tie came first.
 */
static void ties_of_ties(void **state)
{
	(void)state;
	for (int order = 0; order < 6; order++) {
		static const int of[6][2][2] = {
			{ { 0, 1 }, { 1, 2 } }, { { 0, 2 }, { 2, 1 } }, { { 1, 2 }, { 2, 0 } },
			{ { 2, 1 }, { 1, 0 } }, { { 0, 2 }, { 1, 2 } }, { { 1, 0 }, { 2, 1 } }
		};
		struct job_scope *s[3];

		teardown(state);
		setup(state);
		for (int i = 0; i < 3; i++) {
			s[i] = scope(NAME, 0, 11 + i, NULL);
			lives(s[i], i, i, 3 + i);
		}
		for (int i = 0; i < 2; i++)
			tied(s[of[order][i][0]], s[of[order][i][1]]);
		settle();
		assert_true(s[0]->job == s[1]->job && s[0]->job == s[2]->job);
	}
}

/* Who says the size alone may be of any job of it: the others are one job without it, and those of another size too. */
static void a_size_without_a_rank(void **state)
{
	struct job_scope *none = scope(NAME, 0, 11, NULL), *a = scope(NAME, 0, 12, NULL), *b = scope(NAME, 0, 13, NULL),
			 *c = scope(NAME, 0, 14, NULL), *d = scope(NAME, 0, 15, NULL);

	(void)state;
	lives(none, -1, -1, 2);
	lives(none, -1, -1, 2);
	lives(c, 0, 1, 4);
	lives(a, 0, 0, 2);
	lives(d, 2, 3, 4);
	lives(b, 1, 1, 2);
	settle();
	assert_true(a->job == b->job && c->job == d->job && a->job != c->job);
}

/* Jobs of three sizes whose processes come in turn. */
static void sizes_in_turn(void **state)
{
	struct job_scope *s[3][3];

	(void)state;
	for (int i = 0; i < 9; i++) {
		int size = i % 3, rank = i / 3;

		s[size][rank] = scope(NAME, 0, 11 + i, NULL);
		lives(s[size][rank], rank, rank, 5 - size);
	}
	settle();
	for (int size = 0; size < 3; size++)
		assert_true(s[size][0]->job == s[size][1]->job && s[size][0]->job == s[size][2]->job &&
			    s[size][0]->job != s[(size + 1) % 3][0]->job);
}

static struct job_scope *of_user(uint64_t netns, uint32_t user)
{
	struct job_place at = { .netns = netns, .cgroup = "/", .user = user };
	struct job_scope *s = jobs_scope(jobs, NAME, &at);

	s->n_procs = 1;
	lives(s, 0, 1, 2);
	return s;
}

/* One user has two jobs of the name, root one: what distinguishes the two is not their user. */
static void users_of_one_name(void **state)
{
	struct job_scope *root = of_user(11, 1), *one = of_user(12, 1001), *two = of_user(13, 1001);

	(void)state;
	settle();
	assert_string_equal(root->job->shown, NAME " (user 0)");
	assert_string_not_equal(one->job->shown, two->job->shown);
	assert_null(strstr(one->job->shown, "user"));
}

static void freed_without_being(void **state)
{
	(void)state;
	jobs_free(NULL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(long_names),    TEST(ties_of_ties),      TEST(a_size_without_a_rank),
		TEST(sizes_in_turn), TEST(users_of_one_name), TEST(freed_without_being),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
