/* SPDX-License-Identifier: Apache-2.0
 *
 * test_step_gc.c - Python's collections of garbage as a phase of a step: what they are taken from, and what of them
 * does not count.
 */
#include "tests/unit/rank/step_marks.h"

static void collected(uint32_t n, int ms, uint32_t tid)
{
	struct event e = { .kind = EV_PYTHON_GC, .tid = tid, .python_gc = { .busy_ns = ms * MS, .n = n } };

	e.python_gc.begin_ns = (now_ms - ms) * MS;
	apply(&e);
}

/* A collection is in no other phase than its own, whatever thread it is of; one that runs is where the process is. */
static void collections(void **state)
{
	struct event attach = { .kind = EV_ATTACH, .attach = { .n_probes = 2, .for_tracer = WIRE_PYTHON } };

	(void)state;
	collected(1, 4, TID); /* before anything is known of it */
	step();
	assert_false(m->procs->gc_visible);
	apply(&attach);
	assert_true(m->procs->gc_visible);
	range(DATA, 5);
	mark(TORCH_RANGE_BEGIN, DDP);
	now_ms += 7;
	collected(3, 5, TID);
	mark(TORCH_RANGE_END, "");
	mark(TORCH_BACKWARD_BEGIN, "");
	now_ms += 30;
	collected(0, 10, TID + 1);
	assert_int_equal(proc_phase(m->procs), PHASE_GC);
	now_ms += 5;
	collected(1, 15, TID + 1);
	assert_int_equal(proc_phase(m->procs), PHASE_BACKWARD);
	mark(TORCH_BACKWARD_END, "");
	range(STEP, 4);
	now_ms += 3;
	collected(1, 2, TID); /* outside of all */
	range(DATA, 1);
	phases_are(5, 2, 20, 4, 54);
	assert_int_equal(last.phase_ns[PHASE_GC], 22 * MS);
	assert_int_equal(step_other_ns(&last), 1 * MS);
	totals_are(1, 54, 5, 2, 20, 4, 1);
	assert_int_equal(last.proc->phase_totals.host_ns[PHASE_GC], 22 * MS);
	step();
	range(DATA, 1);
	assert_int_equal(last.phase_ns[PHASE_GC], 0);
}

/* More than a step is long, or of a child, or without the probes: nothing is taken from its phases. */
static void collections_that_do_not_count(void **state)
{
	struct event shed = { .kind = EV_BUDGET,
			      .budget = { .what = BUDGET_SHED, .group = PROBES_GC, .shed = 1u << PROBES_GC } };

	(void)state;
	step();
	range(DATA, 5);
	collected(1, 500, TID); /* it began before the step did */
	assert_int_equal(proc_phase(m->procs), PHASE_OTHER);
	backward(20);
	range(STEP, 4);
	range(DATA, 1);
	assert_true(last.phase_ns[PHASE_GC] == 5 * MS && last.phase_ns[PHASE_BACKWARD] == 20 * MS);
	collected(0, 700, TID);
	assert_int_equal(proc_phase(m->procs), PHASE_GC);
	backward(1); /* the thread goes on: its end was not seen */
	assert_int_equal(proc_phase(m->procs), PHASE_OTHER);
	apply(&shed);
	collected(0, 700, TID);
	assert_int_not_equal(proc_phase(m->procs), PHASE_GC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(collections),
		TEST(collections_that_do_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
