/* SPDX-License-Identifier: Apache-2.0
 *
 * test_rank_steps.c - the iteration clocks of ranks that are threads of one process. The threads call in an order that
 * is drawn; each rank's calls repeat, in whatever communicators they are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "detect/hang/habit.h"
#include "sink/sink.h"
#include "tests/unit/job/job_script.h"
#include "tests/unit/job/model_copy.h"

#define TGID 1000
#define RANKS 3
#define WORLD 0x100 /* of all */
#define PAIR 0x200  /* of ranks 0 and 1 */

static struct model *m;
static uint64_t now, rng;
static const char *words[RANKS]; /* what each rank calls in a step: a capital in PAIR, the letter is the size */

static void give(int rank, struct event e)
{
	e.tgid = TGID;
	e.tid = TGID + 1 + (uint32_t)rank;
	e.ts_ns = now += MSEC / 10 + random_next(&rng) % (MSEC / 10);
	assert_int_equal(model_apply(m, &e), 0);
}

static void join(int rank, uint64_t comm, int nranks)
{
	struct event e = job_seen_event(rank, nranks, comm + (uint64_t)rank, comm);

	give(rank, job_ready_event(rank, nranks, comm + (uint64_t)rank, comm));
	e.comm_seen.device = 4 + rank;
	give(rank, e);
}

static void call(int rank, char letter)
{
	uint64_t comm = letter < 'a' ? PAIR : WORLD;

	give(rank, job_call_event(rank, OP_ALLREDUCE, comm + (uint64_t)rank, comm + (uint64_t)rank, letter));
}

static void tick(void)
{
	give(0, (struct event){ .kind = EV_TICK });
	while (model_next_ended(m))
		;
}

/* A step of all ranks: which thread is next is drawn. */
static void step(void)
{
	size_t at[RANKS] = { 0 }, left = 0;

	for (int r = 0; r < RANKS; r++)
		left += strlen(words[r]);
	while (left) {
		int r = (int)(random_next(&rng) % RANKS);

		if (!words[r][at[r]])
			continue;
		call(r, words[r][at[r]++]);
		left--;
	}
	now += 100 * MSEC;
}

static void steps(int n)
{
	for (int i = 0; i < n; i++) {
		step();
		tick();
	}
}

static int fresh(void **state)
{
	(void)state;
	rng = test_seed();
	now = JOB_T0;
	m = model_new();
	words[0] = "abcABc";
	words[1] = "abcABc";
	words[2] = "abdd";
	for (int r = 0; r < RANKS; r++)
		join(r, WORLD, RANKS);
	join(0, PAIR, 2);
	join(1, PAIR, 2);
	return 0;
}

static int done(void **state)
{
	(void)state;
	model_free(m);
	return 0;
}

static struct proc *proc(void)
{
	return (struct proc *)model_proc(m, TGID);
}

static void each_has_its_own(void **state)
{
	(void)state;
	steps(12);
	assert_true(proc()->shared && proc()->by_threads);
	assert_int_equal(proc()->steps->period_ops, 0); /* of all threads together nothing repeats */
	for (int r = 0; r < RANKS; r++) {
		const struct steps *s = rank_steps(proc(), r);

		assert_int_equal(s->period_ops, strlen(words[r]));
		assert_in_range(s->n, 8, 12); /* since it was found */
		assert_true(s->median_s > 0.09 && s->median_s < 0.12);
	}
	assert_true(rank_steps(proc(), 0)->role == rank_steps(proc(), 1)->role);
	assert_true(rank_steps(proc(), 0)->role != rank_steps(proc(), 2)->role);
	assert_int_equal(rank_steps(proc(), 7)->period_ops, 0); /* no such rank */
	for (const struct member *mb = proc()->members; mb; mb = mb->next_in_proc)
		assert_ptr_equal(member_steps(mb), rank_steps(proc(), mb->rank));
}

/* Another shape of rank 2's step: its clock alone begins anew. */
static void one_breaks(void **state)
{
	uint64_t n;

	(void)state;
	steps(40);
	n = rank_steps(proc(), 0)->n;
	words[2] = "xyz";
	steps(1);
	assert_int_equal(rank_steps(proc(), 2)->period_ops, 0);
	steps(9);
	assert_int_equal(rank_steps(proc(), 2)->period_ops, 3);
	assert_int_equal(rank_steps(proc(), 0)->n, n + 10);
}

static void its_step_number(void **state)
{
	uint64_t before[RANKS], after;

	(void)state;
	steps(1);
	for (int r = 0; r < RANKS; r++)
		assert_false(rank_step(proc(), r, &after));
	steps(12);
	for (int r = 0; r < RANKS; r++)
		assert_true(rank_step(proc(), r, &before[r]));
	steps(5);
	for (int r = 0; r < RANKS; r++) {
		assert_true(rank_step(proc(), r, &after));
		assert_int_equal(after, before[r] + 5);
	}
	assert_false(rank_step(proc(), 7, &after));
}

/* One step of a rank back from its newest call is the same call, `period` earlier by the clock's count. */
static void its_operations_in_order(void **state)
{
	(void)state;
	steps(12);
	for (const struct member *mb = proc()->members; mb; mb = mb->next_in_proc) {
		const struct op *op = mb->ops_tail, *old = op;
		size_t period = member_steps(mb)->period_ops;

		for (size_t i = 0; i < period; i++) {
			old = op_before(old);
			assert_int_equal(old->member->device, mb->device);
			assert_int_equal(op_clock_nth(old), op_clock_nth(op) - i - 1);
		}
		assert_ptr_equal(old->member, mb);
		assert_int_equal(old->count, op->count);
	}
}

