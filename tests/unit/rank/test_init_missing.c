/* SPDX-License-Identifier: Apache-2.0
 *
 * test_init_missing.c - which ranks the creation of a communicator lacks, by hand: of the whole job, of a parent, of
 * processes that are several ranks; when these are the missing ones for sure, and when they are only some of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/rank/init_missing.h"

#define HAND_RANKS 70
#include "tests/unit/job/hand_job.h"
#include "tests/unit/job/job_script.h"

#define WORLD 4
#define LAST (WORLD - 1)

static struct comm_init init;
static struct comm_init_member callers[HAND_RANKS];
static struct rank_ref missing[INIT_MISSING_MAX];
static struct model *empty;
static bool exact;

static void world_of(int n)
{
	for (int r = 0; r < n; r++)
		procs[r].world_size = n;
	procs[n - 1].next = NULL;
	comm.nranks = init.nranks = n;
}

static struct comm_init_member *calls(int r)
{
	struct comm_init_member **end = &init.members, *bm = &callers[init.n_called++];

	while (*end)
		end = &(*end)->next;
	*bm = (struct comm_init_member){ .proc = &procs[r], .tid = 10 + r, .rank = r, .since_ns = NOW - 9 * SEC + r };
	return *end = bm;
}

/* All but the last of four are in it, which got an id. */
static int fresh(void **state)
{
	hand_setup(state);
	empty = model_new();
	m.state = empty->state;
	init = (struct comm_init){ .id_hash = 5, .first_ns = NOW - 10 * SEC };
	world_of(WORLD);
	calls(1);
	calls(0);
	calls(2);
	return 0;
}

static int done(void **state)
{
	(void)state;
	model_free(empty);
	return 0;
}

static int n_missing(void)
{
	return comm_init_missing(&m, &init, missing, &exact);
}

static void only_the_last(bool sure)
{
	assert_int_equal(n_missing(), 1);
	assert_ptr_equal(missing[0].proc, &procs[LAST]);
	assert_null(missing[0].seat);
	assert_int_equal(exact, sure);
	assert_int_equal(comm_init_missing(&m, &init, missing, NULL), sure);
}

static void nobody(void)
{
	assert_int_equal(n_missing(), 0);
}

/* --- an id --- */

static void of_the_world(void **state)
{
	(void)state;
	only_the_last(true);
	init.nranks = -1;
	only_the_last(false);
}

static void callers_of_another_rank(void **state)
{
	(void)state;
	callers[0].rank = -1;
	only_the_last(false);
	callers[0].rank = 2;
	only_the_last(false);
	callers[0].rank = 1;
	procs[2].world_size = WORLD + 1;
	only_the_last(false);
	procs[2].world_size = WORLD;
	procs[2].rank = callers[1].rank = -1;
	only_the_last(false);
}

static void of_a_part(void **state)
{
	(void)state;
	init.nranks = WORLD + 1;
	only_the_last(false);
}

static void who_is_of_the_job(void **state)
{
	(void)state;
	procs[LAST].is_child = true;
	nobody();
	procs[LAST].is_child = false;
	procs[LAST].rank = -1;
	nobody();
	procs[LAST].rank = 0;
	procs[LAST].world_size = WORLD + 1;
	nobody();
	procs[LAST].world_size = WORLD;
	procs[LAST].job = hand_other_job;
	nobody();
	procs[LAST].job = hand_job;
	only_the_last(true);
}

static void as_many_as_fit(void **state)
{
	(void)state;
	procs[LAST].next = &procs[LAST + 1];
	world_of(INIT_MISSING_MAX + 3);
	assert_int_equal(n_missing(), INIT_MISSING_MAX);
	assert_ptr_equal(missing[INIT_MISSING_MAX - 1].proc, &procs[INIT_MISSING_MAX + 2]);
	procs[INIT_MISSING_MAX + 2].next = &procs[INIT_MISSING_MAX + 3];
	world_of(INIT_MISSING_MAX + 4);
	assert_int_equal(n_missing(), INIT_MISSING_MAX);
	init.parent = &comm;
	assert_int_equal(n_missing(), INIT_MISSING_MAX);
}

static void nobody_waits(void **state)
{
	(void)state;
	callers[0].since_ns = 0; /* in a group that is open */
	callers[1].done_ns = NOW;
	assert_true(comm_init_since_ns(&init) == callers[2].since_ns);
	only_the_last(true);
	procs[2].dead = true;
	assert_true(comm_init_since_ns(&init) == UINT64_MAX);
	exact = true;
	nobody();
	assert_false(exact);
}

static void all_called(void **state)
{
	(void)state;
	init.n_called = WORLD;
	nobody();
	assert_false(exact);
}

static void since_the_first_that_waits(void **state)
{
	(void)state;
	assert_true(comm_init_since_ns(&init) == NOW - 9 * SEC);
	callers[2].since_ns = NOW - 12 * SEC;
	assert_true(comm_init_since_ns(&init) == NOW - 12 * SEC);
}

