/* SPDX-License-Identifier: Apache-2.0
 *
 * test_phase_windows.c - which phase of a step explains that steps became longer, or that a rank makes its peers wait,
 * and whose phase it is. Four ranks; how long each is in what, is written by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "detect/straggler/cause.h"
#include "detect/straggler/phase_windows.h"
#define HAND_RANKS 4
#include "tests/unit/job/hand_known.h"
#include "tests/unit/job/evidence.h"

#define RECENT 10
#define BASE 40
#define MS 1000000ull

struct ms { /* of a step, of one rank */
	int data, forward, backward, optimizer, other, gpu, exposed, gc;
};

static const struct ms usual = { 2, 3, 5, 1, 1, 28, 2, 0 }; /* 40 ms */
static struct ms ranks[HAND_RANKS];
static enum steps_by by[HAND_RANKS];
static struct phase_windows windows;
static uint64_t n_windows;

static int begin(void **state)
{
	hand_setup(state);
	hand_find();
	n_windows = 0;
	for (int r = 0; r < HAND_RANKS; r++) {
		known[r]->has_phases = true;
		ranks[r] = usual;
		by[r] = STEPS_BY_RANGES;
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	phase_windows_free(&windows);
	windows = (struct phase_windows){ 0 };
	hand_lose();
	return 0;
}

static void step(int r)
{
	const int host[] = { ranks[r].data,      ranks[r].forward, ranks[r].backward,
			     ranks[r].optimizer, ranks[r].gc,      ranks[r].other };
	struct phase_totals *t = &known[r]->phase_totals;
	int wall = ranks[r].gpu;

	for (int i = 0; i < PHASES_AND_OTHER; i++) {
		t->host_ns[i] += host[i] * MS;
		wall += host[i];
	}
	t->by_changes += t->n_steps && t->by != by[r];
	t->by = by[r];
	t->n_steps++;
	t->wall_ns += wall * MS;
	t->gpu_wait_ns += ranks[r].gpu * MS;
	t->exposed_most_ns += ranks[r].exposed * MS;
}

/* So many windows of five steps. */
static void pass(int n)
{
	for (int w = 0; w < n; w++) {
		for (int r = 0; r < HAND_RANKS * 5; r++)
			step(r % HAND_RANKS);
		assert_int_equal(phase_windows_push(&windows, &m, hand_job, ++n_windows), 0);
	}
}

/* As it was, then as `ranks` says. */
static struct phase_verdict judged(void)
{
	struct ms then[HAND_RANKS];

	memcpy(then, ranks, sizeof(then));
	for (int r = 0; r < HAND_RANKS; r++)
		ranks[r] = usual;
	pass(BASE);
	memcpy(ranks, then, sizeof(then));
	pass(RECENT);
	phase_windows_compare(&windows, &m, hand_job, RECENT, BASE);
	return phase_windows_judge(&windows, &m, hand_job, RECENT);
}

static void all_wait_more(int ms, int but)
{
	for (int r = 0; r < HAND_RANKS; r++)
		ranks[r].gpu += r == but ? 0 : ms;
}

static void nothing_changed(void **state)
{
	(void)state;
	assert_int_equal(judged().reason.phase, -1);
}

/* 20 ms in the backward; its peers wait as long for the GPU, in which the communication is. */
static void one_rank(void **state)
{
	struct phase_verdict v;

	(void)state;
	ranks[2].backward += 20;
	all_wait_more(20, 2);
	v = judged();
	assert_int_equal(v.reason.phase, PHASE_BACKWARD);
	assert_true(v.who == WHO_RANKS && v.proc == known[2]->key && !v.worker);
	assert_string_equal(v.ranks, "2");
	assert_float_equal(v.reason.own_s, 0.025, 1e-9);
	assert_float_equal(v.reason.usual_s, 0.005, 1e-9);
	assert_float_equal(v.reason.part, 1, 1e-9);
}

static void most_of_the_wait(void **state)
{
	(void)state;
	ranks[1].forward += 16;
	ranks[1].gpu += 4;
	all_wait_more(20, 1);
	assert_int_equal(judged().reason.phase, PHASE_FORWARD); /* 80 % */
	end(state);
	begin(state);
	ranks[1].forward += 15;
	ranks[1].gpu += 5;
	all_wait_more(20, 1);
	assert_int_equal(judged().reason.phase, -1);
}

/* One that is a little later than the others is not the reason. */
static void everybody(void **state)
{
	struct phase_verdict v;

	(void)state;
	for (int r = 0; r < HAND_RANKS; r++) {
		ranks[r].optimizer += r ? 14 : 20;
		ranks[r].gpu += r ? 6 : 0;
	}
	v = judged();
	assert_int_equal(v.reason.phase, PHASE_OPTIMIZER);
	assert_true(v.who == WHO_EVERYBODY && !*v.ranks && !v.proc);
}

/* Of one rank, and of all in turns, as collectors run when they like. */
static void garbage_collection(void **state)
{
	struct phase_verdict v;

	(void)state;
	ranks[3].gc += 20;
	all_wait_more(20, 3);
	v = judged();
	assert_int_equal(phase_reason_cause(&v.reason), CAUSE_GC);
	assert_int_equal(v.who, WHO_RANKS);
	assert_string_equal(v.ranks, "3");
	end(state);
	begin(state);
	for (int r = 0; r < HAND_RANKS; r++) {
		ranks[r].gc += 10;
		ranks[r].gpu += 30;
	}
	v = judged();
	assert_int_equal(phase_reason_cause(&v.reason), CAUSE_GC);
	assert_int_equal(v.who, WHO_TURNS);
}

/* Each is late in a quarter of the steps, and waits for the others in the rest. */
static void in_turns(void **state)
{
	struct phase_verdict v;

	(void)state;
	for (int r = 0; r < HAND_RANKS; r++) {
		ranks[r].data += 10;
		ranks[r].gpu += 30;
	}
	v = judged();
	assert_int_equal(v.reason.phase, PHASE_DATA_WAIT);
	assert_true(v.who == WHO_TURNS && !*v.ranks);
	assert_float_equal(v.reason.own_s, 0.048, 1e-9);
	assert_float_equal(v.reason.usual_s, 0.008, 1e-9);
}

static void the_gpus(void **state)
{
	struct phase_verdict v;

	(void)state;
	all_wait_more(20, -1);
	v = judged();
	assert_int_equal(v.reason.phase, PHASE_GPU_WAIT);
	assert_true(v.computes);
	end(state);
	begin(state);
	all_wait_more(20, -1);
	for (int r = 0; r < HAND_RANKS; r++)
		ranks[r].exposed += 5; /* it may be communication */
	v = judged();
	assert_true(v.reason.phase == PHASE_GPU_WAIT && !v.computes);
}

/* Whose host does not wait, or does not show, may be what the others wait for. */
static void no_word_on_gpus(void **state)
{
	(void)state;
	ranks[3].forward += 10;
	ranks[3].backward += 10;
	all_wait_more(20, 3);
	assert_int_equal(judged().reason.phase, -1);
	end(state);
	begin(state);
	all_wait_more(20, -1);
	known[3]->has_phases = false;
	assert_int_equal(judged().reason.phase, -1);
}

/* A process that is new has nothing to be compared with. */
static void without_a_past(void **state)
{
	(void)state;
	ranks[0].backward += 20;
	pass(RECENT);
	phase_windows_compare(&windows, &m, hand_job, RECENT, BASE);
	assert_int_equal(phase_windows_judge(&windows, &m, hand_job, RECENT).reason.phase, -1);
}

/* Ranges of PyTorch are no longer probed, for their cost: a wait for data is the forward's from now on. */
static void ranges_went(int r)
{
	by[r] = STEPS_BY_OPERATORS;
	ranks[r].forward += 20;
	ranks[r].data -= 2;
}

/* All ranks lose theirs while their steps become longer: phases of before say nothing of these. */
static void ranges_went_everywhere(void **state)
{
	struct phase_verdict v;

	(void)state;
	pass(BASE);
	for (int r = 0; r < HAND_RANKS; r++)
		ranges_went(r);
	pass(RECENT);
	phase_windows_compare(&windows, &m, hand_job, RECENT, BASE);
	assert_int_equal(phase_windows_judge(&windows, &m, hand_job, RECENT).reason.phase, -1);
	pass(BASE - RECENT); /* the first of these windows still hold steps of before */
	for (int r = 0; r < HAND_RANKS; r++)
		ranks[r].backward += 20;
	pass(RECENT);
	phase_windows_compare(&windows, &m, hand_job, RECENT, BASE);
	v = phase_windows_judge(&windows, &m, hand_job, RECENT);
	assert_int_equal(v.reason.phase, PHASE_BACKWARD);
	assert_float_equal(v.reason.usual_s, 0.005, 1e-9);
}

static void ranges_went_of_one_rank(void **state)
{
	struct phase_verdict v;

	(void)state;
	pass(BASE);
	ranges_went(2);
	ranks[3].backward += 20;
	all_wait_more(20, 3);
	pass(RECENT);
	phase_windows_compare(&windows, &m, hand_job, RECENT, BASE);
	v = phase_windows_judge(&windows, &m, hand_job, RECENT);
	assert_int_equal(v.reason.phase, PHASE_BACKWARD);
	assert_string_equal(v.ranks, "3");
}

static void data_workers(struct proc *workers, struct task *tasks, int n)
{
	for (int i = 0; i < n; i++) {
		tasks[i] = (struct task){ .tid = 900 + i, .seen_ns = 2000 * MS, .prev_seen_ns = 1000 * MS };
		workers[i] = (struct proc){ .key = 900 + i,
					    .tgid = 900 + i,
					    .is_child = true,
					    .leader = known[1],
					    .tasks = &tasks[i],
					    .next = i ? &workers[i - 1] : NULL };
	}
	known[HAND_RANKS - 1]->next = &workers[n - 1];
}

static void which_worker(void **state)
{
	struct proc workers[4];
	struct task tasks[4];

	(void)state;
	data_workers(workers, tasks, 4);
	assert_int_equal(data_worker_find(&m, known[1]), 0);
	tasks[2].run_ns = 300 * MS;
	tasks[2].wait_ns = 300 * MS; /* it has no CPU */
	assert_int_equal(data_worker_find(&m, known[1]), workers[2].key);
	assert_int_equal(data_worker_find(&m, known[0]), 0);
	tasks[0].run_ns = 400 * MS; /* two of them work */
	assert_int_equal(data_worker_find(&m, known[1]), 0);
	tasks[0].run_ns = 0;
	tasks[2].run_ns = 0;
	tasks[3].state = TASK_DISK;
	assert_int_equal(data_worker_find(&m, known[1]), workers[3].key);
	known[HAND_RANKS - 1]->next = NULL;
}

/* Of a rank that its peers wait for: what it takes longer than they, of the blame. */
static void a_straggler(void **state)
{
	struct cost_rates own = { .throttled = -1, .preempted_per_s = -1, .io_bytes_s = -1 }, peers[3];
	struct finding f = { 0 };
	struct host_cause c;

	(void)state;
	for (int k = 0; k < COST_MAX; k++)
		own.cost[k] = -1;
	own.phases = (struct phase_mean){ .known = true, .step_s = 0.1, .host_s = { [PHASE_BACKWARD] = 0.03 } };
	for (int i = 0; i < 3; i++) {
		peers[i] = own;
		peers[i].phases.host_s[PHASE_BACKWARD] = 0.01;
	}
	c = host_cause(&own, peers, 3, 0.2);
	assert_int_equal(c.cause, CAUSE_HOST_PHASE);
	host_cause_note(&f, &c, NULL);
	assert_string_equal(text_named(&f, "phase", ""), "backward");
	assert_float_equal(number_named(&f, "phase_percent", -1), 100, 1e-6);
	own.phases.host_s[PHASE_DATA_WAIT] = 0.05;
	assert_int_equal(host_cause(&own, peers, 3, 0.06).cause, CAUSE_DATA_WAIT);
	own.phases.host_s[PHASE_GC] = 0.06;
	c = host_cause(&own, peers, 3, 0.06);
	assert_int_equal(c.cause, CAUSE_GC);
	own.phases.host_s[PHASE_GC] = 0;
	assert_int_equal(host_cause(&own, peers, 3, 0.7).cause, CAUSE_NONE);
	assert_int_equal(host_cause(&own, peers, 0, 0.2).cause, CAUSE_NONE);
	own.phases.by = STEPS_BY_OPERATORS; /* its forward holds its wait for data, too */
	own.phases.host_s[PHASE_FORWARD] = 0.05;
	assert_int_equal(host_cause(&own, peers, 3, 0.06).cause, CAUSE_NONE);
	peers[1].phases.by = STEPS_BY_OPERATORS; /* that one is no other */
	assert_int_equal(host_cause(&own, peers, 3, 0.06).cause, CAUSE_HOST_PHASE);
	own.phases.by = STEPS_BY_RANGES;
	own.phases.host_s[PHASE_FORWARD] = 0;
	own.cost[COST_RUNQ] = 0.3; /* what the host does to it says more; the phase stays */
	for (int i = 0; i < 3; i++)
		peers[i].cost[COST_RUNQ] = 0;
	c = host_cause(&own, peers, 3, 0.06);
	assert_true(c.cause == CAUSE_CPU_STARVED && c.phase.phase == PHASE_DATA_WAIT);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(nothing_changed),
		TEST(one_rank),
		TEST(most_of_the_wait),
		TEST(everybody),
		TEST(in_turns),
		TEST(the_gpus),
		TEST(no_word_on_gpus),
		TEST(without_a_past),
		TEST(which_worker),
		TEST(a_straggler),
		TEST(garbage_collection),
		TEST(ranges_went_everywhere),
		TEST(ranges_went_of_one_rank),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
