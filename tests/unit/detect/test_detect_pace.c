/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_pace.c - a job's pace by its counters alone: lasting drops are reported once and end, and noise, long
 * steps, pauses and what a job does by habit are not.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/incident.h"
#include "tests/unit/job/job_script.h"

#define RANKS 4
#define WORLD 0xa0
#define OPS 7 /* a step */

struct phase {
	double from_s, to_s, slower;
}; /* of the time; slower 0: nothing is entered */

struct script {
	double step_s, jitter, seconds;
	const struct phase *phases; /* ends with to_s 0 */
	double every_s;             /* the phases come again; 0 not */
	int behind_s;               /* from then on rank 2 works for 10 s, and the others wait */
	int blocked_s;              /* from then on a thread of rank 1 is in D state */
};

struct outcome {
	int opened, closed;
	double first_s, first_close_s, slower_percent;
};

static uint32_t draws;

static double draw(void)
{
	draws = draws * 1664525 + 1013904223;
	return (draws >> 8) / 16777216.0 * 2 - 1;
}

static double slower_at(const struct script *s, double t)
{
	double at = s->every_s ? fmod(t, s->every_s) : t;

	for (const struct phase *p = s->phases; p && p->to_s > 0; p++)
		if (at >= p->from_s && at < p->to_s)
			return p->slower;
	return 1;
}

static void give(struct model *m, struct event e, double t)
{
	e.ts_ns = JOB_T0 + t * 1e9;
	assert_int_equal(model_apply(m, &e), 0);
}

static void counters_give(struct model *m, uint64_t n, double t)
{
	for (int r = 0; r < RANKS; r++) {
		struct event e = job_event(EV_COMM_SAMPLE, r, 0), task = job_event(EV_TASK, r, 0);

		e.comm_sample.comm = e.comm_sample.hash = WORLD;
		e.comm_sample.rank = e.comm_sample.device = r;
		e.comm_sample.nranks = RANKS;
		e.comm_sample.n_counters = OP_KINDS_COUNTED;
		e.comm_sample.counters[OP_ALLREDUCE] = n - (r == 2 && t < 0);
		give(m, e, fabs(t));
		task.tid = task.tgid;
		task.task.state = r == 2 && t < 0 ? TASK_ON_CPU : TASK_SLEEP;
		task.task.run_ns = fabs(t) * 1e9;
		give(m, task, fabs(t));
	}
}

static void blocked_give(struct model *m, double since, double t)
{
	struct event e = job_event(EV_BLOCKED, 1, 0), task = job_event(EV_TASK, 1, 0);

	e.tid = task.tid = e.tgid + 500;
	e.blocked.begin_ns = task.task.since_ns = JOB_T0 + since * 1e9;
	task.task.state = TASK_DISK;
	give(m, task, t);
	give(m, e, t);
}

static void tick(struct model *m, struct detectors *d, struct incidents *in, struct finding_list *list, double t,
		 struct outcome *ret)
{
	struct event e = { .kind = EV_TICK };
	const struct incident *i;

	give(m, e, t);
	assert_int_equal(detectors_tick(d, m, list), 0);
	assert_int_equal(incidents_update(in, list, m), 0);
	while ((i = incidents_next(in))) {
		if (i->f.kind != FINDING_SLOW_STEP)
			continue;
		assert_string_equal(i->f.job, "train");
		assert_int_equal(i->f.n_ranks, 0);
		if (i->phase == PHASE_OPEN && !ret->opened++) {
			ret->first_s = t;
			ret->slower_percent = i->f.evidence[2].number;
		}
		if (i->phase == PHASE_CLOSE && !ret->closed++)
			ret->first_close_s = t;
	}
}

static void who(struct model *m)
{
	struct event start = { .kind = EV_START };

	start.start.hang_floor_ns = 1500 * MSEC;
	start.start.busy_limit_ns = 90 * SEC;
	start.start.dstate_limit_ns = 2 * SEC;
	start.start.host = "node7";
	give(m, start, 0);
	for (int r = 0; r < RANKS; r++) {
		struct event e = job_event(EV_PROC, r, 0);

		e.proc.start_ns = 5;
		e.proc.rank = e.proc.local_rank = r;
		e.proc.world_size = RANKS;
		e.proc.job = "train";
		give(m, e, 0);
	}
}

static struct outcome play(const struct script *s)
{
	struct model *m = model_new();
	struct detectors *d = detectors_new();
	struct incidents *in = incidents_new();
	struct finding_list list = { 0 };
	struct outcome ret = { 0 };
	uint64_t n = OPS;
	double next = s->step_s, looked = 0.3, t = 0.5;

	who(m);
	for (; t < s->seconds; t += 0.25) {
		bool held = s->behind_s && t >= s->behind_s && t < s->behind_s + 10;

		while (next <= t) {
			double slower = slower_at(s, next);

			n += slower > 0 && !held ? OPS : 0;
			next += slower > 0 ? s->step_s * slower * (1 + s->jitter * draw()) : 0.1;
		}
		if (t - looked >= 1) {
			looked = t + 0.02 * draw();
			counters_give(m, n, held ? -looked : looked);
			if (s->blocked_s && looked > s->blocked_s)
				blocked_give(m, s->blocked_s, looked);
		}
		tick(m, d, in, &list, t + 0.1, &ret);
	}
	finding_list_free(&list);
	incidents_free(in);
	detectors_free(d);
	model_free(m);
	return ret;
}

