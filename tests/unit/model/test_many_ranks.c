/* SPDX-License-Identifier: Apache-2.0
 *
 * test_many_ranks.c - a job of ten thousand ranks, known by its counters at two samples: of many ranks that all others
 * wait for each counts, the first ones have a finding, and that takes no time that grows with the square. And places of
 * main threads, against a comparison of each with each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "detect/rank/places.h"
#include "tests/unit/job/evidence.h"
#include "tests/unit/job/job_script.h"

#define LONGEST_S 20.0
#define RANKS 10240
#define RANKS_SHORT 2048 /* with SHORT=1 (make mutate) */

static struct model *m;
static struct detectors *d;
static struct finding_list list;
static uint64_t now;
static int n_ranks;

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void give(struct event e)
{
	e.ts_ns = now;
	assert_int_equal(model_apply(m, &e), 0);
}

static void proc_give(int r)
{
	struct event e = job_proc_event(r, n_ranks, 0);

	e.proc.local_rank = r % 8;
	e.proc.job = "";
	give(e);
	give(job_event(EV_COMM_SCAN, r, 0));
}

static void sample_give(int r, bool behind)
{
	struct event e = job_event(EV_COMM_SAMPLE, r, 0), t = job_event(EV_TASK, r, 0);
	struct event place = job_event(EV_TASK_AT, r, 0);

	e.comm_sample.comm = e.comm_sample.hash = 0xa0;
	e.comm_sample.rank = r;
	e.comm_sample.nranks = n_ranks;
	e.comm_sample.n_counters = OP_KINDS_COUNTED;
	e.comm_sample.counters[OP_ALLREDUCE] = behind ? 11 : 12;
	give(e);
	t.tid = place.tid = t.tgid;
	t.task.state = TASK_SLEEP;
	t.task.since_ns = now;
	place.task_at.wchan = place.task_at.file = "";
	place.task_at.syscall = behind ? "clock_nanosleep" : "futex";
	give(t);
	give(place);
}

static void job_sample(int n_here, int n_behind)
{
	struct event e = { .kind = EV_TICK };

	for (int r = 0; r < n_here; r++)
		sample_give(r, r % 10 == 7 && r / 10 < n_behind);
	now += 1200 * MSEC;
	give(e);
	assert_int_equal(detectors_tick(d, m, &list), 0);
}

static void begin_all(int n_here)
{
	struct event e = { .kind = EV_START };

	now = JOB_T0;
	m = model_new();
	d = detectors_new();
	e.start.hang_floor_ns = e.start.dstate_limit_ns = 250 * MSEC;
	e.start.busy_limit_ns = 90 * SEC;
	e.start.host = "many";
	give(e);
	for (int r = 0; r < n_here; r++)
		proc_give(r);
}

static void end_all(void)
{
	finding_list_free(&list);
	detectors_free(d);
	model_free(m);
}

static void test_many_roots(void **state)
{
	double begin = cpu_s();
	const struct evidence *n;
	int n_behind = n_ranks / 10 / 100 * 100; /* 1000 */

	(void)state;
	begin_all(n_ranks);
	job_sample(n_ranks, n_behind);
	assert_int_equal(list.n, 0);
	job_sample(n_ranks, n_behind);
	assert_int_equal(list.n, 64);
	for (int i = 0; i < 64; i++) {
		const struct finding *f = &list.items[i];

		assert_true(f->kind == FINDING_HANG && f->class == HANG_MISSING_ENTER);
		assert_int_equal(f->ranks[0], 10 * i + 7);
		n = finding_evidence(f, EVIDENCE_N_ROOTS);
		assert_true(n && (int)n->number == n_behind);
		assert_int_equal((int)finding_number(f, EVIDENCE_N_WAITING), n_ranks - n_behind);
	}
	assert_true(cpu_s() - begin < LONGEST_S);
	end_all();
}

/* Half of the job's hosts are not in a merge. */
static void test_many_absent(void **state)
{
	double begin = cpu_s();
	const struct finding *f = NULL;

	(void)state;
	begin_all(n_ranks / 2);
	m->merged = true;
	job_sample(n_ranks / 2, 0);
	job_sample(n_ranks / 2, 0);
	for (size_t i = 0; i < list.n; i++)
		f = list.items[i].cause == CAUSE_NO_HOST_TOLD ? &list.items[i] : f;
	assert_non_null(f);
	assert_true(f->n_ranks == FINDING_RANKS_MAX && f->ranks[0] == n_ranks / 2);
	assert_int_equal(f->n_ranks_all, n_ranks / 2);
	assert_true(cpu_s() - begin < LONGEST_S);
	end_all();
}

/* --- places --- */

static struct proc still;

static struct task task_of(int kind)
{
	static const char *const calls[] = { "futex", "poll", "clock_nanosleep" };
	struct task t = { .proc = &still, .state = TASK_SLEEP, .at_ns = 1, .syscall = calls[kind % 3], .wchan = "" };

	t.stack.native = t.stack.python = t.stack.wait = t.stack.frames = t.stack.file = "";
	if (kind / 3 % 3) {
		t.stack.ns = 1;
		t.stack.native = kind / 3 % 3 == 1 ? "epoll_wait (libc.so.6)" : "read (libc.so.6)";
	}
	if (kind / 9 % 4 == 3)
		t.state = TASK_ON_CPU;
	t.blocked = kind / 36 % 8 == 7;
	return t;
}

/* Two threads in one place by the places of them alone. */
static bool alike(const struct task *a, const struct task *b)
{
	struct places two = { .n = 0 };

	places_add(&two, a);
	return places_alike(&two, b, true);
}

static void test_places(void **state)
{
	enum { N = 300 };
	struct task all[N];
	struct places places = { .n = 0 };

	(void)state;
	for (int i = 0; i < N; i++) {
		all[i] = task_of(i * 7919 % 288);
		places_add(&places, &all[i]);
	}
	assert_true(places.n > 8 && places.n < 40);
	for (int i = 0; i < N; i++) {
		int n = 0;

		for (int k = 0; k < N; k++)
			n += k != i && alike(&all[k], &all[i]);
		assert_int_equal(places_alike(&places, &all[i], false), n);
	}
	assert_int_equal(places_alike(&places, NULL, false), 0);
}

/* It was read in an earlier pause: where it was then is no place of now. */
static void test_a_stack_of_before_is_none(void **state)
{
	struct proc moved = { .last_call_ns = 2 };
	struct task here = task_of(3), there = task_of(6);

	(void)state;
	assert_false(alike(&here, &there));
	there.proc = &moved;
	assert_true(alike(&here, &there));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_roots),
		cmocka_unit_test(test_many_absent),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_a_stack_of_before_is_none),
	};

	n_ranks = getenv("SHORT") ? RANKS_SHORT : RANKS;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
