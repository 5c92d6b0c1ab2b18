/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_hang.c - one rank of a job goes missing: the root is named with communicator and operation, the victims
 * are not, in every layout, attached before or late; what is at work is no hang.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

static const int layouts[][3] = { { 1, 2, 1 }, { 1, 4, 1 }, { 1, 8, 1 }, { 2, 2, 2 },
				  { 4, 2, 1 }, { 2, 4, 1 }, { 1, 4, 2 }, { 2, 1, 4 } };
#define N_LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

static struct job_opts drawn(uint64_t *rng, enum fault_kind kind, double seconds)
{
	const int *l = layouts[random_next(rng) % N_LAYOUTS];
	struct job_opts o = job_usual(l[0], l[1], l[2], random_next(rng));

	o.run_ahead = random_next(rng) % 2;
	o.grouped = random_next(rng) % 2;
	o.faults[0] = (struct fault){ kind,    random_next(rng) % o.ranks, 8 + random_next(rng) % 8, 0,
				      seconds, random_next(rng) % 4 };
	return o;
}

static void outcome_print(const struct job_opts *o, const struct verdicts *v)
{
	printf("tp=%d dp=%d pp=%d seed=%llu rank=%d step=%d at=%d ahead=%d grouped=%d attach=%d\n", o->tp, o->dp, o->pp,
	       (unsigned long long)o->seed, o->faults[0].rank, o->faults[0].step, o->faults[0].at, o->run_ahead,
	       o->grouped, o->attach_step);
	verdicts_print(v);
}

static bool is_named(const struct job *j, const struct seen_finding *s, enum hang_class class, const char *cause)
{
	bool op_known = j->o.pp == 1 && j->o.attach_step == 0;

	return s && s->f.class == class && s->f.n_ranks == 1 && s->f.ranks[0] == j->o.faults[0].rank &&
	       s->f.pids[0] == job_pid(s->f.ranks[0]) && !strcmp(cause_name(s->f.cause), cause) && s->f.has_op &&
	       (!op_known || (s->f.comm == j->fault_comm[0] && s->f.seq == j->fault_seq[0]));
}

static void expect_hang(struct job_opts o, enum hang_class class, const char *cause, double bar_s)
{
	struct job *j = job_new(&o);
	struct verdicts v;
	const struct seen_finding *s;
	bool ok;

	job_play(j, &v, NULL, NULL);
	s = verdict_of(&v, FINDING_HANG);
	ok = is_named(j, s, class, cause) && verdict_roots(&v) == 1 && v.n == 1 &&
	     s->open_ns - s->f.since_ns <= (uint64_t)(bar_s * SEC) && s->f.since_ns >= j->fault_ns[0] - SEC;
	if (!ok)
		outcome_print(&o, &v);
	assert_true(ok);
	verdicts_free(&v);
	job_free(j);
}

static void test_sleeper_is_named(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 60; i++)
		expect_hang(drawn(&rng, FAULT_HANG, JOB_FOREVER), HANG_MISSING_ENTER, "asleep", 5);
}

static void test_stopped_and_dead_are_named(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 30; i++) {
		expect_hang(drawn(&rng, FAULT_STOP, JOB_FOREVER), HANG_STOPPED, "stopped", 2.1);
		expect_hang(drawn(&rng, FAULT_KILL, JOB_FOREVER), HANG_PROCESS_DEAD, "dead", 2.1);
	}
}

static void test_attached_late_is_as_good(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 30; i++) {
		struct job_opts o = drawn(&rng, FAULT_HANG, JOB_FOREVER);

		o.steps = 30;
		o.attach_step = 5;
		o.faults[0].step = 18 + i % 6;
		expect_hang(o, HANG_MISSING_ENTER, "asleep", 5);
	}
}

/* From the fault on the rank gets one part in `n` of a CPU, and stands in the run queue for the rest. */
static void crowd(struct job *j, uint64_t n)
{
	uint32_t pid = job_pid(j->o.faults[0].rank);
	uint64_t at_ns = j->fault_ns[0];

	for (size_t i = 0; i < j->n_events; i++) {
		struct event *e = &j->events[i];
		uint64_t late_ns = e->ts_ns > at_ns ? e->ts_ns - at_ns : 0;

		if (e->kind != EV_TASK || e->tid != pid || !late_ns)
			continue;
		e->task.run_ns -= late_ns - late_ns / n;
		e->task.wait_ns += late_ns - late_ns / n;
	}
}

