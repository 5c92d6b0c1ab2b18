/* SPDX-License-Identifier: Apache-2.0
 *
 * test_suspended.c - a job whose ranks are stopped together is one finding, and what others say of its ranks is
 * withheld; one of whose ranks some are stopped is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/detect.h"
#include "detect/severity.h"
#include "remedy.h"
#include "tests/unit/job/evidence.h"
#define HAND_RANKS 4
#include "tests/unit/job/hand_known.h"

#define TICK (250 * MSEC)

static const struct job_id job = { .name = "train", .shown = "train", .nth = 1 };
static struct finding_list list;
static void *detector;

static int begin(void **state)
{
	hand_setup(state);
	hand_find();
	list = (struct finding_list){ 0 };
	for (int r = 0; r < HAND_RANKS; r++) {
		known[r]->job = &job;
		known[r]->world_size = HAND_RANKS;
		mains[r].seen_ns = NOW;
		mains[r].state = TASK_SLEEP;
	}
	detector = calloc(1, detector_suspended.state_bytes);
	return 0;
}

static int end(void **state)
{
	(void)state;
	detector_suspended.release(detector);
	free(detector);
	finding_list_free(&list);
	hand_lose();
	return 0;
}

static void stop(int r)
{
	mains[r].state = TASK_STOPPED;
	mains[r].since_ns = m.now_ns;
}

static void stop_all(void)
{
	for (int r = 0; r < HAND_RANKS; r++)
		stop(r);
}

static void go_on(int r)
{
	mains[r].state = TASK_SLEEP;
	mains[r].since_ns = m.now_ns;
}

/* What a detector before this one says of rank `r` at each tick. */
static struct finding *said(int r, enum finding_kind kind, enum hang_class class, uint64_t since_ns)
{
	struct finding *f = finding_list_add(&list);

	f->kind = kind;
	f->class = class;
	f->since_ns = since_ns;
	f->subject = subject_rank(r, known[r]->key);
	finding_identify(f, "pending", 0, class);
	finding_add_rank(f, r, known[r]->key);
	return f;
}

static void tick(void)
{
	assert_int_equal(detector_suspended.tick(detector, &m, &list), 0);
}

static void ticks(int n)
{
	while (n-- > 0) {
		m.now_ns += TICK;
		list.n = 0;
		tick();
	}
}

static const struct finding *suspension(void)
{
	const struct finding *found = NULL;

	for (size_t i = 0; i < list.n; i++)
		if (list.items[i].subject.type == SUBJECT_JOB) {
			assert_null(found);
			found = &list.items[i];
		}
	return found;
}

static bool has(enum finding_kind kind)
{
	for (size_t i = 0; i < list.n; i++)
		if (list.items[i].kind == kind && list.items[i].subject.type != SUBJECT_JOB)
			return true;
	return false;
}

/* One finding, three seconds after the last of them; a warning, for who suspends a job may do so. */
static void all_are_stopped(void **state)
{
	uint64_t key;
	char text[512];

	(void)state;
	ticks(4);
	stop(0);
	stop(1);
	ticks(2);
	stop(2);
	stop(3);
	ticks(11);
	assert_int_equal(list.n, 0);
	ticks(1);
	assert_non_null(suspension());
	assert_int_equal(list.n, 1);
	key = suspension()->key;
	assert_int_equal(suspension()->kind, FINDING_STOPPED);
	assert_int_equal(suspension()->cause, CAUSE_STOPPED);
	assert_int_equal(suspension()->since_ns, mains[3].since_ns);
	assert_int_equal(suspension()->n_ranks_all, HAND_RANKS);
	assert_true(number_named(suspension(), "stopped_s", 0) == 3);
	severities_judge(&list, m.now_ns);
	assert_int_equal(suspension()->severity, SEVERITY_WARNING);
	finding_remedy(suspension(), text, sizeof(text));
	assert_non_null(strstr(text, "nothing, if it was meant"));
	ticks(400);
	assert_int_equal(suspension()->key, key);
	go_on(2);
	ticks(1);
	assert_int_equal(list.n, 0);
	stop(2);
	ticks(20);
	assert_true(suspension()->key != key); /* another one */
	assert_int_equal(suspension()->since_ns, mains[2].since_ns);
}

