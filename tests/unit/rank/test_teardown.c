/* SPDX-License-Identifier: Apache-2.0
 *
 * test_teardown.c - is the death of a rank a fault, or the end of its job? By who else died, when, and who asked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/rank/teardown.h"

#define SEC 1000000000ull
#define RANKS 8
#define DIED_NS (1000 * SEC)
#define FLOOR_NS (2 * SEC)

static struct job_id job = { .name = "job" }, other_job = { .name = "job" };
static struct node node;
static struct proc ranks[RANKS];
static struct model m;

static int setup(void **state)
{
	(void)state;
	for (int r = 0; r < RANKS; r++)
		ranks[r] = (struct proc){ .rank = r,
					  .world_size = RANKS,
					  .node = &node,
					  .job = &job,
					  .next = r + 1 < RANKS ? &ranks[r + 1] : NULL };
	m = (struct model){ .procs = ranks, .hang_floor_ns = FLOOR_NS };
	return 0;
}

static void dies(int rank, uint64_t ns, int signal)
{
	ranks[rank].dead = true;
	ranks[rank].exit_ns = ns;
	ranks[rank].exit_signal = signal;
}

/* Of rank 0, so long after it died. */
static bool is_teardown(uint64_t later_ns)
{
	m.now_ns = DIED_NS + later_ns;
	return death_is_teardown(&m, &ranks[0]);
}

/* Others may follow: for as long as a hang needs to be one. */
static void a_crash_is_a_fault_soon(void **state)
{
	(void)state;
	dies(0, DIED_NS, 11);
	assert_true(is_teardown(FLOOR_NS - 1));
	assert_false(is_teardown(FLOOR_NS));
}

static void deaths_that_go_on_are_waited_for(void **state)
{
	(void)state;
	dies(0, DIED_NS, 9);
	dies(1, DIED_NS + 5 * SEC, 9);
	assert_true(is_teardown(5 * SEC + FLOOR_NS - 1));
	assert_false(is_teardown(5 * SEC + FLOOR_NS));
}

static void one_that_was_asked_to_go_has_its_grace(void **state)
{
	static const int asked[] = { 1, 2, 15 }, not_asked[] = { 0, 6, 9, 11 };

	(void)state;
	for (int i = 0; i < 3; i++) {
		dies(0, DIED_NS, asked[i]);
		assert_true(is_teardown(35 * SEC - 1));
		assert_false(is_teardown(35 * SEC));
	}
	for (int i = 0; i < 4; i++) {
		dies(0, DIED_NS, not_asked[i]);
		assert_false(is_teardown(FLOOR_NS));
	}
}

/* Whatever the signal: a launcher kills those that do not go. */
static void most_of_the_job_died_together(void **state)
{
	(void)state;
	for (int r = 0; r < 4; r++)
		dies(r, DIED_NS + r * SEC, 9);
	assert_false(is_teardown(60 * SEC)); /* half of it */
	dies(3, DIED_NS + 29 * SEC, 9);
	dies(4, DIED_NS - 29 * SEC, 9);
	assert_true(is_teardown(60 * SEC)); /* five of eight */
	dies(3, DIED_NS + 30 * SEC, 9);
	dies(4, DIED_NS - 30 * SEC, 9);
	assert_false(is_teardown(60 * SEC)); /* three, and two on their own */
}

/* Of two, the one that is left did not ask for it. */
static void one_death_is_no_end_of_a_job(void **state)
{
	(void)state;
	dies(0, DIED_NS, 9);
	ranks[0].next = NULL;
	assert_false(is_teardown(60 * SEC));
	setup(state);
	dies(0, DIED_NS, 9);
	dies(1, DIED_NS, 9);
	ranks[1].next = NULL;
	assert_true(is_teardown(60 * SEC));
}

static void only_ranks_of_this_job_count(void **state)
{
	(void)state;
	for (int r = 0; r < 4; r++)
		dies(r, DIED_NS, 9);
	assert_false(is_teardown(60 * SEC)); /* half of it */
	ranks[7].job = &other_job;
	assert_true(is_teardown(60 * SEC)); /* four of seven */
	ranks[7].job = &job;
	ranks[7].is_child = true;
	assert_true(is_teardown(60 * SEC));
	ranks[7].is_child = false;
	ranks[7].world_size = 2 * RANKS; /* of its next life, with more ranks */
	assert_true(is_teardown(60 * SEC));
	ranks[7].world_size = RANKS;
	ranks[2].job = ranks[3].job = &other_job;
	dies(4, DIED_NS, 9);
	assert_false(is_teardown(60 * SEC)); /* three of six, and two of another job */
	ranks[2].job = ranks[3].job = &job;
	assert_true(is_teardown(60 * SEC));
}

/* Random jobs: deaths of seconds or of minutes, crashes, ends that were asked for, two jobs, one silent host. */
static void life_drawn(unsigned int *seed)
{
	static const int signals[] = { 0, 9, 15 };
	static struct node silent = { .silent_ns = 1 };
	uint64_t apart = rand_r(seed) % 2 ? 2 * SEC : 20 * SEC;

	setup(NULL);
	for (int r = 0; r < RANKS; r++) {
		if (rand_r(seed) % 3)
			dies(r, DIED_NS + rand_r(seed) % 5 * apart, signals[rand_r(seed) % 3]);
		ranks[r].exit_code = rand_r(seed) % 2;
		ranks[r].job = rand_r(seed) % 4 ? &job : &other_job;
		ranks[r].world_size = rand_r(seed) % 6 ? RANKS : 2 * RANKS;
		ranks[r].node = rand_r(seed) % 6 ? &node : &silent;
		ranks[r].start_ns = rand_r(seed) % 3;
	}
	m.now_ns = DIED_NS + rand_r(seed) % 120 * SEC;
}

static void what_is_kept_of_a_job_says_the_same(void **state)
{
	unsigned int seed = 7, n_faults = 0, n = 0;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct deaths kept = { 0 };

		life_drawn(&seed);
		for (int r = 0; r < RANKS; r++, n++) {
			bool fault = death_is_fault(&m, &ranks[r]);

			assert_int_equal(death_is_fault_of(&kept, &m, &ranks[r]), fault);
			n_faults += fault;
		}
	}
	assert_true(n_faults > n / 20 && n_faults < n / 2);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		TEST(a_crash_is_a_fault_soon),
		TEST(deaths_that_go_on_are_waited_for),
		TEST(one_that_was_asked_to_go_has_its_grace),
		TEST(most_of_the_job_died_together),
		TEST(one_death_is_no_end_of_a_job),
		TEST(only_ranks_of_this_job_count),
		TEST(what_is_kept_of_a_job_says_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
