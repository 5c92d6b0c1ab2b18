/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_faults.c - mismatch, d_state, stopped, loss: what is reported at once or by the kernel's word, what
 * follows from what, and that it ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/evidence.h"
#include "tests/unit/job/job_script.h"

static struct verdicts play(const struct job_opts *o, struct job **ret_job)
{
	struct verdicts v;

	*ret_job = job_new(o);
	job_play(*ret_job, &v, NULL, NULL);
	return v;
}

static struct job_opts faulty(uint64_t *rng, enum fault_kind kind, double seconds)
{
	static const int layouts[][3] = { { 1, 2, 1 }, { 1, 4, 1 }, { 1, 8, 1 }, { 2, 4, 1 }, { 2, 2, 2 } };
	const int *l = layouts[random_next(rng) % 5];
	struct job_opts o = job_usual(l[0], l[1], l[2], random_next(rng));

	o.run_ahead = random_next(rng) % 2;
	o.faults[0] = (struct fault){ kind, random_next(rng) % o.ranks, 7 + random_next(rng) % 8, 0, seconds, 2 };
	return o;
}

static double evidence(const struct finding *f, const char *name)
{
	return number_named(f, name, -1);
}

static const char *evidence_text(const struct finding *f, const char *name)
{
	return text_named(f, name, "");
}

static void test_mismatch_names_the_minority_at_once(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 40; i++) {
		struct job_opts o = faulty(&rng, FAULT_MISMATCH, 0);
		struct job *j;
		struct verdicts v = play(&o, &j);
		const struct seen_finding *s = verdict_of(&v, FINDING_MISMATCH);

		if (!s || v.n != 1 || s->f.ranks[0] != o.faults[0].rank)
			verdicts_print(&v);
		assert_non_null(s);
		assert_int_equal(v.n, 1);
		assert_int_equal(s->f.n_ranks, 1); /* of two as well: the one that breaks its habit */
		assert_int_equal(s->f.ranks[0], o.faults[0].rank);
		assert_string_equal(cause_name(s->f.cause), "count");
		assert_true(s->f.comm == 0xc0000000 && (int)s->f.seq == o.faults[0].step);
		assert_true(s->open_ns - s->f.since_ns <= 250 * MSEC);
		assert_true(evidence(&s->f, "count_expected") == 16 && evidence(&s->f, "count_found") == 15);
		verdicts_free(&v);
		job_free(j);
	}
}

/* Two ranks without a habit: no saying who is wrong, so both, and less sure. */
static void test_mismatch_of_two_without_habit(void **state)
{
	struct job_opts o = job_usual(1, 2, 1, 3);
	struct job *j;
	struct verdicts v;
	const struct seen_finding *s;

	(void)state;
	o.faults[0] = (struct fault){ FAULT_MISMATCH, 1, 1, 0, 0, 2 };
	v = play(&o, &j);
	s = verdict_of(&v, FINDING_MISMATCH);
	assert_non_null(s);
	assert_int_equal(v.all[0].f.seq, 1);
	assert_true(s->f.n_ranks >= 1);
	verdicts_free(&v);
	job_free(j);
}

static void test_hang_after_mismatch_is_its_consequence(void **state)
{
	struct job_opts o = job_usual(1, 4, 1, 3);
	struct job *j;
	struct verdicts v;

	(void)state;
	o.faults[0] = (struct fault){ FAULT_MISMATCH, 1, 10, 0, 0, 2 };
	o.faults[1] = (struct fault){ FAULT_HANG, 2, 12, 0, JOB_FOREVER, 2 };
	v = play(&o, &j);
	assert_non_null(verdict_of(&v, FINDING_HANG));
	assert_true(verdict_of(&v, FINDING_HANG)->f.caused_by_key == verdict_of(&v, FINDING_MISMATCH)->f.key);
	assert_int_equal(verdict_roots(&v), 1);
	verdicts_free(&v);
	job_free(j);
}

static void test_lost_records_make_no_mismatch(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 20; i++) {
		struct job_opts o = faulty(&rng, FAULT_LOSE_OPS, 0);
		struct job *j;
		struct verdicts v;

		o.grouped = i % 2;
		o.faults[0].percent = 40;
		v = play(&o, &j);
		if (verdict_roots(&v))
			verdicts_print(&v);
		assert_int_equal(verdict_roots(&v), 0);
		assert_true(v.n == 0 || v.all[0].f.kind == FINDING_LOST_EVENTS);
		verdicts_free(&v);
		job_free(j);
	}
}

