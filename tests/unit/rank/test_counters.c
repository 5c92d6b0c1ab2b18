/* SPDX-License-Identifier: Apache-2.0
 *
 * test_counters.c - what NCCL's launch counters of one member, and of its peers, say of what is pending. Three ranks,
 * sampled: 1 and 2 entered 20 operations and stay there since 10 s, 0 entered 19.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "detect/rank/counters.h"
#define HAND_RANKS 3
#include "tests/unit/job/hand_job.h"

#define SINCE_NS (NOW - 10 * SEC)

static void launched(int r, int broadcasts, int reduces, int allreduces)
{
	members[r].samples.counters[OP_BROADCAST] = broadcasts;
	members[r].samples.counters[OP_REDUCE] = reduces;
	members[r].samples.counters[OP_ALLREDUCE] = allreduces;
	members[r].entered_seq[SEQ_COLL] = broadcasts + reduces + allreduces;
}

static int setup(void **state)
{
	hand_setup(state);
	for (int r = 0; r < HAND_RANKS; r++) {
		procs[r].sample_rounds = 30;
		members[r].samples = (struct samples){
			.n = 30, .counted = true, .round = 30, .seen_ns = NOW - SEC, .since_ns = SINCE_NS + r
		};
		launched(r, 5, 5, r ? 10 : 9);
	}
	return 0;
}

static void who_is_known_by_counters_alone(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++) {
		setup(state);
		members[0].samples.counted = i != 1;
		members[0].last_call_ns = i == 2 ? 1 : 0;
		members[0].from_init = i == 3;
		members[0].gone = i == 4;
		assert_int_equal(member_by_counters(&members[0]), i == 0);
		assert_int_equal(proc_by_counters(&procs[0]), i == 0);
		assert_int_equal(counters_still_ns(&members[0]), i ? 0 : SINCE_NS);
		assert_int_equal(counters_pending_kinds(&members[0]), i ? 0 : 1 << OP_ALLREDUCE);
		members[0].next_in_proc = &members[1];
		assert_true(proc_by_counters(&procs[0]));
	}
	procs[0].members = NULL;
	assert_false(proc_by_counters(&procs[0]));
}

/* By two samples, the newest among them. */
static void still_is_seen_twice(void **state)
{
	(void)state;
	members[0].samples.seen_ns = SINCE_NS + 1;
	assert_int_equal(counters_still_ns(&members[0]), SINCE_NS);
	members[0].samples.seen_ns--;
	assert_int_equal(counters_still_ns(&members[0]), 0);
	members[0].samples.seen_ns++;
	procs[0].sample_rounds++;
	assert_int_equal(counters_still_ns(&members[0]), 0);
}

/* Of one that cannot be read any more: what the last of its peers waits in. */
static void what_is_pending(void **state)
{
	(void)state;
	assert_int_equal(counters_pending_seq(&members[0]), 19); /* it was read since they stand */
	procs[0].dead = true;
	assert_int_equal(counters_pending_seq(&members[0]), 19);
	launched(1, 5, 5, 12);
	launched(2, 5, 5, 13);
	assert_int_equal(counters_pending_seq(&members[0]), 21);
	launched(1, 5, 5, 14);
	assert_int_equal(counters_pending_seq(&members[0]), 22);
	launched(1, 5, 5, 9); /* no further than itself */
	assert_int_equal(counters_pending_seq(&members[0]), 19);
	launched(1, 5, 5, 14);
	procs[2].dead = true; /* it says nothing */
	assert_int_equal(counters_pending_seq(&members[0]), 23);
	procs[2].dead = false;
	members[2].samples.seen_ns = members[2].samples.since_ns; /* it goes on */
	assert_int_equal(counters_pending_seq(&members[0]), 19);
	procs[1].dead = procs[2].dead = true;
	assert_int_equal(counters_pending_seq(&members[0]), 19);
	procs[1].dead = procs[2].dead = false;
	members[2].samples.seen_ns = NOW;
	assert_int_equal(counters_pending_seq(&members[0]), 22);
	members[0].last_call_ns = 1; /* its calls are seen */
	assert_int_equal(counters_pending_seq(&members[0]), 19);
}

