/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_proxy_starved.c - threads of NCCL's proxies that sleep, are blocked, have no CPU or nothing to do: who is
 * named, as a hang's cause and as a finding of its own (detector proxy_starved).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/stalled_pair.h"
static void check_culprit(int rank, const char *cause)
{
	const struct finding *f = only();

	assert_int_equal(f->kind, FINDING_HANG);
	assert_int_equal(f->class, HANG_INSIDE_NETWORK);
	assert_int_equal(f->n_ranks, 1);
	assert_int_equal(f->ranks[0], rank);
	assert_int_equal(f->pids[0], job_pid(rank));
	assert_string_equal(cause_name(f->cause), cause);
}

/* What is sent to it lies there: by the counters alone that would be the network. */
static void a_proxy_asleep(void **state)
{
	(void)state;
	eat(0);
	ranks[1].proxy = TASK_SLEEP;
	ranks[1].wakes = false;
	ranks[1].run = ranks[1].wait = 0;
	looks(2);
	check_culprit(1, "proxy_asleep");
	check_pair(only(), "receiver", 0, 1, 1);
}

static void a_proxy_in_d_state(void **state)
{
	(void)state;
	ranks[3].proxy = TASK_DISK;
	ranks[3].wakes = false;
	ranks[3].run = ranks[3].wait = 0;
	ranks[3].send[0] = sending(24, 24, 24); /* could post */
	looks(2);
	check_culprit(3, "proxy_blocked");
	check_pair(only(), "sender", 3, 0, 0);
}

static void idle_rank(int r)
{
	eat(2);
	ranks[r].op_count = 0;
	ranks[r].proxy = TASK_SLEEP;
	ranks[r].wakes = false;
	ranks[r].run = ranks[r].wait = 0;
	looks(2);
	assert_int_equal(only()->n_ranks, 0);
}

/* It has no operation active, and so it may sleep; also the one that is through with what its peer waits for. */
static void an_idle_proxy_may_sleep(void **state)
{
	(void)state;
	idle_rank(0);
}

static void the_sender_is_idle(void **state)
{
	(void)state;
	idle_rank(2);
	check_pair(only(), "network", 2, 3, -1);
}

/* It is through and fell asleep before its peers came to a stand: that it sleeps was reported then, and is not again.
 */
static void the_sender_was_idle_before(void **state)
{
	(void)state;
	ranks[2].op_count = 0;
	ranks[2].proxy = TASK_SLEEP;
	ranks[2].wakes = false;
	ranks[2].run = ranks[2].wait = 0;
	for (int i = 0; i < 4; i++) {
		ranks[2].at_rest = i == 3;
		for (int r = 0; r < RANKS; r++)
			ranks[r].n_entered++;
		look();
	}
	eat(2);
	looks(3);
	check_pair(only(), "network", 2, 3, -1);
}

static void starve(int r)
{
	ranks[r].proxy = TASK_RUNNABLE;
	ranks[r].run = 0.003;
	ranks[r].wait = 0.97;
}

/* Others sleep between their polls, or spin: either way they have what they want. */
static void a_starved_proxy(void **state)
{
	(void)state;
	starve(2);
	ranks[1].run = 0.01;
	ranks[1].proxy = TASK_SLEEP;
	looks(4);
	assert_int_equal(list.n, 0);
	looks(2);
	check_culprit(2, "proxy_starved");
}

/* Not once did it get the CPU: the kernel has not counted its wait yet. */
static void a_proxy_that_never_ran(void **state)
{
	(void)state;
	starve(2);
	ranks[2].run = ranks[2].wait = 0;
	ranks[2].wakes = false;
	looks(6);
	check_culprit(2, "proxy_starved");
	assert_true(number_of(only(), "runqueue_wait_share") == 1);
}

