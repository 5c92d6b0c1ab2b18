/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_tasks.c - what the scheduler's scans leave in the model: totals with the ones before, what a task waited
 * behind, the CPU quota of its cgroup, and what it did at its end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

static void scan(struct model *m, uint64_t ts_ns, uint64_t wait_ns, uint64_t preempted, const char *by)
{
	struct event e = job_event(EV_TASK, 0, ts_ns);

	e.task.wait_ns = wait_ns;
	e.task.preempted = preempted;
	e.task.preempted_by = by;
	e.task.stopped_ns = wait_ns / 2;
	assert_int_equal(model_apply(m, &e), 0);
}

static void test_waits_and_preemptions(void **state)
{
	struct model *m = model_new();
	const struct task *t;

	(void)state;
	scan(m, 10, 100, 3, "hog");
	t = model_task(m, job_pid(0), job_pid(0));
	assert_string_equal(t->preempted_by, "hog");
	scan(m, 20, 140, 7, NULL);
	assert_int_equal(t->wait_ns - t->prev_wait_ns, 40);
	assert_int_equal(t->preempted - t->prev_preempted, 4);
	assert_int_equal(t->stopped_ns, 70);
	assert_string_equal(t->preempted_by, "hog"); /* an old recording */
	scan(m, 15, 1, 1, "late");                   /* an older scan says nothing */
	assert_int_equal(t->wait_ns, 140);
	assert_string_equal(t->preempted_by, "hog");
	model_free(m);
}

static void ready(struct model *m, uint64_t ts_ns, uint32_t tgid, uint32_t tid, uint64_t wait_ns)
{
	struct event e = job_event(EV_TASK, 0, ts_ns);

	e.tgid = tgid;
	e.tid = tid;
	e.task.wait_ns = wait_ns;
	assert_int_equal(model_apply(m, &e), 0);
}

/* Of all threads of a rank and of its children, from when each was seen first; what ended is not taken back. */
static void test_all_that_waits_for_a_cpu(void **state)
{
	struct event comm = job_ready_event(0, 2, 0x1000, 0xa0), fork = job_event(EV_FORK, 0, 5),
		     ends = job_event(EV_EXIT, 0, 25);
	struct model *m = model_new();
	uint32_t rank = job_pid(0), child = job_pid(0) + 50;
	const struct proc *p;

	(void)state;
	assert_int_equal(model_apply(m, &comm), 0);
	ready(m, 1, rank, rank, 1000);
	p = model_proc(m, rank);
	fork.fork.child_tgid = fork.fork.child_tid = child;
	assert_int_equal(model_apply(m, &fork), 0);
	ready(m, 10, rank, rank + 1, 70);
	ready(m, 10, child, child, 500);
	assert_int_equal(p->ready_ns, 0);
	ready(m, 20, rank, rank, 1100);
	ready(m, 20, rank, rank + 1, 90);
	ready(m, 20, child, child, 503);
	assert_int_equal(p->ready_ns, 123);
	ready(m, 15, rank, rank, 1200); /* an older scan */
	ends.tid = rank + 1;
	assert_int_equal(model_apply(m, &ends), 0);
	assert_int_equal(p->ready_ns, 123);
	ready(m, 30, rank, rank, 1101);
	assert_int_equal(p->ready_ns, 124);
	model_free(m);
}

static void throttle(struct model *m, uint64_t ts_ns, uint64_t throttled_ns, double cores)
{
	struct event e = job_event(EV_THROTTLE, 0, ts_ns);

	e.throttle.throttled_ns = throttled_ns;
	e.throttle.quota_millicores = cores * 1000;
	assert_int_equal(model_apply(m, &e), 0);
}

static void test_throttling(void **state)
{
	struct model *m = model_new();
	const struct proc *p;

	(void)state;
	throttle(m, 10, 1000, 0.5);
	p = model_proc(m, job_pid(0));
	assert_int_equal(p->prev_throttle_seen_ns, 0);
	throttle(m, 20, 1600, 0.25);
	throttle(m, 15, 1, 4); /* older */
	assert_int_equal(p->throttled_ns - p->prev_throttled_ns, 600);
	assert_int_equal(p->throttle_seen_ns - p->prev_throttle_seen_ns, 10);
	assert_true(p->quota_cores == 0.25);
	model_free(m);
}

