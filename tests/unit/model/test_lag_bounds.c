/* SPDX-License-Identifier: Apache-2.0
 *
 * test_lag_bounds.c - what a communicator is used to, against the lags themselves, sorted: its habit, its rare lags,
 * how long its operations take, and the limits that follow from these. And who must have entered before an operation
 * can begin.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"

enum { COMM = 7, HASH = 97, STREAM = 100, RANKS = 3 };

static struct model *m;
static uint64_t now;

static void give(struct event e)
{
	e.ts_ns = now;
	assert_int_equal(model_apply(m, &e), 0);
}

static void ranks_come(int n, uint64_t start_ns)
{
	for (int r = 0; r < n; r++) {
		struct event e = job_proc_event(r, n, 0);

		e.proc.start_ns = start_ns;
		give(e);
	}
}

static int fresh(void **state)
{
	(void)state;
	now = JOB_T0;
	m = model_new();
	ranks_come(RANKS, 1);
	return 0;
}

static int done(void **state)
{
	(void)state;
	model_free(m);
	return 0;
}

static void comm_made(int n)
{
	for (int r = 0; r < n; r++)
		give(job_ready_event(r, n, COMM, HASH));
}

static const struct comm *comm(void)
{
	const struct comm *c = m->comms;

	while (c && c->hash != HASH)
		c = c->next;
	assert_non_null(c);
	return c;
}

static const struct member *member(int r)
{
	return comm()->by_rank[r];
}

static void call(int r, enum op_kind kind, uint64_t count)
{
	struct event e = job_call_event(r, kind, COMM, STREAM, count);

	if (op_kind_p2p(kind))
		e.op.peer = 1 - r;
	if (kind == OP_BROADCAST || kind == OP_REDUCE || kind == OP_GATHER || kind == OP_SCATTER)
		e.op.root = 0;
	give(e);
}

/* Of two ranks, one behind the other; no two are alike, so that no iterations are known. */
static void late_by(uint64_t ns)
{
	static uint64_t count;

	now += 100 * MSEC;
	call(0, OP_ALLREDUCE, ++count);
	now += ns;
	call(1, OP_ALLREDUCE, count);
}

static uint64_t limit_ns(void)
{
	return comm_lag_limit_ns(m, comm());
}

static void warm_up(void)
{
	comm_made(2);
	for (int i = 0; i < COMM_WARMUP_OPS_MAX; i++)
		late_by(20 * SEC); /* as slow as it may be: none of it counts */
	assert_int_equal(limit_ns(), COMM_WARMUP_NS);
	assert_true(comm()->lag_habit_s == 0 && comm()->lag_p999_s == 0);
}

/* --- what it is used to --- */

