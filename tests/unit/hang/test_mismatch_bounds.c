/* SPDX-License-Identifier: Apache-2.0
 *
 * test_mismatch_bounds.c - operations that differ, by hand: which is right, what is said of each difference, which
 * numbers count after a loss, and how long it is reported.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/detect.h"
#include "tests/unit/job/finding_text.h"

#define SEC 1000000000ull
#define RANKS 4
#define PAST 3 /* operations of each rank */

extern const struct detector detector_mismatch;

static struct model m, *empty;
static struct job_id job = { .name = "j", .shown = "j" };
static struct node node;
static struct steps steps[RANKS];
static struct comm comm;
static struct member members[RANKS];
static struct proc procs[RANKS];
static struct op ops[RANKS][PAST];
static void *memory;
static struct finding_list list;

/* Three operations of each, the same of all; the newest is #2. */
static void rank_make(int r)
{
	procs[r] = (struct proc){ .key = 50 + r, .tgid = 50 + r, .node = &node, .rank = r, .steps = &steps[r] };
	procs[r].job = &job;
	procs[r].leader = &procs[r];
	members[r] = (struct member){ .comm = &comm, .proc = &procs[r], .rank = r, .seq_known = true };
	members[r].next_in_comm = r + 1 < RANKS ? &members[r + 1] : NULL;
	members[r].next_seq[SEQ_COLL] = PAST;
	steps[r] = (struct steps){ 0 };
	for (int i = 0; i < PAST; i++) {
		ops[r][i] =
			(struct op){ .member = &members[r], .kind = OP_ALLREDUCE, .dtype = 7, .root = -1, .peer = -1 };
		ops[r][i].count = 100;
		ops[r][i].seq = i;
		ops[r][i].signature = 1000;
		ops[r][i].call_ns = (10 + 10 * i + r) * SEC;
		ops[r][i].prev = ops[r][i].prev_in_proc = i ? &ops[r][i - 1] : NULL;
	}
	members[r].ops_tail = &ops[r][PAST - 1];
}

static int fresh(void **state)
{
	(void)state;
	empty = model_new();
	m = *empty;
	m.now_ns = 40 * SEC;
	m.comms = &comm;
	comm = (struct comm){ .hash = 12, .nranks = RANKS, .n_seen = RANKS, .members = &members[0] };
	comm.highest_seq[SEQ_COLL] = PAST;
	for (int r = 0; r < RANKS; r++)
		rank_make(r);
	memory = calloc(1, detector_mismatch.state_bytes);
	assert_non_null(memory);
	return 0;
}

static int done(void **state)
{
	(void)state;
	detector_mismatch.release(memory);
	free(memory);
	finding_list_free(&list);
	model_free(empty);
	return 0;
}

static const struct finding *tick(void)
{
	list.n = 0;
	assert_int_equal(detector_mismatch.tick(memory, &m, &list), 0);
	assert_true(list.n <= 1);
	return list.n ? &list.items[0] : NULL;
}

static struct op *differs(int r)
{
	ops[r][2].signature = 1001;
	return &ops[r][2];
}

static void what_differs(void **state)
{
	(void)state;
	differs(2)->count = 90;
	assert_string_equal(finding_text_of(tick()),
			    "mismatch  count 0.99 AllReduce #2 in 12 since 32 w 0 c 0 by 0 ranks 2\n"
			    "count_expected 100\ncount_found 90\nn_mismatches 1");
	ops[2][2].count = 100;
	ops[2][2].dtype = 9;
	assert_string_equal(finding_text_of(tick()),
			    "mismatch  dtype 0.99 AllReduce #2 in 12 since 32 w 0 c 0 by 0 ranks 2\n"
			    "dtype_expected fp32\ndtype_found bf16\nn_mismatches 1");
	ops[2][2].dtype = 7;
	ops[2][2].redop = 1;
	assert_string_equal(finding_text_of(tick()),
			    "mismatch  redop 0.99 AllReduce #2 in 12 since 32 w 0 c 0 by 0 ranks 2\n"
			    "redop_expected 0\nredop_found 1\nn_mismatches 1");
	ops[2][2].redop = 0;
	ops[2][2].root = 3;
	assert_string_equal(finding_text_of(tick()),
			    "mismatch  root 0.99 AllReduce #2 in 12 since 32 w 0 c 0 by 0 ranks 2\n"
			    "root_expected -1\nroot_found 3\nn_mismatches 1");
	ops[2][2].root = -1;
	ops[2][2].kind = OP_BROADCAST;
	assert_string_equal(finding_text_of(tick()),
			    "mismatch  op 0.99 AllReduce #2 in 12 since 32 w 0 c 0 by 0 ranks 2\n"
			    "op_expected AllReduce\nop_found Broadcast\nn_mismatches 1");
}

