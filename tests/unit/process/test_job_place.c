/* SPDX-License-Identifier: Apache-2.0
 *
 * test_job_place.c - a job chosen by its name and where it lives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "job/job_place.h"

static void what_selects_a_job(void **state)
{
	struct job_place at = { .netns = 4026532281,
				.user = 1001,
				.pod_name = "a",
				.container = "0123456789ab",
				.cgroup = "/user/s.scope" };

	(void)state;
	assert_true(job_selected("x", "x", &at) && job_selected("x (pod a)", "x", &at));
	assert_true(job_selected("x (netns 4026532281)", "x", &at) && job_selected("x (cgroup s.scope)", "x", &at));
	assert_true(job_selected("x (container 0123456789ab)", "x", &at));
	assert_false(job_selected("x (pod b)", "x", &at) || job_selected("xy", "x", &at) ||
		     job_selected("x ()", "x", &at));
	assert_false(job_selected("x (pod a]", "x", &at) || job_selected("x [pod a)", "x", &at) ||
		     job_selected("x(pod a)", "x", &at) || job_selected("y (pod a)", "x", &at));
	assert_false(job_selected("x )", "x", &at) || job_selected("x (", "x", &at) ||
		     job_selected("x (pod ab)", "x", &at));
	assert_false(job_selected("x (pod a", "x", &at) || job_selected("x (host )", "x", &at) ||
		     job_selected("x (netns 402653228)", "x", &at));
	assert_true(job_selected("x (user 1000)", "x", &at));
	assert_false(job_selected("x (user 1001)", "x", &at));
	at.user = 0;
	assert_false(job_selected("x (user 4294967295)", "x", &at));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(what_selects_a_job) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
