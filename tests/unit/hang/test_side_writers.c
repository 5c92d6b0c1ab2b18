/* SPDX-License-Identifier: Apache-2.0
 *
 * test_side_writers.c - threads of a rank that write a checkpoint beside its training: that one of them is in D state
 * excuses no rank that hangs, and names none that waits. Threads that read what the rank waits for are its work.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/evidence.h"
#include "tests/unit/job/outside_samples.h"

/* Two writers of rank 3, of which one or the other is in D for an instant at each look. */
static void writers_look(int i)
{
	for (int w = 0; w < 2; w++) {
		struct event e = job_event(EV_TASK, 3, 0);

		e.tid = e.tgid + 7 + w;
		e.task.state = (i + w) % 2 ? TASK_DISK : TASK_SLEEP;
		e.task.since_ns = now - 100 * MSEC;
		give(e);
	}
}

static void looks(const uint64_t n[RANKS], int times)
{
	for (int i = 0; i < times; i++) {
		writers_look(i);
		world(n);
		tick();
	}
}

static void a_rank_that_hangs_beside_its_writers(void **state)
{
	uint64_t n[RANKS] = { 100, 100, 100, 100 };

	(void)state;
	m->hang_floor_ns = 1500 * MSEC;
	ranks_appear();
	for (int i = 0; i < 60; i++) {
		for (int r = 0; r < RANKS; r++)
			n[r] += 5;
		looks(n, 1);
	}
	for (int r = 0; r < 3; r++)
		n[r]++;
	looks(n, 12);
	assert_int_equal(only()->class, HANG_MISSING_ENTER);
	assert_int_equal(only()->ranks[0], 3);
	looks(n, 80);
	assert_int_equal(only()->severity, SEVERITY_CRITICAL);
}

/* Rank 3 is healthy: eight threads of it look through a folder on a network file system, each in D at most looks and in
 * none for long; its main thread waits for them, and its peers for that. */
static void readers_look(int i)
{
	for (int w = 0; w < 8; w++) {
		struct event e = job_event(EV_TASK, 3, 0);

		e.tid = e.tgid + 7 + w;
		e.task.state = (i + w) % 4 ? TASK_DISK : TASK_SLEEP;
		e.task.since_ns = now - 1 * MSEC;
		give(e);
	}
}

static void reader_looks(void)
{
	struct event e = job_event(EV_TASK, 3, 0);

	e.tid = e.tgid + 7;
	e.task.state = TASK_DISK;
	e.task.since_ns = now - 1 * MSEC;
	give(e);
}

static void waits_beside_readers(double seconds, int n_readers)
{
	uint64_t n[RANKS] = { 100, 100, 100, 100 };

	m->hang_floor_ns = 1500 * MSEC;
	ranks_appear();
	for (int i = 0; i < 60; i++) {
		for (int r = 0; r < RANKS; r++)
			n[r] += 5;
		world(n);
		tick();
	}
	for (int r = 0; r < 3; r++)
		n[r]++;
	for (uint64_t i = 0, end_ns = now + (uint64_t)(seconds * SEC); now < end_ns; i++) {
		if (n_readers == 8)
			readers_look(i);
		else if (n_readers)
			reader_looks();
		world(n);
		tick();
		for (size_t k = 0; k < list.n; k++)
			assert_true(seconds > 90 || list.items[k].kind == FINDING_OBSERVATION);
	}
}

static void a_rank_that_waits_for_its_readers(void **state)
{
	(void)state;
	waits_beside_readers(60, 8);
	assert_int_equal(only()->cause, CAUSE_BUSY);
}

/* One that reads many small things is in another short wait at each look. */
static void a_rank_that_waits_for_one_reader(void **state)
{
	(void)state;
	waits_beside_readers(60, 1);
	assert_int_equal(only()->cause, CAUSE_BUSY);
}

/* Nor does that last for ever. */
static void readers_that_never_end(void **state)
{
	(void)state;
	waits_beside_readers(93, 8);
	assert_int_equal(only()->kind, FINDING_HANG);
	assert_int_equal(only()->ranks[0], 3);
}

static void insert(struct job *j, struct event e)
{
	size_t at = 0;

	j->events = realloc(j->events, (j->n_events + 1) * sizeof(e));
	assert_non_null(j->events);
	while (at < j->n_events && j->events[at].ts_ns <= e.ts_ns)
		at++;
	memmove(&j->events[at + 1], &j->events[at], (j->n_events - at) * sizeof(e));
	j->events[at] = e;
	j->n_events++;
}

/* A thread of the rank has been in fsync() for longer than the limit as the fault comes. */
static void writer_blocks(struct job *j, int rank)
{
	struct event e = job_event(EV_BLOCKED, rank, j->fault_ns[0] - 1 * SEC);

	e.tid = e.tgid + 7;
	e.blocked.begin_ns = e.ts_ns - 5 * SEC;
	e.blocked.wchan = "nfs_wait_bit_killable";
	e.blocked.kernel_stack = "nfs_wait_bit_killable nfs_file_fsync";
	e.blocked.syscall = "fsync";
	e.blocked.file = "/ckpt/shard";
	e.blocked.mount = "/ckpt (nfs4 filer:/ckpt, 0:52)";
	insert(j, e);
}

/* Ranks 0 to 2 write, and wait for rank 3, which sleeps. */
static void who_waits_beside_its_writer_is_not_named(void **state)
{
	(void)state;
	for (int seed = 1; seed < 9; seed++) {
		struct job_opts o = job_usual(2, 2, 1, seed);
		const struct seen_finding *hang;
		struct verdicts v;
		struct job *j;

		o.run_ahead = seed % 2;
		o.tail_s = 10;
		o.faults[0] = (struct fault){ FAULT_HANG, 3, 10, 0, JOB_FOREVER, 2 };
		j = job_new(&o);
		for (int r = 0; r < 3; r++)
			writer_blocks(j, r);
		job_play(j, &v, NULL, NULL);
		hang = verdict_of(&v, FINDING_HANG);
		assert_non_null(hang);
		for (size_t i = 0; i < v.n; i++)
			if (v.all[i].f.kind == FINDING_HANG)
				assert_true(v.all[i].f.n_ranks == 1 && v.all[i].f.ranks[0] == 3);
		verdicts_free(&v);
		job_free(j);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_rank_that_hangs_beside_its_writers),     TEST(a_rank_that_waits_for_its_readers),
		TEST(a_rank_that_waits_for_one_reader),         TEST(readers_that_never_end),
		TEST(who_waits_beside_its_writer_is_not_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
