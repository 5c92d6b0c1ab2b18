/* SPDX-License-Identifier: Apache-2.0
 *
 * test_slow_ranks.c - who makes ranks on other hosts wait, by durations alone: the late one, not the one that waited
 * for it elsewhere; none where all vary, where it is not known exactly enough, or where a part of the job has more to
 * do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hub/slow_ranks.h"

#define MSEC 1000000ull
#define SEC 1000000000ull

enum { RANKS = 8, WORLD = 0xa0, PAIR = 0xb0 /* .. of ranks 2 i and 2 i + 1 */, OPS = 20 /* a second, in each */ };

static struct slow_ranks slow;
static struct model *m;
static struct finding_list found;
static uint64_t sequence;
static uint64_t took_ms[RANKS][2]; /* an operation of WORLD, of the pair */
static uint64_t error_ms;
static bool is_silent[RANKS], is_unprobed;

static struct host host_of(int rank)
{
	return (struct host){ .number = (uint32_t)rank + 1, .at_ns = m->now_ns };
}

static void member_fill(Cluster__Member *mb, uint64_t hash, int nranks, uint64_t ms)
{
	*mb = (Cluster__Member)CLUSTER__MEMBER__INIT;
	mb->addr = hash;
	mb->hash = hash;
	mb->nranks = nranks;
	mb->has_ended = !is_unprobed;
	mb->ended = OPS;
	mb->ended_ns = OPS * ms * MSEC;
	mb->ended_error_ns = OPS * error_ms * MSEC;
}

/* One host a rank, whose clocks have nothing to do with each other. */
static void rank_reports(int rank)
{
	Cluster__NodeReport r = CLUSTER__NODE_REPORT__INIT;
	Cluster__Process p = CLUSTER__PROCESS__INIT, *processes[] = { &p };
	Cluster__Member members[2], *list[] = { &members[0], &members[1] };
	struct host h = host_of(rank);

	p.pid = 100;
	p.rank = rank;
	p.job = (char *)"train";
	p.comms = list;
	p.n_comms = 2;
	member_fill(&members[0], WORLD, RANKS, took_ms[rank][0]);
	member_fill(&members[1], PAIR + rank / 2, 2, took_ms[rank][1]);
	r.now_ns = sequence * SEC + rank * 777 * SEC;
	r.processes = processes;
	r.n_processes = 1;
	assert_int_equal(slow_ranks_take(&slow, &h, &r, "train"), 0);
}

static void seconds(int n)
{
	while (n--) {
		sequence++;
		m->now_ns += SEC;
		for (int r = 0; r < RANKS; r++)
			if (!is_silent[r])
				rank_reports(r);
		found.n = 0;
		assert_int_equal(slow_ranks_find(&slow, m, &found), 0);
	}
}

static void all_take(uint64_t world_ms, uint64_t pair_ms)
{
	for (int r = 0; r < RANKS; r++) {
		took_ms[r][0] = world_ms;
		took_ms[r][1] = pair_ms;
	}
}

static void assert_slow(int rank)
{
	assert_int_equal(found.n, 1);
	assert_int_equal(found.items[0].kind, FINDING_STRAGGLER);
	assert_int_equal(found.items[0].ranks[0], rank);
	assert_int_equal(found.items[0].nodes[0], rank + 1);
}

static int begin(void **state)
{
	struct event e = { .kind = EV_PROC, .tgid = 100, .ts_ns = 1000 * SEC };

	(void)state;
	m = model_new();
	sequence = 1000;
	error_ms = 0;
	is_unprobed = false;
	memset(is_silent, 0, sizeof(is_silent));
	for (uint32_t n = 1; n <= RANKS; n++) {
		struct event node = { .kind = EV_NODE, .node = n, .ts_ns = e.ts_ns };

		node.host.name = "node";
		assert_int_equal(model_apply(m, &node), 0);
		e.node = n;
		e.proc = (struct event_proc){ .start_ns = 1,
					      .rank = (int)n - 1,
					      .local_rank = -1,
					      .world_size = RANKS,
					      .job = "train",
					      .name = "python",
					      .container = "",
					      .pod = "",
					      .pod_name = "",
					      .namespace = "",
					      .cgroup = "",
					      .boot_id = "",
					      .slurm_job = "",
					      .slurm_step = "" };
		assert_int_equal(model_apply(m, &e), 0);
	}
	all_take(10, 2);
	return 0;
}

static int end(void **state)
{
	(void)state;
	slow_ranks_free(&slow);
	slow = (struct slow_ranks){ 0 };
	finding_list_free(&found);
	model_free(m);
	return 0;
}

/* --- cases --- */

static void where_all_are_alike_none_is_slow(void **state)
{
	(void)state;
	seconds(60);
	assert_int_equal(found.n, 0);
}

/* 5 ms of each of 20 operations a second: a tenth of the time. */
static void who_waits_least_is_late(void **state)
{
	(void)state;
	seconds(10);
	took_ms[5][0] = 5;
	seconds(12);
	assert_slow(5);
	took_ms[5][0] = 10;
	seconds(12);
	assert_int_equal(found.n, 0);
}

/* Rank 4 comes late into WORLD, as it waited for rank 5 in their pair. */
static void who_waited_for_another_is_not_the_one(void **state)
{
	(void)state;
	took_ms[4][0] = 5;
	took_ms[4][1] = 7;
	took_ms[5][0] = 8;
	took_ms[5][1] = 1;
	seconds(20);
	assert_slow(5);
}

