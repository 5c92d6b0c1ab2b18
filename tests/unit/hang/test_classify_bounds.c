/* SPDX-License-Identifier: Apache-2.0
 *
 * test_classify_bounds.c - why a root does not come, at its bounds: how long it has had to come, what its activity
 * makes of it, how long work is an observation, and when a stack says that its GPU is late. Rank 0 of four by hand,
 * late for an AllReduce; it sleeps since long.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/hang/classify.h"
#include "detect/hang/p2p.h"
#include "tests/unit/job/hand_known.h"

#define SINCE (NOW - 10 * SEC)

static struct job_id job = { .name = "j", .shown = "j" };
static struct steps steps;
static struct suspects all;
static struct suspect s;
static struct wait_root root;
static struct finding_list found;
static struct culprit c;

static int fresh(void **state)
{
	hand_setup(state);
	hand_find();
	for (int r = 0; r < HAND_RANKS; r++) {
		known[r]->job = &job;
		known[r]->steps = &steps;
	}
	m.hang_floor_ns = 1500 * MSEC;
	mains[0].state = TASK_SLEEP;
	mains[0].since_ns = SINCE - SEC;
	mains[0].prev_seen_ns = NOW - 2 * SEC;
	mains[0].seen_ns = NOW - SEC;
	mains[0].name = mains[0].syscall = mains[0].wchan = mains[0].file = "";
	mains[0].stack = (struct task_stack){ 0, false, "", "", "", "", "", "", "" };
	proxies[0] = (struct task){ .tid = 1 };
	mains[0].next = NULL;
	known[0]->last_call_ns = SINCE - 5 * SEC;
	suspects_free(&all);
	all = (struct suspects){ 0 };
	s = (struct suspect){ .proc = known[0]->key };
	s.pending = (struct pending){ .member = &members[0],
				      .space = SEQ_COLL,
				      .kind = OP_ALLREDUCE,
				      .peer = -1,
				      .seq = 7,
				      .since_ns = SINCE,
				      .limit_ns = 2 * SEC,
				      .n_waiting = 3 };
	root = (struct wait_root){ .proc = known[0], .confidence = 0.97 };
	return 0;
}

static int done(void **state)
{
	(void)state;
	suspects_free(&all);
	finding_list_free(&found);
	hand_lose();
	return 0;
}

static bool classified(void)
{
	return suspect_classify(&all, &s, &m, &root, &found, &c);
}

static void is(enum finding_kind kind, enum hang_class class, enum finding_cause cause)
{
	assert_true(classified());
	assert_int_equal(c.kind, kind);
	assert_int_equal(c.class, class);
	assert_int_equal(c.cause, cause);
	assert_ptr_equal(c.proc, known[0]);
	assert_int_equal(c.pending.seq, 7);
}

/* --- it has had time to come --- */

static void a_limit_since_it_was_free(void **state)
{
	(void)state;
	is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_ASLEEP);
	assert_true(c.confidence == 0.97 && s.is_hang);
	s.is_hang = false;
	known[0]->last_call_ns = NOW - 2 * SEC;
	assert_true(classified());
	s.is_hang = false;
	known[0]->last_call_ns++;
	assert_false(classified());
	s.is_hang = true; /* it was one: it stays one */
	assert_true(classified());
	s.is_hang = false;
	s.pending.since_ns = NOW - 90 * SEC;
	assert_false(classified());
	s.pending.since_ns--; /* longer than work may take, whatever it called meanwhile */
	assert_true(classified());
}

/* --- what it does --- */