static void test_busy_is_observed_then_a_hang(void **state)
{
	static const enum fault_kind kinds[] = { FAULT_BUSY, FAULT_IO, FAULT_BUSY };
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 9; i++) {
		struct job_opts o = drawn(&rng, kinds[i % 3], JOB_FOREVER);
		struct job *j;
		struct verdicts v;
		const struct seen_finding *s, *h;

		o.tail_s = 100;
		j = job_new(&o);
		if (i % 3 == 2)
			crowd(j, i == 2 ? 7 : UINT64_MAX); /* to none at all */
		job_play(j, &v, NULL, NULL);
		s = verdict_of(&v, FINDING_OBSERVATION);
		h = verdict_of(&v, FINDING_HANG);
		if (!is_named(j, s, HANG_MISSING_ENTER, "busy") || !is_named(j, h, HANG_MISSING_ENTER, "busy") ||
		    v.n != 2)
			outcome_print(&o, &v);
		assert_true(is_named(j, s, HANG_MISSING_ENTER, "busy"));
		assert_true(s->open_ns - s->f.since_ns < 5 * SEC);
		assert_true(is_named(j, h, HANG_MISSING_ENTER, "busy"));
		assert_true(h->open_ns - h->f.since_ns >= 90 * SEC && h->open_ns - h->f.since_ns < 91 * SEC);
		assert_int_equal(v.n, 2);
		verdicts_free(&v);
		job_free(j);
	}
}

/* A first hang must not teach the second to be found late, nor an ordinary checkpoint a sleeper. */
static void test_a_hang_does_not_raise_the_limit(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 10; i++) {
		struct job_opts o = drawn(&rng, FAULT_HANG, 6);
		struct job *j;
		struct verdicts v;
		const struct seen_finding *s = NULL;

		o.steps = 40;
		o.faults[1] = (struct fault){ FAULT_IO, (o.faults[0].rank + 1) % o.ranks, 20, 0, 20, 2 };
		o.faults[2] = (struct fault){ FAULT_HANG, (o.faults[0].rank + 1) % o.ranks, 30, 0, JOB_FOREVER, 2 };
		j = job_new(&o);
		job_play(j, &v, NULL, NULL);
		for (size_t k = 0; k < v.n; k++)
			if (v.all[k].f.kind == FINDING_HANG && v.all[k].f.ranks[0] == o.faults[2].rank)
				s = &v.all[k];
		if (!s || verdict_roots(&v) != 2)
			outcome_print(&o, &v);
		assert_non_null(s);
		assert_int_equal(verdict_roots(&v), 2);
		assert_true(s->open_ns - s->f.since_ns < 36 * SEC / 10);
		verdicts_free(&v);
		job_free(j);
	}
}

static void drop_rank(struct job *j, int rank)
{
	size_t n = 0;

	for (size_t i = 0; i < j->n_events; i++)
		if (j->events[i].tgid != job_pid(rank) && j->events[i].tgid != job_pid(rank) + 50)
			j->events[n++] = j->events[i];
	j->n_events = n;
}

/* The sleeper lives on another node: nobody here may be blamed for it. */
static void test_the_unseen_are_not_guessed(void **state)
{
	uint64_t rng = test_seed();

	(void)state;
	for (int i = 0; i < 20; i++) {
		struct job_opts o = drawn(&rng, FAULT_HANG, JOB_FOREVER);
		struct job *j;
		struct verdicts v;

		o.tp = o.pp = 1;
		o.dp = o.ranks;
		o.tail_s = 40;
		j = job_new(&o);
		drop_rank(j, o.faults[0].rank);
		job_play(j, &v, NULL, NULL);
		if (v.n)
			outcome_print(&o, &v);
		assert_int_equal(v.n, 0);
		verdicts_free(&v);
		job_free(j);
	}
}

/* Records of the suspect were lost shortly before: its entry may be among them. */
static void test_loss_takes_the_certainty(void **state)
{
	struct job_opts o = job_usual(1, 4, 1, 5);
	struct job *j;
	struct verdicts v;
	const struct seen_finding *s;

	(void)state;
	o.faults[0] = (struct fault){ FAULT_HANG, 2, 12, 0, JOB_FOREVER, 2 };
	o.faults[1] = (struct fault){ FAULT_LOSE_OPS, 1, 11, 100, 0, 0 };
	j = job_new(&o);
	job_play(j, &v, NULL, NULL);
	s = verdict_of(&v, FINDING_HANG);
	assert_non_null(s);
	assert_int_equal(s->f.class, HANG_UNKNOWN);
	assert_true(s->f.confidence < 0.5);
	assert_non_null(verdict_of(&v, FINDING_LOST_EVENTS));
	verdicts_free(&v);
	job_free(j);
}

static void polls_take_away(struct event *e)
{
	*e = (struct event){ .kind = EV_BUDGET,
			     .tgid = e->tgid,
			     .tid = e->tid,
			     .ts_ns = e->ts_ns,
			     .budget = { .what = BUDGET_SHED, .group = PROBES_POLLS, .shed = 1 << PROBES_POLLS } };
}

