/* SPDX-License-Identifier: Apache-2.0
 *
 * test_pauses_bounds.c - words and numbers appended to a text, to its last byte and not beyond; and pauses by their
 * place: which is known there, which is like it, and which is forgotten first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/pauses.h"
#include "detect/phrase.h"

#define SEC 1000000000ull

static void words_that_fit(void **state)
{
	char text[6] = "ab";

	(void)state;
	phrase_add(text, sizeof(text), "cdef");
	assert_string_equal(text, "ab");
	phrase_add(text, sizeof(text), "cde");
	assert_string_equal(text, "abcde");
	phrase_add(text, sizeof(text), "");
	assert_string_equal(text, "abcde");
}

static void numbers(void **state)
{
	char text[200] = "";

	(void)state;
	phrase_number(text, sizeof(text), 0);
	phrase_add(text, sizeof(text), " ");
	phrase_number(text, sizeof(text), 9);
	phrase_add(text, sizeof(text), " ");
	phrase_number(text, sizeof(text), 10);
	phrase_add(text, sizeof(text), " ");
	phrase_number(text, sizeof(text), UINT64_MAX);
	assert_string_equal(text, "0 9 10 18446744073709551615");
	*text = 0;
	phrase_comm(text, sizeof(text), 0x0123456789abcdef);
	assert_string_equal(text, "0x0123456789abcdef");
	*text = 0;
	phrase_place(text, sizeof(text), 0xf000000000000001, 12);
	phrase_place(text, sizeof(text), 2, 3);
	assert_string_equal(text, "0xf000000000000001#12,0x0000000000000002#3");
	*text = 0;
	phrase_list(text, sizeof(text), 0);
	phrase_list(text, sizeof(text), -1);
	phrase_list(text, sizeof(text), 17);
	assert_string_equal(text, "0,?,17");
}

/* --- pauses --- */

static struct model m;
static struct pauses s;

static int fresh(void **state)
{
	(void)state;
	m = (struct model){ 0 };
	s = (struct pauses){ 0 };
	return 0;
}

static int done(void **state)
{
	(void)state;
	pauses_free(&s);
	assert_null(s.all);
	return 0;
}

static void learn(const char *job, const char *site, const char *wait, uint64_t begin_s, uint64_t took_s)
{
	struct pause p = { .job = job, .site = site, .wait = wait, .begin_ns = begin_s * SEC };

	p.end_ns = (begin_s + took_s) * SEC;
	pauses_learn(&s, &m, &p);
}

static void one_place_of_one_job(void **state)
{
	const struct known_phase *p;

	(void)state;
	assert_null(pauses_at(&s, &m, "a", "x"));
	learn("a", "x", "", 10, 3);
	learn("a", "x", "read", 20, 5);
	learn("a", "x", "", 30, 4);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.n_learnt, 3);
	p = pauses_at(&s, &m, "a", "x");
	assert_int_equal(p->n, 3);
	assert_int_equal(p->longest_ns, 5 * SEC);
	assert_int_equal(p->begin_ns, 30 * SEC);
	assert_string_equal(p->wait, "read");
	assert_null(pauses_at(&s, &m, "b", "x"));
	assert_null(pauses_at(&s, &m, "a", "y"));
	learn("b", "x", "poll", 40, 1);
	assert_int_equal(s.n, 2);
	assert_string_equal(pauses_at(&s, &m, "b", "x")->wait, "poll");
}

/* Of an earlier session: goes on from there. */
static void one_known_from_before(void **state)
{
	static struct known_phase before[] = {
		{ .job = "a", .site = "x", .wait = "read", .n = 4, .longest_ns = 9 * SEC }
	};

	(void)state;
	m.known_phases.all = before;
	m.known_phases.n = 1;
	assert_ptr_equal(pauses_at(&s, &m, "a", "x"), &before[0]);
	learn("a", "x", "", 10, 3);
	assert_int_equal(pauses_at(&s, &m, "a", "x")->n, 5);
	assert_int_equal(pauses_at(&s, &m, "a", "x")->longest_ns, 9 * SEC);
	assert_string_equal(pauses_at(&s, &m, "a", "x")->wait, "read");
	assert_int_equal(before[0].n, 4);
	learn("a", "y", "", 10, 3);
	assert_int_equal(pauses_at(&s, &m, "a", "y")->n, 1);
}

