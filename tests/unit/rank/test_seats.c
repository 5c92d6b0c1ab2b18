/* SPDX-License-Identifier: Apache-2.0
 *
 * test_seats.c - the ranks of a process that is several, by hand: which members are one seat, which thread calls for
 * it, what is said of it, and what its thread does. Two communicators: all four GPUs of the process are in one of
 * eight ranks, the first two in one of two.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/rank/seat_activity.h"
#include "detect/rank/seats.h"
#include "tests/unit/job/finding_text.h"
#include "tests/unit/job/hand_job.h"

#define GPUS 4
#define OPS 20
#define MAIN HAND_PID(0)

static struct comm pair;
static struct member small[2];
static struct op ops[OPS];
static struct call call;
static struct task thread;
static struct proc *const p = &procs[0];

static void seat(struct member *mb, struct comm *c, int rank, int device)
{
	*mb = (struct member){ .comm = c, .proc = p, .rank = rank, .device = device, .next_in_proc = p->members };
	p->members = mb;
}

/* The thread that calls for GPU g is g + 10; of the first two in either communicator. */
static int fresh(void **state)
{
	hand_setup(state);
	comm.nranks = 2 * GPUS;
	pair = (struct comm){ .hash = 0xb0, .nranks = 2 };
	p->members = NULL;
	p->shared = true;
	for (int g = 0; g < GPUS; g++)
		seat(&members[g], &comm, 7 - g, g);
	for (int g = 0; g < 2; g++)
		seat(&small[g], &pair, g, g);
	for (int g = 0; g < GPUS; g++)
		ops[g] = (struct op){ .tid = 10 + g, .call_ns = 100 + g };
	for (int g = 0; g < GPUS; g++)
		members[g].ops_tail = &ops[g];
	thread = (struct task){ .tid = 12, .tgid = MAIN, .proc = p, .state = TASK_ON_CPU, .next = &mains[0] };
	p->tasks = &thread;
	return 0;
}

static void its_members(void **state)
{
	const struct member *mb;

	(void)state;
	assert_ptr_equal(mb = seat_next(&members[1], NULL), &small[1]);
	assert_ptr_equal(mb = seat_next(&members[1], mb), &members[1]);
	assert_null(seat_next(&members[1], mb));
	small[1].gone = true;
	assert_ptr_equal(seat_next(&small[1], NULL), &members[1]);
	assert_ptr_equal(seat_in(&members[0], &pair), &small[0]);
	assert_ptr_equal(seat_in(&small[0], &comm), &members[0]);
	assert_null(seat_in(&members[1], &pair));
	assert_null(seat_in(&members[2], &pair));
}

/* --- its thread --- */

static void who_called_last(void **state)
{
	(void)state;
	assert_int_equal(seat_tid(&members[0]), 10);
	small[0].ops_tail = &ops[3]; /* 3 ns later */
	assert_int_equal(seat_tid(&members[0]), 13);
	ops[3].call_ns = 100;
	assert_int_equal(seat_tid(&small[0]), 13); /* of two at once the first that is found */
	ops[3].call_ns = 99;
	assert_int_equal(seat_tid(&small[0]), 10);
	members[2].ops_tail = NULL;
	assert_int_equal(seat_tid(&members[2]), 0);
}

/* Older calls than the newest 16 count no more. */
static void who_alone_calls(void **state)
{
	struct rank_ref ref = { p, &members[0] }, whole = { p, NULL };

	(void)state;
	assert_int_equal(seat_own_tid(&members[0]), 10);
	assert_int_equal(rank_ref_tid(&ref), 10);
	assert_int_equal(rank_ref_tid(&whole), 0);
	for (int i = 0; i < OPS; i++)
		ops[i] = (struct op){ .tid = 10, .prev = i ? &ops[i - 1] : NULL };
	members[0].ops_tail = &ops[OPS - 1];
	ops[OPS - 17].tid = 11;
	assert_int_equal(seat_own_tid(&members[0]), 10);
	ops[OPS - 16].tid = 11;
	assert_int_equal(seat_own_tid(&members[0]), 0);
	ops[OPS - 16].tid = 10;
	small[0].ops_tail = &ops[OPS - 1];
	assert_int_equal(seat_own_tid(&members[0]), 10);
	small[0].ops_tail = &ops[OPS - 17]; /* two threads take turns */
	assert_int_equal(seat_own_tid(&members[0]), 0);
	members[3].ops_tail = NULL;
	assert_int_equal(seat_own_tid(&members[3]), 0);
}

