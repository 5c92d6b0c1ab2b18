/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_counter.c - values that sources report by name: the newest of each is kept of a process that is there, if
 * the source asks for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

static struct model *m;

static void counter_give(int rank, uint64_t ts_ns, const char *name, int64_t value, bool kept)
{
	struct event e = job_event(EV_COUNTER, rank, ts_ns);

	e.generic.name = name;
	e.generic.value = value;
	e.generic.kept = kept;
	assert_int_equal(model_apply(m, &e), 0);
}

static void rank_begin(int rank)
{
	struct event e = job_event(EV_PROC, rank, 1);

	e.proc.rank = rank;
	e.proc.job = e.proc.name = e.proc.container = e.proc.pod = "";
	assert_int_equal(model_apply(m, &e), 0);
}

static int begin(void **state)
{
	(void)state;
	m = model_new();
	rank_begin(0);
	rank_begin(1);
	return 0;
}

static int end(void **state)
{
	(void)state;
	model_free(m);
	return 0;
}

static const struct counter *counter_of(int rank, const char *name)
{
	return proc_counter(model_proc(m, job_pid(rank)), name);
}

static void the_newest_is_kept(void **state)
{
	char same_name[] = "a";

	(void)state;
	counter_give(0, 10, "a", 5, true);
	counter_give(0, 20, same_name, -6, true);
	counter_give(0, 30, "b", 7, true);
	assert_int_equal(counter_of(0, "a")->value, -6);
	assert_int_equal(counter_of(0, "a")->ts_ns, 20);
	assert_int_equal(counter_of(0, "b")->value, 7);
	assert_null(counter_of(1, "a"));
	assert_null(counter_of(0, "c"));
}

/* A sink draws it; nothing else needs it. */
static void what_is_not_to_be_kept_is_not(void **state)
{
	(void)state;
	counter_give(0, 10, "a", 5, false);
	assert_null(counter_of(0, "a"));
}

static void a_dead_process_gets_none(void **state)
{
	struct event e = job_event(EV_EXIT, 0, 10);

	(void)state;
	e.exit.last = true;
	assert_int_equal(model_apply(m, &e), 0);
	counter_give(0, 20, "a", 5, true);
	assert_null(counter_of(0, "a"));
	counter_give(7, 20, "a", 5, true); /* never announced */
	assert_null(model_proc(m, job_pid(7)));
}

static void names_without_end_are_not_kept(void **state)
{
	static char names[100][8];

	(void)state;
	for (int i = 0; i < 100; i++) {
		snprintf(names[i], sizeof(names[i]), "n%d", i);
		counter_give(0, 10 + i, names[i], i, true);
	}
	assert_int_equal(counter_of(0, "n63")->value, 63);
	assert_null(counter_of(0, "n64"));
	counter_give(0, 200, "n63", 1, true);
	assert_int_equal(counter_of(0, "n63")->value, 1);
}

#define IN_A_JOB(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_A_JOB(the_newest_is_kept),
		IN_A_JOB(what_is_not_to_be_kept_is_not),
		IN_A_JOB(a_dead_process_gets_none),
		IN_A_JOB(names_without_end_are_not_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