static void run(struct model *m, uint64_t ts_ns, uint32_t tid, uint64_t run_ns)
{
	struct event e = job_event(EV_TASK, 0, ts_ns);

	e.tid = tid;
	e.task.run_ns = run_ns;
	assert_int_equal(model_apply(m, &e), 0);
}

static void ends(struct model *m, uint64_t ts_ns, uint32_t tid, uint64_t run_ns, bool last)
{
	struct event e = job_event(EV_EXIT, 0, ts_ns);

	e.tid = tid;
	e.exit.run_ns = run_ns;
	e.exit.last = last;
	assert_int_equal(model_apply(m, &e), 0);
}

/* What a process did between its last scan and its end, its threads too; never more than there was time for. */
static void test_work_at_the_end(void **state)
{
	struct model *m = model_new();
	uint32_t main_tid = job_pid(0);
	const struct proc *p;

	(void)state;
	run(m, 1 * SEC, main_tid, 700 * MSEC);
	run(m, 1 * SEC, main_tid + 1, 100 * MSEC);
	p = model_proc(m, job_pid(0));
	ends(m, 1200 * MSEC, main_tid + 1, 150 * MSEC, false);
	assert_int_equal(p->end_run_ns, 50 * MSEC);
	assert_true(p->end_run_known);
	run(m, 2 * SEC, main_tid, 800 * MSEC); /* that was before */
	assert_int_equal(p->end_run_ns, 0);
	ends(m, 2100 * MSEC, main_tid + 2, 30 * SEC, false); /* never scanned: it was here since long */
	assert_true(p->end_run_ns <= 2100 * MSEC);
	run(m, 3 * SEC, main_tid, 900 * MSEC);
	ends(m, 3300 * MSEC, main_tid, 1100 * MSEC, true);
	assert_true(p->dead);
	assert_int_equal(p->end_run_ns, 200 * MSEC);
	model_free(m);
}

static void in_d(struct model *m, uint32_t thread, uint64_t ts_ns, uint64_t since_ns)
{
	struct event e = job_event(EV_TASK, 0, ts_ns);

	e.tid = e.tgid + thread;
	e.task.state = TASK_DISK;
	e.task.since_ns = since_ns;
	assert_int_equal(model_apply(m, &e), 0);
}

/* One thread in D for a moment is no work on a disk; two at one look are, and one that is there in another such wait
 * at its next. Not a wait that lasts. Looks closer together are one. */
static void test_looks_at_work_on_a_disk(void **state)
{
	struct model *m = model_new();
	const struct disk_looks *l;

	(void)state;
	in_d(m, 1, 10 * SEC, 10 * SEC - MSEC);
	l = &model_proc(m, job_pid(0))->outside.disk;
	assert_int_equal(l->at_ns[0], 0);
	in_d(m, 2, 10400 * MSEC, 10400 * MSEC - MSEC); /* another one, at another look */
	assert_int_equal(l->at_ns[0], 0);
	in_d(m, 3, 10799 * MSEC, 10799 * MSEC - MSEC);
	assert_true(l->at_ns[0] == 10799 * MSEC);
	in_d(m, 4, 11198 * MSEC, 11198 * MSEC - MSEC); /* the same look */
	assert_true(l->at_ns[0] == 10799 * MSEC);
	in_d(m, 4, 12 * SEC, 11198 * MSEC - MSEC); /* still in that wait */
	in_d(m, 5, 12 * SEC, 12 * SEC - 400 * MSEC - 1);
	assert_true(l->at_ns[0] == 10799 * MSEC);
	in_d(m, 4, 13 * SEC, 13 * SEC - 400 * MSEC);
	assert_true(l->at_ns[0] == 13 * SEC && l->at_ns[1] == 10799 * MSEC && !l->at_ns[2]);
	model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waits_and_preemptions),
		cmocka_unit_test(test_all_that_waits_for_a_cpu),
		cmocka_unit_test(test_throttling),
		cmocka_unit_test(test_work_at_the_end),
		cmocka_unit_test(test_looks_at_work_on_a_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