/* What is kept of a rank's operations has the numbers that it had. */
static void numbers_come_over(struct model *of)
{
	const struct member *a = proc()->members, *b;

	for (; a; a = a->next_in_proc) {
		b = model_proc(of, TGID)->members;
		while (b->addr != a->addr)
			b = b->next_in_proc;
		assert_int_equal(op_clock_nth(b->ops_tail), op_clock_nth(a->ops_tail));
		assert_int_equal(op_clock_nth(op_before(b->ops_tail)), op_clock_nth(a->ops_tail) - 1);
	}
}

/* A snapshot's model counts on as the one that it is of. */
static void goes_on_from_a_snapshot(void **state)
{
	struct model *first = m;
	struct model_copy copy;
	uint64_t t, seed, want[RANKS], got, n[RANKS];

	(void)state;
	steps(100); /* more than is kept */
	model_copy(first, &copy);
	numbers_come_over(copy.m);
	t = now;
	seed = rng;
	steps(3);
	for (int r = 0; r < RANKS; r++) {
		assert_true(rank_step(proc(), r, &want[r]));
		n[r] = rank_steps(proc(), r)->n;
	}
	m = copy.m;
	now = t;
	rng = seed;
	assert_true(proc()->by_threads);
	steps(3);
	for (int r = 0; r < RANKS; r++) {
		assert_true(rank_step(proc(), r, &got));
		assert_int_equal(got, want[r]);
		assert_int_equal(rank_steps(proc(), r)->n, n[r]);
		assert_true(rank_steps(proc(), r)->median_s > 0.09);
	}
	model_free(copy.m);
	model_copy_free(&copy);
	m = first;
}

/* A pause is counted by the iterations of the rank whose thread it is. */
static void a_pause_knows_its_step(void **state)
{
	struct pause_place at = { .first_ns = 0 };

	(void)state;
	steps(30);
	words[2] = "q";
	steps(12);
	assert_true(rank_steps(proc(), 2)->n != rank_steps(proc(), 0)->n);
	pause_place_read(&at, m, proc(), TGID + 1, now);
	assert_int_equal(at.steps, rank_steps(proc(), 0)->n);
	at = (struct pause_place){ .first_ns = 0 };
	pause_place_read(&at, m, proc(), TGID + 3, now);
	assert_int_equal(at.steps, rank_steps(proc(), 2)->n);
}

/* Compiling and tuning are over when some rank's iterations are known, long before a hundred operations. */
static void its_communicators_are_warm(void **state)
{
	const struct comm *c = m->comms;

	(void)state;
	while (c->hash != WORLD)
		c = c->next;
	steps(2);
	assert_int_equal(comm_lag_limit_ns(m, c), COMM_WARMUP_NS);
	steps(12);
	assert_true(c->n_complete < COMM_WARMUP_OPS_SHARED);
	assert_true(comm_lag_limit_ns(m, c) < COMM_WARMUP_NS / 4);
}

/* Another program: nothing of the old ranks is left. */
static void an_exec_forgets(void **state)
{
	uint64_t step;

	(void)state;
	steps(12);
	give(0, (struct event){ .kind = EV_EXEC });
	assert_false(proc()->by_threads);
	for (int r = 0; r < RANKS; r++)
		assert_false(rank_step(proc(), r, &step));
	for (int r = 0; r < RANKS; r++)
		join(r, WORLD, RANKS);
	words[0] = words[1] = "abcc";
	steps(2);
	assert_true(proc()->by_threads);
	assert_int_equal(rank_steps(proc(), 2)->period_ops, 0); /* though it calls as before */
}

/* --- as replay --steps prints them --- */

static void print_lines(void)
{
	char path[] = "/tmp/ranktrace-rank-steps-XXXXXX", line[256], want[64];
	struct sink *sink;
	FILE *f;

	close(mkstemp(path));
	assert_int_equal(sink_steps.open(path, &sink), 0);
	assert_int_equal(sink_steps.close(sink, m), 0);
	f = fopen(path, "r");
	for (int r = 0; r < RANKS; r++) {
		assert_non_null(fgets(line, sizeof(line), f));
		snprintf(want, sizeof(want), "{\"rank\":%d,\"pid\":%d,\"gpu\":%d,\"period_ops\":%zu,", r, TGID, 4 + r,
			 strlen(words[r]));
		assert_ptr_equal(strstr(line, want), line);
	}
	assert_null(fgets(line, sizeof(line), f));
	fclose(f);
	unlink(path);
}

/* Also at the job's end, when its communicators are over. */
static void a_line_a_rank(void **state)
{
	(void)state;
	steps(12);
	print_lines();
	for (struct member *mb = proc()->members; mb; mb = mb->next_in_proc) {
		struct event e = { .kind = EV_COMM_GONE };

		assert_false(rank_above(proc(), mb->rank - 1)->gone);
		e.comm_gone.addr = mb->addr;
		give(0, e);
		assert_true(mb->gone);
	}
	print_lines();
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(each_has_its_own),
		TEST(one_breaks),
		TEST(its_step_number),
		TEST(its_operations_in_order),
		TEST(goes_on_from_a_snapshot),
		TEST(a_pause_knows_its_step),
		TEST(its_communicators_are_warm),
		TEST(an_exec_forgets),
		TEST(a_line_a_rank),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