static void test_d_state_is_the_root_of_its_hang(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 20; i++) {
		struct job_opts o = faulty(&rng, FAULT_DSTATE, i % 2 ? 8 : JOB_FOREVER);
		struct job *j;
		struct verdicts v = play(&o, &j);
		const struct seen_finding *d = verdict_of(&v, FINDING_D_STATE), *h = verdict_of(&v, FINDING_HANG);

		if (!d || !h || v.n != 2)
			verdicts_print(&v);
		assert_int_equal(v.n, 2);
		assert_int_equal(d->f.ranks[0], o.faults[0].rank);
		assert_true(d->open_ns - d->f.since_ns >= 5 * SEC && d->open_ns - d->f.since_ns <= 65 * SEC / 10);
		assert_string_equal(finding_cause_shown(&d->f), "percpu_rwsem_wait");
		assert_non_null(strstr(evidence_text(&d->f, "kernel_stack"), "mnt_want_write"));
		assert_true(evidence(&d->f, "child") == 0 && evidence(&d->f, "peers_waiting") >= 1);
		assert_int_equal(h->f.class, HANG_HOST_BLOCKED);
		assert_int_equal(h->f.ranks[0], o.faults[0].rank);
		assert_true(h->f.caused_by_key == d->f.key && h->open_ns >= d->open_ns);
		if (i % 2)
			assert_true(d->last_ns < j->fault_ns[0] + 83 * SEC / 10);
		verdicts_free(&v);
		job_free(j);
	}
}

static void test_short_storage_waits_are_ordinary(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 20; i++) {
		struct job_opts o = faulty(&rng, FAULT_DSTATE, 4.4);
		struct job *j;
		struct verdicts v = play(&o, &j);

		if (verdict_roots(&v))
			verdicts_print(&v);
		assert_int_equal(verdict_roots(&v), 0);
		verdicts_free(&v);
		job_free(j);
	}
}

/* The child that blocks is a child of the rank's child. */
static void make_grandchild(struct job *j, int rank)
{
	uint32_t child = job_pid(rank) + 50;
	bool forked = false;

	for (size_t i = 0; i < j->n_events; i++) {
		struct event *e = &j->events[i];

		if (e->kind == EV_TASK && e->tgid == job_pid(rank) && e->tid != e->tgid &&
		    !forked) { /* instead of a scan */
			*e = (struct event){ .kind = EV_FORK, .tgid = child, .tid = child, .ts_ns = e->ts_ns };
			e->fork.child_tgid = e->fork.child_tid = child + 1;
			forked = true;
		}
		if (e->tgid == child && (e->kind == EV_TASK || e->kind == EV_BLOCKED || e->kind == EV_BLOCKED_END))
			e->tgid = e->tid = child + 1;
	}
	assert_true(forked);
}

/* A rank that waits for its blocked worker: one story with one root, reported when the wait is 5 s old, not a rank
 * asleep.
 */
static void test_rank_that_waits_for_its_blocked_child(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 20; i++) {
		struct job_opts o = faulty(&rng, FAULT_DSTATE_CHILD, 12);
		const struct seen_finding *d, *h;
		struct verdicts v;
		struct job *j;

		o.faults[1] = o.faults[0];
		o.faults[1].kind = FAULT_HANG;
		j = job_new(&o);
		if (i % 2)
			make_grandchild(j, o.faults[0].rank);
		job_play(j, &v, NULL, NULL);
		d = verdict_of(&v, FINDING_D_STATE);
		h = verdict_of(&v, FINDING_HANG);
		if (!d || !h || v.n != 2 || !h->f.caused_by_key)
			verdicts_print(&v);
		assert_non_null(d);
		assert_non_null(h);
		assert_int_equal(v.n, 2);
		assert_int_equal(d->f.ranks[0], o.faults[0].rank);
		assert_int_equal(h->f.ranks[0], o.faults[0].rank);
		assert_int_equal(h->f.class, HANG_HOST_BLOCKED);
		assert_true(h->f.caused_by_key == d->f.key);
		assert_true(h->open_ns >= d->open_ns); /* not as a rank asleep before */
		assert_true(d->f.pids[0] == job_pid(o.faults[0].rank) + 50 + i % 2);
		assert_true(evidence(&d->f, "child_pid") == d->f.pids[0]);
		assert_true(evidence(&d->f, "peers_waiting") >= 1);
		verdicts_free(&v);
		job_free(j);
	}
}

