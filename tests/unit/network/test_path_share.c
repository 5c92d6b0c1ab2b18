/* SPDX-License-Identifier: Apache-2.0
 *
 * test_path_share.c - for how large a share of the samples something is on its way from rank to rank, and how sure two
 * shares differ.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/transfer/path_share.h"
#include "tests/unit/job/proxy_parts.h"

#define SEC 1000000000ull
#define RANKS 3

static struct proxy_part parts[RANKS][4];
static struct member members[RANKS], *by_rank[RANKS];
static struct comm comm, other;
static struct proc proc;
static struct model m;
static struct paths paths;
static uint64_t now;

static int setup(void **state)
{
	(void)state;
	now = 100 * SEC;
	comm = (struct comm){ .nranks = RANKS, .by_rank = by_rank, .members = &members[0] };
	m = (struct model){ .comms = &comm };
	paths = (struct paths){ 0 };
	for (int r = 0; r < RANKS; r++) {
		by_rank[r] = &members[r];
		members[r] = (struct member){ .comm = &comm,
					      .proc = &proc,
					      .rank = r,
					      .proxies.parts = parts[r],
					      .next_in_comm = r + 1 < RANKS ? &members[r + 1] : NULL };
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	paths_free(&paths);
	return 0;
}

/* The next sample of rank 0: what it sends to rank `to`, so many steps handed over, so many of them through. */
static void sends(int to, uint64_t transmitted, uint64_t done)
{
	now += SEC;
	members[0].proxies.seen_ns = now;
	members[0].proxies.n = 1;
	parts[0][0] = sending(8, transmitted, done);
	parts[0][0].peer = to;
	assert_int_equal(paths_take(&paths, &comm), 0);
}

static const struct path *path(int from, int to)
{
	struct path *p = paths.paths.all;

	while (p && (p->from != &members[from] || p->to != &members[to]))
		p = p->keyed.next;
	return p;
}

static void a_share_is_of_samples(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++)
		sends(1, 4, i % 4 ? 4 : 3);
	assert_non_null(path(0, 1));
	assert_int_equal(path_samples(path(0, 1), now).n, 8);
	assert_int_equal(path_samples(path(0, 1), now).busy, 2);
	assert_true(path_share(path(0, 1), now, 8) == 0.25);
	assert_true(path_share(path(0, 1), now, 9) == -1);
	assert_null(path(0, 2));
	assert_null(path(1, 0));
}

static void one_sample_counts_once(void **state)
{
	(void)state;
	sends(1, 4, 3);
	assert_int_equal(paths_take(&paths, &comm), 0);
	assert_int_equal(path_samples(path(0, 1), now).n, 1);
}

/* At that sample the path was idle. */
static void a_sample_without_the_peer_counts(void **state)
{
	(void)state;
	sends(1, 4, 3);
	sends(2, 4, 3);
	assert_true(path_share(path(0, 1), now, 1) == 0.5);
	assert_true(path_share(path(0, 2), now, 1) == 1);
}

static void only_twelve_seconds_count(void **state)
{
	(void)state;
	sends(1, 4, 3);
	for (int i = 0; i < 12; i++)
		sends(1, 4, 4);
	assert_true(path_share(path(0, 1), now, 1) == 1 / 13.0);
	assert_true(path_share(path(0, 1), now + 1, 1) == 0);
	assert_true(path_share(path(0, 1), now + 60 * SEC, 0) == -1);
}

static void what_is_no_path_is_none(void **state)
{
	(void)state;
	sends(0, 4, 3);     /* to itself */
	sends(RANKS, 4, 3); /* to nobody */
	sends(-1, 4, 3);
	by_rank[1] = NULL;
	sends(1, 4, 3); /* to one on another host that is not seen */
	assert_null(paths.paths.all);
	by_rank[1] = &members[1];
	members[0].gone = true;
	sends(1, 4, 3);
	assert_null(paths.paths.all);
	members[0].gone = false;
	parts[0][0].flags = 0;
	assert_int_equal(paths_take(&paths, &comm), 0);
	assert_null(paths.paths.all);
	sends(1, 4, 3);
	assert_non_null(paths.paths.all);
}

static void another_communicator_takes_no_sample(void **state)
{
	(void)state;
	sends(1, 4, 3);
	now += SEC;
	members[0].proxies.seen_ns = now;
	other = (struct comm){ .nranks = RANKS, .by_rank = by_rank };
	assert_int_equal(paths_take(&paths, &other), 0);
	assert_int_equal(path_samples(path(0, 1), now).n, 1);
}

