/* SPDX-License-Identifier: Apache-2.0
 *
 * test_gpu_duty_rules.c - the rules of detector gpu_duty one by one, on activity without noise: which samples are one
 * round, how long past and present must be, how far one must be above its past and the others below theirs, when it is
 * over, and what is said. Rank ODD changes against the others; `tensor` and `sm` are hundredths of a percent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/detect.h"
#include "tests/unit/job/finding_text.h"
#include "tests/unit/job/job_script.h"

#define RANKS_MAX 18
#define ODD 2
#define PAST_TENSOR 5000
#define PAST_SM 8000

extern const struct detector detector_gpu_duty;

static struct model *m;
static void *state_of;
static struct finding_list list;
static struct gpu_sample gpu[RANKS_MAX];
static uint64_t now, late_ns[RANKS_MAX]; /* its sample comes so long after the first */
static int ranks;

static void give(struct event e)
{
	assert_int_equal(model_apply(m, &e), 0);
}

static void on_gpu(int r)
{
	struct event e = { .kind = EV_GPU_PROCS, .ts_ns = now };

	e.gpu_procs.index = r;
	e.gpu_procs.n = 1;
	e.gpu_procs.pids[0] = job_pid(r);
	give(e);
}

static void job_of(int n)
{
	ranks = n;
	for (int r = 0; r < n; r++) {
		give(job_proc_event(r, n, now));
		on_gpu(r);
		late_ns[r] = 0;
		gpu[r] = (struct gpu_sample){ .index = r,
					      .window_ns = SEC,
					      .power_mw = 600000,
					      .dram_bp = GPU_NO_VALUE,
					      .occupancy_bp = GPU_NO_VALUE,
					      .sm_bp = PAST_SM,
					      .tensor_bp = PAST_TENSOR,
					      .sm_clock_mhz = GPU_NO_VALUE };
	}
}

static int fresh(void **state)
{
	(void)state;
	now = JOB_T0;
	m = model_new();
	state_of = calloc(1, detector_gpu_duty.state_bytes);
	job_of(4);
	return 0;
}

static int done(void **state)
{
	(void)state;
	finding_list_free(&list);
	list = (struct finding_list){ 0 };
	detector_gpu_duty.release(state_of);
	free(state_of);
	model_free(m);
	return 0;
}

static size_t look(void)
{
	list.n = 0;
	give((struct event){ .kind = EV_TICK, .ts_ns = now });
	assert_int_equal(detector_gpu_duty.tick(state_of, m, &list), 0);
	return list.n;
}

/* Rounds of samples. Returns after how many somebody was named, 0: nobody. */
static int rounds(int n, uint64_t every_ns)
{
	int named = 0;

	for (int i = 1; i <= n; i++) {
		now += every_ns;
		for (int r = 0; r < ranks; r++) {
			struct event e = { .kind = EV_GPU_SAMPLE, .ts_ns = now + late_ns[r] };

			e.gpu_sample = gpu[r];
			give(e);
		}
		now += SEC / 100;
		named = look() && !named ? i : named;
		now -= SEC / 100;
	}
	return named;
}

/* Its activity over the others' becomes so much more, in hundredths of a percent; theirs falls by `fall`. */
static void changes(int rise_tensor, int rise_sm, int fall)
{
	for (int r = 0; r < ranks; r++) {
		uint64_t tensor = PAST_TENSOR * (10000 - fall) / 10000, sm = PAST_SM * (10000 - fall) / 10000;

		gpu[r].tensor_bp = r == ODD ? tensor * (10000 + rise_tensor) / 10000 : tensor;
		gpu[r].sm_bp = r == ODD ? sm * (10000 + rise_sm) / 10000 : sm;
	}
}

static void slow_one(void)
{
	changes(2000, 1000, 1000);
}

/* --- what is said --- */