/* From the end on that is the 20th from the last. */
static void nothing_ends(struct job *j, bool polled)
{
	uint64_t cut_ns = j->truths[j->n_truths - 20].end_ns;

	for (size_t i = 0; i < j->n_events; i++) {
		struct event *e = &j->events[i];

		if (e->ts_ns < cut_ns)
			continue;
		if (e->kind == EV_SYNC_END)
			e->kind = EV_NONE;
		else if (e->kind == EV_CUDA_EVENT_QUERY && !polled)
			polls_take_away(e);
		else if (e->kind == EV_CUDA_EVENT_QUERY)
			e->cuda_event.result = CUDA_NOT_READY;
		else if (e->kind == EV_OP || e->kind == EV_CUDA_EVENT || e->kind == EV_SYNC_BEGIN)
			e->kind = e->ts_ns > cut_ns + 600 * MSEC ? EV_NONE : e->kind;
	}
}

/* As many as each rank entered. */
static void entries_align(struct job *j, int ranks)
{
	size_t n[8] = { 0 }, least = SIZE_MAX;

	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < j->n_events; i++)
			for (int r = 0; r < ranks && j->events[i].kind == EV_OP; r++)
				if (j->events[i].tgid == job_pid(r) && n[r]++ >= least && pass)
					j->events[i].kind = EV_NONE;
		for (int r = 0; r < ranks; r++) {
			least = n[r] < least ? n[r] : least;
			n[r] = 0;
		}
	}
}

static void event_append(struct job *j, struct event e)
{
	e.ts_ns = j->events[j->n_events - 1].ts_ns;
	e.ts_ns += e.kind == EV_TICK ? 250 * MSEC : 0;
	j->events = realloc(j->events, (j->n_events + 1) * sizeof(e));
	j->events[j->n_events++] = e;
}

/* Everybody entered and the wait does not end: said late, of nobody. With how much confidence. */
static double inside_confidence(bool polled)
{
	struct job_opts o = job_usual(1, 4, 1, 5);
	struct job *j = job_new(&o);
	struct verdicts v;
	const struct seen_finding *s;
	double confidence;

	nothing_ends(j, polled);
	for (int i = 0; i < 80; i++)
		event_append(j, (struct event){ .kind = EV_TICK });
	job_play(j, &v, NULL, NULL);
	s = verdict_of(&v, FINDING_HANG);
	if (!s || s->f.class != HANG_UNKNOWN)
		outcome_print(&o, &v);
	assert_non_null(s);
	assert_int_equal(s->f.class, HANG_UNKNOWN);
	assert_int_equal(s->f.n_ranks, 0);
	assert_true(s->open_ns - s->f.since_ns >= 10 * SEC);
	confidence = s->f.confidence;
	verdicts_free(&v);
	job_free(j);
	return confidence;
}

/* One of them died of a signal (or ended as it should), after it had entered; the others' watchdogs go on asking. */
static const struct seen_finding *died_inside(struct verdicts *v, int signal)
{
	struct job_opts o = job_usual(1, 4, 1, 5);
	struct job *j = job_new(&o);
	size_t n;

	nothing_ends(j, true);
	entries_align(j, 4);
	n = j->n_events;
	event_append(j, (struct event){ .kind = EV_EXIT,
					.tgid = job_pid(2),
					.tid = job_pid(2),
					.exit = { .last = true, .signal = signal } });
	for (int i = 0; i < 32; i++) {
		for (size_t k = 0; k < n; k++)
			if (j->events[k].kind == EV_CUDA_EVENT_QUERY &&
			    j->events[k].cuda_event.result == CUDA_NOT_READY)
				event_append(j, j->events[k]);
		event_append(j, (struct event){ .kind = EV_TICK });
	}
	job_play(j, v, NULL, NULL);
	job_free(j);
	return verdict_of(v, FINDING_HANG);
}

static void test_inside_names_the_dead(void **state)
{
	struct verdicts v;
	const struct seen_finding *s = died_inside(&v, 9);

	(void)state;
	assert_non_null(s);
	assert_int_equal(s->f.class, HANG_PROCESS_DEAD);
	assert_int_equal(s->f.n_ranks, 1);
	assert_int_equal(s->f.ranks[0], 2);
	assert_true(s->open_ns - s->f.since_ns < 2300 * MSEC);
	verdicts_free(&v);
	s = died_inside(&v, 0);
	assert_true(!s || s->f.class == HANG_UNKNOWN);
	verdicts_free(&v);
}

/* Little confidence, and less where the probes on polls were taken away: something may have ended, unseen. */
static void test_inside_names_nobody(void **state)
{
	double polled = inside_confidence(true), unpolled = inside_confidence(false);

	(void)state;
	assert_true(polled < 0.5 && unpolled < polled);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sleeper_is_named),
		cmocka_unit_test(test_stopped_and_dead_are_named),
		cmocka_unit_test(test_attached_late_is_as_good),
		cmocka_unit_test(test_busy_is_observed_then_a_hang),
		cmocka_unit_test(test_a_hang_does_not_raise_the_limit),
		cmocka_unit_test(test_the_unseen_are_not_guessed),
		cmocka_unit_test(test_loss_takes_the_certainty),
		cmocka_unit_test(test_inside_names_nobody),
		cmocka_unit_test(test_inside_names_the_dead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