/* It was read before they stood: by then it may have entered all before that. */
static void one_that_is_not_read_any_more(void **state)
{
	(void)state;
	launched(1, 5, 5, 12);
	launched(2, 5, 5, 12);
	members[0].samples.seen_ns = SINCE_NS + 1; /* as 1 stood; before 2 did */
	assert_int_equal(counters_pending_seq(&members[0]), 19);
	members[0].samples.seen_ns = SINCE_NS;
	assert_int_equal(counters_pending_seq(&members[0]), 21);
}

static void what_kind_is_pending(void **state)
{
	(void)state;
	assert_int_equal(counters_pending_kinds(&members[0]), 1 << OP_ALLREDUCE);
	assert_int_equal(counters_pending_kinds(&members[1]), 0);
	launched(2, 5, 7, 11); /* it is further ahead: it shows what comes later */
	assert_int_equal(counters_pending_kinds(&members[0]), 1 << OP_ALLREDUCE);
	launched(1, 5, 9, 13);
	assert_int_equal(counters_pending_kinds(&members[0]), 1 << OP_ALLREDUCE | 1 << OP_REDUCE);
	assert_int_equal(counters_kind(&members[0], 1 << OP_ALLREDUCE | 1 << OP_REDUCE), OP_REDUCE); /* the first */
	launched(2, 5, 6, 11);
	assert_int_equal(counters_kind(&members[0], 1 << OP_ALLREDUCE | 1 << OP_REDUCE), OP_ALLREDUCE);
	launched(2, 5, 8, 11);
	assert_int_equal(counters_kind(&members[0], 1 << OP_ALLREDUCE | 1 << OP_REDUCE), OP_REDUCE);
	assert_int_equal(counters_kind(&members[0], 1 << OP_ALLREDUCE), OP_ALLREDUCE);
	assert_int_equal(counters_kind(&members[0], 1 << OP_BROADCAST), OP_ALLREDUCE); /* none is missing */
	launched(2, 8, 8, 10);
	assert_int_equal(counters_kind(&members[0], 0x1f), OP_BROADCAST);
	launched(2, 7, 8, 10);
	assert_int_equal(counters_kind(&members[0], 0x1f), OP_REDUCE);
	members[2].samples.seen_ns = 0; /* it goes on: it is nobody's measure */
	assert_int_equal(counters_pending_kinds(&members[0]), 1 << OP_ALLREDUCE | 1 << OP_REDUCE);
	assert_int_equal(counters_kind(&members[0], 0x1f), OP_REDUCE);
	members[1].samples.seen_ns = 0;
	assert_int_equal(counters_pending_kinds(&members[0]), 0);
	assert_int_equal(counters_kind(&members[0], 0x1f), OP_ALLREDUCE);
}

/* The first of those that entered it and stay. */
static void since_when_they_wait(void **state)
{
	(void)state;
	assert_int_equal(counters_since_ns(&comm, 18), SINCE_NS);
	assert_int_equal(counters_since_ns(&comm, 19), SINCE_NS + 1);
	assert_int_equal(counters_since_ns(&comm, 20), 0);
	members[1].samples.seen_ns = 0;
	assert_int_equal(counters_since_ns(&comm, 19), SINCE_NS + 2);
	members[1].samples.seen_ns = NOW;
	members[1].samples.since_ns = SINCE_NS + 2;
	members[2].samples.since_ns = SINCE_NS + 1;
	assert_int_equal(counters_since_ns(&comm, 19), SINCE_NS + 1);
}

static void what_an_operation_is(void **state)
{
	enum op_kind kind = OP_SEND;

	(void)state;
	assert_true(counters_op(&comm, 19, &kind));
	assert_int_equal(kind, OP_ALLREDUCE);
	assert_false(counters_op(&comm, 18, &kind));
	assert_false(counters_op(&comm, 20, &kind));
	launched(1, 5, 6, 10);
	launched(2, 5, 6, 10);
	assert_false(counters_op(&comm, 19, &kind)); /* there is a choice */
	launched(1, 5, 6, 8);
	assert_true(counters_op(&comm, 19, &kind)); /* the next one knows */
	assert_int_equal(kind, OP_ALLREDUCE);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		TEST(who_is_known_by_counters_alone), TEST(still_is_seen_twice),  TEST(what_is_pending),
		TEST(one_that_is_not_read_any_more),  TEST(what_kind_is_pending), TEST(since_when_they_wait),
		TEST(what_an_operation_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