static void recurs(const char *job, const char *site, const char *wait, uint64_t took_s)
{
	for (int i = 0; i < 4; i++)
		learn(job, site, wait, 100 + 100 * i, took_s);
}

/* The longest that recurs, with the same wait, or with one of them not known; what happened once where none does. */
static void what_it_may_be(void **state)
{
	static struct known_phase before[] = {
		{ .job = "a", .site = "z", .wait = "read", .n = 4, .longest_ns = 9 * SEC },
		{ .job = "a", .site = "x", .wait = "read", .n = 4, .longest_ns = 90 * SEC }
	};

	(void)state;
	assert_null(pauses_like(&s, &m, "a", "read"));
	learn("a", "w", "read", 10, 50);
	assert_string_equal(pauses_like(&s, &m, "a", "read")->site, "w");
	recurs("a", "x", "read", 5);
	recurs("a", "y", "read", 6);
	recurs("a", "v", "poll", 7);
	recurs("b", "x", "read", 8);
	assert_string_equal(pauses_like(&s, &m, "a", "read")->site, "y");
	assert_string_equal(pauses_like(&s, &m, "a", "poll")->site, "v");
	assert_string_equal(pauses_like(&s, &m, "a", "")->site, "v");
	assert_null(pauses_like(&s, &m, "a", "futex"));
	recurs("a", "u", "", 3);
	assert_string_equal(pauses_like(&s, &m, "a", "futex")->site, "u");
	m.known_phases.all = before;
	m.known_phases.n = 2;
	assert_string_equal(pauses_like(&s, &m, "a", "read")->site, "z"); /* x is known better by now */
	assert_string_equal(pauses_like(&s, &m, "b", "read")->site, "x");
}

static void the_oldest_is_forgotten(void **state)
{
	char site[16];

	(void)state;
	for (int i = 0; i < PAUSES_MAX; i++) {
		snprintf(site, sizeof(site), "%d", i);
		learn("a", site, "", i == 7 ? 1 : 10 + i, 1);
	}
	assert_int_equal(s.n, PAUSES_MAX);
	assert_non_null(pauses_at(&s, &m, "a", "7"));
	learn("a", "new", "", 9999, 1);
	assert_int_equal(s.n, PAUSES_MAX);
	assert_null(pauses_at(&s, &m, "a", "7"));
	assert_int_equal(pauses_at(&s, &m, "a", "new")->n, 1);
	learn("a", "newer", "", 10000, 1);
	assert_null(pauses_at(&s, &m, "a", "0"));
	assert_non_null(pauses_at(&s, &m, "a", "1"));
}

/* Of jobs that come and go for months: what is forgotten leaves its room. */
static void the_newest_of_many_jobs_is_known(void **state)
{
	char job[800];

	(void)state;
	memset(job, 'x', sizeof(job) - 1);
	job[sizeof(job) - 1] = 0;
	for (int i = 0; i < 40000; i++) { /* 32 MB */
		job[snprintf(job, 16, "%d", i)] = '-';
		learn(job, "train.py:31 upload", "read", 10 + i, 1);
		learn(job, "train.py:31 upload", "poll", 12 + i, 1);
	}
	assert_int_equal(s.n, PAUSES_MAX);
	assert_non_null(pauses_at(&s, &m, job, "train.py:31 upload"));
	assert_string_equal(pauses_at(&s, &m, job, "train.py:31 upload")->wait, "poll");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_that_fit),
		cmocka_unit_test(numbers),
		cmocka_unit_test_setup_teardown(one_place_of_one_job, fresh, done),
		cmocka_unit_test_setup_teardown(one_known_from_before, fresh, done),
		cmocka_unit_test_setup_teardown(what_it_may_be, fresh, done),
		cmocka_unit_test_setup_teardown(the_oldest_is_forgotten, fresh, done),
		cmocka_unit_test_setup_teardown(the_newest_of_many_jobs_is_known, fresh, done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