static int by_length(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Rounded up, by an eighth at most. */
static bool is_rounded(double shown_s, uint64_t ns)
{
	return shown_s > ns * 1e-9 - 1e-12 && shown_s <= ns * 1e-9 * 1.126 + 1e-6;
}

static void habits_of_drawn_lags(void **state)
{
	uint64_t rng = test_seed(), all[1200], sorted[1200];

	(void)state;
	warm_up();
	for (size_t n = 1; n <= 1200; n++) {
		size_t beyond = n * (1 - 0.98) < 2 ? 2 : (size_t)(n * (1 - 0.98));

		all[n - 1] = (uint64_t)(1000 * pow(1.4e6, (random_next(&rng) % 10000) / 1e4)); /* 1 us to 1.4 s */
		late_by(all[n - 1]);
		if (n > 10 && n % 97 && n != 999 && n != 1000)
			continue;
		memcpy(sorted, all, n * sizeof(*all));
		qsort(sorted, n, sizeof(*all), by_length);
		if (n <= beyond ? comm()->lag_habit_s != 0 : !is_rounded(comm()->lag_habit_s, sorted[beyond]))
			fail_msg("%zu lags: %.6f s, not %.6f", n, comm()->lag_habit_s, sorted[beyond] * 1e-9);
		if (!is_rounded(comm()->lag_p999_s, sorted[n >= 1000]))
			fail_msg("%zu lags, the rarest: %.6f s, not %.6f", n, comm()->lag_p999_s,
				 sorted[n >= 1000] * 1e-9);
	}
}

/* One communicator each, as each learns from what it saw. */
static void limits_follow_from_habits(void **state)
{
	static const struct {
		double lag_s, limit_s; /* the limit, without its rounding by an eighth */
	} cases[] = { { 0.001, 1.5 }, { 0.2, 1.5 },     { 0.4, 0.4 * 5 }, { 0.7, 0.7 * 5 },
		      { 0.9, 4.0 },   { 1.2, 1.2 + 3 }, { 4, 4 + 3 },     { 12, 12 + 3 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		double s;

		model_free(m);
		fresh(NULL);
		warm_up();
		for (int k = 0; k < 4; k++)
			late_by((uint64_t)(cases[i].lag_s * 1e9));
		s = limit_ns() * 1e-9;
		if (s < cases[i].limit_s - 1e-6 || s > cases[i].limit_s * 1.125 + 0.01)
			fail_msg("%.3f s: a limit of %.3f s", cases[i].lag_s, s);
	}
}

/* Rare lags count five times, up to four seconds; a pause beyond the limit is none of them. */
static void rare_lags(void **state)
{
	(void)state;
	warm_up();
	for (int i = 0; i < 200; i++)
		late_by(MSEC);
	assert_int_equal(limit_ns(), m->hang_floor_ns);
	late_by(500 * MSEC);
	assert_true(limit_ns() >= 2500 * MSEC && limit_ns() <= 2900 * MSEC);
	late_by(4 * SEC); /* reported: it teaches nothing */
	assert_true(limit_ns() >= 2500 * MSEC && limit_ns() <= 2900 * MSEC);
	late_by(2 * SEC);
	assert_int_equal(limit_ns(), 4 * SEC);
}

/* One in a thousand is chance: of 999 it is the longest, of 1000 the second. */
static void one_in_a_thousand(void **state)
{
	(void)state;
	warm_up();
	late_by(500 * MSEC);
	for (int n = 2; n <= 1001; n++) {
		late_by(MSEC);
		if (n < 1000 ? comm()->lag_p999_s < 0.5 : comm()->lag_p999_s > 0.0012)
			fail_msg("%d lags: %f s", n, comm()->lag_p999_s);
	}
	late_by(400 * MSEC);
	assert_true(comm()->lag_p999_s > 0.4 && comm()->lag_p999_s < 0.46);
}

/* A lag of the floor itself is no pause: above it, it is. */
static void lags_at_the_limit(void **state)
{
	(void)state;
	warm_up();
	for (int i = 0; i < 200; i++)
		late_by(MSEC);
	late_by(m->hang_floor_ns + 1);
	assert_true(comm()->lag_p999_s < 0.01);
	late_by(m->hang_floor_ns);
	assert_true(comm()->lag_p999_s > 1.4);
}

/* 205 of 4096 took three seconds. What was before weighs half, again and again. */
static void a_job_may_change(void **state)
{
	int n = 0;

	(void)state;
	warm_up();
	for (int i = 0; i < 4096; i++)
		late_by(i % 20 ? MSEC : 3 * SEC);
	assert_true(comm()->lag_habit_s > 2.9);
	for (; comm()->lag_habit_s > 1 && n < 9000; n++)
		late_by(MSEC);
	assert_in_range(n, 2450, 2650);
}

static void warm_when(void **state)
{
	(void)state;
	warm_up();
	late_by(MSEC);
	assert_int_equal(limit_ns(), m->hang_floor_ns);
}

/* Two ranks in each process: their calls show no iterations, and are warm sooner. */
static void warm_when_shared(void **state)
{
	(void)state;
	for (int r = 0; r < 2; r++) {
		struct event e = job_ready_event(0, 2, COMM + r, HASH);

		e.comm_init.rank = r;
		give(e);
	}
	for (uint64_t i = 1; i <= COMM_WARMUP_OPS_SHARED + 1; i++) {
		assert_int_equal(limit_ns(), COMM_WARMUP_NS);
		for (int r = 0; r < 2; r++) {
			now += MSEC;
			give(job_call_event(0, OP_ALLREDUCE, COMM + r, STREAM, i));
		}
	}
	assert_int_equal(limit_ns(), m->hang_floor_ns);
}

static void iterations_make_warm(void **state)
{
	(void)state;
	comm_made(2);
	for (int i = 0; i < 12; i++)
		for (int r = 0; r < 2; r++) {
			now += MSEC;
			call(r, OP_ALLREDUCE, 1 + i % 2);
		}
	assert_int_equal(limit_ns(), COMM_WARMUP_NS);
	give((struct event){ .kind = EV_TICK });
	late_by(MSEC);
	assert_int_equal(limit_ns(), m->hang_floor_ns);
	for (int r = 0; r < 2; r++) { /* made anew, in processes that are warm */
		struct event e = job_event(EV_COMM_GONE, r, 0);

		e.comm_gone.addr = COMM;
		give(e);
		give(job_ready_event(r, 2, COMM, 98));
	}
	for (int i = 0; i <= COMM_WARMUP_OPS; i++) {
		const struct comm *c = model_proc(m, job_pid(0))->members->comm;

		assert_int_equal(c->hash, 98);
		assert_int_equal(comm_lag_limit_ns(m, c), COMM_WARMUP_NS);
		late_by(MSEC);
	}
	assert_int_equal(comm_lag_limit_ns(m, model_proc(m, job_pid(0))->members->comm), m->hang_floor_ns);
}

/* --- how long operations take --- */

static void takes(uint64_t ns)
{
	struct event e = job_event(EV_SYNC_END, 0, 0);

	now += SEC;
	call(0, OP_ALLREDUCE, 3);
	call(1, OP_ALLREDUCE, 3);
	e.sync.handle = STREAM;
	e.sync.begin_ns = now;
	now += ns;
	give(e);
}

static void durations(void **state)
{
	(void)state;
	comm_made(2);
	takes(20 * MSEC);
	assert_true(is_rounded(comm()->duration_p999_s, 20 * MSEC));
	takes(10 * SEC + 1); /* a hang, and none the next time, however long */
	assert_true(is_rounded(comm()->duration_p999_s, 20 * MSEC));
	takes(9 * SEC);
	assert_true(is_rounded(comm()->duration_p999_s, 9 * SEC));
	takes(44 * SEC); /* five times as long as what was */
	assert_true(is_rounded(comm()->duration_p999_s, 44 * SEC));
	takes(300 * SEC);
	assert_true(is_rounded(comm()->duration_p999_s, 44 * SEC));
	assert_int_equal(comm()->n_ended, 5);
}

/* --- by samples --- */

static void sampled(int r, uint64_t n)
{
	struct event e = job_event(EV_COMM_SAMPLE, r, 0);

	e.comm_sample.comm = COMM;
	e.comm_sample.hash = HASH;
	e.comm_sample.rank = r;
	e.comm_sample.nranks = 2;
	e.comm_sample.n_counters = OP_KINDS_COUNTED;
	e.comm_sample.counters[OP_ALLREDUCE] = n;
	give(e);
}

/* Two ranks of a model of their own, that were started then. */
static void begin_anew(uint64_t now_ns, uint64_t start_ns)
{
	model_free(m);
	m = model_new();
	now = now_ns;
	ranks_come(2, start_ns);
}

/* Nothing but its age says whether it takes long over one operation. */
static void sampled_once(void **state)
{
	static const struct {
		uint64_t n;
		double age_s;
		bool quick;
	} cases[] = { { 9, 1, false }, { 10, 1, true }, { 10, 5, true }, { 10, 5.1, false }, { 1000, 499, true } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin_anew(1000 * SEC, 1000 * SEC - (uint64_t)(cases[i].age_s * 1e9));
		sampled(0, cases[i].n);
		assert_int_equal(limit_ns(), cases[i].quick ? m->hang_floor_ns : COMM_CARE_NS);
	}
}

/* Seen to go on three times, or by ten operations, it is known. */
static void sampled_again(void **state)
{
	static const struct {
		uint64_t each, looks;
		bool known;
	} cases[] = {
		{ 1, 2, false }, { 1, 3, true }, { 4, 2, false }, { 5, 2, true }, { 9, 1, false }, { 10, 1, true }
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin_anew(100000 * SEC, 1);
		for (uint64_t k = 0; k <= cases[i].looks; k++) {
			sampled(0, 100 + k * cases[i].each);
			now += SEC;
		}
		assert_int_equal(limit_ns(), cases[i].known ? m->hang_floor_ns : COMM_CARE_NS);
	}
}

/* Rank 0 stands ahead for three seconds, and may have gone on when rank 1 is seen to come; or it never stands. */
static void sampled_late(void **state)
{
	static const struct {
		uint64_t ahead, each, last;
		bool late;
	} cases[] = { { 101, 0, 101, true }, { 101, 0, 102, true }, { 101, 1, 104, false }, { 100, 0, 100, false } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin_anew(100000 * SEC, 1);
		for (int k = 0; k < 4; k++, now += SEC) {
			sampled(0, k ? cases[i].ahead + (k - 1) * cases[i].each : 100);
			sampled(1, 100);
		}
		sampled(0, cases[i].last);
		sampled(1, 101);
		assert_true(cases[i].late ? is_rounded(comm()->lag_habit_s, 3 * SEC) : comm()->lag_habit_s < 1e-3);
	}
}

/* --- who must have entered --- */

static uint64_t begins_not_before(enum op_kind kind, int waits, int r)
{
	const struct op *op;
	struct event e;
	uint64_t before, by_then;

	model_free(m);
	fresh(NULL);
	comm_made(RANKS);
	for (int k = 0; k < RANKS; k++) {
		int who = (waits + k) % RANKS; /* the one that waits is first */

		now += MSEC;
		if (!op_kind_p2p(kind) || who < 2)
			call(who,
			     who == 1 && kind == OP_RECV   ? OP_SEND
			     : who == 1 && kind == OP_SEND ? OP_RECV
							   : kind,
			     5);
	}
	by_then = model_proc(m, job_pid(r))->last_op->enqueue_ns;
	before = model_proc(m, job_pid(waits))->last_op->enqueue_ns;
	e = job_event(EV_SYNC_END, waits, 0);
	e.sync.handle = STREAM;
	e.sync.begin_ns = now;
	now += MSEC;
	give(e);
	op = model_proc(m, job_pid(waits))->last_op;
	assert_true(op->end_ns == now);
	assert_true(op->start_bound_ns == before || op->start_bound_ns == by_then);
	return op->start_bound_ns == before ? 0 : by_then - before;
}

static void who_must_have_entered(void **state)
{
	static const struct {
		enum op_kind kind;
		int waits, for_whom; /* the root is rank 0; -1: for nobody */
	} cases[] = {
		{ OP_ALLREDUCE, 0, 2 },  { OP_ALLGATHER, 1, 0 }, { OP_REDUCESCATTER, 2, 1 }, { OP_BROADCAST, 1, 0 },
		{ OP_BROADCAST, 0, -1 }, { OP_SCATTER, 2, 0 },   { OP_SCATTER, 0, -1 },      { OP_REDUCE, 0, 2 },
		{ OP_REDUCE, 1, -1 },    { OP_GATHER, 0, 2 },    { OP_GATHER, 2, -1 },       { OP_RECV, 0, 1 },
		{ OP_SEND, 0, -1 },      { OP_ALLTOALL, 0, -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int whom = cases[i].for_whom;
		uint64_t ns = begins_not_before(cases[i].kind, cases[i].waits, whom < 0 ? 1 : whom);

		if ((ns == 0) != (whom < 0))
			fail_msg("%s of rank %d: %llu ns", op_kind_name(cases[i].kind), cases[i].waits,
				 (unsigned long long)ns);
	}
}

/* An operation that all wait for is over, and one did not enter it as far as was seen: its numbers are wrong. */
static void over_without_all(void **state)
{
	static const struct {
		enum op_kind kind;
		bool wrong;
	} cases[] = { { OP_ALLTOALL, true }, { OP_GATHER, false }, { OP_SCATTER, false }, { OP_ALLREDUCE, false } };
	struct event e = job_event(EV_SYNC_END, 0, 0);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		model_free(m);
		fresh(NULL);
		comm_made(RANKS);
		for (int r = 0; r < RANKS; r++)
			call(r, cases[i].kind, 5);
		for (int r = 0; r < RANKS - 1; r++) /* a second one, not seen of the last rank */
			call(r, cases[i].kind, 5);
		e.sync.handle = STREAM;
		e.sync.begin_ns = now;
		now += MSEC;
		give(e);
		assert_int_equal(member(2)->blind, cases[i].wrong);
		assert_false(member(0)->blind);
		assert_false(member(1)->blind);
	}
}

/* Numbers of transfers of one that was met late are no other's: nothing is learnt of them. */
static void transfers_of_one_met_late(void **state)
{
	(void)state;
	for (int late = 0; late < 4; late++) {
		model_free(m);
		fresh(NULL);
		for (int r = 0; r < 2; r++)
			give(late >> r & 1 ? job_seen_event(r, 2, COMM, HASH) : job_ready_event(r, 2, COMM, HASH));
		call(0, OP_SEND, 5);
		now += MSEC;
		call(1, OP_RECV, 5);
		assert_int_equal(comm()->n_complete, !late);
		call(1, OP_SEND, 5);
		now += MSEC;
		call(0, OP_RECV, 5);
		assert_int_equal(comm()->n_complete, late ? 0 : 2);
	}
}

/* Whom all known members had entered before it was met enters the same: that was counted, and is not again. */
static void one_met_only_later(void **state)
{
	(void)state;
	for (int r = 0; r < 2; r++)
		give(job_ready_event(r, RANKS, COMM, HASH));
	for (int r = 0; r < 2; r++)
		call(r, OP_ALLREDUCE, 1);
	assert_int_equal(comm()->n_complete, 1);
	give(job_ready_event(2, RANKS, COMM, HASH));
	now += 9 * SEC;
	call(2, OP_ALLREDUCE, 1);
	assert_int_equal(comm()->n_complete, 1);
	for (int r = 0; r < RANKS; r++)
		call(r, OP_ALLREDUCE, 1);
	assert_int_equal(comm()->n_complete, 2);
}

/* The newest entry counts, in whichever order records come; an old one's slot is taken some day. */
static void entries(void **state)
{
	uint64_t first = now;

	(void)state;
	comm_made(2);
	now = first + 5 * MSEC;
	call(0, OP_ALLREDUCE, 1);
	now = first + 2 * MSEC;
	call(1, OP_ALLREDUCE, 1);
	assert_int_equal(comm_entry_ns(comm(), SEQ_COLL, 0), first + 5 * MSEC);
	assert_int_equal(comm_entry_ns(comm(), SEQ_COLL, 1), 0);
	assert_int_equal(comm_entry_ns(comm(), SEQ_GRAPH, 0), 0);
	assert_int_equal(comm()->n_complete, 1);
	for (int i = 0; i < 100000 && comm_entry_ns(comm(), SEQ_COLL, 0); i++) {
		now += MSEC;
		call(0, OP_ALLREDUCE, 1);
	}
	assert_int_equal(comm_entry_ns(comm(), SEQ_COLL, 0), 0);
	assert_int_equal(comm_entry_ns(comm(), SEQ_COLL, comm()->highest_seq[SEQ_COLL] - 1), now);
	now += MSEC;
	call(1, OP_ALLREDUCE, 1); /* far behind, but not so far that its slot is taken */
	assert_int_equal(comm_entry_ns(comm(), SEQ_COLL, 1), now);
	assert_int_equal(comm()->n_complete, 2);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(habits_of_drawn_lags),
		TEST(limits_follow_from_habits),
		TEST(rare_lags),
		TEST(one_in_a_thousand),
		TEST(lags_at_the_limit),
		TEST(a_job_may_change),
		TEST(warm_when),
		TEST(warm_when_shared),
		TEST(iterations_make_warm),
		TEST(durations),
		TEST(sampled_once),
		TEST(sampled_again),
		TEST(sampled_late),
		TEST(who_must_have_entered),
		TEST(over_without_all),
		TEST(transfers_of_one_met_late),
		TEST(one_met_only_later),
		TEST(entries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