static void test_a_lasting_drop(void **state)
{
	static const struct phase phases[] = { { 60, 100, 1.5 }, { 0, 0, 0 } };
	const double steps_s[] = { 0.05, 0.11, 0.4 };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct script s = { .step_s = steps_s[i], .jitter = 0.05, .seconds = 130, .phases = phases };
		struct outcome outcome = play(&s);

		assert_int_equal(outcome.opened, 1);
		assert_int_equal(outcome.closed, 1);
		assert_true(outcome.first_s >= 64 && outcome.first_s < (i < 2 ? 68 : 75));
		assert_true(outcome.first_close_s > 100 && outcome.first_close_s < 112);
		assert_true(fabs(outcome.slower_percent - 50) < 15);
	}
}

static void test_a_small_drop_is_not_reported(void **state)
{
	static const struct phase phases[] = { { 60, 200, 1.1 }, { 0, 0, 0 } };
	struct script s = { .step_s = 0.1, .jitter = 0.05, .seconds = 200, .phases = phases };

	(void)state;
	assert_int_equal(play(&s).opened, 0);
}

static void test_noise_is_silence(void **state)
{
	const double steps_s[] = { 0.05, 0.3, 1, 2.3, 7 }, jitters[] = { 0.02, 0.2, 0.6 };

	(void)state;
	for (int seed = 0; seed < 6; seed++)
		for (size_t i = 0; i < 15; i++) {
			struct script s = { .step_s = steps_s[i % 5], .jitter = jitters[i / 5], .seconds = 600 };

			draws = 77 * seed + i;
			assert_int_equal(play(&s).opened, 0);
		}
}

/* A second holds no whole step of it. */
static void test_long_steps(void **state)
{
	static const struct phase phases[] = { { 380, 520, 1.6 }, { 0, 0, 0 } };
	struct script s = { .step_s = 2.3, .jitter = 0.03, .seconds = 520, .phases = phases };
	struct outcome outcome;

	(void)state;
	outcome = play(&s);
	assert_int_equal(outcome.opened, 1);
	assert_true(outcome.first_s > 385 && outcome.first_s < 460);
}

/* Evaluation every 2 minutes, all ranks at half the pace: reported the first time, as it might have been a fault. */
static void test_a_habit_is_reported_once(void **state)
{
	static const struct phase phases[] = { { 100, 120, 2 }, { 0, 0, 0 } };
	struct script s = { .step_s = 0.1, .jitter = 0.05, .seconds = 1200, .phases = phases, .every_s = 120 };
	struct outcome outcome;

	(void)state;
	outcome = play(&s);
	assert_int_equal(outcome.opened, 1);
	assert_int_equal(outcome.closed, 1);
}

/* What lasts for longer than the habit is reported all the same. */
static void test_longer_than_its_habit(void **state)
{
	static const struct phase phases[] = { { 100, 115, 2 }, { 220, 235, 2 }, { 330, 400, 1.5 }, { 0, 0, 0 } };
	struct script s = { .step_s = 0.1, .jitter = 0.05, .seconds = 400, .phases = phases };
	struct outcome outcome;

	(void)state;
	outcome = play(&s);
	assert_int_equal(outcome.opened, 2);
	assert_int_equal(outcome.closed, 1);
}

static void test_pauses_are_no_pace(void **state)
{
	static const struct phase checkpoint[] = { { 50, 58, 0 }, { 0, 0, 0 } },
				  compile[] = { { 60, 120, 0 }, { 0, 0, 0 } };
	struct script often = { .step_s = 0.1, .jitter = 0.05, .seconds = 600, .phases = checkpoint, .every_s = 60 };
	struct script once = { .step_s = 0.1, .jitter = 0.05, .seconds = 300, .phases = compile };
	struct script behind = { .step_s = 0.1, .jitter = 0.05, .seconds = 120, .behind_s = 60 };

	(void)state;
	assert_int_equal(play(&often).opened, 0);
	assert_int_equal(play(&once).opened, 0);
	assert_int_equal(play(&behind).opened, 0);
}

/* Somebody is known to be delayed: the pace is that finding's affair. */
static void test_a_known_fault_explains_it(void **state)
{
	static const struct phase phases[] = { { 62, 150, 1.5 }, { 0, 0, 0 } };
	struct script s = { .step_s = 0.1, .jitter = 0.05, .seconds = 150, .phases = phases, .blocked_s = 59 };

	(void)state;
	assert_int_equal(play(&s).opened, 0);
	s.blocked_s = 0;
	assert_int_equal(play(&s).opened, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_lasting_drop),           cmocka_unit_test(test_a_small_drop_is_not_reported),
		cmocka_unit_test(test_noise_is_silence),         cmocka_unit_test(test_long_steps),
		cmocka_unit_test(test_a_habit_is_reported_once), cmocka_unit_test(test_longer_than_its_habit),
		cmocka_unit_test(test_pauses_are_no_pace),       cmocka_unit_test(test_a_known_fault_explains_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