static void test_blocked_child_is_reported_under_its_rank(void **state)
{
	uint64_t rng = test_seed();
	struct job_opts o = faulty(&rng, FAULT_DSTATE_CHILD, JOB_FOREVER);
	struct job *j;
	struct verdicts v = play(&o, &j);

	(void)state;
	assert_int_equal(v.n, 1);
	assert_int_equal(v.all[0].f.kind, FINDING_D_STATE);
	assert_int_equal(v.all[0].f.ranks[0], o.faults[0].rank);
	assert_int_equal(v.all[0].f.pids[0], job_pid(o.faults[0].rank) + 50);
	assert_true(evidence(&v.all[0].f, "child") == 1 && evidence(&v.all[0].f, "peers_waiting") == 0);
	verdicts_free(&v);
	job_free(j);
}

/* --- by hand --- */

struct hand {
	struct model *m;
	struct detectors *d;
	struct finding_list list;
};

static struct hand hand_new(int rank)
{
	struct hand h = { model_new(), detectors_new(), { 0 } };
	struct event e = job_event(EV_PROC, rank, JOB_T0);

	e.proc.rank = rank;
	e.proc.start_ns = 1;
	e.proc.job = "job";
	assert_int_equal(model_apply(h.m, &e), 0);
	return h;
}

static void hand_free(struct hand *h)
{
	finding_list_free(&h->list);
	detectors_free(h->d);
	model_free(h->m);
}

static void tick(struct hand *h, uint64_t ns)
{
	struct event e = { .kind = EV_TICK, .ts_ns = ns };

	assert_int_equal(model_apply(h->m, &e), 0);
	assert_int_equal(detectors_tick(h->d, h->m, &h->list), 0);
}

static void block(struct hand *h, int rank, uint32_t thread, uint64_t begin_ns, const char *stack, const char *wchan)
{
	struct event e = job_event(EV_BLOCKED, rank, begin_ns + 5 * SEC);

	e.tid += thread;
	e.blocked.begin_ns = begin_ns;
	e.blocked.kernel_stack = stack;
	e.blocked.wchan = wchan;
	e.blocked.mmap_lock_held = true;
	assert_int_equal(model_apply(h->m, &e), 0);
}

/* One thread write-faults into a frozen file system and holds mmap_lock; munmap in another waits for it. */
static void test_who_holds_mmap_lock_is_the_cause(void **state)
{
	struct hand h = hand_new(0);
	const struct finding *holder, *waiter;

	(void)state;
	block(&h, 0, 0, JOB_T0, "rwsem_down_write_slowpath\ndown_write_killable\n__vm_munmap\n__x64_sys_munmap",
	      "rwsem_down_write_slowpath");
	block(&h, 0, 9, JOB_T0 + MSEC, "percpu_rwsem_wait\next4_page_mkwrite\ndo_page_mkwrite\nhandle_mm_fault",
	      "percpu_rwsem_wait");
	tick(&h, JOB_T0 + 6 * SEC);
	assert_int_equal(h.list.n, 2);
	waiter = h.list.items[0].caused_by_key ? &h.list.items[0] : &h.list.items[1];
	holder = waiter == &h.list.items[0] ? &h.list.items[1] : &h.list.items[0];
	assert_true(evidence(holder, "tid") == job_pid(0) + 9 && !holder->caused_by_key);
	assert_string_equal(finding_cause_shown(holder), "percpu_rwsem_wait");
	assert_string_equal(cause_name(waiter->cause), "mmap_lock");
	assert_true(waiter->caused_by_key == holder->key);
	hand_free(&h);
}

static void test_equal_waits_have_one_root_and_a_lasting_key(void **state)
{
	struct hand h = hand_new(0);
	uint64_t keys[3];
	int roots = 0;

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		block(&h, 0, i, JOB_T0 + i * MSEC, "percpu_rwsem_wait\nopen", "percpu_rwsem_wait");
	tick(&h, JOB_T0 + 6 * SEC);
	assert_int_equal(h.list.n, 3);
	for (int i = 0; i < 3; i++) {
		keys[i] = h.list.items[i].key;
		roots += !h.list.items[i].caused_by_key;
	}
	assert_int_equal(roots, 1);
	tick(&h, JOB_T0 + 20 * SEC);
	for (int i = 0; i < 3; i++)
		assert_true(h.list.items[i].key == keys[i]);
	hand_free(&h);
}

static void task_seen(struct hand *h, int rank, uint32_t thread, uint64_t ns, enum task_state s, uint64_t since_ns)
{
	struct event e = job_event(EV_TASK, rank, ns);

	e.tid += thread;
	e.task.state = s;
	e.task.since_ns = since_ns;
	assert_int_equal(model_apply(h->m, &e), 0);
}

static void stop(struct hand *h, int rank, uint32_t thread, uint64_t ns, enum task_state s)
{
	task_seen(h, rank, thread, ns, s, ns);
}

