/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_graph.c - training with CUDA graphs: a rank that does not launch its graph, and graphs that differ.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

#define RANKS 4
#define STREAM 5
#define EXEC 60

static struct model *m;
static struct detectors *d;
static struct finding_list list;
static uint64_t now;
static int odd = -1; /* the rank whose graph differs */

static void give(struct event e)
{
	e.ts_ns = now += MSEC / 10;
	assert_int_equal(model_apply(m, &e), 0);
}

static void capture(int r, enum capture_kind kind, uint64_t stream, uint64_t graph, uint64_t exec)
{
	struct event e = job_event(EV_CAPTURE, r, 0);

	e.capture.kind = kind;
	e.capture.stream = stream;
	e.capture.graph = graph;
	e.capture.exec = exec;
	give(e);
}

static void call(int r, uint64_t count)
{
	give(job_call_event(r, OP_ALLREDUCE, 7, STREAM, count));
}

static void comm_init(int r)
{
	give(job_proc_event(r, RANKS, 0));
	give(job_ready_event(r, RANKS, 7, 0xabc));
	capture(r, CAPTURE_BEGIN, STREAM, 0, 0);
	call(r, 100);
	call(r, r == odd ? 300 : 200);
	capture(r, CAPTURE_END, STREAM, 50, 0);
	capture(r, CAPTURE_INSTANTIATE, 0, 50, EXEC);
}

static void sync(int r, bool returns)
{
	struct event e = job_wait_event(r, STREAM);

	give(e);
	e.kind = EV_SYNC_END;
	e.sync.begin_ns = now;
	if (returns)
		give(e);
}

static void tick(void)
{
	struct event e = { .kind = EV_TICK };

	for (int r = 0; r < RANKS; r++) {
		struct event t = job_event(EV_TASK, r, 0);

		t.task.state = TASK_SLEEP;
		t.task.since_ns = JOB_T0;
		give(t);
	}
	now += 250 * MSEC;
	give(e);
	assert_int_equal(detectors_tick(d, m, &list), 0);
}

static void steps(int n)
{
	for (int i = 0; i < n; i++) {
		for (int r = 0; r < RANKS; r++)
			capture(r, CAPTURE_LAUNCH, STREAM, 0, EXEC);
		for (int r = 0; r < RANKS; r++)
			sync(r, true);
		tick();
	}
}

static int fresh(void **state)
{
	(void)state;
	now = JOB_T0;
	m = model_new();
	d = detectors_new();
	return 0;
}

static int done(void **state)
{
	(void)state;
	finding_list_free(&list);
	detectors_free(d);
	model_free(m);
	odd = -1;
	return 0;
}

static void test_a_rank_does_not_launch(void **state)
{
	const struct finding *f;

	(void)state;
	for (int r = 0; r < RANKS; r++)
		comm_init(r);
	steps(30);
	assert_int_equal(list.n, 0);
	for (int r = 0; r < RANKS; r++)
		if (r != 2) {
			capture(r, CAPTURE_LAUNCH, STREAM, 0, EXEC);
			sync(r, false);
		}
	for (int i = 0; i < 18; i++)
		tick();
	assert_int_equal(list.n, 1);
	f = &list.items[0];
	assert_int_equal(f->class, HANG_MISSING_ENTER);
	assert_int_equal(f->n_ranks, 1);
	assert_int_equal(f->ranks[0], 2);
	assert_true(f->comm == 0xabc && f->op == OP_ALLREDUCE && f->seq == 60);
}

static void test_graphs_that_differ(void **state)
{
	(void)state;
	odd = 3;
	for (int r = 0; r < RANKS; r++)
		comm_init(r);
	steps(2);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].kind, FINDING_MISMATCH);
	assert_int_equal(list.items[0].ranks[0], 3);
	assert_int_equal(list.items[0].n_ranks, 1);
	assert_true(list.items[0].seq == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_rank_does_not_launch, fresh, done),
		cmocka_unit_test_setup_teardown(test_graphs_that_differ, fresh, done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