/* --- is it out of it? --- */

static void probes_that_came_late(void **state)
{
	(void)state;
	procs[LAST].attached_ns = NOW;
	procs[LAST].last_call_ns = NOW;
	only_the_last(false);
	procs[LAST].last_call_ns = NOW + 1;
	only_the_last(true);
	procs[LAST].last_call_ns = 0;
	procs[LAST].dead = true;
	nobody(); /* there is no such rank any more */
}

static void probes_that_went(void **state)
{
	(void)state;
	procs[LAST].shed = 1u << PROBES_NEEDED;
	only_the_last(false);
	procs[LAST].shed = ~procs[LAST].shed;
	only_the_last(true);
}

/* --- a parent's ranks --- */

static void of_a_parent(void **state)
{
	(void)state;
	init.parent = &comm;
	init.kind = COMM_INIT_SPLIT;
	callers[0].rank = -1; /* whatever it will be in there */
	only_the_last(true);
	members[LAST].gone = true;
	nobody();
	members[LAST].gone = false;
	by_rank[LAST] = NULL;
	nobody();
	by_rank[LAST] = &members[LAST];
	comm.by_rank = NULL;
	nobody();
}

static void of_some_of_a_parent(void **state)
{
	(void)state;
	init.parent = &comm;
	init.kind = COMM_INIT_SHRINK;
	only_the_last(true);
	init.nranks = WORLD + 1;
	only_the_last(false);
	init.kind = COMM_INIT_SPLIT;
	only_the_last(true);
}

/* --- processes of two ranks, each with a thread of its own --- */

static struct comm other;
static struct member others[WORLD], *others_by_rank[WORLD];
static struct op ops[WORLD];

static void seat(struct member *mb, struct comm *c, int r)
{
	*mb = (struct member){ .comm = c, .proc = &procs[r / 2], .rank = r, .device = r % 2 };
	mb->next_in_proc = procs[r / 2].members;
	procs[r / 2].members = mb;
	c->by_rank[r] = mb;
}

static void two_in_each(void)
{
	m.procs = procs;
	procs[1].next = NULL;
	init.members = NULL;
	init.n_called = 0;
	other = (struct comm){ .hash = 0xb0, .nranks = WORLD, .by_rank = others_by_rank };
	comm.next = &other;
	for (int p = 0; p < 2; p++) {
		procs[p].shared = true;
		procs[p].members = NULL;
	}
	for (int r = WORLD - 1; r >= 0; r--) {
		seat(&others[r], &other, r);
		seat(&members[r], &comm, r);
		ops[r] = (struct op){ .tid = 10 + r, .member = &members[r] };
		members[r].ops_tail = &ops[r];
	}
	for (int r = WORLD - 2; r >= 0; r--)
		calls(r)->proc = &procs[r / 2];
}

static void only_the_last_seat(bool sure)
{
	assert_int_equal(n_missing(), 1);
	assert_ptr_equal(missing[0].proc, &procs[1]);
	assert_ptr_equal(missing[0].seat, &members[LAST]);
	assert_int_equal(exact, sure);
}

static void not_known(void)
{
	assert_int_equal(n_missing(), 0);
	assert_false(exact);
}

static void a_seat_is_missing(void **state)
{
	(void)state;
	two_in_each();
	only_the_last_seat(true);
	comm.next = NULL;
	only_the_last_seat(true);
	init.parent = &comm;
	only_the_last_seat(true);
}

static void a_communicator_that_is_not_like_it(void **state)
{
	(void)state;
	two_in_each();
	comm.next = NULL;
	comm.nranks = WORLD - 1;
	not_known();
	comm.nranks = WORLD;
	comm.by_rank = NULL;
	not_known();
	comm.by_rank = by_rank;
	for (int i = 0; i < 3; i++) {
		callers[i].tid++;
		not_known();
		callers[i].tid--;
		callers[i].rank = -1;
		not_known();
		callers[i].rank = WORLD;
		not_known();
		callers[i].rank = WORLD - 2 - i;
		by_rank[callers[i].rank] = NULL;
		not_known();
		by_rank[callers[i].rank] = &members[callers[i].rank];
		members[callers[i].rank].gone = true;
		not_known();
		members[callers[i].rank].gone = false;
	}
	callers[0].proc = &procs[0]; /* rank 2 is of the other process */
	not_known();
}

/* Of a process that is one rank its thread does not matter. */
static void beside_a_process_of_one(void **state)
{
	(void)state;
	two_in_each();
	comm.next = NULL;
	procs[0].shared = false;
	callers[1].tid = callers[2].tid = 99;
	only_the_last_seat(true);
	procs[1].shared = false;
	procs[0].shared = true;
	not_known();
}

