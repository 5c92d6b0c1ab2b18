/* SPDX-License-Identifier: Apache-2.0
 *
 * test_known_phase.c - what is kept of pauses at one call site, and how people read it; what an earlier session gave.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "detect/pauses.h"
#include "tests/unit/job/job_script.h"

static void assert_text(const struct known_phase *p, const char *want)
{
	char text[256];

	known_phase_text(p, text, sizeof(text));
	assert_string_equal(text, want);
}

static void numbers_of_a_phase(void **state)
{
	struct known_phase p = { .job = "j", .site = "/job/real.py:31 ckpt", .wait = "" };
	static const uint64_t took[] = { 9, 8, 30, 8, 9 };

	(void)state;
	for (int i = 0; i < 5; i++)
		known_phase_add(&p, (100 + 50 * i) * SEC, (100 + 50 * i + took[i]) * SEC, 0);
	assert_int_equal(p.n, 5);
	assert_int_equal(p.longest_ns, 30 * SEC);
	assert_int_equal(phase_series_median(&p.lengths_ns), 9 * SEC);
	assert_int_equal(known_phase_limit_ns(&p), 90 * SEC);
	assert_text(&p, "real.py:31 ckpt: 9.0 s every 50.0 s, 5 times before");
	for (int i = 0; i < 9; i++)
		known_phase_add(&p, (1000 + i) * SEC, (1002 + i) * SEC, 400 + 100 * i);
	assert_int_equal(phase_series_median(&p.lengths_ns), 2 * SEC); /* the newest count */
	assert_text(&p, "real.py:31 ckpt: 2.0 s every 100 steps, 14 times before");
}

static void once_is_enough_unless_it_was_long(void **state)
{
	struct known_phase p = { .job = "", .site = "main (train)", .wait = "" }, q = p;

	(void)state;
	assert_false(known_phase_recurs(&p));
	assert_int_equal(known_phase_quiet_ns(&p), 0);
	known_phase_add(&p, 10 * SEC, 18 * SEC, 0);
	assert_true(known_phase_recurs(&p));
	assert_int_equal(known_phase_quiet_ns(&p), 24 * SEC);
	assert_text(&p, "main (train): 8.0 s, 1 time before");
	known_phase_add(&q, 10 * SEC, 50 * SEC, 0);
	assert_false(known_phase_recurs(&q));
	assert_int_equal(known_phase_quiet_ns(&q), PHASE_TWICE_NS);
	known_phase_add(&q, 100 * SEC, 110 * SEC, 0);
	assert_true(known_phase_recurs(&q));
	assert_int_equal(known_phase_quiet_ns(&q), 120 * SEC);
}

static void learn(struct pauses *s, const struct model *m, const char *job, const char *site, uint64_t at_s)
{
	struct pause p = {
		.job = job, .site = site, .wait = "poll", .begin_ns = at_s * SEC, .end_ns = (at_s + 5) * SEC
	};

	pauses_learn(s, m, &p);
}

static void a_table_by_job_and_call_site(void **state)
{
	struct model *m = model_new();
	struct pauses s = { 0 };

	(void)state;
	learn(&s, m, "a", "x", 10);
	learn(&s, m, "a", "x", 40);
	learn(&s, m, "b", "x", 50);
	assert_int_equal(pauses_at(&s, m, "a", "x")->n, 2);
	assert_int_equal(pauses_at(&s, m, "b", "x")->n, 1);
	assert_null(pauses_at(&s, m, "b", "y"));
	assert_string_equal(pauses_like(&s, m, "a", "poll")->site, "x");
	assert_string_equal(pauses_like(&s, m, "a", "")->site, "x");
	assert_null(pauses_like(&s, m, "a", "recvfrom"));
	assert_null(pauses_like(&s, m, "c", "poll"));
	pauses_free(&s);
	model_free(m);
}

static void what_did_not_recur_for_longest_is_forgotten(void **state)
{
	struct model *m = model_new();
	struct pauses s = { 0 };
	char site[32];

	(void)state;
	for (int i = 0; i < PAUSES_MAX + 1; i++) {
		snprintf(site, sizeof(site), "f%d (x)", i);
		learn(&s, m, "a", site, 10 + i);
		if (i == 1)
			learn(&s, m, "a", "f0 (x)", 5000);
	}
	assert_int_equal(s.n, PAUSES_MAX);
	assert_null(pauses_at(&s, m, "a", "f1 (x)"));
	assert_int_equal(pauses_at(&s, m, "a", "f0 (x)")->n, 2);
	pauses_free(&s);
	model_free(m);
}

static void give_phase(struct model *m, const char *site, uint32_t n)
{
	struct event e = { .kind = EV_KNOWN_PHASE };

	e.known_phase = (struct known_phase_event){
		.job = "a", .site = site, .wait = "poll", .n = n, .longest_ns = 9 * SEC, .usual_ns = 8 * SEC
	};
	assert_int_equal(model_apply(m, &e), 0);
}

static void what_was_reported_goes_on(void **state)
{
	struct model *m = model_new();
	struct pauses s = { 0 };

	(void)state;
	for (int i = 0; i < 5; i++)
		give_phase(m, (const char *[]){ "p", "q", "r", "s", "t" }[i], 3 + i);
	give_phase(m, "q", 9); /* given anew: the last word counts */
	assert_int_equal(m->known_phases.n, 5);
	assert_int_equal(pauses_at(&s, m, "a", "q")->n, 9);
	learn(&s, m, "a", "q", 10);
	assert_int_equal(pauses_at(&s, m, "a", "q")->n, 10);
	assert_int_equal(pauses_at(&s, m, "a", "q")->longest_ns, 9 * SEC);
	assert_int_equal(pauses_at(&s, m, "a", "t")->n, 7);
	pauses_free(&s);
	model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_of_a_phase),
		cmocka_unit_test(once_is_enough_unless_it_was_long),
		cmocka_unit_test(a_table_by_job_and_call_site),
		cmocka_unit_test(what_did_not_recur_for_longest_is_forgotten),
		cmocka_unit_test(what_was_reported_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