static void what_is_said(void **state)
{
	(void)state;
	for (int r = 0; r < ranks; r++)
		gpu[r].sm_clock_mhz = 1980;
	assert_int_equal(rounds(12, SEC), 0);
	slow_one();
	for (int r = 0; r < ranks; r++) {
		gpu[r].power_mw = r == ODD ? 700000 : 500000;
		gpu[r].sm_clock_mhz = r == ODD ? 1650 : 1950;
	}
	assert_int_equal(rounds(8, SEC / 2), 3);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].subject.type, SUBJECT_RANK);
	assert_string_equal(finding_text_of(&list.items[0]),
			    "straggler  gpu 0.9 #0 in 0 since 112 w 0 c 0 by 0 ranks 2\n"
			    "blame_percent 10\nsm_percent 79.2\nsm_percent_before 80\nsm_percent_peers 72\n"
			    "sm_percent_peers_before 80\ntensor_percent 54\ntensor_percent_before 50\n"
			    "tensor_percent_peers 45\ntensor_percent_peers_before 50\npower_w 700\n"
			    "power_w_peers 500\nsm_clock_mhz 1650\nsm_clock_mhz_before 1980\nsm_clock_mhz_peers 1950");
	for (int r = 0; r < ranks; r++)
		gpu[r].power_mw = gpu[r].sm_clock_mhz = GPU_NO_VALUE;
	rounds(4, SEC / 2);
	assert_null(finding_evidence(&list.items[0], EVIDENCE_POWER_W));
	assert_null(finding_evidence(&list.items[0], EVIDENCE_SM_CLOCK_MHZ));
	assert_true(list.items[0].since_ns == 112 * SEC); /* as it was when it was named */
}

/* --- one round --- */

/* Without one rank's values nobody is compared. */
static void which_values_count(void **state)
{
	(void)state;
	rounds(12, SEC);
	slow_one();
	for (int r = 0; r < 4; r++) {
		uint64_t window_ns = gpu[r].window_ns;

		gpu[r].window_ns = 0;
		assert_int_equal(rounds(12, SEC), 0);
		gpu[r].window_ns = window_ns;
	}
	assert_int_equal(rounds(12, SEC), 3);
}

static void which_activity_counts(void **state)
{
	(void)state;
	rounds(12, SEC);
	slow_one();
	for (int r = 0; r < 4; r++) {
		uint32_t tensor = gpu[r].tensor_bp, sm = gpu[r].sm_bp;

		gpu[r].tensor_bp = GPU_NO_VALUE;
		assert_int_equal(rounds(12, SEC), 0);
		gpu[r].tensor_bp = 199;
		assert_int_equal(rounds(12, SEC), 0);
		gpu[r].tensor_bp = tensor;
		gpu[r].sm_bp = GPU_NO_VALUE;
		assert_int_equal(rounds(12, SEC), 0);
		gpu[r].sm_bp = sm;
	}
	assert_int_equal(rounds(12, SEC), 3);
}

static void which_samples_are_one_round(void **state)
{
	static const uint64_t late[] = { 0, 399999999, 400000000 };

	for (int first = 0; first < 2; first++)
		for (int i = 0; i < 3; i++) {
			rounds(12, SEC);
			slow_one();
			for (int r = 0; r < 4; r++)
				late_ns[r] = (r == 0) == first ? late[i] : 0;
			assert_int_equal(!!rounds(12, SEC), i < 2);
			done(state);
			fresh(state);
		}
}

/* A sample that was taken is no new round. */
static void only_new_samples(void **state)
{
	(void)state;
	rounds(12, SEC);
	slow_one();
	rounds(2, SEC);
	for (int i = 0; i < 20; i++)
		assert_int_equal(look(), 0);
	assert_int_equal(rounds(1, SEC), 1);
}

/* --- past and present --- */