static void two_that_are_like_it(void **state)
{
	(void)state;
	two_in_each();
	others[LAST].device = 5;
	not_known();
	others[LAST].device = 1;
	others_by_rank[LAST] = NULL;
	not_known();
	others_by_rank[LAST] = &others[LAST];
	others[LAST].proc = &procs[0];
	not_known();
	others[LAST].proc = &procs[1];
	only_the_last_seat(true);
	other.nranks = WORLD + 1; /* not like it: whatever it has there */
	others_by_rank[LAST] = NULL;
	only_the_last_seat(true);
}

static void a_seat_that_called_before(void **state)
{
	(void)state;
	two_in_each();
	procs[1].attached_ns = NOW;
	procs[1].last_call_ns = NOW + SEC; /* of the process' other rank */
	members[LAST].last_call_ns = NOW;
	only_the_last_seat(false);
	others[LAST].last_call_ns = NOW + 1;
	only_the_last_seat(true);
	others[LAST].last_call_ns = NOW - 1;
	only_the_last_seat(false);
	members[LAST].last_call_ns = NOW + 1;
	only_the_last_seat(true);
}

/* --- lives of a rank --- */

static uint64_t now;

static void give(struct event e)
{
	e.ts_ns = now;
	assert_int_equal(model_apply(empty, &e), 0);
}

static void lives(int rank, uint32_t tgid)
{
	struct event e = job_proc_event(rank, WORLD, 0);

	e.tgid = e.tid = tgid;
	give(e);
}

static int n_missing_of(const struct model *model)
{
	return comm_init_missing(model, &init, missing, &exact);
}

static void a_dead_rank(void **state)
{
	struct event exits = job_event(EV_EXIT, LAST, 0);
	uint64_t died_ns;

	(void)state;
	now = NOW - 100 * SEC;
	for (int r = 0; r < WORLD; r++)
		lives(r, 100 + r);
	for (int i = 0; i < 3; i++)
		callers[i].proc = (struct proc *)model_rank(empty, NULL, callers[i].rank);
	exits.tgid = exits.tid = 100 + LAST;
	exits.exit.last = true;
	now += SEC;
	give(exits);
	died_ns = now;
	init.first_ns = died_ns + 60 * SEC - 1;
	assert_int_equal(n_missing_of(empty), 1);
	assert_true(missing[0].proc->dead);
	assert_true(exact);
	((struct proc *)missing[0].proc)->shed = 1u << PROBES_NEEDED; /* its end was seen, whatever was not */
	assert_int_equal(n_missing_of(empty), 1);
	assert_true(exact);
	init.first_ns = died_ns + 60 * SEC;
	assert_int_equal(n_missing_of(empty), 0);
	init.first_ns = died_ns;
	lives(LAST, 200);
	assert_int_equal(n_missing_of(empty), 1);
	assert_int_equal(missing[0].proc->tgid, 200);
}

/* --- what it is known by, and how long it may last --- */

static void its_key(void **state)
{
	struct comm_init changed[] = {
		init,
		{ .id_hash = 6 },
		{ .id_hash = 5, .parent = &comm },
		{ .id_hash = 5, .parent = &other },
		{ .id_hash = 5, .nth = 1 },
		{ .id_hash = 5, .kind = COMM_INIT_SPLIT },
		{ .id_hash = 5, .nth = 1, .kind = COMM_INIT_SHRINK },
	};
	int n = sizeof(changed) / sizeof(*changed);

	(void)state;
	other = (struct comm){ .hash = 0xb0 };
	for (int a = 0; a < n; a++)
		for (int b = 0; b < n; b++)
			assert_int_equal(comm_init_key(&changed[a]) == comm_init_key(&changed[b]), a == b);
}

static void its_limit(void **state)
{
	(void)state;
	assert_true(comm_init_limit_ns(&m, &procs[0]) == 4500 * MSEC);
	mains[0].state = TASK_STOPPED;
	assert_true(comm_init_limit_ns(&m, &procs[0]) == m.hang_floor_ns);
	procs[1].dead = true;
	assert_true(comm_init_limit_ns(&m, &procs[1]) == m.hang_floor_ns);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(of_the_world),
		TEST(callers_of_another_rank),
		TEST(of_a_part),
		TEST(who_is_of_the_job),
		TEST(as_many_as_fit),
		TEST(nobody_waits),
		TEST(all_called),
		TEST(since_the_first_that_waits),
		TEST(probes_that_came_late),
		TEST(probes_that_went),
		TEST(of_a_parent),
		TEST(of_some_of_a_parent),
		TEST(a_seat_is_missing),
		TEST(a_communicator_that_is_not_like_it),
		TEST(beside_a_process_of_one),
		TEST(two_that_are_like_it),
		TEST(a_seat_that_called_before),
		TEST(a_dead_rank),
		TEST(its_key),
		TEST(its_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