/* Of members that are sampled one at a time only those with a newer sample count. */
static void who_is_not_sampled_holds_nobody_up(void **state)
{
	(void)state;
	sends(1, 4, 3);
	members[1].proxies.seen_ns = now;
	members[1].proxies.n = 1;
	parts[1][0] = sending(8, 4, 3);
	parts[1][0].peer = 2;
	sends(1, 4, 4);
	assert_ptr_equal(paths_of(&paths, &comm), path(1, 2)); /* asked first */
	sends(1, 4, 4);
	members[1].gone = true;
	sends(1, 4, 4);
	assert_int_equal(path_samples(path(1, 2), now).n, 1);
	assert_int_equal(path_samples(path(0, 1), now).n, 4);
}

static void a_path_ends_with_its_ends(void **state)
{
	(void)state;
	sends(1, 4, 3);
	sends(2, 4, 3);
	paths_forget(&paths, &m);
	assert_true(path(0, 1) && path(0, 2));
	members[2].gone = true;
	paths_forget(&paths, &m);
	assert_true(path(0, 1) && !path(0, 2));
	m.comms = NULL;
	paths_forget(&paths, &m);
	assert_null(paths.paths.all);
}

/* A job of ten thousand ranks, each on a ring and half of them in a communicator of their own. */
static void ten_thousand_paths(void **state)
{
	enum { MANY = 10240 };
	static struct member all[MANY], *of[MANY];
	static struct proxy_part one[MANY];
	int n = 0;

	(void)state;
	comm = (struct comm){ .nranks = MANY, .by_rank = of, .members = &all[0] };
	for (int r = 0; r < MANY; r++) {
		one[r] = sending(8, 4, 3);
		one[r].peer = (r + 1) % MANY;
		of[r] = &all[r];
		all[r] = (struct member){ .comm = &comm,
					  .proc = &proc,
					  .rank = r,
					  .proxies = { .parts = &one[r], .n = 1, .seen_ns = now },
					  .next_in_comm = r + 1 < MANY ? &all[r + 1] : NULL };
	}
	assert_int_equal(paths_take(&paths, &comm), 0);
	paths_forget(&paths, &m);
	assert_int_equal(paths.paths.n, MANY);
	assert_ptr_equal(paths_of(&paths, &comm), paths.paths.all);
	all[7].gone = true;
	paths_forget(&paths, &m); /* its own, and the one to it */
	assert_int_equal(paths.paths.n, MANY - 2);
	for (const struct path *p = paths_of(&paths, &comm), *other = paths.paths.all; p; p = p->next) {
		assert_ptr_equal(p, other);
		assert_true(p->from != &all[7] && p->to != &all[7]);
		other = other->keyed.next;
		n++;
	}
	assert_int_equal(n, MANY - 2);
	all[7].gone = false;
	assert_int_equal(paths_take(&paths, &comm), 0);
	assert_int_equal(paths.paths.n, MANY);
	assert_ptr_equal(paths_of(&paths, &comm), paths.paths.all); /* the newest */
	assert_null(paths_of(&paths, &other));
}

static bool near(double a, double b)
{
	return fabs(a - b) < 0.01;
}

/* Twice the logarithm of the ratio of likelihoods, worked out by hand. */
static void how_sure_two_shares_differ(void **state)
{
	struct path_samples half = { 100, 50 }, most = { 100, 90 }, few = { 100, 10 }, all = { 10, 10 },
			    none = { 10, 0 };

	(void)state;
	assert_true(near(path_samples_differ(half, half), 0));
	assert_true(near(path_samples_differ(all, all), 0));
	assert_true(near(path_samples_differ(most, few), 147.23));
	assert_true(near(path_samples_differ(few, most), 147.23));
	assert_true(near(path_samples_differ(all, none), 27.73));
	assert_true(near(path_samples_differ((struct path_samples){ 20, 12 }, (struct path_samples){ 40, 16 }), 2.15));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_share_is_of_samples),
		TEST(one_sample_counts_once),
		TEST(a_sample_without_the_peer_counts),
		TEST(only_twelve_seconds_count),
		TEST(what_is_no_path_is_none),
		TEST(another_communicator_takes_no_sample),
		TEST(who_is_not_sampled_holds_nobody_up),
		TEST(a_path_ends_with_its_ends),
		TEST(ten_thousand_paths),
		TEST(how_sure_two_shares_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
