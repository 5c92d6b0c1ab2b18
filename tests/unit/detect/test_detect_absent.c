/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_absent.c - a rank that was gone before anybody looked: named on one host, where nothing else explains the
 * stand; of several hosts' looks, whom none reported.
 */
#include "tests/unit/job/outside_samples.h"

static const uint64_t level[] = { 12, 12, 12, 12 };

/* All processes but that of `gone`; looked at twice. Local ranks as on one host, or none. */
static void samples_without(int gone, bool local, const uint64_t n[RANKS])
{
	seen[gone] = false;
	for (int r = 0; r < RANKS; r++) {
		struct event e = job_proc_event(r, RANKS, 0);

		e.proc.local_rank = local ? r : -1;
		e.proc.job = "";
		if (!seen[r])
			continue;
		give(e);
		give(job_event(EV_COMM_SCAN, r, 0));
	}
	for (int i = 0; i < 2; i++) {
		world(n);
		tick();
	}
}

static void the_gone_one_is_named(void **state)
{
	const struct finding *f;

	(void)state;
	samples_without(1, true, level);
	f = only();
	assert_int_equal(f->kind, FINDING_HANG);
	assert_int_equal(f->class, HANG_PROCESS_DEAD);
	assert_string_equal(cause_name(f->cause), "not_there");
	assert_int_equal(f->ranks[0], 1);
	assert_int_equal(f->pids[0], 0);
	assert_int_equal(f->comm, WORLD);
	assert_true(f->has_op);
	assert_int_equal(f->seq, 12); /* one Broadcast, and twelve: the last is number 12 */
	assert_true(f->confidence > 0.8 && f->confidence < 0.9);
	assert_string_equal(text_of(f, "waiting_ranks"), "0,2,3");
}

/* Nothing says that it was on this host, but that all others are. */
static void the_last_one_is_named_with_less(void **state)
{
	(void)state;
	samples_without(3, true, level);
	assert_int_equal(only()->ranks[0], 3);
	assert_true(only()->confidence < 0.7);
}

/* A session, of a job that moves for so many looks and then stands. */
static void stands_in_a_session(int gone, int world_size, int moving)
{
	uint64_t n[RANKS] = { 12, 12, 12, 12 };

	m->hang_floor_ns = 1500 * MSEC;
	seen[gone] = false;
	for (int r = 0; r < RANKS; r++) {
		struct event e = job_proc_event(r, world_size, 0);

		e.proc.rank = world_size > 0 ? r : -1;
		e.proc.local_rank = e.proc.rank;
		e.proc.job = "";
		if (seen[r])
			give(e);
	}
	for (int i = 0; i < moving + 120; i++) {
		for (int r = 0; r < RANKS; r++)
			n[r] += i < moving;
		world(n);
		tick();
		assert_true(i >= moving || !list.n);
	}
}

static void the_last_one_in_a_session(void **state)
{
	(void)state;
	stands_in_a_session(3, RANKS, 0);
	assert_int_equal(only()->ranks[0], 3);
}

/* It takes part, from elsewhere. */
static void the_last_one_of_a_job_that_goes_on(void **state)
{
	(void)state;
	stands_in_a_session(3, RANKS, 60);
	assert_int_equal(list.n, 0);
}

/* A group that three engines share with a trainer elsewhere, which numbers no rank of theirs. */
static void a_group_with_another_host(void **state)
{
	(void)state;
	stands_in_a_session(3, -1, 0);
	assert_int_equal(list.n, 0);
}

/* Of two ranks this one is here, and stands. */
static void one_of_two_stands(int here, int local_rank, int ticks)
{
	struct event e = job_proc_event(here, 2, 0);

	e.proc.local_rank = local_rank;
	e.proc.job = "";
	give(e);
	give(job_event(EV_COMM_SCAN, here, 0));
	for (int i = 0; i < ticks; i++) {
		sample(here, WORLD, here, 2, REDUCED(100));
		tick();
	}
}

/* Two hosts with a GPU each. */
static void one_rank_of_two(void **state)
{
	(void)state;
	m->hang_floor_ns = 1500 * MSEC;
	one_of_two_stands(0, 0, 120);
	assert_int_equal(list.n, 0);
}

static void the_other_of_two_in_an_autopsy(void **state)
{
	(void)state;
	for (int here = 0; here < 2; here++) {
		if (here) {
			end(state);
			start(state);
		}
		one_of_two_stands(here, here, 2);
		assert_string_equal(cause_name(only()->cause), "not_there");
		assert_int_equal(only()->class, HANG_PROCESS_DEAD);
		assert_int_equal(only()->ranks[0], !here);
		assert_true(only()->confidence > 0.59 && only()->confidence < 0.61);
	}
}