static void what_it_does(void **state)
{
	static const struct {
		enum task_state state;
		bool blocked;
		enum finding_kind kind;
		enum hang_class class;
		enum finding_cause cause;
		bool is_hang;
	} cases[] = {
		{ TASK_SLEEP, false, FINDING_HANG, HANG_MISSING_ENTER, CAUSE_ASLEEP, true },
		{ TASK_STOPPED, false, FINDING_HANG, HANG_STOPPED, CAUSE_STOPPED, false },
		{ TASK_SLEEP, true, FINDING_HANG, HANG_HOST_BLOCKED, CAUSE_D_STATE, false },
		{ TASK_ON_CPU, false, FINDING_OBSERVATION, HANG_MISSING_ENTER, CAUSE_BUSY, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		s.is_hang = false;
		s.busy_since_ns = 0;
		mains[0].state = cases[i].state;
		mains[0].blocked = cases[i].blocked;
		mains[0].run_ns = cases[i].state == TASK_ON_CPU ? SEC : 0;
		is(cases[i].kind, cases[i].class, cases[i].cause);
		assert_int_equal(s.is_hang, cases[i].is_hang);
		assert_true(s.busy_since_ns == (cases[i].kind == FINDING_OBSERVATION ? SINCE : 0));
		s.is_hang = false;
		s.busy_since_ns = 0;
		c = (struct culprit){ .proc = known[0], .pending = s.pending };
		c.activity = rank_activity(&m, known[0], SINCE);
		assert_true(seat_classify(&all, &s, &m, &c));
		assert_true(c.kind == cases[i].kind && c.class == cases[i].class && c.cause == cases[i].cause);
		assert_int_equal(s.is_hang, cases[i].is_hang);
	}
	mains[0].state = TASK_DISK; /* an ordinary wait for storage, however long */
	mains[0].blocked = false;
	assert_false(classified());
	s.pending.since_ns = NOW - 1000 * SEC;
	known[0]->last_call_ns = s.pending.since_ns - SEC;
	assert_false(classified());
}

static void not_settled_yet(void **state)
{
	(void)state;
	mains[0].seen_ns = SINCE;
	mains[0].prev_seen_ns = SINCE - SEC;
	mains[0].since_ns = SINCE;
	assert_false(classified());
	s.busy_since_ns = SINCE; /* it worked a moment ago */
	is(FINDING_OBSERVATION, HANG_MISSING_ENTER, CAUSE_BUSY);
	s.busy_since_ns = 0;
	s.is_hang = true; /* what it did when that was clear */
	s.was = ACTIVITY_ASLEEP;
	is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_ASLEEP);
	s.was = ACTIVITY_BLOCKED;
	is(FINDING_HANG, HANG_HOST_BLOCKED, CAUSE_D_STATE);
}

/* --- how long work may take --- */

/* Rank 0 kept its peers waiting for so long, and came. */
static void came_after(uint64_t took_ns)
{
	uint64_t entered = members[0].entered_seq[SEQ_COLL];
	struct suspect *one = suspects_get_seat(&all, known[0], 0, 0, &s.pending);

	one->pending.since_ns = NOW - took_ns;
	one->busy_since_ns = one->pending.since_ns;
	members[0].entered_seq[SEQ_COLL] = s.pending.seq + 1;
	suspects_refresh(&all, &m);
	assert_null(all.first);
	members[0].entered_seq[SEQ_COLL] = entered;
}

static uint64_t busy_limit(void)
{
	return suspects_busy_limit_ns(&all, &m, &job);
}

static void work_that_takes_too_long(void **state)
{
	(void)state;
	mains[0].state = TASK_ON_CPU;
	mains[0].run_ns = SEC;
	s.pending.since_ns = NOW - 90 * SEC;
	known[0]->last_call_ns = s.pending.since_ns - 5 * SEC;
	is(FINDING_OBSERVATION, HANG_MISSING_ENTER, CAUSE_BUSY);
	s.pending.since_ns--;
	is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_BUSY);
	s.is_hang = false;
	came_after(18 * SEC); /* five times what it took before */
	assert_true(busy_limit() == 90 * SEC);
	is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_BUSY);
	s.is_hang = false;
	came_after(18 * SEC + 1);
	assert_true(busy_limit() == 90 * SEC + 5);
	is(FINDING_OBSERVATION, HANG_MISSING_ENTER, CAUSE_BUSY);
	s.is_hang = true; /* for not entering: work afterwards makes it no better */
	is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_BUSY);
}

/* --- an autopsy: its stack says that it waits for its GPU --- */

static void its_gpu_is_late(void **state)
{
	(void)state;
	mains[0].stack = (struct task_stack){
		NOW - SEC, false, "ioctl", "", "", "cuStreamSynchronize (libcuda.so.1)", "", "cuStreamSynchronize", ""
	};
	is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_ASLEEP); /* a live session */
	s.is_hang = false;
	m.hang_floor_ns = 999999999;
	is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_GPU_NOT_RETURNING);
	assert_true(c.confidence == 0.97 * 0.8);
	assert_false(s.is_hang);
	m.hang_floor_ns = 1000000000;
	is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_ASLEEP);
	m.hang_floor_ns = 250 * MSEC;
	is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_ASLEEP); /* it was reported as that */
	s.is_hang = false;
	s.busy_since_ns = SINCE;
	is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_ASLEEP);
	s.is_hang = false;
	s.busy_since_ns = 0;
	root.confidence = 0.5;
	is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_GPU_NOT_RETURNING);
	root.confidence = 0.49; /* it may wait like the others */
	is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_ASLEEP);
	s.is_hang = false;
	root.confidence = 0.5;
	s.pending.since_ns = NOW - 2 * SEC; /* kernels may take that long */
	known[0]->last_call_ns = NOW - 4 * SEC;
	mains[0].stack.ns = NOW;
	mains[0].prev_seen_ns = NOW - 2 * SEC;
	assert_true(classified());
	s.pending.since_ns++;
	assert_false(classified());
	mains[0].stack.frames = "read (libc.so.6)";
	is(FINDING_HANG, HANG_MISSING_ENTER, CAUSE_ASLEEP);
}