/* It creeps, so its counters move; the hosts stand. */
static void a_starved_proxy_creeps(void **state)
{
	(void)state;
	starve(2);
	for (int i = 0; i < 6; i++) {
		ranks[3].recv[0].posted++;
		look();
	}
	check_culprit(2, "proxy_starved");
}

/* A machine on which all wait for CPUs: no rank is at fault for that. */
static void all_proxies_wait(void **state)
{
	(void)state;
	eat(2);
	for (int r = 0; r < RANKS; r++) {
		starve(r);
		ranks[r].wait = 0.9 - 0.05 * r;
		ranks[r].run = 0.003 * (r + 1);
	}
	looks(6);
	check_pair(only(), "network", 2, 3, 1); /* they did look, late */
	assert_int_equal(only()->n_ranks, 0);
}

/* The receiver had no CPU to look: what is in front of it proves nothing. When it has looked at last, after some more
 * looks. */
static void a_receiver_that_could_not_be_sampled(void **state)
{
	(void)state;
	eat(2);
	for (int r = 0; r < RANKS; r++) {
		ranks[r].proxy = TASK_RUNNABLE;
		ranks[r].wait = 0.6;
		ranks[r].run = r == 3 ? 0.0002 : 0.0006;
	}
	looks(6);
	assert_int_equal(list.n, 0);
	ranks[3].run = 0.001;
	looks(2);
	check_pair(only(), "network", 2, 3, 1);
}

static void starved_by_chance(void **state)
{
	(void)state;
	eat(2);
	ranks[0].wait = 0.7;
	ranks[0].run = 0.01;
	ranks[0].proxy = TASK_RUNNABLE;
	looks(2);
	check_pair(only(), "network", 2, 3, 1);
	assert_int_equal(only()->n_ranks, 0);
}

static void of_two_nobody(void **state)
{
	(void)state;
	eat(0);
	for (int r = 1; r < 3; r++) {
		ranks[r].proxy = TASK_SLEEP;
		ranks[r].wakes = false;
	}
	looks(3);
	assert_int_equal(list.n, 0);
}

/* The hosts go on, slowly: after four scans that is cpu_starved, and before them nothing. */
static void a_job_that_creeps(void **state)
{
	const struct finding *f;

	(void)state;
	starve(2);
	for (int i = 0; i < 6; i++) {
		for (int r = 0; r < RANKS; r++)
			ranks[r].n_entered++;
		look();
		assert_true(i >= 4 || list.n == 0);
	}
	f = only();
	assert_int_equal(f->kind, FINDING_CPU_STARVED);
	assert_string_equal(cause_name(f->cause), "proxy_thread");
	assert_int_equal(f->ranks[0], 2);
	assert_true(number_of(f, "runqueue_wait_share") > 0.9);
	assert_true(number_of(f, "peers_wait_share") < 0.1);
	assert_string_equal(text_of(f, "side"), "sender");
}

static void a_scan_without_a_cpu(void **state)
{
	(void)state;
	for (int i = 0; i < 9; i++) {
		for (int r = 0; r < RANKS; r++)
			ranks[r].n_entered++;
		ranks[2].wait = i % 3 ? 0.97 : 0.02;
		ranks[2].run = i % 3 ? 0.003 : 0.9;
		look();
		assert_int_equal(list.n, 0);
	}
}

#define A_JOB(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		A_JOB(a_proxy_asleep),
		A_JOB(a_proxy_in_d_state),
		A_JOB(an_idle_proxy_may_sleep),
		A_JOB(the_sender_is_idle),
		A_JOB(the_sender_was_idle_before),
		A_JOB(a_starved_proxy),
		A_JOB(a_proxy_that_never_ran),
		A_JOB(a_starved_proxy_creeps),
		A_JOB(all_proxies_wait),
		A_JOB(a_receiver_that_could_not_be_sampled),
		A_JOB(starved_by_chance),
		A_JOB(of_two_nobody),
		A_JOB(a_job_that_creeps),
		A_JOB(a_scan_without_a_cpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