/* The more often called one is right, whichever comes first; of two as often the habitual one. */
static void which_is_right(void **state)
{
	static const struct {
		uint64_t signatures[RANKS];
		int habit_of; /* a rank that does what it did before; -1 none */
		const char *said;
	} cases[] = {
		{ { 1, 1, 1, 2 }, -1, "mismatch  count 0.99 AllReduce #2 in 12 since 33 w 0 c 0 by 0 ranks 3\n" },
		{ { 2, 1, 1, 1 }, -1, "mismatch  count 0.99 AllReduce #2 in 12 since 31 w 0 c 0 by 0 ranks 0\n" },
		{ { 1, 2, 2, 3 }, -1, "mismatch  count 0.99 AllReduce #2 in 12 since 31 w 0 c 0 by 0 ranks 0,3\n" },
		{ { 1, 1, 2, 2 }, -1, "mismatch  count 0.5 AllReduce #2 in 12 since 32 w 0 c 0 by 0 ranks 0,1,2,3\n" },
		{ { 1, 1, 2, 2 }, 0, "mismatch  count 0.9 AllReduce #2 in 12 since 32 w 0 c 0 by 0 ranks 2,3\n" },
		{ { 1, 1, 2, 2 }, 2, "mismatch  count 0.9 AllReduce #2 in 12 since 32 w 0 c 0 by 0 ranks 0,1\n" },
		{ { 1, 1, 2, 3 }, -1, "mismatch  count 0.99 AllReduce #2 in 12 since 32 w 0 c 0 by 0 ranks 2,3\n" },
		{ { 1, 2, 3, 4 }, 0, "mismatch  count 0.5 AllReduce #2 in 12 since 31 w 0 c 0 by 0 ranks 0,1,2,3\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fresh(NULL);
		for (int r = 0; r < RANKS; r++) {
			ops[r][2].signature = cases[i].signatures[r];
			ops[r][2].count = cases[i].signatures[r];
			steps[r].period_ops = 2;
			if (r == cases[i].habit_of)
				ops[r][0].signature = ops[r][2].signature;
			else
				ops[r][0].prev = NULL;
		}
		for (int r = 0; r < RANKS; r++) /* #0 is no matter: nobody has it any more */
			ops[r][1].prev = NULL;
		assert_int_equal(strncmp(finding_text_of(tick()), cases[i].said, strlen(cases[i].said)), 0);
		if (i + 1 < sizeof(cases) / sizeof(cases[0]))
			done(NULL);
	}
}

/* After a loss a number is good again once NCCL's counters confirmed it, or this very call. */
static void numbers_after_a_loss(void **state)
{
	static const struct {
		uint64_t checked_s;
		bool grouped, counts;
	} cases[] = { { 0, false, false }, { 35, false, false }, { 36, false, true },
		      { 31, false, true }, { 31, true, false },  { 32, false, false } };

	(void)state;
	for (size_t i = 0; i < 6; i++) {
		fresh(NULL);
		m.last_loss_ns = 35 * SEC;
		for (int r = 0; r < RANKS; r++)
			ops[r][2].seq_checked_ns = 50 * SEC;
		differs(1);
		ops[1][2].seq_checked_ns = cases[i].checked_s * SEC;
		ops[1][2].grouped = cases[i].grouped;
		assert_int_equal(tick() != NULL, cases[i].counts);
		if (i < 5)
			done(NULL);
	}
}

static void nothing_differs(void **state)
{
	(void)state;
	assert_null(tick());
	differs(1);
	assert_null(tick()); /* looked at, and all called it */
}

static void who_counts(void **state)
{
	(void)state;
	differs(1);
	for (int i = 0; i < 5; i++) {
		comm.hash = i == 1 ? 0 : 12;
		members[1].seq_known = i != 2;
		for (int r = 1; r < RANKS; r++) {
			members[r].gone = i == 3;
			procs[r].dead = i == 4;
		}
		assert_int_equal(tick() != NULL, i == 0);
	}
	for (int r = 2; r < RANKS; r++)
		procs[r].dead = true;
	procs[1].dead = false;
	members[1].seq_known = true;
	members[1].gone = false;
	assert_non_null(tick()); /* two live */
}

/* One that is not compared is not in the way of the next. */
static void others_are_looked_at(void **state)
{
	static struct comm before;

	(void)state;
	before = (struct comm){ .next = &comm };
	m.comms = &before;
	differs(1);
	assert_non_null(tick());
}

static void moves_on(int r, uint64_t n)
{
	members[r].next_seq[SEQ_COLL] = n;
	comm.highest_seq[SEQ_COLL] = n;
}

/* Told for half a minute after the last one, where the job goes on; counted are those that all called. */
static void how_long_it_is_told(void **state)
{
	(void)state;
	differs(1);
	assert_int_equal(finding_number(tick(), EVIDENCE_N_MISMATCHES), 1);
	m.now_ns += 60 * SEC;
	assert_int_equal(finding_number(tick(), EVIDENCE_N_MISMATCHES), 1); /* nobody went on */
	for (int r = 0; r < RANKS; r++)
		moves_on(r, 4);
	m.now_ns = 70 * SEC;
	assert_non_null(tick());
	m.now_ns++;
	assert_null(tick());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_differs, fresh, done),
		cmocka_unit_test_setup_teardown(which_is_right, NULL, done),
		cmocka_unit_test_setup_teardown(numbers_after_a_loss, NULL, done),
		cmocka_unit_test_setup_teardown(nothing_differs, fresh, done),
		cmocka_unit_test_setup_teardown(who_counts, fresh, done),
		cmocka_unit_test_setup_teardown(others_are_looked_at, fresh, done),
		cmocka_unit_test_setup_teardown(how_long_it_is_told, fresh, done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