static void of_a_rank(void **state)
{
	(void)state;
	for (int g = 0; g < GPUS; g++)
		assert_int_equal(rank_own_tid(p, 7 - g), 10 + g);
	assert_int_equal(rank_own_tid(p, 0), 0); /* what GPU 0 is in the pair */
	members[0].gone = small[0].gone = true;
	assert_int_equal(rank_own_tid(p, 7), 0);
}

static bool waits(uint32_t tid)
{
	struct rank_node node = { p, tid };

	return rank_node_waits(&node);
}

static void in_a_wait(void **state)
{
	(void)state;
	call = (struct call){ .tid = 11 };
	assert_false(waits(11) || waits(0));
	p->calls = &call;
	assert_false(waits(11) || waits(0)); /* it allocates */
	call.is_sync = true;
	assert_true(waits(11) && waits(0));
	assert_false(waits(12));
}

static void its_task(void **state)
{
	(void)state;
	assert_ptr_equal(seat_task(p, 12), &thread);
	assert_ptr_equal(seat_task(p, MAIN), &mains[0]);
	assert_null(seat_task(p, 99));
	assert_null(seat_task(p, 0));
}

/* --- all of a process --- */

static void assert_seats(const struct seats *s, int n, const struct member *const *all)
{
	assert_int_equal(s->n, n);
	for (int i = 0; i < n; i++)
		assert_ptr_equal(s->all[i], all[i]);
}

static void in_order(void **state)
{
	const struct member *const all[] = { &members[3], &members[2], &members[1], &members[0] };
	struct seats s;

	(void)state;
	seats_of(p, &s);
	assert_seats(&s, 4, all);
	seats_of_thread(p, 12, &s);
	assert_seats(&s, 1, all + 1);
	ops[3].tid = 12;
	seats_of_thread(p, 12, &s);
	assert_seats(&s, 2, all);
	seats_of_thread(p, 99, &s);
	assert_int_equal(s.n, 0);
	members[3].gone = true;
	seats_of(p, &s);
	assert_seats(&s, 3, all + 1);
}

static void no_more_than_fit(void **state)
{
	static struct member many[SEATS_MAX + 1];
	struct seats s;

	(void)state;
	p->members = NULL;
	for (int i = 0; i <= SEATS_MAX; i++)
		seat(&many[i], &comm, i, i);
	seats_of(p, &s);
	assert_int_equal(s.n, SEATS_MAX);
}

/* --- what is said --- */

static const char *said(const struct seats *s, const struct comm *c)
{
	static struct finding f;
	static struct finding_list list;

	finding_list_free(&list);
	list = (struct finding_list){ 0 };
	f = (struct finding){ .kind = FINDING_HANG, .peer = -1 };
	if (s)
		seats_note(&f, &list, s, c);
	else
		proc_ranks_note(&f, &list, p, (uint32_t)c->first_ns);
	return strchr(finding_text_of(&f), 'y') + 1; /* behind "by" */
}

static const char *said_of(uint32_t tid)
{
	struct comm c = { .first_ns = tid };

	return said(NULL, &c);
}

static void what_is_said(void **state)
{
	struct seats one = { { &members[1] }, 1 }, two = { { &members[1], &members[0] }, 2 }, none = { .n = 0 };

	(void)state;
	assert_string_equal(said(&none, NULL), " 0 ranks");
	assert_string_equal(said(&one, NULL), " 0 ranks 6\n"
					      "member pid 100, GPU 1, rank 6 of 8 in 0x00000000000000a0\n"
					      "gpu 1\ncomm_rank 6");
	assert_string_equal(said(&one, &pair), " 0 ranks 6\n"
					       "member pid 100, GPU 1, rank 1 of 2 in 0x00000000000000b0\n"
					       "gpu 1\ncomm_rank 1");
	assert_string_equal(said(&two, NULL), " 0 ranks 6,7\n"
					      "member pid 100, GPUs 1,0, ranks 6,7 of 8 in 0x00000000000000a0");
}

/* Not in the communicator that is named; GPUs that are not known. */
static void what_is_not_known(void **state)
{
	struct seats other = { { &members[2] }, 1 }, two = { { &members[0], &members[2] }, 2 };

	(void)state;
	assert_string_equal(said(&other, &pair), " 0 ranks 5\n"
						 "member pid 100, GPU 2, rank  of 2 in 0x00000000000000b0\n"
						 "gpu 2");
	assert_string_equal(said(&two, &pair), " 0 ranks 7,5\n"
					       "member pid 100, GPUs 0,2, rank 0 of 2 in 0x00000000000000b0");
	members[2].device = -1;
	assert_string_equal(said(&other, NULL), " 0 ranks 5\n"
						"member pid 100, rank 5 of 8 in 0x00000000000000a0\n"
						"comm_rank 5");
	assert_string_equal(said(&two, NULL), " 0 ranks 7,5\n"
					      "member pid 100, ranks 7,5 of 8 in 0x00000000000000a0");
}

