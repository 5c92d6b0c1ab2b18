/* SPDX-License-Identifier: Apache-2.0
 *
 * test_slow_step_phase.c - what is said of the phase that made a job's iterations longer, while what the windows show
 * changes: it stays until another one holds. Stands in for phase_windows.c, and so says itself what they show.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "detect/straggler/phase_windows.h"
#include "tests/unit/straggler/hand_steps.h"

#define SLOW_S 1.5
#define UNLIKE 10 /* windows in a row */

static struct phase_verdict shows, said; /* the newest windows; the finding */
static uint64_t pushed;
static int n_compared;

int phase_windows_push(struct phase_windows *s, const struct model *of, const struct job_id *id, uint64_t n)
{
	(void)s;
	(void)of;
	assert_ptr_equal(id, &job);
	assert_int_equal(n, ++pushed);
	return 0;
}

void phase_windows_compare(struct phase_windows *s, const struct model *of, const struct job_id *id, uint64_t recent,
			   uint64_t base)
{
	(void)s;
	(void)of;
	(void)id;
	assert_true(recent == 10 && base == 40);
	n_compared++;
}

struct phase_verdict phase_windows_judge(const struct phase_windows *s, const struct model *of, const struct job_id *id,
					 uint64_t recent)
{
	(void)s;
	(void)of;
	(void)id;
	assert_int_equal(recent, 10);
	return shows;
}

bool phase_verdicts_alike(const struct phase_verdict *a, const struct phase_verdict *b)
{
	return a->reason.phase == b->reason.phase && a->proc == b->proc;
}

void phase_verdict_note(struct finding *f, const struct model *of, const struct phase_verdict *v)
{
	(void)f;
	(void)of;
	said = *v;
}

void phase_windows_free(struct phase_windows *s)
{
	(void)s;
}

static void show(int phase, uint64_t worker)
{
	shows = (struct phase_verdict){ .reason = { .phase = phase, .part = phase >= 0 ? 0.9 : 0 }, .worker = worker };
}

static int slow(void **state)
{
	pushed = n_compared = 0;
	begin(state);
	many(30, 1);
	show(PHASE_DATA_WAIT, 77);
	assert_int_equal(until_slow(SLOW_S), 10);
	return 0;
}

/* Which worker keeps the rank waiting is seen now and then; once it is known it is said. */
static void a_worker_once_known(void **state)
{
	(void)state;
	assert_int_equal(said.worker, 77);
	show(PHASE_DATA_WAIT, 0);
	step(SLOW_S);
	assert_int_equal(said.worker, 77);
	show(PHASE_DATA_WAIT, 88);
	step(SLOW_S);
	assert_int_equal(said.worker, 88);
	show(PHASE_FORWARD, 0); /* of another phase it is none */
	many(UNLIKE, SLOW_S);
	assert_int_equal(said.reason.phase, PHASE_FORWARD);
	assert_int_equal(said.worker, 0);
}

static void another_phase_has_to_hold(void **state)
{
	(void)state;
	show(PHASE_FORWARD, 0);
	many(UNLIKE - 1, SLOW_S);
	assert_int_equal(said.reason.phase, PHASE_DATA_WAIT);
	show(PHASE_DATA_WAIT, 77); /* the old one again: from the beginning */
	step(SLOW_S);
	show(PHASE_FORWARD, 0);
	many(UNLIKE - 1, SLOW_S);
	show(-1, 0); /* none: the same */
	step(SLOW_S);
	assert_int_equal(said.reason.phase, PHASE_DATA_WAIT);
	show(PHASE_FORWARD, 0);
	many(UNLIKE - 1, SLOW_S);
	assert_int_equal(said.reason.phase, PHASE_DATA_WAIT);
	step(SLOW_S);
	assert_int_equal(said.reason.phase, PHASE_FORWARD);
	show(PHASE_DATA_WAIT, 77); /* and back */
	many(UNLIKE - 1, SLOW_S);
	assert_int_equal(said.reason.phase, PHASE_FORWARD);
	step(SLOW_S);
	assert_int_equal(said.reason.phase, PHASE_DATA_WAIT);
}

/* The next time it begins without one, and what comes first is said at once. */
static void none_is_left_of_the_last_time(void **state)
{
	(void)state;
	assert_true(until_over(1) > 0);
	many(60, 1);
	show(-1, 0);
	assert_int_equal(until_slow(SLOW_S), 10);
	assert_int_equal(said.reason.phase, -1);
	assert_int_equal(n_compared, 2);
	assert_int_equal(only()->cause, CAUSE_GPU_OR_UNKNOWN);
	show(PHASE_BACKWARD, 0);
	step(SLOW_S);
	assert_int_equal(said.reason.phase, PHASE_BACKWARD);
}

static void what_it_is_as_a_cause(void **state)
{
	(void)state;
	assert_int_equal(only()->cause, CAUSE_DATA_WAIT);
	show(PHASE_OPTIMIZER, 0);
	many(UNLIKE, SLOW_S);
	assert_int_equal(only()->cause, CAUSE_HOST_PHASE);
	show(PHASE_GC, 0);
	many(UNLIKE, SLOW_S);
	assert_int_equal(only()->cause, CAUSE_GC);
	show(PHASE_GPU_WAIT, 0);
	many(UNLIKE, SLOW_S);
	assert_int_equal(only()->cause, CAUSE_GPU_OR_UNKNOWN); /* it may be a wait for communication */
	shows.computes = true;
	step(SLOW_S);
	assert_int_equal(only()->cause, CAUSE_GPU);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, slow, end)
	const struct CMUnitTest tests[] = {
		TEST(a_worker_once_known),
		TEST(another_phase_has_to_hold),
		TEST(none_is_left_of_the_last_time),
		TEST(what_it_is_as_a_cause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