/* Eight rounds over eight seconds, and in steady state: what is slow itself is no past. */
static void how_long_a_past(void **state)
{
	static const struct {
		int rounds, every_ms, named;
	} cases[] = {
		{ 8, 2000, 4 },  { 7, 2000, 0 }, { 9, 2000, 3 }, { 8, 1000, 13 }, { 9, 1000, 4 },
		{ 10, 1000, 3 }, { 9, 999, 9 },  { 16, 500, 5 }, { 17, 500, 4 },  { 18, 500, 3 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		rounds(cases[i].rounds, cases[i].every_ms * MSEC);
		slow_one();
		assert_int_equal(rounds(16, SEC), cases[i].named);
		done(state);
		fresh(state);
	}
}

/* It is slow since the first of so many rounds as make up a second and a half. */
static void how_long_a_present(void **state)
{
	static const struct {
		int every_ms, rounds;
	} cases[] = { { 1000, 4 }, { 375, 4 }, { 370, 6 }, { 250, 6 }, { 249, 8 }, { 200, 8 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		rounds(60, cases[i].every_ms * MSEC);
		slow_one();
		assert_int_equal(rounds(3, cases[i].every_ms * MSEC), 3);
		assert_true(list.items[0].since_ns == now - (cases[i].rounds - 1) * cases[i].every_ms * MSEC);
		done(state);
		fresh(state);
	}
}

/* --- how far above, how far below --- */

static void how_much(void **state)
{
	static const struct {
		const char *what;
		int tensor, sm, fall, named;
	} cases[] = {
		{ "tensor activity rises", 410, 1000, 300, 4 },
		{ "it rises by less", 390, 1000, 300, 0 },
		{ "SM activity rises", 2000, 310, 1000, 4 },
		{ "it rises by less", 2000, 290, 1000, 0 },
		{ "SM activity falls: it spins", 2000, -500, 1000, 0 },
		{ "the others fall", 2000, 1000, 510, 3 },
		{ "they fall by less: no step takes longer", 2000, 1000, 490, 0 },
		{ "they rise", 2000, 1000, -1000, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int named;

		rounds(40, SEC);
		changes(cases[i].tensor, cases[i].sm, cases[i].fall);
		named = rounds(8, SEC);
		if (named != cases[i].named)
			fail_msg("%s: after %d, not %d", cases[i].what, named, cases[i].named);
		done(state);
		fresh(state);
	}
}

/* Of what scatters, six times the error of the mean. */
static void above_what_scatters(void **state)
{
	for (int far = 0; far < 2; far++) {
		for (int i = 0; i < 40; i++) {
			changes(i % 2 ? 300 : -300, i % 2 ? 300 : -300, 0);
			rounds(1, SEC);
		}
		changes(far ? 1500 : 700, far ? 1500 : 700, 2000);
		assert_int_equal(rounds(4, SEC) != 0, far);
		done(state);
		fresh(state);
	}
}

static void in_a_pause(void **state)
{
	static const int falls[] = { 7900, 8100 };

	for (int i = 0; i < 2; i++) {
		rounds(40, SEC);
		changes(0, 0, falls[i]);
		assert_int_equal(rounds(13, SEC), 0);
		changes(2000, 1000, falls[i]);
		assert_int_equal(rounds(4, SEC) != 0, i == 0);
		done(state);
		fresh(state);
	}
}

/* --- when it is over --- */

static void until_half_of_it_is_gone(void **state)
{
	static const struct {
		int tensor, sm;
		bool still;
	} cases[] = { { 210, 1000, true }, { 190, 1000, false }, { 2000, 160, true }, { 2000, 140, false } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		rounds(40, SEC);
		slow_one();
		rounds(4, SEC);
		assert_int_equal(list.n, 1);
		changes(cases[i].tensor, cases[i].sm, 1000);
		rounds(8, SEC);
		assert_int_equal(list.n, cases[i].still);
		done(state);
		fresh(state);
	}
}

/* --- how many --- */

static void also_busier(int r)
{
	gpu[r].tensor_bp = gpu[ODD].tensor_bp;
	gpu[r].sm_bp = gpu[ODD].sm_bp;
}

static void half_are_busier(void **state)
{
	(void)state;
	rounds(40, SEC);
	changes(2000, 1000, 3000);
	also_busier(0);
	assert_int_equal(rounds(4, SEC), 3);
	assert_int_equal(list.n, 2);
	assert_int_equal(list.items[0].ranks[0], 0);
	assert_int_equal(list.items[1].ranks[0], ODD);
}

static void most_are_busier(void **state)
{
	(void)state;
	job_of(5);
	rounds(40, SEC);
	changes(2000, 1000, 3000);
	also_busier(0);
	also_busier(1);
	assert_int_equal(rounds(8, SEC), 0);
}

static void more_than_are_compared(void **state)
{
	(void)state;
	job_of(RANKS_MAX);
	rounds(40, SEC);
	slow_one();
	also_busier(RANKS_MAX - 1);
	assert_int_equal(rounds(4, SEC), 3);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.items[0].ranks[0], ODD);
}

static void one_alone(void **state)
{
	(void)state;
	for (int r = 0; r < 4; r++)
		if (r != ODD) {
			struct event e = job_event(EV_EXIT, r, now);

			e.tid = e.tgid;
			e.exit.last = true;
			give(e);
		}
	rounds(40, SEC);
	slow_one();
	assert_int_equal(rounds(8, SEC), 0);
}

/* A rank less is another job: what was before is no past of it. */
static void a_rank_less(void **state)
{
	struct event e = job_event(EV_EXIT, 3, 0);

	(void)state;
	rounds(40, SEC);
	slow_one();
	rounds(4, SEC);
	assert_int_equal(list.n, 1);
	e.ts_ns = now;
	e.tid = e.tgid;
	e.exit.last = true;
	give(e);
	assert_int_equal(look(), 0);
	assert_int_equal(rounds(40, SEC), 0); /* slow from the start on */
	ranks = 3;
	changes(0, 0, 0);
	rounds(60, SEC);
	slow_one();
	assert_int_equal(rounds(4, SEC), 3);
}

/* Ranks of another host, of whose GPUs no sample came. */
static void beside_another_host(void **state)
{
	(void)state;
	for (int r = 4; r < 6; r++) {
		struct event e = job_proc_event(r, 6, now);

		e.node = 1;
		give(e);
		e = (struct event){ .kind = EV_GPU_PROCS, .ts_ns = now, .node = 1 };
		e.gpu_procs.index = r;
		e.gpu_procs.n = 1;
		e.gpu_procs.pids[0] = job_pid(r);
		give(e);
	}
	rounds(40, SEC);
	slow_one();
	assert_int_equal(rounds(4, SEC), 3);
}

/* --- beside the blame walk's finding --- */

static const struct finding *beside(enum finding_kind kind, enum finding_cause cause, int rank, int n_ranks)
{
	struct finding *f;

	list.n = 0;
	f = finding_list_add(&list);
	f->kind = kind;
	f->cause = cause;
	for (int i = 0; i < n_ranks; i++)
		finding_add_rank(f, rank + i, proc_key(0, job_pid(rank + i)));
	assert_int_equal(detector_gpu_duty.tick(state_of, m, &list), 0);
	return &list.items[0];
}

static void the_blame_walk_named_it(void **state)
{
	static const enum finding_cause of_gpu[] = { CAUSE_GPU_XID, CAUSE_GPU_THROTTLED, CAUSE_GPU_UNHEALTHY,
						     CAUSE_GPU };
	static const enum finding_cause open[] = { CAUSE_NONE, CAUSE_GPU_OR_UNKNOWN };
	const struct finding *f;

	(void)state;
	rounds(40, SEC);
	slow_one();
	rounds(4, SEC);
	for (int i = 0; i < 2; i++) {
		f = beside(FINDING_STRAGGLER, open[i], ODD, 1);
		assert_int_equal(list.n, 1);
		assert_int_equal(f->cause, CAUSE_GPU);
		assert_non_null(finding_evidence(f, EVIDENCE_TENSOR_PERCENT));
		assert_null(finding_evidence(f, EVIDENCE_BLAME_PERCENT)); /* that is its own */
	}
	for (int i = 0; i < 4; i++) {
		f = beside(FINDING_STRAGGLER, of_gpu[i], ODD, 1);
		assert_int_equal(list.n, 1);
		assert_int_equal(f->cause, of_gpu[i]);
		assert_non_null(finding_evidence(f, EVIDENCE_TENSOR_PERCENT));
	}
	f = beside(FINDING_STRAGGLER, CAUSE_CPU_STARVED, ODD, 1);
	assert_int_equal(list.n, 1);
	assert_int_equal(f->cause, CAUSE_CPU_STARVED);
	assert_int_equal(f->n_evidence, 0);
}

static void the_blame_walk_named_others(void **state)
{
	(void)state;
	rounds(40, SEC);
	slow_one();
	rounds(4, SEC);
	assert_int_equal(beside(FINDING_STRAGGLER, CAUSE_NONE, ODD - 1, 1)->n_evidence, 0);
	assert_int_equal(list.n, 2);
	assert_int_equal(beside(FINDING_STRAGGLER, CAUSE_NONE, ODD, 2)->n_evidence, 0);
	assert_int_equal(list.n, 2);
	assert_int_equal(beside(FINDING_HANG, CAUSE_NONE, ODD, 1)->n_evidence, 0);
	assert_int_equal(list.n, 2);
	assert_int_equal(list.items[1].kind, FINDING_STRAGGLER);
	assert_int_equal(list.items[1].ranks[0], ODD);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(what_is_said),
		TEST(which_values_count),
		TEST(which_activity_counts),
		TEST(which_samples_are_one_round),
		TEST(only_new_samples),
		TEST(how_long_a_past),
		TEST(how_long_a_present),
		TEST(how_much),
		TEST(above_what_scatters),
		TEST(in_a_pause),
		TEST(until_half_of_it_is_gone),
		TEST(half_are_busier),
		TEST(most_are_busier),
		TEST(more_than_are_compared),
		TEST(one_alone),
		TEST(a_rank_less),
		TEST(beside_another_host),
		TEST(the_blame_walk_named_it),
		TEST(the_blame_walk_named_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
