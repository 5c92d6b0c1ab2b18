/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_alive.c - a session that sees only NCCL's counters, twice a second: what it takes for a habit, and what
 * it forgets. Hosts sleep all the time, as those of a healthy job with long steps do.
 */
#include "tests/unit/job/model_copy.h"
#include "tests/unit/job/sampled_session.h"

/* One operation: rank 2 comes `late` seconds after the others, and then the step takes `seconds`. */
static double step(uint64_t n[RANKS], double late, double seconds)
{
	double named;

	for (int r = 0; r < RANKS; r++)
		n[r] += r != 2;
	named = stands(n, late);
	n[2]++;
	stands(n, seconds);
	return named;
}

static void what_is_not_known_is_judged_with_care(void **state)
{
	uint64_t n[] = { 2, 2, 1, 2 };
	double s;

	(void)state;
	session();
	s = stands(n, 14);
	assert_true(s > 10 && s < 12.5);
}

static void a_quick_job_is_judged_at_once(void **state)
{
	uint64_t n[] = { 100, 100, 100, 100 };
	double s;

	(void)state;
	session();
	runs(n, 20, 2);
	n[0]++, n[1]++, n[3]++;
	s = stands(n, 8);
	assert_true(s > 1.5 && s < STILL_S);
	assert_int_equal(only()->ranks[0], 2);
}

/* Nothing moves while the session is there; but it did, by what was launched since the processes were started. */
static void a_quick_job_that_hangs_already(void **state)
{
	const uint64_t n[] = { 4001, 4001, 4000, 4001 };
	double s;

	(void)state;
	session();
	for (struct proc *p = m->procs; p; p = p->next)
		p->start_ns = now - 90 * SEC;
	s = stands(n, 8);
	assert_true(s > 1.5 && s < STILL_S);
}

/* A pipeline: the first stage comes to the loss after the last one, in each step. */
static void a_bubble_in_every_step_is_a_habit(void **state)
{
	uint64_t n[] = { 1, 1, 1, 1 };
	double s;

	(void)state;
	session();
	stands(n, 1);
	for (int i = 0; i < 6; i++)
		assert_true(step(n, 2.5, 12) < 0);
	n[0]++, n[1]++, n[3]++;
	s = stands(n, 20);
	assert_true(s > 2.5 && s < 2.5 + 3 + 2.5);
}

/* Of steps of two minutes the first may be reported; who learns is silent from the second on. */
static void steps_of_two_minutes(void **state)
{
	uint64_t n[] = { 1, 1, 1, 1 };

	(void)state;
	session();
	stands(n, 1);
	assert_true(step(n, 22, 98) > 10);
	for (int i = 0; i < 5; i++)
		assert_true(step(n, 20 + i, 98) < 0);
}

/* Whoever is late by that much once in a hundred steps has a pause, not a habit: a rank that hangs is named as fast. */
static void a_rare_pause_is_no_habit(void **state)
{
	uint64_t n[] = { 500, 500, 500, 500 };
	double s;

	(void)state;
	session();
	runs(n, 20, 6);
	for (int i = 0; i < 4; i++) {
		assert_true(step(n, 8, 0.5) < STILL_S);
		runs(n, 20, 5);
	}
	n[0]++, n[1]++, n[3]++;
	s = stands(n, 8);
	assert_true(s > 1.5 && s < STILL_S);
}

static void habits_are_in_a_snapshot(void **state)
{
	uint64_t n[] = { 1, 1, 1, 1 };
	struct model_copy c;

	(void)state;
	session();
	stands(n, 1);
	for (int i = 0; i < 3; i++)
		step(n, 2.5, 12);
	model_copy(m, &c);
	assert_true(comm_lag_limit_ns(m, m->comms) > 4 * SEC);
	assert_int_equal(comm_lag_limit_ns(c.m, c.m->comms), comm_lag_limit_ns(m, m->comms));
	assert_int_equal(c.m->comms->members->samples.after_ns, m->comms->members->samples.after_ns);
	model_free(c.m);
	model_copy_free(&c);
}

/* --- what is gone --- */

/* A job aborts communicators in which it stood unevenly, and makes new ones. */
static void abort_and_new(bool reported)
{
	uint64_t n[] = { 600, 600, 599, 600 }, fresh[] = { 1, 1, 1, 1 };
	struct event e;

	session();
	stands(n, 2);
	for (int r = 0; reported && r < RANKS; r++) {
		e = job_event(EV_COMM_VANISHED, r, 0);
		e.comm_seen.addr = e.comm_seen.hash = WORLD;
		give(e);
	}
	for (int i = 0; i < 40; i++) {
		for (int r = 0; r < RANKS; r++) {
			fresh[r] += 4;
			sample(r, RIGHT, r, RANKS, REDUCED(fresh[r]));
		}
		tick();
		assert_int_equal(hangs(), 0);
	}
	for (const struct member *mb = m->comms->members; mb; mb = mb->next_in_comm)
		assert_true(mb->comm->hash != WORLD || mb->gone);
}

static void what_vanished_stands_no_more(void **state)
{
	(void)state;
	abort_and_new(true);
}

/* No word of its end: its process' other communicators are sampled, and it is not. */
static void what_several_samples_miss_is_gone(void **state)
{
	(void)state;
	abort_and_new(false);
}

/* A look or two may miss it. */
static void a_sample_may_miss_it(void **state)
{
	uint64_t n[] = { 600, 600, 600, 600 };

	(void)state;
	session();
	stands(n, 1);
	for (int i = 0; i < 3; i++) {
		for (int r = 0; r < RANKS; r++)
			sample(r, RIGHT, r, RANKS, REDUCED(5 + i));
		tick();
	}
	stands(n, 1);
	for (const struct proc *p = m->procs; p; p = p->next)
		for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
			assert_false(mb->gone);
}

/* Each is ahead in one: by counters two hosts that run ahead of their GPUs look like that, for as long as a step. */
static void a_cycle_is_judged_with_care(void **state)
{
	uint64_t begin;
	double s = -1;

	(void)state;
	session();
	begin = now;
	for (int i = 0; i < 28; i++) {
		for (int r = 0; r < 2; r++) {
			sample(r, WORLD, r, 2, REDUCED(r ? 8 : 9));
			sample(r, LEFT, r, 2, REDUCED(r ? 31 : 30));
		}
		tick();
		if (hangs() && s < 0)
			s = (now - begin) / 1e9;
	}
	assert_true(s >= 10 && s < 13);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_not_known_is_judged_with_care),
		TEST(a_quick_job_is_judged_at_once),
		TEST(a_quick_job_that_hangs_already),
		TEST(a_bubble_in_every_step_is_a_habit),
		TEST(steps_of_two_minutes),
		TEST(a_rare_pause_is_no_habit),
		TEST(habits_are_in_a_snapshot),
		TEST(what_vanished_stands_no_more),
		TEST(what_several_samples_miss_is_gone),
		TEST(a_sample_may_miss_it),
		TEST(a_cycle_is_judged_with_care),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