/* --- suspects over ticks --- */

static void seats_have_their_own(void **state)
{
	struct suspect *a, *b;

	(void)state;
	a = suspects_get_seat(&all, known[0], 0, 11, &s.pending);
	b = suspects_get_seat(&all, known[0], 1, 12, &s.pending);
	assert_true(a && b && a != b);
	assert_true(a->seat == 1 && a->tid == 11 && b->seat == 2 && b->tid == 12 && b->pending.seq == 7);
	assert_ptr_equal(suspects_get_seat(&all, known[0], 0, 99, &s.pending), a);
	assert_ptr_not_equal(suspects_get_seat(&all, known[1], 0, 11, &s.pending), a);
	assert_null(suspects_get(&all, &m, known[0])); /* the process itself lacks nothing */
	suspects_free(&all);
	assert_null(all.first);
}

/* Of one job; and what took minutes counts less. */
static void how_long_work_may_take(void **state)
{
	struct job_id other = { .name = "k", .shown = "k" };

	(void)state;
	assert_true(busy_limit() == 90 * SEC);
	came_after(100 * SEC);
	came_after(99 * SEC);
	assert_true(busy_limit() == 500 * SEC);
	assert_true(suspects_busy_limit_ns(&all, &m, &other) == 90 * SEC);
	came_after(200 * SEC);
	assert_true(busy_limit() == 600 * SEC);
	came_after(900 * SEC);
	assert_true(busy_limit() == 1800 * SEC);
}

/* Work that ended says how long it may take. A rank that did not come, or was stopped, or not reported, says nothing:
 * that its peers died first, or gave up late, is no end of it. */
static void what_an_end_teaches(void **state)
{
	static const struct {
		const char *what;
		bool busy, hang, dead, came, stopped, gone, late, teaches;
	} cases[] = {
		{ "it worked", .busy = true, .came = true, .teaches = true },
		{ "it slept", .hang = true, .came = true, .teaches = true },
		{ "it was not reported", .came = true },
		{ "it died", .busy = true, .came = true, .dead = true },
		{ "it did not come", .hang = true },
		{ "it was stopped", .busy = true, .came = true, .stopped = true },
		{ "it gave up soon", .hang = true, .gone = true, .teaches = true },
		{ "it gave up late", .hang = true, .gone = true, .late = true },
	};

	(void)state;
	m.busy_limit_ns = 0;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct suspect *one = suspects_get_seat(&all, known[0], 0, 0, &s.pending);

		one->busy_since_ns = cases[i].busy ? SINCE : 0;
		one->is_hang = cases[i].hang;
		one->pending.since_ns = cases[i].late ? NOW - 30 * SEC : SINCE;
		known[0]->dead = cases[i].dead;
		members[0].entered_seq[SEQ_COLL] = cases[i].came ? 8 : 7;
		members[0].gone = cases[i].gone;
		one->was_stopped = cases[i].stopped;
		suspects_refresh(&all, &m);
		assert_null(all.first);
		if (busy_limit() != (cases[i].teaches ? 50 * SEC : 0))
			fail_msg("%s", cases[i].what);
		known[0]->dead = members[0].gone = false;
		suspects_free(&all);
	}
}

/* A Recv that it does not call is over with the peer that waits for it, too. */
static void a_transfer_of_which_the_peer_ended(void **state)
{
	(void)state;
	m.busy_limit_ns = 0;
	s.pending.space = SPACE_P2P;
	s.pending.kind = OP_RECV;
	s.pending.peer = 1;
	for (int i = 2; i >= 0; i--) {
		known[1]->dead = i == 2;
		members[1].gone = i == 1;
		suspects_get_seat(&all, known[0], 0, 0, &s.pending)->is_hang = true;
		suspects_refresh(&all, &m);
		assert_true(busy_limit() == (i ? 0 : 50 * SEC));
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(a_limit_since_it_was_free), TEST(what_it_does),           TEST(not_settled_yet),
		TEST(work_that_takes_too_long),  TEST(how_long_work_may_take), TEST(its_gpu_is_late),
		TEST(seats_have_their_own),      TEST(what_an_end_teaches),    TEST(a_transfer_of_which_the_peer_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