/* One that lets jobs take turns: a warning the first time, and where it takes three times as long as any before. */
static void again_and_again(void **state)
{
	static const struct {
		int stood, warning_from; /* ticks */
	} turns[] = { { 80, 12 }, { 120, 0 }, { 300, 0 }, { 1000, 900 } };

	(void)state;
	for (int i = 0; i < 4; i++) {
		uint64_t begin_ns;

		ticks(40);
		stop_all();
		begin_ns = m.now_ns;
		ticks(12);
		for (int t = 12; t < turns[i].stood; t++, ticks(1)) {
			bool warns = (i == 0) || (turns[i].warning_from && t >= turns[i].warning_from);

			severities_judge(&list, m.now_ns);
			assert_int_equal(suspension()->severity, warns ? SEVERITY_WARNING : SEVERITY_INFO);
			assert_int_equal(suspension()->since_ns, begin_ns);
		}
		for (int r = 0; r < HAND_RANKS; r++)
			go_on(r);
	}
}

static void frozen_ones(void **state)
{
	(void)state;
	stop_all();
	for (int r = 0; r < HAND_RANKS; r++)
		mains[r].frozen = true;
	ticks(20);
	assert_int_equal(suspension()->cause, CAUSE_FROZEN);
}

/* A rank that runs, or dies, is not stopped; nor are those of a host that is silent, or another job's. */
static void some_are_stopped(void **state)
{
	static const struct job_id other = { .name = "other", .shown = "other", .nth = 1 };

	(void)state;
	stop_all();
	go_on(1);
	ticks(40);
	assert_null(suspension());
	known[1]->job = &other;
	ticks(20);
	assert_non_null(suspension());
	assert_int_equal(suspension()->n_ranks_all, 3);
	known[1]->job = &job;
	known[1]->dead = true;
	ticks(20);
	assert_non_null(suspension());
	known[1]->dead = false;
	known[1]->is_child = true;
	ticks(20);
	assert_non_null(suspension());
}

/* One rank is a job only if that has no other. */
static void a_single_rank(void **state)
{
	(void)state;
	for (int r = 1; r < HAND_RANKS; r++)
		known[r]->dead = true;
	stop(0);
	ticks(20);
	assert_null(suspension());
	known[0]->world_size = 1;
	ticks(1);
	assert_non_null(suspension());
}

/* What the detectors before say of stopped ranks. */
static void is_withheld(void **state)
{
	uint64_t since_ns = m.now_ns;

	(void)state;
	ticks(2);
	stop_all();
	for (int i = 0; i < 40; i++) {
		ticks(1);
		list.n = 0;
		said(0, FINDING_HANG, HANG_STOPPED, since_ns);
		said(1, FINDING_STOPPED, HANG_NONE, since_ns);
		said(2, FINDING_OBSERVATION, HANG_MISSING_ENTER, since_ns);
		said(3, FINDING_HANG, HANG_PROCESS_DEAD, since_ns);
		said(3, FINDING_XID, HANG_NONE, since_ns);
		tick();
		assert_false(has(FINDING_STOPPED));
		assert_false(has(FINDING_OBSERVATION));
		assert_int_equal(list.items[0].class, HANG_PROCESS_DEAD);
		assert_int_equal(list.items[1].kind, FINDING_XID);
	}
	assert_non_null(suspension());
}

/* A hang that names no rank is one of its communicator's job, or of the job that it says. */
static void of_no_rank(void **state)
{
	struct finding *f;

	(void)state;
	stop_all();
	ticks(20);
	list.n = 0;
	f = said(0, FINDING_HANG, HANG_INSIDE_GPU, NOW);
	f->n_ranks = f->n_ranks_all = 0;
	f->comm = m.comms->hash;
	f = said(0, FINDING_HANG, HANG_UNKNOWN, NOW);
	f->n_ranks = f->n_ranks_all = 0;
	f->job = job.shown;
	f = said(0, FINDING_HANG, HANG_INIT, NOW);
	f->n_ranks = f->n_ranks_all = 0;
	f->job = "other";
	tick();
	assert_int_equal(list.n, 2);
	assert_int_equal(list.items[0].class, HANG_INIT);
}