/* What began the stream says it, not how long its limit is: an autopsy may take its samples seconds apart, and a
 * session may have a limit of a quarter of a second. */
static void what_is_an_autopsy(void **state)
{
	(void)state;
	m->by_autopsy = true;
	m->hang_floor_ns = 5 * SEC;
	one_of_two_stands(0, 0, 14);
	assert_int_equal(only()->ranks[0], 1);
	end(state);
	start(state);
	m->by_session = true;
	one_of_two_stands(0, 0, 120);
	assert_int_equal(list.n, 0);
}

/* The second rank is the first of its host: the other one is on another. */
static void the_other_of_two_is_elsewhere(void **state)
{
	(void)state;
	one_of_two_stands(1, 0, 14);
	assert_int_equal(list.n, 0);
}

/* In a session its own local rank must show that the other belongs here. */
static void the_first_of_two_in_a_session(void **state)
{
	(void)state;
	m->hang_floor_ns = 1500 * MSEC;
	one_of_two_stands(1, 1, 120);
	assert_int_equal(only()->ranks[0], 0);
	assert_int_equal(only()->class, HANG_PROCESS_DEAD);
}

/* Two of four, behind the last that is here: they may be on another host. */
static void half_a_job_names_nobody(void **state)
{
	(void)state;
	seen[2] = false;
	samples_without(3, true, level);
	assert_int_equal(list.n, 0);
}

static void who_moves_waits_for_nobody(void **state)
{
	const uint64_t on[] = { 13, 13, 13, 13 };

	(void)state;
	samples_without(1, true, level);
	only();
	world(on);
	tick();
	assert_int_equal(list.n, 0);
}

/* It is here, and was not read: that is another matter. */
static void a_process_is_not_gone(void **state)
{
	(void)state;
	who();
	seen[1] = false;
	for (int i = 0; i < 2; i++) {
		world(level);
		tick();
	}
	assert_int_equal(list.n, 0);
}

/* Nested groups: 2 waits for the one that is gone in a group of two, and the rest waits for 2. */
static void who_waits_for_it_is_not_named(void **state)
{
	const uint64_t n[] = { 12, 12, 11, 12 };

	(void)state;
	seen[3] = false;
	who();
	for (int i = 0; i < 2; i++) {
		world(n);
		sample(2, RIGHT, 0, 2, REDUCED(30));
		tick();
	}
	/* who() reported a process of rank 3: nobody is sure */
	for (size_t i = 0; i < list.n; i++)
		assert_true(list.items[i].confidence < 0.5);
}

static void two_hosts(void)
{
	for (int n = 0; n < 2; n++) {
		struct event e = job_event(EV_NODE, 0, 0);

		e.node = n;
		e.host.name = n ? "right" : "left";
		give(e);
	}
}

static void of_other_hosts_nobody_is_dead(void **state)
{
	(void)state;
	seen[1] = false;
	samples_without(1, false, level);
	two_hosts();
	tick();
	assert_int_equal(only()->kind, FINDING_HANG);
	assert_int_equal(only()->class, HANG_UNKNOWN);
	assert_string_equal(cause_name(only()->cause), "no_host_told");
	assert_int_equal(only()->ranks[0], 1);
	assert_true(only()->confidence < 0.5);
}

/* A sure culprit is here: who is missing is reported beside it. */
static void a_sure_one_stays(void **state)
{
	const uint64_t n[] = { 12, 12, 11, 12 };

	(void)state;
	at[2].syscall = "clock_nanosleep";
	samples_without(1, true, n);
	two_hosts();
	tick();
	assert_int_equal(list.n, 2);
	assert_int_equal(list.items[0].kind, FINDING_UNOBSERVED);
	assert_int_equal(list.items[0].ranks[0], 1);
	assert_int_equal(list.items[1].class, HANG_MISSING_ENTER);
	assert_int_equal(list.items[1].ranks[0], 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_gone_one_is_named),
		TEST(the_last_one_is_named_with_less),
		TEST(the_last_one_in_a_session),
		TEST(a_group_with_another_host),
		TEST(one_rank_of_two),
		TEST(the_other_of_two_in_an_autopsy),
		TEST(the_other_of_two_is_elsewhere),
		TEST(what_is_an_autopsy),
		TEST(the_first_of_two_in_a_session),
		TEST(the_last_one_of_a_job_that_goes_on),
		TEST(half_a_job_names_nobody),
		TEST(who_moves_waits_for_nobody),
		TEST(a_process_is_not_gone),
		TEST(who_waits_for_it_is_not_named),
		TEST(of_other_hosts_nobody_is_dead),
		TEST(a_sure_one_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
