/* SPDX-License-Identifier: Apache-2.0
 *
 * test_straggler_said.c - what is said of a slow rank, word for word, in scripted jobs: one that stands alone, one of a
 * pair that blame cannot divide, iterations that are summed up to windows; and what ends it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/finding_text.h"
#include "tests/unit/job/job_script.h"

static struct job_opts o;
static struct verdicts v;
static struct job *j;

static void play(void)
{
	j = job_new(&o);
	job_play(j, &v, NULL, NULL);
}

static int done(void **state)
{
	(void)state;
	verdicts_free(&v);
	job_free(j);
	return 0;
}

static void said(const char *as)
{
	const struct seen_finding *s = verdict_of(&v, FINDING_STRAGGLER);

	assert_non_null(s);
	assert_string_equal(finding_text_of(&s->f), as);
}

static void one_rank(void **state)
{
	(void)state;
	o = job_usual(1, 4, 1, 7);
	o.steps = 30;
	o.faults[0] = (struct fault){ FAULT_SLOW, 2, 10, 50, 0, 1 };
	play();
	said("straggler  gpu_or_unknown 0.95 #0 in 0 since 104.044 w 0 c 0 by 0 ranks 2\n"
	     "blame_percent 33.1187\nwhat_if_percent 33.1187\ngap_s 0.199275\nstep_s 0.601898\n"
	     "slow_of_last_5 5\nslow_of_last_20 20\nrunqueue_wait_share 0.001\n"
	     "runqueue_wait_share_peers 0.001");
}

static void quick_iterations(void **state)
{
	(void)state;
	o = job_usual(1, 4, 1, 7);
	o.step_s = 0.05;
	o.steps = 200;
	o.faults[0] = (struct fault){ FAULT_SLOW, 1, 50, 40, 0, 1 };
	play();
	said("straggler  gpu_or_unknown 0.95 #0 in 0 since 102.57 w 0 c 0 by 0 ranks 1\n"
	     "blame_percent 27.7096\nwhat_if_percent 27.7096\ngap_s 0.0199498\nstep_s 0.0719965\n"
	     "slow_of_last_5 5\nslow_of_last_20 20\nrunqueue_wait_share 0.001\n"
	     "runqueue_wait_share_peers 0.001");
}

static void of_a_tensor_pair(void **state)
{
	(void)state;
	o = job_usual(2, 2, 1, 9);
	o.steps = 40;
	o.faults[0] = (struct fault){ FAULT_SLOW, 3, 10, 60, 0, 1 };
	play();
	said("straggler  gpu_or_unknown 0.95 #0 in 0 since 104.081 w 0 c 0 by 0 ranks 3\n"
	     "blame_percent 37.3789\nwhat_if_percent 37.3789\ngap_s 0.241008\nstep_s 0.64478\n"
	     "slow_of_last_5 5\nslow_of_last_20 20\nrunqueue_wait_share 0.001\n"
	     "runqueue_wait_share_peers 0.001");
}

/* One of two, and not known which, for a second: nothing to act upon. For longer it is said, of both. */
static void a_pair_for_a_moment(void **state)
{
	static const int steps[] = { 40, 80, 240 }; /* of 25 ms: 1, 2 and 6 s */

	for (int i = 0; i < 3; i++) {
		const struct seen_finding *s;

		o = job_usual(2, 2, 1, 9);
		o.step_s = 0.021;
		o.steps = 500;
		o.run_ahead = o.check_sync = true;
		o.faults[0] = (struct fault){ FAULT_SLOW, 1, 200, 20, 0, 1 };
		o.faults[1] = (struct fault){ FAULT_SLOW, 1, 200 + steps[i], 0, 0, 1 };
		play();
		s = verdict_of(&v, FINDING_STRAGGLER);
		assert_true(!s == (i < 2));
		if (s) {
			assert_int_equal(s->f.n_ranks, 2);
			assert_int_equal(s->f.ranks[0] + s->f.ranks[1], 1);
			assert_true(s->open_ns >= s->f.since_ns + 3 * SEC && s->open_ns < s->f.since_ns + 4 * SEC);
		}
		if (i < 2)
			done(state);
	}
}

/* Two iterations are a window; in one of the two it sleeps. Slow is who is so in more than half of them. */
static void in_every_second_iteration(void **state)
{
	(void)state;
	o = job_usual(1, 4, 1, 7);
	o.step_s = 0.11;
	o.steps = 90;
	for (int i = 0; i < JOB_FAULTS; i++)
		o.faults[i] = (struct fault){ FAULT_HANG, 2, 50 + 2 * i, 0, 0.06, 1 };
	play();
	assert_null(verdict_of(&v, FINDING_STRAGGLER));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, NULL, done)
	const struct CMUnitTest tests[] = {
		TEST(one_rank),
		TEST(quick_iterations),
		TEST(of_a_tensor_pair),
		TEST(a_pair_for_a_moment),
		TEST(in_every_second_iteration),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