static void some_seconds_are_no_habit(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		took_ms[i % RANKS][0] = 5; /* another one each time */
		seconds(1);
		assert_int_equal(found.n, 0);
		took_ms[i % RANKS][0] = 10;
	}
}

static void a_part_of_the_job_that_has_more_to_do_is_no_rank(void **state)
{
	(void)state;
	took_ms[6][0] = took_ms[7][0] = 5;
	seconds(30);
	assert_int_equal(found.n, 0);
}

/* It is late by 180 ms, once: a fiftieth of nine seconds. */
static void one_pause_is_no_habit(void **state)
{
	(void)state;
	seconds(10);
	took_ms[5][0] = 1;
	seconds(1);
	took_ms[5][0] = 10;
	for (int i = 0; i < 12; i++) {
		seconds(1);
		assert_int_equal(found.n, 0);
	}
}

/* Nor where it is in operations a little less than its peers all the time, as it waits for nobody in its pair. */
static void one_long_pause_is_no_habit(void **state)
{
	(void)state;
	took_ms[5][1] = 0;
	seconds(10);
	for (int r = 0; r < RANKS; r++)
		took_ms[r][0] = r == 5 ? 10 : 110; /* 2 s */
	seconds(1);
	all_take(10, 2);
	took_ms[5][1] = 0;
	for (int i = 0; i < 12; i++) {
		seconds(1);
		assert_int_equal(found.n, 0);
	}
}

static void what_is_within_the_error_is_not_known(void **state)
{
	(void)state;
	error_ms = 5;
	took_ms[5][0] = 5;
	seconds(30);
	assert_int_equal(found.n, 0);
}

/* Ends are seen late by up to 12 ms: the others wait for at least 28, and it for at most 5. */
static void what_an_error_leaves_is_known(void **state)
{
	(void)state;
	error_ms = 12;
	all_take(40, 2);
	took_ms[5][0] = 5;
	for (int r = 0; r < RANKS; r++)
		took_ms[r][1] = 0;
	seconds(15);
	assert_slow(5);
	assert_in_range((uint64_t)(finding_number(&found.items[0], EVIDENCE_GAP_S) * 1e3 + 0.5), 35, 35);
}

/* To be named it has to be sure; to stay so, seen. */
static void what_was_named_stays_within_the_error(void **state)
{
	(void)state;
	took_ms[5][0] = 5;
	seconds(15);
	assert_slow(5);
	error_ms = 5;
	seconds(30);
	assert_slow(5);
	took_ms[5][0] = 9;
	seconds(15);
	assert_int_equal(found.n, 0);
}

/* Probes go after a minute: that is no sign that it is better. Of a process that is over nothing is held. */
static void what_is_not_seen_any_more_is_held(void **state)
{
	struct event gone = { .kind = EV_EXIT, .node = 6, .tgid = 100 };

	(void)state;
	took_ms[5][0] = 5;
	seconds(15);
	assert_slow(5);
	is_unprobed = true;
	seconds(500);
	assert_slow(5);
	assert_true(finding_number(&found.items[0], EVIDENCE_BLAME_PERCENT) > 5);
	seconds(150);
	assert_int_equal(found.n, 0);
	is_unprobed = false;
	seconds(20);
	assert_slow(5);
	is_unprobed = true;
	seconds(60);
	gone.ts_ns = m->now_ns;
	gone.exit.last = true;
	assert_int_equal(model_apply(m, &gone), 0);
	seconds(3);
	assert_int_equal(found.n, 0);
}

/* And what comes back well is well. */
static void what_is_seen_to_be_better_is_over(void **state)
{
	(void)state;
	took_ms[5][0] = 5;
	seconds(15);
	is_unprobed = true;
	seconds(60);
	assert_slow(5);
	is_unprobed = false;
	took_ms[5][0] = 10;
	seconds(15);
	assert_int_equal(found.n, 0);
}

/* Of a host that is silent nothing is known: it may be the one. */
static void without_one_of_them_none_is_named(void **state)
{
	(void)state;
	took_ms[5][0] = 5;
	is_silent[2] = true;
	seconds(30);
	assert_int_equal(found.n, 0);
	is_silent[2] = false;
	seconds(15);
	assert_slow(5);
}

static void three_percent_are_not_worth_a_name(void **state)
{
	(void)state;
	took_ms[5][0] = 9; /* 20 ms in a second */
	seconds(30);
	assert_int_equal(found.n, 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(where_all_are_alike_none_is_slow),
		CASE(who_waits_least_is_late),
		CASE(who_waited_for_another_is_not_the_one),
		CASE(some_seconds_are_no_habit),
		CASE(a_part_of_the_job_that_has_more_to_do_is_no_rank),
		CASE(one_pause_is_no_habit),
		CASE(one_long_pause_is_no_habit),
		CASE(what_is_within_the_error_is_not_known),
		CASE(what_an_error_leaves_is_known),
		CASE(what_was_named_stays_within_the_error),
		CASE(what_is_not_seen_any_more_is_held),
		CASE(what_is_seen_to_be_better_is_over),
		CASE(without_one_of_them_none_is_named),
		CASE(three_percent_are_not_worth_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