static void test_stopped_alone_is_its_own_kind(void **state)
{
	struct hand h = hand_new(4);
	struct event call;

	(void)state;
	stop(&h, 4, 0, JOB_T0 + SEC, TASK_STOPPED);
	stop(&h, 4, 1, JOB_T0 + SEC, TASK_SLEEP); /* not all of it */
	tick(&h, JOB_T0 + 9 * SEC);
	assert_int_equal(h.list.n, 0);
	stop(&h, 4, 1, JOB_T0 + 9 * SEC, TASK_STOPPED);
	tick(&h, JOB_T0 + 10 * SEC);
	assert_int_equal(h.list.n, 0); /* its main thread was seen so when it began, and no more */
	task_seen(&h, 4, 0, JOB_T0 + 10 * SEC, TASK_STOPPED, JOB_T0 + SEC);
	tick(&h, JOB_T0 + 10 * SEC);
	assert_int_equal(h.list.n, 1);
	assert_int_equal(h.list.items[0].kind, FINDING_STOPPED);
	assert_int_equal(h.list.items[0].ranks[0], 4);
	stop(&h, 4, 0, JOB_T0 + 11 * SEC, TASK_ON_CPU);
	tick(&h, JOB_T0 + 12 * SEC);
	assert_int_equal(h.list.n, 0);
	stop(&h, 4, 0, JOB_T0 + 13 * SEC, TASK_STOPPED);
	stop(&h, 4, 1, JOB_T0 + 13 * SEC, TASK_STOPPED);
	task_seen(&h, 4, 0, JOB_T0 + 15 * SEC, TASK_STOPPED, JOB_T0 + 13 * SEC);
	tick(&h, JOB_T0 + 17 * SEC);
	assert_int_equal(h.list.n, 1);
	call = job_event(EV_SYNC_BEGIN, 4, JOB_T0 + 18 * SEC); /* it goes on; the next scan comes later */
	assert_int_equal(model_apply(h.m, &call), 0);
	tick(&h, JOB_T0 + 18 * SEC + 1);
	assert_int_equal(h.list.n, 0);
	hand_free(&h);
}

static void test_loss_is_reported_and_passes(void **state)
{
	struct hand h = hand_new(0);
	struct event e = { .kind = EV_LOSS, .ts_ns = JOB_T0 };
	uint64_t key;

	(void)state;
	e.loss.lost = 5;
	assert_int_equal(model_apply(h.m, &e), 0);
	tick(&h, JOB_T0 + SEC);
	assert_int_equal(h.list.n, 1);
	assert_int_equal(h.list.items[0].kind, FINDING_LOST_EVENTS);
	key = h.list.items[0].key;
	e.ts_ns += 8 * SEC;
	assert_int_equal(model_apply(h.m, &e), 0);
	tick(&h, JOB_T0 + 12 * SEC);
	assert_true(h.list.n == 1 && h.list.items[0].key == key && evidence(&h.list.items[0], "lost_records") == 10);
	tick(&h, JOB_T0 + 19 * SEC);
	assert_int_equal(h.list.n, 0);
	hand_free(&h);
}

/* Launches that found no room are a gap in the timeline; operations were all seen. */
static void test_bulk_loss_weakens_nothing(void **state)
{
	struct hand h = hand_new(0);
	struct event e = { .kind = EV_LOSS, .ts_ns = JOB_T0, .loss = { .lost = 5, .class = LOSS_BULK } };

	(void)state;
	assert_int_equal(model_apply(h.m, &e), 0);
	tick(&h, JOB_T0 + SEC);
	assert_int_equal(h.list.n, 0);
	assert_true(h.m->lost == 5 && !h.m->last_loss_ns);
	hand_free(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mismatch_names_the_minority_at_once),
		cmocka_unit_test(test_mismatch_of_two_without_habit),
		cmocka_unit_test(test_hang_after_mismatch_is_its_consequence),
		cmocka_unit_test(test_lost_records_make_no_mismatch),
		cmocka_unit_test(test_d_state_is_the_root_of_its_hang),
		cmocka_unit_test(test_short_storage_waits_are_ordinary),
		cmocka_unit_test(test_blocked_child_is_reported_under_its_rank),
		cmocka_unit_test(test_rank_that_waits_for_its_blocked_child),
		cmocka_unit_test(test_who_holds_mmap_lock_is_the_cause),
		cmocka_unit_test(test_equal_waits_have_one_root_and_a_lasting_key),
		cmocka_unit_test(test_stopped_alone_is_its_own_kind),
		cmocka_unit_test(test_loss_is_reported_and_passes),
		cmocka_unit_test(test_bulk_loss_weakens_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