/* A hang of before goes on, since when it did. */
static void what_was_said_before(void **state)
{
	uint64_t since_ns = m.now_ns;

	(void)state;
	for (int i = 0; i < 60; i++) {
		m.now_ns += TICK;
		if (i == 10)
			stop_all();
		if (i == 40)
			for (int r = 0; r < HAND_RANKS; r++)
				go_on(r);
		list.n = 0;
		said(2, FINDING_HANG, HANG_MISSING_ENTER, since_ns);
		tick();
		assert_true(has(FINDING_HANG));
		assert_int_equal(list.items[0].since_ns, since_ns);
	}
}

/* One that stands for itself is named at once. Two that stop within three seconds may be the first of all. */
static void one_alone_and_several(void **state)
{
	(void)state;
	ticks(2);
	stop(3);
	ticks(1);
	list.n = 0;
	said(3, FINDING_HANG, HANG_STOPPED, NOW);
	tick();
	assert_true(has(FINDING_HANG));
	stop(1);
	m.now_ns += TICK;
	for (int i = 0; i < 13; i++, m.now_ns += TICK) {
		list.n = 0;
		said(3, FINDING_HANG, HANG_STOPPED, NOW); /* known */
		said(1, FINDING_STOPPED, HANG_NONE, NOW);
		tick();
		assert_true(has(FINDING_HANG));
		assert_int_equal(has(FINDING_STOPPED), i >= 12);
	}
}

/* Those that stop four seconds apart are two events. */
static void not_together(void **state)
{
	(void)state;
	ticks(2);
	stop(3);
	ticks(16);
	stop(1);
	ticks(1);
	list.n = 0;
	said(1, FINDING_STOPPED, HANG_NONE, NOW);
	tick();
	assert_true(has(FINDING_STOPPED));
}

/* Who stays behind when the others go on is named, three seconds later; a wait from before counts from then. */
static void one_stays_behind(void **state)
{
	uint64_t since_ns = m.now_ns, went_on_ns;
	int named = 0;

	(void)state;
	ticks(2);
	stop_all();
	ticks(400);
	went_on_ns = m.now_ns; /* the last tick at which all stood */
	for (int r = 0; r < 3; r++)
		go_on(r);
	for (int i = 1; i <= 40; i++) {
		m.now_ns += TICK;
		list.n = 0;
		said(3, FINDING_HANG, HANG_STOPPED, since_ns);
		said(2, FINDING_HANG, HANG_MISSING_ENTER, since_ns);
		tick();
		named += list.n == 2;
		assert_true(list.n == 0 || list.n == 2);
		assert_true(!list.n || i >= 13);
		for (size_t k = 0; k < list.n; k++)
			assert_int_equal(list.items[k].since_ns, went_on_ns);
	}
	assert_int_equal(named, 28);
	m.now_ns += TICK; /* a wait that began since is its own */
	list.n = 0;
	said(0, FINDING_HANG, HANG_INIT, went_on_ns + SEC);
	tick();
	assert_int_equal(list.items[0].since_ns, went_on_ns + SEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_are_stopped, begin, end),
		cmocka_unit_test_setup_teardown(again_and_again, begin, end),
		cmocka_unit_test_setup_teardown(frozen_ones, begin, end),
		cmocka_unit_test_setup_teardown(some_are_stopped, begin, end),
		cmocka_unit_test_setup_teardown(a_single_rank, begin, end),
		cmocka_unit_test_setup_teardown(is_withheld, begin, end),
		cmocka_unit_test_setup_teardown(of_no_rank, begin, end),
		cmocka_unit_test_setup_teardown(what_was_said_before, begin, end),
		cmocka_unit_test_setup_teardown(one_alone_and_several, begin, end),
		cmocka_unit_test_setup_teardown(not_together, begin, end),
		cmocka_unit_test_setup_teardown(one_stays_behind, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