static void of_a_process(void **state)
{
	(void)state;
	assert_string_equal(said_of(13), " 0 ranks 4\n"
					 "member pid 100, GPU 3, rank 4 of 8 in 0x00000000000000a0\n"
					 "gpu 3\ncomm_rank 4");
	assert_string_equal(said_of(0), " 0 ranks 4,5,6,7\n"
					"member pid 100, GPUs 3,2,1,0, ranks 4,5,6,7 of 8 in 0x00000000000000a0");
	assert_string_equal(said_of(99), said_of(0));
	p->shared = false;
	assert_string_equal(said_of(13), " 0 ranks 0");
}

/* --- what its thread does --- */

static struct rank_activity does(uint32_t tid, bool whole)
{
	return seats_activity(&m, p, tid, whole, NOW - 9 * SEC);
}

static void thread_is(enum task_state s, enum activity what)
{
	thread.state = s;
	assert_int_equal(does(12, false).what, what);
	assert_ptr_equal(does(12, false).task, &thread);
}

static void what_a_thread_does(void **state)
{
	(void)state;
	thread.since_ns = NOW - 9 * SEC;
	thread.prev_seen_ns = NOW - SEC;
	thread.seen_ns = NOW;
	thread.run_ns = SEC / 4;
	thread_is(TASK_ON_CPU, ACTIVITY_BUSY);
	assert_true(does(12, false).cpu_share == 0.25);
	thread_is(TASK_DISK, ACTIVITY_DISK);
	thread_is(TASK_STOPPED, ACTIVITY_STOPPED);
	thread_is(TASK_SLEEP, ACTIVITY_ASLEEP);
	thread.since_ns = NOW - 400 * MSEC;
	thread_is(TASK_SLEEP, ACTIVITY_BUSY);
	thread.since_ns--;
	thread_is(TASK_SLEEP, ACTIVITY_ASLEEP);
	thread.blocked = true;
	thread_is(TASK_SLEEP, ACTIVITY_BLOCKED);
}

/* As the process does where the thread is not known, or is all of it, or the process is gone. */
static void what_its_process_does(void **state)
{
	(void)state;
	thread.state = TASK_ON_CPU;
	mains[0].state = TASK_STOPPED;
	for (int whole = 0; whole < 2; whole++) {
		assert_int_equal(does(99, whole).what, ACTIVITY_STOPPED);
		assert_int_equal(does(0, whole).what, ACTIVITY_STOPPED);
		assert_ptr_equal(does(99, whole).task, &mains[0]);
		assert_ptr_equal(does(0, whole).task, &mains[0]); /* it alone is stopped, by a debugger */
		thread.state = TASK_STOPPED;
		assert_int_equal(does(0, whole).what, ACTIVITY_STOPPED);
		assert_null(does(0, whole).task); /* which of its threads says nothing */
		thread.state = TASK_ON_CPU;
	}
	assert_int_equal(does(12, true).what, ACTIVITY_STOPPED);
	assert_int_equal(does(12, false).what, ACTIVITY_BUSY);
	mains[0].state = TASK_ON_CPU;
	mains[0].blocked = true;
	assert_ptr_equal(does(0, true).task, &mains[0]);
	mains[0].blocked = false;
	mains[0].prev_seen_ns = NOW - SEC;
	mains[0].seen_ns = NOW;
	assert_int_equal(does(0, false).what, does(99, false).what);
	assert_null(does(0, false).task); /* nothing distinguishes the threads */
	assert_non_null(does(99, false).task);
	p->dead = true;
	assert_int_equal(does(12, false).what, ACTIVITY_DEAD);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, fresh)
	const struct CMUnitTest tests[] = {
		TEST(its_members),
		TEST(who_called_last),
		TEST(who_alone_calls),
		TEST(of_a_rank),
		TEST(in_a_wait),
		TEST(its_task),
		TEST(in_order),
		TEST(no_more_than_fit),
		TEST(what_is_said),
		TEST(what_is_not_known),
		TEST(of_a_process),
		TEST(what_a_thread_does),
		TEST(what_its_process_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
